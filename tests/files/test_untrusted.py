"""A file that anybody may have written is rejected, or it predicts finite numbers."""

import copy
import json
import os
import re
import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ebboost as eb
from tests.files.models import MODELS, LogCosh, N, file_of, fitted, packed, unpacked

FUZZ = settings(
    max_examples=int(os.environ.get("EBBOOST_FUZZ", "60")),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
HUGE = {"class": "Laplacian", "fields": {"lam": 1.0, "n_steps": 10**9}}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The files of all kinds, unpacked."""
    folder = tmp_path_factory.mktemp("files")
    return {kind: unpacked(file_of(fitted(kind), folder)) for kind in MODELS}


def load(parts, folder):
    path = folder / "changed.ebb"
    path.write_bytes(packed(*parts))
    return eb.load(path, classes=[LogCosh])


def named(arrays, name):
    """The name of the entry of an array."""
    return next(entry for entry in arrays if entry.endswith(f"-model.{name}.npy"))


def entry(name, index, value):
    """Change one entry of an array."""

    def change(manifest, arrays, parts):
        own = named(arrays, name)
        arrays[own] = arrays[own].copy()
        arrays[own][index] = value

    return change


def array(name, make):
    """Change an array."""

    def change(manifest, arrays, parts):
        own = named(arrays, name)
        arrays[own] = make(arrays[own])

    return change


def value(*path, to):
    """Change a value of the model; of a dict, the value of a key."""

    def change(manifest, arrays, parts):
        at = {"model": manifest["model"]}
        *way, last = ("model", *path)
        for key in way:
            at = inside(at, key)
        at = inside(at, None)
        if isinstance(at, list) and at and isinstance(at[0], list):
            last = next(i for i, pair in enumerate(at) if pair[0] == last)
            at[last][1] = to
        else:
            at[last] = to

    return change


def inside(at, key):
    """The content of what is encoded as an object."""
    for name in ("fields", "tuple", "dict"):
        at = at[name] if isinstance(at, dict) and name in at else at
    if isinstance(at, list) and at and isinstance(at[0], list) and not isinstance(key, int):
        at = dict(map(tuple, at)) if key is not None else at
    return at if key is None else at[key]


def head(**changes):
    return lambda manifest, arrays, parts: manifest.update(changes)


def line(pattern, replacement):
    """Change lines of LightGBM's text."""

    def change(manifest, arrays, parts):
        name = next(name for name in parts if name.endswith("trees.txt"))
        text, found = re.subn(pattern, replacement, parts[name].decode(), count=1, flags=re.M)
        assert found
        parts[name] = text.encode()

    return change


def part(**fields):
    return {"class": "Laplacian", "fields": fields}


FIRST = ("components", 0)
GRAPH = "places.graph.adjacency"
HOSTILE = {
    "an index beyond the graph": entry(f"{GRAPH}.indices", 3, N),
    "a negative index": entry(f"{GRAPH}.indices", 3, -1),
    "a changed index": entry(f"{GRAPH}.indices", 0, 2),
    "rows out of order": entry(f"{GRAPH}.indptr", 5, 99),
    "a negative row": entry(f"{GRAPH}.indptr", 1, -5),
    "rows beyond the end": entry(f"{GRAPH}.indptr", -1, 2**31 - 1),
    "a row too few": array(f"{GRAPH}.indptr", lambda a: a[:-1]),
    "an edge too few": array(f"{GRAPH}.data", lambda a: a[:-1]),
    "an edge one way": entry(f"{GRAPH}.data", 0, 2.0),
    "negative weights": array(f"{GRAPH}.data", np.negative),
    "a weight that is no number": entry(f"{GRAPH}.data", 0, np.nan),
    "an infinite weight": entry(f"{GRAPH}.data", 0, np.inf),
    "whole numbers for weights": array(f"{GRAPH}.data", lambda a: a.astype(np.int64)),
    "numbers for indices": array(f"{GRAPH}.indices", lambda a: a.astype(np.float64)),
    "another shape": value("places", "graph", "adjacency", "shape", to=[N, N + 1]),
    "a row at no node": entry("places.node_of_row", 0, N),
    "a row at a negative node": entry("places.node_of_row", 0, -1),
    "ids of other nodes": value("places", "graph", "node_ids", "items", to=["x"]),
    "ids that are the same": value("places", "graph", "node_ids", "items", to=["x"] * N),
    "ids that are lists": value("places", "graph", "node_ids", "items", to=[[1]] * N),
    "very wide text": value(
        "places", "graph", "node_ids", to={"items": ["x" * 10**6] + ["x"] * (N - 1), "text": True}
    ),
    "a label at no row": entry("labels.rows", 0, N),
    "a label at a negative row": entry("labels.rows", 0, -1),
    "two labels at a row": entry("labels.rows", 0, 1),
    "a label that is no number": entry("labels.target", 0, np.nan),
    "weights of nothing": array("labels.weight", np.zeros_like),
    "a negative weight": entry("labels.weight", 0, -1.0),
    "unseen labels at no row": entry("unseen.rows", 0, N),
    "scores of fewer rows": array("components.0.scores", lambda a: a[:-1]),
    "scores of more outputs": array("components.0.scores", lambda a: np.hstack([a, a])),
    "a score that is no number": entry("components.0.scores", 0, np.inf),
    "a score beyond squares": entry("components.0.scores", 0, 1e200),
    "predictions of fewer rows": array("raw", lambda a: a[:-1]),
    "single precision": array("raw", lambda a: a.astype(np.float32)),
    "no components": value("components", to={"tuple": []}),
    "a component that is none": value("components", to={"tuple": [None]}),
    "a negative share": value(*FIRST, "weight", to=-1.0),
    "an infinite share": value(*FIRST, "weight", to=float("inf")),
    "text for a share": value(*FIRST, "weight", to="x"),
    "a column too many": value(*FIRST, "origin", to={"tuple": [0] * 99}),
    "a column from nowhere": value(*FIRST, "origin", to={"tuple": [99] * 5}),
    "other columns": value(*FIRST, "columns", to={"tuple": ["a", "b", "c", "d", "e"]}),
    "endless steps": value(*FIRST, "smoothing", to=HUGE),
    "endless steps for columns": value(*FIRST, "features", "smoothing", to=HUGE),
    "columns that the trees have not seen": value(
        *FIRST, "features", "neighbors", to={"class": "NeighborFeatures", "fields": {}}
    ),
    "a field that is no field": value(*FIRST, "field", to=part()),
    "a field that is shrunk beyond numbers": value(
        *FIRST, "field", to={"class": "LatentField", "fields": {"lam": 1.0, "tau": 1e308}}
    ),
    "a negative strength": value(
        *FIRST, "field", to={"class": "LatentField", "fields": {"lam": -1.0, "tau": 1.0}}
    ),
    "an array of strengths": value(
        *FIRST, "smoothing", to=part(lam={"array": "0-model.labels.rows.npy"}, n_steps=2)
    ),
    "rounds that are no numbers": value(*FIRST, "rounds", to={"tuple": ["x"]}),
    "no such file of trees": value(*FIRST, "ensemble", "files", to={}),
    "no such learner": value(*FIRST, "ensemble", "ensemble", to="Laplacian"),
    "an unknown learner": value(*FIRST, "ensemble", "ensemble", to="os"),
    "a spread of fewer nodes": array("spread.variance", lambda a: a[:-1]),
    "a negative variance": entry("spread.variance", 0, -1.0),
    "a scale of 0": entry("spread.scale", 0, 0.0),
    "a dispersion of 0": value("spread", "dispersion", to=0.0),
    "scores of more labels": array("spread.scores", lambda a: np.append(a, 0.0)),
    "a loss of another kind": value("output", "loss", to={"class": "LogLoss", "fields": {}}),
    "an abstract class": value("output", "loss", to={"class": "Loss", "fields": {}}),
    "a class of another library": value(
        "output", "loss", to={"class": "BaseEstimator", "fields": {}}
    ),
    "a function": value("output", "loss", to={"class": "load", "fields": {"path": "/dev/zero"}}),
    "a module": value("output", "loss", to={"class": "datasets", "fields": {}}),
    "a loss that is a smoother": value("output", "loss", to=part()),
    "an unknown parameter of a loss": value(
        "output", "loss", to={"class": "Huber", "fields": {"x": 1}}
    ),
    "text for a number": value(
        "output", "loss", to={"class": "Quantile", "fields": {"alpha": "x"}}
    ),
    "classes of a regressor": value("output", "classes", to={"items": ["a", "b"], "text": True}),
    "names twice": value("reader", "names", to={"tuple": ["u", "u", "town", "zone", "sold"]}),
    "dates of no column": value("reader", "dates", to={"tuple": [99]}),
    "categories of no column": value("reader", "categories", to={"dict": [[-1, ["x"]]]}),
    "categories that are lists": value("reader", "categories", to={"dict": [[2, [["x"]]]]}),
    "a category twice": value("reader", "categories", to={"dict": [[2, ["Ulm", "Ulm"]]]}),
    "categories of two kinds": value("reader", "categories", to={"dict": [[2, ["Ulm", 1]]]}),
    "a category that is not there": entry("table.values", (0, 2), 3.0),
    "half a category": entry("table.values", (0, 2), 0.5),
    "an infinite number in the table": entry("table.values", (0, 0), np.inf),
    "a table of fewer rows": array("table.values", lambda a: a[:-1]),
    "a key that is a list": value("reader", "categories", to={"dict": [[[], []]]}),
    "threads that are text": value("parameters", "n_jobs", to="\x00"),
    "a smoother for threads": value("parameters", "n_jobs", to=part()),
    "an unknown estimator": value("estimator", to="os.system"),
    "an estimator that is none": value("estimator", to="LightGBM"),
    "a classifier of numbers": value("estimator", to="EBBSClassifier"),
    "a field that there is not": value("nothing", to=1),
    "labels of other rows": value("row_labels", to={"index": {"items": ["x"], "text": False}}),
    "no model": head(model=part()),
    "a number for a model": head(model=1),
    "another format": head(format="another"),
    "no version": head(format_version=0),
    "a version that is no number": head(format_version="2"),
    "a fractional version": head(format_version=2.0),
    "a child that is its own parent": line(r"^left_child=\S+", "left_child=0"),
    "a child that is its ancestor": line(r"^left_child=(\S+) \S+", r"left_child=\1 0"),
    "a child beyond the tree": line(r"^left_child=\S+", "left_child=99999"),
    "a leaf beyond the tree": line(r"^left_child=\S+", "left_child=-99999"),
    "a leaf twice": line(r"^right_child=\S+", "right_child=-1"),
    "a column beyond the table": line(r"^split_feature=\d+", "split_feature=99"),
    "a negative column": line(r"^split_feature=\d+", "split_feature=-1"),
    "more leaves than there are": line(r"^num_leaves=\d+", "num_leaves=1000000"),
    "fewer leaves than there are": line(r"^num_leaves=\d+", "num_leaves=2"),
    "leaves that are no number": line(r"^num_leaves=\d+", "num_leaves=nan"),
    "a number that Python alone reads": line(r"^left_child=(\S+) (\S+)", r"left_child=1_0 \2"),
    "a weight that Python alone reads": line(r"^internal_weight=\S+", "internal_weight=1_0"),
    "a value that is no number": line(r"^leaf_value=\S+", "leaf_value=nan"),
    "an infinite value": line(r"^leaf_value=\S+", "leaf_value=1e999"),
    "a set of categories that is not there": line(r"^num_cat=\d+", "num_cat=7"),
    "a split by no set": line(r"^decision_type=\d+", "decision_type=1"),
    "a kind of split there is not": line(r"^decision_type=\d+", "decision_type=77"),
    "linear leaves": line(r"^is_linear=0", "is_linear=1"),
    "a line twice": line(r"^(num_leaves=\d+)$", r"\1\n\1"),
    "a line less": line(r"^leaf_count=.*\n", ""),
    "half a tree": line(r"^right_child=[\s\S]*?(?=^Tree=1$)", ""),
    "more columns than the table": line(r"^max_feature_idx=\d+", "max_feature_idx=99999999"),
    "more classes": line(r"^num_class=1", "num_class=1000000"),
    "an objective": line(r"^feature_names", "objective=regression\nfeature_names"),
    "the range of a column that is no number": line(r"^feature_infos=\S+", "feature_infos=[a:b]"),
    "one range less": line(r"^feature_infos=\S+ ", "feature_infos="),
    "a deep end": line("categorical:null", "categorical:" + "[" * 10**5),
    "no trees": lambda manifest, arrays, parts: parts.clear(),
    "no text": lambda manifest, arrays, parts: parts.update(dict.fromkeys(parts, b"\xff\x00")),
    "no arrays": lambda manifest, arrays, parts: arrays.clear(),
    "deep lists": value("source", to=json.loads("[" * 900 + "]" * 900)),
}


def test_an_unchanged_file_is_loaded(files, tmp_path):
    for kind, parts in files.items():
        loaded = load(parts, tmp_path)
        np.testing.assert_array_equal(loaded.predict(), fitted(kind).predict())


@pytest.mark.parametrize("change", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_files_are_rejected(change, files, tmp_path):
    parts = copy.deepcopy(files["regressor"])
    change(*parts)
    with pytest.raises(eb.ModelFileError, match=r"changed\.ebb|classes="):
        load(parts, tmp_path)


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("counts", array("offset", lambda a: a[:-1])),
        ("counts", entry("labels.target", 0, -1.0)),
        ("counts", entry("raw", 0, 1e4)),
        ("counts", value("output", "loss", "theta", to=-1.0)),
        ("classifier", entry("labels.target", (0, 0), 2.0)),
        ("classifier", value("output", "classes", "items", to=["b", "a", "c"])),
        ("classifier", value("output", "classes", "items", to=["a", "b"])),
        ("coordinates", entry("coordinates.points", 0, np.nan)),
        ("coordinates", array("coordinates.points", lambda a: a[:, :1])),
        ("coordinates", value("coordinates", "columns", to={"tuple": [0, 9]})),
        ("coordinates", value("coordinates", "scale", to=0.0)),
        ("sparse", entry("table.values.indices", 0, 200)),
        ("sparse", value("reader", "is_sparse", to=False)),
        ("own loss", value("output", "loss", "scale", to="x")),
    ],
)
def test_hostile_files_of_other_kinds_are_rejected(kind, change, files, tmp_path):
    parts = copy.deepcopy(files[kind])
    change(*parts)
    with pytest.raises(eb.ModelFileError):
        load(parts, tmp_path)


