"""Finish: from a trained model to the fitted state."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ebboost.backends import Backend
from ebboost.boosting.calibration import best_temperature, expected_calibration_error
from ebboost.model.output import ClassOutput
from ebboost.model.predict import with_labels
from ebboost.model.state import FittedState, ValidationRecord
from ebboost.training.problem import LabelSplit

Array = NDArray[np.float64]


def finish(
    state: FittedState, labels: LabelSplit, out_of_fold: Array | None, backend: Backend
) -> FittedState:
    """Return the final state: predictions with labels, calibration, conformity scores."""
    state = with_labels(state, labels.training, backend)
    if isinstance(state.output, ClassOutput) and labels.validation is not None:
        raw = state.raw_predictions[labels.validation.nodes]
        temperature = best_temperature(raw, state.loss, labels.validation)
        state = replace(state, output=replace(state.output, temperature=temperature))
    state = _record_validation(state, labels, out_of_fold)
    if labels.held_back is not None:  # passed to be used: held out only for selection and stopping
        state = with_labels(state, labels.training.concat(labels.held_back), backend)
    return state


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
        probabilities = state.output.apply_link(record.prediction)
        error = expected_calibration_error(probabilities, record.target)
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
