"""A model read back predicts the same to the last bit; a file that is not whole is never read."""

import io
import json
import os
import resource
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
from ebboost.model import serialization as modelfile

N = 60
RNG = np.random.default_rng(0)
NUMBERS = pd.DataFrame(
    {"u": RNG.normal(size=N), "v": np.where(RNG.random(N) < 0.1, np.nan, RNG.normal(size=N))}
)
TABLE = NUMBERS.assign(
    town=RNG.choice(["Bonn", "Kiel", "Ulm"], N), zone=pd.Categorical(RNG.choice([7, 3, None], N))
)
Y = np.where(np.arange(N) < 40, TABLE["u"] + (TABLE["town"] == "Ulm"), np.nan)
CLASSES = np.where(np.isnan(Y), None, np.digitize(np.nan_to_num(Y), [0.0, 0.7]).astype(object))
CLASSES = np.array(
    [None if c is None else ["low", "mid", "high"][c] for c in CLASSES], dtype=object
)
NAMED = eb.Graph.from_networkx(nx.relabel_nodes(nx.cycle_graph(N), "Straße {}".format))
FEW = eb.Graph.from_edges([0, 1, 2], [1, 2, 3], [1.0, 0.5, 2.0], n_nodes=5)


class LogCosh(eb.Loss):
    """A user's own loss, with a parameter of its own."""

    def __init__(self, scale=1.0):
        self.scale = scale

    def value(self, scores, target):
        return self.scale * np.log(np.cosh(scores - target)).sum(axis=1)

    def gradient(self, scores, target):
        return self.scale * np.tanh(scores - target)

    def curvature(self, scores, target):
        return self.scale


class Halved(eb.EBBSRegressor):
    """A user's own estimator."""

    def predict(self, X=None, *, graph=None, nodes=None):
        return super().predict(X, graph=graph, nodes=nodes) / 2


def squared(s):
    return s**2


class SquaredKernel(eb.Kernel):
    """A user's own r, by a name that a file can hold."""

    def __init__(self, lam=2.0):
        super().__init__(squared, lam)


def fitted(kind=eb.EBBSRegressor, *, graph=NAMED, X=TABLE, **changes):
    model = kind(**{"n_estimators": 3, "n_jobs": 1, "random_state": 0, **changes})
    return model.fit(X, CLASSES if issubclass(kind, eb.EBBSClassifier) else Y, graph=graph)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "model.ebb"
    fitted().save(path)
    return path.read_bytes()


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """As few bytes as a model with a graph can have."""
    path = tmp_path_factory.mktemp("small") / "model.ebb"
    model = eb.EBBSRegressor(1, smoothing=None, labels="none", n_jobs=1, random_state=0)
    model.fit(
        [[0.0], [1.0], [2.0], [3.0]],
        [0.0, 1.0, 2.0, 3.0],
        graph=FEW.from_edges([0, 1], [1, 2], n_nodes=4),
    )
    model.save(path)
    return path.read_bytes()


