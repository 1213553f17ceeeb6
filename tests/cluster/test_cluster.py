"""What prepare, fit and predict read, write and reject; lost workers."""

import os
import signal
import threading
import time

import numpy as np
import pandas as pd
import pytest

import ebboost as eb
import ebboost.cluster as cluster
from tests.cluster.problems import dask_client, distance, fast

QUICK = {"n_estimators": 10, "early_stopping": False, "labels": eb.LatentField(1.0, 0.1)}


@pytest.fixture(scope="module")
def prepared(small, tmp_path_factory):
    return small.write(tmp_path_factory.mktemp("tables"))


@pytest.fixture(scope="module")
def model(prepared):
    return cluster.fit(fast(), prepared, target="y")


def test_a_model_is_one_of_one_machine(model, small, tmp_path):
    model.save(tmp_path / "model.ebb")
    again = eb.load(tmp_path / "model.ebb")
    np.testing.assert_array_equal(again.predict(), model.predict())
    assert "RMSE" in model.summary() and model.gain_.n_labels > 20
    new = model.predict(small.X[:2], attach=([0, 1], [5, 6]))
    assert new.shape == (2,) and np.isfinite(new).all()
    assert model.score(None, small.frame["y"]) > 0.8


def test_predictions_of_each_worker_are_those_of_the_model(client, model, prepared, tmp_path):
    folder = str(tmp_path / "out")
    options = {"target": "y", "folder": folder, "engine": client}
    paths = cluster.predict(model, prepared, **options)
    assert len(paths) == 3
    frame = pd.concat([pd.read_parquet(path) for path in paths])
    assert frame["row"].tolist() == list(range(prepared.n_nodes))
    assert distance(frame["prediction"].to_numpy(), model.predict()) < 1e-6


def test_a_model_without_rows_predicts_the_same(client, model, prepared, small, tmp_path):
    alone = cluster.fit(fast(), prepared, target="y", gather=False, engine=client)
    assert alone.model_.n_rows == 0 and alone.model_.table is None
    predicted = cluster.predict(alone, prepared, target="y")
    assert distance(predicted, model.predict()) < 1e-6
    alone.save(tmp_path / "model.ebb")
    again = eb.load(tmp_path / "model.ebb")
    np.testing.assert_array_equal(cluster.predict(again, prepared, target="y"), predicted)
    unlabelled = cluster.predict(again, prepared)
    np.testing.assert_allclose(
        unlabelled, again.predict(small.X, graph=small.graph, new_labels=([], []))
    )


def test_probabilities_are_written_by_id(small, tmp_path):
    frame = small.frame.assign(id=[f"n{i}" for i in range(len(small.frame))])
    frame["y"] = np.where(frame["y"].isna(), None, np.where(frame["y"] > 1.0, "high", "low"))
    edges = small.edges.map(lambda one: f"n{one}")
    prepared = type(small)(frame, edges, small.graph).write(tmp_path, id="id")
    fitted = cluster.fit(fast(eb.EBBSClassifier, **QUICK), prepared, target="y")
    folder = str(tmp_path / "out")
    (path,) = cluster.predict(fitted, prepared, target="y", folder=folder)
    written = pd.read_parquet(path)
    assert written["id"].tolist() == frame["id"].tolist()
    np.testing.assert_allclose(
        written["probability(high)"], fitted.predict_proba()[:, 0], atol=1e-6
    )
    assert (written["prediction"] == fitted.predict()).all()


@pytest.mark.parametrize(
    ("changes", "arguments", "message"),
    [
        ({"learner": "lightgbm"}, {}, "learner='lightgbm' does not train on a cluster"),
        ({"n_folds": 5}, {}, "n_folds=5 is not supported on a cluster: pass 1"),
        ({"device": "cuda"}, {}, "device='cuda' is not supported"),
        ({"max_seconds": 9.0}, {}, "max_seconds=9.0 is not supported"),
        ({"spectral_features": eb.SpectralFeatures(4)}, {}, "spectral_features=.* not supported"),
        ({"feature_smoothing": eb.Laplacian()}, {}, "feature_smoothing=.* is not supported"),
        (
            {"smoothing": eb.Laplacian(normalized=False)},
            {},
            "use eb.Laplacian with normalized=True",
        ),
        ({}, {"target": "price"}, "target='price' is not a column of nodes, which has 'a', 'b'"),
        ({}, {"features": ["a", "z"]}, "features='z' is not a column of nodes"),
        ({}, {"features": ["y"]}, "features must not contain 'y'"),
        ({}, {"offset": "y"}, "offset='y' has another role"),
        ({}, {"exposure": "a"}, "exposure needs a loss of counts"),
    ],
)
def test_what_is_not_supported_is_said_before_training(prepared, changes, arguments, message):
    with pytest.raises(ValueError, match=message):
        cluster.fit(fast(**changes), prepared, **{"target": "y", **arguments})


