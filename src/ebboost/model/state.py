"""The fitted state: everything that a fitted model is."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ebboost.boosting.latent_field import LatentField, scaled_field
from ebboost.boosting.losses import Loss
from ebboost.data.coordinates import Coordinates
from ebboost.data.fingerprint import fingerprint_of
from ebboost.data.labels import Labels
from ebboost.data.pipeline import FeaturePipeline
from ebboost.data.reader import TableReader
from ebboost.data.sharded import standard_error
from ebboost.data.table import Table
from ebboost.data.types import Array, IntArray
from ebboost.graph import Graph
from ebboost.learners import Ensemble
from ebboost.model.candidate import Candidate
from ebboost.model.output import Output

if TYPE_CHECKING:
    from ebboost.model.spread import Spread


@dataclass(frozen=True)
class ValidationRecord:
    """Labelled nodes and what models that were not trained on their labels predict for them."""

    nodes: IntArray
    target: Array  # of shape (m, n_outputs)
    prediction: Array  # raw: scores, or probabilities of the classes
    without_graph: Array  # those of plain boosting; NaN where it was not compared

    @classmethod
    def empty(cls, n_columns: int) -> "ValidationRecord":
        """Return the record of a fit without validation nodes."""
        predictions = np.zeros((0, n_columns))
        return cls(np.zeros(0, dtype=np.int64), np.zeros((0, 1)), predictions, predictions)


@dataclass(frozen=True)
class ForecastRecord:
    """Labels after some time, and what models that were trained on earlier ones predict there."""

    nodes: IntArray
    target: Array  # of shape (m, 1), as the prediction
    prediction: Array
    later: IntArray  # the nodes that are later than all labels


#: Standard errors by which the graph must raise the error for a warning.
HARM = 2.5


@dataclass(frozen=True)
class GraphGain:
    """What the graph is worth: errors at labels that were not trained on, without and with it."""

    metric: str  # "RMSE" for squared error, else "loss"
    without: float
    with_graph: float
    standard_error: float  # of the difference
    n_labels: int

    @classmethod
    def of_losses(cls, without: Array, with_graph: Array) -> "GraphGain":
        """Return the gain in the mean of paired losses."""
        error = standard_error(without - with_graph)
        return cls("loss", float(without.mean()), float(with_graph.mean()), error, without.size)

    @property
    def gain(self) -> float:
        """The decrease of the error; negative if the graph does harm."""
        return self.without - self.with_graph

    @property
    def relative(self) -> float:
        """The gain as a share of the error without the graph."""
        return self.gain / abs(self.without) if self.without else 0.0

    @property
    def is_harm(self) -> bool:
        """Whether the graph raises the error by more than chance explains."""
        return self.gain < -HARM * self.standard_error


#: What the members of an average differ in.
MEMBER_FIELDS = (
    "candidate",
    "pipeline",
    "column_origin",
    "ensemble",
    "init_score",
    "scores",
    "propagated_scores",
    "raw_predictions",
    "rounds",
    "factor",
)


@dataclass(frozen=True)
class FittedState:
    """Everything that a fitted model is; predict, explain, save, serve and report take it.

    Parameters
    ----------
    estimator : str
        Name of the estimator class.
    parameters : dict
        Constructor parameters of the estimator.
    output : Output
        Meaning of y: loss, classes, calibration.
    reader : TableReader
        Columns of X at fit: names and categories.
    feature_names : ndarray of str or None
        Names of the columns, where X had names.
    graph : Graph or None
        The graph fitted on; of several relations, their weighted sum.
    relation_strengths : dict or None
        What the weights of each relation were multiplied by.
    coordinates : Coordinates or None
        Points of the fitted rows, where the graph was built from them.
    labels : Labels
        Labels that predictions of the fitted nodes use.
    candidate : Candidate
        The parts that model selection chose.
    pipeline : FeaturePipeline
        Computes the columns of the trees.
    column_origin : tuple of int
        For each column of the trees the column of X that it comes from, −1 for none.
    ensemble : Ensemble
        The trees.
    init_score : ndarray of shape (n_outputs,)
    offset : ndarray of shape (n_nodes, 1) or None
        What was added to the scores of the fitted nodes: the offset, or the log of the exposure.
    scores, propagated_scores, raw_predictions : ndarray of shape (n_nodes, ...)
        Of the fitted nodes: f, P f, and the predictions with labels before decoding.
    factor : float
        What predictions are multiplied by, of a candidate trained with a loss of its own.
    members : tuple of FittedState
        Where several candidates are averaged, the state of each; empty for one. The other fields
        are those of the first, but for ``raw_predictions``, ``validation`` and ``rounds``.
    rounds : tuple of int
        Rounds of each model of the average, one for each fold.
    stop_reason : str
    history : dict of lists
        Losses of every round of the first model.
    selection : dict of lists
        The candidates that were compared, best first: ``candidate``, ``folds``, ``rounds``,
        ``loss``, ``standard_error``, ``seconds``.
    gain : GraphGain or None
        What the graph is worth.
    validation : ValidationRecord
    forecast : ForecastRecord or None
        Of a fit with ``time`` and nodes later than all labels.
    spread : Spread or None
        Residuals at labels that were not trained on; None for classes, and where every label was
        trained on.
    calibration_error : float or None
        Expected calibration error at the validation nodes, of a classifier.
    environment : dict
        Versions and platform of the fit.
    cluster : dict or None
        Workers, calls and bytes of a fit on a cluster.
    table : Table or None
        The table fitted on; None after loading, and where it is in files or on a cluster.
    table_digest : str or None
        SHA-256 of the values of that table, where the state has a graph and not the table.
    row_labels : pandas.Index or None
        The index of that table, where it had one; not in files and pickles.
    encoded_table : Table or None
        The columns of the trees, where categories were encoded with the labels.
    shards : Shards or None
        The fitted nodes, where these stay on the workers of a cluster.
    source : dict or None
        Names of the id and label columns, of a model that was fitted from files.
    """

    estimator: str
    parameters: Mapping[str, Any]
    output: Output
    reader: TableReader
    feature_names: NDArray[Any] | None
    graph: Graph | None
    relation_strengths: Mapping[str, float] | None
    labels: Labels
    candidate: Candidate
    pipeline: FeaturePipeline
    column_origin: tuple[int, ...]
    ensemble: Ensemble
    init_score: Array
    scores: Array
    propagated_scores: Array
    raw_predictions: Array
    rounds: tuple[int, ...]
    stop_reason: str
    history: Mapping[str, list[float]]
    selection: Mapping[str, list[float | str]]
    gain: GraphGain | None = None
    factor: float = 1.0
    members: tuple["FittedState", ...] = ()
    offset: Array | None = None
    validation: ValidationRecord = field(default_factory=lambda: ValidationRecord.empty(1))
    forecast: ForecastRecord | None = None
    spread: "Spread | None" = field(default=None, repr=False)
    calibration_error: float | None = None
    environment: Mapping[str, str | int | None] = field(default_factory=dict)
    cluster: Mapping[str, int] | None = None
    table: Table | None = field(default=None, repr=False)
    encoded_table: Table | None = field(default=None, repr=False)
    source: Mapping[str, Any] | None = None
    shards: Any = field(default=None, repr=False)
    coordinates: Coordinates | None = field(default=None, repr=False)
    table_digest: str | None = None
    row_labels: Any = field(default=None, repr=False)

    def without_table(self) -> "FittedState":
        """Return the state without the table fitted on, which it still recognises.

        Returns
        -------
        FittedState
        """
        digest = self.table_digest
        if self.table is not None and self.graph is not None:
            digest = fingerprint_of(self.table.values)
        changes: dict[str, Any] = {"table": None, "encoded_table": None, "table_digest": digest}
        members = tuple(replace(one, **changes) for one in self.members)
        return replace(self, members=members, row_labels=None, **changes)

    @property
    def fixed_scores(self) -> Array:
        """Initial score and offset of the fitted nodes, which no tree moves."""
        offset = np.zeros((self.n_nodes, 1)) if self.offset is None else self.offset
        return self.init_score + offset

    def with_members(self, members: "tuple[FittedState, ...]") -> "FittedState":
        """Return the average of several states of one fit; this one's other facts stay.

        Parameters
        ----------
        members : tuple of FittedState

        Returns
        -------
        FittedState
        """
        first = members[0]
        own = {name: getattr(first, name) for name in MEMBER_FIELDS}
        if len(members) == 1:
            return replace(self, members=(), **own)
        raw = np.mean([one.raw_predictions for one in members], axis=0)
        rounds = tuple(count for one in members for count in one.rounds)
        return replace(self, members=members, **own | {"raw_predictions": raw, "rounds": rounds})

    @property
    def candidates(self) -> tuple["FittedState", ...]:
        """The states whose predictions are averaged."""
        return self.members or (self,)

    @property
    def n_folds(self) -> int:
        """Number of models of each candidate."""
        return len(self.candidates[0].rounds)

    @property
    def n_compared_folds(self) -> int:
        """Number of folds that candidates were compared on, at most."""
        return max([self.n_folds, *map(int, self.selection.get("folds", []))])

    @property
    def candidate_names(self) -> list[str]:
        """Names of the candidates whose predictions are averaged."""
        return [one.candidate.name for one in self.candidates]

    @property
    def n_iter(self) -> int:
        """Mean number of rounds of the models."""
        return round(sum(self.rounds) / len(self.rounds))

    @property
    def n_nodes(self) -> int:
        """Number of fitted nodes."""
        return len(self.scores)

    @property
    def n_outputs(self) -> int:
        """Number of columns of the scores."""
        return self.scores.shape[1]

    @property
    def n_features(self) -> int:
        """Number of columns of X."""
        return len(self.reader.names)

    @property
    def classes(self) -> NDArray[Any] | None:
        """The classes; None for a regressor."""
        return self.output.classes

    @property
    def is_classifier(self) -> bool:
        """Whether predictions are classes."""
        return self.output.classes is not None

    @property
    def loss(self) -> Loss:
        """The loss, its scale fitted."""
        return self.output.loss

    @property
    def training_loss(self) -> Loss:
        """The loss that the models of the first candidate were trained with."""
        return self.candidate.loss or self.output.loss

    @property
    def final_scores(self) -> Array:
        """Scores of the fitted nodes with the field: of ``raw_predictions`` before any link."""
        return self.to_scores(self.raw_predictions)

    @property
    def label_field(self) -> LatentField | None:
        """The latent field in the units of the labels, if there is one.

        That of a candidate with a loss of its own has other units, those of its scores: strengths
        are divided by the mean curvature of that loss.
        """
        field = self.candidate.labels
        if not isinstance(field, LatentField) or self.candidate.loss is None:
            return field if isinstance(field, LatentField) else None
        scores = self.final_scores[self.labels.nodes]
        curvature = self.candidate.loss.curvature(scores, self.labels.target)
        return scaled_field(field, 1.0 / float(np.mean(curvature)))

    def to_raw(self, scores: Array) -> Array:
        """Return final scores as raw predictions.

        They differ where a candidate has a loss of its own: its raw predictions are numbers like
        the labels, so that they can be averaged with those of others.

        Parameters
        ----------
        scores : ndarray of shape (n, n_outputs)

        Returns
        -------
        ndarray of shape (n, n_outputs)
        """
        own = self.candidate
        return scores if own.loss is None else self.factor * own.to_raw(scores)

    def to_scores(self, raw: Array) -> Array:
        """Return the inverse of :meth:`to_raw`.

        Parameters
        ----------
        raw : ndarray of shape (n, n_outputs)

        Returns
        -------
        ndarray of shape (n, n_outputs)
        """
        return raw if self.candidate.loss is None else self.candidate.to_scores(raw / self.factor)

    @property
    def n_jobs(self) -> int | None:
        """The ``n_jobs`` parameter."""
        return self.parameters.get("n_jobs")

    @property
    def uses_graph(self) -> bool:
        """Whether predictions depend on any edge."""
        return self.graph is not None and self.candidate.uses_graph

    @property
    def is_causal(self) -> bool:
        """Whether only earlier neighbours are used."""
        return self.graph is not None and self.graph.time is not None

    @property
    def training_labels(self) -> Labels:
        """The labels trained on: with several models, all."""
        if len(self.rounds) > 1:
            return self.labels
        return self.labels.subset(~np.isin(self.labels.nodes, self.validation.nodes))
