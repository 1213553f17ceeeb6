"""A loaded model predicts the same bit for bit; a damaged file is not loaded."""

import errno
import io
import json
import os
import sys
import zipfile
from pathlib import Path

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.linear_model import Ridge

import ebboost as eb
from ebboost.data import archive
from ebboost.model.serialization import describe
from tests.model.problems import GRAPH, NUMBERS, SMALL_GRAPH, TABLE, TARGET, N, fit
from tests.problems import skewed


class LogCosh(eb.Loss):
    """A user-defined loss with a parameter."""

    def __init__(self, scale=1.0):
        self.scale = scale

    def value(self, scores, target):
        return self.scale * np.log(np.cosh(scores - target)).sum(axis=1)

    def gradient(self, scores, target):
        return self.scale * np.tanh(scores - target)

    def curvature(self, scores, target):
        return self.scale


class Halved(eb.EBBSRegressor):
    """A user-defined estimator."""

    def predict(self, X=None, *, graph=None, nodes=None):
        return super().predict(X, graph=graph, nodes=nodes) / 2


def squared(s):
    return s**2


class SquaredKernel(eb.Kernel):
    """A user-defined kernel whose function is in its class."""

    def __init__(self, lam=2.0):
        super().__init__(squared, lam)


@pytest.mark.parametrize("columns", [["u", "v"], list(TABLE)], ids=["numbers", "categories"])
@pytest.mark.parametrize("graph", [None, GRAPH], ids=["no graph", "named graph"])
@pytest.mark.parametrize("learner", ["lightgbm", "xgboost", "catboost"])
@pytest.mark.parametrize("kind", [eb.EBBSRegressor, eb.EBBSClassifier])
def test_a_loaded_model_predicts_the_same(tmp_path, kind, learner, graph, columns):
    averaged = learner == "lightgbm"  # with early stopping, candidates and folds are
    model = fit(kind, learner=learner, graph=graph, X=TABLE[columns], early_stopping=averaged)
    model.save(tmp_path / "m.ebb")
    loaded = eb.load(tmp_path / "m.ebb")
    new = TABLE[columns].iloc[:5].reset_index(drop=True)
    if "town" in columns:
        new["town"] = ["Ulm", "Rom", None, "Bonn", "Kiel"]
    new_graph = None if graph is None else SMALL_GRAPH
    assert np.ptp(model.propagated_scores_) > 0 and np.ptp(model.ensemble_.importances()) > 0
    for call in ("predict", "predict_proba") if kind is eb.EBBSClassifier else ("predict",):
        assert (getattr(loaded, call)() == getattr(model, call)()).all()
        arguments = {"graph": new_graph}
        members = model.state_.members or [model.state_]
        if any(one.candidate.labels is not None for one in members):
            arguments["new_labels"] = ([], [])
        assert (
            getattr(loaded, call)(new, **arguments) == getattr(model, call)(new, **arguments)
        ).all()
    assert loaded.get_params() == model.get_params()
    assert loaded.feature_names_in_.tolist() == columns
    assert (loaded.feature_importances_ == model.feature_importances_).all()
    assert loaded.n_iter_ == model.n_iter_
    assert loaded.history_ == {
        name: values for name, values in model.history_.items() if name != "seconds"
    }
    if kind is eb.EBBSClassifier:
        assert loaded.classes_.tolist() == ["high", "low", "mid"]
    if graph is not None:
        assert loaded.graph_.node_ids.tolist() == graph.node_ids.tolist()
        assert (loaded.graph_.adjacency != graph.adjacency).nnz == 0
        with pytest.raises(ValueError, match="read-only"):
            loaded.graph_.adjacency.data[0] = 2.0


