"""Malicious files with valid checksums are rejected before anything in them is run or followed."""

import hashlib
import io
import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import networkx as nx
import numpy as np
import pandas as pd
import pytest

import ebboost as eb
from ebboost.learners._untrusted import MAX_DEPTH, check_tree

N = 60
RNG = np.random.default_rng(0)
TABLE = pd.DataFrame(
    {
        "u": RNG.normal(size=N),
        "v": np.where(RNG.random(N) < 0.1, np.nan, RNG.normal(size=N)),
        "town": RNG.choice(["Bonn", "Kiel", "Ulm"], N),
        "zone": pd.Categorical(RNG.choice([7, 3, None], N)),
    }
)
Y = np.where(np.arange(N) < 40, TABLE["u"] + (TABLE["town"] == "Ulm"), np.nan)
GRAPH = eb.Graph.from_networkx(nx.relabel_nodes(nx.cycle_graph(N), "Straße {}".format))


def fitted(**changes):
    model = eb.EBBSRegressor(**{"n_estimators": 3, "n_jobs": 1, "random_state": 0, **changes})
    return model.fit(TABLE, Y, graph=GRAPH)


def write_changed(content, path, *, manifest=None, arrays=None, entries=None):
    """A file with its manifest, its arrays or its other entries changed, and the sums put right."""
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        parts = {name: file.read(name) for name in file.namelist()}
    values = json.loads(parts.pop("manifest.json"))
    if arrays is not None:
        with np.load(io.BytesIO(parts["arrays.npz"])) as stored:
            stored = dict(stored)
        arrays(stored)
        buffer = io.BytesIO()
        np.savez_compressed(buffer, **stored)
        parts["arrays.npz"] = buffer.getvalue()
    if entries is not None:
        entries(parts)
    values["sha256"] = {name: hashlib.sha256(part).hexdigest() for name, part in parts.items()}
    if manifest is not None:
        manifest(values)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, part in {**parts, "manifest.json": json.dumps(values).encode()}.items():
            file.writestr(name, part)


def set_entry(name, index, value):
    """Change one entry of an array."""

    def change(arrays):
        arrays[name] = arrays[name].copy()
        arrays[name][index] = value

    return {"arrays": change}


def replace_array(name, make):
    return {"arrays": lambda arrays: arrays.update({name: make(arrays[name])})}


def set_value(*path, value):
    """Change one value of the manifest."""

    def change(content):
        *way, last = path
        for key in way:
            content = content[key]
        content[last] = value

    return {"manifest": change}


def replace_line(pattern, replacement, count=1):
    """Change lines of LightGBM's text, and its own table of lengths."""

    def change(parts):
        text = re.sub(
            pattern, replacement, parts["trees.txt"].decode(), count=count, flags=re.MULTILINE
        )
        trees = re.split(r"^(?=Tree=\\d+$|end of trees$)", text, flags=re.MULTILINE)[1:-1]
        sizes = "tree_sizes=" + " ".join(str(len(tree)) for tree in trees)
        parts["trees.txt"] = re.sub(r"^tree_sizes=.*$", sizes, text, flags=re.MULTILINE).encode()

    return {"entries": change}


def replace_bytes(old, new):
    """Change LightGBM's text, and not its table of lengths."""
    return {
        "entries": lambda parts: parts.update({"trees.txt": parts["trees.txt"].replace(old, new)})
    }