@pytest.mark.parametrize("columns", [["u", "v"], list(TABLE)], ids=["numbers", "categories"])
@pytest.mark.parametrize("graph", [None, NAMED], ids=["no graph", "named graph"])
@pytest.mark.parametrize("learner", ["lightgbm", "xgboost", "catboost"])
@pytest.mark.parametrize("kind", [eb.EBBSRegressor, eb.EBBSClassifier])
def test_a_model_read_back_predicts_the_same(tmp_path, kind, learner, graph, columns):
    model = fitted(kind, learner=learner, graph=graph, X=TABLE[columns])
    model.save(tmp_path / "m.ebb")
    loaded = eb.load(tmp_path / "m.ebb")
    new = TABLE[columns].iloc[:5].reset_index(drop=True)
    if "town" in columns:
        new["town"] = ["Ulm", "Rom", None, "Bonn", "Kiel"]
    new_graph = None if graph is None else FEW
    assert np.ptp(model.propagated_scores_) > 0 and np.ptp(model.ensemble_.importances()) > 0
    for call in ("predict", "predict_proba") if kind is eb.EBBSClassifier else ("predict",):
        assert (getattr(loaded, call)() == getattr(model, call)()).all()
        assert (
            getattr(loaded, call)(new, graph=new_graph)
            == getattr(model, call)(new, graph=new_graph)
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
def test_parameters_of_every_kind_survive(tmp_path, changes):
    model = fitted(**changes)
    model.save(tmp_path / "m.ebb")
    loaded = eb.load(tmp_path / "m.ebb")
    assert (loaded.predict() == model.predict()).all()
    assert (loaded.predict(TABLE, graph=NAMED) == model.predict(TABLE, graph=NAMED)).all()
    expected = model.get_params()
    for name, value in loaded.get_params().items():
        if name == "random_state" and changes.get(name) is not None:
            assert value is None  # a stream of random numbers cannot go on where it was
        elif not hasattr(value, "get_params"):
            assert type(value) is type(expected[name]) or isinstance(expected[name], np.generic)
            assert np.array_equal(value, expected[name])


@pytest.mark.parametrize(
    "ids", [[(0, 1), (0, 2), (1, 1)], [5, "x", (1, ("y", 2.5))], [30, 10, 20], ["ü", "", "a"]]
)
def test_node_ids_of_any_kind_survive(tmp_path, ids):
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
    model = fitted(X=X, graph=graph)
    model.save(tmp_path / "m.ebb")
    loaded = eb.load(tmp_path / "m.ebb")
    assert not hasattr(loaded, "feature_names_in_") and not loaded.graph_.has_ids
    assert (
        loaded.ensemble_.booster.params["objective"] == model.ensemble_.booster.params["objective"]
    )
    assert (loaded.predict(X, graph=graph) == model.predict(X, graph=graph)).all()


def test_a_loaded_model_saves_to_the_same_bytes_as_the_original(tmp_path):
    for learner in ("lightgbm", "xgboost", "catboost"):
        model = fitted(learner=learner)
        for name in ("a", "b"):
            model.save(tmp_path / name)
        eb.load(tmp_path / "a").save(tmp_path / "c")
        assert (
            (tmp_path / "a").read_bytes()
            == (tmp_path / "b").read_bytes()
            == (tmp_path / "c").read_bytes()
        )


def test_the_file_is_plain_formats_without_a_date_and_without_pickle(saved):
    with zipfile.ZipFile(io.BytesIO(saved)) as file:
        assert sorted(file.namelist()) == ["arrays.npz", "manifest.json", "trees.txt"]
        inner = zipfile.ZipFile(io.BytesIO(file.read("arrays.npz")))
        assert {info.date_time for info in (*file.infolist(), *inner.infolist())} == {
            (1980, 1, 1, 0, 0, 0)
        }
        manifest = json.loads(file.read("manifest.json"))
        assert manifest["format_version"] == 1 and manifest["parameters"]["n_estimators"] == 3
        with np.load(io.BytesIO(file.read("arrays.npz")), allow_pickle=False) as arrays:
            assert all(arrays[name].dtype.kind in "fiub" for name in arrays.files)


# ---------------------------------------------------------------------- writing


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "m.ebb"
    fitted().save(path)
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
        fitted(n_estimators=5).save(path)
    assert len(written) == 2
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["m.ebb"]


def test_a_disk_that_is_full_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "m.ebb"
    fitted().save(path)
    before, limits = path.read_bytes(), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(
        resource.RLIMIT_FSIZE, (3_000, limits[1])
    )  # no more is written, as on a full disk
    try:
        with pytest.raises(OSError, match="too large"):
            fitted(n_estimators=5).save(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["m.ebb"]


def test_what_is_written_is_on_the_disk_before_it_takes_the_place_of_the_old(tmp_path, monkeypatch):
    done = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda handle: (done.append("fsync"), fsync(handle)))
    monkeypatch.setattr(os, "replace", lambda *paths: (done.append("replace"), replace(*paths)))
    fitted().save(tmp_path / "m.ebb")
    assert done == (["fsync", "replace", "fsync"] if os.name == "posix" else ["fsync", "replace"])


def test_a_model_whose_numbers_are_all_alike_is_written_so_that_it_can_be_read(
    tmp_path, monkeypatch
):
    """Packed, it would be as small as a bomb is."""
    monkeypatch.setattr(archive, "max_unpacked_size", lambda size: 20_000 + 2 * size)
    graph = eb.Graph.from_networkx(
        nx.path_graph([f"https://example.org/nodes/{i:040d}" for i in range(2_000)])
    )
    model = eb.EBBSRegressor(1).fit(np.zeros((2_000, 1)), np.zeros(2_000), graph=graph)
    model.save(tmp_path / "m.ebb", table=True)
    assert (eb.load(tmp_path / "m.ebb").predict() == model.predict()).all()


def test_a_new_file_has_the_permissions_of_any_other(tmp_path):
    fitted().save(tmp_path / "m.ebb")
    (tmp_path / "other").touch()
    assert (tmp_path / "m.ebb").stat().st_mode == (tmp_path / "other").stat().st_mode


def test_folders_that_are_missing_or_in_the_way_are_named(tmp_path):
    with pytest.raises(
        FileNotFoundError, match=r"m\.ebb cannot be written: there is no folder .*nowhere"
    ):
        fitted().save(tmp_path / "nowhere" / "m.ebb")
    with pytest.raises(IsADirectoryError, match="it is a folder"):
        fitted().save(tmp_path)
    assert os.listdir(tmp_path) == []


def test_what_needs_pickle_is_refused_before_anything_is_written(tmp_path):
    path = tmp_path / "m.ebb"
    with pytest.raises(
        ValueError, match=r"scikit-learn regressors cannot be saved.*learner='lightgbm'"
    ):
        fitted(learner=Ridge(), X=NUMBERS.fillna(0.0)).save(path)
    binned = NUMBERS[["u"]].assign(bin=pd.cut(NUMBERS["u"], 3))
    with pytest.raises(ValueError, match=r"Interval.*numbers or text before you fit"):
        fitted(X=binned).save(path)
    with pytest.raises(
        ValueError, match=r"r=.*squared.* of Kernel is a function.*subclass.*classes="
    ):
        fitted(smoothing=eb.Kernel(squared), labels="none").save(path)
    assert not path.exists()


# ---------------------------------------------------------------------- reading


def test_a_file_cut_short_anywhere_is_refused(tmp_path, small):
    path = tmp_path / "m.ebb"
    path.write_bytes(small)
    for length in range(len(small) - 1, -1, -1):
        os.truncate(path, length)
        for read in (eb.load, modelfile.describe):
            with pytest.raises(eb.ModelFileError, match="not an ebboost model, or it is damaged"):
                read(path)


def plain(read):
    manifest, arrays, entries = read
    return manifest, {name: array.tobytes() for name, array in arrays.items()}, entries


def test_a_file_with_any_byte_changed_is_refused_or_harmless(tmp_path, small):
    path = tmp_path / "m.ebb"
    path.write_bytes(small)
    whole = plain(modelfile._read(str(path)))
    refused = []
    for position in range(len(small)):
        broken = bytearray(small)
        broken[position] ^= (0xFF, 0x01, 0x80)[position % 3]
        path.write_bytes(broken)
        try:
            assert plain(modelfile._read(str(path))) == whole  # a date or a flag of the zip itself
        except eb.ModelFileError as error:
            refused.append(str(error))
    assert len(refused) > 0.9 * len(small)
    assert all("m.ebb" in message for message in refused)


def rewritten(saved, path, change, drop=()):
    """The saved zip, sound, with its manifest changed."""
    with zipfile.ZipFile(io.BytesIO(saved)) as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name == "manifest.json":
                manifest = json.loads(content)
                change(manifest)
                content = json.dumps(manifest).encode()
            if name not in drop:
                new.writestr(name, content)


@pytest.mark.parametrize(
    ("change", "drop", "words"),
    [
        (lambda m: m.update(format_version=2), (), ["newer ebboost", "format 2", "upgrade"]),
        (lambda m: m.update(format="other model"), (), ["not an ebboost model"]),
        (lambda m: m.pop("format"), (), ["not an ebboost model"]),
        (lambda m: None, ("manifest.json",), ["not an ebboost model"]),
        (lambda m: None, ("trees.txt",), ["damaged", "trees.txt", "missing"]),
        (lambda m: m["sha256"].update({"trees.txt": "0" * 64}), (), ["damaged", "trees.txt"]),
        (lambda m: m["sha256"].pop("arrays.npz"), (), ["damaged", "arrays.npz"]),
    ],
)
def test_a_sound_zip_that_is_not_our_model_is_refused(tmp_path, saved, change, drop, words):
    path = tmp_path / "m.ebb"
    rewritten(saved, path, change, drop)
    with pytest.raises(ValueError) as caught:
        eb.load(path)
    for word in ("m.ebb", *words):
        assert word in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"not a zip", b"PK\x03\x04", b"\x80\x04K\x01."])
