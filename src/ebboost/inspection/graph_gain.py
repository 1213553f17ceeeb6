"""Gain of the graph: the default fit, which compares models without and with it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse import csgraph
from sklearn.utils import check_random_state

from ebboost.boosting.callbacks import Callback, unless_interrupted
from ebboost.data.table import Table
from ebboost.estimators import EBBSClassifier, EBBSRegressor
from ebboost.graph import Graph
from ebboost.graph.ids import as_row_numbers
from ebboost.inspection.formatting import figure, percent
from ebboost.model.state import FittedState, GraphGain

Nodes = NDArray[np.int64]
MAX_NODES = 20_000
CLEAR = 3.0  # standard errors of the gain


@dataclass(frozen=True)
class Estimate(GraphGain):
    """What the graph is worth: errors at labels not trained on, and the selected parts."""

    choice: str  # the selected candidates, of which the mean is the model; "none": no graph
    n_nodes: int  # of the part of the graph that was used

    @property
    def gain_text(self) -> str:
        """The gain and its standard error with the same number of decimals."""
        if self.standard_error <= 0:
            return f"{figure(self.gain, 3)} ± 0"
        decimals = max(1 - int(np.floor(np.log10(self.standard_error))), 0)
        return f"{self.gain:,.{decimals}f} ± {self.standard_error:,.{decimals}f}"

    @property
    def verdict(self) -> str:
        """The conclusion in one sentence."""
        if self.choice == "none":
            return "The graph is not used: plain boosting is as good."
        # The best of several candidates is better by two standard errors by chance, too.
        if self.gain > CLEAR * self.standard_error:
            change = percent(self.relative)
            return f"The graph helps: the {self.metric} at held-out labels falls by {change}."
        if self.is_harm:
            return "The graph does harm: use plain boosting."
        return "The graph adds little: the difference is within three standard errors."


def estimate_of(state: FittedState) -> Estimate | None:
    """Return what a fitted model says about its graph; None where none was compared."""
    if state.gain is None:
        return None
    choice = "; ".join(state.candidate_names)
    return Estimate(**vars(state.gain), choice=choice, n_nodes=state.n_nodes)


def estimate_gain(
    table: Table,
    nodes: Nodes,
    values: NDArray[Any],
    graph: Graph,
    classes: bool,
    random_state: int | RandomState | None,
    callbacks: Sequence[Callback],
) -> Estimate | None:
    """Fit the default estimator, and return what the graph is worth in it."""
    X = table.values
    truth = np.empty(table.n_rows, dtype=values.dtype)
    truth[nodes] = values
    if table.n_rows > MAX_NODES:
        part = _connected_part(graph, nodes, check_random_state(random_state))
        X = X[part]
        truth = truth[part]
        nodes = np.flatnonzero(np.isin(part, nodes))
        graph = Graph(sparse.csr_array(graph.adjacency[part][:, part]))
    kind = EBBSClassifier if classes else EBBSRegressor
    model = kind(categorical_features=list(table.categorical), random_state=random_state)
    model.fit(X, truth[nodes], nodes=as_row_numbers(nodes), graph=graph, callbacks=callbacks)
    return estimate_of(unless_interrupted(model).state_)


def _connected_part(graph: Graph, nodes: Nodes, random: RandomState) -> Nodes:
    """At most MAX_NODES nodes, breadth first from labelled nodes at random."""
    part = np.zeros(graph.n_nodes, dtype=bool)
    for start in random.permutation(nodes):
        if part[start]:
            continue
        n_more = MAX_NODES - int(part.sum())
        if n_more <= 0:
            break
        order, _ = csgraph.breadth_first_order(graph.adjacency, start, directed=False)
        part[order[:n_more]] = True
    return np.flatnonzero(part)
