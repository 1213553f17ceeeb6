import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.impute import SimpleImputer
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline

import ebboost as eb
from ebboost.data.spectral import unit_of_weights
from tests.strategies import graphs, random_graph


@given(graphs(), st.integers(0, 100), st.booleans())
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
            np.testing.assert_allclose(
                [result[i, 2 + j], result[i, 4 + j], result[i, 6 + j]], [mean, low, high]
            )
    np.testing.assert_allclose(result[:, 8], adjacency.sum(1))
    tied = adjacency.sum(1) > 0
    np.testing.assert_allclose(
        result[tied, 9], (adjacency @ adjacency.sum(1))[tied] / adjacency.sum(1)[tied]
    )


def test_feature_names_name_statistic_and_column():
    frame = pd.DataFrame({"a": [1.0, 2.0], "kind": ["x", "y"]})
    features = eb.NeighborFeatures(["mean"]).fit(frame, graph=eb.Graph.from_edges([0], [1]))
    assert features.get_feature_names_out().tolist() == [
        "a",
        "kind",
        "mean(a)",
        "share(kind=x)",
        "degree",
        "mean(degree)",
    ]
    np.testing.assert_array_equal(features.transform(frame)[:, 2:4], [[2.0, 0.0], [1.0, 1.0]])


def test_sparse_tables_stay_sparse():
    X = sparse.random_array((50, 30), density=0.1, format="csr", rng=np.random.default_rng(0))
    graph = random_graph(50, 100)
    features = eb.NeighborFeatures().fit(X, graph=graph)
    result = features.transform(X)
    assert sparse.issparse(result)
    assert len(features.get_feature_names_out()) == result.shape[1]
    assert result.shape == (50, 62)
    dense = eb.NeighborFeatures(["mean"]).fit_transform(X.toarray(), graph=graph)
    np.testing.assert_allclose(result.toarray()[:, 30:60], np.nan_to_num(dense[:, 30:60]))


def test_neighbor_features_work_in_a_pipeline_of_scikit_learn():
    rng = np.random.default_rng(0)
    graph = random_graph(200, 800)
    X = rng.normal(size=(200, 2))
    y = np.nan_to_num(graph.adjacency @ X[:, 0] / np.maximum(graph.degrees, 1))
    pipe = make_pipeline(eb.NeighborFeatures(["mean"]), SimpleImputer(), Ridge(1e-6))
    pipe.fit(X, y, neighborfeatures__graph=graph)
    assert pipe.score(X, y) > 0.99
    assert Ridge(1e-6).fit(X, y).score(X, y) < 0.5


def test_invalid_use_raises_errors_with_the_argument():
    with pytest.raises(ValueError, match="needs a graph"):
        eb.NeighborFeatures().fit([[1.0]])
    with pytest.raises(ValueError, match="statistics must be"):
        eb.NeighborFeatures(["median"]).fit([[1.0], [2.0]], graph=eb.Graph.from_edges([0], [1]))
    with pytest.raises(ValueError, match="degree must be True or False, got 3"):
        eb.NeighborFeatures(degree=3).fit([[1.0], [2.0]], graph=eb.Graph.from_edges([0], [1]))
    features = eb.NeighborFeatures().fit([[1.0], [2.0]], graph=eb.Graph.from_edges([0], [1]))
    with pytest.raises(ValueError, match="one row per node"):
        features.transform([[1.0]])


def normalized_adjacency(graph):
    scale = np.diag(1.0 / np.sqrt(np.where(graph.degrees > 0, graph.degrees, 1.0)))
    return scale @ graph.adjacency.toarray() @ scale


def test_spectral_features_span_the_leading_singular_vectors():
    graph = random_graph(60, 200)
    X = np.random.default_rng(0).normal(size=(60, 2))
    features = eb.SpectralFeatures(5, random_state=0)
    transformed = features.fit_transform(X, graph=graph)
    np.testing.assert_array_equal(transformed[:, :2], X)
    of_both = [normalized_adjacency(graph), graph.adjacency.toarray()]
    values = [np.linalg.svd(matrix, compute_uv=False) for matrix in of_both]
    largest = np.append(values[0][:3], values[1][:2] / unit_of_weights(graph))
    norms = np.linalg.norm(features.embedding_, axis=0)
    np.testing.assert_allclose(norms, largest, rtol=0.05)
    assert features.get_feature_names_out().tolist() == ["x0", "x1"] + [
        f"spectral{i}" for i in range(5)
    ]


def test_spectral_features_separate_two_communities():
    rng = np.random.default_rng(0)
    side = np.repeat([0, 1], 50)
    ends = rng.integers(0, 100, (3000, 2))
    within = ends[side[ends[:, 0]] == side[ends[:, 1]]]
    graph = eb.Graph.from_edges(*np.sort(np.vstack([within, [[0, 99]]]), axis=1).T, n_nodes=100)
    spectral = eb.SpectralFeatures(4, random_state=0)
    second = spectral.fit_transform(np.zeros((100, 1)), graph=graph)[:, 2]
    assert len(set(np.sign(second[:50]))) == len(set(np.sign(second[50:]))) == 1
    assert np.sign(second[0]) != np.sign(second[99])


def test_spectral_features_keep_sparse_tables_sparse():
    X = sparse.random_array((40, 9), density=0.2, format="csr", rng=np.random.default_rng(0))
    graph = random_graph(40, 90)
    transformed = eb.SpectralFeatures(3, random_state=0).fit_transform(X, graph=graph)
    assert sparse.issparse(transformed)
    dense = eb.SpectralFeatures(3, random_state=0).fit_transform(X.toarray(), graph=graph)
    np.testing.assert_allclose(transformed.toarray(), dense)


def test_spectral_features_have_fewer_columns_on_a_small_graph():
    path = eb.Graph.from_edges([0, 1], [1, 2])
    assert eb.SpectralFeatures().fit_transform(np.zeros((3, 1)), graph=path).shape == (3, 5)


@pytest.mark.parametrize("n_components", [0, 2.5, None])
def test_n_components_must_be_a_positive_integer(n_components):
    with pytest.raises(ValueError, match="n_components must be an integer >= 1"):
        eb.SpectralFeatures(n_components).fit([[1.0], [2.0]], graph=eb.Graph.from_edges([0], [1]))


def test_spectral_features_need_the_rows_of_the_fitted_graph():
    features = eb.SpectralFeatures(1).fit([[1.0], [2.0]], graph=eb.Graph.from_edges([0], [1]))
    with pytest.raises(ValueError, match="one row per node"):
        features.transform([[1.0]])
    with pytest.raises(ValueError, match="spectralfeatures__graph=g"):
        eb.SpectralFeatures().fit([[1.0]])


def test_a_statistic_named_twice_is_there_twice():
    rng, graph = np.random.default_rng(0), random_graph(40, 80)
    X = rng.normal(size=(40, 2))
    once = eb.NeighborFeatures(["max", "mean"], degree=False).fit_transform(X, graph=graph)
    twice = eb.NeighborFeatures(["max", "mean", "max"], degree=False).fit_transform(X, graph=graph)
    np.testing.assert_array_equal(twice, np.hstack([once, once[:, 2:4]]))
