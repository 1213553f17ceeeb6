"""Extreme graphs, tables and labels: finite predictions, or a clear error."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.linear_model import Ridge
from sklearn.metrics import r2_score
from sklearn.tree import DecisionTreeRegressor

import ebboost as eb
from tests.strategies import random_graph

RNG = np.random.default_rng(0)
N = 60
X = RNG.normal(size=(N, 3))
Y = X[:, 0] + 0.1 * RNG.normal(size=N)
QUICK = {"n_estimators": 3, "random_state": 0, "n_jobs": 1}
PATH = eb.Graph.from_edges(np.arange(N - 1), np.arange(1, N))
HUB = eb.Graph.from_edges(np.zeros(N - 1, dtype=int), np.arange(1, N))
COMPLETE = eb.Graph.from_edges(*np.triu_indices(N, 1))
EMPTY = eb.Graph.from_edges([], [], n_nodes=N)
SMOOTHERS = [
    "auto",
    eb.Laplacian(),
    eb.Laplacian(method="exact"),
    eb.Laplacian(method="chebyshev"),
    eb.Kernel(),
    eb.Robust(),
]


def finite(X, y, graph, kind=eb.EBBSRegressor, **changes):
    model = kind(**(QUICK | changes)).fit(X, y, graph=graph)
    for predicted in (model.predict(), model.predict(X, graph=graph)):
        assert predicted.shape == (len(y),)
        assert kind is eb.EBBSClassifier or np.isfinite(predicted).all()
    return model


# ---------------------------------------------------------------------- graphs


@pytest.mark.parametrize("smoothing", SMOOTHERS, ids=repr)
@pytest.mark.parametrize("graph", [EMPTY, HUB, COMPLETE], ids=["no edges", "hub", "complete"])
def test_graphs_at_the_ends_of_density(graph, smoothing):
    finite(X, Y, graph, smoothing=smoothing)


def test_a_kernel_value_of_zero_times_infinity_is_zero():
    operator = eb.Kernel("random-walk", lam=0.0, a=1e-3).operator(
        eb.Graph.from_edges([], [], n_nodes=3)
    )
    np.testing.assert_allclose(operator.apply(np.arange(3.0)), np.arange(3.0))


def test_one_node():
    finite(
        [[1.0]], [3.0], eb.Graph.from_edges([], [], n_nodes=1), learner=eb.LightGBM(subsample=0.5)
    )


def test_a_million_isolated_nodes():
    n = 1_000_000
    y = np.full(n, np.nan)
    y[:1000] = np.arange(1000.0)
    graph = eb.Graph.from_edges([], [], n_nodes=n)
    model = eb.EBBSRegressor(2, early_stopping=False, n_jobs=1).fit(
        np.arange(n, dtype=np.float32)[:, None], y, graph=graph
    )
    assert np.isfinite(model.predict()).all()


@pytest.mark.parametrize("smoothing", SMOOTHERS, ids=repr)
@pytest.mark.parametrize("labels", ["none", "field", "leave-one-out"])
@pytest.mark.parametrize("weight", ["tiny", "huge", "both"])
def test_weights_near_the_ends_of_floats(weight, labels, smoothing):
    both = 10.0 ** RNG.uniform(-300, 300, N - 1)
    weights = {"tiny": np.full(N - 1, 1e-300), "huge": np.full(N - 1, 1e300), "both": both}[weight]
    graph = eb.Graph.from_edges(np.arange(N - 1), np.arange(1, N), weights)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        finite(X.astype(np.float32), Y, graph, smoothing=smoothing, labels=labels)


def test_a_system_beyond_double_precision_is_refused_with_the_remedy():
    graph = eb.Graph.from_edges(np.arange(N - 1), np.arange(1, N), np.full(N - 1, 1e300))
    with pytest.raises(ValueError, match=r"too far apart for double precision.*normalized=True"):
        finite(X, Y, graph, smoothing=eb.Laplacian(normalized=False, method="exact"))
    with pytest.raises(ValueError, match=r"too far apart for double precision.*normalized=True"):
        finite(X, Y, graph, smoothing=None, labels=eb.LatentField(normalized=False))


def test_ids_of_64_bits():
    ids = 2**62 + np.arange(N)
    edges = pd.DataFrame({"a": ids[:-1], "b": ids[1:]})
    graph = eb.Graph.from_dataframe(edges, nodes=ids)
    np.testing.assert_array_equal(finite(X, Y, graph).predict(), finite(X, Y, PATH).predict())


# ---------------------------------------------------------------------- tables


@pytest.mark.parametrize(
    "layout",
    [
        lambda X: np.repeat(X, 2, axis=0)[::2],
        np.asfortranarray,
        lambda X: X.astype(">f8"),
        lambda X: np.frombuffer(X.tobytes()).reshape(X.shape),
        lambda X: X.astype(object),
        lambda X: X.tolist(),
        lambda X: pd.DataFrame(X).astype("Float64"),
        lambda X: pd.DataFrame(X, dtype="float64[pyarrow]"),
    ],
    ids=["strided", "fortran", "big-endian", "read-only", "objects", "lists", "Float64", "pyarrow"],
)
def test_memory_layout_and_dtype_of_X_do_not_matter(layout):
    expected = finite(X, Y, PATH).predict()
    table = layout(X)
    np.testing.assert_array_equal(finite(table, Y, PATH).predict(), expected)


@pytest.mark.parametrize("learner", ["lightgbm", "xgboost", "catboost", Ridge()], ids=str)
def test_constant_columns_are_ignored(learner):
    nothing = np.column_stack([np.full(N, 3.0), np.full(N, np.nan), X[:, 0], X[:, 0]])
    for table in (nothing, nothing[:, :2]):
        assert np.isfinite(finite(table, Y, PATH, learner=learner).feature_importances_).all()


class AbsoluteError(eb.Loss):
    """Its gradient at the optimum is not zero."""

    def value(self, scores, target):
        return np.abs(scores - target)[:, 0]

    def gradient(self, scores, target):
        return np.where(scores < target, -1.0, 1.0)


def test_trees_of_zero_weight_have_no_importance():
    learner = eb.CatBoost(1, from_average=False)
    model = eb.EBBSRegressor(3, learner=learner, loss=AbsoluteError(), early_stopping=False)
    assert model.fit(X, np.full(N, 7.0)).history_["step"] == [0.0] * 3
    np.testing.assert_array_equal(model.feature_importances_, 0.0)


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        (10**400, r"beyond the range of float64: row 7, column 1"),
        ("text", r"row 7, column 1 is 'text'"),
        ((1, 2), r"row 7, column 1 is \(1, 2\), not a number"),
        (1 + 2j, r"row 7, column 1 is \(1\+2j\), not a number"),
        (1e38, r"X holds 1e\+38.*single precision.*row 7, column 1.*NaN if it is unknown"),
        (-np.inf, r"infinity.*row 7, column 1"),
    ],
    ids=repr,
)
def test_an_entry_that_no_tree_can_use_is_named(entry, words):
    mixed = X.astype(object)
    mixed[7, 1] = entry
    with pytest.raises((ValueError, TypeError), match=words):
        finite(mixed, Y, PATH)


@pytest.mark.parametrize(
    ("column", "words"),
    [
        (
            [1, "two", None, 3.5] * (N // 4),
            "mixes numbers and text|holds numbers but row 1 is 'two'",
        ),
        (X[:, 0] + 1j, "complex128"),
    ],
    ids=["mixed", "complex"],
)
def test_a_column_that_no_tree_can_use_is_named(column, words):
    frame = pd.DataFrame({"x": X[:, 0]})
    frame["when"] = column
    with pytest.raises((ValueError, TypeError), match=f"'when'.*({words})"):
        finite(frame, Y, PATH)


def test_a_sparse_table_with_missing_values_reaches_scikit_learn():
    holes = sparse.csr_array(np.where(np.abs(X) < 0.5, 0.0, X))
    holes.data[::5] = np.nan
    for learner in (Ridge(), DecisionTreeRegressor(max_depth=2)):
        finite(holes, Y, PATH, learner=learner)


@pytest.mark.parametrize("method", ["jacobi", "exact"])
def test_a_sparse_table_is_not_filled_by_smoothing(method):
    wide = np.tile(X, 50)  # narrow ones are filled anyway
    thin = sparse.csr_array(np.where(np.abs(wide) < 1.0, 0.0, wide))
    finite(
        thin,
        Y,
        PATH,
        smoothing=None,
        labels="none",
        feature_smoothing=eb.Laplacian(method="chebyshev"),
    )
    with pytest.raises(ValueError, match="feature_smoothing would fill a sparse X"):
        finite(
            thin,
            Y,
            PATH,
            smoothing=None,
            labels="none",
            feature_smoothing=eb.Laplacian(method=method),
        )


# ---------------------------------------------------------------------- labels and weights


def test_a_label_on_one_node():
    y = np.full(N, np.nan)
    y[5] = 3.0
    np.testing.assert_allclose(finite(X, y, PATH).predict(), 3.0)


@pytest.mark.parametrize("loss", ["squared_error", "huber", "quantile", "poisson"])
@pytest.mark.parametrize("unit", [1e-25, 1e25])
def test_labels_in_any_unit_that_trees_can_tell_apart(loss, unit):
    model = finite(X, unit * np.exp(Y), PATH, loss=loss, n_estimators=20)
    assert model.score(None, unit * np.exp(Y)) > 0.1


LOG_LINK = ("poisson", "gamma", "tweedie")


@pytest.mark.parametrize("neighbours", ["graph", "groups"])
@pytest.mark.parametrize("loss", ["huber", "quantile", *LOG_LINK])
def test_accuracy_with_a_latent_field_does_not_depend_on_the_unit_of_the_labels(loss, neighbours):
    y = np.exp(Y) if loss in LOG_LINK else Y
    known = np.arange(N) % 4 > 0
    connected = {"graph": PATH, "groups": np.arange(N) // 6}
    settings = QUICK | {"labels": "field", "loss": loss, "smoothing": None, "n_folds": 1}
    scores = []
    for unit in (1.0, 1e-12, 1e12):
        model = eb.EBBSRegressor(**settings)
        model.fit(X, np.where(known, unit * y, np.nan), **{neighbours: connected[neighbours]})
        assert model.labels_ is not None
        scores.append(r2_score(y, model.predict() / unit))
    np.testing.assert_allclose(scores, scores[0], atol=1e-3)


@pytest.mark.parametrize("learner", ["lightgbm", "xgboost", "catboost"])
def test_trees_do_not_depend_on_the_unit_of_the_labels(learner):
    """Not in the last digit, or XGBoost decides between splits of equal gain in another way."""
    field = eb.LatentField(0.001, 1e-6)  # residuals are small, and many splits equally good
    settings = QUICK | {"labels": field, "learner": learner, "smoothing": None, "n_folds": 1}
    predictions = [
        eb.EBBSRegressor(**settings).fit(X, unit * Y, graph=PATH).predict() / unit
        for unit in (1.0, 1.1, 1e-12, 1e12)
    ]
    np.testing.assert_allclose(predictions[1:], [predictions[0]] * 3, rtol=0.0, atol=1e-9)


def test_spread_of_quantiles_does_not_depend_on_the_unit_of_the_labels():
    settings = QUICK | {"labels": "field", "loss": "quantile", "smoothing": None, "n_folds": 2}
    dispersions = []
    for unit in (1.0, 1e-12, 1e12):
        model = eb.EBBSRegressor(**settings).fit(X, unit * Y, graph=PATH)
        dispersions.append(model.state_.spread.dispersion / unit)
    np.testing.assert_allclose(dispersions, dispersions[0], rtol=0.02)


@pytest.mark.parametrize("labels", ["field", "none"])
def test_negative_binomial_of_small_counts_is_poisson_and_of_large_ones_depends_on_no_unit(labels):
    settings = QUICK | {"labels": labels, "smoothing": None, "n_folds": 1}
    scores = {}
    for loss, unit in [("poisson", 1.0), *(("negative_binomial", 10.0**k) for k in (-12, 8, 12))]:
        model = eb.EBBSRegressor(**settings, loss=loss).fit(X, unit * np.exp(Y), graph=PATH)
        scores[loss, unit] = r2_score(np.exp(Y), model.predict() / unit)
    poisson, small, large, larger = scores.values()
    assert small == pytest.approx(poisson, abs=1e-3)
    assert larger == pytest.approx(large, abs=1e-3)


@pytest.mark.parametrize(
    ("y", "words"),
    [
        (np.where(np.arange(N) == 4, 1e31, Y), r"y, position 4 is 1e\+31"),
        (1e-40 * Y, "The range of y"),
        (np.where(np.arange(N) == 4, np.inf, Y), "infinity"),
    ],
    ids=["huge", "tiny", "infinite"],
)
def test_labels_beyond_single_precision_are_refused_with_the_place(y, words):
    with pytest.raises(ValueError, match=words):
        finite(X, y, PATH)


def test_constant_labels_of_any_magnitude_fit():
    np.testing.assert_allclose(finite(X, np.full(N, 1e-40), PATH).predict(), 1e-40)


@pytest.mark.parametrize("unit", [1e-300, 1e300])
def test_weights_of_labels_in_any_unit(unit):
    weight = RNG.random(N) + 0.5
    plain, other = (
        eb.EBBSRegressor(**QUICK).fit(X, Y, w, graph=PATH).predict()
        for w in (weight, unit * weight)
    )
    np.testing.assert_allclose(other, plain, rtol=1e-6)


def test_too_many_classes_are_refused_before_memory_is_taken():
    y = np.arange(20_000) % 10_000
    with pytest.raises(ValueError, match=r"y holds 10000 classes, more than 1000.*EBBSRegressor"):
        eb.EBBSClassifier(1).fit(np.zeros((20_000, 1)), y)


def test_nearly_as_many_classes_as_labels_raise_no_warning():
    finite(X, np.arange(N) // 2, PATH, eb.EBBSClassifier, n_estimators=1)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("heavy", "'class_weight' parameter"),
        ({"a": 0.0}, r"class_weight\['a'\] must be a number in"),
        ({"c": 1.0}, "class_weight names 'c'"),
    ],
    ids=repr,
)
def test_weights_of_classes_are_checked(given, words):
    with pytest.raises(ValueError, match=words):
        finite(X, np.where(Y > 0, "a", "b"), PATH, eb.EBBSClassifier, class_weight=given)


def test_class_weight_may_name_classes_without_labels():
    weights = {"a": 1.0, "b": 2.0, "c": 3.0}
    finite(X, np.where(Y > 0, "a", "b"), PATH, eb.EBBSClassifier, class_weight=weights)


def test_neighbour_means_do_not_depend_on_the_scale_of_edge_weights():
    plain = random_graph(40, 90)
    rows, columns = plain.adjacency.tocoo().coords
    heavy = eb.Graph.from_edges(rows, columns, np.full(rows.size, 1e300), n_nodes=40)
    means = [
        eb.NeighborFeatures(["mean"], degree=False).fit_transform(X[:40], graph=g)
        for g in (plain, heavy)
    ]
    np.testing.assert_allclose(means[1], means[0])
