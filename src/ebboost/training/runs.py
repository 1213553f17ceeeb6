"""One model: a candidate trained on all labels but those of a fold."""

import logging
import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import nullcontext
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from ebboost.backends import Backend
from ebboost.boosting.callbacks import Callback, EarlyStopping, History, Interrupt, StopBehind
from ebboost.boosting.causal_field import causal_mode
from ebboost.boosting.field_mode import LikelihoodFieldObjective
from ebboost.boosting.label_use import objective_for
from ebboost.boosting.latent_field import LatentField
from ebboost.boosting.loop import Boosting, BoostingResult, boost
from ebboost.boosting.masked_labels import MaskedLabels
from ebboost.boosting.momentum import as_momentum
from ebboost.boosting.objective import Objective
from ebboost.data.pipeline import FeaturePipeline
from ebboost.data.sharded import ShardedArray
from ebboost.data.table import Table
from ebboost.learners import TreeGrower, as_learner
from ebboost.learners.base import PartialGrower
from ebboost.model.candidate import Candidate
from ebboost.model.predict import propagation_operator
from ebboost.propagation import IdentityOperator, Propagation, sweep_on
from ebboost.training import defaults
from ebboost.training.checkpoint import CheckpointCallback, CheckpointSession
from ebboost.training.evaluation import eval_metric
from ebboost.training.fold_model import FoldModel
from ebboost.training.problem import Problem

Array = NDArray[np.float64]
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class CandidateFeatures:
    """The columns that the trees of a candidate are grown on, binned."""

    candidate: Candidate
    pipeline: FeaturePipeline
    table: Table
    grower: TreeGrower
    settings: tuple[object, ...]  # of the candidate's trees


@dataclass(frozen=True)
class CandidateRun:
    """A candidate that is ready to train."""

    features: CandidateFeatures
    operator: Propagation
    objective: Objective
    boosting: Boosting


def build_run(
    problem: Problem,
    backend: Backend,
    candidate: Candidate,
    fold: int,
    others: Sequence[CandidateFeatures] = (),
    first_mode: Array | None = None,
) -> CandidateRun:
    """Bin the features of a candidate, or share those of ``others``, and set up its objective."""
    settings = problem.settings
    training = problem.labels.training(fold)
    validation = problem.labels.validation(fold)
    n_outputs = training.target.shape[1]
    seed = problem.seed + fold
    learner = defaults.learner(settings.learner, problem.task, candidate)
    if problem.table.on_disk and not learner.takes_blocks:
        raise ValueError(
            f"X is a ParquetTable, which learner={learner.name!r} cannot read block by block: use "
            "'lightgbm' or 'xgboost', or pass a dataframe."
        )
    tree_settings = candidate.tree_settings
    shared = next((other for other in others if other.settings == tree_settings), None)
    earlier = None if problem.warm_start is None else problem.warm_start[candidate.name]
    grower = None
    if shared is not None:
        pipeline = shared.pipeline
        table = shared.table
        changes = defaults.tree_changes(learner) if isinstance(settings.learner, str) else {}
        grower = shared.grower.clone_with_shared_bins(seed, changes)
    elif earlier is not None:
        pipeline = earlier.state.pipeline
        table = pipeline.transform(problem.table, problem.graph)
    else:
        pipeline = candidate.pipeline()
        if problem.coordinates and not (problem.table.is_sparse or problem.table.on_disk):
            pipeline.rotation = problem.coordinates.rotation
        table = pipeline.fit_transform(
            problem.table, problem.graph, training, learner.takes_categories, problem.seed
        )
        if not (learner.same_from_blocks or table.on_disk):
            table = table.materialize()
    backend.expect_table(candidate.name, table.n_rows, len(table.names), n_outputs)
    graph = backend.graph(problem.graph)
    operator = propagation_operator(candidate.smoothing, graph, problem.table.n_rows)
    use = (candidate.labels, graph, operator, problem.loss_of(candidate))
    labels = (backend.labels(training), backend.labels(validation))
    offset = None if problem.offset is None else backend.to_device(problem.offset)
    objective = objective_for(*use, *labels, settings.penalty, seed, offset, first_mode)
    if earlier is not None:
        objective.start_from(earlier.state.init_score, earlier.scores)
    objective.eval_metric = eval_metric(problem, backend, validation, candidate)
    if grower is None:
        learner = defaults.learner(settings.learner, problem.task, candidate, len(table.names))
        where: dict[str, Any] = {"n_jobs": problem.threads_for(table), "device": settings.device}
        grower = learner.start(table, n_outputs=n_outputs, seed=seed, **where)
    table.release()  # the bins are enough from here on
    if _needs_labelled_rows_alone(problem, candidate, operator):
        grower = PartialGrower.of(grower, problem.labels.nodes)
    features = CandidateFeatures(candidate, pipeline, table, grower, tree_settings)
    boosting = _boosting(problem, features, objective, fold)
    return CandidateRun(features, operator, objective, boosting)


