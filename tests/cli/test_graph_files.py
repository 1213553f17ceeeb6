"""A table of nodes and a file of edges: ids, ends of edges, weights."""

import warnings

import numpy as np
import pandas as pd
import pytest

from ebboost.cli import graph_files, tables
from tests.cli.commands import put

EDGE_COLUMNS = ("source", "target", "weight", "distance")
NODES = "id,price,name\n01,1.5,x\n02,,y\nNA,3,\n"


def read(folder, nodes, edges, **options):
    """Data, pairs of ids and warnings of two tables in text."""
    files = put(folder, "nodes.csv", nodes), put(folder, "edges.csv", edges)
    columns = {name: options.pop(name) for name in EDGE_COLUMNS if name in options}
    options["columns"] = graph_files.EdgeColumns(**columns)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        data = graph_files.read_nodes_and_edges(*files, **options)
    rows, columns = data.graph.adjacency.tocoo().coords
    ids = data.graph.node_ids
    pairs = {tuple(sorted(map(str, pair))) for pair in zip(ids[rows], ids[columns], strict=True)}
    return data, pairs, "\n".join(str(warning.message) for warning in caught)


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_every_delimiter_is_read_and_ids_stay_as_written(tmp_path, delimiter):
    edges = "source,target\n01,02\n02,NA\n"
    data, pairs, _ = read(tmp_path, NODES.replace(",", delimiter), edges.replace(",", delimiter))
    assert data.ids.tolist() == ["01", "02", "NA"] and data.id_name == "id"
    assert pairs == {("01", "02"), ("02", "NA")}
    np.testing.assert_array_equal(data.table["price"], [1.5, np.nan, 3])
    assert data.table["name"].isna().tolist() == [False, False, True] and list(
        data.table.columns
    ) == ["price", "name"]


def test_parquet_files_are_read_like_csv(tmp_path):
    frame = pd.DataFrame({"id": [1, 2, 3], "x": [0.5, np.nan, 2.0]})
    frame.to_parquet(tmp_path / "nodes.parquet")
    edges = put(tmp_path, "edges.csv", "source,target\n1,2\n2,3\n")
    data = graph_files.read_nodes_and_edges(tmp_path / "nodes.parquet", edges)
    assert data.ids.tolist() == ["1", "2", "3"] and data.graph.n_edges == 2
    pd.DataFrame({"a": [1.0, 2.0], "b": [2.0, 3.0], "km": [4.0, 5.0]}).to_parquet(
        tmp_path / "edges.parquet"
    )
    again = graph_files.read_nodes_and_edges(
        tmp_path / "nodes.parquet",
        tmp_path / "edges.parquet",
        columns=graph_files.EdgeColumns(weight="km"),
    )
    assert again.graph.degrees.tolist() == [4.0, 9.0, 5.0]


def test_ids_in_the_index_of_a_parquet_file_are_a_column(tmp_path):
    pd.DataFrame({"x": [1.0, 2.0]}, index=pd.Index(["a", "b"], name="place")).to_parquet(
        tmp_path / "nodes.parquet"
    )
    data = graph_files.read_nodes_and_edges(
        tmp_path / "nodes.parquet", put(tmp_path, "edges.csv", "u,v\na,b\n")
    )
    assert (
        data.id_name == "place"
        and data.ids.tolist() == ["a", "b"]
        and list(data.table.columns) == ["x"]
    )
    pd.DataFrame({"x": [1.0, 2.0]}, index=["a", "b"]).to_parquet(tmp_path / "nodes.parquet")
    assert tables.column_names(tmp_path / "nodes.parquet") == ["index", "x"]


def test_graphml_is_read_as_edges(tmp_path):
    text = '<graphml><key id="w" for="edge" attr.name="km"/><graph edgedefault="undirected">'
    text += '<node id="01"/><node id="02"/>'
    text += '<edge source="01" target="02"><data key="w">2.5</data></edge></graph></graphml>'
    nodes, edges = put(tmp_path, "nodes.csv", NODES), put(tmp_path, "g.graphml", text)
    assert graph_files.read_nodes_and_edges(nodes, edges).graph.degrees.tolist() == [1, 1, 0]
    for option, degree in (("weight", 2.5), ("distance", 0.5)):
        columns = graph_files.EdgeColumns(**{option: "km"})
        graph = graph_files.read_nodes_and_edges(nodes, edges, columns=columns).graph
        assert graph.degrees.tolist() == [degree, degree, 0]
    columns = graph_files.EdgeColumns(weight="miles")
    with pytest.raises(ValueError, match="no edge attribute is called 'miles'"):
        graph_files.read_nodes_and_edges(nodes, edges, columns=columns)


