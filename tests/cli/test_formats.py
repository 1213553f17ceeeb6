"""Tables in files other than text, and in databases."""

import sqlite3
import sys

import pandas as pd
import pytest

from ebboost.cli import tables
from ebboost.cli.formats import Query
from ebboost.cli.graph_files import EdgeColumns, read_nodes_and_edges
from tests.cli.commands import grid, run

FRAME = pd.DataFrame({"id": [7, 8], "price": [1.5, 2.5], "kind": ["a", "b"]})


def same(table):
    assert table["id"].tolist() == ["7", "8"]
    assert table["price"].tolist() == [1.5, 2.5] and table["kind"].tolist() == ["a", "b"]


@pytest.mark.parametrize("name", ["t.parquet", "t.feather", "t.xlsx"])
def test_dataframes_in_binary_files_are_read(tmp_path, name):
    path = tmp_path / name
    if name == "t.xlsx":
        pytest.importorskip("openpyxl")
        FRAME.to_excel(path, index=False)
    else:
        getattr(FRAME, f"to_{name[2:]}")(path)
    same(tables.read_table(path, text=["id"]))


def test_dates_and_written_numbers_in_binary_files_are_such(tmp_path):
    frame = FRAME.assign(sold=["31/12/2023", "05/01/2024"], rent=["€1,200", "€900"])
    frame.to_feather(tmp_path / "t.feather")
    with pytest.warns(UserWarning, match="'€1,200' is 1200"):
        table = tables.read_table(tmp_path / "t.feather", text=["id"])
    assert table["rent"].tolist() == [1200.0, 900.0]
    assert table["sold"].dt.day.tolist() == [31, 5]


def test_edges_in_a_sheet_without_a_header_lose_none(tmp_path):
    pytest.importorskip("openpyxl")
    edges = pd.DataFrame([[7, 8, 0.5], [8, 9, 2.0]])
    edges.to_excel(tmp_path / "e.xlsx", header=False, index=False)
    pd.DataFrame({"id": [7, 8, 9], "x": [1, 2, 3]}).to_csv(tmp_path / "n.csv", index=False)
    columns = EdgeColumns(weight="column 3")
    data = read_nodes_and_edges(tmp_path / "n.csv", tmp_path / "e.xlsx", columns=columns)
    assert data.graph.adjacency.toarray().tolist() == [[0, 0.5, 0], [0.5, 0, 2], [0, 2, 0]]


def test_text_in_a_sheet_stays_as_written(tmp_path):
    pytest.importorskip("openpyxl")
    frame = pd.DataFrame({"id": ["007", "08"], "size": [1, None], "amount": ["1,000", "2"]})
    frame["sold"] = pd.to_datetime(["2024-05-31", "2024-06-01"])
    frame.to_excel(tmp_path / "n.xlsx", index=False)
    pd.DataFrame([["007", "08"]]).to_excel(tmp_path / "e.xlsx", header=False, index=False)
    with pytest.warns(UserWarning, match="'1,000' is 1000"):
        data = read_nodes_and_edges(tmp_path / "n.xlsx", tmp_path / "e.xlsx")
    assert data.ids.tolist() == ["007", "08"] and data.graph.n_edges == 1
    assert [column.dtype.kind for _, column in data.table.items()] == ["f", "f", "M"]


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
    if name == "t.parquet":
        frame.to_parquet(path)
    else:
        frame.to_file(path)
    table = tables.read_table(path, text=["id"])
    same(table)
    assert list(table)[-2:] == columns
    assert table[columns].to_numpy().tolist() == [[10.0, 50.0], [11.0, 51.0]]


@pytest.mark.parametrize("kind", ["sqlite", "duckdb"])
def test_a_query_of_a_database_is_a_table(tmp_path, kind):
    path = tmp_path / f"t.{kind}"
    database = sqlite3 if kind == "sqlite" else pytest.importorskip("duckdb")
    connection = database.connect(path)
    connection.execute("CREATE TABLE t (id INTEGER, price DECIMAL(8, 1), kind TEXT)")
    connection.execute("INSERT INTO t VALUES (7, 1.5, 'a'), (8, 2.5, 'b'), (9, 0, 'c')")
    connection.commit()
    connection.close()
    same(tables.read_table(Query(path, "SELECT * FROM t WHERE id < 9"), text=["id"]))
    with pytest.raises(ValueError, match=r"is a database: pass --sql"):
        tables.read_table(path)
    with pytest.raises(ValueError, match=r"the query failed: .*nowhere"):
        tables.read_table(Query(path, "SELECT * FROM nowhere"))


def test_the_command_line_reads_queries(tmp_path):
    nodes, edges = grid()
    connection = sqlite3.connect(tmp_path / "shop.db")
    nodes.to_sql("houses", connection, index=False)
    edges.to_sql("near", connection, index=False)
    connection.close()
    words = ("check", tmp_path / "shop.db", tmp_path / "shop.db", "-t", "price", "--no-estimate")
    queries = ("--sql", "SELECT * FROM houses", "--edges-sql", 'SELECT "from", "to" FROM near')
    assert "196: 130 labelled" in run(*words, *queries).stdout


def test_a_missing_package_is_named(tmp_path, monkeypatch):
    path = tmp_path / "t.gpkg"
    path.write_bytes(b"SQLite format 3\0")
    monkeypatch.setitem(sys.modules, "geopandas", None)
    with pytest.raises(ImportError, match="need geopandas: pip install geopandas"):
        tables.read_table(path)


def test_a_query_needs_a_database(tmp_path):
    path = tmp_path / "t.csv"
    FRAME.to_csv(path, index=False)
    with pytest.raises(ValueError, match="is not a database"):
        tables.read_table(Query(path, "SELECT 1"))