def _needs_labelled_rows_alone(
    problem: Problem, candidate: Candidate, operator: Propagation
) -> bool:
    """Whether scores of rows without known labels do not matter in training, and are many.

    Without propagation gradients are zero there.
    """
    settings = problem.settings
    labels = problem.labels
    is_local = isinstance(operator, IdentityOperator) and not settings.penalty
    is_sharded = isinstance(labels.labels.target, ShardedArray)
    is_elsewhere = is_sharded or problem.table.on_disk or settings.device != "cpu"
    if not is_local or isinstance(candidate.labels, MaskedLabels) or is_elsewhere:
        return False
    is_few = labels.nodes.size <= defaults.MOST_ROWS_NEEDED * problem.table.n_rows
    return is_few and problem.warm_start is None


def _boosting(
    problem: Problem, features: CandidateFeatures, objective: Objective, fold: int
) -> Boosting:
    settings = problem.settings
    n_rounds = settings.n_estimators
    if settings.early_stopping and problem.labels.validation(fold) is None:  # too few labels
        n_rounds = min(n_rounds, defaults.ROUNDS_WITHOUT_VALIDATION)
    return Boosting(
        objective,
        features.grower,
        n_rounds=n_rounds,
        learning_rate=learning_rate(problem, features.candidate),
        momentum=as_momentum(settings.momentum),
        candidate=features.candidate.name,
        fold=fold,
    )


def learning_rate(problem: Problem, candidate: Candidate | None = None) -> float:
    """Return the learning rate of a fit; that of networks is always the same."""
    if candidate is not None and candidate.network:
        return defaults.NETWORK_RATE
    return problem.settings.learning_rate or defaults.learning_rate(problem.task)


def early_stopping(problem: Problem, candidate: Candidate | None = None) -> EarlyStopping:
    """Return the early stopping of a fit; that of networks is always the same."""
    if candidate is not None and candidate.network:
        return EarlyStopping(defaults.NETWORK_PATIENCE)
    patience = problem.settings.n_iter_no_change
    return EarlyStopping(patience or defaults.for_size(problem.task).n_iter_no_change)


