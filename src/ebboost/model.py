"""A fitted model: a weighted list of components, an intercept, and the facts that they share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ebboost._common import Array, IntArray
from ebboost.data.coordinates import Coordinates
from ebboost.data.distances import Distances, Separation
from ebboost.data.features import FeatureMap
from ebboost.data.labels import Labels
from ebboost.data.neighbors import Places
from ebboost.data.reader import TableReader
from ebboost.data.table import Table
from ebboost.defaults import Member
from ebboost.field import LatentField, Posterior, at, field_mode
from ebboost.graph import Graph
from ebboost.kriging import GaussianProcess
from ebboost.learners import Ensemble
from ebboost.losses import Loss, SquaredError
from ebboost.output import Output
from ebboost.smoothing import Smoother

if TYPE_CHECKING:
    from ebboost.intervals import Spread


@dataclass(frozen=True, eq=False)
class Component:
    """One member of the portfolio: the mean of its models of all folds.

    Its scores are init_score + offset + P f + z: ``scores`` are f on the fitted rows, P is that of
    ``smoothing`` and z the latent ``field``, given all labels. With a ``loss`` of its own, its
    prediction is the inverse link of that.
    """

    member: Member
    weight: float
    features: FeatureMap
    columns: tuple[str, ...]  # of its trees
    origin: tuple[int, ...]  # the column of X that each comes from, −1 for none
    ensemble: Ensemble
    init_score: Array
    scores: Array = field(repr=False)
    smoothing: Smoother | None
    field: LatentField | None
    loss: Loss | None
    rounds: tuple[int, ...]
    process: GaussianProcess | None = None  # in place of the field, where there are coordinates

    def to_raw(self, scores: Array) -> Array:
        """Return scores as raw predictions of the fit's loss."""
        return scores if self.loss is None else self.loss.inverse_link(scores)

    def labels_for(self, labels: Labels) -> Labels:
        """Return labels that its loss is defined for: new ones may be negative, counts as 0."""
        if self.loss is None or not self.loss.log_link:
            return labels
        return replace(labels, target=labels.target.clip(min=0.0))


@dataclass(frozen=True, eq=False)
class Unseen:
    """Labels and what models that were not trained on them predict, by weights of other folds."""

    rows: IntArray
    target: Array  # of shape (m, n_outputs)
    weight: Array
    raw: Array
    without: Array | None = None  # what members predict that do not use the graph
    scores: Array | None = None  # of the first member, without a field


def metric_of(loss: Loss) -> str:
    """Return what errors are called: "RMSE" for squared error, "log-loss" for classes."""
    if type(loss) is SquaredError:
        return "RMSE"
    return "deviance" if loss.curvature_has_units else "log-loss"


def in_metric(loss: Loss, half_deviance: float) -> float:
    """Return a mean loss, half a deviance, in the units of :func:`metric_of`."""
    if type(loss) is SquaredError:
        return float(np.sqrt(2.0 * half_deviance))
    return 2.0 * half_deviance if loss.curvature_has_units else half_deviance


@dataclass(frozen=True)
class Gain:
    """What the graph is worth: errors at unseen labels without and with it.

    Both are those of weighted members, with weights that the labels of other folds chose. The
    standard error is that of the difference at other labels, by models trained on others: as models
    of folds share labels, √(1 + labels not trained on / labels trained on) times that of a mean
    (Nadeau and Bengio, Machine Learning 52, 2003).
    """

    metric: str  # "RMSE" for squared error, "log-loss" for classes, else "deviance"
    without: float
    with_graph: float
    standard_error: float
    n_labels: int

    @classmethod
    def of(
        cls, loss: Loss, labels: Labels, without: Array, with_graph: Array, n_trained: int
    ) -> Gain:
        """Return the gain from raw predictions without and with the graph."""
        share = labels.weight / labels.weight.mean()
        pair = [0.5 * share * loss.deviance(raw, labels.target) for raw in (without, with_graph)]
        levels = [in_metric(loss, float(one.mean())) for one in pair]
        if type(loss) is SquaredError:  # to first order
            pair = [one / max(level, 1e-300) for one, level in zip(pair, levels, strict=True)]
        elif loss.curvature_has_units:
            pair = [2.0 * one for one in pair]
        difference = pair[0] - pair[1]
        error = float(difference.std() * np.sqrt(1.0 / labels.size + 1.0 / max(n_trained, 1)))
        return cls(metric_of(loss), levels[0], levels[1], error, labels.size)

    @property
    def relative(self) -> float:
        """The decrease of the error as a share of that without the graph."""
        return (self.without - self.with_graph) / abs(self.without) if self.without else 0.0


