"""Two worker processes train what one process trains: the same labels, graph and parameters."""

import json
import os
import signal
import threading
import time

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import ebboost as eb

pytest.importorskip("xgboost")
pytest.importorskip("distributed")

N = 1500
CHUNKS = (400, 0, 650, 450)  # uneven, one of them empty, more than there are workers


def data(n=N, seed=0):
    """Columns of few values: workers and one process find the same bins."""
    random = np.random.default_rng(seed)
    X = random.integers(0, 40, size=(n, 4)) / 10.0
    graph = eb.Graph.build_knn(X[:, :2] + 0.01 * random.normal(size=(n, 2)), k=5)
    y = np.sin(2 * X[:, 0]) + X[:, 2] + 0.2 * random.normal(size=n)
    y[random.random(n) < 0.5] = np.nan
    return X, y, graph


@pytest.fixture(scope="module", autouse=True)
def quiet():
    """Silence the messages of Dask's own processes."""
    import logging

    logging.getLogger("distributed").setLevel(logging.CRITICAL)


@pytest.fixture(scope="module")
def client():
    """Two workers as threads of this process."""
    from distributed import Client

    options = {"processes": False, "dashboard_address": ":0", "threads_per_worker": 1}
    with Client(n_workers=2, **options) as client:
        yield client


@pytest.fixture
def processes():
    """Two worker processes."""
    from distributed import Client, LocalCluster

    options = {"threads_per_worker": 1, "dashboard_address": ":0", "host": "127.0.0.1"}
    with LocalCluster(n_workers=2, **options) as cluster, Client(cluster) as client:
        yield client


def spread(X, chunks=CHUNKS, columns=None):
    import dask.array as da

    return da.from_array(X, chunks=(chunks, columns or X.shape[1]))


def fitted(kind=eb.EBBSRegressor, X=None, y=None, graph=None, *, fit=None, **parameters):
    settings = {"n_estimators": 15, "learner": "xgboost", "random_state": 0}
    settings["early_stopping"] = False  # without folds
    return kind(**settings | parameters).fit(X, y, graph=graph, **(fit or {}))


def assert_same_model(one, other, atol=1e-4):
    assert one.n_iter_ == other.n_iter_ and one.best_candidate_ == other.best_candidate_
    assert other.history_["training"][-1] == pytest.approx(one.history_["training"][-1], rel=1e-2)
    np.testing.assert_allclose(other.scores_, one.scores_, atol=atol)


def test_without_a_client_it_is_said_how_to_start_one():
    X, y, graph = data()
    with pytest.raises(ValueError, match=r"distributed\.Client"):
        fitted(X=spread(X), y=y, graph=graph)


def test_a_collection_answers_for_some_nodes_and_serves_a_predictor():
    import dask.dataframe as dd

    X, y, graph = data(300)
    frame = pd.DataFrame(X, columns=list("abcd"))
    parts = dd.from_pandas(frame, npartitions=3)
    for features in (None, eb.NeighborFeatures(["mean"])):
        parts_of_it = {
            "neighbor_features": features,
            "smoothing": eb.Laplacian(1.0, 2),
            "labels": "none",
        }
        m = fitted(X=frame, y=y, graph=graph, **parts_of_it)
        expected = m.predict(frame, graph=graph)
        np.testing.assert_allclose(m.predict(parts, graph=graph, nodes=[7, 3]), expected[[7, 3]])
        predictor = m.predictor(parts, graph=graph)
        predictor.update([7], frame.iloc[[7]])
        np.testing.assert_allclose(predictor.predict(), expected)


# ---------------------------------------------------------------------- two workers


@pytest.mark.parametrize(
    "parameters",
    [
        {"smoothing": eb.Laplacian(1.0, 2), "labels": "none", "momentum": True},
        {"smoothing": eb.Laplacian(1.0, 2), "labels": "field", "n_iter_no_change": 5},
        {
            "smoothing": eb.Laplacian(2.0, normalized=False),
            "labels": "none",
            "momentum": "corrected",
            "n_estimators": 8,
        },
        {
            "neighbor_features": eb.NeighborFeatures(["mean", "max"]),
            "smoothing": None,
            "labels": "none",
        },
    ],
    ids=["momentum", "field", "corrected", "features"],
)
def test_two_workers_train_what_one_process_trains(client, parameters):
    X, y, graph = data()
    one, two = (
        fitted(X=X, y=y, graph=graph, **parameters),
        fitted(X=spread(X), y=y, graph=graph, **parameters),
    )
    assert two.cluster_["n_workers"] == 2 and "2 workers" in two.summary() and one.cluster_ is None
    # Neighbours' means are numbers of many values: their bins are sketched, by two a little
    # otherwise than by one.
    assert_same_model(one, two, atol=0.3 if "neighbor_features" in parameters else 1e-4)
    assert two.score(None, one.predict()) > 0.99
    np.testing.assert_allclose(two.feature_importances_, one.feature_importances_, atol=0.05)