@pytest.mark.parametrize(
    ("nodes", "edges", "id_name"),
    [
        ("x,id\n1,a\n2,b\n", "u,v\na,b\n", "id"),  # by its name
        ("place,x\na,1\nb,2\n", "u,v\na,b\n", "place"),  # the first, as the edges use it
        ("x,Node\n1,7\n2,8\n", "u,v\n7,8\n", "Node"),
        ("x,y\n1.5,3\n2.5,4\n", "u,v\n0,1\n", None),  # the edges count rows
        ("fips,x\n01001,3\n01003,4\n", "src,dst\n0,1\n", None),
        (
            "name,code,x\nAnn,a,1\nBob,b,2\n",
            "u,v\na,b\n",
            "code",
        ),  # named like an id and used by the edges
    ],
)
def test_the_id_column_is_the_one_that_the_edges_use(tmp_path, nodes, edges, id_name):
    data, _, notes = read(tmp_path, nodes, edges)
    assert data.id_name == id_name and data.graph.n_edges == 1
    assert (id_name is None) == ("holds row numbers" in notes)


def test_the_error_names_a_column_that_holds_the_ids(tmp_path):
    with pytest.raises(
        ValueError, match=r"such as 'a'\? Not 'x'; column 'tag' has them: pass --id 'tag'"
    ):
        read(tmp_path, "x,tag\n1,a\n2,b\n", "u,v\na,b\n")
    with pytest.raises(ValueError, match="pass --id COLUMN"):
        read(tmp_path, "x,tag\n1,c\n2,d\n", "u,v\na,b\n")


def test_ids_that_start_at_one_are_not_read_as_row_numbers(tmp_path):
    nodes, edges = "id,x\n1,0\n2,0\n3,0\n", "u,v\n0,1\n1,2\n"
    with pytest.raises(ValueError, match=r"edges\.csv, line 2: node '0' is not in column 'id'"):
        read(tmp_path, nodes, edges)
    data, pairs, _ = read(tmp_path, nodes, edges, node_id="rows")
    assert data.id_name is None and pairs == {("0", "1"), ("1", "2")}
    with pytest.raises(ValueError, match="node '3' is not a row of"):
        read(tmp_path, nodes, "u,v\n0,3\n", node_id="rows")


def test_ends_of_edges_are_recognised_by_name_or_order(tmp_path):
    nodes = "id,x\na,1\nb,2\nc,3\n"
    for edges in (
        "km,from,to\n9,a,b\n",
        "to,from\na,b\n",
        "first,second,km\na,b,9\n",
        "weight,target,source\n1,a,b\n",
    ):
        _, pairs, _ = read(tmp_path, nodes, edges)
        assert pairs == {("a", "b")}
    _, pairs, _ = read(tmp_path, nodes, "from,to,via\na,b,c\n", source="from", target="via")
    assert pairs == {("a", "c")}


TWO = "id,x\na,1\nb,2\nc,3\n"


@pytest.mark.parametrize("name", ["weight", "W", "strength", "similarity"])
def test_a_column_named_like_weights_is_used_unless_declined(tmp_path, name):
    edges = f"source,target,{name}\na,b,2.5\nb,c,1\n"
    data, _, notes = read(tmp_path, TWO, edges)
    assert data.graph.degrees.tolist() == [2.5, 3.5, 1]
    assert f"Column {name!r} of edges.csv is used as edge weights" in notes
    data, _, notes = read(tmp_path, TWO, edges, weight=name)
    assert data.graph.degrees.tolist() == [2.5, 3.5, 1] and not notes
    data, _, notes = read(tmp_path, TWO, edges, weight="none")
    assert data.graph.degrees.tolist() == [1, 2, 1] and not notes


def test_distances_become_weights(tmp_path):
    edges = "source,target,distance\na,b,1\nb,c,3\n"
    data, _, notes = read(tmp_path, TWO, edges)
    assert data.graph.degrees.tolist() == pytest.approx([2 / 3, 2 / 3 + 0.4, 0.4])  # median 2
    assert "edges weigh 1 / (1 + d / median d)" in notes
    data, _, notes = read(tmp_path, TWO, edges.replace("distance", "km"), distance="km")
    assert data.graph.degrees.tolist() == pytest.approx([2 / 3, 2 / 3 + 0.4, 0.4]) and not notes
    with pytest.raises(ValueError, match="exclude each other"):
        read(tmp_path, TWO, edges, distance="distance", weight="distance")


