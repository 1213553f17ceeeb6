"""Tables in files: text of any kind, spreadsheets, Parquet, maps, databases, graphs."""

import bz2
import gzip
import lzma
import sqlite3
import sys

import networkx as nx
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from ebboost.cli.files import read_table, suggestion

FRAME = pd.DataFrame({"id": [7, 8], "price": [1.5, 2.5], "kind": ["a", "b"]})
TEXT = st.text(st.characters(codec="utf-8", exclude_characters='\0\r\n",;\t|{['), min_size=1)
CELLS = TEXT.map(str.strip).filter(lambda text: text and text.isprintable())


def put(folder, text, name="t.csv"):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


@given(st.lists(st.tuples(CELLS, CELLS, CELLS), min_size=1, max_size=8), st.sampled_from(",;\t|"))
def test_cells_are_read_as_they_were_written(tmp_path_factory, rows, delimiter):
    path = tmp_path_factory.mktemp("t") / "t.csv"
    table = pd.DataFrame(rows, columns=["one", "two", "three"])
    table.to_csv(path, sep=delimiter, index=False)
    read = read_table(path)
    assert read.frame.to_numpy().tolist() == [list(row) for row in rows]


def test_quotes_a_byte_order_mark_blanks_and_lines_are_read(tmp_path):
    text = '\ufeffid, "full name" ,x\n\n 01 ,"Smith, Jo",1\nb,"two\nlines",2\nNA,,\n'
    table = read_table(put(tmp_path, text))
    assert table.names == ["id", "full name", "x"]
    assert table.texts("id").tolist() == ["01", "b", "NA"]
    assert table.texts("full name").tolist() == ["Smith, Jo", "two\nlines", ""]
    assert [table.line(row) for row in range(3)] == [3, 4, 6]
    assert table.without_header().line(0) == 1


@pytest.mark.parametrize("module", [gzip, bz2, lzma])
def test_compressed_text_is_read(tmp_path, module):
    path = tmp_path / "any.name"
    path.write_bytes(module.compress(b"id,x\n01,1.5\n02,\n"))
    assert read_table(path).texts("id").tolist() == ["01", "02"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"a,a\n1,2\n", "two columns called 'a'"),
        (b"a,b\n1,2,3\n", "different lengths"),
        (b"a,b\n1,2\n1,2,3\n", "different lengths"),
        (b"\n\n", "is empty"),
        (b"a b\n1 2\n", "single column, 'a b'"),
        (b"a,b\n\0,1\n", "not text"),
        (b"id,x\n", "a header but no rows"),
        (b'[{"id": 1}]', "looks like JSON"),
        ("id,größe\n1,2\n".encode("latin-1"), "not UTF-8 text .byte 0xf6.* iconv"),
        (b"id,x\n" + b"a,1\n" * 40_000 + b"\xe4,2\n", "not UTF-8 text"),
        ("id,x\n1,2\n".encode("utf-16"), "UTF-16"),
        (b"\xd0\xcf\x11\xe0 what Excel wrote", r"save it as \.xlsx"),
        (b"PAR1 and no more", "not a readable"),
        (b"PK\x03\x04 and no more", "not a readable|openpyxl"),
    ],
)
def test_a_file_that_cannot_be_read_is_named_with_the_reason(tmp_path, content, words):
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    with pytest.raises((ValueError, ImportError), match=rf"t\.csv.*({words})"):
        read_table(path)


def test_a_missing_file_or_column_is_answered_by_the_nearest(tmp_path):
    put(tmp_path, "id,price\n1,2\n", "nodes.csv")
    with pytest.raises(ValueError, match=r"no file .*node\.csv\. Did you mean 'nodes\.csv'\?"):
        read_table(tmp_path / "node.csv")
    with pytest.raises(ValueError, match="is a folder"):
        read_table(tmp_path)
    with pytest.raises(ValueError, match=r"'prise' \(--target\)\. Did you mean 'price'\?"):
        read_table(tmp_path / "nodes.csv").check("prise", "--target")
    assert suggestion("zzz", ["price", "rooms"]) == "There are 'price', 'rooms'."


@pytest.mark.parametrize("name", ["t.parquet", "t.xlsx"])
def test_binary_files_are_read(tmp_path, name):
    path = tmp_path / name
    if name == "t.xlsx":
        pytest.importorskip("openpyxl")
        FRAME.to_excel(path, index=False)
    else:
        FRAME.set_index("id").to_parquet(path)  # ids are often kept in the index
    table = read_table(path)
    assert table.texts("id").tolist() == ["7", "8"] and table.names == list(FRAME)
    assert table.frame["price"].astype(float).tolist() == [1.5, 2.5]


@pytest.mark.parametrize("name", ["t.gpkg", "t.geojson", "t.parquet"])
@pytest.mark.parametrize(
    ("crs", "columns"), [("EPSG:4326", ["longitude", "latitude"]), ("EPSG:3857", ["x", "y"])]
)
def test_geometry_becomes_two_columns_of_coordinates(tmp_path, name, crs, columns):
    geopandas = pytest.importorskip("geopandas")
    if name == "t.geojson" and crs != "EPSG:4326":
        pytest.skip("GeoJSON is in degrees")
    points = geopandas.points_from_xy([10.0, 11.0], [50.0, 51.0])
    frame = geopandas.GeoDataFrame(FRAME, geometry=points, crs=crs)
    path = tmp_path / name
    frame.to_parquet(path) if name == "t.parquet" else frame.to_file(path)
    table = read_table(path)
    assert table.names[-2:] == columns and table.layout == "map"
    assert table.frame[columns].to_numpy().tolist() == [[10.0, 50.0], [11.0, 51.0]]


@pytest.mark.parametrize("kind", ["sqlite", "duckdb"])
def test_a_query_of_a_database_is_a_table(tmp_path, kind):
    path = tmp_path / f"t.{kind}"
    database = sqlite3 if kind == "sqlite" else pytest.importorskip("duckdb")
    connection = database.connect(path)
    connection.execute("CREATE TABLE t (id INTEGER, price DOUBLE, kind TEXT)")
    connection.execute("INSERT INTO t VALUES (7, 1.5, 'a'), (8, 2.5, 'b'), (9, 0, 'c')")
    connection.commit()
    connection.close()
    table = read_table(path, "SELECT * FROM t WHERE id < 9")
    assert table.texts("id").tolist() == ["7", "8"]
    with pytest.raises(ValueError, match=r"is a database: pass --sql"):
        read_table(path)
    with pytest.raises(ValueError, match=r"the query failed: .*nowhere"):
        read_table(path, "SELECT * FROM nowhere")
    with pytest.raises(ValueError, match="is not a database"):
        read_table(put(tmp_path, "a,b\n1,2\n"), "SELECT 1")


def test_graphs_are_tables_of_edges(tmp_path):
    graph = nx.Graph()
    graph.add_edge("01", "02", km=2.5)
    nx.write_graphml(graph, tmp_path / "g.graphml")
    table = read_table(tmp_path / "g.graphml")
    assert [table.texts(name).tolist() for name in table.names] == [["01"], ["02"], ["2.5"]]
    matrix = sparse.csr_array(([0.5], ([0], [1])), shape=(2, 2))
    sparse.save_npz(tmp_path / "g.npz", matrix)
    table = read_table(tmp_path / "g.npz")
    assert table.frame.to_numpy().tolist() == [[0.0, 1.0, 0.5]]


def test_a_missing_package_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "geopandas", None)
    with pytest.raises(ImportError, match=r"t\.gpkg needs geopandas: pip install geopandas"):
        read_table(put(tmp_path, "", "t.gpkg"))
