"""Fits whose graph and labels stay on the workers of a cluster."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import ebboost as eb
from tests.sharded import COLUMNS, SETTINGS, N

pytest.importorskip("xgboost")
pytest.importorskip("distributed")
dd = pytest.importorskip("dask.dataframe")


def test_two_workers_train_from_parquet_what_one_process_trains(sharded_nodes):
    one = sharded_nodes.fit_here(eb.EBBSRegressor(10, **SETTINGS))
    # Labels in other blocks than X.
    y = dd.from_pandas(sharded_nodes.frame["y"], npartitions=3)
    two = sharded_nodes.fit(eb.EBBSRegressor(10, **SETTINGS), y=y)
    assert two.cluster_["n_workers"] == 2 and two.state_.n_nodes == 0
    np.testing.assert_allclose(two.predict().compute(), one.predict(), atol=1e-5)
    np.testing.assert_allclose(two.predict(nodes=[7, 500]), one.predict(nodes=[7, 500]), atol=1e-5)


def test_labels_listed_by_their_nodes_are_those_of_a_column(sharded_nodes):
    y = sharded_nodes.frame["y"].to_numpy()
    nodes = np.flatnonzero(~np.isnan(y))[::-1]
    weight = 1.0 + np.arange(nodes.size)
    listed = {"y": y[nodes], "nodes": nodes, "sample_weight": weight}
    one = sharded_nodes.fit_here(eb.EBBSRegressor(5, **SETTINGS), **listed)
    two = sharded_nodes.fit(eb.EBBSRegressor(5, **SETTINGS), **listed)
    np.testing.assert_allclose(two.predict().compute(), one.predict(), atol=1e-5)


@pytest.mark.parametrize("kind", ["columns", "points"])
def test_nearest_rows_are_found_by_the_workers(sharded_nodes, kind):
    random = np.random.default_rng(0)
    where = random.choice(200**2, N, replace=False)  # fewer values than bins, no point twice
    points = np.column_stack([random.random(200)[where // 200], random.random(200)[where % 200]])
    frame = sharded_nodes.frame.assign(u=points[:, 0], v=points[:, 1])
    nodes = dd.from_pandas(frame, npartitions=5)
    columns = [*COLUMNS, "u", "v"] if kind == "columns" else COLUMNS
    coordinates = ["u", "v"] if kind == "columns" else nodes[["u", "v"]]
    number = "auto" if kind == "columns" else 6
    two = eb.EBBSRegressor(5, neighbors=number, **SETTINGS)
    two.fit(nodes[columns], nodes["y"], coordinates=coordinates)
    graph = eb.Graph.build_knn(points, 8 if kind == "columns" else 6, weight="distance")
    one = eb.EBBSRegressor(5, **SETTINGS).fit(frame[columns], frame["y"], graph=graph)
    assert two.cluster_["n_workers"] == 2
    np.testing.assert_allclose(two.predict().compute(), one.predict(), atol=1e-5)
    with pytest.raises(ValueError, match="graph and coordinates exclude each other"):
        sharded_nodes.fit(eb.EBBSRegressor(**SETTINGS), coordinates=["a", "b"])
    with pytest.raises(ValueError, match="coordinates names 'q', which is not a column"):
        two.fit(nodes[columns], nodes["y"], coordinates=["q", "u"])
    with pytest.raises(ValueError, match="'delaunay' is not supported on a cluster"):
        two.set_params(neighbors="delaunay").fit(
            nodes[columns], nodes["y"], coordinates=coordinates
        )


def test_relations_have_the_strengths_of_one_process(sharded_nodes, tmp_path):
    nodes, edges = sharded_nodes.lazy
    ids = sharded_nodes.frame["id"].to_numpy()
    random = np.random.default_rng(1)
    ends = random.integers(0, N, (2, 900))
    noise = eb.Graph.from_edges(*ends, n_nodes=N)
    pd.DataFrame(ids[ends].T, columns=["a", "b"]).to_parquet(tmp_path / "noise.parquet")
    lazy = {"near": edges, "any": eb.ParquetGraph(tmp_path / "noise.parquet", ids=nodes["id"])}
    one = sharded_nodes.fit_here(
        eb.EBBSRegressor(5, **SETTINGS), graph={"near": sharded_nodes.graph, "any": noise}
    )
    two = sharded_nodes.fit(eb.EBBSRegressor(5, **SETTINGS), graph=lazy)
    assert two.relation_strengths_ == pytest.approx(one.relation_strengths_)
    np.testing.assert_allclose(two.predict().compute(), one.predict(), atol=1e-5)
    new = two.predict(nodes[COLUMNS], graph=lazy).compute()
    np.testing.assert_allclose(new.mean(), one.predict().mean(), atol=0.1)
    fixed = eb.EBBSRegressor(relations={"near": 1.0}, **SETTINGS)
    with pytest.raises(ValueError, match="Relation 'any' has no strength"):
        sharded_nodes.fit(fixed, graph=lazy)


def test_spectral_columns_stay_with_the_nodes_of_a_worker(sharded_nodes, tmp_path):
    settings = SETTINGS | {"spectral_features": eb.SpectralFeatures(4)}
    one = sharded_nodes.fit_here(eb.EBBSRegressor(5, **settings))
    two = sharded_nodes.fit(eb.EBBSRegressor(5, **settings))
    np.testing.assert_allclose(two.predict().compute(), one.predict(), atol=1e-5)
    explained, expected = (model.explanations([500])[0] for model in (two, one))
    assert explained.total == pytest.approx(expected.total, abs=1e-5)
    two.save(tmp_path / "model")
    loaded = eb.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(), two.predict().compute())
    np.testing.assert_allclose(loaded.graph_.vectors, one.graph_.vectors, atol=1e-6)
    alone = eb.load(tmp_path / "model" / "model.ebb")
    nodes, edges = sharded_nodes.lazy
    with pytest.warns(UserWarning, match="taken as new nodes"):
        new = two.predict(nodes[COLUMNS], graph=edges).compute()
    ids = np.array([f"new {i}" for i in range(N)], dtype=object)
    graph = eb.Graph(sharded_nodes.graph.adjacency, ids)
    labels = {"graph": graph, "new_labels": ([], [])}
    np.testing.assert_allclose(alone.predict(sharded_nodes.frame[COLUMNS], **labels), new)


def test_counts_with_exposure_and_early_stopping(sharded_nodes):
    frame = sharded_nodes.frame
    counts = np.floor(np.abs(frame["y"]) * 3)
    model = eb.EBBSRegressor(8, loss="poisson", **SETTINGS | {"early_stopping": True})
    exposure = dd.from_pandas(frame["a"] + 1.0, npartitions=5)
    sharded_nodes.fit(model, y=counts, exposure=exposure)
    assert model.history_["validation"][-1] < model.history_["validation"][0]
    assert (model.predict().compute() > 0).all()


def test_a_classifier_selects_its_parts_on_the_workers(sharded_nodes):
    known = sharded_nodes.frame["y"].notna().to_numpy()
    y = np.where(known, np.where(sharded_nodes.truth > 1.0, "high", "low"), None)
    model = eb.EBBSClassifier(
        5, learner="xgboost", random_state=0, selection="rules", n_folds=1, learning_rate=0.3
    )
    sharded_nodes.fit(model, y=y)
    probabilities = model.predict_proba().compute()
    assert probabilities.shape == (N, 2)
    assert (model.classes_[probabilities.argmax(axis=1)][known] == y[known]).mean() > 0.8
    prediction, contains = (part.compute() for part in model.predict(interval=0.8))
    assert contains[np.arange(N), np.searchsorted(model.classes_, prediction)].all()


@pytest.mark.parametrize(
    ("settings", "arguments", "message"),
    [
        ({"learner": "lightgbm"}, {}, "only XGBoost"),
        ({"labels": "masked"}, {}, "labels='masked' is not supported with a ParquetGraph"),
        ({"smoothing": eb.Robust()}, {}, "is not supported with a ParquetGraph"),
        ({"random_state": None}, {"checkpoint": "folder"}, "needs an integer random_state"),
        ({}, {"time": np.arange(N), "causal": True}, "causal=True is not supported with a Parq"),
        ({}, {"time": "when"}, "time='when' is not a column of X"),
        ({}, {"groups": ["a", "b"] * (N // 2)}, "No group is a node of graph"),
        ({}, {"exposure": [1.0]}, f"exposure must have {N} entries"),
        ({}, {"eval_set": ([], [])}, "eval_set is empty"),
    ],
)
def test_what_is_not_supported_is_rejected_before_training(
    sharded_nodes, settings, arguments, message
):
    model = eb.EBBSRegressor(**{"learner": "xgboost", **settings})
    with pytest.raises(ValueError, match=message):
        sharded_nodes.fit(model, **arguments)


@pytest.mark.parametrize("on_disk", [False, True])
def test_one_process_reads_the_graph_as_the_only_worker_does(sharded_nodes, tmp_path, on_disk):
    frame = sharded_nodes.frame
    edges = eb.ParquetGraph(sharded_nodes.path, ids=frame["id"])
    X = frame[COLUMNS]
    if on_disk:
        X.to_parquet(tmp_path / "nodes.parquet")
        X = eb.ParquetTable(tmp_path / "nodes.parquet")
    parts = {"neighbor_features": eb.NeighborFeatures(), "early_stopping": False}
    model = eb.EBBSRegressor(5, random_state=0, labels="field", **parts)
    one = sharded_nodes.fit_here(clone(model))
    two = clone(model).fit(X, frame["y"], graph=edges)
    np.testing.assert_allclose(two.predict(), one.predict(), atol=1e-9)
    assert two.graph_.node_ids.tolist() == frame["id"].tolist()
    assert isinstance(memory_of(two.graph_.adjacency.data), np.memmap) == on_disk
    new = two.predict(frame[COLUMNS], graph=edges, nodes=[3])
    expected = one.predict(frame[COLUMNS], graph=sharded_nodes.graph, nodes=[3])
    np.testing.assert_allclose(new, expected, atol=1e-9)
    few = eb.ParquetGraph(sharded_nodes.path, ids=frame["id"][:-1])
    with pytest.raises(ValueError, match=f"ids must have {N} entries, one for each row of X"):
        model.fit(X, frame["y"], graph=few)


def memory_of(array):
    """The array that owns the memory of a view."""
    while not isinstance(array, np.memmap) and array.base is not None:
        array = array.base
    return array


def test_nodes_are_divided_into_parts_with_few_edges_between_them(sharded_nodes):
    nodes, edges = sharded_nodes.lazy
    part = eb.partition_nodes(nodes, edges, 3)
    sizes = nodes.assign(part=part).groupby("part").size().compute()
    assert sizes.sum() == N and sizes.max() <= 1.2 * N / 3
    source, target = sharded_nodes.graph.adjacency.nonzero()
    values = part.compute()
    # Two thirds of the edges are between random parts.
    assert np.mean(values[source] != values[target]) < 0.25


@pytest.mark.parametrize("kind", ["parquet", "graph", "none"])
def test_rows_of_a_group_may_be_divided_among_workers(sharded_nodes, tmp_path, kind):
    random = np.random.default_rng(2)
    group = random.integers(0, 40, N)
    frame = sharded_nodes.frame.assign(group=[f"g{one}" for one in group])
    frame["y"] += random.normal(size=40)[group]
    names = [f"g{one}" for one in range(41)]  # one without rows
    ends = np.column_stack([np.arange(40), np.arange(1, 41)])
    between = eb.Graph.from_dataframe(
        pd.DataFrame(np.array(names)[ends], columns=["a", "b"]), nodes=names
    )
    pd.DataFrame(np.array(names)[ends], columns=["a", "b"]).to_parquet(tmp_path / "ring.parquet")
    lazy = eb.ParquetGraph(tmp_path / "ring.parquet", ids=names)
    graph = {"parquet": lazy, "graph": between, "none": None}[kind]
    nodes = dd.from_pandas(frame, npartitions=5)
    settings = SETTINGS | {"smoothing": None}
    if kind == "graph":
        settings["neighbor_features"] = eb.NeighborFeatures()
    held = np.flatnonzero(frame["y"].isna())
    arguments = {"graph": graph, "eval_set": (held, sharded_nodes.truth[held])}
    one = eb.EBBSRegressor(5, **settings)
    one.fit(frame[COLUMNS], frame["y"], groups=frame["group"], **arguments)
    two = eb.EBBSRegressor(5, **settings)
    two.fit(nodes[COLUMNS], nodes["y"], groups=nodes["group"], **arguments)
    assert two.cluster_["n_workers"] == 2
    np.testing.assert_allclose(two.predict().compute(), one.predict(), atol=1e-5)
    lower = two.predict(interval=0.9).lower.compute()
    np.testing.assert_allclose(lower, one.predict(interval=0.9).lower, atol=1e-3)
    explained, expected = (model.explanations([500])[0] for model in (two, one))
    assert explained.labels == pytest.approx(expected.labels, abs=1e-4)
    assert explained.own == pytest.approx(expected.own, abs=1e-4)
    with pytest.raises(ValueError, match="groups and time need a model on one machine"):
        two.predict(frame[COLUMNS], groups=frame["group"])
    two.save(tmp_path / "model")
    loaded = eb.load(tmp_path / "model")
    np.testing.assert_allclose(loaded.predict(), two.predict().compute(), atol=1e-9)
    if kind != "graph":  # columns of neighbours would need the table
        new = {"X": frame[COLUMNS][:20], "groups": [*names[:10], *["new"] * 10]}
        np.testing.assert_allclose(loaded.predict(**new), one.predict(**new), atol=1e-5)


def test_the_latest_labels_are_held_out_on_the_workers(sharded_nodes):
    time = np.random.default_rng(3).integers(0, 50, N)
    settings = SETTINGS | {"early_stopping": True, "n_folds": 3, "learning_rate": 0.3}
    one = sharded_nodes.fit_here(eb.EBBSRegressor(12, **settings), time=time)
    two = sharded_nodes.fit(eb.EBBSRegressor(12, **settings), time=time)
    assert two.n_iter_ == one.n_iter_
    np.testing.assert_allclose(two.predict().compute(), one.predict(), atol=1e-4)
