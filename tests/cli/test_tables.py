"""Tables and graphs in files: ids as written, delimiters and decimals found out, nothing lost in silence."""

import numpy as np
import pandas as pd
import pytest

from ebboost.cli import graph_files, tables


def put(folder, name, text):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def read(folder, nodes, edges, **options):
    found = graph_files.read_nodes_and_edges(
        put(folder, "nodes.csv", nodes), put(folder, "edges.csv", edges), **options
    )
    pairs = {tuple(sorted((str(a), str(b)))) for a, b in _pairs(found.graph)}
    return found, pairs


def _pairs(graph):
    rows, columns = graph.adjacency.tocoo().coords
    return [(graph.node_ids[a], graph.node_ids[b]) for a, b in zip(rows, columns, strict=True)]


NODES = "id,price,name\n01,1.5,x\n02,,y\nNA,3,\n"


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_is_found_and_ids_stay_as_written(tmp_path, delimiter):
    edges = "source,target\n01,02\n02,NA\n"
    found, pairs = read(tmp_path, NODES.replace(",", delimiter), edges.replace(",", delimiter))
    assert found.ids.tolist() == ["01", "02", "NA"] and found.id_name == "id"
    assert pairs == {("01", "02"), ("02", "NA")}
    np.testing.assert_array_equal(found.table["price"], [1.5, np.nan, 3])
    assert found.table["name"].isna().tolist() == [False, False, True] and list(
        found.table.columns
    ) == ["price", "name"]


def test_decimal_commas_are_numbers_in_a_table_with_semicolons(tmp_path):
    path = put(tmp_path, "t.csv", "id;price;rooms;note\na;1,5;3;x,y\nb;-2;4;z\n")
    table = tables.read_table(path, text=["id"])
    assert table["price"].tolist() == [1.5, -2.0] and table["rooms"].tolist() == [3, 4]
    assert table["note"].tolist() == ["x,y", "z"]


def test_quotes_a_byte_order_mark_and_blanks_do_no_harm(tmp_path):
    path = put(tmp_path, "t.csv", '\ufeffid, "full name" ,x\n a ,"Smith, Jo",1\nb,"two\nlines",2\n')
    table = tables.read_table(path, text=["id"])
    assert list(table.columns) == ["id", "full name", "x"] and table["id"].tolist() == ["a", "b"]
    assert table["full name"].tolist() == ["Smith, Jo", "two\nlines"]


def test_iso_dates_are_dates_and_other_text_is_text(tmp_path):
    path = put(
        tmp_path,
        "t.csv",
        "id,day,at,note\n1,2024-02-29,2024-01-01 10:30,2024\n2,,2024-01-02T11:00:05,2024-1\n",
    )
    table = tables.read_table(path, text=["id"])
    assert [table[name].dtype.kind for name in ("day", "at")] == ["M", "M"] and table[
        "note"
    ].dtype.kind != "M"
    assert (
        table["day"].isna().tolist() == [False, True]
        and str(table["at"][1]) == "2024-01-02 11:00:05"
    )


def test_parquet_and_csv_are_read_alike(tmp_path):
    frame = pd.DataFrame({"id": [1, 2, 3], "x": [0.5, np.nan, 2.0]})
    frame.to_parquet(tmp_path / "nodes.parquet")
    edges = put(tmp_path, "edges.csv", "source,target\n1,2\n2,3\n")
    found = graph_files.read_nodes_and_edges(tmp_path / "nodes.parquet", edges)
    assert found.ids.tolist() == ["1", "2", "3"] and found.graph.n_edges == 2
    pd.DataFrame({"a": [1.0, 2.0], "b": [2.0, 3.0], "km": [4.0, 5.0]}).to_parquet(
        tmp_path / "edges.parquet"
    )
    again = graph_files.read_nodes_and_edges(
        tmp_path / "nodes.parquet", tmp_path / "edges.parquet", weight="km"
    )
    assert again.graph.degrees.tolist() == [4.0, 9.0, 5.0]


def test_ids_in_the_index_of_a_parquet_file_are_a_column(tmp_path):
    pd.DataFrame({"x": [1.0, 2.0]}, index=pd.Index(["a", "b"], name="place")).to_parquet(
        tmp_path / "nodes.parquet"
    )
    found = graph_files.read_nodes_and_edges(
        tmp_path / "nodes.parquet", put(tmp_path, "edges.csv", "u,v\na,b\n")
    )
    assert (
        found.id_name == "place"
        and found.ids.tolist() == ["a", "b"]
        and list(found.table.columns) == ["x"]
    )
    pd.DataFrame({"x": [1.0, 2.0]}, index=["a", "b"]).to_parquet(tmp_path / "nodes.parquet")
    assert tables.column_names(tmp_path / "nodes.parquet") == ["index", "x"]


def test_graphml_serves_as_edges(tmp_path):
    text = '<graphml><key id="w" for="edge" attr.name="km"/><graph edgedefault="undirected"><node id="01"/><node id="02"/>'
    text += '<edge source="01" target="02"><data key="w">2.5</data></edge></graph></graphml>'
    nodes, edges = put(tmp_path, "nodes.csv", NODES), put(tmp_path, "g.graphml", text)
    assert graph_files.read_nodes_and_edges(nodes, edges).graph.degrees.tolist() == [1, 1, 0]
    assert graph_files.read_nodes_and_edges(nodes, edges, weight="km").graph.degrees.tolist() == [
        2.5,
        2.5,
        0,
    ]
    with pytest.raises(ValueError, match="no edge attribute is called 'miles'"):
        graph_files.read_nodes_and_edges(nodes, edges, weight="miles")


