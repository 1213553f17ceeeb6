"""Prepare: from the arguments of ``fit`` to a checked problem."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ebboost.backends.threads import threads_for
from ebboost.boosting.callbacks import Callback
from ebboost.boosting.masked_labels import MaskedLabels
from ebboost.data import validation as checks
from ebboost.data.coordinates import Coordinates
from ebboost.data.fingerprint import fingerprint_of
from ebboost.data.labels import Labels
from ebboost.data.reader import TableReader
from ebboost.data.splitting import hold_out
from ebboost.data.table import Table
from ebboost.data.types import TableLike
from ebboost.graph import Graph, Graphs, check_strengths
from ebboost.model.codec import describe_parameters
from ebboost.model.output import Output
from ebboost.training import defaults
from ebboost.training.selection import relation_strengths
from ebboost.training.settings import Settings

Array = NDArray[np.float64]
# Parameters that two runs of one fit may differ in.
_NOT_IN_FINGERPRINT = ("n_jobs", "random_state", "verbose")


class FitData(NamedTuple):
    """The arguments of ``fit``."""

    X: TableLike
    y: Any
    sample_weight: Any = None
    graph: Graphs | None = None
    nodes: Any = None
    eval_set: tuple[Any, Any] | None = None
    coordinates: Any = None
    offset: Any = None
    exposure: Any = None

    def with_graph(self, reader: TableReader, table: Table) -> "tuple[FitData, Coordinates | None]":
        """Return the data with the graph of the coordinates, and these, where they were passed."""
        if self.coordinates is None:
            return self, None
        if self.graph is not None:
            raise ValueError("graph and coordinates exclude each other: pass one of them.")
        coordinates, graph = Coordinates.fit(self.coordinates, reader.names, table)
        return self._replace(graph=graph), coordinates


class LabelSplit(NamedTuple):
    """Labels to train on, labels to stop on, and the latter as labels to predict with."""

    training: Labels
    validation: Labels | None
    held_back: Labels | None


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
    labels: LabelSplit
    seed: int
    offset: Array | None = None

    @property
    def classes(self) -> bool:
        """Whether y holds classes."""
        return self.output.classes is not None

    @property
    def n_labels(self) -> int:
        """Number of training labels."""
        return int(self.labels.training.nodes.size)

    @property
    def n_threads(self) -> int:
        """Number of threads."""
        return threads_for(self.settings.n_jobs, self.table)

    def fingerprint(self, callbacks: Sequence[Callback]) -> dict[str, Any]:
        """Return what two fits must share for one to resume the other."""
        names = [name for name in self.parameters if name not in _NOT_IN_FINGERPRINT]
        parameters = {name: describe_parameters(self.parameters[name]) for name in names}
        splits = filter(None, (self.labels.training, self.labels.validation))
        target = [
            part for labels in splits for part in (labels.nodes, labels.target, labels.weight)
        ]
        classes = () if self.output.classes is None else self.output.classes
        categories = chain.from_iterable(sorted(self.reader.categories.items()))
        blocks = (fingerprint_of(block.values) for block in self.table.blocks())
        return {
            "estimator": self.estimator,
            "X": fingerprint_of(*blocks, self.table.names, *categories),
            "y": fingerprint_of(*target, classes),
            "offset": None if self.offset is None else fingerprint_of(self.offset),
            "graph": None if self.graph is None else fingerprint_of(self.graph.adjacency),
            "random_state": self.seed,
            "n_jobs": self.n_threads,
            "callbacks": [describe_parameters(one) for one in callbacks if one.has_state],
            "parameters": parameters,
        }


def split_labels(
    settings: Settings,
    output: Output,
    known: tuple[NDArray[np.int64], NDArray[Any], Array],
    eval_set: tuple[Any, Any] | None,
    n_rows: int,
    seed: int,
) -> LabelSplit:
    """Encode known nodes, values and weights, and hold some out where there is no ``eval_set``."""
    nodes, values, weight = known
    classes = output.classes is not None
    weighted = weight * output.label_weights(values, settings.class_weight)
    labels = Labels(nodes, output.encode(values, "y"), weighted)
    if eval_set is not None:
        held_nodes, held_values = checks.extra_labels(eval_set, nodes, n_rows, classes)
        target = output.encode(held_values, "eval_set")
        return LabelSplit(labels, Labels(held_nodes, target, np.ones(held_nodes.size)), None)
    if not settings.early_stopping or nodes.size < defaults.MIN_LABELS_TO_HOLD_OUT:
        return LabelSplit(labels, None, None)
    fraction = settings.validation_fraction
    if not 1 <= round(fraction * values.size) <= values.size - defaults.MIN_LABELS_TO_TRAIN:
        raise ValueError(
            f"validation_fraction={fraction} leaves too few of {values.size} labels to train "
            "or to validate on: use something like 0.1, or early_stopping=False."
        )
    train, held = hold_out(values, fraction, seed, stratify=classes)
    held_back = labels.subset(held)
    validation = Labels(held_back.nodes, held_back.target, weight[held])
    return LabelSplit(labels.subset(train), validation, held_back)


def check_offset(offset: Array | None, labels: Labels, settings: Settings) -> None:
    """Raise ValueError where an offset is not supported."""
    if offset is None:
        return
    if labels.target.shape[1] > 1:
        raise ValueError("offset needs one score for each node: y has more than two classes.")
    if settings.labels == "masked" or isinstance(settings.labels, MaskedLabels):
        raise ValueError("offset is not supported with labels='masked': use labels='field'.")


def choose_strengths(
    relations: Mapping[str, float] | str, graph: Graphs | None, labels: Labels
) -> dict[str, float] | None:
    """What the weights of each relation are multiplied by; None for a single graph."""
    if not isinstance(graph, Mapping):
        if relations != "auto":
            raise ValueError(
                f"relations={relations!r} gives strengths, but graph is not a dict of relations: "
                'pass graph={"name": graph, …}.'
            )
        return None
    if isinstance(relations, str):
        return relation_strengths(graph, labels)
    check_strengths(relations, graph)
    return {name: float(relations[name]) for name in graph}
