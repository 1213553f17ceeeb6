"""Edge lists in Parquet files become the graph that they would become in memory."""

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ebboost as eb
from ebboost.graph import _parquet_edges


def written(path, **columns):
    pq.write_table(pa.table(columns), path, row_group_size=7)
    return path


def same(one, other):
    assert one.n_nodes == other.n_nodes
    assert np.array_equal(one.adjacency.indptr, other.adjacency.indptr)
    assert np.array_equal(one.adjacency.indices, other.adjacency.indices)
    assert np.allclose(one.adjacency.data, other.adjacency.data, rtol=1e-14, atol=0.0)


@settings(max_examples=30, deadline=None)
@given(
    ends=st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), min_size=1, max_size=40),
    seed=st.none() | st.integers(0, 99),
    spare=st.none() | st.integers(0, 3),
    stored=st.booleans(),
)
def test_blocks_give_the_graph_of_from_edges(tmp_path_factory, ends, seed, spare, stored):
    folder = tmp_path_factory.mktemp("graph")
    source, target = np.array(ends).T
    weight = (
        None
        if seed is None
        else np.random.default_rng(seed).choice([0.0, 0.5, 0.3, 2.0], len(ends))
    )
    n_nodes = None if spare is None else int(max(source.max(), target.max())) + 1 + spare
    columns = {"a": source, "b": target} | ({} if weight is None else {"w": weight})
    path = written(folder / "edges.parquet", **columns)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_parquet_edges, "BLOCK", 5)
        graph = eb.Graph.from_parquet(
            path,
            weight=None if weight is None else "w",
            n_nodes=n_nodes,
            directory=folder / "kept" if stored else None,
        )
    same(graph, eb.Graph.from_edges(source, target, weight, n_nodes))
    assert (graph.adjacency != graph.adjacency.T).nnz == 0
    if stored:
        same(eb.Graph.open(folder / "kept"), graph)


def test_a_folder_is_read_in_the_order_of_its_names_and_columns_are_named(tmp_path):
    for name, ends in (("b", [3, 4]), ("a", [0, 1])):
        written(tmp_path / f"{name}.parquet", when=["x"] * 1, to=[ends[1]], of=[ends[0]])
    graph = eb.Graph.from_parquet(tmp_path, source="of", target="to")
    assert graph.n_nodes == 5 and graph.neighbors(3).tolist() == [4]


def test_a_stored_adjacency_is_memory_mapped_and_gives_equal_models(tmp_path):
    rng = np.random.default_rng(0)
    ends = rng.integers(0, 500, (2, 1500))
    path = written(tmp_path / "edges.parquet", a=ends[0], b=ends[1])
    graph = eb.Graph.from_parquet(path, n_nodes=500, directory=tmp_path / "kept")
    for array in (graph.adjacency.data, graph.adjacency.indices, graph.adjacency.indptr):
        owner = array
        while not isinstance(owner, np.memmap) and owner.base is not None:
            owner = owner.base
        assert isinstance(owner, np.memmap)
    X = rng.normal(size=(500, 2))
    in_memory = eb.Graph.from_scipy(graph.adjacency)
    settings = {"smoothing": eb.Laplacian(), "labels": "field", "random_state": 0}
    predictions = [
        eb.EBBSRegressor(5, **settings).fit(X, X[:, 0], graph=g).predict()
        for g in (graph, in_memory)
    ]
    assert np.array_equal(*predictions)
    with pytest.raises(FileExistsError, match="holds a graph"):
        eb.Graph.from_parquet(path, n_nodes=500, directory=tmp_path / "kept")