NEIGHBOURS = {"class": "NeighborFeatures", "parameters": {}}
MANY = {"class": "NeighborFeatures", "parameters": {"statistics": ["mean"] * 999}}
DEGREES = {"class": "NeighborFeatures", "parameters": {"degree": 2**31 - 1}}
LAPLACIAN = {"class": "Laplacian", "parameters": {"lam": 1.0, "n_steps": 10**9}}
HOSTILE = {
    "threads that are text": set_value("parameters", "n_jobs", value="\x00"),
    "a smoother for n_jobs": set_value(
        "parameters", "n_jobs", value={"class": "Kernel", "parameters": {}}
    ),
    "a setting that is an array": set_value(
        "parameters",
        "smoothing",
        value={"class": "Laplacian", "parameters": {"lam": {"array": [1.0, 2.0], "dtype": "<f8"}}},
    ),
    "relations without a name": set_value(
        "fitted", "relation_strengths", value={"dict": [[float("nan"), 1.0]]}
    ),
    "no array": {"arrays": lambda arrays: arrays.pop("label_nodes")},
    "an index beyond the graph": set_entry("graph_indices", 3, N),
    "a negative index": set_entry("graph_indices", 3, -1),
    "a changed index": set_entry("graph_indices", 0, 2),
    "rows out of order": set_entry("graph_indptr", 5, 99),
    "a negative row": set_entry("graph_indptr", 1, -5),
    "rows beyond the end": set_entry("graph_indptr", -1, 2**31 - 1),
    "a row too few": replace_array("graph_indptr", lambda a: a[:-1]),
    "an edge too few": replace_array("graph_data", lambda a: a[:-1]),
    "an edge one way": set_entry("graph_data", 0, 2.0),
    "a weight that is no number": set_entry("graph_data", 0, np.nan),
    "an infinite weight": set_entry("graph_data", 0, np.inf),
    "whole numbers for weights": replace_array("graph_data", lambda a: a.astype(np.int64)),
    "numbers for indices": replace_array("graph_indices", lambda a: a.astype(np.float64)),
    "a label at no node": set_entry("label_nodes", 0, N),
    "a label at a negative node": set_entry("label_nodes", 0, -1),
    "two labels at a node": set_entry("label_nodes", 0, 1),
    "a label that is no number": set_entry("label_target", 0, np.nan),
    "weights of nothing": replace_array("label_weight", np.zeros_like),
    "scores of fewer nodes": replace_array("scores", lambda a: a[:-1]),
    "scores of more outputs": replace_array("scores", lambda a: np.hstack([a, a])),
    "a score that is no number": set_entry("scores", 0, np.inf),
    "predictions of fewer nodes": replace_array("raw_predictions", lambda a: a[:-1]),
    "a negative deviation": set_entry("spread_deviation", 0, -1.0),
    "a spread of fewer nodes": replace_array("spread_factor", lambda a: a[:-1]),
    "a shape without variance": set_entry("spread_shapes", (0, 4), 1.5),
    "a shape on one side": set_entry("spread_shapes", (0, 3), 1e-320),
    "a shape without width": set_entry("spread_shapes", (0, 2), 1e-320),
    "no shape": replace_array("spread_shapes", lambda a: a[:0]),
    "calibration on more labels": set_value("spread", "n_calibration", value=10**6),
    "arrays of objects": {"entries": lambda parts: parts.update({"arrays.npz": pickled_arrays()})},
    "another estimator": set_value("estimator", value="LightGBM"),
    "an unknown class": set_value("estimator", value="os.system"),
    "text for a number": set_value(
        "fitted", "loss", value={"class": "Quantile", "parameters": {"alpha": "x", "rounding": 1.0}}
    ),
    "an abstract class": set_value("fitted", "loss", value={"class": "Loss", "parameters": {}}),
    "a class of another library": set_value(
        "fitted", "loss", value={"class": "BaseEstimator", "parameters": {}}
    ),
    "a loss that is a smoother": set_value(
        "fitted", "loss", value={"class": "Laplacian", "parameters": {}}
    ),
    "a loss of another kind": set_value(
        "fitted", "loss", value={"class": "LogLoss", "parameters": {}}
    ),
    "endless steps": set_value("candidate", "smoothing", value=LAPLACIAN),
    "endless steps for columns": set_value("candidate", "feature_smoothing", value=LAPLACIAN),
    "columns that the trees have not seen": set_value(
        "candidate", "neighbor_features", value=NEIGHBOURS
    ),
    "very many statistics": set_value("candidate", "neighbor_features", value=MANY),
    "very many degrees": set_value("candidate", "neighbor_features", value=DEGREES),
    "candidates without a loss": set_value(
        "fitted", "selection", value={"dict": [["candidate", ["none", "field"]]]}
    ),
    "a column too many": set_value("table", "origin", value=[0, 1, 2, 3, 3]),
    "a column from nowhere": set_value("table", "origin", value=[0, 1, 2, 99]),
    "categories of no column": set_value("table", "categories", value={"-1": ["x"]}),
    "categories that are lists": set_value("table", "categories", "2", value=[["x"]]),
    "a category twice": set_value("table", "categories", "2", value=["Ulm", "Ulm"]),
    "columns of one name": set_value("table", "names", value=["u", "u", "town", "zone"]),
    "ids of other nodes": set_value("node_ids", value={"array": ["x"], "dtype": "|O"}),
    "ids that are the same": set_value("node_ids", value={"array": ["x"] * N, "dtype": "|O"}),
    "ids that are lists": set_value(
        "node_ids", value={"array": [[i] for i in range(N)], "dtype": "|O"}
    ),
    "very wide text": set_value(
        "node_ids", value={"array": ["x" * 10**6] + ["x"] * (N - 1), "dtype": "<U1000000000"}
    ),
    "an array of raw bytes": set_value("node_ids", value={"array": [0], "dtype": "V1000000000"}),
    "classes of a regressor": set_value(
        "fitted", "classes", value={"array": [0, 1], "dtype": "<i8"}
    ),
    "a name that is a list": set_value("candidate", "name", value=["x"]),
    "rounds that are no number": set_value("fitted", "n_iter", value="x"),
    "no learner": set_value("parameters", "learner", value="pickle"),
    "an unknown parameter": set_value("parameters", "object", value=1),
    "no format": set_value("format_version", value=0),
    "a format that is no number": set_value("format_version", value="1"),
    "a fractional format version": set_value("format_version", value=1.0),
    "a child that is its own parent": replace_line(r"^left_child=\S+", "left_child=0"),
    "a child that is its ancestor": replace_line(r"^left_child=(\S+) \S+", r"left_child=\1 0"),
    "a child beyond the tree": replace_line(r"^left_child=\S+", "left_child=99999"),
    "a leaf beyond the tree": replace_line(r"^left_child=\S+", "left_child=-99999"),
    "a leaf twice": replace_line(r"^right_child=\S+", "right_child=-1"),
    "a column beyond the table": replace_line(r"^split_feature=\d+", "split_feature=4"),
    "a negative column": replace_line(r"^split_feature=\d+", "split_feature=-1"),
    "more leaves than there are": replace_line(r"^num_leaves=\d+", "num_leaves=1000000"),
    "fewer leaves than there are": replace_line(r"^num_leaves=\d+", "num_leaves=2"),
    "leaves that are no number": replace_line(r"^num_leaves=\d+", "num_leaves=nan"),
    "a number that Python alone reads": replace_line(
        r"^left_child=(\S+) (\S+)", r"left_child=1_0 \2"
    ),
    "a weight that Python alone reads": replace_line(
        r"^internal_weight=\S+", "internal_weight=1_0"
    ),
    "a value that is no number": replace_line(r"^leaf_value=\S+", "leaf_value=nan"),
    "an infinite value": replace_line(r"^leaf_value=\S+", "leaf_value=1e999"),
    "a set of categories that is not there": replace_line(r"^num_cat=\d+", "num_cat=7"),
    "a set that ends beyond": replace_line(r"^cat_boundaries=0 \d+", "cat_boundaries=0 99999"),
    "a split by no set": replace_line(r"^decision_type=\d+", "decision_type=1"),
    "a kind of split there is not": replace_line(r"^decision_type=\d+", "decision_type=77"),
    "linear leaves": replace_line(r"^is_linear=0", "is_linear=1"),
    "a line twice": replace_line(r"^(num_leaves=\d+)$", r"\1\n\1"),
    "a line less": replace_line(r"^leaf_count=.*\n", ""),
    "half a tree": replace_line(r"^right_child=[\s\S]*?(?=^Tree=1$)", ""),
    "a tree less": replace_line(r"^Tree=1$[\s\S]*?(?=^Tree=2$)", ""),
    "more columns than the table": replace_line(
        r"^max_feature_idx=\d+", "max_feature_idx=99999999"
    ),
    "more classes": replace_line(r"^num_class=1", "num_class=1000000"),
    "an objective": replace_line(r"^feature_names", "objective=regression\nfeature_names"),
    "the range of a column that is no number": replace_line(
        r"^feature_infos=\S+", "feature_infos=[a:b]"
    ),
    "a range without an end": replace_line(r"^(feature_infos=.*) \S+$", r"\1 [1"),
    "one range less": replace_line(r"^feature_infos=\S+ ", "feature_infos="),
    "a field that is shrunk beyond any number": set_value(
        "candidate", "labels", "parameters", "tau", value=1e308
    ),
    "lengths that lie": replace_bytes(b"tree_sizes=", b"tree_sizes=9"),
    "a deep end": replace_bytes(b"categorical:null", b"categorical:" + b"[" * 10**5),
    "no text at all": {"entries": lambda parts: parts.update({"trees.txt": b"\xff\x00"})},
    "no trees": {"entries": lambda parts: parts.pop("trees.txt")},
}


