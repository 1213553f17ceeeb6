"""How far labels may be from their predictions: variances, distributions, conformal intervals.

The variance of a label is s(x)² (V(μ) + g'(η)² φ v): the noise of the likelihood, the posterior
variance v of the field, and a learned scale s of trees that are trained on the sizes of residuals
of labels that models were not trained on. Intervals have the ends of that distribution at the
levels that contain as many of those labels as wanted.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.optimize import minimize
from scipy.special import ndtr, ndtri

from ebboost._common import Array, IntArray, check_number
from ebboost.data.labels import Folds, Labels, one_hot
from ebboost.data.table import Table
from ebboost.field import LatentField, Posterior, at, conditional_mean, posterior_variances
from ebboost.frames import as_frame
from ebboost.kriging import GaussianProcess
from ebboost.learners import Ensemble
from ebboost.losses import Loss
from ebboost.model import Model
from ebboost.predict import Predictions, Rows, rows_of_nodes

# Trees of the scale: fewest labels, folds, leaves, rows of a leaf, rounds, rate and patience.
SCALE_LABELS = 200
SCALE_FOLDS = 3
SCALE_TREES = {"num_leaves": 4, "learning_rate": 0.1, "lambda_l2": 5.0}
SCALE_MIN_ROWS = 20
SCALE_ROUNDS = 150
SCALE_PATIENCE = 10
SCALES = (0.05, 20.0)
LOG_MEANS = (-230.0, 230.0)  # logarithms of means: squares of these are in range
# Blocks held out that the likelihood of a process counts for, when its variances are estimated, and
# degrees of freedom of variances far away without any block.
PRIOR_BLOCKS = 30.0
DEGREES_WITHOUT_BLOCKS = 3.0
LEAST = 1e-150  # dispersion, of residuals that are all 0
DEGREES = (3.0, 200.0)  # of freedom of the distribution of numbers
MAX_SCORE = 40.0  # of labels whose probability is 0 in double precision
NO_RESIDUALS = (
    "needs residuals at labels that were not trained on, and this fit has none: pass "
    "eval_set=(nodes, y), or leave early_stopping=True with at least 10 labels."
)


class _Ends(NamedTuple):
    prediction: Array
    lower: Array
    upper: Array


class Intervals(_Ends):
    """Predictions and the ends of their intervals, one entry for each row.

    Parameters
    ----------
    prediction, lower, upper : ndarray of shape (n,)
    """

    index: Any = None  # names of the rows

    def to_frame(self) -> Any:
        """Return a dataframe with the index of the rows.

        Returns
        -------
        dataframe of pandas, polars or pyarrow, whichever is installed
        """
        return as_frame(self._asdict(), self.index)

    def _repr_html_(self) -> str:
        return str(self.to_frame()._repr_html_())


class _Sets(NamedTuple):
    prediction: NDArray[Any]
    contains: NDArray[np.bool_]


class PredictionSets(_Sets):
    """Predicted classes, and which classes the set of each row contains.

    Parameters
    ----------
    prediction : ndarray of shape (n,)
    contains : ndarray of bool, shape (n, n_classes)
        In the order of ``classes_``. A set contains at least the most probable class.
    """

    index: Any = None  # names of the rows
    classes: tuple[Any, ...] = ()

    def to_frame(self) -> Any:
        """Return a dataframe with the index of the rows, and a column for each class.

        Returns
        -------
        dataframe of pandas, polars or pyarrow, whichever is installed
        """
        names = [str(name) for name in self.classes]
        columns = dict(zip(names, self.contains.T, strict=True))
        return as_frame({"prediction": self.prediction, **columns}, self.index)

    def _repr_html_(self) -> str:
        return str(self.to_frame()._repr_html_())


@dataclass(frozen=True)
class Forecast:
    """Labels predicted from earlier ones, and the rows that are later than all labels."""

    known: Labels
    labels: Labels
    raw: Array
    later: IntArray


@dataclass(frozen=True, eq=False)
class Spread:
    """What a model knows about its errors; made in ``fit``."""

    dispersion: float  # φ of the likelihood, without what the field explains
    field: LatentField | None  # in the units of the fit's loss
    df: float  # degrees of freedom of the distribution of numbers
    variance: Array  # v on the nodes, in units of φ
    scale: Array  # s of the fitted rows
    scores: Array  # normal scores of the unseen labels, of shape (m,)
    deviation: Array  # standard deviations there
    #: Rows that are later than all labels, and normal scores of labels forecast as far ahead.
    #: Of the coordinates, in place of the field; and distances of the fitted rows to the nearest
    #: label, which the scale depends on.
    process: GaussianProcess | None = None
    later: IntArray = dataclasses.field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    later_scores: Array = dataclasses.field(default_factory=lambda: np.zeros(0))
    trees: Ensemble | None = dataclasses.field(default=None, repr=False)  # of log s


def estimate_spread(
    model: Model,
    folds: Folds,
    forecast: Forecast | None = None,
    process: GaussianProcess | None = None,
) -> Spread | None:
    """Return the spread of a model of numbers; None where every label was trained on."""
    unseen, loss = model.unseen, model.output.loss
    if model.output.is_classifier or not unseen.rows.size:
        return None
    if loss.log_link:
        unseen = replace(unseen, raw=unseen.raw.clip(*LOG_MEANS))
    own_field = process or field_of(model)
    variance = np.zeros(0)
    held = np.zeros(unseen.rows.size)
    if own_field is not None and model.places is not None:
        variance = field_variance(model, own_field, model.labels)
        held = at(variance, model.places.node_of_row[unseen.rows])  # of eval_set
        ends = np.cumsum([one.size for one in folds.held_out])
        for number, own in enumerate(np.split(np.arange(ends[-1]), ends[:-1])):
            known = folds.labels.subset(folds.training[number])
            held[own] = field_variance(model, own_field, known, unseen.rows[own])
    labels = Labels(unseen.rows, unseen.target, unseen.weight)
    residual = (unseen.target - loss.inverse_link(unseen.raw))[:, 0]
    n_blocks = 0 if model.separation is None else model.separation.n_blocks
    if process is None:
        dispersion = dispersion_of(loss, unseen.raw, labels, held)
    else:
        dispersion, ratio = two_variances(residual, held, process.noise, n_blocks)
        process = replace(process, noise=process.noise / ratio)
        held, variance = ratio * held, ratio * variance
    trials = None if model.trials is None else model.trials[unseen.rows]
    expected = np.sqrt(model_variance(model, unseen.raw, dispersion, held, trials))
    size = np.abs(residual) / expected
    trees, held_scale = None, np.ones(size.size)
    scale = np.ones(model.n_rows)
    table = model.table
    if table is not None and not table.is_sparse and size.size >= SCALE_LABELS and size.any():
        own_columns = hide_coordinates(model, table)
        seen = 0.0 if process is not None else 1.0  # how errors grow far away, a process says
        columns = scale_columns(own_columns.subset(unseen.rows), unseen.raw, seen * held)
        is_matched = model.separation is not None and model.separation.is_matched
        trees, held_scale = grow_scale(columns, size, fold_of(folds) if is_matched else None)
        every = np.zeros(model.n_rows)
        if variance.size and model.places is not None:
            every = at(variance, model.places.node_of_row)
        scale = scales(trees, scale_columns(own_columns, model.raw, seen * every))
    deviation = expected * held_scale
    root = float(np.sqrt(np.mean((residual / deviation) ** 2))) or 1.0
    df = DEGREES[1] if loss.log_link else degrees_of_freedom(residual / (root * deviation))
    deviation = root * deviation
    distribution = distribution_with(loss, unseen.raw, deviation, df, trials)
    scores = normal_scores(distribution, unseen.target[:, 0])
    lattice = own_field if isinstance(own_field, LatentField) else None
    parts = (lattice, df, variance, scale, scores, deviation)
    spread = Spread(dispersion * root**2, *parts, process=process, trees=trees)
    if process is not None:
        spread = widened(spread, n_blocks)
    if forecast is None:
        return spread
    target = forecast.labels
    ahead = np.zeros(target.size)
    if own_field is not None:
        ahead = field_variance(model, own_field, forecast.known, target.rows)
    trials = None if model.trials is None else model.trials[target.rows]
    deviation = np.sqrt(model_variance(model, forecast.raw, spread.dispersion, ahead, trials))
    if trees is not None and table is not None:
        own_columns = hide_coordinates(model, table.subset(target.rows))
        deviation *= scales(trees, scale_columns(own_columns, forecast.raw, ahead))
    distribution = distribution_with(loss, forecast.raw, deviation, df, trials)
    later_scores = normal_scores(distribution, target.target[:, 0])
    return replace(spread, later=forecast.later, later_scores=later_scores)


def field_of(model: Model) -> LatentField | None:
    """Return the field of the components in the units of the fit's loss, None without one."""
    own = [one.field for one in model.components if one.field is not None and one.loss is None]
    if own:
        return own[-1]
    for one in model.components:
        if one.field is not None and one.loss is not None:
            scores = np.log(np.maximum(model.raw[model.labels.rows], 1e-300))
            unit = float(np.mean(one.loss.curvature(scores, model.labels.target)))
            return one.field.scaled(1.0 / unit)
    return None