@pytest.mark.parametrize(
    ("columns", "given", "message"),
    [
        ({"a": [0, -1], "b": [1, 2]}, {}, r"column 'a' is -1 at row 1"),
        ({"a": [0, 1], "b": [1, 9]}, {"n_nodes": 5}, r"column 'b' is 9 at row 1"),
        ({"a": ["x"], "b": ["y"]}, {}, "For other ids use Graph.from_dataframe"),
        ({"a": [0, None], "b": [1, 2]}, {}, "column 'a' is empty at row 1: an edge needs both"),
        ({"a": [0], "b": [1], "w": [-1.0]}, {"weight": "w"}, "weight is negative at row 0"),
        ({"a": [0], "b": [1]}, {"source": "c"}, "source='c' is not a column"),
        ({"a": [0], "b": [1]}, {"source": "a", "target": "a"}, "both the column 'a'"),
        ({"a": [0]}, {}, "needs a source and a target"),
        ({"a": [0], "b": [1]}, {"n_nodes": 0}, "n_nodes must be an integer"),
        (
            {"a": pa.array([], pa.int64()), "b": pa.array([], pa.int64())},
            {},
            "has no edges: pass n_nodes",
        ),
    ],
)
def test_invalid_files_raise_errors_with_column_and_row(tmp_path, columns, given, message):
    path = written(tmp_path / "edges.parquet", **columns)
    with pytest.raises((TypeError, ValueError), match=message):
        eb.Graph.from_parquet(path, **given)


def test_incomplete_or_damaged_folders_are_rejected(tmp_path):
    with pytest.raises(ValueError, match="holds no graph"):
        eb.Graph.open(tmp_path)
    path = written(tmp_path / "edges.parquet", a=[0], b=[1])
    eb.Graph.from_parquet(path, directory=tmp_path / "kept")
    for name, numbers in (("neighbors", [1, 2]), ("neighbors", [-1, 0]), ("starts", [0, 3, 2])):
        expected = (tmp_path / "kept" / name).read_bytes()
        (tmp_path / "kept" / name).write_bytes(np.array(numbers, dtype=np.int32).tobytes())
        with pytest.raises(ValueError, match="leads to a node that is not there"):
            eb.Graph.open(tmp_path / "kept")
        (tmp_path / "kept" / name).write_bytes(expected)
    (tmp_path / "kept" / "neighbors").write_bytes(b"")
    with pytest.raises(ValueError, match="neighbors is not as long as it was written"):
        eb.Graph.open(tmp_path / "kept")
    for name, entries in (("neighbors", [1, 9]), ("starts", [0, 9, 2])):
        eb.Graph.from_parquet(path, directory=tmp_path / name)
        np.array(entries, dtype=np.int32).tofile(tmp_path / name / name)
        with pytest.raises(ValueError, match="holds no graph"):
            eb.Graph.open(tmp_path / name)
    empty = written(
        tmp_path / "none.parquet", a=pa.array([], pa.int64()), b=pa.array([], pa.int64())
    )
    assert eb.Graph.from_parquet(empty, n_nodes=3, directory=tmp_path / "alone").isolates.size == 3


MEASURED = """
import sys, tracemalloc, warnings
import pyarrow as pa
import ebboost as eb
path, folder = sys.argv[1:]
tracemalloc.start()
graph = eb.Graph.from_parquet(path, directory=folder)
print(graph.n_edges, tracemalloc.get_traced_memory()[1] + pa.default_memory_pool().max_memory())
"""


def test_memory_stays_below_a_share_of_the_edge_list(tmp_path):
    rng = np.random.default_rng(0)
    ends = np.sort(rng.integers(0, 10_000, (1_200_000, 2)), axis=1)
    pq.write_table(
        pa.table({"a": ends[:, 0], "b": ends[:, 1]}), tmp_path / "e.parquet", row_group_size=100_000
    )
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, tmp_path / "e.parquet", tmp_path / "kept"],
        capture_output=True,
        text=True,
        check=True,
    )
    n_edges, peak = map(int, done.stdout.split())
    assert n_edges > 1_150_000
    assert peak < 0.8 * ends.nbytes  # the adjacency itself takes 1.5 times as much


def test_writing_a_folder_again_leaves_the_mapped_graph_intact(tmp_path):
    many = written(tmp_path / "many.parquet", source=np.arange(20_000), target=np.arange(1, 20_001))
    few = written(tmp_path / "few.parquet", source=[0], target=[1])
    used = eb.Graph.from_parquet(many, directory=tmp_path / "graph")
    (tmp_path / "graph" / _parquet_edges.METADATA).unlink()
    eb.Graph.from_parquet(few, directory=tmp_path / "graph")
    # Had its file been shortened, the system would end the process here.
    assert used.neighbors(19_999).tolist() == [19_998, 20_000]
    assert used.adjacency.sum() == 40_000