@pytest.mark.parametrize(
    "changes",
    [
        {
            "smoothing": eb.Laplacian(0.7, 3, method="chebyshev"),
            "feature_smoothing": eb.Laplacian(20.0, 5),
        },
        {"smoothing": eb.Kernel("random-walk", 8.0, p=2, a=2.5), "labels": "none"},
        {
            "learner": eb.LightGBM(num_leaves=4, params={"extra_trees": True}),
            "momentum": True,
            "penalty": 0.1,
        },
        {
            "momentum": eb.CorrectedMomentum(0.1, restart=False),
            "smoothing": eb.Laplacian(1.0, "auto"),
        },
        {"learner": eb.CatBoost(depth=2, newton=True), "categorical_features": ["u"]},
        {"loss": eb.Quantile(0.9), "smoothing": None},
        {
            "loss": "huber",
            "random_state": np.random.RandomState(3),
            "learning_rate": np.float64(0.5),
        },
        {"categorical_features": (0, 1)},
        {"categorical_features": np.array([1])},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_parameters_survive(tmp_path, changes):
    model = fit(early_stopping=False, **changes)
    model.save(tmp_path / "m.ebb")
    loaded = eb.load(tmp_path / "m.ebb")
    assert (loaded.predict() == model.predict()).all()
    assert (loaded.predict(TABLE, graph=GRAPH) == model.predict(TABLE, graph=GRAPH)).all()
    expected = model.get_params()
    for name, value in loaded.get_params().items():
        if name == "random_state" and changes.get(name) is not None:
            assert value is None  # the state of a generator is not stored
        elif not hasattr(value, "get_params"):
            assert type(value) is type(expected[name]) or isinstance(expected[name], np.generic)
            assert np.array_equal(value, expected[name])


@pytest.mark.parametrize(
    "ids", [[(0, 1), (0, 2), (1, 1)], [5, "x", (1, ("y", 2.5))], [30, 10, 20], ["ü", "", "a"]]
)
def test_node_ids_survive(tmp_path, ids):
    graph = eb.Graph.from_networkx(nx.path_graph(ids), nodes=ids)
    eb.EBBSRegressor(n_estimators=1, n_jobs=1).fit(
        [[0.0], [1.0], [2.0]], [0.0, 1.0, 2.0], graph=graph
    ).save(tmp_path / "m.ebb")
    loaded = eb.load(tmp_path / "m.ebb").graph_
    assert loaded.node_ids.tolist() == ids
    assert loaded.index_of(ids[::-1]).tolist() == [2, 1, 0]


@pytest.mark.parametrize(
    ("labels", "class_weight"),
    [([0, 1], {0: 1.0, 1: 2.0}), ([True, False], "balanced"), ([1.0, 2.0], None)],
)
def test_classes_keep_their_type(tmp_path, labels, class_weight):
    model = eb.EBBSClassifier(n_estimators=2, n_jobs=1, class_weight=class_weight)
    model.fit(NUMBERS, np.array(labels * (N // 2))).save(tmp_path / "m.ebb")
    loaded = eb.load(tmp_path / "m.ebb")
    assert loaded.classes_.dtype == model.classes_.dtype
    assert (loaded.predict() == model.predict()).all()
    assert loaded.class_weight == class_weight


def test_a_table_without_names_and_a_graph_without_ids_survive(tmp_path):
    graph = eb.Graph.from_edges(np.arange(N - 1), np.arange(1, N))
    X = NUMBERS.to_numpy()
    model = fit(X=X, graph=graph)
    model.save(tmp_path / "m.ebb")
    loaded = eb.load(tmp_path / "m.ebb")
    assert not hasattr(loaded, "feature_names_in_") and not loaded.graph_.has_ids
    assert (
        loaded.ensemble_.booster.params["objective"] == model.ensemble_.booster.params["objective"]
    )
    assert (loaded.predict(X, graph=graph) == model.predict(X, graph=graph)).all()


def test_a_loaded_model_saves_to_the_same_bytes(tmp_path):
    for learner in ("lightgbm", "xgboost", "catboost"):
        model = fit(learner=learner)
        for name in ("a", "b"):
            model.save(tmp_path / name)
        eb.load(tmp_path / "a").save(tmp_path / "c")
        assert (
            (tmp_path / "a").read_bytes()
            == (tmp_path / "b").read_bytes()
            == (tmp_path / "c").read_bytes()
        )


def test_a_file_is_json_arrays_and_text_without_dates(model_file):
    with zipfile.ZipFile(io.BytesIO(model_file)) as file:
        others = set(file.namelist()) - {"arrays.npz", "manifest.json"}
        assert len(file.namelist()) == len(others) + 2 >= 3
        assert all(name.endswith(("trees.txt", ".npy")) for name in others)
        inner = zipfile.ZipFile(io.BytesIO(file.read("arrays.npz")))
        assert {info.date_time for info in (*file.infolist(), *inner.infolist())} == {
            (1980, 1, 1, 0, 0, 0)
        }
        manifest = json.loads(file.read("manifest.json"))
        assert manifest["format_version"] == 1 and manifest["parameters"]["n_estimators"] == 3
        with np.load(io.BytesIO(file.read("arrays.npz")), allow_pickle=False) as arrays:
            assert all(arrays[name].dtype.kind in "fiub" for name in arrays.files)


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "m.ebb"
    fit().save(path)
    before = path.read_bytes()
    written = []

    def full_disk(self, info, content, *args):
        written.append(info.filename)
        if len(written) == 2:
            raise OSError(28, "No space left on device")
        return original(self, info, content, *args)

    original = zipfile.ZipFile.writestr
    monkeypatch.setattr(zipfile.ZipFile, "writestr", full_disk)
    with pytest.raises(OSError, match="No space"):
        fit(n_estimators=5).save(path)
    assert len(written) == 2
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["m.ebb"]


def test_a_file_is_flushed_to_disk_before_it_replaces_the_old_one(tmp_path, monkeypatch):
    done = []
    fsync = os.fsync
    replace = os.replace
    monkeypatch.setattr(os, "fsync", lambda handle: (done.append("fsync"), fsync(handle)))
    monkeypatch.setattr(os, "replace", lambda *paths: (done.append("replace"), replace(*paths)))
    fit().save(tmp_path / "m.ebb")
    assert done == (["fsync", "replace", "fsync"] if os.name == "posix" else ["fsync", "replace"])


def test_a_model_of_constant_numbers_is_not_rejected_as_a_zip_bomb(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "max_unpacked_size", lambda size: 20_000 + 2 * size)
    graph = eb.Graph.from_networkx(
        nx.path_graph([f"https://example.org/nodes/{i:040d}" for i in range(2_000)])
    )
    model = eb.EBBSRegressor(1).fit(np.zeros((2_000, 1)), np.zeros(2_000), graph=graph)
    model.save(tmp_path / "m.ebb", table=True)
    assert (eb.load(tmp_path / "m.ebb").predict() == model.predict()).all()


def test_a_new_file_has_the_usual_permissions(tmp_path):
    fit().save(tmp_path / "m.ebb")
    (tmp_path / "other").touch()
    assert (tmp_path / "m.ebb").stat().st_mode == (tmp_path / "other").stat().st_mode


def test_missing_folders_are_named(tmp_path):
    with pytest.raises(
        FileNotFoundError, match=r"m\.ebb cannot be written: there is no folder .*nowhere"
    ):
        fit().save(tmp_path / "nowhere" / "m.ebb")
    with pytest.raises(IsADirectoryError, match="it is a folder"):
        fit().save(tmp_path)
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes")
def test_devices_and_pipes_are_neither_read_nor_replaced(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with pytest.raises(eb.ModelFileError, match="pipe is not an ebboost model, but a device, pipe"):
        eb.load(path)  # would wait for a writer
    with pytest.raises(OSError, match=r"cannot be written: it is not a file: .*pipe"):
        fit().save(path)
    assert path.is_fifo() and os.listdir(tmp_path) == ["pipe"]


def test_a_file_that_cannot_be_written_is_named(tmp_path, monkeypatch):
    def denied(**options):
        raise PermissionError(errno.EACCES, "Permission denied", f"{tmp_path}/.ebboost-x.part")

    monkeypatch.setattr("ebboost.data.archive.tempfile.mkstemp", denied)
    with pytest.raises(PermissionError, match=r"Permission denied: .*m\.ebb"):
        fit().save(tmp_path / "m.ebb")


def test_models_that_need_pickle_are_rejected_before_writing(tmp_path):
    path = tmp_path / "m.ebb"
    with pytest.raises(
        ValueError, match=r"scikit-learn regressors cannot be saved.*learner='lightgbm'"
    ):
        fit(learner=Ridge(), X=NUMBERS.fillna(0.0)).save(path)
    binned = NUMBERS[["u"]].assign(bin=pd.cut(NUMBERS["u"], 3))
    with pytest.raises(ValueError, match=r"Interval.*numbers or text before you fit"):
        fit(X=binned).save(path)
    with pytest.raises(
        ValueError, match=r"r=.*squared.* of Kernel is a function.*subclass.*classes="
    ):
        fit(smoothing=eb.Kernel(squared), labels="none").save(path)
    assert not path.exists()


def test_a_truncated_file_is_rejected(tmp_path, small_file):
    path = tmp_path / "m.ebb"
    path.write_bytes(small_file)
    for length in range(len(small_file) - 1, -1, -97):
        os.truncate(path, length)
        for read in (eb.load, describe):
            with pytest.raises(
                eb.ModelFileError, match=r"or it is damaged \(.*pass a complete file"
            ):
                read(path)


def test_a_file_of_a_newer_version_is_rejected(tmp_path, small_file):
    path = tmp_path / "m.ebb"
    with zipfile.ZipFile(io.BytesIO(small_file)) as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            content = old.read(name).replace(b'"format_version": 1', b'"format_version": 2')
            new.writestr(name, content)
    with pytest.raises(eb.ModelFileError, match=r"m\.ebb was written by a newer ebboost"):
        eb.load(path)


@pytest.mark.parametrize("content", [b"", b"not a zip", b"PK\x03\x04", b"\x80\x04K\x01."])
def test_other_files_are_rejected(tmp_path, content):
    path = tmp_path / "m.ebb"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"m\.ebb is not an ebboost model"):
        eb.load(path)


def test_missing_files_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nothing\.ebb"):
        eb.load(tmp_path / "nothing.ebb")
    with pytest.raises(IsADirectoryError, match="is a folder, not an ebboost model: name a file"):
        eb.load(tmp_path)


@pytest.mark.parametrize(
    ("model", "own"),
    [
        ({"loss": LogCosh(0.5)}, LogCosh),
        ({"kind": Halved}, Halved),
        ({"smoothing": SquaredKernel(3.0), "labels": "none"}, SquaredKernel),
    ],
)
def test_user_defined_classes_must_be_passed_to_load(tmp_path, model, own):
    path = tmp_path / "m.ebb"
    model = fit(early_stopping=False, **model)
    model.save(path)
    with pytest.raises(ValueError, match=rf"{own.__name__}.*classes="):
        eb.load(path)
    loaded = eb.load(path, classes=[own])
    assert (loaded.predict() == model.predict()).all()
    assert own in (type(loaded), type(loaded.loss_), type(loaded.smoothing_))
    assert repr(loaded.get_params()) == repr(model.get_params())


@pytest.mark.parametrize("learner", ["lightgbm", "catboost"])
@pytest.mark.parametrize("sparse_table", [False, True])
def test_a_model_saved_with_its_table_can_be_explained(tmp_path, learner, sparse_table):
    X = sparse.csr_array(np.nan_to_num(NUMBERS.to_numpy())) if sparse_table else TABLE
    model = fit(X=X, learner=learner)
    model.save(tmp_path / "with.ebb", table=True)
    loaded = eb.load(tmp_path / "with.ebb")
    for one, other in zip(loaded.explanations([3, 50]), model.explanations([3, 50]), strict=True):
        assert one.own == other.own and one.total == other.total
    loaded.save(tmp_path / "again.ebb", table=True)
    assert (tmp_path / "again.ebb").read_bytes() == (tmp_path / "with.ebb").read_bytes()


def test_a_model_saved_without_its_table_cannot_be_explained(tmp_path):
    fit().save(tmp_path / "without.ebb")
    loaded = eb.load(tmp_path / "without.ebb")
    with pytest.raises(ValueError, match="table=True"):
        loaded.explanations([3])
    with pytest.raises(ValueError, match="has no table"):
        loaded.save(tmp_path / "again.ebb", table=True)


@pytest.mark.parametrize("kind", [eb.EBBSRegressor, eb.EBBSClassifier])
def test_validation_nodes_survive(tmp_path, kind):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    y = X[:, 0] if kind is eb.EBBSRegressor else np.where(X[:, 0] > 0, "up", "down")
    model = kind(5, n_jobs=1, random_state=0).fit(X, y, graph=eb.Graph.build_knn(X, 3))
    model.save(tmp_path / "m.ebb")
    loaded = eb.load(tmp_path / "m.ebb")
    nodes = loaded.validation_nodes_
    assert nodes.size == loaded.validation_prediction_.shape[0]
    assert nodes.size == 200 if kind is eb.EBBSRegressor else 20
    codes = y if kind is eb.EBBSRegressor else np.searchsorted(model.classes_, y)
    np.testing.assert_array_equal(loaded.validation_target_[:, 0], codes[nodes])
    np.testing.assert_array_equal(loaded.validation_prediction_, model.validation_prediction_)
    before = (loaded.state_.validation.without_graph, model.state_.validation.without_graph)
    np.testing.assert_array_equal(*before)
    assert loaded.gain_ == model.gain_
    assert loaded.rounds_ == model.rounds_


def test_members_of_an_average_survive_with_what_their_columns_learned(tmp_path):
    model = fit(smoothing=None, labels="field", neighbor_features=eb.NeighborFeatures())
    other = fit(smoothing=eb.Laplacian(), labels="none", neighbor_features=eb.NeighborFeatures())
    average = type(model).from_state(model.state_.with_members((model.state_, other.state_)))
    average.save(tmp_path / "m.ebb")
    loaded = eb.load(tmp_path / "m.ebb")
    new = {"graph": SMALL_GRAPH, "new_labels": ([], [])}
    rows = TABLE.iloc[:5].reset_index(drop=True)
    expected = (model.predict(rows, **new) + other.predict(rows, graph=SMALL_GRAPH)) / 2
    assert loaded.predict() == pytest.approx((model.predict() + other.predict()) / 2)
    assert average.predict(rows, **new) == pytest.approx(expected)
    assert loaded.predict(rows, **new) == pytest.approx(expected)
    assert loaded.state_.candidate_names == ["as given", "as given"]
    assert loaded.rounds_ == model.rounds_ + other.rounds_


@pytest.mark.parametrize("unit", [1e-9, 1e12])
def test_fields_in_the_unit_of_small_and_large_counts_are_loaded(unit, tmp_path):
    X, y, graph = skewed(200)
    m = eb.EBBSRegressor(10, 0.3, loss="poisson", labels=eb.LatentField(2e-3 * unit, 2e-6 * unit))
    m.fit(X, unit * y[:150], nodes=np.arange(150), graph=graph)
    m.save(tmp_path / "m.ebb")
    np.testing.assert_array_equal(eb.load(tmp_path / "m.ebb").predict(), m.predict())


def test_projections_of_fewer_rows_than_directions_are_loaded(tmp_path):
    rng = np.random.default_rng(0)
    kind = np.arange(100) % 2
    words = rng.random((100, 300)) < np.where(kind[:, None] == (np.arange(300) % 2), 0.2, 0.1)
    graph = eb.Graph.build_knn(rng.normal(size=(100, 2)), k=3)
    m = eb.EBBSClassifier(10, random_state=0, n_jobs=1, labels="none")
    m.fit(sparse.csr_array(words.astype(float)), kind, graph=graph)
    projections = [one.pipeline.low_rank for one in m.state_.candidates]
    assert any(one is not None and one.directions.shape[1] < 128 for one in projections)
    m.save(tmp_path / "m.ebb")
    loaded = eb.load(tmp_path / "m.ebb")
    np.testing.assert_array_equal(loaded.predict_proba(), m.predict_proba())


def test_describe_returns_names_and_sizes(tmp_path):
    X, graph = (
        np.random.default_rng(0).normal(size=(60, 2)),
        eb.Graph.from_edges(np.arange(59), np.arange(1, 60)),
    )
    y = np.where(X[:, 0] > 0, "up", "down").astype(object)
    y[:5] = None
    model = eb.EBBSClassifier(3, random_state=0).fit(X, y, graph=graph)
    model.save(tmp_path / "m.ebb")
    facts = describe(tmp_path / "m.ebb")
    assert (facts["n_nodes"], facts["n_edges"], facts["n_labels"]) == (60, 59, 55)
    assert (
        facts["classes"] == ["down", "up"]
        and facts["columns"] == ["x0", "x1"]
        and facts["rounds"] == model.rounds_
    )
    assert facts["source"] is None and not facts["has_table"] and sum(facts["bytes"].values()) > 0
    source = {"id": "fips", "target": "trend"}
    model.save(tmp_path / "named.ebb", table=True, source=source)
    facts = describe(tmp_path / "named.ebb")
    assert (
        facts["source"] == source == eb.load(tmp_path / "named.ebb").state_.source
        and facts["has_table"]
    )
    (tmp_path / "broken.ebb").write_bytes((tmp_path / "m.ebb").read_bytes()[:-40])
    with pytest.raises(ValueError, match="not an ebboost model, or it is damaged"):
        describe(tmp_path / "broken.ebb")


def test_a_file_has_the_versions_of_the_fit(tmp_path):
    path = tmp_path / "m.ebb"
    fit(n_jobs=2, n_folds=1).save(path)
    facts = describe(path)["environment"]
    assert (
        facts["threads"] == 2
        and facts["ebboost"] == eb.__version__
        and facts["numpy"] == np.__version__
    )
    assert {"python", "system", "machine", "scipy", "scikit-learn", "lightgbm", "sweeps"} <= set(
        facts
    )
    loaded = eb.load(path)
    loaded.save(path)
    assert describe(path)["environment"] == facts  # of the fit, not of the second save
    loaded.set_params(n_jobs=1).fit(NUMBERS, TARGET).save(path)
    assert describe(path)["environment"]["threads"] == 1


GOLDEN = sorted((Path(__file__).parents[1] / "golden").glob("*/*.ebb"))


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: f"{path.parent.name} {path.stem}")
def test_golden_files_predict_the_same_as_when_they_were_written(path):
    expected = json.loads(path.with_suffix(".json").read_text())
    model = eb.load(path)
    call = getattr(model, "predict_proba", model.predict)
    # Exponentials of numpy differ in the last bit between processors.
    np.testing.assert_allclose(call(), expected["fitted"], rtol=1e-14)
    if "rows" in expected:
        rows = expected["rows"]
        new = sparse.csr_array(np.array(rows["counts"])) if "counts" in rows else pd.DataFrame(rows)
        graph = None
        if model.graph_ is not None:
            graph = eb.Graph.from_edges(*expected["edges"], n_nodes=new.shape[0])
        if expected["relations"]:
            graph = dict.fromkeys(expected["relations"], graph)
        predicted = call(new, graph=graph, new_labels=None if graph is None else ([], []))
        np.testing.assert_allclose(predicted, expected["new"], rtol=1e-12, atol=1e-14)
    if "lower" in expected:
        lower = model.predict(interval=0.8).lower
        np.testing.assert_allclose(lower, expected["lower"], rtol=1e-12)
    facts = describe(path)
    assert facts["format_version"] == 1 and facts["n_nodes"] == len(expected["fitted"])
    assert facts["environment"]["ebboost"] == path.parent.name


def test_there_are_golden_files_of_this_version():
    names = {path.stem for path in GOLDEN if path.parent.name == eb.__version__}
    assert names >= {"regressor", "classifier", "xgboost", "catboost"}


def test_files_changed_at_random_are_rejected_or_predict(tmp_path):
    sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
    try:
        import fuzz_files
    finally:
        sys.path.pop(0)
    result = fuzz_files.fuzz(seconds=60.0, seed=20, keep=tmp_path, most=120)
    assert not result["findings"] and result["executions"] >= 10


@pytest.mark.parametrize("classes", [5, [5], ["EBBSRegressor"]])
def test_load_rejects_classes_that_are_not_classes(classes, tmp_path):
    path = tmp_path / "model.ebb"
    eb.EBBSRegressor(2).fit([[0.0], [1.0]], [0.0, 1.0]).save(path)
    with pytest.raises(TypeError, match="classes must be a list of classes, got"):
        eb.load(path, classes=classes)
