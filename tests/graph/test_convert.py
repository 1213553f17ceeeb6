"""Graphs of other libraries, matrices and dataframes keep their weights, ids and row order."""

import re
from types import SimpleNamespace

import libpysal
import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse

import ebboost as eb

FRAMES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}


def random_networkx(kind, seed=0, names=None):
    """25 nodes added in a random order, loops and parallel edges included."""
    rng = np.random.default_rng(seed)
    graph = kind()
    graph.add_nodes_from(rng.permutation(25).tolist())
    for a, b in rng.integers(0, 25, (80, 2)).tolist():
        graph.add_edge(a, b, weight=float(rng.integers(1, 9)))
    return graph if names is None else nx.relabel_nodes(graph, names)


def without_loops(matrix):
    return matrix - np.diag(np.diag(matrix))


# ---------------------------------------------------------------------- networkx


@pytest.mark.parametrize("kind", [nx.Graph, nx.MultiGraph])
def test_networkx_gives_its_own_adjacency_with_parallel_edges_added(kind):
    graph = random_networkx(kind)
    ours = eb.Graph.from_networkx(graph)
    assert (
        ours.adjacency.toarray() == without_loops(nx.to_numpy_array(graph, nodelist=range(25)))
    ).all()


@pytest.mark.parametrize("kind", [nx.DiGraph, nx.MultiDiGraph])
def test_directed_networkx_is_averaged_with_a_warning(kind):
    graph = random_networkx(kind)
    one_way = without_loops(nx.to_numpy_array(graph, nodelist=range(25)))
    both = (one_way > 0) & (one_way.T > 0)
    differing = int((np.triu(one_way) != np.tril(one_way).T).sum())
    with pytest.warns(UserWarning, match=f"directed: {differing} of its edges"):
        ours = eb.Graph.from_networkx(graph)
    assert (
        ours.adjacency.toarray() == np.where(both, (one_way + one_way.T) / 2, one_way + one_way.T)
    ).all()


def test_a_digraph_with_every_edge_in_both_directions_is_undirected():
    graph = random_networkx(nx.Graph)
    ours = eb.Graph.from_networkx(graph.to_directed())  # warnings are errors here
    assert (ours.adjacency != eb.Graph.from_networkx(graph).adjacency).nnz == 0


def test_integer_nodes_of_networkx_are_sorted():
    ours = eb.Graph.from_networkx(nx.Graph([(0, 2), (2, 1)]))  # networkx lists 0, 2, 1
    assert not ours.has_ids
    assert ours.neighbors(2).tolist() == [0, 1]


def test_networkx_weights_may_be_missing_unused_or_named():
    graph = nx.Graph()
    graph.add_edge("a", "b", weight=3.0, km=5.0)
    graph.add_edge("b", "c", km=7.0)
    degrees = [
        eb.Graph.from_networkx(graph, weight=w).degrees.tolist() for w in ("weight", None, "km")
    ]
    assert degrees == [[3.0, 4.0, 1.0], [1.0, 2.0, 1.0], [5.0, 12.0, 7.0]]


MIXED = ["b", (1, 2), 7, "a", 2.5]


@pytest.mark.parametrize(
    "ids",
    [["b", "c", "a"], [30, 10, 20], [(0, 1), (0, 0), (1, 1)], MIXED, [2**60, 5, 2**60 + 1]],
    ids=["text", "gaps", "tuples", "mixed", "large"],
)
@pytest.mark.parametrize("wrap", [list, iter, lambda ids: dict.fromkeys(ids)])
def test_ids_of_any_kind_keep_the_order_of_nodes(ids, wrap):
    graph = nx.path_graph(sorted(ids, key=str))
    ours = eb.Graph.from_networkx(graph, nodes=wrap(ids))
    assert ours.node_ids.tolist() == ids
    assert ours.index_of(ids[::-1]).tolist() == list(range(len(ids)))[::-1]
    assert (ours.adjacency.toarray() == nx.to_numpy_array(graph, nodelist=ids)).all()


# ---------------------------------------------------------------------- scipy


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "lil", "dia"])
@pytest.mark.parametrize("family", ["array", "matrix"])
@pytest.mark.parametrize("dtype", [float, np.float32, np.int64, bool])
def test_every_scipy_format_gives_the_same_graph_and_is_not_modified(kind, family, dtype):
    dense = without_loops(
        np.random.default_rng(0).integers(0, 3, (8, 8)).astype(dtype).astype(float)
    )
    dense = np.maximum(dense, dense.T) + np.eye(8)
    given = getattr(sparse, f"{kind}_{family}")(dense.astype(dtype))
    before = given.toarray()
    ours = eb.Graph.from_scipy(given)
    assert (ours.adjacency.toarray() == without_loops(dense)).all()
    assert (given.toarray() == before).all()
    assert all(array.flags.writeable for array in (getattr(given, "data", before), before))


