"""A fit from top to bottom: read, split into folds, train the members, weigh them, assemble.

The default in ten lines is on the page *How the default works*; its members and numbers are in
:mod:`ebboost.defaults`.
"""

import logging
import time
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from contextvars import copy_context
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial
from math import ceil
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize, nnls
from sklearn.utils.validation import _get_feature_names
from threadpoolctl import threadpool_limits

from ebboost import defaults
from ebboost._common import (
    Array,
    IntArray,
    LabelledRows,
    LabelsLike,
    TableLike,
    seed_of,
    warn_caller,
)
from ebboost.arrays import here, on_device, there
from ebboost.boosting import Boosted, Objective, boost, checked_loss
from ebboost.callbacks import Callback, EarlyStopping, Watch
from ebboost.data import checks
from ebboost.data.coordinates import Coordinates, append_columns, degrees_text, seem_degrees
from ebboost.data.distances import FEWEST_LABELS, Distances, Separation, separate
from ebboost.data.features import FeatureMap, NeighborFeatures, SpectralFeatures
from ebboost.data.labels import Folds, Labels, split_at_random, split_in_time, split_share
from ebboost.data.neighbors import Places
from ebboost.data.reader import TableReader, split_geometry
from ebboost.data.row_order import RowOrder
from ebboost.data.table import Table
from ebboost.defaults import FAR, PORTFOLIO, SEVERAL, Member
from ebboost.field import LatentField, Posterior
from ebboost.graph import Graph
from ebboost.intervals import Forecast, estimate_spread
from ebboost.kriging import GaussianProcess, correlation_range, estimate_process
from ebboost.learners import Binned, Ensemble, Learner, RandomNetwork, as_learner
from ebboost.losses import Loss, Poisson, SquaredError
from ebboost.losses.base import initial_scores
from ebboost.model import Component, Gain, Model, Unseen, in_metric, metric_of
from ebboost.output import Output
from ebboost.smoothing import Identity, Laplacian, Operator, Smoother
from ebboost.strengths import estimate_strengths
from ebboost.threads import max_threads, threads

logger = logging.getLogger(__name__)
# Tables of fewer entries are trained by one thread for each fold: more for one model cost more than
# they gain.
ENTRIES_OF_ONE_THREAD = 4_000_000
ENTRIES_OF_THREAD = 250_000
SUM_WEIGHT = 1e4  # of the equation that weights have the sum 1
WEIGHT_SEARCHES = 5
SEARCH_TOLERANCE = 1e-7  # share by which a search for weights must lower the loss


@dataclass(frozen=True)
class Data:
    """What a fit is trained on: everything read and checked."""

    settings: Any  # the estimator, whose parameters are its attributes
    reader: TableReader
    table: Table
    feature_names: NDArray[Any] | None
    output: Output
    folds: Folds
    seed: int
    places: Places | None = None
    coordinates: Coordinates | None = None
    separation: Separation | None = None
    offset: Array | None = None
    trials: Array | None = None  # of the rows, where labels are shares
    times: Array | None = None  # of the rows
    row_labels: Any = None  # the pandas index of X
    geometry: Any = None  # of a GeoDataFrame
    #: What members share: columns, bins, spectral vectors, posteriors, by what they depend on.
    shared: dict[Hashable, Any] = field(default_factory=dict, repr=False)

    @property
    def labels(self) -> Labels:
        """The known labels."""
        return self.folds.labels


@dataclass(frozen=True)
class Parts:
    """What a member of the portfolio is on the data of a fit."""

    member: Member
    learner: Learner
    features: FeatureMap
    smoothing: Smoother | None
    field: LatentField | None
    loss: Loss
    rate: float
    patience: int
    has_own_link: bool  # whether it is trained with another likelihood than that of the fit
    process: GaussianProcess | None = None
    objective: Callable[..., Objective] = Objective
    boost: Callable[..., Boosted] = boost

    @property
    def key(self) -> Hashable:
        """What two members must share to be the same."""
        parts = (self.learner, self.features, self.smoothing, self.field, self.loss, self.rate)
        return tuple(map(repr, parts))

    @property
    def uses_graph(self) -> bool:
        """Whether any part needs the graph."""
        return self.features.uses_graph or (self.smoothing, self.field) != (None, None)


@dataclass(frozen=True)
class FoldModel:
    """A model of one fold: f of the rows that it was trained on, and predictions of unseen labels.

    ``raw`` are predictions on the scale of the fit's loss, ``without_field`` scores without it.
    """

    ensemble: Ensemble
    init_score: Array
    scores: Array
    held_out: Array
    evaluation: Array
    without_field: Array
    n_rounds: int
    reason: str
    losses: dict[str, list[float]]


@dataclass(frozen=True)
class Run:
    """A member and its models of all folds; ``rows`` are those that scores belong to."""

    parts: Parts
    features: FeatureMap  # with what they have learned
    table: Table  # the columns of its trees
    rows: IntArray
    models: tuple[FoldModel, ...]
    seconds: float

    @property
    def rounds(self) -> list[int]:
        """Rounds of each model."""
        return list(map(attrgetter("n_rounds"), self.models))

    @property
    def unseen(self) -> Array:
        """Predictions of labels by models that were not trained on them; of ``eval_set``, means."""
        return self._at_unseen([(one.held_out, one.evaluation) for one in self.models])

    @property
    def without_field(self) -> Array:
        """Scores of the same labels without the field."""
        sizes = [len(one.held_out) for one in self.models]
        pairs = zip(self.models, sizes, strict=True)
        return self._at_unseen([np.split(one.without_field, [size]) for one, size in pairs])

    @staticmethod
    def _at_unseen(pairs: Sequence[Sequence[Array]]) -> Array:
        held_out, evaluation = zip(*pairs, strict=True)
        return np.concatenate([*held_out, np.mean(evaluation, axis=0)])


