"""Equation (15) as published: some labels are shown each round, the others are predicted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn
from zlib import crc32

import numpy as np
from sklearn.base import BaseEstimator

from ebboost._common import Array, IntArray, check_number
from ebboost.data.labels import Labels
from ebboost.graph import Graph
from ebboost.smoothing import Operator, Scores, Smoother


@dataclass(eq=False, repr=False)
class MaskedLabels(BaseEstimator):
    """Error smoothing (15) as published: a random share of the labels is shown each round.

    For ``labels=`` of :class:`PaperRegressor`, with squared error. ``"masked"`` is the default of
    these parameters.

    Parameters
    ----------
    smooth_errors : bool, default=True
        Add the smoothed errors of the shown labels: (15).
    smooth_labels : bool, default=True
        Replace the scores of shown rows by their labels, then smooth.
    share : float, default=0.5
        Share of the labels that is shown, between 0 and 1.
    from_zero : bool, default=False
        Start from 0 as published, so that the trees must fit the mean, rather than from the mean.

    Examples
    --------
    >>> import ebboost as eb
    >>> shown = eb.paper.MaskedLabels(share=0.3)
    >>> model = eb.paper.PaperRegressor(smoothing=eb.Laplacian(), labels=shown)
    """

    smooth_errors: bool = True
    smooth_labels: bool = True
    share: float = 0.5
    from_zero: bool = False

    def check(self) -> None:
        """Raise ValueError if a parameter is not valid."""
        check_number("MaskedLabels: share", self.share, low=0.0, high=1.0, closed="neither")

    def smooth(self, operator: Operator, scores: Scores, rows: IntArray, target: Array) -> Scores:
        """Return the prediction from the scores and the labels of some rows.

        Parameters
        ----------
        operator : Operator
            P.
        scores : ndarray of shape (n, c)
        rows : ndarray of int, shape (m,)
        target : ndarray of shape (m, c)
            Labels in units of the scores, less what is added to them.

        Returns
        -------
        ndarray of shape (n, c)
        """
        prediction = scores
        if self.smooth_errors:
            errors = np.zeros_like(scores)
            errors[rows] = target - scores[rows]
            prediction = scores + operator.apply(errors)
        if self.smooth_labels:
            prediction = prediction.copy()
            prediction[rows] = target
            prediction = operator.apply(prediction)
        return prediction


@dataclass(eq=False, repr=False)
class ShownLabels(Smoother):
    """The map from f to the predictions of a model that was fitted with masked labels."""

    on_other_graphs = False

    masked: MaskedLabels
    smoothing: Smoother
    rows: IntArray
    target: Array  # labels of these rows, less the initial score and the offset
    graph: str  # checksum of the graph fitted on

    @classmethod
    def of(
        cls, masked: MaskedLabels, smoothing: Smoother, labels: Labels, fixed: Array, graph: Graph
    ) -> ShownLabels:
        """Return the map for labels, less the ``fixed`` scores of all rows."""
        target = labels.target - fixed[labels.rows]
        return cls(masked, smoothing, labels.rows, target, checksum(graph))

    def operator(self, graph: Graph) -> Operator:
        """Return the map on the graph fitted on; ValueError on others."""
        if checksum(graph) != self.graph:
            self.join()
        operator = self.smoothing.operator(graph)
        return _ShownOperator(self.masked, operator, self.rows, self.target)

    def join(self, *arguments: object) -> NoReturn:
        """Raise ValueError: errors of new rows are not known."""
        raise ValueError(
            "A model fitted with labels='masked' predicts the rows of its fit only: pass all rows "
            "to fit, those to predict without labels, or fit with labels='field'."
        )


class _ShownOperator(Operator):
    """f ↦ prediction given the labels of some rows: affine."""

    def __init__(
        self, masked: MaskedLabels, operator: Operator, rows: IntArray, target: Array
    ) -> None:
        self.masked = masked
        self.parts = (operator, rows, target)

    def apply(self, scores: Scores) -> Scores:
        """Return the predictions, less the initial score and the offset."""
        operator, rows, target = self.parts
        return self.masked.smooth(operator, scores, rows, target)

    def adjoint(self, gradient: Scores) -> Scores:
        """Raise ValueError: there is none."""
        raise ValueError("Predictions of a model fitted with labels='masked' are not explained.")


def checksum(graph: Graph) -> str:
    """Return a checksum of the edges and their weights."""
    adjacency = graph.adjacency
    arrays = (adjacency.indptr.astype(np.int64), adjacency.indices.astype(np.int64), adjacency.data)
    result = 0
    for array in arrays:
        result = crc32(array.tobytes(), result)
    return f"{result:08x}"
