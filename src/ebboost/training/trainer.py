"""Training: prepare → select → boost → finish, from the arguments of ``fit`` to a fitted state."""

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import _get_feature_names

from ebboost.backends import Backend, as_backend
from ebboost.backends.dask import gathered, is_dask
from ebboost.backends.dask.edges import open_graphs
from ebboost.boosting.callbacks import Callback, Interrupt, ProgressBar, Stopped
from ebboost.data import validation as checks
from ebboost.data.coordinates import first_neighbors
from ebboost.data.reader import TableReader
from ebboost.data.table import Table
from ebboost.graph import Graph, as_parquet_relations
from ebboost.learners import as_learner
from ebboost.model.inputs import mix_relations, named_columns, read_table
from ebboost.model.output import ClassOutput, Output
from ebboost.model.state import FittedState
from ebboost.propagation import threads
from ebboost.training import defaults
from ebboost.training.checkpoint import Checkpoint, CheckpointSession, checkpoint_session
from ebboost.training.finish import average_models, finish
from ebboost.training.likelihood import with_estimated_loss
from ebboost.training.parts import Parts, parts_of
from ebboost.training.problem import FitData, Problem, check_causal, check_offset, fold_labels
from ebboost.training.relations import choose_strengths
from ebboost.training.rules import parts_by_rules
from ebboost.training.runs import Runner
from ebboost.training.selection import Search
from ebboost.training.settings import Settings
from ebboost.training.warm_start import continued_output, continued_settings, with_warm_start

logger = logging.getLogger(__name__)


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
    interrupt: Interrupt = field(default_factory=Interrupt, compare=False)

    @cached_property
    def settings(self) -> Settings:
        """The parameters, typed."""
        return Settings.from_parameters(self.parameters)

    def fit(self, data: FitData) -> FittedState:
        """Return the fitted state."""
        if not is_dask(data.X):
            data = data._replace(graph=open_graphs(data.graph, data.X, data.groups is not None))
        relations = as_parquet_relations(data.graph)
        is_divided = data.coordinates is not None or data.groups is not None
        if relations is not None or (is_dask(data.X) and is_divided):
            # Imported when used: it needs Dask.
            from ebboost.training.shards import fit_shards

            return fit_shards(self, data, relations)
        data = FitData(data.X, *gathered(*data[1:]))
        if is_dask(data.X):
            from ebboost.training.cluster import fit_on_cluster

            return fit_on_cluster(self, data)
        with checkpoint_session(self.checkpoint, self.resume) as session:
            reader = TableReader(self.settings.categorical_features)
            if data.init_model is not None:
                reader = data.init_model.reader
                table = read_table(data.init_model, data.X)
            else:
                table = reader.fit(data.X)
            problem = self.prepare(data, reader, table, session)
            if data.init_model is not None:
                problem = with_warm_start(problem, data.init_model)
            if session is not None:
                session.check_fingerprint(problem.fingerprint(self.callbacks))
            with threads(problem.n_threads), as_backend(self.settings.device) as backend:
                state = train(problem, backend, self.callbacks, session, self.interrupt)
                state = finish(state, problem.labels, backend)
        logger.info("%s: selected %s", self.estimator, state.candidate.name)
        return state

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
        settings = continued_settings(self.settings, self.estimator, data)
        columns = named_columns(data.X)
        X = columns if is_dask(data.X) else data.X
        data, coordinates = data.with_graph(reader, table, first_neighbors(settings.neighbors))
        is_given = data.coordinates is None and data.groups is None
        checks.check_graph(data.graph, table.n_rows, X if is_given else None)
        seed = int(check_random_state(settings.random_state).randint(np.iinfo(np.int32).max))
        if session is not None and not isinstance(settings.random_state, Integral):
            seed = session.seed(seed)  # another one would be drawn each time
        classes = self.output_type is ClassOutput
        arguments = (data.y, data.nodes, data.sample_weight)
        known = checks.labelled_nodes(*arguments, table.n_rows, classes, self.estimator)
        output = continued_output(self.output_type, known[1], settings.loss, data.init_model)
        time = None if data.time is None else checks.time_column(data.time, table)
        n_folds = count_folds(settings, known[0].size, table, data.eval_set is not None)
        if time is not None and n_folds > 1 and settings.n_folds == "auto":
            n_folds = 1 if data.eval_set is not None else defaults.FOLDS_IN_TIME
        where = (data.eval_set, table.n_rows, seed, n_folds, time)
        folds = fold_labels(settings, output, known, *where)
        labels = folds.labels
        strengths = choose_strengths(settings.relations, data.graph, labels)
        log_link = output.loss.log_link
        offset = checks.offset_column(data.offset, data.exposure, table.n_rows, log_link)
        check_offset(offset, labels, settings, output)
        graph = mix_relations(data.graph, strengths)
        if data.causal:
            if time is None or graph is None:
                raise ValueError("causal=True needs time, and a graph or coordinates.")
            graph = graph.with_time(time)
            check_causal(graph, folds, settings)
        return Problem(
            estimator=self.estimator,
            parameters=self.parameters,
            settings=settings,
            output=output.fit_loss(labels, offset),
            reader=reader,
            table=table,
            feature_names=_get_feature_names(columns),
            graph=graph,
            relation_strengths=strengths,
            coordinates=coordinates,
            labels=folds,
            seed=seed,
            offset=offset,
        )


