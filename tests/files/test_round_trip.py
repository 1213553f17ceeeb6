"""A loaded model is the model that was saved; a file is written as a whole or not at all."""

import io
import json
import os
import zipfile

import networkx as nx
import numpy as np
import pandas as pd
import pytest

import ebboost as eb
from ebboost.learners import Ensemble, Learner
from tests.files.models import (
    GRAPH,
    MODELS,
    NUMBERS,
    TABLE,
    LogCosh,
    N,
    Y,
    classifier,
    file_of,
    fitted,
    regressor,
)


def reloaded(model, folder, classes=(LogCosh,), **options):
    model.save(folder / "model.ebb", **options)
    return eb.load(folder / "model.ebb", classes=classes)


@pytest.mark.parametrize("kind", MODELS)
def test_a_loaded_model_predicts_the_same(kind, tmp_path):
    model = fitted(kind)
    loaded = reloaded(model, tmp_path)
    new = MODELS[kind][1]
    np.testing.assert_array_equal(loaded.predict(), model.predict())
    np.testing.assert_array_equal(loaded.predict(**new), model.predict(**new))
    assert np.ptp(loaded.model_.raw) > 0.0
    for one, other in zip(loaded.predict(interval=0.9), model.predict(interval=0.9), strict=True):
        np.testing.assert_array_equal(one, other)
    if hasattr(model, "predict_proba"):
        np.testing.assert_array_equal(loaded.predict_proba(**new), model.predict_proba(**new))


@pytest.mark.parametrize("kind", MODELS)
def test_a_loaded_model_says_the_same(kind, tmp_path):
    model = fitted(kind)
    loaded = reloaded(model, tmp_path)
    assert type(loaded) is type(model)
    assert loaded.summary() == model.summary()
    assert loaded.gain_ == model.gain_ and loaded.history_ == model.history_
    np.testing.assert_array_equal(loaded.feature_importances_, model.feature_importances_)
    pd.testing.assert_frame_equal(loaded.selection_, model.selection_)
    for one, other in zip(loaded.explanations([3]), model.explanations([3]), strict=True):
        assert one.own == other.own and one.total == other.total


@pytest.mark.parametrize("kind", MODELS)
def test_the_same_model_is_the_same_bytes(kind, tmp_path):
    content = file_of(fitted(kind), tmp_path)
    assert file_of(fitted(kind), tmp_path) == content
    assert file_of(eb.load(tmp_path / "model.ebb", classes=[LogCosh]), tmp_path) == content


@pytest.mark.parametrize(
    "changes",
    [
        {"smoothing": eb.Laplacian(0.7, 3, method="exact"), "labels": "none"},
        {"learner": eb.RandomNetwork(8), "neighbor_features": eb.NeighborFeatures(("mean", "max"))},
        {"learner": eb.LightGBM(4, params={"interaction_constraints": [["u"], ["v"]]})},
        {"loss": "huber", "learning_rate": np.float64(0.5), "max_seconds": 1e9},
        {"categorical_features": (0, 1)},
        {"categorical_features": np.array([1])},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_parameters_survive(changes, tmp_path):
    model = regressor(early_stopping=False, **changes).fit(NUMBERS, Y, graph=GRAPH)
    loaded = reloaded(model, tmp_path)
    np.testing.assert_array_equal(loaded.predict(), model.predict())
    expected = repr(model.get_params()).replace("np.float64(0.5)", "0.5")
    assert repr(loaded.get_params()) == expected
    loaded.fit(NUMBERS, Y, graph=GRAPH)
    np.testing.assert_array_equal(loaded.predict(), model.predict())


def test_states_of_random_generators_are_not_stored(tmp_path):
    model = regressor(random_state=np.random.RandomState(0)).fit(NUMBERS, Y)
    assert reloaded(model, tmp_path).random_state is None


@pytest.mark.parametrize(
    "ids", [[(0, 1), (0, 2), (1, 1)], [5, "x", (1, ("y", 2.5))], [30, 10, 20], ["ü", "", "a"]]
)
def test_node_ids_survive(ids, tmp_path):
    graph = eb.Graph.from_networkx(nx.path_graph(ids), nodes=ids)
    model = eb.EBBSRegressor(1, n_jobs=1).fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 2.0], graph=graph)
    graph = reloaded(model, tmp_path).graph_
    assert graph.node_ids.tolist() == ids
    assert graph.index_of(ids[::-1]).tolist() == [2, 1, 0]
    with pytest.raises(ValueError, match="read-only"):
        graph.adjacency.data[0] = 2.0


