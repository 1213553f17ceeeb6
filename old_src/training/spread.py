"""Spread: noise, shape and sizes of residuals at labels that were not trained on."""

from dataclasses import replace
from typing import Any

import numpy as np
from scipy.optimize import minimize
from threadpoolctl import threadpool_limits

from ebboost.backends.threads import threads_for, threads_to_grow
from ebboost.boosting.callbacks import EarlyStopping
from ebboost.boosting.latent_field import LatentField
from ebboost.boosting.loop import Boosting, boost
from ebboost.boosting.losses import Gamma, Loss
from ebboost.boosting.objective import Objective
from ebboost.data.labels import Labels
from ebboost.data.sharded import ShardedArray, of_all_rows, rows_before, sampled, total_rows
from ebboost.data.table import Table
from ebboost.data.types import Array, IntArray
from ebboost.learners import Ensemble, Learner, LightGBM, RandomNetwork
from ebboost.learners.averaged import average
from ebboost.model.distribution import NumberDistribution, Shape
from ebboost.model.spread import (
    FACTORS,
    Spread,
    factors,
    field_variance,
    model_variance,
    neighbor_columns,
    spread_table,
)
from ebboost.model.state import FittedState, ForecastRecord
from ebboost.propagation import IdentityOperator
from ebboost.training import defaults
from ebboost.training.problem import LabelFolds

# Least degrees of freedom: the variance must exist; the start of their estimate, in excess of it.
MIN_DF = 2.1
START_DF = 8.0
# Of residuals that are all 0; its square, the variance of quantile losses, must be above 0 too.
LEAST_DISPERSION = 1e-150
# Residuals below which the shape is that of a normal distribution, and those used at most.
FEW_RESIDUALS = 50
MAX_RESIDUALS = 5_000
# Nodes whose factors are computed at a time.
ROWS_AT_ONCE = 1 << 16


def estimate_spread(state: FittedState, folds: LabelFolds) -> Spread | None:
    """Return the spread of the residuals of a model, calibrated on ``eval_set`` or all folds.

    ``state.raw_predictions`` use the labels.
    """
    record = state.validation
    if not total_rows(record.target):
        return None
    loss = state.loss
    variance, variance_error = field_variance(state, state.graph, state.labels, None)
    left_out = np.asarray(variance_left_out(state, folds, variance), like=record.target)
    calibrated = state.output.calibration.apply(record.prediction)
    dispersion = _dispersion(loss, calibrated, record.target, left_out)
    expected = np.sqrt(model_variance(state, calibrated, dispersion, left_out))
    residual = (record.target - loss.inverse_link(calibrated))[:, 0]
    size = np.abs(residual) / expected
    table = state.table
    uses_columns = table is not None and not (table.is_sparse or table.on_disk)
    on_nodes = np.full(state.n_nodes, np.nan, like=size)
    on_nodes[record.nodes] = size
    neighbors = neighbor_columns(state.graph, on_nodes, state.labels, np.arange(state.n_nodes))
    own = table if uses_columns else None
    labelled = spread_table(
        None if own is None else own.subset(record.nodes),
        record.prediction,
        left_out,
        neighbors_of_held_out(state, folds, size),
    )
    ensemble, held_out = _grow(state, labelled, size)
    factor = np.ones(state.n_nodes)
    if ensemble is not None:
        for start in range(0, state.n_nodes, ROWS_AT_ONCE):
            rows = slice(start, start + ROWS_AT_ONCE)
            columns = (state.raw_predictions[rows], variance[rows], neighbors[rows])
            block = spread_table(None if own is None else own.subset(rows), *columns)
            factor[rows] = factors(ensemble, block)
    forecast_deviation = None
    if state.forecast is not None:
        of_forecasts = _forecast_variance(state)
        parts = (own, of_forecasts, dispersion, ensemble)
        forecast_deviation = _forecast_deviation(state, state.forecast, *parts)
        variance = _nearer_to_forecasts(variance, state.forecast.later, of_forecasts)
    deviation = expected * held_out
    standardised = residual / deviation
    scale = float(np.sqrt(np.mean(standardised**2))) or 1.0
    shapes = np.array([[0.0, *Shape()]])
    if not loss.log_link:
        sample = sampled(standardised)
        pairs = (record.prediction[:, 0][sample], standardised[sample])
        shapes = fit_shapes(*map(of_all_rows, pairs))
    return Spread(
        dispersion=dispersion,
        scale=scale,
        shapes=shapes,
        n_calibration=total_rows((folds.evaluation or record).target),
        variance_error=variance_error,
        uses_columns=uses_columns,
        factor=factor,
        field_variance=variance,
        deviation=deviation,
        size=size,
        forecast_deviation=forecast_deviation,
        ensemble=ensemble,
    )


