"""Files made to do harm, with checksums that are right, are refused: nothing in them is run, followed or given memory."""

import hashlib
import io
import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

import ebboost as eb
from ebboost.learners._untrusted import MAX_DEPTH, check_tree
from tests.model.test_serialization import NAMED, TABLE, N, fitted


def forged(content, path, *, manifest=None, arrays=None, entries=None):
    """A file with its manifest, its arrays or its other entries changed, and the sums put right."""
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        parts = {name: file.read(name) for name in file.namelist()}
    told = json.loads(parts.pop("manifest.json"))
    if arrays is not None:
        with np.load(io.BytesIO(parts["arrays.npz"])) as stored:
            stored = dict(stored)
        arrays(stored)
        buffer = io.BytesIO()
        np.savez_compressed(buffer, **stored)
        parts["arrays.npz"] = buffer.getvalue()
    if entries is not None:
        entries(parts)
    told["sha256"] = {name: hashlib.sha256(part).hexdigest() for name, part in parts.items()}
    if manifest is not None:
        manifest(told)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, part in {**parts, "manifest.json": json.dumps(told).encode()}.items():
            file.writestr(name, part)


def put(name, place, value):
    """Change one entry of an array."""

    def change(arrays):
        arrays[name] = arrays[name].copy()
        arrays[name][place] = value

    return {"arrays": change}


def become(name, make):
    return {"arrays": lambda arrays: arrays.update({name: make(arrays[name])})}


def say(*path, value):
    """Change one value of the manifest."""

    def change(told):
        *way, last = path
        for key in way:
            told = told[key]
        told[last] = value

    return {"manifest": change}


def lines(pattern, replacement, count=1):
    """Change lines of LightGBM's text, and its own table of lengths."""

    def change(parts):
        text = re.sub(
            pattern, replacement, parts["trees.txt"].decode(), count=count, flags=re.MULTILINE
        )
        trees = re.split(r"^(?=Tree=\\d+$|end of trees$)", text, flags=re.MULTILINE)[1:-1]
        sizes = "tree_sizes=" + " ".join(str(len(tree)) for tree in trees)
        parts["trees.txt"] = re.sub(r"^tree_sizes=.*$", sizes, text, flags=re.MULTILINE).encode()

    return {"entries": change}


def swap(old, new):
    """Change LightGBM's text, and not its table of lengths."""
    return {
        "entries": lambda parts: parts.update({"trees.txt": parts["trees.txt"].replace(old, new)})
    }


