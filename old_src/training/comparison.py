"""Comparisons of candidates by losses at labels that their models were not trained on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ebboost.data.sharded import average, standard_error
from ebboost.data.types import Array
from ebboost.model.candidate import Candidate
from ebboost.training import defaults
from ebboost.training.evaluation import compared_losses
from ebboost.training.fold_model import FoldModel, out_of_fold
from ebboost.training.problem import Problem


@dataclass(frozen=True)
class Comparison:
    """Mean decrease of the loss from one candidate to another, and its standard error."""

    gain: float
    standard_error: float

    @property
    def in_errors(self) -> float:
        """The gain in standard errors."""
        return self.gain / self.standard_error if self.standard_error > 0 else np.inf * self.gain


def compare(
    problem: Problem, one: Mapping[int, FoldModel], other: Mapping[int, FoldModel]
) -> Comparison:
    """Compare two candidates node by node on the folds that both were trained for.

    Losses at labels of ``eval_set`` count like those at held-out labels, or alone where the two
    contradict each other by more than three standard errors: ``eval_set`` is what the user wants to
    predict.
    """
    folds = [fold for fold in one if fold in other]
    parts = []
    if problem.labels.has_held_out(folds[0]):
        pairs = [held_out_losses(problem, models, folds) for models in (one, other)]
        parts.append(pairs[0] - pairs[1])
    if problem.labels.evaluation is not None:
        pairs = [evaluation_losses(problem, models, folds) for models in (one, other)]
        parts.append(pairs[0] - pairs[1])
    if len(parts) == 2:
        errors = [standard_error(part) for part in parts]
        error = np.hypot(errors[0], errors[1])
        if abs(parts[0].mean() - parts[1].mean()) > defaults.CONTRADICTION * error:
            parts = parts[1:]
    gains = np.concatenate(parts)
    return Comparison(float(gains.mean()), standard_error(gains))


def losses_of(problem: Problem, models: Mapping[int, FoldModel], folds: Sequence[int]) -> Array:
    """Return the losses at all labels that the models of these folds were not trained on."""
    losses = []
    if problem.labels.has_held_out(folds[0]):
        losses.append(held_out_losses(problem, models, folds))
    if problem.labels.evaluation is not None:
        losses.append(evaluation_losses(problem, models, folds))
    return np.concatenate(losses)


def held_out_losses(
    problem: Problem, models: Mapping[int, FoldModel], folds: Sequence[int]
) -> Array:
    """Return the losses at the held-out labels of these folds."""
    labels, predictions = out_of_fold(problem, {fold: models[fold] for fold in folds}, "held_out")
    return compared_losses(problem, labels, predictions)


def evaluation_losses(
    problem: Problem, models: Mapping[int, FoldModel], folds: Sequence[int]
) -> Array:
    """Return the losses at the labels of ``eval_set``, mean over the models of these folds."""
    labels = problem.labels.evaluation
    assert labels is not None
    losses = [compared_losses(problem, labels, models[fold].evaluation) for fold in folds]
    return average(losses)


def selection_row(
    problem: Problem, candidate: Candidate, models: Mapping[int, FoldModel]
) -> dict[str, float | str]:
    """Return the row of a candidate in the table of the selection."""
    folds = list(models)
    values = losses_of(problem, models, folds)
    return {
        "candidate": candidate.name,
        "folds": len(folds),
        "rounds": float(np.mean([model.n_rounds for model in models.values()])),
        "loss": float(values.mean()),
        "standard_error": standard_error(values),
        "seconds": sum(model.seconds for model in models.values()),
    }