def test_the_default_compares_the_candidates_of_one_process_and_selects_alike(client):
    random = np.random.default_rng(12)
    X = random.integers(0, 40, size=(400, 3)) / 10.0
    graph = eb.Graph.build_knn(X[:, :2] + 0.01 * random.normal(size=(400, 2)), k=5)
    y = np.sin(2 * X[:, 0]) + X[:, 2] + 0.2 * random.normal(size=400)
    y[random.random(400) < 0.4] = np.nan
    settings = {"y": y, "graph": graph, "n_estimators": 60, "learning_rate": 0.3, "n_folds": 2}
    settings["early_stopping"] = True
    one = fitted(X=X, **settings)
    two = fitted(X=spread(X, (150, 250)), **settings)
    names = one.selection_["candidate"]
    assert set(two.selection_["candidate"]) == set(names)
    for part in ("network", "smaller trees", "spectral columns", "field", "propagation"):
        assert any(part in name for name in names)
    assert not any("random splits" in name for name in names)
    averaged = [[member.candidate.name for member in m.state_.candidates] for m in (one, two)]
    assert averaged[0] == averaged[1] and two.n_iter_ == one.n_iter_
    # Columns of many values are binned by XGBoost's sketches; sums of networks are float32.
    np.testing.assert_allclose(two.predict(), one.predict(), atol=1e-3)


@pytest.mark.parametrize("kind", ["spectral columns", "smaller trees"])
def test_parts_of_the_default_are_those_of_one_process(client, kind):
    X, y, graph = data(250)  # fewer rows than bins: workers find those of one process
    settings = {"smoothing": None, "labels": "none", "n_folds": 2, "early_stopping": True}
    if kind == "spectral columns":
        settings["spectral_features"] = eb.SpectralFeatures(5)
    else:
        settings["learner"] = eb.XGBoost(max_depth=5)
    one = fitted(X=X, y=y, graph=graph, **settings)
    two = fitted(X=spread(X, (100, 150)), y=y, graph=graph, **settings)
    np.testing.assert_allclose(two.predict(), one.predict(), atol=1e-6)
    if kind == "spectral columns":
        np.testing.assert_allclose(two.graph_.vectors, one.graph_.vectors, atol=1e-6)
        again = two.predict(X, graph=graph)
        np.testing.assert_allclose(again, one.predict(X, graph=graph), atol=1e-6)


def test_a_classifier_on_a_dataframe_with_text_in_some_blocks_only(client):
    import dask.dataframe as dd

    X, _, graph = data()
    kinds = np.where(X[:, 3] > 2, "brick", "wood").astype(object)
    kinds[:700] = np.where(X[:700, 3] > 3, "clay", None)
    table = pd.DataFrame({"a": X[:, 0], "kind": kinds, "b": X[:, 1]})
    y = np.select([X[:, 0] + X[:, 3] > 4.5, X[:, 1] > 2], ["high", "wide"], "low").astype(object)
    y[::3] = None
    parameters = {"smoothing": eb.Laplacian(2.0, 3), "labels": "field", "kind": eb.EBBSClassifier}
    lazy = dd.from_pandas(table, npartitions=5)
    one = fitted(X=table, y=y, graph=graph, **parameters)
    two = fitted(X=lazy, y=dd.from_pandas(pd.Series(y), npartitions=2), graph=graph, **parameters)
    # Solves in training stop at 1e-5; one process has another preconditioner.
    assert_same_model(one, two, atol=0.02)
    assert (
        two.feature_names_in_.tolist() == ["a", "kind", "b"]
        and two.state_.reader.categories == one.state_.reader.categories
    )
    np.testing.assert_allclose(two.predict_proba(), one.predict_proba(), atol=1e-3)
    np.testing.assert_allclose(
        two.predict_proba(lazy, graph=graph), two.predict_proba(table, graph=graph)
    )
    few = {"graph": graph, "nodes": [3, 7]}
    assert two.predict(lazy, **few).tolist() == two.predict(table, **few).tolist()


def test_lengths_of_blocks_need_not_be_known_and_columns_may_be_cut(client):
    import dask.array as da

    X, y, graph = data()
    parameters = {"smoothing": eb.Laplacian(1.0, 2), "labels": "none", "n_estimators": 5}
    one = fitted(X=X, y=y, graph=graph, **parameters)
    unknown = da.concatenate([spread(X[:800], 300), spread(X[800:], 700)])[
        da.from_array(np.ones(N, bool), chunks=N)
    ]
    assert np.isnan(unknown.shape[0])
    for given in (unknown, spread(X, 500, 3)):
        assert_same_model(one, fitted(X=given, y=y, graph=graph, **parameters))


