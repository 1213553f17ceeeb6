"""House sales in Lucas County."""

from pathlib import Path

import numpy as np
import pytest

import ebboost as eb

SHARED = Path(__file__).parents[2] / "../shared/datasets"


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
