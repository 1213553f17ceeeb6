"""GraphML against networkx, which writes and reads the same files."""

import warnings

import networkx as nx
import numpy as np
import pytest

import ebboost as eb

HEAD = '<?xml version="1.0"?><graphml xmlns="http://graphml.graphdrawing.org/xmlns">'


def written(tmp_path, body, head=HEAD, tail="</graphml>"):
    path = tmp_path / "graph.graphml"
    path.write_text(head + body + tail, encoding="utf-8")
    return path


def nodes(*ids):
    return "".join(f'<node id="{name}"/>' for name in ids)


def edge(a, b, inside="", **attributes):
    extra = "".join(f' {name}="{value}"' for name, value in attributes.items())
    return f'<edge source="{a}" target="{b}"{extra}>{inside}</edge>'


def data(key, value):
    return f'<data key="{key}">{value}</data>'


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("relabel", [str, "n{}".format, "Straße & <{}>".format])
def test_reads_what_networkx_writes(tmp_path, weighted, relabel):
    rng = np.random.default_rng(0)
    graph = nx.gnm_random_graph(30, 60, seed=1)
    if weighted:
        nx.set_edge_attributes(graph, {e: float(rng.random() + 0.1) for e in graph.edges}, "weight")
        nx.set_edge_attributes(graph, "ignored", "colour")
        nx.set_node_attributes(graph, 3.0, "weight")  # of nodes: not ours
    named = nx.relabel_nodes(graph, {n: relabel(n) for n in graph})
    nx.write_graphml(named, tmp_path / "g.graphml")
    ours = eb.Graph.from_graphml(tmp_path / "g.graphml", nodes=[relabel(n) for n in range(30)])
    np.testing.assert_allclose(
        ours.adjacency.toarray(), nx.to_numpy_array(graph, nodelist=range(30)), rtol=1e-15
    )


def test_integer_ids_are_sorted(tmp_path):
    path = written(tmp_path, f"<graph>{nodes(2, 0, 10, 1)}{edge(10, 0)}</graph>")
    graph = eb.Graph.from_graphml(path)
    assert graph.node_ids.tolist() == [0, 1, 2, 10]
    assert graph.neighbors(3).tolist() == [0]


def test_text_ids_keep_the_order_of_the_file(tmp_path):
    graph = eb.Graph.from_graphml(
        written(tmp_path, f"<graph>{nodes('007', '7', '1')}{edge('7', '1')}</graph>")
    )
    assert graph.node_ids.tolist() == ["007", "7", "1"]
    assert graph.isolates.tolist() == [0]


@pytest.mark.parametrize("order", [[1, 0, 7], ["1", "0", "7"], np.array([1, 0, 7])])
def test_nodes_may_be_numbers_or_text_and_come_back_as_given(tmp_path, order):
    graph = eb.Graph.from_graphml(
        written(tmp_path, f"<graph>{nodes(0, 1)}{edge(0, 1)}</graph>"), nodes=order
    )
    assert graph.node_ids.tolist() == list(order)
    assert graph.isolates.tolist() == [2]  # a row that the file does not know


def test_integer_nodes_match_text_ids(tmp_path):
    path = written(tmp_path, f"<graph>{nodes('12', 'x')}{edge('12', 'x')}</graph>")
    assert eb.Graph.from_graphml(path, nodes=[12, "x"]).node_ids.tolist() == [12, "x"]


def test_weights_have_a_default_and_a_configurable_name(tmp_path):
    keys = '<key id="d0" for="edge" attr.name="km" attr.type="double"><default>4</default></key>'
    keys += '<key id="d1" for="node" attr.name="km"><default>9</default></key>'
    body = f"{keys}<graph>{nodes(0, 1, 2)}{edge(0, 1, data('d0', ' 2.5 '))}{edge(1, 2)}</graph>"
    path = written(tmp_path, body)
    assert eb.Graph.from_graphml(path, weight="km").degrees.tolist() == [2.5, 6.5, 4.0]
    assert eb.Graph.from_graphml(path).degrees.tolist() == [1.0, 2.0, 1.0]


