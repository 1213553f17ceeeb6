"""The spread of labels around their predictions: noise, latent field, and columns.

The variance of a label is κ² a(x)² (V(μ) + g'(η)² φ v): that of the likelihood at the prediction,
the posterior variance v of the field, and a factor a(x) of trees and networks that are trained on
the sizes of out-of-fold residuals.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from ebboost.boosting.losses import Gamma, NegativeBinomial, Poisson, Tweedie
from ebboost.boosting.posterior_variance import Variances
from ebboost.data.coordinates import split_geometry
from ebboost.data.labels import Labels
from ebboost.data.sharded import total_rows
from ebboost.data.table import Table
from ebboost.data.types import Array, IntArray
from ebboost.data.validation import node_positions
from ebboost.graph import Graph
from ebboost.learners import Ensemble
from ebboost.model.distribution import (
    AmountDistribution,
    ClassDistribution,
    CountDistribution,
    NumberDistribution,
    PredictiveDistribution,
    Shape,
)
from ebboost.model.inputs import read_table
from ebboost.model.rows import RowPredictions
from ebboost.model.state import FittedState
from ebboost.model.tweedie import TweedieDistribution
from ebboost.propagation import sweep_on

# Columns of the trees after those of X.
COLUMNS = ("prediction", "field deviation", "labelled neighbours", "residuals of neighbours")
# Range of the factor a(x), and by how much the variance of a count exceeds its mean at least.
FACTORS = (0.05, 20.0)
OVERDISPERSION = 1e-6
# Neighbours of mean size that are added to those of a node: a log size has a variance of about 1,
# and its mean one of 0.1 to 0.2 between nodes.
NEIGHBORS_OF_MEAN = 5.0
# Logarithms of means: squares of these are in range.
LOG_MEANS = (-230.0, 230.0)
# Levels of the quantiles that show a drift, and the least factor of means with a logarithmic link.
DRIFT_LEVELS = np.arange(0.05, 0.96, 0.05)
MIN_DRIFT_RATIO = 1e-3
NO_RESIDUALS = (
    "needs residuals at nodes that were not trained on, and this fit has none: pass "
    "eval_set=(nodes, y), or leave early_stopping=True with at least 10 labels."
)


@dataclass(frozen=True)
class Spread:
    """What is known about residuals that were not trained on."""

    dispersion: float  # φ of the likelihood, without what the field explains
    scale: float  # κ, the root mean square of residuals in units of their deviation
    #: Raw predictions, ascending, and the parameters of the shape of standardised residuals there,
    #: of shape (k, 5); in between they are interpolated, 1/df in place of df.
    shapes: Array
    n_calibration: int  # the last labels of the validation record, which calibrate intervals
    variance_error: float  # relative, of ``field_variance``
    uses_columns: bool  # whether the trees use the columns of X
    factor: Array  # a(x) of the fitted nodes
    field_variance: Array  # v of the fitted nodes, in units of φ
    deviation: Array  # of the labels of the validation record, without κ
    size: Array  # of their residuals, in units of the deviation without a(x)
    forecast_deviation: Array | None = None  # of the labels of the forecast record
    ensemble: Ensemble | None = field(default=None, compare=False)  # of log a(x)


class LocalSpread(NamedTuple):
    """Variance of the field and factor a(x) of rows."""

    field_variance: Array
    factor: Array


def field_variance(
    state: FittedState,
    graph: Graph | None,
    labels: Labels | None,
    label_scores: Array | None,
    nodes: IntArray | None = None,
) -> tuple[Array, float]:
    """Return the mean posterior variance of the candidates' fields in units of φ, and its error.

    0 without a field. Without labels it is that of the prior.
    """
    size = state.n_nodes if nodes is None else nodes.size
    results: list[Variances] = []
    by_field: dict[str, Variances] = {}
    for one in state.candidates:
        use = one.label_field
        if use is None or graph is None or state.n_outputs > 1:
            continue
        if state.loss.constant_curvature and repr(use) in by_field:
            results.append(by_field[repr(use)])
            continue
        if labels is None or not labels.nodes.size:
            posterior = use.operator(graph, np.zeros(1, dtype=np.int64), np.ones(1))
            curvature = np.zeros(1)
        else:
            posterior = use.operator(graph, labels.nodes, labels.weight)
            scores = one.raw_predictions[labels.nodes] if label_scores is None else label_scores
            heights = np.broadcast_to(state.loss.curvature(scores, labels.target), scores.shape)
            curvature = posterior.weight * heights[:, 0]
        results.append(posterior.variances(curvature, nodes))
        by_field[repr(use)] = results[-1]
    if not results:
        return np.zeros(size), 0.0
    values: Array = np.mean([one.values for one in results], axis=0)
    return values, max(one.relative_error for one in results)


def neighbor_columns(
    graph: Graph | None, size: Array, labels: Labels | None, nodes: IntArray
) -> Array:
    """Return the number of labelled neighbours, and the mean log size of their residuals.

    ``size`` are those of the first nodes of the graph, NaN where unknown. Sizes are in units of
    their geometric mean, so that the column is 0 where none is known, and on average elsewhere.
    """
    columns = np.zeros((nodes.size, 2))
    if graph is None or graph.groups is not None or labels is None:
        return columns
    with_halo = sweep_on(graph.adjacency).with_halo
    labelled = np.zeros(graph.n_nodes)
    labelled[labels.nodes] = 1.0
    weights = sparse.csr_array(graph.unsigned.adjacency[nodes])
    pattern = weights.copy()
    pattern.data = np.ones(weights.nnz)
    columns[:, 0] = pattern @ with_halo(labelled)
    is_known = np.isfinite(size)
    known_size = size[is_known]
    entries = np.asarray(weights.data, like=size)
    n_known = total_rows(known_size)
    n_entries = total_rows(entries)
    if not n_known or not n_entries:
        return columns
    known = np.zeros((graph.n_nodes, 2))
    rows = np.flatnonzero(np.asarray(is_known))
    known[rows, 0] = 1.0
    relative = known_size / max(float(known_size.mean()), 1e-300)
    log_size = np.log(np.maximum(relative, 1e-3))
    known[rows, 1] = log_size - float(log_size.mean())
    mass, total = (weights @ with_halo(known)).T / float(entries.mean())
    columns[:, 1] = total / (mass + NEIGHBORS_OF_MEAN)
    return columns


def spread_table(table: Table | None, raw: Array, variance: Array, neighbors: Array) -> Table:
    """Return the columns of the spread's trees; without those of X where ``table`` is None."""
    with np.errstate(divide="ignore"):
        deviation = np.where(variance > 0.0, 0.5 * np.log(variance), np.nan)
    own = np.column_stack([raw[:, 0], deviation, neighbors])
    if table is None:
        return Table(own, COLUMNS, (), (0, 1, 2, 3))
    values = np.hstack([np.asarray(table.values, dtype=np.float64), own])
    names = (*table.names, *COLUMNS)
    origin = tuple(range(len(names)))
    return Table(values, names, table.categorical, origin, categories=table.categories)