def test_wrong_types_are_named(prepared, small, tmp_path):
    for arguments, message in (
        ((fast(), prepared, "dask"), "engine must be a distributed"),
        ((fast(), small.frame, None), "prepared must be what prepare"),
        (("fast", prepared, None), "estimator must be EBBSRegressor or EBBSClassifier"),
    ):
        with pytest.raises(TypeError, match=message):
            cluster.fit(*arguments[:2], target="y", engine=arguments[2])
    with pytest.raises(TypeError, match="nodes must be a Dask dataframe or the path"):
        cluster.prepare(small.frame, small.edges)
    with pytest.raises(FileNotFoundError, match="has no file that ends in"):
        cluster.prepare(tmp_path, tmp_path)


@pytest.mark.parametrize(
    ("edge", "options", "error", "message"),
    [
        ({"source": 0, "target": 900}, {}, ValueError, "'target', holds .*900.* rows 0 to 899"),
        ({"source": 0, "target": -1}, {}, ValueError, "rows 0 to 899"),
        ({"source": "a", "target": "b"}, {}, TypeError, "must hold row numbers"),
        ({"source": "a", "target": "b"}, {"id": "id"}, TypeError, "ids of nodes are whole numbers"),
        ({"source": 7, "target": 8}, {"id": "id"}, ValueError, "holds .*7.*nodes have no such id"),
        ({"source": 1, "target": 2, "s": -1.0}, {"weight": "s"}, ValueError, "weight is negative"),
        ({"source": 3, "target": 3}, {}, ValueError, "edges connect no two different nodes"),
    ],
)
def test_wrong_edges_are_named(small, tmp_path, edge, options, error, message):
    frame = small.frame.assign(id=np.arange(1000, 1900))
    problem = type(small)(frame, pd.DataFrame([edge]), small.graph)
    with pytest.raises(error, match=message):
        cluster.fit(fast(**QUICK), problem.write(tmp_path, 1, **options), target="y")


@pytest.mark.parametrize(
    ("column", "last", "message"),
    [
        ("id", 5, "nodes has one id twice, in rows 5 and 899"),
        ("id", None, "nodes has no id at row 899"),
        ("y", None, "holds no known label of weight above 0"),
    ],
)
def test_wrong_nodes_are_named_and_leave_the_workers_free(
    client, small, tmp_path, column, last, message
):
    values = pd.array([*range(899), last], dtype="Int64").astype(object)
    frame = small.frame.assign(**{column: values if column == "id" else np.nan})
    options = {"id": "id"} if column == "id" else {}
    prepared = type(small)(frame, small.edges, small.graph).write(tmp_path, **options)
    with pytest.raises(ValueError, match=message):
        cluster.fit(fast(**QUICK), prepared, target="y", engine=client)
    assert client.submit(sum, [1, 2]).result() == 3


def test_a_killed_worker_is_named_and_fewer_resume_from_its_models(large, tmp_path):
    prepared = large.write(tmp_path)
    folder = tmp_path / "models"
    settings = {"n_estimators": 300, "early_stopping": 300, "labels": "none"}
    with dask_client(2) as client:
        victim, process = next(iter(client.run(os.getpid).items()))

        def kill():
            while not (folder / "strengths.ebb").exists():  # then the second model is in training
                time.sleep(0.02)
            time.sleep(0.2)
            os.kill(process, signal.SIGKILL)

        killer = threading.Thread(target=kill)
        killer.start()
        where = {"models": str(folder), "engine": client}
        with pytest.raises(RuntimeError, match=f"Lost the worker {victim}.*models=folder"):
            cluster.fit(fast(**settings), prepared, target="y", **where)
        killer.join()
    assert sorted(os.listdir(folder)) == ["strengths.ebb", "trees.ebb"]
    first = (folder / "trees.ebb").stat().st_mtime_ns
    resumed = cluster.fit(fast(**settings), prepared, target="y", models=str(folder))
    assert (folder / "trees.ebb").stat().st_mtime_ns == first
    whole = cluster.fit(fast(**settings), prepared, target="y")
    assert distance(resumed.predict(), whole.predict()) < 1e-6


def test_finished_models_are_taken_from_the_folder(prepared, tmp_path):
    folder = str(tmp_path)
    first = cluster.fit(fast(), prepared, target="y", models=folder)
    written = {name: os.stat(tmp_path / name).st_mtime_ns for name in os.listdir(folder)}
    assert sorted(written) == ["strengths.ebb", "trees-field-neighbours.ebb", "trees.ebb"]
    again = cluster.fit(fast(), prepared, target="y", models=folder)
    np.testing.assert_array_equal(again.predict(), first.predict())
    assert {name: os.stat(tmp_path / name).st_mtime_ns for name in written} == written
    with pytest.raises(ValueError, match="of another fit: seed was"):
        cluster.fit(fast(random_state=1), prepared, target="y", models=folder)