def fit(
    settings: Any,
    X: TableLike,
    y: LabelsLike | None,
    *,
    classes: bool,
    graph: Graph | None = None,
    nodes: Any = None,
    eval_set: LabelledRows | None = None,
    coordinates: Any = None,
    groups: Any = None,
    time: Any = None,
    offset: Any = None,
    exposure: Any = None,
    sample_weight: Any = None,
    callbacks: Sequence[Callback] = (),
) -> Model:
    """Return the fitted model of an estimator."""
    own = settings.labels
    if not isinstance(own, LatentField) and own not in ("auto", "field", "none"):
        raise ValueError(
            f"labels must be 'auto', 'none', 'field' or eb.LatentField(...), got {own!r}."
        )
    as_learner(settings.learner, settings.device).check(settings.device)
    with Watch(settings.max_seconds, settings.verbose) as watch, on_device(settings.device):
        data = read(
            settings, X, y, classes, graph, nodes, eval_set, coordinates, groups, time, offset,
            exposure, sample_weight,
        )  # fmt: skip
        members = portfolio(data)
        n_before = int(members[0].field == "estimated")  # of one model: plain trees
        n_members = len(members) + n_before
        watch.n_models = n_members * data.folds.n_models
        data, strengths, first = first_run(data, members, callbacks, watch)
        announce(watch, data, first, 1, n_members)
        runs = [first]
        for number, member in enumerate(members, n_before + 1):
            if watch.reason:
                break
            if member == first.parts.member:
                continue
            parts = resolve(member, data, strengths)
            same = [run for run in runs if run.parts.key == parts.key]
            if same and not member.process:
                continue
            run = same[-1] if same else cross_fit(parts, data, callbacks, watch)
            is_complete = len(run.models) == data.folds.n_models  # before any limit
            if member.process and is_complete:
                run = with_process(replace(run, parts=parts), data)
            announce(watch, data, run, number, n_members)
            if is_complete:
                runs.append(run)
        return assemble(data, runs, watch)


def announce(watch: Watch, data: Data, run: Run, number: int, n_members: int) -> None:
    """Say what a member has reached."""
    error, loss = "", data.output.loss
    labels = data.folds.unseen
    if labels.size and len(run.models) == data.folds.n_models:
        mean = in_metric(loss, labels.mean(0.5 * loss.deviance(run.unseen, labels.target)))
        error = f"{metric_of(loss)} {mean:,.0f}" if mean >= 1e4 else f"{metric_of(loss)} {mean:.4g}"
        if mean < watch.least:
            watch.least, watch.best = mean, error
    watch.n_done = number * data.folds.n_models  # some members share their models
    if watch.verbose > 0:
        where = f"{number} of {n_members}: {run.parts.member.name}"
        watch.write(f"{where}, {error}{', ' * bool(error)}{run.seconds:.1f} s")


def read(
    settings: Any,
    X: TableLike,
    y: LabelsLike | None,
    classes: bool,
    graph: Graph | None,
    nodes: Any,
    eval_set: LabelledRows | None,
    coordinates: Any,
    groups: Any,
    time: Any,
    offset: Any,
    exposure: Any,
    sample_weight: Any,
) -> Data:
    """Read and check the arguments of a fit, and draw the folds."""
    for part in (settings.neighbor_features, settings.spectral_features):
        if part is not None and part != "auto":
            part.check()
    order = RowOrder(X, graph if groups is None else None)
    if nodes is not None:
        nodes = order.rows(nodes)
    order.check(nodes, y=y, sample_weight=sample_weight)
    order.check(coordinates=coordinates, offset=offset, exposure=exposure, groups=groups, time=time)
    X, geometry = split_geometry(X)
    if graph is None and groups is None:
        coordinates = geometry if coordinates is None else coordinates
        if coordinates is not None:
            X, coordinates = append_columns(X, coordinates)
    reader = TableReader(settings.categorical_features)
    table = reader.fit(X)
    n_rows = table.n_rows
    seed = seed_of(settings.random_state)
    name = type(settings).__name__
    rows, values, weight = checks.labelled_nodes(y, nodes, sample_weight, n_rows, classes, name)
    if classes:
        output = Output.of_classes(values, settings.loss)
        weight = weight * output.label_weights(values, settings.class_weight)
    else:
        output = Output.of_numbers(settings.loss)
    column = trials = evaluation = None
    if output.loss.has_trials and exposure is not None:
        trials, exposure = checks.row_numbers(exposure, n_rows, "exposure"), None
        weight = weight * trials[rows]
    labels = Labels(rows, output.encode(values, "y"), weight)
    if eval_set is not None:
        eval_set = order.pair(eval_set, "eval_set")
        held, held_values = checks.extra_labels(eval_set, rows, n_rows, classes)
        own_weight = np.ones(held.size) if trials is None else trials[held]
        evaluation = Labels(held, output.encode(held_values, "eval_set"), own_weight)
    if offset is not None or exposure is not None:
        column = checks.offset_column(offset, exposure, n_rows, output.loss.log_link)
        assert column is not None
        if not output.loss.log_link:
            checks.check_offset_size(column, labels.target, classes)
        if labels.target.shape[1] > 1:
            raise ValueError("offset needs one score for each row: y has more than two classes.")
    places = points = separation = None
    if groups is not None or coordinates is not None or graph is not None:
        places, points = read_places(X, table, graph, coordinates, groups)
        if places.groups and settings.device != "cpu":
            raise ValueError("several groups need device='cpu'.")
    times = None if time is None else checks.time_column(time, table)
    folds = draw_folds(settings, labels, evaluation, classes, seed, times)
    are_random = folds.n_models > 1 and not folds.in_time and evaluation is None
    if settings.n_folds in ("blocks", "distance"):
        check_blocks(settings.n_folds, are_random, labels, n_rows, places, points)
    if places is not None and are_random:
        folds, separation = match_distances(settings, folds, places, points, n_rows, seed)
    if trials is not None:  # around a constant: too large, which suits any labels at first
        start = initial_scores(output.loss, labels.target, labels.weight)
        loss: Any = output.loss
        own, folds = loss.weigh(loss, folds, trials, labels, start)
        output = replace(output, loss=own)
        labels = folds.labels
    output = output.fitted(labels, column)
    own_offset = None if column is None else column[rows]
    start = initial_scores(output.loss, labels.target, labels.weight, own_offset)
    for method in ("value", "gradient", "curvature"):  # of losses that users write
        checked_loss(output.loss, method, there(start), there(labels))
    return Data(
        settings=settings,
        reader=reader,
        table=table,
        feature_names=_get_feature_names(X),
        output=output,
        folds=folds,
        seed=seed,
        places=places,
        coordinates=points,
        separation=separation,
        offset=column,
        trials=trials,
        times=times,
        row_labels=order.index,
        geometry=geometry,
    )