def field_variance(
    model: Model, own: LatentField | GaussianProcess, labels: Labels, rows: IntArray | None = None
) -> Array:
    """Return the posterior variance of the field in units of φ, given labels of fitted rows.

    On all nodes, or at those of some rows.
    """
    assert model.places is not None
    if isinstance(own, GaussianProcess) and model.coordinates is not None:
        points = model.coordinates.points
        return process_variance(model, own, labels, points if rows is None else points[rows])
    assert isinstance(own, LatentField)
    nodes = None if rows is None else model.places.node_of_row[rows]
    posterior = Posterior(own.prior(model.places.graph), model.places.node_of_row[labels.rows])
    loss, known = model.output.loss, labels.relative()
    curvature = loss.curvature(model.raw[labels.rows], labels.target)
    heights = np.broadcast_to(curvature, labels.target.shape)[:, :1]
    return posterior_variances(posterior, known.weight[:, None] * heights, nodes)


def process_variance(
    model: Model, process: GaussianProcess, labels: Labels, points: Array
) -> Array:
    """Return the variance of a process at points given labels, in units of its noise."""
    assert model.coordinates is not None
    known = (model.coordinates.points[labels.rows], np.zeros(labels.size), labels.relative().weight)
    return process.posterior(points, *known)[1] / process.noise


