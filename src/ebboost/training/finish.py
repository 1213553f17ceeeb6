"""Finish: from a trained model to the fitted state."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ebboost.backends import Backend
from ebboost.boosting.calibration import ProbabilityField, expected_calibration_error
from ebboost.model.output import ClassOutput
from ebboost.model.predict import field_posterior, with_labels
from ebboost.model.state import FittedState, ValidationRecord
from ebboost.training.problem import LabelSplit

Array = NDArray[np.float64]


def finish(
    state: FittedState, labels: LabelSplit, out_of_fold: Array | None, backend: Backend
) -> FittedState:
    """Return the final state: predictions with labels, calibration, conformity scores."""
    if isinstance(state.output, ClassOutput):
        state = _calibrate(state, labels, backend)
    state = with_labels(state, labels.training, backend)
    state = _record_validation(state, labels, out_of_fold)
    if labels.held_back is not None:  # passed to be used: held out only for selection and stopping
        state = with_labels(state, labels.training.concat(labels.held_back), backend)
    return state


def _calibrate(state: FittedState, labels: LabelSplit, backend: Backend) -> FittedState:
    """Choose temperature and weight of the field on the validation nodes, or by leave-one-out."""
    assert isinstance(state.output, ClassOutput)
    calibration = ProbabilityField()
    scores = state.init_score + state.propagated_scores
    posterior = field_posterior(state, state.graph, labels.training, backend)
    fit = (scores, state.loss, labels.training)
    if labels.validation is not None:
        calibration = ProbabilityField.from_validation(*fit, posterior, labels.validation)
    elif posterior is not None:
        calibration = ProbabilityField.from_leave_one_out(*fit, posterior)
    return replace(state, output=replace(state.output, calibration=calibration))


def _record_validation(
    state: FittedState, labels: LabelSplit, out_of_fold: Array | None
) -> FittedState:
    """Store the validation nodes' predictions, and residuals at labels that were not trained on."""
    raw = state.raw_predictions
    validation = labels.validation
    record = ValidationRecord.empty(raw.shape[1])
    if validation is not None:
        record = ValidationRecord(validation.nodes, validation.target, raw[validation.nodes])
    state = replace(state, validation=record)
    if state.is_classifier:
        if validation is None:
            return state
        error = expected_calibration_error(record.prediction, record.target)
        return replace(state, calibration_error=error)
    target = record.target
    predictions = record.prediction
    source = "validation nodes"
    if validation is None:
        if out_of_fold is None:
            return state
        target = labels.training.target
        predictions = out_of_fold
        source = "labelled nodes, out of fold"
    residuals = np.abs(target - state.loss.inverse_link(predictions))[:, 0]
    return replace(state, conformity_scores=np.sort(residuals), conformity_source=source)
