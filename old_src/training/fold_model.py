"""A trained model of a fold, and its predictions at labels that it was not trained on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ebboost.data.labels import Labels
from ebboost.data.sharded import average, rows_before, total_rows
from ebboost.data.types import Array, IntArray
from ebboost.learners import Ensemble, Pickled, as_learner
from ebboost.learners.averaged import load_ensemble
from ebboost.learners.lightgbm import LightGBMEnsemble
from ebboost.training import defaults
from ebboost.training.problem import Problem

MAX_DRAWN = 1_000_000  # labels of all workers that each of them draws folds for
MAX_FACTOR = 1e3


@dataclass(frozen=True)
class FoldModel:
    """A trained model and its predictions at nodes whose labels it was not trained on.

    ``scores`` are f on all nodes, NaN where it was not needed. ``held_out`` and ``evaluation`` are
    predictions with the field at the nodes of the fold and of ``eval_set``, ``held_out_scores`` and
    ``evaluation_scores`` are init_score + P f there.
    """

    ensemble: Ensemble | None
    init_score: Array
    scores: Array
    held_out: Array
    held_out_scores: Array
    evaluation: Array
    evaluation_scores: Array
    n_rounds: int
    n_trained: int
    stop_reason: str
    history: Mapping[str, list[float]]
    seconds: float

    def without_trees(self) -> "FoldModel":
        """Return the predictions alone, of a candidate that was not selected."""
        return replace(self, ensemble=None, scores=self.scores[:0], history={})

    def state(self) -> dict[str, Any]:
        """Return the content of a checkpoint."""
        values = dict(vars(self))
        ensemble = values.pop("ensemble")
        if isinstance(ensemble, LightGBMEnsemble):  # leaves times weights would be rounded twice
            return values | {"trees": list(ensemble.weighted_text)}
        try:
            values["trees"] = None if ensemble is None else ensemble.files()
        except ValueError:  # regressors of scikit-learn
            values["trees"] = Pickled(ensemble)
        return values

    @classmethod
    def from_state(cls, state: dict[str, Any], learner: object) -> "FoldModel":
        """Return the model of a checkpoint."""
        trees = state.pop("trees")
        if isinstance(trees, dict):
            trees = load_ensemble(as_learner(learner), trees)
        elif isinstance(trees, list):
            trees = LightGBMEnsemble(*trees)
        return cls(trees, **state)


def out_of_fold(
    problem: Problem, models: Mapping[int, FoldModel], name: str
) -> tuple[Labels, Array]:
    """Return the held-out labels of some folds and ``held_out`` or ``held_out_scores`` there."""
    held = [problem.labels.held_out(fold) for fold in models]
    labels = held[0]
    for other in held[1:]:
        labels = labels.concat(other)
    return labels, np.concatenate([getattr(model, name) for model in models.values()])


def mean_models(candidates: Sequence[Mapping[int, FoldModel]]) -> dict[int, FoldModel]:
    """Return models with the mean prediction of candidates, by fold."""
    n_folds = min(map(len, candidates))
    return {
        fold: replace(
            model,
            held_out=average([one[fold].held_out for one in candidates]),
            evaluation=average([one[fold].evaluation for one in candidates]),
        )
        for fold, model in list(candidates[0].items())[:n_folds]
    }


def mean_factor(problem: Problem, models: Mapping[int, FoldModel]) -> float:
    """Return the ratio of means of labels and predictions at :func:`unseen_labels`.

    Exponentials of scores are too small: those of mean scores, at the mode of a field. 1 for few
    labels, whose mean is not known well.
    """
    return _factor(_sums(*unseen_labels(problem, models, "held_out")))


def with_factors(problem: Problem, models: Mapping[int, FoldModel]) -> dict[int, FoldModel]:
    """Return models with predictions times the factor of their mean in all other folds."""
    if not models:
        return {}
    of_all = mean_factor(problem, models)
    sums = {
        fold: _sums(problem.labels.held_out(fold), model.held_out) for fold, model in models.items()
    }
    total = sum(sums.values(), np.zeros(3))
    return {
        fold: replace(
            model,
            held_out=_factor(total - sums[fold]) * model.held_out,
            evaluation=of_all * model.evaluation,
        )
        for fold, model in models.items()
    }


def _sums(labels: Labels, predictions: Array) -> Array:
    """The number of labels, and weighted sums of labels and of predictions."""
    weight = labels.weight[:, None]
    return np.array([len(weight), (weight * labels.target).sum(), (weight * predictions).sum()])


def _factor(sums: Array) -> float:
    """The ratio of two sums, within limits; 1 for few labels, or if there is none."""
    n_labels, of_labels, of_predictions = sums.tolist()
    if n_labels < defaults.MIN_LABELS_FOR_FACTOR or not (of_labels > 0.0 and of_predictions > 0.0):
        return 1.0
    return float(np.clip(of_labels / of_predictions, 1.0 / MAX_FACTOR, MAX_FACTOR))


def unseen_labels(
    problem: Problem, models: Mapping[int, FoldModel], name: str
) -> tuple[Labels, Array]:
    """Return :func:`out_of_fold`, or labels of ``eval_set`` and the same there if none are held."""
    labels, scores = out_of_fold(problem, models, name)
    evaluation = problem.labels.evaluation
    if total_rows(labels.target) or evaluation is None:
        return labels, scores
    name = name.replace("held_out", "evaluation")
    return evaluation, average([getattr(model, name) for model in models.values()])


def positions_of_unseen(problem: Problem, models: Mapping[int, FoldModel]) -> IntArray | None:
    """Return the position of each of :func:`unseen_labels` in the order of one process.

    None for so many labels that no worker should draw folds for all of them.
    """
    parts = [problem.labels.held_out(fold).target for fold in models]
    if not any(map(total_rows, parts)) and problem.labels.evaluation is not None:
        parts = [problem.labels.evaluation.target]
    positions = []
    n_before = 0
    for part in parts:
        first = n_before + rows_before(part)
        positions.append(np.arange(first, first + len(part)))
        n_before += total_rows(part)
    return np.concatenate(positions) if n_before <= MAX_DRAWN else None