def dispersion_of(loss: Loss, raw: Array, labels: Labels, variance: Array) -> float:
    """Return φ of the likelihood at unseen labels, without what the field explains."""
    if type(loss).dispersion is Loss.dispersion:
        return 1.0
    dispersion = loss.dispersion(raw, labels.target, labels.weight)
    typical = float(variance.mean())  # in the unit of one over the curvature
    if not loss.constant_curvature:
        typical *= float(np.mean(loss.curvature(raw, labels.target)))
    return max(dispersion / (1.0 + typical), LEAST)


def model_variance(
    model: Model, raw: Array, dispersion: float, variance: Array, trials: Array | None
) -> Array:
    """Return the variance of labels that the likelihood and the field explain."""
    loss = model.output.loss
    raw = raw.clip(*LOG_MEANS) if loss.log_link else raw
    noise = loss.variance(raw, dispersion)[:, 0]
    if trials is not None:
        noise = noise / model.weight_of(trials)
    rate: Array | float = np.exp(2.0 * raw[:, 0]) if loss.log_link else 1.0
    if loss.slope is not None:
        rate = loss.slope(raw)[:, 0] ** 2
    return noise + rate * dispersion * variance


def trials_of(model: Model, predictions: Predictions) -> Array | None:
    """Return the trials of rows that have them; ValueError for new rows without."""
    if model.trials is None or predictions.rows.trials is not None:
        return predictions.rows.trials
    if predictions.position is None:
        raise ValueError(
            "This model was fitted with exposure, the trials of each share, and the widths for new "
            "rows need their own: pass predict(X_new, exposure=..., interval=...)."
        )
    return model.trials[predictions.position]