def pickled_arrays():
    buffer = io.BytesIO()
    np.savez(buffer, scores=np.array([print], dtype=object))
    return buffer.getvalue()


@pytest.fixture(scope="module")
def valid(tmp_path_factory):
    """A file with a graph and sets of categories in its trees."""
    path = tmp_path_factory.mktemp("valid") / "model.ebb"
    learner = eb.LightGBM(num_leaves=6, min_child_samples=2)
    fitted(
        smoothing=eb.Laplacian(1.0, 2), labels="field", neighbor_features=None, learner=learner
    ).save(path)
    return path.read_bytes()


def test_a_file_with_recomputed_checksums_is_loaded(tmp_path, valid):
    write_changed(valid, tmp_path / "m.ebb", arrays=lambda arrays: None)
    assert np.isfinite(eb.load(tmp_path / "m.ebb").predict()).all()


@pytest.mark.parametrize("change", HOSTILE.values(), ids=HOSTILE.keys())
def test_malicious_files_are_rejected(tmp_path, valid, change):
    path = tmp_path / "m.ebb"
    write_changed(valid, path, **change)
    with pytest.raises(eb.ModelFileError, match=r"m\.ebb"):
        eb.load(path)


@pytest.mark.parametrize("code", [-1.0, 0.5, 3.0, 1e150])
def test_a_stored_table_with_a_category_that_is_not_there_is_rejected(tmp_path, code):
    path = tmp_path / "m.ebb"
    fitted(selection="rules", n_folds=1).save(path, table=True)
    eb.load(path).explain([0])
    write_changed(path.read_bytes(), path, **set_entry("fitted_values", (0, 2), code))
    with pytest.raises(eb.ModelFileError, match="column 2 of the stored table"):
        eb.load(path)


