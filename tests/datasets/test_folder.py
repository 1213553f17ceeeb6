"""Folders in the format of GNN benchmarks."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import ebboost as eb

SHARED = Path(__file__).parents[2] / "../shared/datasets"


GRAPHML = """<graphml><graph edgedefault="undirected">
<node id="2"/><node id="0"/><node id="1"/><node id="3"/>
<edge source="2" target="0"/></graph></graphml>"""
MASKS = {
    "10": {"train": [3], "val": [], "test": [0]},
    "2": {"train": [0, 1], "val": [2], "test": [3]},
}
GOOD = {
    "X.csv": "size,kind of house,zone\n1.5,flat,3\n,villa,4\n2.5,,3\n0.5,flat,9\n",
    "y.csv": "price\n1\n2\n\n4.5\n",
    "graph.graphml": GRAPHML,
    "masks.json": json.dumps(MASKS),
    "cat_features.txt": "kind of house\nzone\n\n",
}


def folder(tmp_path, **changes):
    for name, content in {**GOOD, **changes}.items():
        if content is not None:
            (tmp_path / name).write_text(content, encoding="utf-8")
    return tmp_path


def test_a_folder_is_read_into_table_labels_graph_and_splits(tmp_path):
    X, y, graph, splits = eb.datasets.load_folder(
        str(folder(tmp_path, **{"y.csv": "price\n1\n2\nnan\n4.5\n"}))
    )
    assert list(X.columns) == ["size", "kind of house", "zone"]
    assert [isinstance(dtype, pd.CategoricalDtype) for dtype in X.dtypes] == [False, True, True]
    np.testing.assert_array_equal(X["size"], [1.5, np.nan, 2.5, 0.5])
    np.testing.assert_array_equal(y, [1, 2, np.nan, 4.5])
    assert (graph.n_nodes, graph.neighbors(0).tolist(), graph.has_ids) == (4, [2], False)
    assert [{part: rows.tolist() for part, rows in split.items()} for split in splits] == [
        MASKS["2"],
        MASKS["10"],
    ]
    assert all(rows.dtype == np.int64 for split in splits for rows in split.values())


def test_categories_are_optional(tmp_path):
    X, *_ = eb.datasets.load_folder(
        folder(tmp_path, **{"cat_features.txt": None, "y.csv": "y\n1\n2\n3\n4\n"})
    )
    assert not any(isinstance(dtype, pd.CategoricalDtype) for dtype in X.dtypes)


def masks(**parts):
    return json.dumps({"0": parts})


@pytest.mark.parametrize("name", ["X.csv", "y.csv", "graph.graphml", "masks.json"])
def test_a_missing_file_is_named(tmp_path, name):
    with pytest.raises(FileNotFoundError, match=f"has no {name}"):
        eb.datasets.load_folder(folder(tmp_path, **{"y.csv": "y\n1\n2\n3\n4\n", name: None}))


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"There is no folder .*nowhere"):
        eb.datasets.load_folder(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("X.csv", "", ["X.csv", "No columns"]),
        ("X.csv", 'a\n"open', ["X.csv"]),
        ("y.csv", "", ["y.csv", "No columns"]),
        ("y.csv", "y\n1\n2\n3\n", ["y.csv must have 4 rows as X.csv, got 3"]),
        ("y.csv", "y,z\n1,2\n1,2\n1,2\n1,2\n", ["y.csv must have one column", "'z'"]),
        ("graph.graphml", "<graphml>", ["graph.graphml", "line 1"]),
        ("graph.graphml", "edges", ["graph.graphml", "cannot be read as GraphML"]),
        ("graph.graphml", GRAPHML.replace('"3"', '"4"'), ["graph.graphml", "not in nodes", "'4'"]),
        (
            "graph.graphml",
            GRAPHML.replace('source="2"', 'source="x"'),
            ["graph.graphml", "not in nodes", "'x'"],
        ),
        ("cat_features.txt", "size\ncolour\n", ["cat_features.txt", "'colour'"]),
        ("masks.json", "{", ["masks.json", "not a masks file"]),
        ("masks.json", "[1]", ["masks.json", "not a masks file", "train"]),
        ("masks.json", '{"first": {"train": [0]}}', ["masks.json", "not a masks file"]),
        ("masks.json", '{"0": [0, 1]}', ["masks.json", "not a masks file"]),
        ("masks.json", '{"0": {"train": [[0], [1, 2]]}}', ["masks.json", "not a masks file"]),
        ("masks.json", masks(train=[0, 4]), ["split 0", "'train'", "row 4", "0 to 3"]),
        ("masks.json", masks(train=[0, -1]), ["split 0", "'train'", "row -1"]),
        ("masks.json", masks(train=[0.5]), ["split 0", "'train'", "row numbers"]),
        (
            "masks.json",
            masks(train=[True, False, True, False]),
            ["split 0", "'train'", "row numbers"],
        ),
        ("masks.json", masks(train=3), ["split 0", "'train'", "row numbers"]),
        ("masks.json", masks(train=[0, 1], test=[1]), ["split 0", "row 1 is listed twice"]),
    ],
)
def test_an_invalid_file_raises_an_error_that_names_it(tmp_path, name, content, words):
    with pytest.raises(ValueError) as caught:
        eb.datasets.load_folder(folder(tmp_path, **{"y.csv": "y\n1\n2\n3\n4\n", name: content}))
    for word in words:
        assert word in str(caught.value)


@pytest.mark.skipif(not (SHARED / "county").exists(), reason="the data set is not available")
def test_county_has_the_size_that_its_authors_state():
    X, y, graph, splits = eb.datasets.load_folder(SHARED / "county")
    assert X.shape == (3217, 7) and int(X.isna().sum().sum()) == 524 and np.isfinite(y).all()
    assert (graph.n_nodes, graph.n_edges) == (3217, 9467)
    assert len(splits) == 5
    for split in splits:
        assert sorted(np.concatenate(list(split.values()))) == list(range(3217))
