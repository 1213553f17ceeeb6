"""EBBS: published settings, with momentum, without labels, and the default estimator."""

from dataclasses import replace
from typing import Any

import numpy as np

import ebboost as eb
from benchmarks.problem import Outcome, Problem

# Hyperparameters of the paper that differ from the preset.
RATE = {"avazu": 0.1, "vk": 0.05}
STRENGTH = {"vk": eb.Laplacian(50.0, 2)}
LABELS = {"vk": eb.MaskedLabels(smooth_labels=False, from_zero=True)}


def paper(problem: Problem, momentum: bool = False, lam: float | None = None) -> Outcome:
    """The published settings of a data set; ``lam`` overrides the strength of smoothing."""
    changes: dict[str, Any] = {"momentum": momentum}
    name = problem.name.removesuffix("-rewired")
    if not problem.n_classes:
        changes["learner"] = eb.CatBoost(6, shrinkage=RATE.get(name, 0.2))
        changes["smoothing"] = STRENGTH.get(name, eb.Laplacian(2.0, 5))
        if name in LABELS:
            changes["labels"] = LABELS[name]
    if lam is not None:
        changes["smoothing"] = eb.Laplacian(lam, 5)
    return _fitted(problem, lambda kind, **common: kind.from_preset("paper", **changes, **common))


def smoothing(problem: Problem) -> Outcome:
    """Smoothing without labels, so that the model can be applied to another graph."""
    return _fitted(
        problem, lambda kind, **common: kind(**smoothing_alone(bool(problem.n_classes)), **common)
    )


def smoothing_alone(classes: bool) -> dict[str, Any]:
    """Return the settings of :func:`smoothing`."""
    settings: dict[str, Any] = {"smoothing": eb.Laplacian(2.0, 5), "labels": "none"}
    if classes:
        learner = eb.LightGBM(15, colsample_bytree=0.5)
        return settings | {
            "n_estimators": 150,
            "learning_rate": 0.5,
            "momentum": True,
            "n_iter_no_change": 20,
            "learner": learner,
        }
    return settings | {
        "feature_smoothing": eb.Laplacian(20.0, 5),
        "learner": eb.LightGBM(),
        "learning_rate": 0.1,
    }


def default(problem: Problem, similarity: bool | None = None) -> Outcome:
    """The default estimator; with ``similarity`` True or False, that of :func:`near_duplicates`."""
    if similarity is not None:
        return near_duplicates(problem, similarity)
    return _fitted(problem, lambda kind, **common: kind(**common))


def near_duplicates(problem: Problem, similarity: bool) -> Outcome:
    """Wiki: sparse features, a heterophilous graph, and pages with almost the same neighbours.

    Trees see the columns, their means over the neighbours and a spectral embedding of the graph.
    With ``similarity`` the latent field is defined on the graph that connects nodes with similar
    neighbourhoods, otherwise labels are not used.
    """
    features = eb.NeighborFeatures(["mean"]).fit_transform(problem.X, graph=problem.graph)
    embedding = eb.SpectralFeatures(64, random_state=problem.seed)
    field = eb.LatentField(0.5, 0.005, normalized=False, similarity=True)
    learner = eb.LightGBM(
        15,
        min_child_samples=10,
        reg_lambda=5.0,
        colsample_bytree=0.2,
        max_bin=63,
        params={"min_sum_hessian_in_leaf": 5.0},
    )
    settings: dict[str, Any] = {
        "smoothing": None,
        "labels": field if similarity else "none",
        "neighbor_features": None,
        "feature_smoothing": None,
        "learner": learner,
    }
    X = embedding.fit_transform(features, graph=problem.graph)
    return _fitted(replace(problem, X=X), lambda kind, **common: kind(**settings, **common))


def _fitted(problem: Problem, make: Any) -> Outcome:
    kind = eb.EBBSClassifier if problem.n_classes else eb.EBBSRegressor
    model = make(kind, random_state=problem.seed, n_jobs=problem.threads)
    eval_set = (problem.val, problem.y[problem.val])
    model.fit(
        problem.X,
        problem.y[problem.train],
        nodes=problem.train,
        graph=problem.graph,
        eval_set=eval_set,
    )
    notes: dict[str, Any] = {"rounds": model.n_iter_, "candidate": model.best_candidate_}
    curve = {part: model.history_[part] for part in ("training", "validation")}
    if not problem.n_classes:  # half the squared error, shown as RMSE
        curve = {part: np.sqrt(2.0 * np.asarray(losses)).tolist() for part, losses in curve.items()}
    if problem.n_classes:
        notes["calibration_error"] = float(model.calibration_error_)
        scores = np.zeros((len(problem.y), problem.n_classes))
        scores[:, model.classes_.astype(int)] = model.predict_proba()
        return Outcome(scores, None, curve, notes)
    inside = model.predict(interval=0.9)
    return Outcome(model.predict(), (inside.lower, inside.upper), curve, notes)