def test_duplicate_entries_of_a_coo_matrix_add_up():
    given = sparse.coo_array((np.ones(4), ([0, 0, 1, 1], [1, 1, 0, 0])), shape=(2, 2))
    assert eb.Graph.from_scipy(given).adjacency[0, 1] == 2.0


def test_an_asymmetric_matrix_warns_but_rounding_does_not():
    with pytest.warns(UserWarning, match="directed: 1 of its edges"):
        ours = eb.Graph.from_scipy(np.array([[0, 1.0, 2.0], [0, 0, 4.0], [2.0, 4.0, 0]]))
    assert ours.adjacency.toarray().tolist() == [[0, 1, 2], [1, 0, 4], [2, 4, 0]]
    assert eb.Graph.from_scipy(np.array([[0, 0.1 + 0.2], [0.3, 0]])).n_edges == 1


@pytest.mark.parametrize(
    ("matrix", "error", "words"),
    [
        (np.zeros(3), ValueError, ["matrix", "two-dimensional"]),
        (np.zeros((2, 3)), ValueError, ["matrix", "square", "(2, 3)"]),
        (np.zeros((0, 0)), ValueError, ["matrix", "square"]),
        (np.array([[0, 1.0], [-1.0, 0]]), ValueError, ["row 1, column 0", "negative"]),
        (sparse.csr_array([[0, np.nan], [1.0, 0]]), ValueError, ["row 0, column 1", "NaN"]),
        (np.array([[0, 1j], [1j, 0]]), TypeError, ["matrix", "complex"]),
        (np.array([["0", "1"], ["1", "0"]]), TypeError, ["matrix", "real numbers"]),
    ],
)
def test_invalid_matrices_raise_errors_with_row_and_column(matrix, error, words):
    with pytest.raises(error) as caught:
        eb.Graph.from_scipy(matrix)
    for word in words:
        assert word in str(caught.value)


# ---------------------------------------------------------------------- libpysal


def test_libpysal_graph_keeps_ids_weights_and_isolates():
    adjacency = pd.Series(
        [2.0, 2.0, 0.5, 0.5, 0.0],
        index=pd.MultiIndex.from_tuples(
            [("b", "a"), ("a", "b"), ("a", "c"), ("c", "a"), ("d", "d")],
            names=["focal", "neighbor"],
        ),
        name="weight",
    )
    theirs = libpysal.graph.Graph(adjacency)
    ours = eb.Graph.from_libpysal(theirs)
    assert ours.node_ids.tolist() == theirs.unique_ids.tolist()
    a, b, c, d = ours.index_of(["a", "b", "c", "d"])
    assert (ours.adjacency[a, b], ours.adjacency[a, c]) == (2.0, 0.5)
    assert ours.isolates.tolist() == [d]


def test_libpysal_w_keeps_the_order_of_its_ids():
    neighbours = {"z": ["a"], "a": ["z", "m"], "m": ["a"]}
    ours = eb.Graph.from_libpysal(libpysal.weights.W(neighbours, id_order=["z", "a", "m"]))
    assert ours.node_ids.tolist() == ["z", "a", "m"]
    assert ours.adjacency.toarray().tolist() == [[0, 1, 0], [1, 0, 1], [0, 1, 0]]


def test_row_standardised_libpysal_weights_warn_as_directed():
    rook = libpysal.weights.lat2W(3, 3)
    plain = eb.Graph.from_libpysal(rook)
    assert (plain.n_edges, plain.has_ids) == (12, False)
    rook.transform = "r"
    with pytest.warns(UserWarning, match="directed"):
        standardised = eb.Graph.from_libpysal(rook)
    assert standardised.adjacency[0, 1] == pytest.approx((1 / 2 + 1 / 3) / 2)


# ---------------------------------------------------------------------- PyTorch Geometric


class FakeTensor:
    """A tensor that must be detached and moved to the CPU before it becomes an array."""

    def __init__(self, values, ready=False):
        self.values, self.ready = values, ready

    def detach(self):
        return self

    def cpu(self):
        return FakeTensor(self.values, ready=True)

    def __array__(self, dtype=None, copy=None):
        assert self.ready
        return np.asarray(self.values, dtype=dtype)


@pytest.mark.parametrize("wrap", [np.asarray, FakeTensor])
def test_anything_with_an_edge_index_is_read_like_pyg_data(wrap):
    index = np.array([[0, 1, 1, 2], [1, 0, 2, 1]])
    weighted = SimpleNamespace(
        edge_index=wrap(index), edge_weight=wrap(np.array([[3.0], [3.0], [1.0], [1.0]]))
    )
    assert eb.Graph.from_pyg(weighted).degrees.tolist() == [3.0, 4.0, 1.0]
    assert eb.Graph.from_pyg(
        SimpleNamespace(edge_index=wrap(index), num_nodes=5)
    ).isolates.tolist() == [3, 4]