def read_places(
    X: TableLike, table: Table, graph: Graph | None, coordinates: Any, groups: Any
) -> tuple[Places, Coordinates | None]:
    """Return the graph with the node of each row, and the coordinates that it was made from."""
    if groups is not None:
        from ebboost.groups import group_places, read_groups

        if coordinates is not None:
            raise ValueError(
                "groups takes a graph of the groups, no coordinates: make one of the points of a "
                "group with eb.Graph.build_knn(points, 6)."
            )
        return group_places(read_groups(X, groups, table.n_rows), graph), None
    if coordinates is None:
        checks.check_graph(graph, table.n_rows, X)
        assert graph is not None
        return Places.of_rows(graph), None
    if graph is not None:
        raise ValueError("graph and coordinates exclude each other: pass one of them.")
    points, graph = Coordinates.fit(coordinates, table.names, table)
    names = [table.names[column] for column in points.columns]
    if points.points.shape[1] == 2 and seem_degrees(points.points, names):
        warn_caller(degrees_text(() if names == ["x", "y"] else names))
    return Places.of_rows(graph), points


def draw_folds(
    settings: Any,
    labels: Labels,
    evaluation: Labels | None,
    classes: bool,
    seed: int,
    times: Array | None,
) -> Folds:
    """Return the folds of the labels."""
    count = settings.n_folds
    every = np.arange(labels.size)
    if not settings.early_stopping or (
        labels.size < defaults.FEWEST_LABELS and evaluation is None and isinstance(count, str)
    ):
        return Folds(labels, (every,), (every[:0],), evaluation)
    if times is not None:
        n_blocks, share = (1, defaults.HELD_OUT_SHARE) if count == 1 else defaults.BLOCKS_IN_TIME
        folds = split_in_time(labels, times[labels.rows], n_blocks, share)
        if not folds.n_models:
            raise ValueError(
                "time is the same for all labels: pass times that differ, or leave time out."
            )
        return replace(folds, evaluation=evaluation)
    if isinstance(count, str):
        count = defaults.size(labels.size).folds if labels.size >= defaults.FEWEST_LABELS else 1
    if count > 1:
        if labels.size < count:
            raise ValueError(
                f"n_folds={count} needs at least {count} labels, got {labels.size}: use fewer."
            )
        return split_at_random(labels, count, seed, classes, evaluation)
    is_enough = evaluation is not None or labels.size < defaults.FEWEST_LABELS
    share = 0.0 if is_enough else defaults.HELD_OUT_SHARE
    return split_share(labels, share, seed, classes, evaluation)


def match_distances(
    settings: Any, folds: Folds, places: Places, points: Coordinates | None, n_rows: int, seed: int
) -> tuple[Folds, Separation | None]:
    """Return folds whose held-out labels are as far from the others as the rows to predict are."""
    distances, how, rows = Distances.of(places, points), settings.n_folds, folds.labels.rows
    if distances is None:
        return folds, None
    size = None
    if how == "blocks" and distances.points is not None:
        target = folds.labels.target[:, folds.labels.target.var(axis=0).argmax()]
        size = correlation_range(distances.scale * distances.points[rows], target)
    is_asked = {"distance": True, "random": False}.get(how)
    found = separate(distances, n_rows, rows, folds.fold_of_label, seed, size, is_asked)
    if found is None or not found[1].is_matched:
        return folds, None if found is None else found[1]
    return Folds.of(folds.labels, found[0]), found[1]


def check_blocks(
    how: str,
    are_random: bool,
    labels: Labels,
    n_rows: int,
    places: Places | None,
    points: Coordinates | None,
) -> None:
    """Raise ValueError if folds of blocks were asked for and there can be none."""
    lacking = None
    if labels.size < FEWEST_LABELS:
        lacking = f"needs {FEWEST_LABELS} labels, got {labels.size}"
    elif not are_random:
        lacking = "excludes time=, eval_set= and early_stopping=False"
    elif how == "blocks" and points is None:
        lacking = "needs coordinates=: with a graph, pass n_folds='distance'"
    elif places is None or places.graph.n_edges == 0:
        lacking = "needs coordinates= or a graph"
    elif how == "distance" and labels.size == n_rows:
        lacking = "needs rows to predict, without a label, in the table"
    if lacking is not None:
        raise ValueError(f"n_folds={how!r} {lacking}.")


