"""Tables as they stand in files: text, spreadsheets, Parquet, maps, databases, graphs.

Cells of text files stay text, exactly as written: "01001" is no number. What columns mean is read
by ``columns``.
"""

import bz2
import csv
import gzip
import io
import lzma
import sqlite3
import warnings
import zlib
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
COMPRESSED = {b"\x1f\x8b": gzip.decompress, b"BZh": bz2.decompress, b"\xfd7zXZ": lzma.decompress}
DAMAGED = (EOFError, OSError, zlib.error, lzma.LZMAError, ValueError)
REJECTED = {b"\xd0\xcf\x11\xe0": "a spreadsheet of before 2007: save it as .xlsx or CSV"}
REJECTED |= dict.fromkeys([b"\xff\xfe", b"\xfe\xff"], "UTF-16 text: save it as UTF-8")
MAPS = (".gpkg", ".geojson", ".shp", ".fgb")
COMMA_ROWS = 1000  # that tell whether commas are decimal points
DECIMAL_COMMA = r"[+-]?(?:\d{1,3}(?:\.\d{3})+|\d+),(?:\d{1,2}|\d{4,})"
MAX_COMPARED = 20_000  # names in the search for the nearest, which then takes a second


class FileError(ValueError):
    """What is wrong with a file; the message begins with its name."""


@dataclass(frozen=True, eq=False)
class Table:
    """A table as it stands in a file; ``text`` is that of a text file, for numbers of lines."""

    path: Path
    frame: pd.DataFrame
    layout: str  # how it is written
    text: str | None = None
    delimiter: str = ","
    has_commas: bool = False  # as decimal points
    has_header: bool = True
    rows: pd.DataFrame | None = None  # with the first line, where that might be a row

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return list(self.frame.columns)

    def without_header(self) -> "Table":
        """Return the table with its first line as a row."""
        assert self.rows is not None
        names = [f"column {number}" for number in range(1, self.rows.shape[1] + 1)]
        return replace(self, frame=self.rows.set_axis(names, axis=1), has_header=False)

    def check(self, name: str, option: str) -> str:
        """Return ``name`` if it is a column, else raise an error that offers the nearest."""
        if name not in self.names:
            hint = suggestion(name, self.names)
            raise ValueError(f"{self.path} has no column {name!r} ({option}). {hint}")
        return name

    def texts(self, name: str) -> pd.Series:
        """Return a column as text, "" where it is empty; whole numbers do not end in ".0"."""
        column = self.frame[name]
        if column.dtype.kind == "f" and (column.dropna() % 1 == 0).all():
            column = column.astype("Int64")  # floats because of a gap
        return column.map(str).where(column.notna(), "").astype(object)

    def line(self, row: int) -> int:
        """Return the line of the file on which a row begins; cells may have several lines."""
        if self.text is None:
            return row + 1 + self.has_header
        reader = csv.reader(io.StringIO(self.text), delimiter=self.delimiter)
        first, number = 1, -int(self.has_header)
        for fields in reader:
            if fields and number == row:
                break
            number += bool(fields)  # blank lines are no rows
            first = reader.line_num + 1
        return first

    def where(self, invalid: NDArray[np.bool_]) -> str:
        """Return the file and the line of the first invalid row, "" if all are valid."""
        return f"{self.path}, line {self.line(int(invalid.argmax()))}" if invalid.any() else ""


def suggestion(wrong: str, right: Sequence[str]) -> str:
    """Return a question that offers the nearest of the right names, else some of them."""
    lower = {name.lower(): name for name in right[:MAX_COMPARED]}
    if near := get_close_matches(wrong.lower(), list(lower), n=1, cutoff=0.6):
        return f"Did you mean {lower[near[0]]!r}?"
    shown = ", ".join(repr(name) for name in right[:8])
    return f"There are {shown}{' …' if len(right) > 8 else ''}."


def check_exists(path: Path) -> None:
    """Raise an error that offers the nearest file if there is no such file."""
    if path.is_dir():
        raise FileError(f"{path} is a folder: name a file in it.")
    if not path.exists():
        files = [file.name for file in path.parent.iterdir()] if path.parent.is_dir() else []
        hint = suggestion(path.name, files) if files else ""
        raise FileError(f"There is no file {path}. {hint}".strip())


def read_table(path: Path, query: str | None = None) -> Table:
    """Read a table from a file, or by an SQL query of a database."""
    check_exists(path)
    suffix = path.suffix.lower()
    try:
        if suffix in MAPS:
            return named(path, _points(_library(path, "geopandas").read_file(path)), "map")
        if suffix in (".graphml", ".xml"):
            edges = _library(path, "networkx").read_graphml(path).edges(data=True)
            rows = [{"source": one, "target": other, **more} for one, other, more in edges]
            return named(path, pd.DataFrame(rows or {"source": [], "target": []}), "GraphML")
        if suffix == ".npz":
            matrix = sparse.load_npz(path).tocoo()
            columns = {"source": matrix.row, "target": matrix.col, "weight": matrix.data}
            return named(path, pd.DataFrame(columns), "sparse matrix")
        with path.open("rb") as file:
            start = file.read(16)
            is_duckdb = start[8:12] == b"DUCK"
            if is_duckdb or start.startswith(b"SQLite format 3"):
                return named(path, _queried(path, query, is_duckdb), "result of a query")
            if query is not None:
                raise FileError(f"{path} is not a database of SQLite or DuckDB: leave --sql out.")
            content = start + file.read()
        if start.startswith(b"PAR1"):
            schema = _library(path, "pyarrow.parquet").read_schema(io.BytesIO(content))
            if b"geo" in (schema.metadata or {}):
                areas = _library(path, "geopandas").read_parquet(io.BytesIO(content))
                return named(path, _points(areas), "map")
            return named(path, pd.read_parquet(io.BytesIO(content)), "Parquet file")
        if start.startswith(b"PK\x03\x04"):
            _library(path, "openpyxl")
            rows = pd.read_excel(io.BytesIO(content), header=None, dtype=object)
            return _with_header(path, rows, "spreadsheet")
    except (FileError, ImportError, PermissionError):
        raise
    except Exception as error:  # also classes of libraries that may not be importable
        raise FileError(f"{path} is not a readable {suffix} file: {error}") from None
    return _text_table(path, content)