def test_prefixed_elements_and_data_of_other_programs_are_understood(tmp_path):
    head = '<g:graphml xmlns:g="http://graphml.graphdrawing.org/xmlns" xmlns:y="yed">'
    body = '<g:graph><g:node id="0"><g:data key="k"><y:Shape>2</y:Shape></g:data></g:node>'
    body += '<g:node id="1"/>'
    body += '<g:edge source="0" target="1"/></g:graph>'
    assert eb.Graph.from_graphml(written(tmp_path, body, head, "</g:graphml>")).n_edges == 1


@pytest.mark.parametrize(
    ("edges", "n_one_way"),
    [
        (edge(0, 1) + edge(1, 0), 0),
        (edge(0, 1) + edge(1, 0) + edge(2, 1), 1),
        (edge(0, 1) + edge(1, 2), 2),
    ],
)
def test_a_directed_file_warns_only_where_directions_differ(tmp_path, edges, n_one_way):
    path = written(tmp_path, f'<graph edgedefault="directed">{nodes(0, 1, 2)}{edges}</graph>')
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        eb.Graph.from_graphml(path)
    assert [(str(w.message).split()[4], w.filename) for w in caught] == [
        (str(n_one_way), __file__)
    ] * bool(n_one_way)


def test_one_directed_edge_makes_the_file_directed(tmp_path):
    path = written(tmp_path, f"<graph>{nodes(0, 1)}{edge(0, 1, directed='true')}</graph>")
    with pytest.warns(UserWarning, match="directed: 1 of its edges"):
        eb.Graph.from_graphml(path)


KEY = '<key id="w" for="edge" attr.name="weight"/>'


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (f"<graph>{nodes(0)}", ["line 1", "mismatched tag"]),
        ("", ["no <graph>"]),
        (f"<graph>{nodes(0)}</graph><graph>{nodes(1)}</graph>", ["more than one graph"]),
        (f"<graph>{nodes(0, 1)}<hyperedge/></graph>", ["hyperedge"]),
        ("<graph>\n<node/></graph>", ["line 2", "attribute 'id'"]),
        (f"<graph>{nodes(0)}<edge source='0'/></graph>", ["attribute 'target'"]),
        (f"{KEY}<graph>{nodes(0, 1)}{edge(0, 1, data('w', 'far'))}</graph>", ["far"]),
        (f"{KEY}<graph>{nodes(0, 1)}{edge(0, 1, data('w', '-1'))}</graph>", ["negative at row 0"]),
        (f"{KEY}<graph>{nodes(0, 1)}{edge(0, 1, data('w', 'nan'))}</graph>", ["NaN at row 0"]),
        (f"<graph>{nodes(0, 1)}{edge(0, 5)}</graph>", ["edge target", "row 0", "'5'"]),
        (f"<graph>{nodes('a', 'a')}</graph>", ["'a' twice"]),
        ("<graph></graph>", ["at least one node"]),
    ],
)
def test_invalid_files_raise_errors_with_path_and_line(tmp_path, body, words):
    path = written(tmp_path, body)
    with pytest.raises(ValueError) as caught:
        eb.Graph.from_graphml(path)
    for word in (str(path), *words):
        assert word in str(caught.value)


def test_nodes_must_include_every_node_of_the_file(tmp_path):
    path = written(tmp_path, f"<graph>{nodes(0, 1, 2)}{edge(0, 1)}</graph>")
    with pytest.raises(ValueError, match="node names a node that is not in nodes at row 2: '2'"):
        eb.Graph.from_graphml(path, nodes=[0, 1])


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nowhere\.graphml"):
        eb.Graph.from_graphml(tmp_path / "nowhere.graphml")


def test_a_file_with_two_hundred_thousand_edges_is_read(tmp_path):
    ends = np.sort(np.random.default_rng(0).integers(0, 50_000, (200_000, 2)), axis=1)
    edges = "".join(f'<edge source="{a}" target="{b}"/>' for a, b in ends.tolist())
    graph = eb.Graph.from_graphml(
        written(tmp_path, f"<graph>{nodes(*range(50_000))}{edges}</graph>")
    )
    assert graph.n_edges == len({(a, b) for a, b in ends.tolist() if a != b})


def test_entities_are_not_expanded(tmp_path):
    head = '<?xml version="1.0"?><!DOCTYPE g [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]><graphml>'
    path = written(tmp_path, f"<graph>{nodes('&b;')}</graph>", head)
    with pytest.raises(ValueError, match="line 1: document type declarations"):
        eb.Graph.from_graphml(path)
