"""Prepare: from the arguments of ``fit`` to a checked problem."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import _get_feature_names

from ebboost.backends.dask import gathered, is_dask
from ebboost.backends.threads import threads_for
from ebboost.boosting.callbacks import Callback
from ebboost.data import validation as checks
from ebboost.data.fingerprint import fingerprint_of
from ebboost.data.labels import Labels
from ebboost.data.reader import TableReader
from ebboost.data.splitting import hold_out
from ebboost.data.table import Table
from ebboost.graph import Graph, Graphs, check_strengths
from ebboost.model.codec import describe_parameters
from ebboost.model.output import ClassOutput, NumericOutput, Output
from ebboost.model.predict import mix_relations
from ebboost.training import defaults
from ebboost.training.checkpoint import CheckpointSession
from ebboost.training.selection import relation_strengths
from ebboost.training.settings import Settings

Array = NDArray[np.float64]
# Parameters that two runs of one fit may differ in.
_NOT_IN_FINGERPRINT = ("n_jobs", "random_state", "verbose")


class FitData(NamedTuple):
    """The arguments of ``fit``."""

    X: Any
    y: Any
    sample_weight: Any = None
    graph: Graphs | None = None
    nodes: Any = None
    eval_set: tuple[Any, Any] | None = None


class LabelSplit(NamedTuple):
    """Labels to train on, labels to stop on, and the latter as labels to predict with."""

    training: Labels
    validation: Labels | None
    held_back: Labels | None


@dataclass(frozen=True)
class Problem:
    """What is trained: data that has been read and checked, and the settings.

    Parameters
    ----------
    estimator : str
        Name of the estimator class.
    parameters : dict
        Its constructor parameters.
    settings : Settings
    output : Output
        Meaning of y, the scale of its loss estimated.
    reader : TableReader
    table : Table
    feature_names : ndarray or None
    graph : Graph or None
    relation_strengths : dict or None
    labels : LabelSplit
    seed : int
    """

    estimator: str
    parameters: Mapping[str, Any]
    settings: Settings
    output: Output
    reader: TableReader
    table: Table
    feature_names: NDArray[Any] | None
    graph: Graph | None
    relation_strengths: dict[str, float] | None
    labels: LabelSplit
    seed: int

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
        parameters = {
            name: describe_parameters(value)
            for name, value in self.parameters.items()
            if name not in _NOT_IN_FINGERPRINT
        }
        training = self.labels.training
        validation = self.labels.validation
        target = [training.nodes, training.target, training.weight]
        if validation is not None:
            target += [validation.nodes, validation.target, validation.weight]
        classes = () if self.output.classes is None else self.output.classes
        categories = [
            part
            for column in sorted(self.reader.categories)
            for part in (column, self.reader.categories[column])
        ]
        blocks = (fingerprint_of(block.values) for block in self.table.blocks())
        return {
            "estimator": self.estimator,
            "X": fingerprint_of(*blocks, self.table.names, *categories),
            "y": fingerprint_of(*target, classes),
            "graph": None if self.graph is None else fingerprint_of(self.graph.adjacency),
            "random_state": self.seed,
            "n_jobs": self.n_threads,
            "callbacks": [
                describe_parameters(callback) for callback in callbacks if callback.has_state
            ],
            "parameters": parameters,
        }


def prepare(
    estimator: str,
    parameters: Mapping[str, Any],
    output_type: type[NumericOutput] | type[ClassOutput],
    data: FitData,
    reader: TableReader,
    table: Table,
    columns: Any,
    session: CheckpointSession | None = None,
) -> Problem:
    """Return the problem: labels encoded and split, relations mixed, the loss fitted.

    Parameters
    ----------
    estimator, parameters, output_type
        As in :class:`Trainer`.
    data : FitData
    reader : TableReader
    table : Table
        What ``reader`` has read.
    columns : table
        An object with the column names of X.
    session : CheckpointSession, optional
        Its seed is used by a fit that is resumed.
    """
    settings = Settings.from_parameters(parameters)
    X = columns if is_dask(data.X) else data.X
    y, sample_weight, nodes, eval_set = gathered(
        data.y, data.sample_weight, data.nodes, data.eval_set
    )
    data = FitData(X, y, sample_weight, data.graph, nodes, eval_set)
    checks.check_graph(data.graph, table.n_rows, X)
    checks.check_label_order(X, y)
    seed = int(check_random_state(settings.random_state).randint(np.iinfo(np.int32).max))
    if session is not None and not isinstance(settings.random_state, Integral):
        seed = session.seed(seed)  # another one would be drawn each time
    labels, output = _split_labels(estimator, settings, output_type, data, table.n_rows, seed)
    strengths = _relation_strengths(settings.relations, data.graph, labels.training)
    return Problem(
        estimator=estimator,
        parameters=parameters,
        settings=settings,
        output=output.fit_loss(labels.training.target, labels.training.weight),
        reader=reader,
        table=table,
        feature_names=_get_feature_names(columns),
        graph=mix_relations(data.graph, strengths),
        relation_strengths=strengths,
        labels=labels,
        seed=seed,
    )


def _split_labels(
    estimator: str,
    settings: Settings,
    output_type: type[NumericOutput] | type[ClassOutput],
    data: FitData,
    n_rows: int,
    seed: int,
) -> tuple[LabelSplit, Output]:
    classes = output_type is ClassOutput
    nodes, values, weight = checks.labelled_nodes(
        data.y, data.nodes, data.sample_weight, n_rows, classes, estimator
    )
    output = output_type.from_labels(values, settings.loss)
    weighted = weight * output.label_weights(values, settings.class_weight)
    if data.eval_set is not None:
        held_nodes, held_values = checks.extra_labels(data.eval_set, nodes, n_rows, classes)
        target = output.encode(held_values, "eval_set")
        validation = Labels(held_nodes, target, np.ones(held_nodes.size))
        training = Labels(nodes, output.encode(values, "y"), weighted)
        return LabelSplit(training, validation, None), output
    if not settings.early_stopping or nodes.size < defaults.MIN_LABELS_TO_HOLD_OUT:
        return LabelSplit(Labels(nodes, output.encode(values, "y"), weighted), None, None), output
    fraction = settings.validation_fraction
    n_held = round(fraction * values.size)
    if not 1 <= n_held <= values.size - defaults.MIN_LABELS_TO_TRAIN:
        raise ValueError(
            f"validation_fraction={fraction} leaves too few of {values.size} labels to train "
            "or to validate on: use something like 0.1, or early_stopping=False."
        )
    train_index, held = hold_out(values, fraction, seed, stratify=classes)
    target = output.encode(values, "y")
    training = Labels(nodes[train_index], target[train_index], weighted[train_index])
    validation = Labels(nodes[held], target[held], weight[held])
    held_back = Labels(nodes[held], target[held], weighted[held])
    return LabelSplit(training, validation, held_back), output


def _relation_strengths(
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
