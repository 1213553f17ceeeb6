"""Training: prepare → select → boost → finish, from the arguments of ``fit`` to a fitted state."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import _get_feature_names

from ebboost.backends import Backend, as_backend
from ebboost.backends.dask import gathered, is_dask
from ebboost.boosting.callbacks import Callback, History, Interrupt, ProgressBar
from ebboost.boosting.loop import BoostingResult, boost
from ebboost.data import validation as checks
from ebboost.data.reader import TableReader
from ebboost.data.table import Table
from ebboost.data.warn import warn_caller
from ebboost.model.environment import environment
from ebboost.model.output import ClassOutput, Output
from ebboost.model.predict import mix_relations, named_columns
from ebboost.model.state import FittedState
from ebboost.propagation import threads
from ebboost.training import defaults
from ebboost.training.checkpoint import (
    Checkpoint,
    CheckpointCallback,
    CheckpointSession,
    checkpoint_session,
)
from ebboost.training.finish import finish
from ebboost.training.problem import FitData, Problem, check_offset, choose_strengths, split_labels
from ebboost.training.runs import build_run, candidates, cross_fit, early_stopping
from ebboost.training.selection import (
    CandidatePool,
    CandidateRun,
    SelectionResult,
    label_correlation,
    successive_halving,
)
from ebboost.training.settings import Settings

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Selected:
    """The selected candidate's run, and what selection has learned."""

    run: CandidateRun
    selection: SelectionResult
    out_of_fold: Array | None
    callback_states: Sequence[dict[str, Any]] = ()


@dataclass(frozen=True)
class Trainer:
    """Runs a fit: prepare, select, boost, finish.

    ``estimator`` is the name of the estimator class, ``parameters`` are those of its constructor,
    the others the arguments of its ``fit``.
    """

    estimator: str
    parameters: Mapping[str, Any]
    output_type: type[Output]
    callbacks: Sequence[Callback] = ()
    checkpoint: str | os.PathLike[str] | Checkpoint | None = None
    resume: bool = False

    @cached_property
    def settings(self) -> Settings:
        """The parameters, typed."""
        return Settings.from_parameters(self.parameters)

    def fit(self, data: FitData) -> FittedState:
        """Return the fitted state."""
        data = FitData(data.X, *gathered(*data[1:]))
        if is_dask(data.X):
            # Imported when used: it needs Dask.
            from ebboost.training.cluster import fit_on_cluster

            return fit_on_cluster(self, data)
        with checkpoint_session(self.checkpoint, self.resume) as session:
            reader = TableReader(self.settings.categorical_features)
            table = reader.fit(data.X)
            problem = self.prepare(data, reader, table, session)
            if session is not None:
                session.check_fingerprint(problem.fingerprint(self.callbacks))
            with threads(problem.n_threads), as_backend(self.settings.device) as backend:
                state, out_of_fold = train(problem, backend, self.callbacks, session)
                return finish(state, problem.labels, out_of_fold, backend)

    def prepare(
        self,
        data: FitData,
        reader: TableReader,
        table: Table,
        session: CheckpointSession | None = None,
    ) -> Problem:
        """Return the problem: labels encoded and split, relations mixed, the loss fitted.

        ``table`` is what ``reader`` has read. A fit that is resumed uses the seed of its
        ``session``.
        """
        settings = self.settings
        columns = named_columns(data.X)
        X = columns if is_dask(data.X) else data.X
        data, coordinates = data.with_graph(reader, table)
        checks.check_graph(data.graph, table.n_rows, X)
        checks.check_label_order(X, data.y)
        seed = int(check_random_state(settings.random_state).randint(np.iinfo(np.int32).max))
        if session is not None and not isinstance(settings.random_state, Integral):
            seed = session.seed(seed)  # another one would be drawn each time
        classes = self.output_type is ClassOutput
        arguments = (data.y, data.nodes, data.sample_weight)
        known = checks.labelled_nodes(*arguments, table.n_rows, classes, self.estimator)
        output = self.output_type.from_labels(known[1], settings.loss)
        labels = split_labels(settings, output, known, data.eval_set, table.n_rows, seed)
        strengths = choose_strengths(settings.relations, data.graph, labels.training)
        log_link = output.loss.log_link
        offset = checks.offset_column(data.offset, data.exposure, table.n_rows, log_link)
        check_offset(offset, labels.training, settings)
        return Problem(
            estimator=self.estimator,
            parameters=self.parameters,
            settings=settings,
            output=output.fit_loss(labels.training, offset),
            reader=reader,
            table=table,
            feature_names=_get_feature_names(columns),
            graph=mix_relations(data.graph, strengths),
            relation_strengths=strengths,
            coordinates=coordinates,
            labels=labels,
            seed=seed,
            offset=offset,
        )


def train(
    problem: Problem,
    backend: Backend,
    callbacks: Sequence[Callback] = (),
    session: CheckpointSession | None = None,
) -> tuple[FittedState, Array | None]:
    """Select a candidate and boost it to the end.

    Returns its state before labels are used, and where there are no validation nodes the
    out-of-fold predictions of the training labels.
    """
    settings = problem.settings
    interrupt = Interrupt()
    history = History()
    watchers: list[Callback] = [history, *callbacks]
    if settings.early_stopping and problem.labels.validation is not None:
        watchers.append(early_stopping(problem))
    if settings.verbose:
        watchers.append(ProgressBar())
    if session is not None and session.candidate is not None:
        selected = _resume(problem, backend, session, watchers)
    else:
        selected = select(problem, backend, session, interrupt, keep_rounds=bool(callbacks))
    return _boost(problem, backend, selected, watchers, history, interrupt, session)