@dataclass(frozen=True, eq=False)
class Model:
    """Everything that a fitted model is; predict, explain, save and report read it."""

    estimator: str  # name of its class
    parameters: Mapping[str, Any]
    output: Output
    reader: TableReader
    feature_names: NDArray[Any] | None
    labels: Labels  # that predictions use
    components: tuple[Component, ...]
    intercept: Array
    unseen: Unseen
    selection: tuple[Mapping[str, Any], ...]  # a row for each member that was trained
    gain: Gain | None
    history: Mapping[str, list[float]]  # losses of the rounds of the first model
    stop_reason: str
    places: Places | None = None
    coordinates: Coordinates | None = field(default=None, repr=False)
    separation: Separation | None = None  # of the rows to predict from the labels
    offset: Array | None = field(default=None, repr=False)
    trials: Array | None = field(default=None, repr=False)  # of each row, where labels are shares
    table: Table | None = field(default=None, repr=False)
    raw: Array = field(default_factory=partial(np.zeros, (0, 1)), repr=False)
    spread: Spread | None = field(default=None, repr=False)
    row_labels: Any = field(default=None, repr=False)  # the pandas index of X
    geometry: Any = field(default=None, repr=False)  # of a GeoDataFrame; to draw, not in files
    source: Mapping[str, Any] | None = None  # of a model that was fitted from files

    @property
    def graph(self) -> Graph | None:
        """The graph fitted on."""
        return None if self.places is None else self.places.graph

    @property
    def n_features(self) -> int:
        """Number of columns of X."""
        return len(self.reader.names)

    @property
    def rounds(self) -> tuple[int, ...]:
        """Rounds of each model."""
        return tuple(count for one in self.components for count in one.rounds)

    @property
    def n_iter(self) -> int:
        """Mean number of rounds of the models."""
        return round(sum(self.rounds) / len(self.rounds))

    @property
    def n_rows(self) -> int:
        """Number of fitted rows."""
        return len(self.components[0].scores)

    @property
    def n_outputs(self) -> int:
        """Number of columns of the scores."""
        return len(self.intercept)

    @property
    def weights(self) -> Array:
        """The weights of the components."""
        return np.array([one.weight for one in self.components])

    @property
    def uses_graph(self) -> bool:
        """Whether predictions depend on any edge."""
        parts = [(one.smoothing, one.field) for one in self.components]
        by_parts = any(part is not None for pair in parts for part in pair)
        return by_parts or any(one.features.uses_graph for one in self.components)

    def weight_of(self, trials: Array) -> Array:
        """Return what shares of so many trials weigh, beside the average label."""
        assert self.trials is not None
        information: Any = getattr(self.output.loss, "information")  # noqa: B009
        return information(trials) / np.mean(information(self.trials[self.labels.rows]))

    def weighted(self, raw: Any, offset: Array | None) -> Array:
        """Return offset + intercept + Σ w_k (raw_k − offset) of the components' raw predictions."""
        fixed = 0.0 if offset is None else offset
        result = fixed + self.intercept
        for one, own in zip(self.components, raw, strict=True):
            result = result + one.weight * (own - fixed)
        return result

    @cached_property
    def smoothed(self) -> tuple[Array, ...]:
        """Scores of the fitted rows without the field, of each component."""
        fixed = 0.0 if self.offset is None else self.offset
        result = []
        for one in self.components:
            scores = one.scores
            if one.smoothing is not None and self.places is not None:
                scores = one.smoothing.operator(self.places.graph).apply(scores)
            result.append(one.init_score + fixed + scores)
        return tuple(result)

    @cached_property
    def hops_to_label(self) -> Array:
        """Edges from each node of the graph to the nearest one with a label."""
        assert self.places is not None
        places = self.places.in_one_group()
        every = np.arange(places.graph.n_nodes)
        labelled = np.unique(places.node_of_row[self.labels.rows])
        return Distances(None, places.graph, every).nearest(every, labelled)[0]

    @cached_property
    def fields(self) -> tuple[Array | None, ...]:
        """The latent field on the nodes given all labels, of each component; None without one."""
        return tuple(self.field_given(one, self.labels) for one in range(len(self.components)))

    def field_given(self, number: int, labels: Labels) -> Array | None:
        """Return the field of a component on the nodes, given labels of fitted rows."""
        one, places = self.components[number], self.places
        if one.process is not None and labels.size:
            return self.process_given(number, labels)[0][:, None]
        if one.field is None or places is None or not labels.size:
            return None
        known = one.labels_for(labels).relative()
        posterior = Posterior(one.field.prior(places.graph), places.node_of_row[labels.rows])
        scores = self.smoothed[number][labels.rows]
        return field_mode(posterior, one.loss or self.output.loss, known, scores)

    def process_given(
        self, number: int, labels: Labels, points: Array | None = None
    ) -> tuple[Array, Array]:
        """Return mean and variance of a component's process, given labels of fitted rows.

        At all of these rows, or at other points.
        """
        process, where = self.components[number].process, self.coordinates
        assert process is not None and where is not None
        residuals = labels.target - self.smoothed[number][labels.rows]
        points = where.points if points is None else points
        known = (where.points[labels.rows], residuals[:, 0], labels.relative().weight)
        return process.posterior(points, *known)

    def predictions_given(self, labels: Labels) -> Array:
        """Return raw predictions of the fitted rows, given labels of some of them."""
        raw = []
        for number, one in enumerate(self.components):
            scores = self.smoothed[number]
            if self.places is not None:
                is_known = labels is self.labels
                z = self.fields[number] if is_known else self.field_given(number, labels)
                scores = scores if z is None else scores + at(z, self.places.node_of_row)
            raw.append(one.to_raw(scores))
        return self.weighted(raw, self.offset)
