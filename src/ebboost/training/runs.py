"""The candidates of a fit, and the run of each: features, bins, objective and boosting loop."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from ebboost.backends import Backend
from ebboost.backends.threads import threads_for
from ebboost.boosting.callbacks import EarlyStopping
from ebboost.boosting.label_use import objective_for
from ebboost.boosting.latent_field import LatentField
from ebboost.boosting.loop import Boosting, boost
from ebboost.boosting.losses import SquaredError
from ebboost.boosting.masked_labels import MaskedLabels
from ebboost.boosting.momentum import as_momentum
from ebboost.data.features import NeighborFeatures
from ebboost.model.candidate import Candidate
from ebboost.model.predict import propagation_operator
from ebboost.propagation import Laplacian, Smoother
from ebboost.training import defaults
from ebboost.training.problem import LabelSplit, Problem
from ebboost.training.selection import CandidateFeatures, CandidateRun, label_correlation

Array = NDArray[np.float64]
LABEL_USES: dict[str, LatentField | MaskedLabels | None] = {
    "none": None,
    "field": LatentField(),
    "leave-one-out": LatentField(leave_one_out=True),
    "masked": MaskedLabels(),
}


def build_run(
    problem: Problem,
    backend: Backend,
    labels: LabelSplit,
    candidate: Candidate,
    others: Sequence[CandidateFeatures] = (),
) -> CandidateRun:
    """Bin the features of a candidate, or share those of ``others``, and set up its objective."""
    settings = problem.settings
    training = labels.training
    n_labels, n_outputs = training.target.shape
    learner = defaults.learner(settings.learner, n_labels, candidate, problem.classes)
    learner = backend.learner(learner)
    if problem.table.on_disk and not learner.takes_blocks:
        raise ValueError(
            f"X is a ParquetTable, which learner={learner.name!r} cannot read block by block: use "
            "'lightgbm' or 'xgboost', or pass a dataframe."
        )
    shared = next((other for other in others if other.candidate.shares_features(candidate)), None)
    grower = None
    if shared is not None:
        pipeline = shared.pipeline
        table = shared.table
        grower = shared.grower.clone_with_shared_bins()
    else:
        pipeline = candidate.pipeline()
        table = pipeline.fit_transform(
            problem.table, problem.graph, training, learner.takes_categories, problem.seed
        )
        table = table if learner.same_from_blocks else table.materialize()
    backend.expect_table(candidate.name, table.n_rows, len(table.names), n_outputs)
    graph = backend.graph(problem.graph)
    operator = propagation_operator(candidate.smoothing, graph, problem.table.n_rows)
    on_device = (backend.labels(training), backend.labels(labels.validation))
    use = (candidate.labels, graph, operator, problem.output.loss)
    offset = None if problem.offset is None else backend.to_device(problem.offset)
    objective = objective_for(*use, *on_device, settings.penalty, problem.seed, offset)
    objective = backend.objective(objective)
    if grower is None:
        n_jobs = threads_for(settings.n_jobs, table)
        where: dict[str, Any] = {"n_jobs": n_jobs, "device": settings.device}
        grower = learner.start(table, n_outputs=n_outputs, seed=problem.seed, **where)
    table.release()  # the bins are enough from here on
    rate = settings.learning_rate
    rate = rate or defaults.learning_rate(problem.classes, n_labels, problem.table.is_sparse)
    momentum = as_momentum(settings.momentum)
    boosting = Boosting(
        objective, grower, n_rounds=settings.n_estimators, learning_rate=rate, momentum=momentum
    )
    features = CandidateFeatures(candidate, pipeline, table, grower)
    return CandidateRun(features, operator, objective, boosting)


def cross_fit(problem: Problem, backend: Backend, candidate: Candidate) -> tuple[int, Array | None]:
    """Rounds and out-of-fold predictions where labels are too few to hold any out."""
    training = problem.labels.training
    n_folds = defaults.CROSS_FIT_FOLDS
    if problem.n_labels < 2 * n_folds:
        return min(problem.settings.n_estimators, defaults.ROUNDS_WITHOUT_VALIDATION), None
    fold = np.random.default_rng(problem.seed).permutation(problem.n_labels) % n_folds
    predictions = np.zeros_like(training.target)
    rounds = []
    for number in range(n_folds):
        held = training.subset(fold == number)
        labels = LabelSplit(training.subset(fold != number), held, None)
        run = build_run(problem, backend, labels, candidate)
        result = boost(run.boosting, [early_stopping(problem)])
        rounds.append(result.n_rounds)
        scores = backend.to_host(run.objective.predict(result.best))
        predictions[fold == number] = scores[held.nodes]
    return max(int(np.median(rounds)), 1), predictions


def early_stopping(problem: Problem) -> EarlyStopping:
    """Return the early stopping of a fit."""
    settings = problem.settings
    if settings.n_iter_no_change is not None:
        return EarlyStopping(settings.n_iter_no_change)
    stopping = defaults.early_stopping(problem.classes, problem.n_labels)
    if type(problem.output.loss) is not SquaredError:  # other losses have no natural zero
        stopping.min_improvement = 0.0
    return stopping


def candidates(problem: Problem) -> list[Candidate]:
    """Return the candidates to compare; parts that the user fixed are the same in all of them."""
    requested = _requested_parts(problem)
    graph = problem.graph
    table = problem.table
    classes = problem.classes
    fixed: dict[str, Any] = {name: part for name, part in requested.items() if part != "auto"}
    if graph is None:
        return [Candidate("none")]
    is_plain = all(part is None for part in fixed.values())
    pool = [Candidate("none" if is_plain else "as given", **fixed)]
    if graph.n_edges == 0 or ("smoothing" in fixed and "labels" in fixed):
        return pool
    propagation = defaults.CLASS_PROPAGATION if classes else defaults.PROPAGATION
    parts: dict[str, Any] = {"labels": LatentField(), "smoothing": Laplacian(*propagation)}
    if table.is_sparse and classes:
        is_wide = table.values.shape[1] > 2 * defaults.LOW_RANK
        adds_columns = any(map(fixed.get, ("neighbor_features", "feature_smoothing")))
        if is_wide and not adds_columns:
            parts["low_rank"] = defaults.LOW_RANK
    elif table.is_sparse:
        parts["neighbor_features"] = NeighborFeatures(["mean"])
    elif not table.on_disk:  # neighbour columns need the table in memory
        parts["neighbor_features"] = NeighborFeatures()
        parts["feature_smoothing"] = Laplacian(*defaults.FEATURE_SMOOTHING)
    correlation = label_correlation(graph, problem.labels.training)
    if correlation >= defaults.MIN_CORRELATION or classes:
        pool.append(Candidate("graph", **parts | fixed))
    if correlation < defaults.LOW_CORRELATION and not classes and not table.on_disk:
        columns = parts | {"smoothing": None, "labels": None}
        pool.append(Candidate("features", **columns | fixed))
    return pool


def _requested_parts(problem: Problem) -> dict[str, object]:
    """The parts of the model that the user fixed, or "auto"."""
    settings = problem.settings
    training = problem.labels.training
    labels = _label_use(problem)
    smoothing = settings.smoothing
    if isinstance(smoothing, Smoother):
        offset = None if problem.offset is None else problem.offset[training.nodes]
        scale = partial(problem.output.loss.label_scale, training.target, training.weight, offset)
        smoothing = smoothing.prepared(scale)
    parts: dict[str, object] = {"smoothing": smoothing, "labels": labels}
    is_fixed = "auto" not in (smoothing, labels)
    if not getattr(settings.feature_smoothing, "linear", True):
        raise ValueError(
            f"feature_smoothing must be linear, got {settings.feature_smoothing!r}: use "
            "eb.Laplacian(20.0, 5)."
        )
    for name in ("neighbor_features", "feature_smoothing"):
        part = getattr(settings, name)
        parts[name] = None if is_fixed and isinstance(part, str) else part
    return parts


def _label_use(problem: Problem) -> LatentField | MaskedLabels | str | None:
    """The use of labels that the ``labels`` parameter names."""
    settings = problem.settings
    labels = settings.labels
    loss = problem.output.loss
    is_squared = type(loss) is SquaredError
    use: LatentField | MaskedLabels | None
    if isinstance(labels, (LatentField, MaskedLabels)):
        use = labels
    elif isinstance(labels, str) and labels in LABEL_USES:
        use = None if LABEL_USES[labels] is None else clone(LABEL_USES[labels])
    elif isinstance(labels, str) and labels == "auto":
        return "auto" if problem.classes or is_squared else None
    else:
        raise ValueError(
            f"labels must be 'auto', one of {sorted(LABEL_USES)}, eb.LatentField(...) or "
            f"eb.MaskedLabels(...), got {labels!r}."
        )
    leave_one_out = isinstance(use, LatentField) and use.leave_one_out
    if (leave_one_out or isinstance(use, MaskedLabels)) and not is_squared:
        raise ValueError(
            f"labels={labels!r} needs loss='squared_error'; with {loss!r} use labels='field'."
        )
    if isinstance(use, MaskedLabels) and settings.penalty:
        raise ValueError("penalty must be 0 with labels='masked'.")
    return use