def spread_of_rows(
    state: FittedState, rows: RowPredictions, X: object, nodes: ArrayLike | None
) -> LocalSpread:
    """Return the spread of predicted rows; X and nodes are the arguments of the prediction."""
    spread = require_spread(state)
    position = rows.position
    if rows.is_stored:
        return LocalSpread(spread.field_variance[position], spread.factor[position])
    at_labels = (rows.labels, rows.label_scores)
    variance, _ = field_variance(state, rows.graph, *at_labels, position)
    if X is None:
        return LocalSpread(variance, spread.factor[position])
    if spread.ensemble is None:
        return LocalSpread(variance, np.ones(position.size))
    size = np.full(state.n_nodes if rows.has_fitted_nodes else 0, np.nan)
    if rows.has_fitted_nodes:
        size[state.validation.nodes] = spread.size
    neighbors = neighbor_columns(rows.graph, size, rows.labels, position)
    table = None
    if spread.uses_columns:
        table = read_table(state, split_geometry(X)[0])
        if nodes is not None:
            table = table.subset(node_positions(nodes, table.n_rows, repeats=True))
    features = spread_table(table, rows.raw, variance, neighbors)
    return LocalSpread(variance, factors(spread.ensemble, features))


def factors(ensemble: Ensemble, features: Table) -> Array:
    """Return a(x) of the columns of :func:`spread_table`."""
    return np.exp(ensemble.predict(features)[:, 0]).clip(*FACTORS)


def require_spread(state: FittedState, name: str = "interval") -> Spread:
    """Return the spread, or raise ValueError with a remedy."""
    if state.spread is None:
        raise ValueError(f"{name} {NO_RESIDUALS}")
    return state.spread


def model_variance(
    state: FittedState, raw: Array, dispersion: float, field_variance: Array
) -> Array:
    """Return the variance of labels that the likelihood and the field explain.

    Here and below, ``raw`` are calibrated raw predictions.
    """
    raw = raw.clip(*LOG_MEANS) if state.loss.log_link else raw
    noise = state.loss.variance(raw, dispersion)[:, 0]
    rate = np.exp(2.0 * raw[:, 0]) if state.loss.log_link else 1.0
    return noise + rate * dispersion * field_variance


def distribution_of(
    state: FittedState, rows: RowPredictions, local: LocalSpread
) -> PredictiveDistribution:
    """Return the predictive distributions of rows."""
    spread = require_spread(state, "predict_distribution")
    raw = state.output.calibration.apply(rows.raw)
    deviation = np.sqrt(model_variance(state, raw, spread.dispersion, local.field_variance))
    deviation *= local.factor
    later = is_later(state, rows)
    if later.any():
        raw[later], deviation[later] = _with_drift(state, spread, raw[later], deviation[later])
    return distribution_with(state, spread, raw, deviation)