GOLDEN = Path(__file__).parents[1] / "golden" / eb.__version__


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("catboost", lambda file: file["table"]["stored"].pop("encoded"), "the encoded one"),
        (
            "average",
            lambda file: file["members"][0]["candidate"].update(
                labels={"class": "MaskedLabels", "parameters": {}}
            ),
            "masked in all or in none",
        ),
    ],
)
def test_parts_that_only_an_explanation_needs_are_checked_at_load(tmp_path, name, change, message):
    path = tmp_path / "m.ebb"
    write_changed((GOLDEN / f"{name}.ebb").read_bytes(), path, manifest=change)
    with pytest.raises(eb.ModelFileError, match=message):
        eb.load(path)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("robust", lambda arrays: arrays.update(graph_data=-arrays["graph_data"])),
        ("exposure", lambda arrays: arrays["offset"].fill(64.0)),
        ("exposure", lambda arrays: arrays["scores"].fill(-1e150)),
    ],
)
def test_arrays_that_only_new_rows_or_labels_need_are_checked_at_load(tmp_path, name, change):
    path = tmp_path / "m.ebb"
    write_changed((GOLDEN / f"{name}.ebb").read_bytes(), path, arrays=change)
    with pytest.raises(eb.ModelFileError, match=r"not be negative|too far apart|within ±10000"):
        eb.load(path)


