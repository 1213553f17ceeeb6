"""Gain of the graph: a short cross-validation of the same trees with and without it.

Both use the same folds. The standard error comes from paired differences: the larger of that over
nodes and that over folds.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse import csgraph

from ebboost.boosting.callbacks import unless_interrupted
from ebboost.data.table import Table
from ebboost.estimators import EBBSClassifier, EBBSRegressor
from ebboost.graph import Graph
from ebboost.inspection.formatting import figure, percent
from ebboost.model_selection.splitters import GraphBlockFold, labelled_folds

Array = NDArray[np.float64]
Nodes = NDArray[np.int64]
Progress = Callable[[int, int], None]
ROUNDS = 300
MAX_NODES = 20_000


@dataclass(frozen=True)
class Estimate:
    """What the graph adds, by cross-validation.

    Attributes
    ----------
    metric : str
        ``"RMSE"`` (less is better) or ``"accuracy"``.
    without, with_graph : float
        The metric over all folds.
    gain : float
        Improvement by the graph; negative if the graph does harm.
    standard_error : float
        Of the gain.
    choices : list of str
        Selected candidate of each fold; ``"none"``: without the graph.
    folds : str
        ``"random"`` or ``"blocks"``.
    n_nodes, n_labels : int
        Size of the part of the data that was used.
    """

    metric: str
    without: float
    with_graph: float
    gain: float
    standard_error: float
    choices: list[str]
    folds: str
    n_nodes: int
    n_labels: int

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
        if set(self.choices) == {"none"}:
            return "The graph was not used in any fold: plain boosting did as well."
        if self.gain > 2.0 * self.standard_error:
            if self.metric == "RMSE":
                gain = f"the RMSE on held-out labels falls by {percent(self.gain / self.without)}"
            else:
                gain = f"the accuracy on held-out labels rises by {100 * self.gain:.1f} points"
            return f"The graph helps: {gain}."
        if self.gain < -2.0 * self.standard_error:
            return "The graph does harm: use plain boosting."
        return "The graph adds little: the difference is within two standard errors."


def estimate_gain(
    table: Table,
    nodes: Nodes,
    values: NDArray[Any],
    graph: Graph,
    classes: bool,
    n_folds: int,
    blocks: bool,
    random: RandomState,
    progress: Progress | None,
) -> Estimate:
    """Return the cross-validated gain of the graph with the same trees and folds.

    ``blocks``: folds are connected regions; ``progress`` is called as ``progress(done, total)``.
    """
    X = table.values
    truth = np.empty(table.n_rows, dtype=values.dtype)
    truth[nodes] = values
    if table.n_rows > MAX_NODES:
        part = _connected_part(graph, nodes, random)
        X = X[part]
        truth = truth[part]
        nodes = np.flatnonzero(np.isin(part, nodes))
        graph = Graph(sparse.csr_array(graph.adjacency[part][:, part]))
    seed = int(random.randint(np.iinfo(np.int32).max))
    splitter = GraphBlockFold(n_folds, seed) if blocks else n_folds
    stratify = classes and np.unique(truth[nodes], return_counts=True)[1].min() >= n_folds
    options: dict[str, Any] = {"stratify": stratify, "random_state": seed}
    folds = labelled_folds(splitter, nodes, truth[nodes], graph, len(truth), **options)
    kind = EBBSClassifier if classes else EBBSRegressor
    losses: dict[bool, list[Array]] = {False: [], True: []}
    choices = []
    for number, (train, test) in enumerate(folds):
        for uses_graph in (False, True):
            model = kind(ROUNDS, categorical_features=list(table.categorical), random_state=seed)
            model.fit(X, truth[train], nodes=train, graph=graph if uses_graph else None)
            predicted = unless_interrupted(model).predict(nodes=test)
            loss = predicted != truth[test] if classes else (predicted - truth[test]) ** 2
            losses[uses_graph].append(np.asarray(loss, dtype=np.float64))
            if progress is not None:
                progress(2 * number + 1 + uses_graph, 2 * len(folds))
        choices.append(model.best_candidate_)
    gain, error, levels = paired_gain(losses[False], losses[True], root=not classes)
    metric = "accuracy" if classes else "RMSE"
    without, with_graph = (1.0 - level if classes else level for level in levels)
    kind_of_folds = "blocks" if blocks else "random"
    sizes = (len(truth), nodes.size)
    return Estimate(metric, without, with_graph, gain, error, choices, kind_of_folds, *sizes)


def paired_gain(
    before: list[Array], after: list[Array], root: bool
) -> tuple[float, float, tuple[float, float]]:
    """Decrease of the mean loss, its standard error, and the two means; of their roots if ``root``.

    The error is the larger of two: over nodes, from paired differences (for a root, of its
    first-order influence), which takes nodes as independent; and over the few folds.
    """
    one = np.concatenate(before)
    other = np.concatenate(after)
    scale = np.sqrt if root else np.asarray
    levels = (float(scale(one.mean())), float(scale(other.mean())))
    by_node = one - other
    if root:
        by_node = one / (2.0 * max(levels[0], 1e-300)) - other / (2.0 * max(levels[1], 1e-300))
    pairs = zip(before, after, strict=True)
    by_fold = np.array([scale(a.mean()) - scale(b.mean()) for a, b in pairs])
    errors = [gains.std(ddof=1) / np.sqrt(gains.size) for gains in (by_node, by_fold)]
    return levels[0] - levels[1], float(max(errors)), levels


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