def test_real_pyg_data_is_read():
    torch = pytest.importorskip("torch")
    data = pytest.importorskip("torch_geometric.data").Data(
        edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]),
        edge_weight=torch.ones(4),
        num_nodes=4,
    )
    ours = eb.Graph.from_pyg(data)
    assert (ours.n_edges, ours.isolates.tolist()) == (2, [3])


# ---------------------------------------------------------------------- dataframes


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
@pytest.mark.parametrize(
    "ids", [["Ulm", "Bonn", "Kiel", "Wien"], [30, 7, 1000, 5]], ids=["text", "gaps"]
)
@pytest.mark.parametrize("given_as", ["list", "column", "table"])
def test_dataframes_place_edges_by_id(frame, ids, given_as):
    roads = frame({"km": [2.0, 3.0], "from": [ids[0], ids[1]], "to": [ids[1], ids[2]]})
    table = frame({"size": [1, 2, 3, 4], "town": ids})
    nodes = {"list": ids, "column": table["town"], "table": table}[given_as]
    options = {"node_id": "town"} if given_as == "table" else {}
    ours = eb.Graph.from_dataframe(roads, nodes, source="from", target="to", weight="km", **options)
    assert ours.node_ids.tolist() == ids
    assert ours.adjacency.toarray().tolist() == [
        [0, 2, 0, 0],
        [2, 0, 3, 0],
        [0, 3, 0, 0],
        [0, 0, 0, 0],
    ]
    assert ours.index_of(ids[1:3]).tolist() == [1, 2]


@pytest.mark.parametrize(
    "edges",
    [
        pd.DataFrame({"a": pd.Categorical(["x", "q"]), "b": pd.Categorical(["y", "z"])}),
        pd.DataFrame({"a": pd.array(["x", "q"], dtype="string"), "b": ["y", "z"]}),
        pl.DataFrame(
            {"a": ["x", "q"], "b": ["y", "z"]}, schema={"a": pl.Categorical, "b": pl.String}
        ),
        pa.table({"a": pa.array(["x", "q"]).dictionary_encode(), "b": ["y", "z"]}),
    ],
    ids=["category", "string", "polars", "dictionary"],
)
def test_without_nodes_they_are_those_of_the_edges_sorted(edges):
    ours = eb.Graph.from_dataframe(edges)
    assert ours.node_ids.tolist() == ["q", "x", "y", "z"]
    assert (ours.neighbors(0).tolist(), ours.neighbors(1).tolist()) == ([3], [2])


def test_columns_without_names_and_nullable_numbers_are_read():
    assert eb.Graph.from_dataframe(pd.DataFrame([[5, 7], [7, 9]])).node_ids.tolist() == [5, 7, 9]
    nullable = pd.DataFrame({"a": pd.array([1, 4], dtype="Int64"), "b": [2, 3]})
    assert eb.Graph.from_dataframe(nullable).node_ids.tolist() == [1, 2, 3, 4]


def test_large_unsigned_ids_are_not_confused_with_their_neighbours():
    ids = 2**53 + np.arange(4)
    edges = pd.DataFrame({"a": ids[1:2], "b": ids[2:3]})
    assert eb.Graph.from_dataframe(edges, nodes=ids.astype(np.uint64)).neighbors(1).tolist() == [2]