def _text_table(path: Path, content: bytes) -> Table:
    """A table of a text file, compressed or not."""
    for unpack in [one for magic, one in COMPRESSED.items() if content.startswith(magic)]:
        try:
            content = unpack(content)
        except DAMAGED as error:
            problem = f"{path} is cut off or damaged ({str(error).rstrip('.')})"
            raise FileError(f"{problem}: copy or download it again.") from None
    for magic, problem in REJECTED.items():
        if content.startswith(magic):
            raise FileError(f"{path} is {problem}.")
    if b"\0" in content:
        raise FileError(f"{path} is not text: pass a CSV or Parquet file.")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        byte = f"byte 0x{content[error.start]:02x}"
        remedy = "save it as UTF-8, for example with iconv -f WINDOWS-1252 -t UTF-8."
        raise FileError(f"{path} is not UTF-8 text ({byte}): {remedy}") from None
    lines = [line for line in text[: 1 << 16].splitlines()[:20] if line.strip()]
    if not lines:
        raise FileError(f"{path} is empty: its first line must name the columns.")
    if lines[0].lstrip()[0] in "{[":
        raise FileError(f"{path} looks like JSON: pass a CSV or Parquet file.")
    sizes = {}
    for delimiter in DELIMITERS:
        counts = [len(row) for row in csv.reader(lines, delimiter=delimiter, skipinitialspace=True)]
        sizes[delimiter] = (counts[0] > 1 and len(set(counts)) == 1, counts[0])
    delimiter = max(sizes, key=lambda one: sizes[one])
    if sizes[delimiter][1] == 1:
        remedy = "separate columns by comma, semicolon, tab or |."
        raise FileError(f"{path} has a single column, {lines[0].strip()!r}: {remedy}")
    options: dict[str, Any] = {"sep": delimiter, "header": None, "index_col": False}
    options |= {"names": range(sizes[delimiter][1]), "skipinitialspace": True}
    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)  # of lines that would be cut
        try:
            rows = pd.read_csv(io.StringIO(text), dtype=str, keep_default_na=False, **options)
        except (pd.errors.ParserWarning, pd.errors.ParserError) as error:
            reason = str(error).replace("Error tokenizing data. C error: ", "").strip()
            raise FileError(f"{path} has lines of different lengths: {reason}") from None
    rows = rows.apply(lambda column: column.fillna("").str.strip().astype(object))
    table = _with_header(path, rows, f"separated by {DELIMITERS[delimiter]}")
    form = DECIMAL_COMMA + (r"|[+-]?\d+,\d{3}" if delimiter == ";" else "")
    has_commas = rows.iloc[:COMMA_ROWS].apply(lambda one: one.str.fullmatch(form)).any(axis=None)
    return replace(table, text=text, delimiter=delimiter, has_commas=bool(has_commas))


def _with_header(path: Path, rows: pd.DataFrame, layout: str) -> Table:
    """A table whose first row names the columns."""
    names = ["" if value != value else str(value) for value in rows.iloc[0].tolist()]
    frame = rows.iloc[1:].reset_index(drop=True).set_axis(names, axis=1)
    return replace(named(path, frame, layout), rows=rows)


def named(path: Path, frame: pd.DataFrame, layout: str) -> Table:
    """Return a table whose columns have names."""
    is_default = frame.index.name is None and frame.index.equals(pd.RangeIndex(len(frame)))
    frame = frame if is_default else frame.reset_index()  # ids are often kept in the index
    names = [str(name).strip() or f"unnamed {n}" for n, name in enumerate(frame.columns)]
    if twice := [name for n, name in enumerate(names) if name in names[:n]]:
        raise FileError(f"{path} has two columns called {twice[0]!r}: rename one of them.")
    if not len(frame):
        raise FileError(f"{path} has a header but no rows.")
    return Table(path, frame.set_axis(names, axis=1), layout)


def _library(path: Path, name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        raise ImportError(f"{path} needs {name}: pip install {name}.") from None


def _points(table: Any) -> pd.DataFrame:
    """The columns of a map, with those of a point in each geometry in place of the geometry."""
    points = table.geometry.representative_point()
    is_degrees = table.crs is not None and table.crs.is_geographic
    names = ("longitude", "latitude") if is_degrees else ("x", "y")
    frame = pd.DataFrame(table.drop(columns=table.geometry.name))
    for name, values in zip(names, (points.x, points.y), strict=True):
        frame[name if name not in frame else f"geometry {name}"] = values
    return frame


def _queried(path: Path, query: str | None, is_duckdb: bool) -> pd.DataFrame:
    if query is None:
        remedy = 'pass --sql "SELECT * FROM table", or --edges-sql for the edges.'
        raise FileError(f"{path} is a database: {remedy}")
    if is_duckdb:
        connection: Any = _library(path, "duckdb").connect(str(path), read_only=True)
    else:
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    with closing(connection):
        try:
            return connection.sql(query).df() if is_duckdb else pd.read_sql_query(query, connection)
        except Exception as error:  # classes of libraries that may not be importable
            raise FileError(f"{path}: the query failed: {error}") from None