NEIGHBOURS = {"class": "NeighborFeatures", "parameters": {}}
MANY = {"class": "NeighborFeatures", "parameters": {"statistics": ["mean"] * 999}}
LAPLACIAN = {"class": "Laplacian", "parameters": {"lam": 1.0, "n_steps": 10**9}}
HOSTILE = {
    "threads that are text": say("parameters", "n_jobs", value="\x00"),
    "a part in the place of threads": say(
        "parameters", "n_jobs", value={"class": "Kernel", "parameters": {}}
    ),
    "a setting that is an array": say(
        "parameters",
        "smoothing",
        value={"class": "Laplacian", "parameters": {"lam": {"array": [1.0, 2.0], "dtype": "<f8"}}},
    ),
    "relations without a name": say(
        "fitted", "relation_strengths", value={"dict": [[float("nan"), 1.0]]}
    ),
    "no array": {"arrays": lambda arrays: arrays.pop("label_nodes")},
    "an index beyond the graph": put("graph_indices", 3, N),
    "a negative index": put("graph_indices", 3, -1),
    "an index in the place of another": put("graph_indices", 0, 2),
    "rows out of order": put("graph_indptr", 5, 99),
    "a negative row": put("graph_indptr", 1, -5),
    "rows beyond the end": put("graph_indptr", -1, 2**31 - 1),
    "a row too few": become("graph_indptr", lambda a: a[:-1]),
    "an edge too few": become("graph_data", lambda a: a[:-1]),
    "an edge one way": put("graph_data", 0, 2.0),
    "a weight that is no number": put("graph_data", 0, np.nan),
    "an infinite weight": put("graph_data", 0, np.inf),
    "whole numbers for weights": become("graph_data", lambda a: a.astype(np.int64)),
    "numbers for indices": become("graph_indices", lambda a: a.astype(np.float64)),
    "a label at no node": put("label_nodes", 0, N),
    "a label at a negative node": put("label_nodes", 0, -1),
    "two labels at a node": put("label_nodes", 0, 1),
    "a label that is no number": put("label_target", 0, np.nan),
    "weights of nothing": become("label_weight", np.zeros_like),
    "scores of fewer nodes": become("scores", lambda a: a[:-1]),
    "scores of more outputs": become("scores", lambda a: np.hstack([a, a])),
    "a score that is no number": put("scores", 0, np.inf),
    "predictions of fewer nodes": become("raw_predictions", lambda a: a[:-1]),
    "errors out of order": become("conformity_scores", lambda a: a[::-1].copy()),
    "arrays of objects": {"entries": lambda parts: parts.update({"arrays.npz": pickled_arrays()})},
    "another estimator": say("estimator", value="LightGBM"),
    "an unknown class": say("estimator", value="os.system"),
    "an abstract class": say("fitted", "loss", value={"class": "Loss", "parameters": {}}),
    "a class of another library": say(
        "fitted", "loss", value={"class": "BaseEstimator", "parameters": {}}
    ),
    "a loss that is a smoother": say(
        "fitted", "loss", value={"class": "Laplacian", "parameters": {}}
    ),
    "a loss of another kind": say("fitted", "loss", value={"class": "LogLoss", "parameters": {}}),
    "endless steps": say("candidate", "smoothing", value=LAPLACIAN),
    "endless steps for columns": say("candidate", "feature_smoothing", value=LAPLACIAN),
    "columns that the trees have not seen": say("candidate", "neighbor_features", value=NEIGHBOURS),
    "very many statistics": say("candidate", "neighbor_features", value=MANY),
    "a column too many": say("table", "origin", value=[0, 1, 2, 3, 3]),
    "a column from nowhere": say("table", "origin", value=[0, 1, 2, 99]),
    "categories of no column": say("table", "categories", value={"-1": ["x"]}),
    "categories that are lists": say("table", "categories", "2", value=[["x"]]),
    "a category twice": say("table", "categories", "2", value=["Ulm", "Ulm"]),
    "columns of one name": say("table", "names", value=["u", "u", "town", "zone"]),
    "ids of other nodes": say("node_ids", value={"array": ["x"], "dtype": "|O"}),
    "ids that are the same": say("node_ids", value={"array": ["x"] * N, "dtype": "|O"}),
    "ids that are lists": say("node_ids", value={"array": [[i] for i in range(N)], "dtype": "|O"}),
    "very wide text": say(
        "node_ids", value={"array": ["x" * 10**6] + ["x"] * (N - 1), "dtype": "<U1000000000"}
    ),
    "an evil type": say("node_ids", value={"array": [0], "dtype": "V1000000000"}),
    "classes of a regressor": say("fitted", "classes", value={"array": [0, 1], "dtype": "<i8"}),
    "no text": say("candidate", "name", value=["x"]),
    "rounds that are no number": say("fitted", "n_iter", value="x"),
    "no learner": say("parameters", "learner", value="pickle"),
    "an unknown parameter": say("parameters", "object", value=1),
    "no format": say("format_version", value=0),
    "a format that is no number": say("format_version", value="1"),
    "half a format": say("format_version", value=1.0),
    "a child that is its own parent": lines(r"^left_child=\S+", "left_child=0"),
    "a child that is its ancestor": lines(r"^left_child=(\S+) \S+", r"left_child=\1 0"),
    "a child beyond the tree": lines(r"^left_child=\S+", "left_child=99999"),
    "a leaf beyond the tree": lines(r"^left_child=\S+", "left_child=-99999"),
    "a leaf twice": lines(r"^right_child=\S+", "right_child=-1"),
    "a column beyond the table": lines(r"^split_feature=\d+", "split_feature=4"),
    "a negative column": lines(r"^split_feature=\d+", "split_feature=-1"),
    "more leaves than there are": lines(r"^num_leaves=\d+", "num_leaves=1000000"),
    "fewer leaves than there are": lines(r"^num_leaves=\d+", "num_leaves=2"),
    "leaves that are no number": lines(r"^num_leaves=\d+", "num_leaves=nan"),
    "a number that Python alone reads": lines(r"^left_child=(\S+) (\S+)", r"left_child=1_0 \2"),
    "a weight that Python alone reads": lines(r"^internal_weight=\S+", "internal_weight=1_0"),
    "a value that is no number": lines(r"^leaf_value=\S+", "leaf_value=nan"),
    "an infinite value": lines(r"^leaf_value=\S+", "leaf_value=1e999"),
    "a set of categories that is not there": lines(r"^num_cat=\d+", "num_cat=7"),
    "a set that ends beyond": lines(r"^cat_boundaries=0 \d+", "cat_boundaries=0 99999"),
    "a split by no set": lines(r"^decision_type=\d+", "decision_type=1"),
    "a kind of split there is not": lines(r"^decision_type=\d+", "decision_type=77"),
    "linear leaves": lines(r"^is_linear=0", "is_linear=1"),
    "a line twice": lines(r"^(num_leaves=\d+)$", r"\1\n\1"),
    "a line less": lines(r"^leaf_count=.*\n", ""),
    "half a tree": lines(r"^right_child=[\s\S]*?(?=^Tree=1$)", ""),
    "a tree less": lines(r"^Tree=1$[\s\S]*?(?=^Tree=2$)", ""),
    "more columns than the table": lines(r"^max_feature_idx=\d+", "max_feature_idx=99999999"),
    "more classes": lines(r"^num_class=1", "num_class=1000000"),
    "an objective": lines(r"^feature_names", "objective=regression\nfeature_names"),
    "lengths that lie": swap(b"tree_sizes=", b"tree_sizes=9"),
    "a deep end": swap(b"categorical:null", b"categorical:" + b"[" * 10**5),
    "no text at all": {"entries": lambda parts: parts.update({"trees.txt": b"\xff\x00"})},
    "no trees": {"entries": lambda parts: parts.pop("trees.txt")},
}


