"""Predictions of rows, with the graph and the labels that they depend on."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ebboost.data import validation as checks
from ebboost.data.labels import Labels
from ebboost.data.types import Array, IntArray
from ebboost.graph import Graph
from ebboost.model.state import FittedState


class RowPredictions(NamedTuple):
    """Raw predictions of rows, and what they depend on.

    ``position`` are the nodes of the rows in ``graph``, which starts with the fitted nodes if
    ``has_fitted_nodes``. ``label_scores`` are the predictions at the nodes of ``labels``.
    ``is_stored`` where they are those of the fit.
    """

    raw: Array
    position: IntArray
    graph: Graph | None
    labels: Labels | None = None
    label_scores: Array | None = None
    has_fitted_nodes: bool = False
    is_stored: bool = False

    def subset(self, nodes: ArrayLike | None) -> "RowPredictions":
        """Return some of the rows, all by default."""
        if nodes is None:
            return self._replace(raw=self.raw.copy())
        rows = checks.node_positions(nodes, len(self.raw), repeats=True)
        return self._replace(raw=self.raw[rows], position=self.position[rows])

    @classmethod
    def of_fitted_nodes(cls, state: FittedState) -> "RowPredictions":
        """Return the stored predictions."""
        require_nodes(state)
        nodes = np.arange(state.n_nodes)
        return cls(state.raw_predictions, nodes, state.graph, state.labels, None, True, True)


def require_nodes(state: FittedState) -> None:
    """Raise ValueError if the fitted nodes are elsewhere."""
    if state.shards is not None:
        raise ValueError(
            "The fitted nodes are on the workers of a cluster, where predict(), predict_proba() "
            "and explain() work. For anything else save the model and load it on one machine, or "
            "pass X and graph."
        )
