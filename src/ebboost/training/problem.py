"""Prepare: from the arguments of ``fit`` to a checked problem."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ebboost.backends.threads import is_small, max_threads, threads_for, threads_to_grow
from ebboost.boosting.callbacks import Callback
from ebboost.boosting.losses import Loss
from ebboost.boosting.masked_labels import MaskedLabels
from ebboost.data import validation as checks
from ebboost.data.coordinates import APPENDED, Coordinates, degrees_text, seem_degrees
from ebboost.data.fingerprint import fingerprint_of
from ebboost.data.labels import Labels, one_hot
from ebboost.data.reader import TableReader, group_column
from ebboost.data.sharded import total_rows
from ebboost.data.splitting import assign_folds, hold_out, latest_blocks
from ebboost.data.table import Table
from ebboost.data.types import Array, IntArray, LabelledNodes, LabelsLike, TableLike
from ebboost.data.warn import warn_caller
from ebboost.graph import Graph, Graphs
from ebboost.learners import as_learner
from ebboost.model.candidate import Candidate
from ebboost.model.codec import describe_parameters
from ebboost.model.output import Output
from ebboost.model.state import FittedState
from ebboost.training import defaults
from ebboost.training.settings import Settings

# Parts that use later nodes.
NOT_CAUSAL = ("smoothing", "feature_smoothing", "spectral_features")
# Parameters that two runs of one fit may differ in.
FORECAST = -1  # number of the model that predicts later labels as far ahead as later rows
_NOT_IN_FINGERPRINT = ("n_jobs", "random_state", "verbose")


class FitData(NamedTuple):
    """The arguments of ``fit``."""

    X: TableLike
    y: LabelsLike | None
    sample_weight: ArrayLike | None = None
    graph: Graphs | None = None
    nodes: ArrayLike | None = None
    eval_set: LabelledNodes | None = None
    coordinates: ArrayLike | None = None
    offset: ArrayLike | None = None
    exposure: ArrayLike | None = None
    groups: ArrayLike | None = None
    time: ArrayLike | None = None
    causal: bool = False
    init_model: FittedState | None = None

    def with_graph(
        self, reader: TableReader, table: Table, neighbors: int
    ) -> "tuple[FitData, Coordinates | None]":
        """Return the data with the graph of the coordinates, and these, where they were passed."""
        if self.groups is not None:
            return self._replace(graph=self._row_graph(table.n_rows)), None
        if self.coordinates is None:
            return self, None
        if self.graph is not None:
            raise ValueError("graph and coordinates exclude each other: pass one of them.")
        weighted = True
        if self.init_model is not None and self.init_model.coordinates is not None:
            neighbors = self.init_model.coordinates.neighbors
            weighted = self.init_model.coordinates.weighted
        where = (self.coordinates, reader.names, table)
        coordinates, graph = Coordinates.fit(*where, neighbors, weighted)
        names = [table.names[column] for column in coordinates.columns]
        if coordinates.points.shape[1] == 2 and seem_degrees(coordinates.points, names):
            warn_caller(degrees_text(() if tuple(names) == APPENDED else names))
        return self._replace(graph=graph), coordinates

    def _row_graph(self, n_rows: int) -> Graph:
        """The graph of the rows, of which several share a group."""
        if self.coordinates is not None or isinstance(self.graph, Mapping):
            raise ValueError("groups takes one graph of the groups, no coordinates or relations.")
        graph = Graph.from_groups(group_column(self.X, self.groups), self.graph)
        if graph.n_nodes != n_rows:
            raise ValueError(f"groups has {graph.n_nodes} entries, X has {n_rows} rows.")
        assert graph.groups is not None
        between, group_of = graph.groups
        if self.graph is not None and (group_of >= self.graph.n_nodes).all():
            ids = [between.node_ids[one].tolist() for one in ([group_of[0]], [0])]
            warn_caller(
                f"No group is a node of graph: groups hold {ids[0][0]!r}, graph has {ids[1][0]!r}. "
                "Its edges are not used. Are ids numbers in one and text in the other?"
            )
        return graph


@dataclass(frozen=True)
class LabelFolds:
    """The known labels, the fold in which each is held out, and the labels of ``eval_set``.

    A model is trained for each fold, on all labels but those of the fold. If ``in_time``, folds are
    numbered in the order of time, and the model of a fold is trained on earlier labels. Then a
    model on the labels of fold −2 may predict all others, as far ahead as ``later`` rows are.
    """

    labels: Labels
    validation_weight: Array  # of these labels where they are held out: without class weights
    fold: IntArray  # −1 or −2 for labels that are in no fold
    evaluation: Labels | None = None
    in_time: bool = False
    later: IntArray | None = None  # rows later than all labels, if these are predicted

    @property
    def n_folds(self) -> int:
        """Number of models; 1 too where no label is held out."""
        return int(self.fold.max(initial=0)) + 1

    @property
    def nodes(self) -> IntArray:
        """The nodes with known labels, those of ``eval_set`` included, in order."""
        known = [one.nodes for one in (self.labels, self.evaluation) if one is not None]
        return np.unique(np.concatenate(known))

    def with_other_folds(self, seed: int, classes: bool) -> "LabelFolds":
        """Return the same labels, assigned to as many folds at random."""
        values = one_hot(self.labels.target).argmax(axis=1) if classes else self.labels.nodes
        return replace(self, fold=assign_folds(values, self.n_folds, seed, stratify=classes))

    def training(self, fold: int) -> Labels:
        """Return the labels that the model of a fold is trained on."""
        return self.labels.subset(self.fold < fold if self.in_time else self.fold != fold)

    def held_out(self, fold: int) -> Labels:
        """Return the labels of a fold; those of ``FORECAST`` are in other folds, too."""
        held = self.fold >= FORECAST if fold == FORECAST else self.fold == fold
        weight = self.validation_weight[held]
        return Labels(self.labels.nodes[held], self.labels.target[held], weight)

    def convert(self, convert: Callable[[Any], Any]) -> "LabelFolds":
        """Return the labels with another type of arrays for what has a row for each."""
        evaluation = None if self.evaluation is None else self.evaluation.convert(convert)
        return replace(
            self,
            labels=self.labels.convert(convert),
            validation_weight=convert(self.validation_weight),
            fold=convert(self.fold),
            evaluation=evaluation,
        )

    def reweighted(self, folds: Iterable[int], factors: Array | float) -> "LabelFolds":
        """Return these labels with weights times factors of the labels held out in some folds."""
        own = np.asarray(self.fold)
        factor = np.ones_like(self.validation_weight)
        factor[np.concatenate([np.flatnonzero(own == fold) for fold in folds])] = factors
        labels = replace(self.labels, weight=self.labels.weight * factor)
        return replace(self, labels=labels, validation_weight=self.validation_weight * factor)

    def has_held_out(self, fold: int) -> bool:
        """Return whether a fold has labels."""
        return total_rows(self.held_out(fold).target) > 0

    def validation(self, fold: int) -> Labels | None:
        """Return the labels of a fold and of ``eval_set``: to stop on, and to compare models."""
        held_out = self.held_out(fold)
        if self.evaluation is None:
            return held_out if self.has_held_out(fold) else None
        return held_out.concat(self.evaluation)


class EarlierModel(NamedTuple):
    """A candidate of ``init_model``: its state, and its scores f of the rows of this fit."""

    state: FittedState
    scores: Array


@dataclass(frozen=True)
class Problem:
    """What is trained: data that has been read and checked, and the settings."""

    estimator: str
    parameters: Mapping[str, Any]
    settings: Settings
    output: Output
    reader: TableReader
    table: Table
    feature_names: NDArray[Any] | None
    graph: Graph | None
    relation_strengths: dict[str, float] | None
    coordinates: Coordinates | None
    labels: LabelFolds
    seed: int
    offset: Array | None = None
    warm_start: Mapping[str, EarlierModel] | None = None  # by the names of the candidates

    @property
    def classes(self) -> bool:
        """Whether y holds classes."""
        return self.output.classes is not None

    @property
    def task(self) -> defaults.Task:
        """What the defaults depend on."""
        return defaults.Task(self.classes, self.n_labels, self.table.is_sparse)

    def loss_of(self, candidate: Candidate) -> Loss:
        """Return the loss that a candidate is trained with."""
        return candidate.loss or self.output.loss

    @property
    def n_labels(self) -> int:
        """Number of known labels."""
        return total_rows(self.labels.labels.target)

    @property
    def n_threads(self) -> int:
        """Number of threads of one model."""
        return 1 if self._is_concurrent else threads_for(self.settings.n_jobs, self.table)

    def threads_for(self, table: Table) -> int:
        """Return the number of threads that grow the trees of one model on these columns."""
        n_threads = 1 if self._is_concurrent else threads_for(self.settings.n_jobs, table)
        return threads_to_grow(n_threads, table)

    @property
    def n_concurrent(self) -> int:
        """Number of models that may be trained at once."""
        return max_threads(self.settings.n_jobs) if self._is_concurrent else 1

    @property
    def _is_concurrent(self) -> bool:
        """Whether models of several folds are trained at once, with one thread each."""
        has_folds = self.labels.n_folds > 1 and is_small(self.table)
        return has_folds and as_learner(self.settings.learner).is_concurrent

    def fingerprint(self, callbacks: Sequence[Callback]) -> dict[str, Any]:
        """Return what two fits must share for one to resume the other."""
        names = [name for name in self.parameters if name not in _NOT_IN_FINGERPRINT]
        parameters = {name: describe_parameters(self.parameters[name]) for name in names}
        known = filter(None, (self.labels.labels, self.labels.evaluation))
        target = [part for labels in known for part in (labels.nodes, labels.target, labels.weight)]
        target.append(self.labels.fold)
        classes = () if self.output.classes is None else self.output.classes
        categories = chain.from_iterable(sorted(self.reader.categories.items()))
        blocks = (fingerprint_of(block.values) for block in self.table.blocks())
        earlier = () if self.warm_start is None else self.warm_start.values()
        time = () if self.graph is None or self.graph.time is None else (self.graph.time,)
        return {
            "estimator": self.estimator,
            "X": fingerprint_of(*blocks, self.table.names, *categories),
            "y": fingerprint_of(*target, classes),
            "offset": None if self.offset is None else fingerprint_of(self.offset),
            "graph": None if self.graph is None else fingerprint_of(self.graph.adjacency, *time),
            "init_model": fingerprint_of(*(one.scores for one in earlier)),
            "random_state": self.seed,
            "n_jobs": self.n_threads,
            "callbacks": [describe_parameters(one) for one in callbacks if one.has_state],
            "parameters": parameters,
        }


def fold_labels(
    settings: Settings,
    output: Output,
    known: tuple[IntArray, NDArray[Any], Array],
    eval_set: LabelledNodes | None,
    n_rows: int,
    seed: int,
    n_folds: int,
    time: Array | None = None,
) -> LabelFolds:
    """Encode known nodes, values and weights, and hold labels out in ``n_folds`` folds.

    If rows have a time, folds are blocks of the latest labels.
    """
    nodes, values, weight = known
    classes = output.classes is not None
    weighted = weight * output.label_weights(values, settings.class_weight)
    labels = Labels(nodes, output.encode(values, "y"), weighted)
    evaluation = None
    if eval_set is not None:
        held_nodes, held_values = checks.extra_labels(eval_set, nodes, n_rows, classes)
        target = output.encode_checked(held_values, "eval_set")
        evaluation = Labels(held_nodes, target, np.ones(held_nodes.size))
    fold = np.full(values.size, -1)
    later = None
    in_time = time is not None and n_folds > 0 and evaluation is None
    if time is not None:
        if in_time:
            fold = blocks_in_time(time[nodes], settings.validation_fraction, n_folds)
            origin = _forecast_origin(time, nodes)
            is_earlier = (fold < 0) & (time[nodes] < origin)
            if not classes and is_earlier.any():
                fold[is_earlier] = -2
                later = np.flatnonzero(time > time[nodes].max())
    elif n_folds > 1:
        fold = assign_folds(values, n_folds, seed, stratify=classes)
    elif n_folds == 1 and evaluation is None:
        fraction = settings.validation_fraction
        if not 1 <= round(fraction * values.size) <= values.size - defaults.MIN_LABELS_TO_TRAIN:
            raise ValueError(
                f"validation_fraction={fraction} leaves too few of {values.size} labels to train "
                "or to validate on: use something like 0.1, or early_stopping=False."
            )
        fold[hold_out(values, fraction, seed, stratify=classes)[1]] = 0
    return LabelFolds(labels, weight, fold, evaluation, in_time, later)


def blocks_in_time(time: Array, fraction: float, n_blocks: int) -> IntArray:
    """Return the block of each of the latest labels, −1 for the others."""
    share = min(fraction * n_blocks, max(fraction, defaults.MAX_SHARE_IN_TIME))
    fold = latest_blocks(time, share, n_blocks)
    n_earlier = int((fold < 0).sum())
    if n_earlier < defaults.MIN_LABELS_TO_TRAIN:
        raise ValueError(
            f"time leaves {n_earlier} labels to train on before those of the latest time, which "
            "are held out: pass times that differ, or leave time out."
        )
    return fold


def _forecast_origin(time: Array, nodes: IntArray) -> float:
    """The time as far before the last label as the last row is after it; −∞ if it is not after."""
    horizon = float(time.max() - time[nodes].max())
    if not horizon > 0.0:
        return -np.inf
    earliest = float(np.quantile(time[nodes], defaults.MIN_SHARE_BEFORE_FORECAST))
    return max(float(time[nodes].max()) - horizon, earliest)


def check_offset(offset: Array | None, labels: Labels, settings: Settings, output: Output) -> None:
    """Raise ValueError where an offset is not supported."""
    if offset is None:
        return
    if labels.target.shape[1] > 1:
        raise ValueError("offset needs one score for each node: y has more than two classes.")
    largest = checks.MAX_SCORE
    if output.classes is None and not output.loss.log_link:
        largest = checks.MAX_OFFSET_RATIO * max(float(np.abs(labels.target).max()), 1.0)
    row = int(np.abs(offset).argmax())
    if abs(offset[row, 0]) > largest:
        raise ValueError(
            f"offset, row {row} is {offset[row, 0]:g}, far beyond the labels: it is added to the "
            f"score of that row, and may be as large as {largest:g}. Correct it."
        )
    if settings.labels == "masked" or isinstance(settings.labels, MaskedLabels):
        raise ValueError("offset is not supported with labels='masked': use labels='field'.")


def check_causal(graph: Graph, labels: LabelFolds, settings: Settings) -> None:
    """Raise ValueError for what would use later nodes."""
    use = settings.labels
    parts = {name: getattr(settings, name) for name in NOT_CAUSAL}
    if graph.groups is not None:
        parts["neighbor_features"] = settings.neighbor_features
    for name, part in parts.items():
        if part not in (None, "auto"):
            raise ValueError(f"{name} must be None or 'auto' with causal=True, got {part!r}.")
    if use == "masked" or isinstance(use, MaskedLabels) or getattr(use, "similarity", False):
        raise ValueError(f"labels={use!r} is not supported with causal=True: use labels='field'.")
    if graph.is_signed:
        raise ValueError("causal=True needs relations of positive strength.")
    if labels.evaluation is not None and graph.time is not None:
        last = graph.time[labels.labels.nodes].max()
        if graph.time[labels.evaluation.nodes].min() <= last:
            raise ValueError("eval_set must be later than all labels with causal=True.")