def two_variances(
    residual: Array, variance: Array, noise: float, n_blocks: int
) -> tuple[float, float]:
    """Return a and b/a, where labels have variances a + b v: of the noise and of a process.

    By the likelihood of normal residuals. The process itself says that b is its ``noise``, which is
    the unit of v. Blocks of labels that were held out correct it, a few of them little: most
    residuals are near labels, and tell about a.
    """
    squares = np.maximum(residual**2, LEAST)

    def loss(logarithms: Array) -> float:
        total = np.exp(logarithms[0]) + np.exp(logarithms[1]) * variance
        return float(np.mean(np.log(total) + squares / total))

    level = float(np.log(squares.mean() / (1.0 + variance.mean())))
    bounds = [(level - 9.0, level + 9.0)]
    both = minimize(loss, [level, level], method="Nelder-Mead", bounds=bounds * 2).x
    share = n_blocks / (n_blocks + PRIOR_BLOCKS)
    own = np.log(max(noise, LEAST)) * (1.0 - share) + both[1] * share
    start = [min(both[0], bounds[0][1])]
    first = minimize(lambda x: loss(np.append(x, own)), start, method="Nelder-Mead", bounds=bounds)
    return float(np.exp(first.x[0])), float(np.exp(own - first.x[0]))


def widened(spread: Spread, n_blocks: int) -> Spread:
    """Return a spread that allows for few blocks of labels that were held out.

    Variances far away are uncertain, and intervals there those of a t distribution.
    """
    assert spread.process is not None
    df = n_blocks + DEGREES_WITHOUT_BLOCKS
    wider = float(stats.t.ppf(0.95, df) / stats.norm.ppf(0.95)) ** 2
    process = replace(spread.process, noise=spread.process.noise / wider)
    return replace(spread, process=process, variance=wider * spread.variance)


def fold_of(folds: Folds) -> IntArray:
    """Return the number of the fold of each unseen label, in their order."""
    return np.repeat(np.arange(folds.n_models), [held.size for held in folds.held_out])


def hide_coordinates(model: Model, table: Table) -> Table:
    """Return a table whose coordinates are 0: by them, a scale would be wrong in other places."""
    if model.coordinates is None or table.is_sparse:
        return table
    values = table.values.copy()
    values[:, list(model.coordinates.columns)] = 0.0
    return replace(table, values=values)


def scale_columns(table: Table, raw: Array, variance: Array) -> Table:
    """Return the columns of the trees of the scale."""
    own = np.column_stack([raw[:, 0], np.log(np.maximum(variance, 1e-30))])
    values = np.hstack([np.asarray(table.values, dtype=np.float64), own])
    names = (*table.names, "prediction", "field variance")
    origin = tuple(range(len(names)))
    return Table(values, names, table.categorical, origin, categories=table.categories)