def select(
    problem: Problem,
    backend: Backend,
    session: CheckpointSession | None,
    interrupt: Interrupt,
    keep_rounds: bool,
) -> Selected:
    """Return the run of the best candidate; ``keep_rounds`` for callbacks that see them all."""
    settings = problem.settings
    labels = problem.labels
    pool = CandidatePool(candidates(problem), partial(build_run, problem, backend, labels))
    selection = SelectionResult(pool.names[0])
    if session is not None:
        session.check_state(pool.run(selection.best).features.grower.state())
    if len(pool.names) > 1 and labels.validation is not None:
        pool.run(selection.best)  # while Ctrl-C still raises at once
        n_scores = problem.table.n_rows * labels.training.target.shape[1]
        stages = defaults.selection_stages(problem.classes, problem.n_labels, n_scores)
        stages = [min(n_rounds, settings.n_estimators) for n_rounds in stages]
        drops_rounds = settings.early_stopping and not keep_rounds
        make_stopping = partial(early_stopping, problem) if drops_rounds else None
        with interrupt:
            selection = successive_halving(pool, stages, lambda: interrupt.is_set, make_stopping)
    elif "graph" in pool.names and problem.graph is not None:
        correlation = label_correlation(problem.graph, labels.training)
        if correlation > defaults.CORRELATION_STANDARD_ERRORS / np.sqrt(problem.n_labels):
            selection = SelectionResult("graph")
    run = pool.run(selection.best)
    out_of_fold = None
    if settings.early_stopping and labels.validation is None:
        n_rounds, out_of_fold = cross_fit(problem, backend, run.features.candidate)
        run.boosting.n_rounds = n_rounds
    return Selected(run, selection, out_of_fold)


def _resume(
    problem: Problem, backend: Backend, session: CheckpointSession, watchers: Sequence[Callback]
) -> Selected:
    """The run of a checkpoint, restored."""
    (candidate,) = (one for one in candidates(problem) if one.name == session.candidate)
    run = build_run(problem, backend, problem.labels, candidate)
    state = session.load(run.objective)
    run.boosting.restore(state["boosting"])
    stored = iter(state["callbacks"])
    callback_states = [next(stored) if watcher.has_state else {} for watcher in watchers]
    out_of_fold = state["out_of_fold"]
    if out_of_fold is not None:
        out_of_fold = backend.to_host(out_of_fold)
    selection = SelectionResult(candidate.name, losses=state["selection"])
    return Selected(run, selection, out_of_fold, callback_states)


def _boost(
    problem: Problem,
    backend: Backend,
    selected: Selected,
    watchers: list[Callback],
    history: History,
    interrupt: Interrupt,
    session: CheckpointSession | None,
) -> tuple[FittedState, Array | None]:
    """The state of the selected run, boosted to the end, and out-of-fold predictions."""
    run = selected.run
    after: list[Callback] = [interrupt]
    if interrupt.is_set:  # the comparison was cut short: it is to be repeated, not resumed
        session = None
    if session is not None:

        def collect() -> dict[str, Any]:
            return {
                "candidate": run.features.candidate.name,
                "selection": selected.selection.losses,
                "out_of_fold": selected.out_of_fold,
                "boosting": run.boosting.state(),
                "callbacks": [watcher.state() for watcher in watchers if watcher.has_state],
            }

        after = [CheckpointCallback(session, collect, interrupt), interrupt]
    with interrupt:
        done = selected.selection.rounds
        states = selected.callback_states
        result = boost(run.boosting, watchers, done, after=after, states=states)
    if interrupt.is_set:
        result = replace(result, stop_reason=interrupt.reason)
        hint = "" if session is None else f" resume=True continues from {session.folder}."
        warn_caller(
            f"fit was interrupted after round {run.boosting.n_done}: the model is the best of the "
            f"rounds so far.{hint}"
        )
    return _state(problem, backend, selected, result, history), selected.out_of_fold


def _state(
    problem: Problem, backend: Backend, selected: Selected, result: BoostingResult, history: History
) -> FittedState:
    """The state of a model whose predictions use no labels yet, in host memory."""
    run = selected.run
    features = run.features
    scores = backend.to_host(result.best.scores)
    on_disk = problem.table.on_disk
    encodes = features.pipeline.encoder is not None
    model = ("estimator", "parameters", "output")
    data = ("reader", "feature_names", "graph", "relation_strengths", "coordinates")
    return FittedState(
        **{name: getattr(problem, name) for name in model + data},
        labels=problem.labels.training,
        candidate=features.candidate,
        pipeline=features.pipeline,
        column_origin=features.table.origin,
        ensemble=features.grower.compile(result.best.weights),
        init_score=backend.to_host(run.objective.init_score),
        offset=problem.offset,
        scores=scores,
        propagated_scores=backend.to_host(run.operator.apply(result.best.scores)),
        raw_predictions=scores,
        n_iter=result.n_rounds,
        stop_reason=result.stop_reason,
        history=history.losses,
        selection=selected.selection.losses,
        environment=environment(problem.n_threads),
        table=None if on_disk else problem.table,
        encoded_table=features.table.materialize() if encodes else None,
        from_disk=on_disk,
    )