def pickled_arrays():
    buffer = io.BytesIO()
    np.savez(buffer, scores=np.array([print], dtype=object))
    return buffer.getvalue()


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """A file with a graph and sets of categories in its trees."""
    path = tmp_path_factory.mktemp("sound") / "model.ebb"
    learner = eb.LightGBM(num_leaves=6, min_child_samples=2)
    fitted(
        smoothing=eb.Laplacian(1.0, 2), labels="field", neighbor_features=None, learner=learner
    ).save(path)
    return path.read_bytes()


def test_a_file_taken_apart_and_put_together_is_read(tmp_path, sound):
    forged(sound, tmp_path / "m.ebb", arrays=lambda arrays: None)
    assert np.isfinite(eb.load(tmp_path / "m.ebb").predict()).all()


@pytest.mark.parametrize("change", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_file_made_to_do_harm_is_refused(tmp_path, sound, change):
    path = tmp_path / "m.ebb"
    forged(sound, path, **change)
    with pytest.raises(eb.ModelFileError, match=r"m\.ebb"):
        eb.load(path)


@pytest.fixture(scope="module")
def others(tmp_path_factory):
    """Files of the other libraries."""
    path, found = tmp_path_factory.mktemp("others") / "m.ebb", {}
    for learner in ("xgboost", "catboost"):
        fitted(learner=learner, smoothing=eb.Laplacian(1.0, 2), neighbor_features=None).save(path)
        found[learner] = path.read_bytes()
        assert np.isfinite(eb.load(path).predict(TABLE, graph=NAMED)).all()
    return found


def changed_json(name, change):
    def rewrite(parts):
        told = json.loads(parts[name])
        change(told)
        parts[name] = json.dumps(told).encode()

    return {"entries": rewrite}


def of_xgboost(part, at, value):
    def change(told):
        told["learner"]["gradient_booster"]["model"]["trees"][0][part][at] = value

    return changed_json("trees.json", change)


def of_catboost(*path, value):
    return changed_json(
        "trees-00000.json", lambda told: say("x", *path, value=value)["manifest"]({"x": told})
    )


@pytest.mark.parametrize(
    ("learner", "change"),
    [
        ("xgboost", of_xgboost("left_children", 0, 0)),
        ("xgboost", of_xgboost("left_children", 1, 0)),
        ("xgboost", of_xgboost("right_children", 0, 10**6)),
        ("xgboost", of_xgboost("left_children", 0, -7)),
        ("xgboost", of_xgboost("split_indices", 0, 4)),
        ("xgboost", of_xgboost("split_indices", 0, -1)),
        ("xgboost", of_xgboost("split_conditions", -1, float("nan"))),
        ("xgboost", of_xgboost("split_conditions", -1, 1e39)),
        ("xgboost", of_xgboost("parents", 1, 5)),
        ("xgboost", of_xgboost("split_type", 0, 1)),
        ("xgboost", of_xgboost("categories", 0, 2**31 - 1)),
        ("xgboost", of_xgboost("categories_sizes", 0, 10**6)),
        ("xgboost", of_xgboost("categories_segments", 0, 10**6)),
        ("xgboost", of_xgboost("categories_nodes", 0, 0)),
        ("xgboost", of_xgboost("tree_param", "num_nodes", "1")),
        (
            "xgboost",
            changed_json(
                "trees.json",
                lambda told: told["learner"]["learner_model_param"].update(num_feature="1"),
            ),
        ),
        ("xgboost", {"entries": lambda parts: parts.update({"trees.json": b"{" * 10**5})}),
        ("xgboost", {"entries": lambda parts: parts.update({"trees.json": b"{L\x00\x00"})}),
        ("catboost", of_catboost("oblivious_trees", 0, "splits", 0, "split_index", value=10**6)),
        (
            "catboost",
            of_catboost("oblivious_trees", 0, "splits", 0, "float_feature_index", value=99),
        ),
        ("catboost", of_catboost("oblivious_trees", 0, "splits", 0, "border", value=1e300)),
        (
            "catboost",
            of_catboost("oblivious_trees", 0, "splits", 0, "split_type", value="OnlineCtr"),
        ),
        ("catboost", of_catboost("oblivious_trees", 0, "leaf_values", value=[1.0])),
        ("catboost", of_catboost("oblivious_trees", 0, "leaf_values", 0, value=float("nan"))),
        (
            "catboost",
            of_catboost("features_info", "float_features", 0, "flat_feature_index", value=10**6),
        ),
        (
            "catboost",
            of_catboost("features_info", "float_features", 0, "borders", value=[2.0, 1.0]),
        ),
        ("catboost", of_catboost("features_info", "categorical_features", value=[])),
        ("catboost", of_catboost("ctrs", value={})),
        ("catboost", of_catboost("scale_and_bias", value=[1.0, [float("inf")]])),
        ("catboost", of_catboost("oblivious_trees", value=[])),
        ("catboost", changed_json("shape.json", lambda told: told.__setitem__(1, 10**9))),
        ("catboost", {"arrays": lambda arrays: arrays.pop("encoder_prior")}),
        ("catboost", become("encoder_2", lambda a: a[:0])),
        ("catboost", become("encoder_2", lambda a: np.hstack([a, a]))),
        ("catboost", {"entries": lambda parts: parts.pop("trees-00000.json")}),
    ],
)
def test_trees_made_to_do_harm_are_refused(tmp_path, others, learner, change):
    path = tmp_path / "m.ebb"
    forged(others[learner], path, **change)
    if learner == "catboost" and "trees-00000.json" not in zipfile.ZipFile(path).namelist():
        assert np.isfinite(
            eb.load(path).predict()
        ).all()  # no round was worth taking: that is a model too
        return
    with pytest.raises(eb.ModelFileError):
        eb.load(path)


SMALL_MEMORY = """
import resource, sys
import numpy as np
import ebboost as eb
from ebboost.model import serialization as modelfile
used = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmSize")) * 1024
resource.setrlimit(resource.RLIMIT_AS, (used + 700 * 2**20,) * 2)
for path in sys.argv[1:]:
    for read in (modelfile.describe, eb.load):
        try:
            read(path)
        except eb.ModelFileError as error:
            refused = len(str(error)) < 1000
    print(refused)
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="needs Linux")
def test_bombs_are_refused_with_little_memory(tmp_path, sound):
    def zipped(content):
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
            file.writestr("scores.npy", content)
        return buffer.getvalue()

    zeros, deep = bytes(2**26), []
    for _ in range(400):
        deep = [deep]
    forged(
        sound,
        tmp_path / "nested.ebb",
        entries=lambda parts: parts.update({"arrays.npz": zipped(zeros)}),
    )
    forged(sound, tmp_path / "flat.ebb", entries=lambda parts: parts.update({"trees.txt": zeros}))
    forged(sound, tmp_path / "lists.ebb", **say("fitted", "selection", value=[[]] * 10**6))
    forged(
        sound,
        tmp_path / "sums.ebb",
        **say("sha256", value=dict.fromkeys(map(str, range(10**5)), "")),
    )
    forged(sound, tmp_path / "deep.ebb", **say("fitted", "source", value=deep))
    paths = sorted(str(path) for path in tmp_path.iterdir())
    environment = {**os.environ, "PYTHONPATH": str(Path(eb.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", SMALL_MEMORY, *paths],
        capture_output=True,
        text=True,
        timeout=120,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["True"] * len(paths)


def test_a_tree_too_deep_to_be_walked_is_refused():
    def chain(depth):
        left = np.full(2 * depth + 1, -1)
        right = left.copy()
        left[: 2 * depth : 2], right[: 2 * depth : 2] = (
            np.arange(1, 2 * depth, 2),
            np.arange(2, 2 * depth + 1, 2),
        )
        return left, right

    check_tree(*chain(MAX_DEPTH - 1), "tree 0")
    with pytest.raises(ValueError, match="deeper than"):
        check_tree(*chain(MAX_DEPTH), "tree 0")