def count_folds(settings: Settings, n_labels: int, table: Table, has_eval_set: bool) -> int:
    """Return how many models are each trained without a fold; 0 to train on all labels."""
    if not settings.early_stopping:
        return 0
    n_folds = settings.n_folds
    # Categories encoded with the labels of a fold belong to the model of that fold alone.
    encodes = bool(table.categorical) and not as_learner(settings.learner).takes_categories
    if not isinstance(n_folds, str):
        if n_folds > 1 and encodes:
            raise ValueError(
                f"n_folds must be 1 or 'auto' with learner={settings.learner!r} and columns of "
                f"categories, which it encodes with the labels of a fold; got {n_folds}."
            )
        if n_folds > 1 and n_labels < 2 * n_folds:
            raise ValueError(
                f"n_folds={n_folds} needs at least {2 * n_folds} labels, got {n_labels}: use fewer."
            )
        holds_out = n_folds == 1 and not has_eval_set
        return 0 if holds_out and n_labels <= defaults.MIN_LABELS_TO_TRAIN else n_folds
    is_fixed = settings.smoothing != "auto" and settings.labels != "auto"
    if is_fixed or encodes:
        if n_labels >= defaults.MIN_LABELS_TO_HOLD_OUT or has_eval_set:
            return 1
        if encodes:
            return 0
    return defaults.n_folds(n_labels)


def train(
    problem: Problem,
    backend: Backend,
    callbacks: Sequence[Callback] = (),
    session: CheckpointSession | None = None,
    interrupt: Interrupt | None = None,
) -> FittedState:
    """Select a candidate, train its models, and return their average before labels are used.

    After an interrupt it is the best of what has been trained.
    """
    settings = problem.settings
    watchers = [*callbacks, *([ProgressBar()] if settings.verbose else [])]
    interrupt = interrupt or Interrupt()
    interrupt.counts_rounds = False
    problem = with_estimated_loss(problem, backend, interrupt)
    interrupt.counts_rounds = True
    parts = candidate_parts(problem)
    runner = Runner(problem, backend, watchers, session, interrupt)
    searched = problem
    search = Search(problem, runner, parts)
    searches = [search]
    try:
        problem = searched = search.with_chosen_graph()
        searched = parts.with_vectors(problem)
        search = Search(searched, replace(runner, problem=searched), parts)
        searches = [search]
        search.run()
        for number in range(1, _n_searches(problem, parts)):
            searches.append(search.repeat(number))
    except Stopped:
        if not search.is_complete:
            search.settle()
    uses_vectors = any(one.spectral_features for each in searches for one in each.averaged)
    return average_models(searched if uses_vectors else problem, backend, searches)


def _n_searches(problem: Problem, parts: Parts) -> int:
    """How often candidates are searched for, with other folds each time."""
    in_memory = isinstance(problem.graph, Graph)
    has_folds = problem.labels.n_folds > 1 and not problem.labels.in_time
    is_repeated = problem.settings.selection == "thorough" and parts.steps and in_memory
    return defaults.SEARCHES if is_repeated and has_folds else 1


def candidate_parts(problem: Problem) -> Parts:
    """Return the parts of the candidates, those of one alone where none are compared."""
    if problem.warm_start is not None:
        candidates = [one.state.candidate for one in problem.warm_start.values()]
        return Parts(candidates[0], others=tuple(candidates[1:]))
    parts = parts_of(problem)
    has_validation = problem.labels.validation(0) is not None
    by_rules = problem.settings.selection == "rules" or not has_validation
    if parts.steps and by_rules and problem.graph is not None:
        parts = parts_by_rules(problem, parts)
    return parts
