"""Prediction intervals by split conformal prediction."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ebboost.data.parameters import check_number
from ebboost.model.state import FittedState

Array = NDArray[np.float64]


class Intervals(NamedTuple):
    """Predictions and the ends of their intervals, one entry for each node.

    Parameters
    ----------
    prediction, lower, upper : ndarray of shape (n,)
    """

    prediction: Array
    lower: Array
    upper: Array


def half_width(state: FittedState, level: float) -> float:
    """Return the conformal quantile of the residuals, the ⌈(m+1)·level⌉-th smallest or infinity."""
    residuals = state.conformity_scores
    if not residuals.size:
        raise ValueError(
            "interval needs residuals at nodes that were not trained on, and this fit has none: "
            "pass eval_set=(nodes, y), or leave early_stopping=True with at least 10 labels."
        )
    rank = int(np.ceil((residuals.size + 1) * level))
    return float(residuals[rank - 1]) if rank <= residuals.size else float("inf")


def with_intervals(state: FittedState, predictions: Array, interval: float) -> Intervals:
    """Return predictions with intervals of the level ``interval``."""
    if state.is_classifier:
        raise ValueError(f"interval is not supported by {state.estimator}; use predict_proba().")
    check_number("interval", interval, low=0.0, high=1.0, closed="neither")
    half = half_width(state, float(interval))
    return Intervals(predictions, predictions - half, predictions + half)