def test_nodes_weights_and_eval_set_mean_what_they_mean_in_one_process(client):
    import dask.array as da

    X, _, graph = data()
    y, nodes, held = X[:, 0] + X[:, 2], np.arange(0, 600), np.arange(700, 900)
    weight = np.linspace(1.0, 2.0, 600)
    given = {
        "smoothing": eb.Laplacian(1.0, 2),
        "labels": "field",
        "n_iter_no_change": 3,
        "learning_rate": 0.5,
    }
    fit = {"nodes": nodes, "sample_weight": weight, "eval_set": (held, y[held])}
    lazily = fit | {
        "sample_weight": da.from_array(weight),
        "eval_set": (held, da.from_array(y)[700:900]),
    }
    one = fitted(X=X, y=y[nodes], graph=graph, fit=fit, **given)
    two = fitted(X=spread(X), y=da.from_array(y[nodes]), graph=graph, fit=lazily, **given)
    assert_same_model(one, two)
    assert one.stop_reason_ == two.stop_reason_


def test_a_worker_without_rows_takes_no_part(client):
    X, y, graph = data()
    model = fitted(
        X=spread(X, N),
        y=y,
        graph=graph,
        smoothing=eb.Laplacian(1.0, 2),
        labels="none",
        n_estimators=3,
    )
    assert model.cluster_["n_workers"] == 1


class Counting(eb.Callback):
    def __init__(self):
        self.seen = 0

    def after_round(self, progress):
        assert progress.model.scores.shape[1] == 1
        self.seen += 1
        return self.seen == 4


def test_callbacks_run_in_a_worker_stop_all_and_come_back(client, capsys):
    X, y, graph = data()
    counting = Counting()
    parameters = {
        "smoothing": eb.Laplacian(1.0, 2),
        "labels": "none",
        "early_stopping": False,
        "verbose": 1,
    }
    model = fitted(X=spread(X), y=y, graph=graph, fit={"callbacks": [counting]}, **parameters)
    assert counting.seen == model.n_iter_ == 4 and model.stop_reason_ == counting.reason
    assert "round 4 " in capsys.readouterr().err


def test_what_was_fitted_on_a_cluster_is_saved_and_loaded_as_any_model(client, tmp_path):
    X, y, graph = data()
    model = fitted(
        X=spread(X),
        y=y,
        graph=graph,
        smoothing=eb.Laplacian(1.0, 2),
        labels="field",
        n_estimators=5,
    )
    model.save(tmp_path / "m.ebb")
    loaded = eb.load(tmp_path / "m.ebb")
    assert (loaded.predict() == model.predict()).all()
    assert json.loads(loaded.ensemble_.files()["trees.json"])  # an ordinary booster of XGBoost's
    assert loaded.explanations([3], X=X)[0].total == pytest.approx(model.predict()[3])
    np.testing.assert_allclose(
        loaded.predict(spread(X), graph=graph), model.predict(X, graph=graph)
    )


def test_a_mistake_in_one_block_is_the_error_of_the_fit(client):
    X, y, graph = data()
    X[1200, 2] = np.inf
    with pytest.raises(
        ValueError, match=r"counted from row 1050: Input X contains infinity.*: row 150,"
    ) as caught:
        fitted(X=spread(X), y=y, graph=graph)
    assert "from the worker inproc://" in caught.value.__notes__[0]


def test_mistakes_that_are_seen_before_anything_is_sent(client):
    import dask.array as da

    X, y, graph = data()
    with pytest.raises(ValueError, match="learner='xgboost'"):
        fitted(X=spread(X), y=y, graph=graph, learner="lightgbm")
    with pytest.raises(ValueError, match="X has 800 rows but graph has 1500"):
        fitted(X=spread(X[:800], 500), y=y, graph=graph)
    with pytest.raises(ValueError, match="one row per node"):
        fitted(X=da.from_array(X[:, 0]), y=y, graph=graph)
    with pytest.raises(ValueError, match="device='cpu'"):
        fitted(X=spread(X), y=y, graph=graph, device="cuda")
    with pytest.raises(ValueError, match="must be dense"):
        fitted(X=spread(X).map_blocks(sparse.csr_matrix, dtype=float), y=y, graph=graph)