def test_files_of_other_versions_say_what_to_do(files, tmp_path):
    manifest, *others = files["no graph"]
    for version, text in (
        (3, "a newer ebboost .*upgrade"),
        (1, "an older ebboost .*fit the model"),
    ):
        with pytest.raises(eb.ModelFileError, match=rf"changed\.ebb was written by {text}"):
            load(({**manifest, "format_version": version}, *others), tmp_path)


def predicts(loaded, kind):
    """Whether a loaded model predicts finite numbers, or says why it cannot."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        raw = [loaded.model_.raw, loaded.model_.output.apply_link(loaded.model_.raw)]
        try:
            new = loaded.predict(**MODELS[kind][1])
            raw.append(new.astype(float) if new.dtype.kind == "f" else np.zeros(1))
        except ValueError:
            pass
        loaded.predict()
    return all(np.isfinite(one).all() for one in raw)


def leaves(document, way=()):
    """The paths to all values of a document."""
    yield way
    items = document.items() if isinstance(document, dict) else ()
    for key, item in enumerate(document) if isinstance(document, list) else items:
        yield from leaves(item, (*way, key))


VALUES = [None, True, False, -1, 0, 1, 2, 99, 2**31, 2**64, 10**30, -0.5, 1e-320, 1e150, 1e308]
VALUES += [float("nan"), float("inf"), "", "x", "auto", "none", "\x00", [], [0], {}, {"tuple": []}]
VALUES += [
    {"dict": []},
    {"items": ["x"], "text": True},
    part(),
    {"class": "EBBSRegressor", "fields": {}},
]
KINDS = ["regressor", "classifier", "groups", "coordinates", "sparse", "counts", "own parts"]
KINDS += ["errors of many labels"]


@FUZZ
@given(st.data())
def test_a_file_with_changed_values_is_rejected_or_predicts(files, tmp_path, data):
    kind = data.draw(st.sampled_from(KINDS))
    manifest, arrays, parts = copy.deepcopy(files[kind])
    for _ in range(data.draw(st.integers(1, 2))):
        way = data.draw(st.sampled_from(list(leaves(manifest["model"]))[1:]))
        at = manifest["model"]
        for key in way[:-1]:
            at = at[key]
        if isinstance(at, dict) and data.draw(st.integers(0, 4)) == 0:
            del at[way[-1]]
        else:
            at[way[-1]] = data.draw(st.sampled_from(VALUES))
    try:
        loaded = load((manifest, arrays, parts), tmp_path)
    except eb.ModelFileError:
        return
    assert predicts(loaded, kind)


def changed(array, data):
    """An array with some change."""
    if array.ndim == 0:
        return array + data.draw(st.integers(-2, 2))
    kinds = ["entry", "shorter", "longer", "type", "zero", "turned", "order"]
    how = data.draw(st.sampled_from(kinds))
    if how == "entry" and array.size:
        array = array.copy()
        numbers = [-1, 0, 1, 1e9, -1e150, 1e200, np.nan, np.inf]
        if array.dtype.kind != "f":
            numbers = [-(2**31), -1, 0, 1, N, 2**31 - 1]
        position = data.draw(st.integers(0, array.size - 1))
        with np.errstate(over="ignore"):
            array.flat[position] = data.draw(st.sampled_from(numbers))
        return array
    if how == "type":
        kinds = ["<f4", "<f8", "<i4", "<i8", "|b1", "|u1", ">f8"]
        with np.errstate(all="ignore"):
            return array.astype(data.draw(st.sampled_from(kinds)))
    changes = {"shorter": array[:-1], "longer": np.concatenate([array, array[:1]])}
    changes |= {"zero": np.zeros_like(array), "turned": array.T.reshape(array.shape[::-1])}
    return changes.get(how, array[::-1])


@FUZZ
@given(st.data())
def test_a_file_with_changed_arrays_is_rejected_or_predicts(files, tmp_path, data):
    kind = data.draw(st.sampled_from(KINDS))
    manifest, arrays, parts = copy.deepcopy(files[kind])
    for _ in range(data.draw(st.integers(1, 2))):
        name = data.draw(st.sampled_from(sorted(arrays)))
        arrays[name] = changed(arrays[name], data)
    try:
        loaded = load((manifest, arrays, parts), tmp_path)
    except eb.ModelFileError:
        return
    assert predicts(loaded, kind)


@FUZZ
@given(st.data())
def test_a_file_with_changed_trees_is_rejected_or_predicts(files, tmp_path, data):
    kind = data.draw(st.sampled_from(KINDS))
    manifest, arrays, parts = copy.deepcopy(files[kind])
    name = data.draw(st.sampled_from([name for name in parts if name.endswith(".txt")]))
    words = re.split(r"([ =\n])", parts[name].decode())
    for _ in range(data.draw(st.integers(1, 3))):
        position = data.draw(st.integers(0, len(words) - 1))
        others = [
            "0",
            "-1",
            "1",
            "2",
            "99",
            "-99",
            "nan",
            "inf",
            "1e400",
            "",
            " ",
            "\n",
            "x",
            "1_0",
        ]
        words[position] = data.draw(st.sampled_from(others) | st.sampled_from(words))
    parts[name] = "".join(words).encode()
    try:
        loaded = load((manifest, arrays, parts), tmp_path)
    except eb.ModelFileError:
        return
    assert predicts(loaded, kind)


@FUZZ
@given(st.data())
def test_a_damaged_file_is_rejected_or_the_same(files, tmp_path, data):
    content = bytearray(packed(*files["no graph"]))
    path = tmp_path / "damaged.ebb"
    for _ in range(data.draw(st.integers(1, 3))):
        position = data.draw(st.integers(0, len(content) - 1))
        content[position] ^= 1 << data.draw(st.integers(0, 7))
    path.write_bytes(content)
    try:
        loaded = eb.load(path)
    except eb.ModelFileError:
        return
    np.testing.assert_array_equal(loaded.predict(), fitted("no graph").predict())


def test_a_truncated_file_is_rejected(files, tmp_path):
    content = packed(*files["no graph"])
    path = tmp_path / "short.ebb"
    for length in range(0, len(content), 199):
        path.write_bytes(content[:length])
        with pytest.raises(eb.ModelFileError, match=r"or it is damaged \(.*pass a complete file"):
            eb.load(path)


@pytest.mark.parametrize("content", [b"", b"not a zip", b"PK\x03\x04", b"\x80\x04K\x01."])
def test_other_files_are_rejected(content, tmp_path):
    (tmp_path / "m.ebb").write_bytes(content)
    with pytest.raises(eb.ModelFileError, match=r"m\.ebb is not an ebboost model"):
        eb.load(tmp_path / "m.ebb")