@pytest.mark.parametrize(
    ("labels", "class_weight"),
    [
        ([0, 1], {0: 1.0, 1: 2.0}),
        ([True, False], "balanced"),
        ([1.0, 2.0], None),
        (["a", "ü"], None),
    ],
)
def test_classes_keep_their_type(labels, class_weight, tmp_path):
    model = classifier(class_weight=class_weight).fit(NUMBERS, np.array(labels * (N // 2)))
    loaded = reloaded(model, tmp_path)
    assert loaded.classes_.dtype == model.classes_.dtype
    assert (loaded.predict() == model.predict()).all()
    assert loaded.class_weight == class_weight


@pytest.mark.parametrize(
    "index",
    [
        pd.Index([f"row {i}" for i in range(N)]),
        pd.Index(np.arange(N)[::-1] + 5),
        pd.MultiIndex.from_arrays([np.arange(N) % 3, np.arange(N)]),
    ],
    ids=["text", "numbers", "pairs"],
)
def test_the_index_of_the_table_is_compared_after_loading(index, tmp_path):
    X = NUMBERS.set_axis(index)
    model = regressor(labels="field").fit(X, Y, graph=GRAPH)
    loaded = reloaded(model, tmp_path)
    values = pd.Series(1.0, index[::-1])
    for one in (model, loaded):
        with pytest.raises(ValueError, match="lists the rows in another order"):
            one.predict(new_labels=(np.arange(N), values))


def test_an_index_of_dates_is_not_stored(tmp_path):
    X = NUMBERS.set_axis(pd.date_range("2020-01-01", periods=N))
    model = regressor().fit(X, Y)
    loaded = reloaded(model, tmp_path)
    assert loaded.model_.row_labels is None
    np.testing.assert_array_equal(loaded.predict(), model.predict())


def test_a_model_saved_without_its_table_predicts_and_cannot_be_explained(tmp_path):
    model = fitted("regressor")
    loaded = reloaded(model, tmp_path, table=False)
    np.testing.assert_array_equal(loaded.predict(), model.predict())
    with pytest.raises(ValueError, match="table"):
        loaded.explanations([3])
    assert loaded.explanations([3], TABLE)[0].own == model.explanations([3])[0].own


class Halved(eb.EBBSRegressor):
    """An estimator of the user's own."""

    def predict(self, X=None, **where):
        return super().predict(X, **where) / 2.0


class Doubled(eb.Laplacian):
    """A smoother of the user's own."""

    def operator(self, graph):
        return eb.Laplacian(2.0 * self.lam, self.n_steps).operator(graph)


class Means(Learner):
    """A learner of the user's own, which fits constants."""

    name = "means"

    def bin(self, table, rows, **options):
        return MeansGrower(len(table.names), rows.size)

    @classmethod
    def load(cls, files):
        mean, n_columns = json.loads(files["mean.json"])
        return MeansEnsemble(np.array(mean), n_columns)


class MeansGrower:
    def __init__(self, n_columns, n_rows):
        self.n_columns, self.n_rows, self.values = n_columns, n_rows, []

    def grower(self, seed):
        return MeansGrower(self.n_columns, self.n_rows)

    def grow(self, gradient, curvature):
        self.values.append(-gradient.mean(axis=0) / curvature.mean())
        return np.tile(self.values[-1], (self.n_rows, 1))

    def compile(self, weights):
        total = sum((w * v for w, v in zip(weights, self.values, strict=False)), np.zeros(1))
        return MeansEnsemble(total, self.n_columns)


class MeansEnsemble(Ensemble):
    learner = "Means"

    def __init__(self, mean, n_columns):
        self.mean_value, self.n_columns = mean, n_columns

    def predict(self, table):
        return np.tile(self.mean_value, (table.n_rows, 1))

    def importances(self):
        return np.zeros(self.n_columns)

    def files(self):
        return {"mean.json": json.dumps([self.mean_value.tolist(), self.n_columns]).encode()}


@pytest.mark.parametrize(
    ("estimator", "own"),
    [
        (regressor(loss=LogCosh(0.5)), LogCosh),
        (Halved(3, random_state=0, n_jobs=1), Halved),
        (regressor(smoothing=Doubled(), labels="none"), Doubled),
        (regressor(learner=Means(), early_stopping=False), Means),
    ],
    ids=["loss", "estimator", "smoother", "learner"],
)
def test_classes_of_the_users_own_are_passed_to_load(estimator, own, tmp_path):
    model = estimator.fit(NUMBERS, Y, graph=GRAPH)
    model.save(tmp_path / "model.ebb")
    with pytest.raises(eb.ModelFileError, match=rf"{own.__name__}.*classes="):
        eb.load(tmp_path / "model.ebb")
    loaded = eb.load(tmp_path / "model.ebb", classes=[own])
    np.testing.assert_array_equal(loaded.predict(), model.predict())
    assert repr(loaded.get_params()) == repr(model.get_params())


@pytest.mark.parametrize("classes", [5, [5], ["EBBSRegressor"]])
def test_load_rejects_classes_that_are_not_classes(classes, tmp_path):
    fitted("no graph").save(tmp_path / "model.ebb")
    with pytest.raises(TypeError, match="classes must be a list of classes, got"):
        eb.load(tmp_path / "model.ebb", classes=classes)


class WithFunction(LogCosh):
    def __init__(self, scale=1.0, function=np.cosh):
        self.scale = scale
        self.function = function


def test_what_needs_pickle_is_rejected_and_named(tmp_path):
    path = tmp_path / "model.ebb"
    binned = NUMBERS.assign(bin=pd.cut(NUMBERS["u"], 3))
    with pytest.raises(ValueError, match=r"categories.*Interval.*numbers or text before you fit"):
        regressor().fit(binned, Y).save(path)
    with pytest.raises(ValueError, match=r"loss\.function is .*cosh.*class of your own"):
        regressor(loss=WithFunction()).fit(NUMBERS, Y).save(path)
    assert not path.exists()


def test_a_file_is_json_text_and_arrays_that_numpy_reads(tmp_path):
    content = file_of(fitted("regressor"), tmp_path)
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        assert {name.rpartition(".")[2] for name in file.namelist()} == {"json", "txt", "npy"}
        assert {info.date_time for info in file.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        manifest = json.loads(file.read("manifest.json"))
    assert manifest["format"] == "ebboost model" and manifest["format_version"] == 2
    assert manifest["ebboost"] == eb.__version__
    with np.load(tmp_path / "model.ebb", allow_pickle=False) as arrays:
        names = [name for name in arrays.files if name.endswith("scores")]
        assert all(arrays[name].dtype.kind in "fi" for name in names)


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    before = file_of(fitted("regressor"), tmp_path)

    def full_disk(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OSError, match="No space"):
        fitted("no graph").save(tmp_path / "model.ebb")
    assert (tmp_path / "model.ebb").read_bytes() == before
    assert os.listdir(tmp_path) == ["model.ebb"]


def test_a_file_is_flushed_before_it_replaces_the_old_one(tmp_path, monkeypatch):
    done = []
    for name in ("fsync", "replace"):
        call = getattr(os, name)
        monkeypatch.setattr(
            os, name, lambda *args, call=call, name=name: (done.append(name), call(*args))
        )
    fitted("no graph").save(tmp_path / "model.ebb")
    assert done == ["fsync", "replace"]


def test_a_new_file_has_the_usual_permissions(tmp_path):
    fitted("no graph").save(tmp_path / "model.ebb")
    (tmp_path / "other").touch()
    assert (tmp_path / "model.ebb").stat().st_mode == (tmp_path / "other").stat().st_mode


def test_places_where_no_file_can_be_are_named(tmp_path):
    model = fitted("no graph")
    with pytest.raises(FileNotFoundError, match="nowhere"):
        model.save(tmp_path / "nowhere" / "model.ebb")
    with pytest.raises(OSError, match="cannot be written: it is a folder"):
        model.save(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"nothing\.ebb"):
        eb.load(tmp_path / "nothing.ebb")
    with pytest.raises(IsADirectoryError):
        eb.load(tmp_path)
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes")
def test_devices_and_pipes_are_neither_read_nor_replaced(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with pytest.raises(eb.ModelFileError, match="pipe is not an ebboost model, but a device, pipe"):
        eb.load(path)  # would wait for a writer
    with pytest.raises(OSError, match=r"cannot be written.*pipe"):
        fitted("no graph").save(path)
    assert path.is_fifo() and os.listdir(tmp_path) == ["pipe"]


def test_a_model_of_constant_numbers_is_no_zip_bomb(tmp_path):
    n_rows = 200_000
    model = eb.EBBSRegressor(1, n_jobs=1).fit(np.zeros((n_rows, 20)), np.zeros(n_rows))
    assert (reloaded(model, tmp_path).predict() == model.predict()).all()