def test_a_fit_resumed_by_workers_with_the_same_rows_is_the_same_to_the_last_bit(client, tmp_path):
    X, y, graph = data()
    held = spread(
        X
    ).persist()  # else Dask may give the rows to other workers each time, and sums round otherwise
    parameters = {
        "smoothing": eb.Laplacian(1.0, 2),
        "labels": "field",
        "early_stopping": False,
        "n_estimators": 12,
    }
    kept = {"checkpoint": eb.Checkpoint(tmp_path / "kept", every=5)}
    whole = fitted(X=held, y=y, graph=graph, **parameters)
    stopped = fitted(X=held, y=y, graph=graph, fit=kept | {"callbacks": [Stopping()]}, **parameters)
    assert stopped.n_iter_ == 7
    with pytest.raises(ValueError, match="resume=True"):
        fitted(X=held, y=y, graph=graph, fit=kept, **parameters)
    resumed = fitted(X=held, y=y, graph=graph, fit=kept | {"resume": True}, **parameters)
    assert resumed.n_iter_ == 12 and (resumed.scores_ == whole.scores_).all()
    with pytest.raises(ValueError, match="random_state"):
        fitted(
            X=held,
            y=y,
            graph=graph,
            fit=kept | {"resume": True},
            **parameters | {"random_state": None},
        )


def test_a_search_is_resumed_in_the_middle_of_a_network(client, tmp_path):
    X, y, graph = data(120)
    blocks = spread(X, (50, 70)).persist()
    settings = {"y": y, "graph": graph, "n_estimators": 10, "learning_rate": 0.3, "n_folds": 2}
    settings["early_stopping"] = True
    checkpoint = {"checkpoint": eb.Checkpoint(tmp_path / "checkpoint", every=3)}
    whole = fitted(X=blocks, **settings)
    with pytest.raises(RuntimeError, match="round 8 of a network"):
        fitted(X=blocks, fit=checkpoint | {"callbacks": [FailingInNetwork()]}, **settings)
    resumed = fitted(X=blocks, fit=checkpoint | {"resume": True}, **settings)
    assert resumed.selection_["candidate"] == whole.selection_["candidate"]
    np.testing.assert_array_equal(resumed.predict(), whole.predict())


class FailingInNetwork(eb.Callback):
    def after_round(self, progress):
        if "network" in progress.candidate and progress.round == 8:
            raise RuntimeError("round 8 of a network")


class Stopping(eb.Callback):
    def after_round(self, progress):
        return progress.round == 6


class WaitForFile(eb.Callback):
    """Goes no further than round 5 before there is a file, or after a minute."""

    def __init__(self, path):
        self.path = path

    def after_round(self, progress):
        deadline = time.monotonic() + 60.0
        while progress.round >= 5 and not self.path.exists() and time.monotonic() < deadline:
            time.sleep(0.01)


def test_a_killed_worker_fails_the_fit_by_name_and_resume_goes_on(processes, tmp_path):
    X, y, graph = data()
    ends = pd.DataFrame(np.transpose(graph.adjacency.nonzero()), columns=["from", "to"])
    ends.to_parquet(tmp_path / "edges.parquet", row_group_size=1000)
    graph = eb.ParquetGraph(tmp_path / "edges.parquet")
    parameters = {
        "smoothing": eb.Laplacian(1.0, 2),
        "labels": "field",
        "momentum": True,
        "early_stopping": True,
    }
    held = np.flatnonzero(~np.isnan(y))[::5]
    fit = {"eval_set": (held, y[held])}
    y[held] = np.nan
    undisturbed = fitted(X=spread(X), y=y, graph=graph, fit=fit, **parameters)
    expected = np.asarray(undisturbed.predict())  # from the workers, before one ends
    fit["checkpoint"] = eb.Checkpoint(tmp_path / "kept", every=3)
    address, process = max(processes.run(os.getpid).items())
    killed = tmp_path / "killed"  # seen by the workers too: however slow this process is, they wait

    def kill():
        while not list(tmp_path.glob("kept/*.ckpt")):
            time.sleep(0.01)
        os.kill(process, signal.SIGKILL)
        killed.touch()

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    disturbed = fit | {"callbacks": [WaitForFile(killed)]}
    with pytest.raises(RuntimeError, match=f"Lost the worker {address}"):
        fitted(X=spread(X), y=y, graph=graph, fit=disturbed, **parameters)
    killer.join(10)
    fit["resume"] = True
    # One worker, with blocks of its own.
    resumed = fitted(X=spread(X, N), y=y, graph=graph, fit=fit, **parameters)
    assert len(resumed.history_["training"]) == 15
    np.testing.assert_allclose(np.asarray(resumed.predict()), expected, atol=1e-4)
    np.testing.assert_allclose(
        resumed.history_["validation"], undisturbed.history_["validation"], rtol=1e-4
    )
    with pytest.raises(ValueError, match="X differs"):
        fitted(X=spread(X + 1.0), y=y, graph=graph, fit=fit, **parameters)