@dataclass
class Runner:
    """Trains the models of a fit; those of a checkpoint are not trained again.

    Models of one candidate are trained at once where threads are allowed. Callbacks see the rounds
    of every model.
    """

    problem: Problem
    backend: Backend
    callbacks: Sequence[Callback]
    session: CheckpointSession | None
    interrupt: Interrupt
    features: list[CandidateFeatures] = field(default_factory=list)
    models: dict[tuple[str, int], FoldModel] = field(default_factory=dict)
    #: Modes of the field last trained with, before any tree, which its candidates share.
    first_modes: dict[tuple[int, str, str, int], Array] = field(default_factory=dict)
    prefix: str = ""  # of names in ``models``, which runners with other settings share

    def __post_init__(self) -> None:
        self._building = threading.Lock()
        graph = self.problem.graph
        # Layouts of the edges live as long as this, and all models share them.
        self._sweep = None if graph is None else sweep_on(graph.adjacency)
        if self.session is not None and not self.models:
            learner = self.problem.settings.learner
            for name, fold, state in self.session.load("models"):
                self.models[name, fold] = FoldModel.from_state(state, learner)

    @property
    def n_rounds(self) -> int:
        """Rounds of all models so far."""
        return sum(model.n_trained for model in self.models.values())

    @property
    def n_concurrent(self) -> int:
        """Number of models that may be trained at once."""
        is_concurrent = self.session is None and all(one.is_concurrent for one in self.callbacks)
        return self.problem.n_concurrent if is_concurrent else 1

    def train(
        self,
        candidate: Candidate,
        folds: Iterable[int],
        rivals: Mapping[int, FoldModel] = MappingProxyType({}),
        goes_on: Callable[[int], bool] = lambda _: True,
    ) -> None:
        """Train the models of a candidate for folds; raise Stopped if they are interrupted.

        A model is not trained to its end if it cannot be as good as its rival of the same fold.
        ``goes_on`` is called with each fold in order, once its model and those before are ready.
        """
        name = self.prefix + candidate.name
        wanted = list(folds)
        folds = [fold for fold in wanted if (name, fold) not in self.models]
        n_concurrent = min(self.n_concurrent, len(folds))
        if folds:
            self.interrupt.check()

        ready = threading.Event()  # the first model has made the bins that all share
        abandoned = Interrupt()  # of models that are no longer needed

        def train(fold: int) -> None:
            is_first = fold == folds[0]
            if not is_first:
                ready.wait()
            try:
                if self.interrupt.is_set or abandoned.is_set:
                    return
                with self._building:
                    run = self._build(candidate, fold)
            finally:
                ready.set()
            self.models[name, fold] = self._train(run, fold, rivals.get(fold), abandoned)

        learner = as_learner(self.problem.settings.learner).name
        # Products of matrices are small: threads of theirs would wait for each other.
        is_network = candidate.network or learner == "network"
        products = threadpool_limits(1, "blas") if is_network else nullcontext()
        with products:
            pool = ThreadPoolExecutor(n_concurrent, "ebboost-model") if n_concurrent > 1 else None
            jobs = {}
            if pool is not None:
                jobs = {fold: pool.submit(copy_context().run, train, fold) for fold in folds}
            try:
                for fold in wanted:
                    if fold in jobs:
                        while wait([jobs[fold]], timeout=0.1).not_done:
                            pass  # a signal that another thread received is handled in between
                        jobs[fold].result()
                    elif fold in folds:
                        train(fold)
                    if (name, fold) not in self.models or not goes_on(fold):
                        abandoned.is_set = True
                        wanted = wanted[: wanted.index(fold) + 1]
                        break
            finally:
                if pool is not None:
                    pool.shutdown(cancel_futures=True)
        for fold in jobs:  # in their order, whichever was ready first; without those abandoned
            model = self.models.pop((name, fold), None)
            if model is not None and fold in wanted:
                self.models[name, fold] = model
        self._check_complete(name, wanted)

    def _check_complete(self, name: str, folds: Iterable[int]) -> None:
        """After an interrupt, drop models that are incomplete, and raise if one is missing.

        If all are incomplete, those of many rounds stay.
        """
        if not self.interrupt.is_set:
            return
        cut = {key for key, one in self.models.items() if one.stop_reason == Interrupt.reason}
        if len(cut) == len(self.models):
            most = max((one.n_trained for one in self.models.values()), default=0)
            cut = {key for key in cut if 2 * self.models[key].n_trained < most}
        for key in cut:
            del self.models[key]
        if any((name, fold) not in self.models for fold in folds):
            self.interrupt.check()

    def models_of(self, candidate: Candidate) -> dict[int, FoldModel]:
        """Return the models of a candidate by the number of their fold."""
        name = self.prefix + candidate.name
        return {fold: model for (other, fold), model in self.models.items() if other == name}

    def comparing(self) -> "Runner":
        """Return a runner that trains in fewer rounds, to compare candidates."""
        problem = self.problem
        settings = problem.settings
        rate = learning_rate(problem)
        size = defaults.for_size(problem.task)
        ratio = size.comparing_rate / max(rate, size.learning_rate)  # at most that of the defaults
        if ratio <= 1.0:
            return self
        patience = early_stopping(problem).n_iter_no_change
        settings = replace(
            settings,
            learning_rate=ratio * rate,
            n_estimators=math.ceil(settings.n_estimators / ratio),
            n_iter_no_change=math.ceil(patience / ratio),
        )
        return replace(
            self, problem=replace(problem, settings=settings), prefix=f"{self.prefix}compared: "
        )

    def train_on_all(self, candidate: Candidate, numbers: Iterable[int], n_rounds: int) -> None:
        """Train models for some rounds on all labels; their numbers are those of no fold."""
        settings = replace(self.problem.settings, n_estimators=n_rounds, early_stopping=False)
        problem = replace(self.problem, settings=settings)
        replace(self, problem=problem).train(candidate, numbers)

    def discard(self, candidate: Candidate) -> None:
        """Free the trees of a candidate that cannot be selected any more."""
        for fold, model in self.models_of(candidate).items():
            self.models[self.prefix + candidate.name, fold] = model.without_trees()

    def features_of(self, candidate: Candidate) -> CandidateFeatures:
        """Return the columns of a candidate that has been trained, or of a checkpoint's."""
        settings = candidate.tree_settings
        for features in reversed(self.features):  # the last: encoded with all labels, if any was
            if features.settings == settings:
                return features
        return self._build(candidate, 0).features

    def _build(self, candidate: Candidate, fold: int) -> CandidateRun:
        # Categories that are encoded with the labels differ from fold to fold.
        shared = [one for one in self.features if one.pipeline.encoder is None]
        loss = self.problem.loss_of(candidate)
        field = (self.problem.seed, repr(candidate.labels), repr(loss))
        first_mode = self.first_modes.get((*field, fold))
        run = build_run(self.problem, self.backend, candidate, fold, shared, first_mode)
        if isinstance(run.objective, LikelihoodFieldObjective):
            for key in [one for one in self.first_modes if one[:-1] != field]:
                del self.first_modes[key]
            self.first_modes[*field, fold] = run.objective.first_mode
        if not any(one.settings == run.features.settings for one in shared):
            self.features.append(run.features)
        return run

    def _train(
        self, run: CandidateRun, fold: int, rival: FoldModel | None, abandoned: Interrupt
    ) -> FoldModel:
        start = time.perf_counter()
        candidate = run.features.candidate
        history = History()
        watchers: list[Callback] = [history, *self.callbacks]
        if run.objective.validation is not None and self.problem.settings.early_stopping:
            stopping = early_stopping(self.problem, candidate)
            watchers.append(stopping)
            if rival is not None and rival.history.get("validation"):
                least = min(rival.history["validation"])
                watchers.append(StopBehind(least, stopping.n_iter_no_change))
        states: Sequence[dict[str, Any]] = ()
        after: list[Callback] = [self.interrupt, abandoned]
        session = self.session
        if session is not None:
            if not self.models and session.candidate is None:
                session.check_state(run.features.grower.state())
            if session.candidate == self.prefix + candidate.name and session.fold == fold:
                stored = session.load("run", run.objective)
                run.boosting.restore(stored["boosting"])
                parts = iter(stored["callbacks"])
                states = [next(parts) if watcher.has_state else {} for watcher in watchers]

            def collect() -> dict[str, Any]:
                return {
                    "models": [(*key, model.state()) for key, model in self.models.items()],
                    "run": {
                        "boosting": run.boosting.state(),
                        "callbacks": [one.state() for one in watchers if one.has_state],
                    },
                }

            where = (self.prefix + candidate.name, fold, self.n_rounds)
            after.append(CheckpointCallback(session, collect, self.interrupt, *where))
        result = boost(run.boosting, watchers, after=after, states=states)
        seconds = time.perf_counter() - start
        facts = (candidate.name, fold + 1, run.boosting.n_done, seconds, result.stop_reason)
        logger.info("model %s, fold %d: %d rounds in %.2f s, %s", *facts)
        return self._model(run, fold, result, history, seconds)

    def _model(
        self, run: CandidateRun, fold: int, result: BoostingResult, history: History, seconds: float
    ) -> FoldModel:
        to_host = self.backend.to_host
        objective = run.objective
        held_out = self.problem.labels.held_out(fold).nodes
        eval_set = self.problem.labels.evaluation
        evaluation = held_out[:0] if eval_set is None else eval_set.nodes
        predictions = to_host(objective.predict(result.best))
        init_score = to_host(objective.init_score)
        propagated = init_score + to_host(run.operator.apply(result.best.scores))
        if self.problem.offset is not None:
            propagated = propagated + self.problem.offset
        graph = self.problem.graph
        use = run.features.candidate.labels
        if graph is not None and graph.time is not None and isinstance(use, LatentField):
            nodes = np.append(held_out, evaluation)
            labels = self.problem.labels.training(fold)
            loss = self.problem.loss_of(run.features.candidate)
            problem = (graph, labels, loss, propagated[labels.nodes], nodes)
            predictions = propagated + causal_mode(self.backend.field_mode, use, *problem)
        raw = run.features.candidate.to_raw(predictions)
        scores = to_host(result.best.scores)
        if isinstance(run.features.grower, PartialGrower):
            scores = run.features.grower.mark_missing(scores)
        return FoldModel(
            ensemble=run.features.grower.compile(result.best.weights),
            init_score=init_score,
            scores=scores,
            held_out=raw[held_out],
            held_out_scores=propagated[held_out],
            evaluation=raw[evaluation],
            evaluation_scores=propagated[evaluation],
            n_rounds=result.n_rounds,
            n_trained=run.boosting.n_done,
            stop_reason=result.stop_reason,
            history=history.losses,
            seconds=seconds,
        )
