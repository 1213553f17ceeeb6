"""Graphs in GraphML and Parquet files, against networkx and edge lists in memory."""

import networkx as nx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ebboost as eb

HEAD = '<?xml version="1.0"?><graphml xmlns="http://graphml.graphdrawing.org/xmlns">'
WEIGHT = '<key id="w" for="edge" attr.name="weight" attr.type="double"/>'


def written(tmp_path, body):
    path = tmp_path / "graph.graphml"
    path.write_text(f"{HEAD}{body}</graphml>", encoding="utf-8")
    return path


def nodes(*ids):
    return "".join(f'<node id="{name}"/>' for name in ids)


def edge(a, b, weight=None):
    inside = "" if weight is None else f'<data key="w">{weight}</data>'
    return f'<edge source="{a}" target="{b}">{inside}</edge>'


def graph_of(inside, key=""):
    return f'{key}<graph edgedefault="undirected">{inside}</graph>'


@pytest.mark.parametrize("relabel", [str, "n{}".format, "Straße & <{}>".format])
def test_graphml_that_networkx_writes_is_read(tmp_path, relabel):
    rng = np.random.default_rng(0)
    graph = nx.gnm_random_graph(30, 60, seed=1)
    nx.set_edge_attributes(graph, {e: float(rng.random() + 0.1) for e in graph.edges}, "weight")
    nx.set_edge_attributes(graph, "ignored", "colour")
    named = nx.relabel_nodes(graph, {n: relabel(n) for n in graph})
    nx.write_graphml(named, tmp_path / "g.graphml")
    ours = eb.Graph.from_graphml(tmp_path / "g.graphml", nodes=[relabel(n) for n in range(30)])
    expected = nx.to_numpy_array(graph, nodelist=range(30))
    np.testing.assert_allclose(ours.adjacency.toarray(), expected, rtol=1e-15)


@pytest.mark.parametrize(
    ("ids", "expected"), [([2, 0, 10, 1], [0, 1, 2, 10]), (["007", "7", "1"], ["007", "7", "1"])]
)
def test_integer_ids_are_sorted_and_text_keeps_the_order_of_the_file(tmp_path, ids, expected):
    path = written(tmp_path, graph_of(nodes(*ids) + edge(ids[0], ids[1])))
    graph = eb.Graph.from_graphml(path)
    assert graph.node_ids.tolist() == expected
    assert graph.index_of([ids[1]]) in graph.neighbors(graph.index_of([ids[0]])[0])


@pytest.mark.parametrize("order", [[1, 0, 7], ["1", "0", "7"], np.array([1, 0, 7]), [0, "x", 1]])
def test_nodes_may_be_numbers_or_text_and_come_back_as_given(tmp_path, order):
    path = written(tmp_path, graph_of(nodes(0, 1) + edge(0, 1)))
    graph = eb.Graph.from_graphml(path, nodes=order)
    assert graph.node_ids.tolist() == list(order)
    unknown = [row for row, name in enumerate(order) if str(name) not in "01"]
    assert graph.isolates.tolist() == unknown  # a row that the file does not know


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (f"<graph>{nodes(0)}", ["mismatched tag"]),
        (graph_of(nodes(0, 1) + edge(0, 1, -1), WEIGHT), ["negative at row 0"]),
        (graph_of(nodes(0, 1) + edge(0, 1, "nan"), WEIGHT), ["NaN at row 0"]),
        (graph_of(nodes(0, 1) + edge(0, 1, "far"), WEIGHT), ["far"]),
        (graph_of(""), ["at least one node"]),
    ],
)
def test_invalid_graphml_raises_errors_with_its_path(tmp_path, body, words):
    path = written(tmp_path, body)
    with pytest.raises(ValueError) as caught:
        eb.Graph.from_graphml(path)
    for word in (str(path), *words):
        assert word in str(caught.value)


def test_nodes_must_include_every_node_of_the_file(tmp_path):
    path = written(tmp_path, graph_of(nodes(0, 1, 2) + edge(0, 1)))
    with pytest.raises(ValueError, match="not in nodes at row 2: '2'"):
        eb.Graph.from_graphml(path, nodes=[0, 1])


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nowhere\.graphml"):
        eb.Graph.from_graphml(tmp_path / "nowhere.graphml")


@pytest.mark.parametrize("weighted", [False, True])
def test_parquet_gives_the_graph_of_from_edges(tmp_path, weighted):
    rng = np.random.default_rng(0)
    source, target = rng.integers(0, 20, (2, 50))
    weight = rng.choice([0.0, 0.5, 2.0], 50) if weighted else None
    columns = {"km": rng.random(50), "of": source, "to": target}
    columns |= {} if weight is None else {"w": weight}
    table = pa.table(columns)
    pq.write_table(table.slice(0, 30), tmp_path / "a.parquet", row_group_size=7)
    pq.write_table(table.slice(30), tmp_path / "b.parquet")
    options = {"source": "of", "target": "to", "n_nodes": 22}
    ours = eb.Graph.from_parquet(tmp_path, weight="w" if weighted else None, **options)
    expected = eb.Graph.from_edges(source, target, weight, 22)
    np.testing.assert_array_equal(ours.adjacency.toarray(), expected.adjacency.toarray())


@pytest.mark.parametrize(
    ("columns", "given", "words"),
    [
        ({"a": [0, -1], "b": [1, 2]}, {}, "is -1 at row 1"),
        ({"a": [0, 1], "b": [1, 9]}, {"n_nodes": 5}, "is 9 at row 1"),
        ({"a": ["x"], "b": ["y"]}, {}, "For other ids use Graph.from_dataframe"),
        ({"a": [0, None], "b": [1, 2]}, {}, "integers"),
        ({"a": [0], "b": [1], "w": [-1.0]}, {"weight": "w"}, "weight is negative at row 0"),
        ({"a": [0], "b": [1]}, {"source": "c"}, "source='c' is not a column"),
        ({"a": [0], "b": [1]}, {"weight": "w"}, "weight='w' is not a column"),
        ({"a": [0], "b": [1]}, {"source": "a", "target": "a"}, "both the column 'a'"),
        ({"a": [0]}, {}, "needs a source and a target"),
        ({"a": [0], "b": [1]}, {"n_nodes": 0}, "n_nodes must be an integer"),
    ],
)
def test_invalid_parquet_files_raise_errors_with_column_and_row(tmp_path, columns, given, words):
    path = tmp_path / "edges.parquet"
    pq.write_table(pa.table(columns), path)
    with pytest.raises((TypeError, ValueError), match=words):
        eb.Graph.from_parquet(path, **given)
