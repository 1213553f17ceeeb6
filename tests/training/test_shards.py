"""Fits whose graph and labels stay on the workers of a cluster."""

import numpy as np
import pandas as pd
import pytest

import ebboost as eb

pytest.importorskip("xgboost")
pytest.importorskip("distributed")
dd = pytest.importorskip("dask.dataframe")

N = 600
COLUMNS = list("abc")
PARTS = {"smoothing": eb.Laplacian(1.0, 2), "labels": "field", "early_stopping": False}


@pytest.fixture(scope="module")
def client():
    from distributed import Client

    options = {"processes": False, "dashboard_address": ":0", "threads_per_worker": 1}
    with Client(n_workers=2, **options) as client:
        yield client


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A table with ids and labels, its graph, and the edges in Parquet, by id."""
    random = np.random.default_rng(0)
    X = random.integers(0, 40, size=(N, 3)) / 10.0
    graph = eb.Graph.build_knn(X[:, :2] + 0.01 * random.normal(size=(N, 2)), k=4)
    ids = np.array([f"node {i}" for i in random.permutation(N)], dtype=object)
    source, target = graph.adjacency.nonzero()
    path = tmp_path_factory.mktemp("graph") / "edges.parquet"
    pd.DataFrame({"from": ids[source], "to": ids[target]}).to_parquet(path, row_group_size=500)
    frame = pd.DataFrame(X, columns=COLUMNS).assign(id=ids)
    frame["y"] = np.sin(2 * X[:, 0]) + X[:, 2] + 0.2 * random.normal(size=N)
    frame.loc[random.random(N) < 0.5, "y"] = np.nan
    return frame, graph, path


def lazy(data):
    """The table as a Dask dataframe, and the graph that its workers read."""
    frame, _, path = data
    nodes = dd.from_pandas(frame, npartitions=5)
    return nodes, eb.ParquetGraph(path, ids=nodes["id"])


def test_two_workers_train_from_parquet_what_one_process_trains(client, data, tmp_path):
    frame, graph, _ = data
    nodes, edges = lazy(data)
    settings = {"learner": "xgboost", "random_state": 0, **PARTS}
    one = eb.EBBSRegressor(10, **settings).fit(frame[COLUMNS], frame["y"], graph=graph)
    # Labels in other blocks than X.
    y = dd.from_pandas(frame["y"], npartitions=3)
    two = eb.EBBSRegressor(10, **settings).fit(nodes[COLUMNS], y, graph=edges)
    assert two.cluster_["n_workers"] == 2 and two.state_.n_nodes == 0
    np.testing.assert_allclose(two.predict().compute(), one.predict(), atol=1e-5)
    # Without its nodes it is an ordinary model of other tables, on the cluster and off it.
    two.save(tmp_path / "m.ebb")
    loaded = eb.load(tmp_path / "m.ebb")
    new = {"graph": graph, "new_labels": ([], [])}
    np.testing.assert_allclose(
        loaded.predict(nodes[COLUMNS], graph=edges).compute(), loaded.predict(frame[COLUMNS], **new)
    )
    with pytest.raises(ValueError, match=r"predict\(\) and predict_proba\(\) return Dask arrays"):
        two.predict(interval=0.9)


def test_counts_with_exposure_and_early_stopping(client, data):
    frame, _, _ = data
    nodes, edges = lazy(data)
    counts = np.floor(np.abs(frame["y"]) * 3)
    model = eb.EBBSRegressor(
        8, loss="poisson", learner="xgboost", random_state=0, **PARTS | {"early_stopping": True}
    )
    exposure = dd.from_pandas(frame["a"] + 1.0, npartitions=5)
    model.fit(nodes[COLUMNS], counts, graph=edges, exposure=exposure)
    assert model.history_["validation"][-1] < model.history_["validation"][0]
    assert (model.predict().compute() > 0).all()


def test_a_classifier_selects_its_parts_on_the_workers(client, data):
    frame, _, _ = data
    nodes, edges = lazy(data)
    y = np.where(frame["y"].isna(), None, np.where(frame["y"] > 1.0, "high", "low"))
    model = eb.EBBSClassifier(
        5, learner="xgboost", random_state=0, selection="rules", n_folds=1, learning_rate=0.3
    )
    model.fit(nodes[COLUMNS], y, graph=edges)
    probabilities = model.predict_proba().compute()
    known = pd.notna(y)
    assert probabilities.shape == (N, 2)
    assert (model.classes_[probabilities.argmax(axis=1)][known] == y[known]).mean() > 0.8


@pytest.mark.parametrize(
    ("settings", "arguments", "message"),
    [
        ({"learner": "lightgbm"}, {}, "only XGBoost"),
        ({"labels": "masked"}, {}, "labels='masked' is not supported with a ParquetGraph"),
        ({"smoothing": eb.Robust()}, {}, "is not supported with a ParquetGraph"),
        ({}, {"nodes": [0]}, "nodes= is not supported"),
        ({"random_state": None}, {"checkpoint": "folder"}, "needs an integer random_state"),
        ({}, {"groups": np.zeros(N)}, "groups= is not supported"),
        ({}, {"exposure": [1.0]}, f"exposure must have {N} entries"),
    ],
)
def test_what_is_not_supported_is_rejected_before_training(
    client, data, settings, arguments, message
):
    nodes, edges = lazy(data)
    model = eb.EBBSRegressor(**{"learner": "xgboost", **settings})
    with pytest.raises(ValueError, match=message):
        model.fit(nodes[COLUMNS], nodes["y"], graph=edges, **arguments)


def test_a_table_in_memory_needs_a_graph_in_memory(data):
    frame, _, path = data
    with pytest.raises(ValueError, match=r"X must be a Dask dataframe.*Graph\.from_parquet"):
        eb.EBBSRegressor(learner="xgboost").fit(
            frame[COLUMNS], frame["y"], graph=eb.ParquetGraph(path)
        )


def test_nodes_are_divided_into_parts_with_few_edges_between_them(client, data):
    nodes, edges = lazy(data)
    graph = data[1]
    part = eb.partition_nodes(nodes, edges, 3)
    sizes = nodes.assign(part=part).groupby("part").size().compute()
    assert sizes.sum() == N and sizes.max() <= 1.2 * N / 3
    source, target = graph.adjacency.nonzero()
    values = part.compute()
    # Two thirds of the edges are between random parts.
    assert np.mean(values[source] != values[target]) < 0.25