def _dispersion(loss: Loss, scores: Array, target: Array, variance: Array) -> float:
    """φ of the likelihood at held-out labels, without what the field explains."""
    if type(loss).dispersion is Loss.dispersion:
        return 1.0
    dispersion = loss.dispersion(scores, target, np.ones_like(target[:, 0]))
    typical = float(variance.mean())  # in the unit of one over the curvature
    if not loss.constant_curvature:
        typical *= float(np.mean(loss.curvature(scores, target)))
    return max(dispersion / (1.0 + typical), LEAST_DISPERSION)


def neighbors_of_held_out(state: FittedState, folds: LabelFolds, size: Array) -> Array:
    """Return neighbour columns of held-out labels, from residuals that do not depend on the label.

    A label that is far from its prediction changes those of its neighbours: only models that were
    not trained on it count.
    """
    nodes = state.validation.nodes
    of_nodes = np.full(state.n_nodes, folds.n_folds)  # the number of eval_set
    of_nodes[folds.labels.nodes] = folds.fold
    fold = of_nodes[nodes]
    columns = np.empty((nodes.size, 2))
    for number in range(folds.n_folds + 1):
        own = fold == number
        counts = fold <= number if folds.in_time or number == folds.n_folds else own
        known = np.full(state.n_nodes, np.nan, like=size)
        known[nodes[counts]] = size[counts]
        columns[own] = neighbor_columns(state.graph, known, state.labels, nodes[own])
    return columns


def _labels_before(state: FittedState) -> Labels:
    """The labels that forecasts are made from."""
    assert state.forecast is not None
    return state.labels.subset(~np.isin(state.labels.nodes, state.forecast.nodes))


def _forecast_variance(state: FittedState) -> Array:
    """Variances of the field of the labels before, where forecasts are."""
    assert state.forecast is not None
    return field_variance(state, state.graph, _labels_before(state), None, state.forecast.nodes)[0]


def _nearer_to_forecasts(variance: Array, later: IntArray, of_forecasts: Array) -> Array:
    """Variances of the field that are larger at later rows, if those of forecasts were.

    More labels are known now than at the time of the forecasts, and the field is surer. But part of
    what forecasts miss are changes since, which labels before do not show, however many they are.
    """
    typical = float(variance[later].mean())
    if typical > 0.0:
        ratio = max(float(of_forecasts.mean()) / typical, 1.0)
        variance = variance.copy()
        variance[later] *= ratio**defaults.FORECAST_VARIANCE_POWER
    return variance


def _forecast_deviation(
    state: FittedState,
    forecast: ForecastRecord,
    own: Table | None,
    variance: Array,
    dispersion: float,
    ensemble: Ensemble | None,
) -> Array:
    """Deviations of forecasts, from the field of the labels before them."""
    nodes = forecast.nodes
    calibrated = state.output.calibration.apply(forecast.prediction)
    deviation = np.sqrt(model_variance(state, calibrated, dispersion, variance))
    if ensemble is None:
        return deviation
    unknown = np.full(state.n_nodes, np.nan)
    neighbors = neighbor_columns(state.graph, unknown, _labels_before(state), nodes)
    table = None if own is None else own.subset(nodes)
    features = spread_table(table, forecast.prediction, variance, neighbors)
    return deviation * factors(ensemble, features)


def variance_left_out(state: FittedState, folds: LabelFolds, variance: Array) -> Array:
    """Return variances of the field at labels that were not trained on, from those trained on."""
    nodes = state.validation.nodes
    uses = any(isinstance(one.candidate.labels, LatentField) for one in state.candidates)
    if state.graph is None or not uses:
        return variance[nodes]
    fold = np.full(state.n_nodes, -1)
    fold[folds.labels.nodes] = folds.fold
    fold = fold[nodes]
    by_fold = [
        field_variance(state, state.graph, folds.training(number), None)[0][nodes]
        for number in range(folds.n_folds)
    ]
    # The labels of eval_set are predicted by the mean of all models.
    result: Array = np.mean(by_fold, axis=0)
    for number, one in enumerate(by_fold):
        result[fold == number] = one[fold == number]
    return result


