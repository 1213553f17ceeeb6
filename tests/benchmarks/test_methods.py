"""Every method that is installed, on small tasks of all kinds."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import ebboost as eb
from benchmarks import __main__ as command_line
from benchmarks import database, intervals, methods, speed
from benchmarks.methods import METHODS, label_columns
from benchmarks.tasks import Task, fit_and_predict

N = 120


def task(kind="numbers"):
    rng = np.random.default_rng(0)
    places = rng.random((N, 2))
    X = pd.DataFrame(rng.normal(size=(N, 2)), columns=["a", "b"])
    X.loc[::9, "b"] = np.nan
    X["kind"] = rng.choice(["x", "y"], N)
    y = np.sin(5 * places[:, 0]) + X["a"].to_numpy()
    known, validation, test = np.split(rng.permutation(N), [60, 90])
    graph = eb.Graph.build_knn(places, 4)
    own = Task(kind, X, y, graph, known, test, validation, coordinates=places)
    if kind == "classes":
        return replace(own, y=np.digitize(y, [-0.5, 0.5]), metric="log-loss")
    if kind == "sparse":
        return replace(own, X=sparse.csr_array(np.nan_to_num(X[["a", "b"]].to_numpy())))
    if kind == "counts":
        exposure = {"exposure": rng.uniform(1, 3, N)}
        counts = rng.poisson(np.exp(y)).astype(float)
        parameters = {"loss": "poisson"}
        own = replace(own, y=counts, metric="Poisson deviance", parameters=parameters)
        return replace(own, eval_set=None, arguments=exposure)
    if kind == "groups":
        ids = {"groups": rng.integers(0, 20, N)}
        graph = eb.Graph.build_knn(rng.random((20, 2)), 3)
        return replace(own, graph=graph, arguments=ids, new_rows=True, coordinates=None)
    return own


@pytest.mark.parametrize("kind", ["numbers", "classes", "sparse", "counts", "groups"])
@pytest.mark.parametrize("name", [name for name in METHODS if name not in ("GPBoost", "GNN")])
def test_methods_beat_a_constant(name, kind):
    method, own = METHODS[name], task(kind)
    if not method.is_installed or not method.can(own):
        pytest.skip("it cannot do this, or is not installed")
    labels = own.y[own.known]
    constant = np.bincount(labels) / labels.size if own.n_classes else labels.mean()
    shape = (own.test.size, *np.shape(constant))
    predictions = method.predict(own)
    assert predictions.shape == shape
    assert own.error(predictions) < own.error(np.broadcast_to(constant, shape))


def test_a_network_learns_from_labels_of_neighbours(monkeypatch):
    networks = pytest.importorskip("benchmarks.networks", exc_type=ImportError)
    monkeypatch.setattr(networks, "EPOCHS", 60)
    own = task()
    predictions = methods.gnn(own)
    assert own.error(predictions) < own.y[own.test].std()


def test_labels_of_neighbours_leave_out_the_own_one():
    graph = eb.Graph.from_edges([0, 0, 1], [1, 2, 2], n_nodes=4)
    own = replace(task(), X=None, y=np.array([1.0, 2.0, 6.0, 9.0]))
    columns = label_columns(own, graph, np.arange(4), np.array([0, 1]))
    np.testing.assert_array_equal(columns[:, 0], [2.0, 1.0, 1.5, np.nan])
    np.testing.assert_array_equal(columns[:, 1], [1.0, 1.0, 2.0, 0.0])
    two_of_a_node = label_columns(own, graph, np.array([0, 0, 1, 1]), np.array([0, 1, 2]))
    np.testing.assert_array_equal(two_of_a_node[:, 2], [2.0, 1.0, np.nan, 6.0])


def test_test_labels_are_hidden_from_networks():
    own = task()
    changed = own.y.copy()
    changed[own.test] += 100.0
    for name, values in methods.arrays(own).items():
        np.testing.assert_array_equal(values, methods.arrays(replace(own, y=changed))[name])


def test_errors_by_hand():
    own = replace(task(), y=np.array([0, 1]), test=np.arange(2), metric="log-loss")
    probabilities = np.array([[0.5, 0.5], [0.25, 0.75]])
    assert own.error(probabilities) == pytest.approx(-(np.log(0.5) + np.log(0.75)) / 2)
    assert replace(own, metric="error rate").error(probabilities) == 0.0
    assert replace(own, metric="RMSE").error(np.array([1.0, 3.0])) == pytest.approx(np.sqrt(2.5))
    deviance = replace(own, metric="Poisson deviance").error(np.array([1.0, 1.0]))
    assert deviance == pytest.approx(1.0)


def test_runs_go_on_where_they_stopped(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(command_line, "TASKS", {"elect80": (2, lambda split, on: task())})
    store = tmp_path / "rows.jsonl"
    arguments = ["run", "--data", "elect80", "--methods", "LightGBM", "--store", str(store)]
    assert command_line.main([*arguments, "--splits", "0"]) == 0
    first = next(iter(database.read(store).values()))
    assert first["error"] > 0 and first["labels"] == 90 and first["version"].startswith("lightgbm")
    assert command_line.main(arguments) == 0
    assert capsys.readouterr().out.count("LightGBM") == 2
    assert len(database.read(store)) == 2


def test_a_failing_method_does_not_stop_the_others(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(command_line, "TASKS", {"elect80": (1, lambda split, on: task())})

    def broken(task):
        raise ValueError("no luck")

    monkeypatch.setitem(METHODS, "LightGBM", methods.Method(broken, "lightgbm"))
    store = ["--store", str(tmp_path / "rows.jsonl")]
    names = ["LightGBM", "+ neighbours"]
    assert command_line.main(["run", "--data", "elect80", "--methods", *names, *store]) == 1
    assert "no luck" in capsys.readouterr().err
    assert [key[3] for key in database.read(tmp_path / "rows.jsonl")] == ["+ neighbours"]


def test_speed_measures_a_fit():
    row = speed.measure("LightGBM", 500)
    assert row["rows"] == 500 and 0.5 < row["error"] < 2.0 and row["processor_seconds"] > 0


def test_interval_scores_punish_what_lies_outside():
    lower, upper = np.zeros(4), np.ones(4)
    coverage, score = intervals.scored(lower, upper, np.array([0.5, 1.0, 1.5, -0.5]))
    assert coverage == 0.5 and score == pytest.approx(1.0 + 20 * 0.25)
    assert fit_and_predict(task(), n_estimators=2)[1].shape == (30,)