def test_other_files_are_refused(tmp_path, content):
    path = tmp_path / "m.ebb"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"m\.ebb is not an ebboost model"):
        eb.load(path)


def test_missing_files_and_folders_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nothing\.ebb"):
        eb.load(tmp_path / "nothing.ebb")
    with pytest.raises(IsADirectoryError):
        eb.load(tmp_path)


# ---------------------------------------------------------------------- classes of the user's own


@pytest.mark.parametrize(
    ("model", "own"),
    [
        ({"loss": LogCosh(0.5)}, LogCosh),
        ({"kind": Halved}, Halved),
        ({"smoothing": SquaredKernel(3.0), "labels": "none"}, SquaredKernel),
    ],
)
def test_classes_of_the_users_own_must_be_handed_to_load(tmp_path, model, own):
    path = tmp_path / "m.ebb"
    model = fitted(**model)
    model.save(path)
    with pytest.raises(ValueError, match=rf"{own.__name__}.*classes="):
        eb.load(path)
    loaded = eb.load(path, classes=[own])
    assert (loaded.predict() == model.predict()).all()
    assert own in (type(loaded), type(loaded.loss_), type(loaded.smoothing_))
    assert repr(loaded.get_params()) == repr(model.get_params())


@pytest.mark.parametrize("learner", ["lightgbm", "catboost"])
@pytest.mark.parametrize("sparse_table", [False, True])
def test_a_model_saved_with_its_table_explains_itself(tmp_path, learner, sparse_table):
    X = sparse.csr_array(np.nan_to_num(NUMBERS.to_numpy())) if sparse_table else TABLE
    model = fitted(X=X, learner=learner)
    model.save(tmp_path / "with.ebb", table=True)
    loaded = eb.load(tmp_path / "with.ebb")
    for ours, theirs in zip(loaded.explain([3, 50]), model.explain([3, 50]), strict=True):
        assert ours.own == theirs.own and ours.total == theirs.total
    loaded.save(tmp_path / "again.ebb", table=True)
    assert (tmp_path / "again.ebb").read_bytes() == (tmp_path / "with.ebb").read_bytes()


