"""Turnout by US county."""

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