def portfolio(data: Data) -> list[Member]:
    """Return the members that these data can have, the first with a field before all others."""
    settings = data.settings
    is_far = data.separation is not None and data.separation.is_matched
    has_process = is_far and data.coordinates is not None
    has_process &= type(data.output.loss) is SquaredError
    has_process &= isinstance(settings.labels, str) and settings.labels != "none"
    members = list(FAR if has_process else PORTFOLIO)
    graph = None if data.places is None else data.places.graph
    if data.places is not None and data.places.groups and not data.places.graph.n_edges:
        members = list(SEVERAL)
    if graph is None or data.places is None or (data.places.are_rows and graph.n_edges == 0):
        members = [member for member in members if not member.uses_graph]
    else:
        if graph.n_edges == 0:
            members = [replace(member, propagates=False, spectral=False) for member in members]
        if graph.n_nodes > defaults.SPECTRAL_UP_TO:
            members = [replace(member, spectral=False) for member in members]
        if data.labels.size > defaults.SMALL.up_to:  # of no use but for the gain
            members = [one for one in members if one.uses_graph or one.learner == "trees"]
    if not isinstance(settings.learner, str):
        members = [member for member in members if member.learner == "trees"]
    if settings.n_folds == 1 or (data.folds.n_models == 1 and not data.folds.in_time):
        is_estimated = members[0].field and data.folds.unseen.size >= defaults.FEWEST_LABELS
        return members[1:2] if is_estimated else members[:1]
    if data.labels.target.shape[1] > 1:
        members = [member for member in members if member.classes]
    return members


def resolve(member: Member, data: Data, strengths: LatentField | None) -> Parts:
    """Return what a member is on these data; parts that the user has set are those of all."""
    settings, output = data.settings, data.output
    classes, n_labels = output.is_classifier, data.labels.size
    is_network = member.learner == "network"
    loss = output.loss
    if is_network and wants_poisson(data):
        loss = Poisson()
    is_wide = data.table.is_sparse and isinstance(settings.learner, str)
    features = FeatureMap(own="vectors" if is_wide else "all", n_directions=defaults.DIRECTIONS)
    smoothing = field = None
    if data.places is not None:
        smoothing, field, features = parts_of_graph(member, data, strengths, loss, features)
    learner: Learner
    if is_network:
        learner = defaults.network(n_labels, classes)
    elif isinstance(settings.learner, str):
        width = columns_of(features, data)[1].values.shape[1]
        library = as_learner(settings.learner, settings.device).name
        learner = defaults.trees(library, n_labels, classes, width)
    else:
        learner = as_learner(settings.learner)
    is_network = isinstance(learner, RandomNetwork)
    rate, patience = defaults.NETWORK_RATE, defaults.NETWORK_PATIENCE
    if not is_network:
        size = defaults.LARGE if classes else defaults.size(n_labels)
        rate, patience = settings.learning_rate or size.rate, defaults.PATIENCE
    n_rounds = ceil(patience / rate)
    if not isinstance(settings.early_stopping, bool):
        n_rounds = settings.early_stopping
    numbers = (rate, n_rounds, loss is not output.loss)
    return Parts(member, learner, features, smoothing, field, loss, *numbers)


def parts_of_graph(
    member: Member, data: Data, strengths: LatentField | None, loss: Loss, features: FeatureMap
) -> tuple[Smoother | None, LatentField | None, FeatureMap]:
    """Return a member's propagation and field, and its columns with those of the graph."""
    settings, places = data.settings, data.places
    assert places is not None

    def chosen(name: str, default: Any) -> Any:
        value = getattr(settings, name)
        return default if isinstance(value, str) and value == "auto" else value

    start = default_field(data, loss)
    field: Any = {"": None, "default": start, "estimated": strengths}[member.field]
    if field is strengths and strengths is not None:
        field = in_units_of(strengths, data, loss)
    field = chosen("labels", field)
    if isinstance(field, str):
        field = None if field == "none" else (strengths or start)
    smoothing = chosen("smoothing", Laplacian(*defaults.PROPAGATION) if member.propagates else None)
    smoothed = chosen("feature_smoothing", None)
    if not places.are_rows:
        smoothing = smoothed = None
    # Of a wide sparse table with a field: columns of the graph alone.
    of_graph = features.own == "vectors" and member.learner == "trees"
    of_graph &= member.neighbors and field is not None
    spectral = member.spectral or of_graph
    features = replace(
        features,
        neighbors=chosen("neighbor_features", NeighborFeatures() if member.neighbors else None),
        smoothing=smoothed,
        spectral=chosen(
            "spectral_features", SpectralFeatures(defaults.SPECTRAL_COLUMNS) if spectral else None
        ),
    )
    if of_graph and features.uses_graph:
        features = replace(features, own="none")
    if member.hides_coordinates and data.coordinates is not None:
        features = replace(features, hidden=data.coordinates.columns)
    elif data.coordinates is not None:
        features = replace(features, rotation=data.coordinates.rotation)
    return smoothing, field, features


def wants_poisson(data: Data) -> bool:
    """Whether networks are trained with the Poisson loss: for skewed numbers of 0 and more."""
    if type(data.output.loss) is not SquaredError or data.offset is not None:
        return False
    if data.settings.loss not in ("auto", None):
        return False
    evaluation = data.folds.evaluation
    if evaluation is not None and evaluation.target.min() < 0.0:
        return False
    target, weight = data.labels.target[:, 0], data.labels.weight
    mean = float(np.average(target, weights=weight))
    deviation = float(np.sqrt(np.average((target - mean) ** 2, weights=weight)))
    return bool(target.min() >= 0.0 and deviation > defaults.POISSON_FROM * mean)


