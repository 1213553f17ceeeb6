"""Columns computed from the graph: statistics and shares of neighbours, smoothed and spectral."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.impute import SimpleImputer
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline

import ebboost as eb
from ebboost.data.features import FeatureMap
from ebboost.data.neighbors import Places, frequent_levels, on_nodes
from ebboost.data.spectral import (
    leading_vectors,
    spectral_columns,
    spectral_vectors,
    unit_of_weights,
)
from ebboost.data.table import Table
from tests.strategies import graphs, random_graph, table_of

CATEGORIES = {1: [f"level {i}" for i in range(14)]}


@given(graph=graphs(), seed=st.integers(0, 100), missing=st.booleans())
@settings(max_examples=40, deadline=None)
def test_statistics_equal_a_literal_loop(graph, seed, missing):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(graph.n_nodes, 2))
    if missing:
        X[rng.random(X.shape) < 0.3] = np.nan
    result = eb.NeighborFeatures().fit_transform(X, graph=graph)
    adjacency = graph.adjacency.toarray()
    for i in range(graph.n_nodes):
        for j in range(2):
            around = [k for k in np.flatnonzero(adjacency[i]) if not np.isnan(X[k, j])]
            mean = np.average(X[around, j], weights=adjacency[i, around]) if around else np.nan
            low, high = (X[around, j].min(), X[around, j].max()) if around else (np.nan, np.nan)
            own = [result[i, 2 + j], result[i, 4 + j], result[i, 6 + j]]
            np.testing.assert_allclose(own, [mean, low, high], atol=1e-12)
    degrees = adjacency.sum(axis=1)
    np.testing.assert_allclose(result[:, 8], degrees)
    means = np.divide(adjacency @ degrees, degrees, out=np.zeros_like(degrees), where=degrees > 0)
    np.testing.assert_allclose(result[:, 9], means)


@pytest.mark.parametrize("n_levels", [2, 5, 14])
def test_text_has_the_share_of_each_frequent_level_among_neighbours(n_levels):
    rng = np.random.default_rng(n_levels)
    codes = np.minimum(rng.geometric(0.25, 80) - 1.0, n_levels - 1)
    codes[:n_levels] = np.arange(n_levels)
    codes[rng.random(80) < 0.2] = np.nan
    graph = random_graph(80, 90)
    names = [None if np.isnan(code) else f"k{int(code):02}" for code in codes]
    frame = pd.DataFrame({"kind": names})
    features = eb.NeighborFeatures().fit(frame, graph=graph)
    columns = dict(zip(features.get_feature_names_out(), features.transform(frame).T, strict=True))
    shares = {name[11:-1]: own for name, own in columns.items() if name.startswith("share(kind=")}
    assert len(shares) == {2: 1, 5: 5, 14: 10}[n_levels]
    assert ("others" in shares) == (n_levels == 14)
    adjacency = graph.adjacency.toarray()
    for level, own in shares.items():
        for node, weights in enumerate(adjacency):
            near = [k for k in np.flatnonzero(weights) if names[k] is not None]
            is_level = [
                names[k] == level if level != "others" else names[k] not in shares for k in near
            ]
            expected = np.average(is_level, weights=weights[near]) if near else np.nan
            assert own[node] == pytest.approx(expected, nan_ok=True)


def test_names_say_statistic_and_column_and_origins_the_column_they_come_from():
    frame = pd.DataFrame({"a": [1.0, 2.0], "kind": ["x", "y"]})
    graph = eb.Graph.from_edges([0], [1])
    features = eb.NeighborFeatures(["mean"]).fit(frame, graph=graph)
    names = ["a", "kind", "mean(a)", "share(kind=x)", "degree", "mean(degree)"]
    assert features.get_feature_names_out().tolist() == names
    np.testing.assert_array_equal(features.transform(frame)[:, 2:4], [[2.0, 0.0], [1.0, 1.0]])
    table = Table(np.ones((2, 2)), ("a", "b"), (), (0, 1))
    learned = FeatureMap(eb.NeighborFeatures(["mean"])).learn(table, Places.of_rows(graph), 0)
    assert learned.transform(table, Places.of_rows(graph)).origin == (0, 1, 0, 1, -1, -1)


def test_weights_near_the_ends_of_floats_give_finite_means():
    graph = eb.Graph.from_edges([0, 0, 1], [1, 2, 2], [1e300, 1e-300, 1.0])
    X = np.array([[1.0], [2.0], [4.0]])
    result = eb.NeighborFeatures(["mean"]).fit_transform(X, graph=graph)
    assert result[0, 1] == pytest.approx(2.0) and np.isfinite(result).all()


def test_sparse_tables_stay_sparse_and_have_the_means_of_dense_ones():
    X = sparse.random_array((50, 200), density=0.1, format="csr", rng=np.random.default_rng(0))
    graph = random_graph(50, 100)
    features = eb.NeighborFeatures().fit(X, graph=graph)
    result = features.transform(X)
    assert sparse.issparse(result) and result.shape == (50, 402)
    assert len(features.get_feature_names_out()) == 402
    dense = eb.NeighborFeatures(["mean"]).fit_transform(X.toarray(), graph=graph)
    np.testing.assert_allclose(result.toarray()[:, 200:400], np.nan_to_num(dense[:, 200:400]))


def test_neighbour_columns_work_in_a_pipeline_of_scikit_learn():
    rng = np.random.default_rng(0)
    graph = random_graph(200, 800)
    X = rng.normal(size=(200, 2))
    y = np.nan_to_num(graph.adjacency @ X[:, 0] / np.maximum(graph.degrees, 1))
    pipe = make_pipeline(eb.NeighborFeatures(["mean"]), SimpleImputer(), Ridge(1e-6))
    pipe.fit(X, y, neighborfeatures__graph=graph)
    assert pipe.score(X, y) > 0.99 > 0.5 > Ridge(1e-6).fit(X, y).score(X, y)


def test_another_graph_may_be_transformed():
    X = np.random.default_rng(0).normal(size=(30, 2))
    one, other = random_graph(30, 60), random_graph(20, 50, seed=1)
    features = clone(eb.NeighborFeatures(["max"])).fit(X, graph=one)
    expected = eb.NeighborFeatures(["max"]).fit_transform(X[:20], graph=other)
    np.testing.assert_array_equal(features.transform(X[:20], graph=other), expected)


@pytest.mark.parametrize(
    ("use", "words"),
    [
        (lambda g: eb.NeighborFeatures().fit([[1.0]]), "neighborfeatures__graph=g"),
        (lambda g: eb.SpectralFeatures().fit([[1.0]]), "spectralfeatures__graph=g"),
        (lambda g: eb.NeighborFeatures(["median"]).fit([[1.0], [2.0]], graph=g), "statistics must"),
        (lambda g: eb.NeighborFeatures(degree=3).fit([[1.0], [2.0]], graph=g), "degree must be"),
        (lambda g: eb.NeighborFeatures().fit([[1.0]], graph=g), "one row per node"),
        (
            lambda g: eb.NeighborFeatures().fit([[1.0], [2.0]], graph=g).transform([[1.0]]),
            "one row per node",
        ),
        (lambda g: eb.SpectralFeatures(0).fit([[1.0], [2.0]], graph=g), "n_components must be"),
        (lambda g: eb.SpectralFeatures(2.5).fit([[1.0], [2.0]], graph=g), "n_components must be"),
    ],
)
def test_invalid_use_raises_errors_with_the_argument(use, words):
    with pytest.raises(ValueError, match=words):
        use(eb.Graph.from_edges([0], [1]))


# ---------------------------------------------------------------------- rows that share nodes


def test_numbers_of_a_node_are_means_of_its_rows():
    table = Table(
        np.array([[1.0, 0.0], [3.0, 1.0], [np.nan, 0.0], [7.0, np.nan]]),
        ("x", "kind"),
        (1,),
        (0, 1),
        categories={1: ["a", "b"]},
    )
    places = Places(random_graph(5, 6), np.array([2, 2, 0, -1]))
    values, names, origin = on_nodes(table, places, frequent_levels(table))
    assert names == ["x", "kind=a"] and origin == [0, 1]
    expected = np.full((5, 2), np.nan)
    expected[2] = [2.0, 0.5]
    expected[0, 1] = 1.0
    np.testing.assert_array_equal(values, expected)


def test_rows_have_the_columns_of_their_node_and_rows_without_one_none():
    graph = eb.Graph.from_edges([0, 1], [1, 2])
    table = table_of(np.array([[1.0], [3.0], [5.0], [9.0]]))
    places = Places(graph, np.array([0, 0, 1, -1]))
    learned = FeatureMap(eb.NeighborFeatures(["mean"])).learn(table, places, 0)
    columns = learned.transform(table, places)
    assert columns.names == ("x0", "group_mean(x0)", "mean(x0)", "degree", "mean(degree)")
    nan = np.nan
    expected = [
        [1.0, 2.0, 5.0, 1.0, 2.0],
        [3.0, 2.0, 5.0, 1.0, 2.0],
        [5.0, 5.0, 2.0, 2.0, 1.0],
        [9.0, nan, nan, nan, nan],
    ]
    np.testing.assert_array_equal(columns.values, expected)
    new = learned.at_nodes(table_of(np.array([[4.0]])), table, places, np.array([2]))
    np.testing.assert_array_equal(new.values, [[4.0, nan, 5.0, 1.0, 2.0]])


@pytest.mark.parametrize("smoothing", [None, eb.Laplacian(1.0, 2)])
def test_new_rows_with_the_edges_of_a_fitted_one_have_its_columns(smoothing):
    graph = random_graph(20, 60)
    rng = np.random.default_rng(0)
    values = np.column_stack([rng.normal(size=20), rng.integers(0, 3, 20)])
    table = table_of(values, categorical=(1,), categories={1: list("abc")})
    places = Places.of_rows(graph)
    spectral = eb.SpectralFeatures(4)
    learned = FeatureMap(eb.NeighborFeatures(), smoothing, spectral).learn(table, places, 0)
    every = learned.transform(table, places)
    twins = learned.join(table, table, graph.adjacency, (graph.degrees, graph.degrees))
    assert twins.names == every.names
    own = [k for k, name in enumerate(every.names) if not name.startswith("smoothed")]
    np.testing.assert_allclose(twins.values[:, own], every.values[:, own], atol=1e-9)


# ---------------------------------------------------------------------- smoothed columns


def smoothed(values, graph, categorical=()):
    table = table_of(values, categorical=categorical, categories=CATEGORIES if categorical else {})
    learned = FeatureMap(smoothing=eb.Laplacian(20.0, 5))
    return learned.transform(table, Places.of_rows(graph))


@pytest.mark.parametrize("missing", [False, True])
def test_numeric_columns_next_to_a_category_are_smoothed_as_if_alone(missing):
    rng = np.random.default_rng(0)
    graph = random_graph(40, 80)
    values = rng.normal(size=(40, 4))
    values[:, 1] = rng.integers(0, 3, 40)
    if missing:
        values[rng.random(40) < 0.3, 2] = np.nan
    every = smoothed(values, graph, (1,))
    assert every.names[4:] == ("smoothed(x0)", "smoothed(x2)", "smoothed(x3)")
    for position, column in enumerate((0, 2, 3)):
        alone = smoothed(values[:, [column]].copy(), graph)
        np.testing.assert_allclose(every.values[:, 4 + position], alone.values[:, 1])


def test_missing_values_are_replaced_by_known_ones_nearby():
    graph = random_graph(30, 60)
    P = eb.Laplacian(20.0, 5).operator(graph)
    x = np.random.default_rng(0).normal(size=30)
    known = np.arange(30) % 3 > 0
    result = smoothed(np.where(known, x, np.nan)[:, None], graph).values[:, 1]
    mass = P.apply(known.astype(float))
    expected = np.full(30, np.nan)
    near = mass > 1e-12
    expected[near] = (P.apply(np.where(known, x, 0.0)) / mass * P.apply(np.ones(30)))[near]
    np.testing.assert_allclose(result, expected)


# ---------------------------------------------------------------------- spectral columns


def normalised(graph, by_degrees):
    adjacency = graph.adjacency.toarray()
    if not by_degrees:
        return adjacency / unit_of_weights(graph)
    scale = 1.0 / np.sqrt(np.where(adjacency.sum(axis=1) > 0, adjacency.sum(axis=1), 1.0))
    return scale[:, None] * adjacency * scale


@given(graphs(), st.integers(1, 5))
@settings(max_examples=25, deadline=None)
def test_spectral_columns_are_two_matrices_times_their_singular_vectors(graph, n_components):
    vectors = spectral_vectors(graph, n_components, 0)
    columns, names, _ = spectral_columns(graph.adjacency, graph.degrees, graph.degrees, vectors)
    assert names == [f"spectral{k}" for k in range(columns.shape[1])]
    n_first = -(-vectors.shape[1] // 2)
    for by_degrees, own in ((True, slice(n_first)), (False, slice(n_first, None))):
        matrix = normalised(graph, by_degrees)
        unit = 1.0 if by_degrees else unit_of_weights(graph)
        expected = matrix @ (unit * vectors[:, own])
        np.testing.assert_allclose(columns[:, own], expected, atol=1e-6)
        # As many as the matrix has singular values; columns of 0 for others.
        singular = np.linalg.svd(matrix, compute_uv=False)[: expected.shape[1]]
        gram = unit * vectors[:, own].T @ (unit * vectors[:, own])
        np.testing.assert_allclose(gram, np.diag((singular > 1e-6).astype(float)), atol=1e-4)
        reached = np.linalg.norm(expected, axis=0)
        assert (reached <= singular + 1e-5).all() and (reached >= 0.9 * singular - 1e-5).all()


def test_the_leading_vectors_are_those_of_a_smaller_embedding():
    graph = random_graph(80, 300)
    many, few = spectral_vectors(graph, 12, 0), spectral_vectors(graph, 5, 0)
    assert leading_vectors(many, 5).shape == few.shape
    for one, other in zip(leading_vectors(many, 5).T, few.T, strict=True):
        cosine = one @ other / (np.linalg.norm(one) * np.linalg.norm(other))
        assert abs(cosine) > 0.9


@pytest.mark.parametrize("unit", [2.0**-40, 2.0**40])
def test_spectral_columns_do_not_depend_on_the_unit_of_the_weights(unit):
    graph = eb.Graph.build_knn(np.random.default_rng(0).random((100, 2)), k=5)
    columns = [
        spectral_columns(g.adjacency, g.degrees, g.degrees, spectral_vectors(g, 6, 0))[0]
        for g in (graph, eb.Graph.from_scipy(graph.adjacency * unit))
    ]
    np.testing.assert_allclose(*columns, rtol=1e-9)


def test_spectral_columns_separate_two_communities():
    rng = np.random.default_rng(0)
    side = np.repeat([0, 1], 50)
    ends = rng.integers(0, 100, (3000, 2))
    within = ends[side[ends[:, 0]] == side[ends[:, 1]]]
    graph = eb.Graph.from_edges(*np.vstack([within, [[0, 99]]]).T, n_nodes=100)
    spectral = eb.SpectralFeatures(4, random_state=0)
    second = spectral.fit_transform(np.zeros((100, 1)), graph=graph)[:, 2]
    assert len(set(np.sign(second[:50]))) == len(set(np.sign(second[50:]))) == 1
    assert np.sign(second[0]) != np.sign(second[99])
    assert spectral.get_feature_names_out().tolist()[1:] == [f"spectral{k}" for k in range(4)]


# ---------------------------------------------------------------------- wide sparse tables


def test_directions_of_a_wide_table_are_its_leading_singular_vectors():
    rng = np.random.default_rng(0)
    X = sparse.random_array((60, 300), density=0.05, format="csr", rng=rng)
    table = Table(X, tuple(f"w{i}" for i in range(300)), (), tuple(range(300)))
    learned = FeatureMap(own="vectors", n_directions=5).learn(table, None, 0)
    columns = learned.transform(table, None)
    assert columns.names == tuple(f"direction({i})" for i in range(5))
    assert not columns.is_sparse and columns.origin == (-1,) * 5
    rarity = np.log(61.0 / (np.bincount(X.indices, minlength=300) + 1.0))
    weighted = X.toarray() * rarity
    norm = np.linalg.norm(weighted, axis=1, keepdims=True)
    rows = weighted / np.where(norm > 0, norm, 1.0)
    kept = np.linalg.norm(columns.values) / np.linalg.norm(np.linalg.svd(rows)[1][:5])
    assert 0.85 < kept <= 1.0 + 1e-9
    total = learned.input_importances(np.arange(5.0), columns.origin, 300)
    assert total.shape == (300,) and total.sum() == pytest.approx(10.0)