def _grow(state: FittedState, features: Table, size: Array) -> tuple[Ensemble | None, Array]:
    """Trees and networks of the log size of residuals, and exp of their out-of-fold values."""
    n_labels = total_rows(size)
    if n_labels < defaults.MIN_LABELS_OF_SPREAD or not size.any():
        return None, np.ones(size.size)
    if not isinstance(size, ShardedArray):
        return _grow_here(state, features, size)
    # The first worker grows the trees, on labels of all.
    sample = sampled(size)
    values, sizes = (of_all_rows(part[sample]) for part in (features.values, size))
    grown: Any = None
    if size.workers.rank == 0:
        grown = _grow_here(state, replace(features, values=values), sizes)
    ensemble, of_sample = size.workers.allgather_objects(grown)[0]
    held_out = factors(ensemble, features)
    first = rows_before(size[sample])
    held_out[sample] = of_sample[first : first + len(size[sample])]
    return ensemble, held_out


def _grow_here(state: FittedState, features: Table, size: Array) -> tuple[Ensemble, Array]:
    """The mean of trees and networks of all folds, each stopped at the labels of its fold."""
    min_leaf = max(defaults.SPREAD_MIN_LEAF, size.size // 100)
    trees = LightGBM(num_leaves=defaults.SPREAD_LEAVES, min_child_samples=min_leaf)
    network = RandomNetwork(defaults.SPREAD_UNITS)
    settings: tuple[tuple[Learner, float, int], ...] = (
        (trees, defaults.SPREAD_RATE, defaults.SPREAD_PATIENCE),
        (network, defaults.SPREAD_NETWORK_RATE, defaults.SPREAD_NETWORK_PATIENCE),
    )
    fold = np.random.default_rng(0).permutation(size.size) % defaults.SPREAD_FOLDS
    target = np.maximum(size / float(size.mean()), 1e-6)[:, None]
    labels = Labels(np.arange(size.size), target, np.ones(size.size))
    n_jobs = threads_to_grow(threads_for(state.n_jobs, features), features)
    log_factors = np.zeros(size.size)
    kinds = []
    with threadpool_limits(1, "blas"):  # the products of a network are small
        for learner, rate, patience in settings:
            ensembles = []
            for number in range(defaults.SPREAD_FOLDS):
                grower = learner.start(
                    features, n_outputs=1, seed=number, n_jobs=n_jobs, device="cpu"
                )
                test = fold == number
                known, held = labels.subset(~test), labels.subset(test)
                objective = Objective(IdentityOperator(size.size), Gamma(), known, held)
                boosting = Boosting(
                    objective, grower, n_rounds=defaults.SPREAD_ROUNDS, learning_rate=rate
                )
                best = boost(boosting, [EarlyStopping(patience)]).best
                log_factors[test] += best.scores[test, 0] / len(settings)
                ensembles.append(grower.compile(best.weights))
            kinds.append(average(ensembles))
    return average(kinds), np.exp(log_factors).clip(*FACTORS)


def fit_shapes(predictions: Array, residuals: Array) -> Array:
    """Return median predictions, and parameters of shapes, in groups of similar predictions."""
    n_groups = int(np.clip(residuals.size // defaults.SHAPE_LABELS, 1, defaults.SHAPE_GROUPS))
    groups = np.array_split(np.argsort(predictions, kind="stable"), n_groups)
    return np.array([[np.median(predictions[one]), *fit_shape(residuals[one])] for one in groups])


def fit_shape(residuals: Array) -> Shape:
    """Return the shape of greatest likelihood of standardised residuals; of few, a normal one."""
    center = float(np.median(residuals))
    spread = float(np.sqrt(np.mean((residuals - center) ** 2))) or 1.0
    if residuals.size < FEW_RESIDUALS:
        return Shape(center, spread)
    if residuals.size > MAX_RESIDUALS:
        random = np.random.default_rng(0)
        residuals = random.choice(residuals, MAX_RESIDUALS, replace=False)

    def shape_of(parameters: Array) -> Shape:
        location, log_scale, log_skew, log_df = np.clip(parameters, -12.0, 12.0)
        df = MIN_DF + np.exp(log_df)
        return Shape(
            center + spread * float(location),
            spread * float(np.exp(log_scale)),
            float(np.exp(log_skew)),
            float(df),
        )

    def minus_log_likelihood(parameters: Array) -> float:
        standard = NumberDistribution(np.zeros(1), np.ones(1), shape_of(parameters))
        return -float(standard.log_density(residuals).mean())

    start = np.array([0.0, -0.2, 0.0, np.log(START_DF)])
    options = {"xatol": 1e-3, "fatol": 1e-6, "maxiter": 600}
    best = minimize(minus_log_likelihood, start, method="Nelder-Mead", options=options)
    return shape_of(best.x)