def typical_curvature(data: Data, loss: Loss) -> float:
    """Return the mean curvature of a loss at the initial score: the unit of strengths."""
    if not loss.curvature_has_units:
        return 1.0
    offset = None if data.offset is None else data.offset[data.labels.rows]
    start = initial_scores(loss, data.labels.target, data.labels.weight, offset)
    with np.errstate(all="ignore"):
        return float(np.mean(loss.curvature(start, data.labels.target)))


def default_field(data: Data, loss: Loss) -> LatentField:
    """Return the field of default strengths, in units of the curvature of a loss."""
    unit = typical_curvature(data, loss)
    field = LatentField()
    return field if not 0.0 < unit < np.inf else field.scaled(unit)


def in_units_of(field: LatentField, data: Data, loss: Loss) -> LatentField:
    """Return a field that was estimated with the fit's loss, in the units of another."""
    if loss is data.output.loss:
        return field
    return field.scaled(typical_curvature(data, loss) / typical_curvature(data, data.output.loss))


def columns_of(features: FeatureMap, data: Data) -> tuple[FeatureMap, Table]:
    """Return features with what they learn from the data, and the columns of a member's trees.

    The same features are computed once.
    """
    key, spectral, given = ("columns", repr(features)), features.spectral, features
    if key not in data.shared:
        if spectral is not None and data.places is not None:
            vectors = ("vectors", repr(spectral))
            if vectors not in data.shared:
                graph = data.places.in_one_group().graph
                data.shared[vectors] = spectral.vectors(graph, data.seed)
            given = replace(features, vectors=data.shared[vectors])
        learned = given.learn(data.table, data.places, data.seed)
        data.shared[key] = (learned, learned.transform(data.table, data.places))
    return data.shared[key]


def first_run(
    data: Data, members: Sequence[Member], watchers: Sequence[Callback], watch: Watch
) -> tuple[Data, LatentField | None, Run]:
    """Train the first member, and estimate the field and the loss's open parameters from it."""
    first = members[0]
    if first.field == "estimated":  # one model: strengths from plain trees
        first = Member("trees")
    run = cross_fit(resolve(first, data, None), data, watchers, watch)
    if not run.models:
        raise KeyboardInterrupt
    if len(run.models) < data.folds.n_models:  # the fit is to end
        data = replace(data, folds=data.folds.first(len(run.models)))
    labels = data.folds.unseen
    if labels.size < defaults.FEWEST_LABELS:
        strengths = None if data.places is None else default_field(data, data.output.loss)
        return data, strengths, run
    loss = data.output.loss
    if not data.output.is_classifier:
        loss = Output.of_numbers(data.settings.loss).loss  # with parameters that the user left open
    if data.trials is not None:
        before: Any = data.output.loss
        loss, weighed = before.weigh(loss, data.folds, data.trials, labels, run.unseen)
        output = replace(data.output, loss=loss)
        data = replace(data, output=output, folds=weighed, shared={})
        labels = weighed.first(len(run.models)).unseen
    found = None
    if data.places is not None and any(member.field for member in members):
        found = estimate_strengths(data.places, labels, run.without_field, loss, data.seed)
    fitted = loss.prepared(labels.target, labels.weight, run.without_field)
    output = replace(data.output, loss=fitted if found is None else found.loss)
    return replace(data, output=output), None if found is None else found.field, run