# ---------------------------------------------------------------------- which column holds the ids


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
    found, _ = read(tmp_path, nodes, edges)
    assert found.id_name == id_name and found.graph.n_edges == 1
    assert (id_name is None) == any("holds row numbers" in note for note in found.notes)


def test_a_column_that_would_do_is_named(tmp_path):
    with pytest.raises(
        ValueError, match=r"such as 'a'\? Not 'x'; column 'tag' has them: pass --id 'tag'"
    ):
        read(tmp_path, "x,tag\n1,a\n2,b\n", "u,v\na,b\n")
    with pytest.raises(ValueError, match="pass --id COLUMN"):
        read(tmp_path, "x,tag\n1,c\n2,d\n", "u,v\na,b\n")


def test_ids_that_differ_by_one_from_row_numbers_are_never_taken_for_rows(tmp_path):
    nodes, edges = "id,x\n1,0\n2,0\n3,0\n", "u,v\n0,1\n1,2\n"
    with pytest.raises(ValueError, match=r"edges\.csv, line 2: node '0' is not in column 'id'"):
        read(tmp_path, nodes, edges)
    found, pairs = read(tmp_path, nodes, edges, node_id="rows")
    assert found.id_name is None and pairs == {("0", "1"), ("1", "2")}
    with pytest.raises(ValueError, match="node '3' is not a row of"):
        read(tmp_path, nodes, "u,v\n0,3\n", node_id="rows")


def test_ends_of_edges_are_found_by_name_or_order(tmp_path):
    nodes = "id,x\na,1\nb,2\nc,3\n"
    for edges in (
        "km,from,to\n9,a,b\n",
        "to,from\na,b\n",
        "first,second,km\na,b,9\n",
        "weight,target,source\n1,a,b\n",
    ):
        _, pairs = read(tmp_path, nodes, edges)
        assert pairs == {("a", "b")}
    _, pairs = read(tmp_path, nodes, "from,to,via\na,b,c\n", edge_from="from", edge_to="via")
    assert pairs == {("a", "c")}


def test_a_weight_column_that_is_not_used_is_mentioned_and_used_if_asked(tmp_path):
    edges = "source,target,weight\na,b,2.5\n"
    found, _ = read(tmp_path, "id,x\na,1\nb,2\n", edges)
    assert found.graph.degrees.tolist() == [1, 1] and any(
        "--weight weight" in note for note in found.notes
    )
    found, _ = read(tmp_path, "id,x\na,1\nb,2\n", edges, weight="weight")
    assert found.graph.degrees.tolist() == [2.5, 2.5] and not found.notes
    with pytest.raises(ValueError, match=r"line 2: the weight in column 'weight' is '-1'"):
        read(tmp_path, "id,x\na,1\nb,2\n", edges.replace("2.5", "-1"), weight="weight")


def test_edges_to_unknown_nodes_are_left_out_only_if_asked(tmp_path):
    nodes, edges = "id,x\na,1\nb,2\n", "u,v,w\na,b,1\na,z,2\n"
    with pytest.raises(ValueError, match=r"line 3: node 'z'.*1 of 2 edges.*--skip-unknown"):
        read(tmp_path, nodes, edges)
    found, pairs = read(tmp_path, nodes, edges, skip_unknown=True, weight="w")
    assert pairs == {("a", "b")} and any("1 edges name nodes" in note for note in found.notes)


def test_an_unnamed_first_column_is_an_id_or_nothing(tmp_path):
    found, _ = read(tmp_path, ",x\na,1\nb,2\n", "u,v\na,b\n")
    assert found.ids.tolist() == ["a", "b"]
    found, _ = read(tmp_path, ",id,x\n0,a,1\n1,b,2\n", "u,v\na,b\n")
    assert list(found.table.columns) == ["x"]


# ---------------------------------------------------------------------- what is refused


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
def test_a_broken_table_is_refused_with_its_name(tmp_path, text, words):
    with pytest.raises(ValueError, match=rf"nodes\.csv.*({words})"):
        read(tmp_path, text, "u,v\n1,2\n", node_id="id" if "id" in text else None)


def test_bytes_that_are_not_utf8_far_down_are_found_too(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(b"id,x\n" + b"a,1\n" * 40_000 + b"\xe4,2\n")
    with pytest.raises(ValueError, match="not UTF-8 text"):
        tables.read_table(path)


def test_suggestions_ignore_case_and_list_the_rest():
    assert tables.suggestion("Price", ["price", "rooms"]) == "Did you mean 'price'?"
    assert tables.suggestion("zzz", ["price", "rooms"]) == "There are 'price', 'rooms'."


# ---------------------------------------------------------------------- writing


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path):
    path = put(tmp_path, "out.csv", "old")

    class Interrupted:
        def to_csv(self, place, index):
            place.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tables.write_table(Interrupted(), path)
    assert path.read_text() == "old" and [p.name for p in tmp_path.iterdir()] == ["out.csv"]
    tables.write_table(pd.DataFrame({"a": [1]}), path)
    assert path.read_text() == "a\n1\n" and [p.name for p in tmp_path.iterdir()] == ["out.csv"]


def test_attached_graphs_keep_both_sets_of_edges(tmp_path):
    from ebboost import Graph

    new = Graph.from_edges([0, 1], [1, 3], n_nodes=4)  # two new nodes, then the two fitted ones
    both = graph_files.attach(new, Graph.from_edges([0], [1], weight=[5.0]))
    assert both.adjacency.toarray().tolist() == [
        [0, 1, 0, 0],
        [1, 0, 0, 1],
        [0, 0, 0, 5],
        [0, 1, 5, 0],
    ]