ROADS = pd.DataFrame({"from": ["Ulm", "Bonn"], "to": ["Bonn", "Kiel"]})
TOWNS = ["Ulm", "Bonn", "Kiel"]


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (
            lambda: eb.Graph.from_dataframe(ROADS, nodes=["Ulm", "Bonn"]),
            ValueError,
            ["edges['to']", "row 1", "'Kiel'"],
        ),
        (
            lambda: eb.Graph.from_dataframe(ROADS, nodes=[*TOWNS, "Ulm"]),
            ValueError,
            ["'Ulm' twice", "0 and 3"],
        ),
        (
            lambda: eb.Graph.from_dataframe(ROADS, nodes=[*TOWNS, None]),
            ValueError,
            ["nodes", "row 3", "None"],
        ),
        (
            lambda: eb.Graph.from_dataframe(ROADS, nodes=[*TOWNS, pd.NA]),
            ValueError,
            ["nodes", "row 3", "NA"],
        ),
        (lambda: eb.Graph.from_dataframe(ROADS, nodes=[]), ValueError, ["nodes", "empty"]),
        (lambda: eb.Graph.from_dataframe(ROADS, nodes="Ulm"), TypeError, ["nodes", "['Ulm']"]),
        (
            lambda: eb.Graph.from_dataframe(ROADS, source="von"),
            ValueError,
            ["source='von'", "'from'"],
        ),
        (
            lambda: eb.Graph.from_dataframe(ROADS, target="from"),
            ValueError,
            ["both the column 'from'"],
        ),
        (lambda: eb.Graph.from_dataframe(ROADS[["to"]]), ValueError, ["source and a target", "to"]),
        (lambda: eb.Graph.from_dataframe({"a": [1]}), TypeError, ["edges", "dataframe"]),
        (
            lambda: eb.Graph.from_dataframe(pl.LazyFrame({"a": [1], "b": [2]})),
            TypeError,
            ["edges", "LazyFrame"],
        ),
        (
            lambda: eb.Graph.from_dataframe(
                pd.DataFrame({"a": [1, 2], "b": [3, 4]}), nodes=list("1234")
            ),
            ValueError,
            ["edges['a']", "row 0", "matched exactly", "'1'"],
        ),
        (
            lambda: eb.Graph.from_dataframe(pd.DataFrame({"a": ["x", 1], "b": ["y", "z"]})),
            TypeError,
            ["edges", "different kinds", "pass nodes"],
        ),
        (
            lambda: eb.Graph.from_dataframe(
                pd.DataFrame({"a": pd.array(["x", None], dtype="string"), "b": ["y", "z"]})
            ),
            ValueError,
            ["edges['a']", "row 1"],
        ),
        (
            lambda: eb.Graph.from_dataframe(ROADS.assign(km=["1", "far"]), weight="km"),
            TypeError,
            ["weight", "far"],
        ),
        (lambda: eb.Graph.from_networkx([1, 2]), TypeError, ["graph", "networkx"]),
        (
            lambda: eb.Graph.from_networkx(nx.path_graph(3), nodes=[0, 1]),
            ValueError,
            ["graph", "not in nodes at row 2: 2"],
        ),
        (lambda: eb.Graph.from_libpysal(nx.path_graph(3)), TypeError, ["weights", "libpysal"]),
        (lambda: eb.Graph.from_pyg(nx.path_graph(3)), TypeError, ["edge_index"]),
        (
            lambda: eb.Graph.from_pyg(SimpleNamespace(edge_index=np.zeros((3, 2)))),
            ValueError,
            ["(2, n_edges)", "(3, 2)"],
        ),
        (
            lambda: eb.Graph.from_dataframe(ROADS).index_of(["Bonn", "Rom"]),
            ValueError,
            ["ids", "row 1", "'Rom'", "node_ids"],
        ),
    ],
)
def test_invalid_input_raises_errors_with_argument_and_row(make, error, words):
    with pytest.raises(error) as caught:
        make()
    for word in words:
        assert re.search(re.escape(word), str(caught.value)), caught.value


def test_igraph_is_converted_with_names_and_weights():
    igraph = pytest.importorskip("igraph")
    theirs = igraph.Graph(n=4, edges=[(0, 1), (2, 1)])
    assert eb.Graph.from_igraph(theirs).adjacency.toarray().tolist() == [
        [0, 1, 0, 0],
        [1, 0, 1, 0],
        [0, 1, 0, 0],
        [0, 0, 0, 0],
    ]
    theirs.vs["name"] = list("abcd")
    theirs.es["weight"] = [2.0, 0.5]
    ours = eb.Graph.from_igraph(theirs)
    assert ours.node_ids.tolist() == list("abcd") and ours.degrees.tolist() == [2, 2.5, 0.5, 0]
    directed = igraph.Graph(n=2, edges=[(0, 1)], directed=True)
    with pytest.warns(UserWarning, match="directed: 1 of its edges"):
        eb.Graph.from_igraph(directed)
    with pytest.raises(TypeError, match=r"must be an igraph\.Graph"):
        eb.Graph.from_igraph([])


def test_distances_of_a_dataframe_become_weights():
    edges = pd.DataFrame({"a": [0, 1], "b": [1, 2], "km": [1.0, 3.0]})
    graph = eb.Graph.from_dataframe(edges, distance="km")
    assert graph.degrees.tolist() == pytest.approx([2 / 3, 2 / 3 + 0.4, 0.4])
    with pytest.raises(ValueError, match="exclude each other"):
        eb.Graph.from_dataframe(edges, weight="km", distance="km")


@pytest.mark.parametrize(("name", "argument"), [("Weight", "weight"), ("dist", "distance")])
def test_a_column_named_like_weights_that_is_not_used_gives_a_warning(name, argument):
    edges = pd.DataFrame({"a": [0, 1], "b": [1, 2], name: [1.0, 3.0]})
    with pytest.warns(UserWarning, match=f"Column '{name}' of edges is not used: pass {argument}="):
        eb.Graph.from_dataframe(edges)