def test_a_model_saved_without_its_table_says_what_to_do(tmp_path):
    fitted().save(tmp_path / "without.ebb")
    loaded = eb.load(tmp_path / "without.ebb")
    with pytest.raises(ValueError, match="table=True"):
        loaded.explain([3])
    with pytest.raises(ValueError, match="has no table"):
        loaded.save(tmp_path / "again.ebb", table=True)


@pytest.mark.parametrize("kind", [eb.EBBSRegressor, eb.EBBSClassifier])
def test_what_was_held_out_is_kept(tmp_path, kind):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    y = X[:, 0] if kind is eb.EBBSRegressor else np.where(X[:, 0] > 0, "up", "down")
    model = kind(5, n_jobs=1, random_state=0).fit(X, y, graph=eb.Graph.build_knn(X, 3))
    model.save(tmp_path / "m.ebb")
    loaded = eb.load(tmp_path / "m.ebb")
    held = loaded.validation_nodes_
    assert held.size == 20 and loaded.validation_prediction_.shape[0] == 20
    codes = y if kind is eb.EBBSRegressor else np.searchsorted(model.classes_, y)
    np.testing.assert_array_equal(loaded.validation_target_[:, 0], codes[held])
    np.testing.assert_array_equal(loaded.validation_prediction_, model.validation_prediction_)


