"""Graphs that workers read from Parquet are those of one process."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ebboost as eb
from ebboost.backends.dask import edges as dask_edges
from ebboost.backends.dask.edges import read_graph
from tests.backends.dask.threads import in_threads, random_partition

FOLDER = settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def edge_list(n_nodes, seed):
    """Edges in both directions, with repeats and self-loops."""
    random = np.random.default_rng(seed)
    ends = random.integers(0, n_nodes, (3 * n_nodes, 2))
    ends = np.concatenate([ends, ends[: n_nodes // 2, ::-1], ends[: n_nodes // 3]])
    return pd.DataFrame({"a": ends[:, 0], "b": ends[:, 1], "w": random.random(len(ends))})


@FOLDER
@given(st.integers(5, 30), st.integers(1, 3), st.booleans(), st.sampled_from(["", "int", "text"]))
def test_any_worker_reads_any_part(tmp_path, n_nodes, count, weighted, kind):
    seed = n_nodes + count
    table = edge_list(n_nodes, seed)
    weight = "w" if weighted else None
    expected = eb.Graph.from_edges(table.a, table.b, table.w if weighted else None, n_nodes)
    random = np.random.default_rng(seed)
    ids = None
    if kind:
        ids = random.permutation(10 * n_nodes)[:n_nodes]
        ids = ids if kind == "int" else np.array([f"node {one}" for one in ids], dtype=object)
        table = table.assign(a=ids[table.a], b=ids[table.b])
    path = tmp_path / f"{seed}-{weighted}-{kind}.parquet"
    table.to_parquet(path, row_group_size=7)
    partition = random_partition(n_nodes, count, seed)
    vector = random.normal(size=n_nodes)
    lazy = eb.ParquetGraph(path, weight=weight)

    def work(workers):
        own = None if ids is None else partition.select(workers.rank, ids)
        graph = read_graph(lazy, own, partition, workers)
        return np.asarray(graph.adjacency @ partition.select(workers.rank, vector)), graph.n_edges

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dask_edges, "BLOCK", 5)
        parts = in_threads(count, work)
    product = partition.join([own for own, _ in parts])
    np.testing.assert_allclose(product, expected.adjacency @ vector, atol=1e-12)
    assert {n_edges for _, n_edges in parts} == {expected.n_edges}


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (["x", "x", "z"], "ids has one id twice, at the rows 0 and 1"),
        (["x", "y", "q"], "ids has no node 'z', the end of an edge"),
        ([0, 1, 2], "holds text, but ids holds integers"),
        (["x", None, "z"], "ids has no id at row 1"),
        (None, r"must hold positions of rows, integers from 0, got 'x'. For ids pass ParquetGr"),
    ],
)
def test_wrong_ids_are_rejected(tmp_path, ids, message):
    path = tmp_path / "edges.parquet"
    pd.DataFrame({"a": ["x", "y"], "b": ["y", "z"]}).to_parquet(path)
    partition = random_partition(3, 1, 0, n_cuts=0)
    ids = None if ids is None else np.array(ids)
    with pytest.raises((TypeError, ValueError), match=message):
        in_threads(1, lambda workers: read_graph(eb.ParquetGraph(path), ids, partition, workers))