def test_other_columns_of_edges_are_offered(tmp_path):
    data, _, notes = read(tmp_path, TWO, "source,target,km\na,b,2.5\n")
    assert data.graph.degrees.tolist() == [1, 1, 0]
    assert "not used: 'km'. --weight COLUMN takes one as edge weights, --distance" in notes
    _, _, notes = read(tmp_path, TWO, "source,target,kind\na,b,road\n")
    assert "not used: 'kind'." in notes and "--weight" not in notes
    with pytest.raises(ValueError, match=r"column 'km': line 2 holds '-1', not a number from 0 up"):
        read(tmp_path, TWO, "source,target,km\na,b,-1\n", weight="km")
    with pytest.raises(ValueError, match=r"'weight': line 2 holds '-1', .* --weight none"):
        read(tmp_path, TWO, "source,target,weight\na,b,-1\n")
    with pytest.raises(ValueError, match=r"'weight': all its values are 0\. .* --weight none"):
        read(tmp_path, TWO, "source,target,weight\na,b,0\n")
    _, _, notes = read(tmp_path, TWO, "source,target,distance\na,b,2\n", weight="distance")
    assert "used as weights: a large one is a strong tie. --distance takes it" in notes


@pytest.mark.parametrize(
    ("nodes", "edges", "options"),
    [
        ("id,x\nann,1\nbob,2\neve,3\n", "ann,bob\nbob,eve\n", {}),
        ("id,x\n1,1\n2,2\n3,3\n", "1,2\n2,3\n", {}),
        ("id,x\n1,1\n2,2\n3,3\n", "0;1\n1;2\n", {"node_id": "rows"}),
        ("x,tag\n1,p\n2,q\n3,r\n", "p\tq\nq\tr\n", {"node_id": "tag"}),
    ],
)
def test_edges_without_a_header_lose_none(tmp_path, nodes, edges, options):
    data, _, _ = read(tmp_path, nodes, edges, **options)
    assert data.graph.adjacency.toarray().tolist() == [[0, 1, 0], [1, 0, 1], [0, 1, 0]]


def test_lines_of_edges_without_a_header_are_counted_from_one(tmp_path):
    with pytest.raises(ValueError, match=r"edges\.csv, line 1: node '7'"):
        read(tmp_path, TWO, "7,8\n", node_id="id")
    with pytest.raises(ValueError, match=r"edges\.csv, line 2: there is no node"):
        read(tmp_path, TWO, "a,b\nb,\n")


def test_lines_are_counted_where_lines_are_blank_and_cells_have_several(tmp_path):
    nodes = 'id,note\n\na,"two\nlines"\n,one\n'
    with pytest.raises(ValueError, match=r"nodes\.csv, line 5: column 'id' is empty"):
        read(tmp_path, nodes, "from,to\na,a\n", node_id="id")


def test_edges_of_unknown_nodes_are_skipped_on_request(tmp_path):
    nodes, edges = "id,x\na,1\nb,2\n", "u,v,w\na,b,1\na,z,2\n"
    with pytest.raises(ValueError, match=r"line 3: node 'z'.*1 of 2 edges.*--skip-unknown"):
        read(tmp_path, nodes, edges)
    _, pairs, notes = read(tmp_path, nodes, edges, skip_unknown=True, weight="w")
    assert pairs == {("a", "b")} and "Skipped 1 edge to nodes" in notes


def test_an_unnamed_first_column_holds_ids_or_is_left_out(tmp_path):
    data, *_ = read(tmp_path, ",x\na,1\nb,2\n", "u,v\na,b\n")
    assert data.ids.tolist() == ["a", "b"]
    data, *_ = read(tmp_path, ",id,x\n0,a,1\n1,b,2\n", "u,v\na,b\n")
    assert list(data.table.columns) == ["x"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a,a\n1,2\n", "two columns called 'a'"),
        ("a,b\n1,2,3\n", "more fields|Expected 2 fields"),
        ("a,b\n1,2\n1,2,3\n", "more fields|Expected 2 fields in line 3"),
        ("\n\n", "empty"),
        ("1,2\n3,4\n", "no header"),
        ("a b\n1 2\n", "single column, 'a b'"),
        ("a,b\n\0,1\n", "not text"),
        ("id,x\n", "no rows"),
    ],
)
def test_an_invalid_table_raises_an_error_that_names_it(tmp_path, text, words):
    with pytest.raises(ValueError, match=rf"nodes\.csv.*({words})"):
        read(tmp_path, text, "u,v\n1,2\n", node_id="id" if "id" in text else None)


def test_directions_of_edges_are_kept_on_request(tmp_path):
    edges = "source,target\na,b\nc,b\n"
    data, _, notes = read(tmp_path, TWO, edges, directed=True)
    assert data.graph.outgoing.toarray().tolist() == [[0, 1, 0], [0, 0, 0], [0, 1, 0]]
    assert read(tmp_path, TWO, edges)[0].graph.outgoing is None and not notes