@pytest.fixture(scope="module")
def of_coordinates(tmp_path_factory):
    """The bytes of a model fitted on coordinates and a date."""
    path = tmp_path_factory.mktemp("coordinates") / "m.ebb"
    random = np.random.default_rng(0)
    X = pd.DataFrame({"x": random.random(60), "y": random.random(60)})
    X["sold"] = pd.date_range("2020-01-01", periods=60)
    eb.EBBSRegressor(2, random_state=0).fit(X, X["x"], coordinates=["x", "y"]).save(path)
    return path.read_bytes()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (set_entry("coordinates_graphs", (0, 0), -1.0), "numbers of neighbours"),
        (set_entry("coordinates_graphs", (0, 0), 2.5), "numbers of neighbours"),
        (set_entry("coordinates_graphs", (0, 1), 2.0), "numbers of neighbours"),
        (replace_array("coordinates_graphs", lambda a: a[:, :2]), "three columns"),
        (replace_array("coordinates_graphs", lambda a: a[:0]), "three columns"),
        (set_entry("coordinates_columns", 0, 9), "coordinates_columns must be from 0 to 2"),
        (replace_array("coordinates_columns", lambda a: a[:1]), "two columns or none"),
        (set_entry("dates", 0, 7), "dates must be from 0 to 2"),
        (replace_array("dates", lambda a: a.astype(float)), "dates must be integers"),
        (replace_array("table_digest", lambda a: a[:3]), "table_digest must be 32 bytes"),
    ],
)
def test_what_a_file_says_about_its_inputs_is_checked(of_coordinates, tmp_path, change, message):
    write_changed(of_coordinates, tmp_path / "m.ebb", **change)
    with pytest.raises(eb.ModelFileError, match=message):
        eb.load(tmp_path / "m.ebb")


@pytest.fixture(scope="module")
def other_libraries(tmp_path_factory):
    """Files of the other libraries."""
    path, files = tmp_path_factory.mktemp("other_libraries") / "m.ebb", {}
    for learner in ("xgboost", "catboost"):
        parts = {"smoothing": eb.Laplacian(1.0, 2), "neighbor_features": None, "n_folds": 1}
        fitted(learner=learner, **parts).save(path)
        files[learner] = path.read_bytes()
        assert np.isfinite(eb.load(path).predict(TABLE, graph=GRAPH)).all()
    return files


def change_json(name, change):
    def rewrite(parts):
        content = json.loads(parts[name])
        change(content)
        parts[name] = json.dumps(content).encode()

    return {"entries": rewrite}


def xgboost_tree(part, at, value):
    def change(content):
        content["learner"]["gradient_booster"]["model"]["trees"][0][part][at] = value

    return change_json("trees.json", change)


def catboost_model(*path, value):
    return change_json(
        "trees-00000.json",
        lambda content: set_value("x", *path, value=value)["manifest"]({"x": content}),
    )