def is_later(state: FittedState, rows: RowPredictions) -> NDArray[np.bool_]:
    """Return which rows are later than all labels, and forecasts of labels as far ahead exist."""
    if state.forecast is None or not rows.is_stored:
        return np.zeros(rows.position.size, dtype=bool)
    return np.isin(rows.position, state.forecast.later)


def forecast_distribution(state: FittedState) -> PredictiveDistribution:
    """Return the predictive distributions of the labels of the forecast record."""
    spread = require_spread(state)
    assert state.forecast is not None
    assert spread.forecast_deviation is not None
    raw = state.output.calibration.apply(state.forecast.prediction)
    moments = _with_drift(state, spread, raw, spread.forecast_deviation)
    return distribution_with(state, spread, *moments)


def _with_drift(
    state: FittedState, spread: Spread, raw: Array, deviation: Array
) -> tuple[Array, Array]:
    """Raw predictions and deviations that contain the drift of forecasts.

    Quantiles of the residuals of forecasts are a line in those of the other residuals, in units of
    the deviation; predictions with a logarithmic link are multiplied by one factor.
    """
    forecast = state.forecast
    assert forecast is not None
    assert spread.forecast_deviation is not None
    record = state.validation
    predicted = state.output.apply_link(forecast.prediction)
    if state.loss.log_link:
        ratio = max(float(forecast.target.sum() / predicted.sum()), MIN_DRIFT_RATIO)
        residual = (forecast.target / ratio - predicted)[:, 0] / spread.forecast_deviation
        scale = max(float(np.sqrt(np.mean(residual**2))) / spread.scale, 1.0)
        return raw + np.log(ratio), ratio * scale * deviation
    residuals = (forecast.target - predicted)[:, 0] / spread.forecast_deviation
    others = (record.target - state.output.apply_link(record.prediction))[:, 0] / spread.deviation
    quantiles = [np.quantile(values, DRIFT_LEVELS) for values in (others, residuals)]
    if not np.ptp(quantiles, axis=1).all():
        return raw, deviation
    scale, shift = np.polyfit(quantiles[0], quantiles[1], 1)
    return raw + shift * deviation[:, None], scale * deviation


def variance_columns(state: FittedState, nodes: ArrayLike | None) -> dict[str, NDArray[Any]]:
    """Return the variance of fitted nodes and its parts: noise, field, features."""
    if state.is_classifier:
        raise ValueError("uncertainty() is for numbers: use predict_proba() for classes.")
    spread = require_spread(state, "uncertainty")
    rows = RowPredictions.of_fitted_nodes(state).subset(nodes)
    local = spread_of_rows(state, rows, None, None)
    distribution = distribution_of(state, rows, local)
    raw = state.output.calibration.apply(rows.raw)
    without_field = model_variance(state, raw, spread.dispersion, 0.0 * local.field_variance)
    both = model_variance(state, raw, spread.dispersion, local.field_variance)
    unit = distribution.variance / (both * local.factor**2)
    noise = unit * without_field
    field = unit * (both - without_field)
    return {
        "node": rows.position,
        "prediction": state.output.decode(rows.raw),
        "variance": distribution.variance,
        "noise": noise,
        "field": field,
        "features": distribution.variance - noise - field,
    }


def held_out_distribution(state: FittedState, name: str = "interval") -> PredictiveDistribution:
    """Return the predictive distributions of labels by models that were not trained on them."""
    record = state.validation
    if state.classes is not None:
        return class_distribution(state, record.prediction)
    spread = require_spread(state, name)
    raw = state.output.calibration.apply(record.prediction)
    return distribution_with(state, spread, raw, spread.deviation)


def class_distribution(state: FittedState, raw: Array) -> ClassDistribution:
    """Return the probabilities of classes."""
    assert state.classes is not None
    return ClassDistribution(state.output.apply_link(raw), state.classes)


def distribution_with(
    state: FittedState, spread: Spread, raw: Array, deviation: Array
) -> PredictiveDistribution:
    """Return distributions with these deviations, without κ."""
    loss = state.loss
    if isinstance(loss, (Poisson, NegativeBinomial, Gamma, Tweedie)):
        means = np.exp(raw[:, 0].clip(*LOG_MEANS))
        variances = (spread.scale * deviation) ** 2
        if isinstance(loss, (Poisson, NegativeBinomial)):
            least = means * (1.0 + OVERDISPERSION * np.maximum(means, 1.0))
            return CountDistribution(means, np.maximum(variances, least))
        if isinstance(loss, Gamma):
            return AmountDistribution(means, variances)
        return TweedieDistribution(means, variances, loss.power)
    at, *parameters, df = spread.shapes.T
    shape = Shape(*(np.interp(raw[:, 0], at, values) for values in (*parameters, 1.0 / df)))
    # Tails between heavy and normal ones are heavy: 1/df is linear in between.
    shape = shape._replace(df=1.0 / np.asarray(shape.df))
    return NumberDistribution(loss.inverse_link(raw)[:, 0], deviation, shape)