def grow_scale(columns: Table, size: Array, fold: IntArray | None = None) -> tuple[Ensemble, Array]:
    """Return trees of the log size of residuals, and the scale at the labels, each out of fold."""
    import lightgbm

    from ebboost.learners.lightgbm import LightGBMEnsemble

    params = {**SCALE_TREES, "objective": "gamma", "verbosity": -1, "num_threads": 1, "seed": 0}
    params |= {"min_data_in_leaf": max(SCALE_MIN_ROWS, size.size // 100)}
    params |= {"deterministic": True, "force_col_wise": True, "boost_from_average": False}
    target = np.maximum(size / float(size.mean()), 1e-6)
    if fold is None:
        fold = np.random.default_rng(0).permutation(size.size) % SCALE_FOLDS
    held = np.zeros(size.size)
    ensembles = []
    data = lightgbm.Dataset(
        columns.values, target, categorical_feature=list(columns.categorical), params=params
    ).construct()
    for number in range(int(fold.max()) + 1):
        parts = [data.subset(np.flatnonzero(own)) for own in (fold != number, fold == number)]
        stop = lightgbm.early_stopping(SCALE_PATIENCE, verbose=False)
        booster = lightgbm.train(params, parts[0], SCALE_ROUNDS, [parts[1]], callbacks=[stop])
        ensemble = LightGBMEnsemble(booster.model_to_string())
        ensembles.append(ensemble)
        own = fold == number
        held[own] = ensemble.predict(columns.subset(own))[:, 0]
    return LightGBMEnsemble.mean(ensembles), np.exp(held).clip(*SCALES)


def scales(trees: Ensemble, columns: Table) -> Array:
    """Return s of rows."""
    return np.exp(trees.predict(columns)[:, 0]).clip(*SCALES)


def degrees_of_freedom(standardised: Array) -> float:
    """Return those of a t distribution of the same kurtosis as far as quantiles show it.

    The ratio of the 97.5 and 75 % quantiles of sizes, which outliers do not move.
    """
    sizes = np.quantile(np.abs(standardised), (0.5, 0.95))
    if not sizes[0] > 0.0:
        return DEGREES[0]
    wanted = sizes[1] / sizes[0]
    grid = np.geomspace(*DEGREES, 60)
    ratios = stats.t.ppf(0.975, grid) / stats.t.ppf(0.75, grid)
    return float(grid[np.abs(ratios - wanted).argmin()])


def distribution_with(
    loss: Loss, raw: Array, deviation: Array, df: float, trials: Array | None = None
) -> Any:
    """Return predictive distributions of labels, a frozen distribution of scipy."""
    raw = raw.clip(*LOG_MEANS) if loss.log_link else raw
    if loss.distribution is not None:
        return loss.distribution(raw, deviation, trials)
    if loss.log_link:
        mean, variance = np.exp(raw[:, 0]), deviation**2
        return stats.gamma(mean**2 / variance, scale=variance / mean)
    center = loss.inverse_link(raw)[:, 0]
    return stats.t(df, loc=center, scale=deviation / np.sqrt(df / (df - 2.0)))


def normal_scores(distribution: Any, y: Array) -> Array:
    """Return labels as normal scores of their distributions: of counts, in the middle of a step.

    Intervals between scores then contain a label if its score is between them.
    """
    before = np.nextafter(y, -np.inf)
    below = 0.5 * (distribution.cdf(y) + distribution.cdf(before))
    above = 0.5 * (distribution.sf(y) + distribution.sf(before))
    with np.errstate(divide="ignore"):
        scores = np.where(below < 0.5, ndtri(below), -ndtri(above))
    return scores.clip(-MAX_SCORE, MAX_SCORE)


def spread_of(model: Model, name: str = "interval") -> Spread:
    """Return the spread, or raise ValueError with a remedy."""
    if model.spread is None:
        raise ValueError(f"{name} {NO_RESIDUALS}")
    return model.spread


def deviations(model: Model, predictions: Predictions) -> Array:
    """Return the standard deviation of the labels of rows."""
    spread, rows = spread_of(model), predictions.rows
    variance = variance_of(model, spread, predictions)
    if predictions.position is not None:
        scale = spread.scale[predictions.position]
    elif spread.trees is None or rows.table is None:
        scale = np.ones(len(predictions.raw))
    else:
        own = hide_coordinates(model, rows.table)
        seen = 0.0 if spread.process is not None else 1.0
        scale = scales(spread.trees, scale_columns(own, predictions.raw, seen * variance))
    trials = None if model.trials is None else trials_of(model, predictions)
    parts = (predictions.raw, spread.dispersion, variance, trials)
    return scale * np.sqrt(model_variance(model, *parts))


def variance_of(model: Model, spread: Spread, predictions: Predictions) -> Array:
    """Return the variance of the field at rows, in units of φ."""
    rows, places = predictions.rows, model.places
    if places is None or not spread.variance.size:
        return np.zeros(len(predictions.raw))
    if predictions.position is not None:
        return at(spread.variance, places.node_of_row[predictions.position])
    if spread.process is not None and rows.points is not None:
        return process_variance(model, spread.process, model.labels, rows.points)
    if spread.field is None:  # rows of another graph
        return np.full(len(predictions.raw), spread.variance.max())
    if rows.nodes is not None:
        fields = getattr(spread.field, "fields", (spread.field,))
        alone = np.array([1.0 / (one.tau + one.lam) for one in fields])  # nodes without edges
        nodes = rows.nodes.reshape(len(rows.nodes), -1)
        return np.where(nodes >= 0, spread.variance[nodes], alone).sum(axis=1)
    if rows.edges is not None:
        degrees = places.graph.degrees
        near = np.sqrt(spread.variance)[:, None]  # neighbours vary together
        mean, own = conditional_mean(spread.field, rows.edges, rows.between, near, degrees)
        return mean[:, 0] ** 2 + own
    assert rows.places is not None
    graph = rows.places.graph
    known = rows_of_nodes(places.graph, graph)[places.node_of_row[model.labels.rows]]
    labels = model.labels.subset(known >= 0)
    posterior = Posterior(spread.field.prior(graph), known[known >= 0])
    heights = model.output.loss.curvature(model.raw[labels.rows], labels.target)
    heights = np.broadcast_to(heights, labels.target.shape)[:, :1]
    weight = labels.weight / model.labels.weight.mean()
    return posterior_variances(posterior, weight[:, None] * heights, None)


def distribution_of(model: Model, predictions: Predictions) -> Any:
    """Return the predictive distributions of rows."""
    spread = spread_of(model, "predict_distribution")
    deviation = deviations(model, predictions)
    trials = None if model.trials is None else trials_of(model, predictions)
    return distribution_with(model.output.loss, predictions.raw, deviation, spread.df, trials)


def conformal_quantile(scores: Array, level: float) -> float:
    """Return the ⌈(m+1)·level⌉-th smallest of m scores, or infinity."""
    rank = int(np.ceil((scores.size + 1) * level - 1e-9))
    return float(np.sort(scores)[rank - 1]) if rank <= scores.size else np.inf


def with_intervals(model: Model, predictions: Predictions, level: float) -> Intervals:
    """Return predictions with intervals that contain this share of labels."""
    check_number("interval", level, low=0.0, high=1.0, closed="neither")
    spread = spread_of(model)
    distribution = distribution_of(model, predictions)
    tail = 0.5 * (1.0 + level)
    ends = np.empty((2, len(predictions.raw)))
    ends[0] = -conformal_quantile(-spread.scores, tail)
    ends[1] = conformal_quantile(spread.scores, tail)
    if spread.later.size and predictions.position is not None:
        is_later = np.isin(predictions.position, spread.later)
        ends[0, is_later] = -conformal_quantile(-spread.later_scores, tail)
        ends[1, is_later] = conformal_quantile(spread.later_scores, tail)
    lower, upper = (distribution.ppf(level) for level in ndtr(np.sort(ends, axis=0)))
    return Intervals(model.output.decode(predictions.raw), lower, upper)


def half_widths(model: Model, level: float) -> tuple[Array, str]:
    """Return half widths of intervals, and of what: of rows to predict, else of unseen labels.

    Rows whose own label is used have narrower ones.
    """
    spread, unseen = spread_of(model), model.unseen
    rows = np.setdiff1d(np.arange(model.n_rows), model.labels.rows)
    if rows.size:
        chosen = Predictions(model.raw[rows], Rows(), rows)
        intervals = with_intervals(model, chosen, level)
        return (intervals.upper - intervals.lower) / 2.0, f"the {rows.size:,} rows to predict"
    tail = 0.5 * (1.0 + level)
    trials = None if model.trials is None else model.trials[unseen.rows]
    loss, parts = model.output.loss, (unseen.raw, spread.deviation, spread.df)
    distribution = distribution_with(loss, *parts, trials)
    lower = distribution.ppf(ndtr(-conformal_quantile(-spread.scores, tail)))
    upper = distribution.ppf(ndtr(conformal_quantile(spread.scores, tail)))
    return (upper - lower) / 2.0, f"the {unseen.rows.size:,} labels that were held out"


def with_sets(model: Model, predictions: Predictions, level: float) -> PredictionSets:
    """Return predicted classes with sets that contain the true class with this probability."""
    check_number("interval", level, low=0.0, high=1.0, closed="neither")
    unseen, output = model.unseen, model.output
    if not unseen.rows.size:
        raise ValueError(f"interval {NO_RESIDUALS}")
    true_class = one_hot(unseen.target).argmax(axis=1)
    stated = output.apply_link(unseen.raw)
    miss = 1.0 - stated[np.arange(true_class.size), true_class]
    own = output.apply_link(predictions.raw)
    contains = 1.0 - own <= conformal_quantile(miss, level)
    contains[np.arange(len(own)), own.argmax(axis=1)] = True
    result = PredictionSets(output.decode(predictions.raw), contains)
    result.classes = tuple(np.asarray(output.classes).tolist())
    return result