@pytest.mark.parametrize(
    ("learner", "change"),
    [
        ("xgboost", xgboost_tree("left_children", 0, 0)),
        ("xgboost", xgboost_tree("left_children", 1, 0)),
        ("xgboost", xgboost_tree("right_children", 0, 10**6)),
        ("xgboost", xgboost_tree("left_children", 0, -7)),
        ("xgboost", xgboost_tree("split_indices", 0, 4)),
        ("xgboost", xgboost_tree("split_indices", 0, -1)),
        ("xgboost", xgboost_tree("split_conditions", -1, float("nan"))),
        ("xgboost", xgboost_tree("split_conditions", -1, 1e39)),
        ("xgboost", xgboost_tree("parents", 1, 5)),
        ("xgboost", xgboost_tree("split_type", 0, 1)),
        ("xgboost", xgboost_tree("categories", 0, 2**31 - 1)),
        ("xgboost", xgboost_tree("categories_sizes", 0, 10**6)),
        ("xgboost", xgboost_tree("categories_segments", 0, 10**6)),
        ("xgboost", xgboost_tree("categories_nodes", 0, 0)),
        ("xgboost", xgboost_tree("tree_param", "num_nodes", "1")),
        (
            "xgboost",
            change_json(
                "trees.json",
                lambda content: content["learner"]["learner_model_param"].update(num_feature="1"),
            ),
        ),
        ("xgboost", {"entries": lambda parts: parts.update({"trees.json": b"{" * 10**5})}),
        ("xgboost", {"entries": lambda parts: parts.update({"trees.json": b"{L\x00\x00"})}),
        ("catboost", catboost_model("oblivious_trees", 0, "splits", 0, "split_index", value=10**6)),
        (
            "catboost",
            catboost_model("oblivious_trees", 0, "splits", 0, "float_feature_index", value=99),
        ),
        ("catboost", catboost_model("oblivious_trees", 0, "splits", 0, "border", value=1e300)),
        (
            "catboost",
            catboost_model("oblivious_trees", 0, "splits", 0, "split_type", value="OnlineCtr"),
        ),
        ("catboost", catboost_model("oblivious_trees", 0, "leaf_values", value=[1.0])),
        ("catboost", catboost_model("oblivious_trees", 0, "leaf_values", 0, value=float("nan"))),
        (
            "catboost",
            catboost_model("features_info", "float_features", 0, "flat_feature_index", value=10**6),
        ),
        (
            "catboost",
            catboost_model("features_info", "float_features", 0, "borders", value=[2.0, 1.0]),
        ),
        ("catboost", catboost_model("features_info", "categorical_features", value=[])),
        ("catboost", catboost_model("ctrs", value={})),
        ("catboost", catboost_model("scale_and_bias", value=[1.0, [float("inf")]])),
        ("catboost", catboost_model("oblivious_trees", value=[])),
        ("catboost", change_json("shape.json", lambda content: content.__setitem__(1, 10**9))),
        ("catboost", {"arrays": lambda arrays: arrays.pop("encoder_prior")}),
        ("catboost", replace_array("encoder_2", lambda a: a[:0])),
        ("catboost", replace_array("encoder_2", lambda a: np.hstack([a, a]))),
        ("catboost", {"entries": lambda parts: parts.pop("trees-00000.json")}),
    ],
)
def test_malicious_trees_are_rejected(tmp_path, other_libraries, learner, change):
    path = tmp_path / "m.ebb"
    write_changed(other_libraries[learner], path, **change)
    if learner == "catboost" and "trees-00000.json" not in zipfile.ZipFile(path).namelist():
        assert np.isfinite(
            eb.load(path).predict()
        ).all()  # no round was worth taking: that is a model too
        return
    with pytest.raises(eb.ModelFileError):
        eb.load(path)


def test_every_model_of_an_average_is_checked(tmp_path):
    path = tmp_path / "m.ebb"
    fitted(learner="xgboost", smoothing=None, labels="none", n_folds=2).save(path)
    assert {"0-trees.json", "1-trees.json"} <= set(zipfile.ZipFile(path).namelist())
    change = {"entries": lambda parts: parts.update({"1-trees.json": b"{" * 10**5})}
    write_changed(path.read_bytes(), path, **change)
    with pytest.raises(eb.ModelFileError):
        eb.load(path)


SMALL_MEMORY = """
import resource, sys
import numpy as np
import ebboost as eb
from ebboost.model import serialization as modelfile
status = open("/proc/self/status")
used = next(int(line.split()[1]) for line in status if line.startswith("VmSize")) * 1024
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
def test_zip_bombs_are_rejected_within_a_memory_limit(tmp_path, valid):
    def zipped(content):
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
            file.writestr("scores.npy", content)
        return buffer.getvalue()

    zeros, deep = bytes(2**26), []
    for _ in range(400):
        deep = [deep]
    write_changed(
        valid,
        tmp_path / "nested.ebb",
        entries=lambda parts: parts.update({"arrays.npz": zipped(zeros)}),
    )
    write_changed(
        valid, tmp_path / "flat.ebb", entries=lambda parts: parts.update({"trees.txt": zeros})
    )
    write_changed(
        valid, tmp_path / "lists.ebb", **set_value("fitted", "selection", value=[[]] * 10**6)
    )
    write_changed(
        valid,
        tmp_path / "sums.ebb",
        **set_value("sha256", value=dict.fromkeys(map(str, range(10**5)), "")),
    )
    write_changed(valid, tmp_path / "deep.ebb", **set_value("fitted", "source", value=deep))
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


def test_a_tree_too_deep_for_recursion_is_rejected():
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
