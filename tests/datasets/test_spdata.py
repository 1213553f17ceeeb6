"""Turnout by US county and house sales in Lucas County."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import ebboost as eb

SHARED = Path(__file__).parents[2] / "../shared/datasets"


def test_elect80_has_the_size_of_its_source():
    X, y, graph, splits = eb.datasets.load_elect80()
    assert X.shape == (3107, 3) and (graph.n_nodes, graph.n_edges) == (3107, 9063)
    assert X.index.tolist() == graph.node_ids.tolist() and graph.node_ids[0] == "01001"
    assert "pc_turnout" not in X.columns and np.isfinite(y).all() and 0 < y.min() < y.max() < 2
    assert len(splits) == 5
    for split in splits:
        assert sorted([*split["train"], *split["test"]]) == list(range(3107))
    assert splits[0]["test"].tolist() != splits[1]["test"].tolist()


@pytest.mark.skipif(
    not (SHARED / "elect80").exists(), reason="the original data set is not available"
)
def test_elect80_keeps_the_original_columns_and_edges():
    X, y, graph, _ = eb.datasets.load_elect80()
    original = pd.read_csv(SHARED / "elect80/nodes.csv", dtype={"FIPS": str})
    assert original["FIPS"].tolist() == graph.node_ids.tolist()
    np.testing.assert_allclose(X, original[X.columns], rtol=1e-6)
    np.testing.assert_allclose(y, original["pc_turnout"], rtol=1e-6)
    edges = pd.read_csv(SHARED / "elect80/edges.csv")
    assert (graph.adjacency[edges["src"].to_numpy(), edges["dst"].to_numpy()] == 1).all()


def test_ncovr_has_the_size_of_its_source():
    X, y, graph, splits = eb.datasets.load_ncovr(coordinates=True)
    assert X.shape == (3085, 14) and (graph.n_nodes, graph.n_edges) == (3085, 9084)
    assert X.index.tolist() == graph.node_ids.tolist() and np.isfinite(X.to_numpy()).all()
    assert (X["population"] > 0).all() and (y >= 0).all() and (y % 1 == 0).all()
    assert [[split[part].size for part in split] for split in splits] == 5 * [[1851, 617, 617]]
    assert eb.datasets.load_ncovr()[0].columns.tolist() == X.columns.tolist()[:-2]


@pytest.mark.skipif(
    not (SHARED / "ncovr").exists(), reason="the original data set is not available"
)
def test_ncovr_keeps_the_original_columns_edges_and_splits():
    X, y, graph, splits = eb.datasets.load_ncovr(coordinates=True)
    original = pd.read_csv(SHARED / "ncovr/nodes.csv", dtype={"FIPS": str})
    columns = X.columns.drop("population")
    np.testing.assert_allclose(X[columns], original[columns], rtol=1e-6)
    np.testing.assert_array_equal(X["population"], 3 * original["PO90"])
    np.testing.assert_array_equal(y, np.round(3 * original["HC90"]))
    edges = pd.read_csv(SHARED / "ncovr/edges.csv", dtype=str)
    ends = [graph.index_of(edges[end].to_numpy()) for end in ("source", "target")]
    assert (graph.adjacency[ends[0], ends[1]] == 1).all()
    masks = json.loads((SHARED / "ncovr/masks.json").read_text())
    for number, split in enumerate(splits):
        for part, nodes in split.items():
            assert nodes.tolist() == sorted(masks[str(number)][part])


@pytest.mark.parametrize("task", ["price", "wall"])
def test_lucas_has_the_size_and_split_of_its_source(task):
    X, y, graph, splits = eb.datasets.load_lucas(task)
    assert X.shape == (25_357, 15) and y.shape == (25_357,)
    assert (graph.n_nodes, graph.n_edges) == (25_357, 37_437)
    assert not {"avalue", "x", "y", task} & set(X.columns)
    train, test = splits[0]["train"], splits[0]["test"]
    assert sorted([*train, *test]) == list(range(25_357))
    assert X["syear"].iloc[train].max() == 1996 and X["syear"].iloc[test].min() == 1997
    if task == "price":
        assert np.isfinite(y).all() and np.exp([y.min(), y.max()]).round().tolist() == [
            2000,
            875_000,
        ]
    else:
        assert len(set(y)) == 7 and all(isinstance(kind, str) for kind in set(y))


def test_lucas_has_coordinates_on_request_and_two_tasks():
    X, *_ = eb.datasets.load_lucas(coordinates=True)
    assert {"x", "y"} <= set(X.columns)
    with pytest.raises(ValueError, match="'price' or 'wall', got 'rent'"):
        eb.datasets.load_lucas("rent")


@pytest.mark.skipif(
    not (SHARED / "lucas").exists(), reason="the original data set is not available"
)
def test_lucas_edges_join_houses_that_are_close():
    X, _, graph, _ = eb.datasets.load_lucas(coordinates=True)
    edges = graph.adjacency.tocoo()
    points = X[["x", "y"]].to_numpy(dtype=float)
    length = np.linalg.norm(points[edges.coords[0]] - points[edges.coords[1]], axis=1)
    assert np.median(length) < 0.01 * np.linalg.norm(np.ptp(points, axis=0))