def cross_fit(parts: Parts, data: Data, watchers: Sequence[Callback], watch: Watch) -> Run:
    """Train the models of all folds of a member; fewer if the fit is to end."""
    start = time.perf_counter()
    features, table = columns_of(parts.features, data)
    rows, operator = needed_rows(parts, data)
    n_outputs = data.labels.target.shape[1]
    is_small = table.values.size < ENTRIES_OF_ONE_THREAD and parts.learner.is_concurrent
    most = max_threads(data.settings.n_jobs)
    n_folds = data.folds.n_models
    n_concurrent = min(most, n_folds) if is_small else 1
    n_jobs = 1 if is_small else min(most, 1 + table.values.size // ENTRIES_OF_THREAD)
    key = ("bins", repr(parts.learner), repr(parts.features), rows.size)
    if key not in data.shared:
        options = {"n_outputs": n_outputs, "n_jobs": n_jobs, "device": data.settings.device}
        data.shared[key] = parts.learner.bin(table, rows, **options)
    train = partial(train_fold, parts, data, operator, rows, data.shared[key], watchers, watch)
    blas = (
        threadpool_limits(1, "blas") if isinstance(parts.learner, RandomNetwork) else nullcontext()
    )
    trained: list[FoldModel | None] = []
    with threads(n_jobs), blas:
        if n_concurrent > 1 and all(one.is_concurrent for one in watchers):
            with ThreadPoolExecutor(n_concurrent, "ebboost-model") as pool:
                jobs = [pool.submit(copy_context().run, train, fold) for fold in range(n_folds)]
                trained += [job.result() for job in jobs]
        else:
            for fold in range(n_folds):
                trained.append(train(fold))
    models: list[FoldModel] = []
    for model in trained:
        is_cut = model is not None and model.reason == watch.reason
        if model is None or (is_cut and (models or watch.interrupted)):  # one for max_seconds
            break
        models.append(model)
    seconds = time.perf_counter() - start
    logger.info("%s: %d models in %.2f s", parts.member.name, len(models), seconds)
    return Run(parts, features, table, rows, tuple(models), seconds)


def with_process(run: Run, data: Data) -> Run:
    """Return a run with a Gaussian process of the coordinates in place of the field.

    It is estimated from scores without a field of labels that were not trained on.
    """
    assert data.coordinates is not None
    start = time.perf_counter()
    points, folds = data.coordinates.points, data.folds
    unseen, without = folds.unseen, run.without_field
    residuals = (unseen.target - without)[:, 0]
    fold = np.repeat(np.arange(folds.n_models), [held.size for held in folds.held_out])
    process = estimate_process(points[unseen.rows], residuals, unseen.weight, fold, data.seed)
    models = []
    for model, training, held_out in zip(run.models, folds.training, folds.held_out, strict=True):
        known, rows = folds.labels.subset(training), folds.labels.rows[held_out]
        scores = model.init_score + model.scores[np.searchsorted(run.rows, known.rows)]
        scores += 0.0 if data.offset is None else data.offset[known.rows]
        near = (points[known.rows], (known.target - scores)[:, 0], known.relative().weight)
        mean, _ = process.posterior(points[rows], *near)
        held = model.without_field[: rows.size] + mean[:, None]
        models.append(replace(model, held_out=held))
    seconds = run.seconds + time.perf_counter() - start
    parts = replace(run.parts, process=process)
    return replace(run, parts=parts, models=tuple(models), seconds=seconds)


def train_again(run: Run, data: Data, folds: Folds, watch: Watch) -> Run:
    """Train a member on other folds for as many rounds."""
    settings = copy(data.settings)
    settings.n_estimators = max(round(float(np.mean(run.rounds))), 1)
    settings.early_stopping = False
    data = replace(data, folds=folds, settings=settings, shared={})
    watch.n_models += folds.n_models
    again = cross_fit(run.parts, data, (), watch)
    return again if len(again.models) == folds.n_models else run


def forecasts(
    data: Data, runs: Sequence[Run], weights: Array, intercept: Array, watch: Watch
) -> Forecast | None:
    """Predict labels as far ahead as the rows that are later than all labels, from those before."""
    labels, times = data.labels, data.times
    assert times is not None
    own = times[labels.rows]
    later = np.flatnonzero(times > own.max())
    if not later.size:
        return None
    earliest = float(np.quantile(own, defaults.SHARE_BEFORE_FORECAST))
    is_known = own < max(float(2.0 * own.max() - times.max()), earliest)
    if is_known.all() or not is_known.any():
        return None
    parts = (np.flatnonzero(is_known), np.flatnonzero(~is_known))
    folds = Folds(labels, parts[:1], parts[1:], in_time=True)
    again = [train_again(run, data, folds, watch) for run in runs]
    if any(run is old for run, old in zip(again, runs, strict=True)):
        return None
    held = labels.subset(parts[1])
    offset = None if data.offset is None else data.offset[held.rows]
    raw = weighted_sum(weights, intercept, np.array([run.unseen for run in again]), offset)
    return Forecast(labels.subset(parts[0]), held, raw, later)


def needed_rows(parts: Parts, data: Data) -> tuple[IntArray, Operator]:
    """Return the rows whose scores matter in training, others have no gradient; and P on these."""
    known = [data.labels.rows]
    known += [] if data.folds.evaluation is None else [data.folds.evaluation.rows]
    rows = np.unique(np.concatenate(known))
    if parts.smoothing is None or data.places is None:
        return rows, Identity()
    operator = parts.smoothing.operator(data.places.graph)
    return operator.around(rows) or (np.arange(data.table.n_rows), operator)


def train_fold(
    parts: Parts,
    data: Data,
    operator: Operator,
    rows: IntArray,
    binned: Binned,
    watchers: Sequence[Callback],
    watch: Watch,
    fold: int,
) -> FoldModel | None:
    """Train the model of one fold; None after the limit of the fit, but one round of the first."""
    if watch.interrupted or (fold > 0 and watch.reason):
        return None
    folds, settings = data.folds, data.settings
    known = folds.labels.subset(folds.training[fold])
    shared: dict[str, Any] = {}
    mode_key = ("mode", repr(parts.field), fold, repr(parts.loss))
    if parts.field is not None and data.places is not None:
        nodes = data.places.node_of_row[known.rows]
        shared["posterior"] = posterior_of(parts.field, data, data.places.graph, nodes, fold)
        shared["node_of_row"] = data.places.node_of_row[rows]
        shared["start_mode"] = data.shared.get(mode_key)
    own = replace(known, rows=np.searchsorted(rows, known.rows))
    held = folds.validation(fold)
    if held is not None:
        held = replace(held, rows=np.searchsorted(rows, held.rows))
    if parts.loss.log_link and not own.target.any():  # whose mean has no logarithm
        mean = folds.labels.mean(folds.labels.target[:, 0])
        own = replace(own, target=np.full_like(own.target, 0.5 * mean))
    objective = parts.objective(
        parts.loss,
        own,
        operator,
        rows.size,
        validation=held,
        offset=None if data.offset is None else data.offset[rows],
        **shared,
    )
    if "posterior" in shared:
        data.shared[mode_key] = objective.start_mode
    stopping = [*watchers]
    n_rounds = settings.n_estimators
    if held is not None and settings.early_stopping:
        stopping.append(EarlyStopping(parts.patience))
    elif settings.early_stopping:  # too few labels to hold some out
        n_rounds = min(n_rounds, defaults.ROUNDS_WITHOUT_VALIDATION)
    grower = binned.grower(data.seed % 1_000_003 + fold)
    boosted = parts.boost(
        objective,
        grower,
        n_rounds=n_rounds,
        learning_rate=parts.rate,
        callbacks=[*stopping, watch],
        member=parts.member.name,
        fold=fold,
    )
    watch.n_done += 1
    best = boosted.best
    empty = np.zeros((0, own.target.shape[1]))
    held_raw = without_field = empty
    n_held = folds.held_out[fold].size
    if held is not None:
        at = there(held.rows)
        held_raw = here(objective.predict(best, at))
        if parts.has_own_link:
            held_raw = parts.loss.inverse_link(held_raw)
        without_field = here(objective.fixed[at] + best.smoothed[at])
    return FoldModel(
        ensemble=grower.compile(best.weights),
        init_score=objective.init_score,
        scores=here(best.scores),
        held_out=held_raw[:n_held],
        evaluation=held_raw[n_held:],
        without_field=without_field,
        n_rounds=boosted.n_rounds,
        reason=boosted.reason,
        losses=boosted.losses,
    )


def posterior_of(
    field: LatentField, data: Data, graph: Graph, nodes: IntArray, fold: int
) -> Posterior:
    """Return the field given the labels of a fold; members with the same field share it."""
    prior, posterior = ("prior", repr(field)), ("posterior", repr(field), fold)
    if prior not in data.shared:
        data.shared[prior] = field.prior(graph)
    if posterior not in data.shared:
        data.shared[posterior] = there(Posterior(data.shared[prior], nodes))
    return data.shared[posterior]


def combine(
    raw: Array, labels: Labels, loss: Loss, offset: Array | None, convex: bool = False
) -> tuple[Array, Array]:
    """Return weights of 0 or more, and an intercept, of the least loss of the weighted sum.

    ``raw`` of shape (K, m, c) are predictions of K members at labels that they were not trained on.
    ``convex`` weights, for squared error, have the sum 1 and no intercept.
    """
    fixed = 0.0 if offset is None else offset
    own = raw - fixed
    n_members = len(own)
    has_intercept = int(own.shape[2] == 1 and loss.curvature_has_units)
    weight = labels.weight / labels.weight.sum()
    if convex:
        errors = np.sqrt(weight)[:, None] * (raw - labels.target)[:, :, 0].T
        triangle: Any = np.linalg.qr(errors, mode="r")
        row = np.full(n_members, SUM_WEIGHT * max(float(np.abs(triangle).max()), 1e-300))
        right = np.append(np.zeros(len(triangle)), row[0])
        weights, _ = nnls(np.vstack([triangle, row]), right)
        return weights / weights.sum(), np.zeros(1)
    if type(loss) is SquaredError:
        root = np.sqrt(weight)[:, None]
        columns = np.column_stack([own[:, :, 0].T, labels.target[:, 0] - np.ravel(fixed)])
        mean = weight @ columns
        triangle = np.linalg.qr(root * (columns - mean), mode="r")
        weights, _ = nnls(triangle[:, :-1], triangle[:, -1])
        return weights, np.array([mean[-1] - mean[:-1] @ weights])
    mean = np.zeros(n_members)
    if has_intercept:  # of members less their means, or both would be weighed against each other
        mean = own[:, :, 0] @ weight
        own = own - mean[:, None, None]
    scale = max(float(np.abs(own).mean()), 1e-300)

    def value(parameters: Array) -> tuple[float, Array]:
        shift = scale * parameters[n_members:].sum()
        scores = fixed + shift + np.tensordot(parameters[:n_members], own, 1)
        with np.errstate(over="ignore", invalid="ignore"):
            total = float(weight @ loss.value(scores, labels.target))
            slope = weight[:, None] * loss.gradient(scores, labels.target)
        gradient = np.einsum("kmc,mc->k", own, slope)
        return total, np.append(gradient, np.full(has_intercept, scale * slope.sum()))

    weights = np.full(n_members, 1.0 / n_members)
    start = np.append(weights, np.full(has_intercept, weights @ mean / scale))
    bounds = [(0.0, None)] * n_members + [(None, None)] * has_intercept
    options = {"ftol": 1e-12, "gtol": 1e-9}
    best, least = start, value(start)[0]
    for _ in range(WEIGHT_SEARCHES):  # a search may end early where scores are exponents
        found = minimize(value, best, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
        has_improved = found.fun < least - SEARCH_TOLERANCE * abs(least)
        best, least = (found.x, found.fun) if found.fun < least else (best, least)
        if not has_improved:
            break
    weights = best[:n_members]
    if has_intercept:
        return weights, scale * best[n_members:] - weights @ mean
    return weights, np.zeros(own.shape[2])


def weighted_sum(weights: Array, intercept: Array, raw: Array, offset: Array | None) -> Array:
    """Return offset + intercept + Σ w_k (raw_k − offset)."""
    fixed = 0.0 if offset is None else offset
    return fixed + intercept + np.tensordot(weights, raw - fixed, 1)


def nested(
    raw: Array, folds: Folds, loss: Loss, offset: Array | None, convex: bool = False
) -> Array:
    """Return the weighted sum at each unseen label, with weights that its fold did not choose."""
    labels = folds.unseen
    sizes = [held.size for held in folds.held_out]
    if folds.evaluation is not None:
        sizes.append(folds.evaluation.size)
    part = np.repeat(np.arange(len(sizes)), sizes)
    result = np.empty(raw.shape[1:])
    for number in range(len(sizes)):
        own = part == number
        others = ~own if (~own).any() else own
        known = None if offset is None else offset[others]
        chosen = combine(raw[:, others], labels.subset(others), loss, known, convex)
        result[own] = weighted_sum(*chosen, raw[:, own], None if offset is None else offset[own])
    return result


def assemble(data: Data, runs: Sequence[Run], watch: Watch) -> Model:
    """Weigh the members, and return the model of those that have a weight."""
    folds, loss, labels = data.folds, data.output.loss, data.folds.unseen
    weights, intercept = np.ones(len(runs)) / len(runs), np.zeros(data.labels.target.shape[1])
    together, without, gain = np.zeros_like(labels.target), None, None
    if labels.size:
        weights, intercept, together, without = weigh(data, runs)
    if without is not None:
        gain = Gain.of(loss, labels, without, together, folds.training[0].size)
    kept = np.flatnonzero(weights).tolist()
    final = [runs[k] for k in kept]
    forecast = process = None
    is_matched = data.separation is not None and data.separation.is_matched
    if is_matched:
        process = next((run.parts.process for run in runs if run.parts.features.hidden), None)
    if folds.in_time or is_matched:  # models of blocks lack the latest labels, or whole regions
        every = np.arange(data.labels.size)
        count = min(defaults.MODELS_IN_TIME, folds.n_models)
        all_labels = Folds(data.labels, (every,) * count, (every[:0],) * count)
        final = [train_again(run, data, all_labels, watch) for run in final]
    if folds.in_time:
        forecast = forecasts(data, [runs[k] for k in kept], weights[kept], intercept, watch)
    reasons = [model.reason for run in runs for model in run.models]
    scores = runs[0].without_field if labels.size else None
    model = Model(
        estimator=type(data.settings).__name__,
        parameters=data.settings.get_params(deep=False),
        output=data.output,
        reader=data.reader,
        feature_names=data.feature_names,
        labels=data.labels,
        components=tuple(map(partial(component, data), final, weights[kept].tolist())),
        intercept=intercept,
        unseen=Unseen(labels.rows, labels.target, labels.weight, together, without, scores),
        selection=tuple(map(partial(selection_row, data), runs, weights.tolist())),
        gain=gain,
        history=runs[kept[0]].models[0].losses,
        stop_reason=watch.reason or max(reasons, key=reasons.count),
        places=data.places,
        coordinates=data.coordinates,
        separation=data.separation,
        offset=data.offset,
        trials=data.trials,
        table=data.table,
        row_labels=data.row_labels,
        geometry=data.geometry,
    )
    model = replace(model, raw=model.predictions_given(model.labels))
    if not labels.size:
        return model
    return replace(model, spread=estimate_spread(model, folds, forecast, process))


def weigh(data: Data, runs: Sequence[Run]) -> tuple[Array, Array, Array, Array | None]:
    """Return the weights of members and their intercept, and weighted sums at unseen labels.

    The sums are those of all members, and of the members that do not use the graph, where some do;
    each with weights that labels of other folds chose.
    """
    folds, loss, labels = data.folds, data.output.loss, data.folds.unseen
    offset = None if data.offset is None else data.offset[labels.rows]
    raw = np.array([run.unseen for run in runs])
    weights, intercept = np.ones(len(runs)), np.zeros(raw.shape[2])
    together, without = raw[0], None
    weighed = [k for k, run in enumerate(runs) if run.parts.process is not None]
    if weighed:  # far from labels, others extrapolate
        weights = np.zeros(len(runs))
        weights[weighed], intercept = combine(raw[weighed], labels, loss, offset, convex=True)
        together = nested(raw[weighed], folds, loss, offset, convex=True)
    elif len(runs) > 1:
        weights, intercept = combine(raw, labels, loss, offset)
        together = nested(raw, folds, loss, offset)
    if not weights.any():
        weights[0] = 1e-12  # predictions are the intercept
    plain = [k for k, run in enumerate(runs) if not run.parts.uses_graph]
    if data.places is not None and 0 < len(plain) < len(runs):
        without = nested(raw[plain], folds, loss, offset)
    return weights, intercept, together, without


def selection_row(data: Data, run: Run, weight: float) -> dict[str, Any]:
    """Return what ``selection_`` says of a member: the loss is half the deviance."""
    loss, labels = data.output.loss, data.folds.unseen
    mean = error = np.nan
    if labels.size:
        losses = 0.5 * loss.deviance(run.unseen, labels.target)
        mean, error = labels.mean(losses), float(losses.std() / np.sqrt(losses.size))
    return {
        "member": run.parts.member.name,
        "loss": mean,
        "standard_error": error,
        "weight": weight,
        "rounds": float(np.mean(run.rounds)),
        "seconds": run.seconds,
    }


def component(data: Data, run: Run, weight: float) -> Component:
    """Return the mean of a member's models, with scores of all rows."""
    parts = run.parts
    of_models = zip(*map(attrgetter("ensemble", "scores", "init_score"), run.models), strict=True)
    ensembles, own, starts = map(list, of_models)
    ensemble = type(ensembles[0]).mean(ensembles)
    scores = np.empty((data.table.n_rows, own[0].shape[1]))
    scores[run.rows] = np.mean(own, axis=0)
    others = np.setdiff1d(np.arange(data.table.n_rows), run.rows)
    if others.size:
        with threads(max_threads(data.settings.n_jobs)):
            scores[others] = ensemble.predict(run.table.subset(others))
    return Component(
        member=parts.member,
        weight=weight,
        features=run.features,
        origin=run.table.origin,
        columns=run.table.names,
        ensemble=ensemble,
        init_score=np.mean(starts, axis=0),
        scores=scores,
        smoothing=parts.smoothing,
        field=parts.field,
        loss=parts.loss if parts.has_own_link else None,
        process=parts.process,
        rounds=tuple(run.rounds),
    )