def test_a_file_is_described_without_making_a_model_of_it(tmp_path):
    X, graph = (
        np.random.default_rng(0).normal(size=(60, 2)),
        eb.Graph.from_edges(np.arange(59), np.arange(1, 60)),
    )
    y = np.where(X[:, 0] > 0, "up", "down").astype(object)
    y[:5] = None
    model = eb.EBBSClassifier(3, random_state=0).fit(X, y, graph=graph)
    model.save(tmp_path / "m.ebb")
    told = modelfile.describe(tmp_path / "m.ebb")
    assert (told["n_nodes"], told["n_edges"], told["n_labels"]) == (60, 59, 55)
    assert (
        told["classes"] == ["down", "up"]
        and told["columns"] == ["x0", "x1"]
        and told["n_iter"] == model.n_iter_
    )
    assert told["source"] is None and not told["has_table"] and sum(told["bytes"].values()) > 0
    source = {"id": "fips", "target": "trend"}
    model.save(tmp_path / "named.ebb", table=True, source=source)
    told = modelfile.describe(tmp_path / "named.ebb")
    assert (
        told["source"] == source == eb.load(tmp_path / "named.ebb").state_.source
        and told["has_table"]
    )
    (tmp_path / "broken.ebb").write_bytes((tmp_path / "m.ebb").read_bytes()[:-40])
    with pytest.raises(ValueError, match="not an ebboost model, or it is damaged"):
        modelfile.describe(tmp_path / "broken.ebb")


def test_the_file_tells_where_the_model_was_fitted(tmp_path):
    path = tmp_path / "m.ebb"
    fitted(n_jobs=2).save(path)
    told = modelfile.describe(path)["environment"]
    assert (
        told["threads"] == 2
        and told["ebboost"] == eb.__version__
        and told["numpy"] == np.__version__
    )
    assert {"python", "system", "machine", "scipy", "scikit-learn", "lightgbm", "sweeps"} <= set(
        told
    )
    loaded = eb.load(path)
    loaded.save(path)
    assert (
        modelfile.describe(path)["environment"] == told
    )  # of the fit, not of who wrote the file again
    loaded.set_params(n_jobs=1).fit(NUMBERS, Y).save(path)
    assert modelfile.describe(path)["environment"]["threads"] == 1


# ---------------------------------------------------------------------- files of earlier versions

GOLDEN = sorted((Path(__file__).parents[1] / "golden").glob("*/*.ebb"))


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: f"{path.parent.name} {path.stem}")
def test_files_of_every_version_predict_what_they_did(path):
    told = json.loads(path.with_suffix(".json").read_text())
    model = eb.load(path)
    rows = told["rows"]
    new = sparse.csr_array(np.array(rows["counts"])) if "counts" in rows else pd.DataFrame(rows)
    graph = (
        None if model.graph_ is None else eb.Graph.from_edges(*told["edges"], n_nodes=new.shape[0])
    )
    if told["relations"]:
        graph = dict.fromkeys(told["relations"], graph)
    call = getattr(model, "predict_proba", model.predict)
    np.testing.assert_array_equal(call(), told["fitted"])
    np.testing.assert_allclose(call(new, graph=graph), told["new"], rtol=1e-12, atol=1e-14)
    if "lower" in told:
        np.testing.assert_allclose(model.predict(interval=0.8).lower, told["lower"], rtol=1e-12)
    describe_parameters = modelfile.describe(path)
    assert describe_parameters["format_version"] == 1 and describe_parameters["n_nodes"] == len(
        told["fitted"]
    )
    assert describe_parameters["environment"]["ebboost"] == path.parent.name


def test_there_are_files_of_this_version():
    names = {path.stem for path in GOLDEN if path.parent.name == eb.__version__}
    assert names >= {"regressor", "classifier", "xgboost", "catboost"}


def test_files_changed_at_random_are_refused_or_predict(tmp_path):
    sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
    try:
        import fuzz_files
    finally:
        sys.path.pop(0)
    told = fuzz_files.fuzz(seconds=60.0, seed=20, keep=tmp_path, most=120)
    assert not told["findings"] and told["executions"] >= 10
