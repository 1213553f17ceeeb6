"""Tables as they stand in files: text, spreadsheets, Parquet, maps, databases, graphs.

Cells of text files stay text, exactly as written ("01001" is no number); what columns mean is read
by ``columns``. The kind of a file is seen from its first bytes. Messages name file, line and remedy.
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
MAPS = (".gpkg", ".geojson", ".shp", ".fgb")
MAX_COMPARED = 20_000  # names in the search for the nearest, which then takes a second


@dataclass(frozen=True)
class Source:
    """A file with a table, or an SQL query of a database."""

    path: Path
    query: str | None = None

    def __str__(self) -> str:
        return str(self.path)


@dataclass(frozen=True, eq=False)
class Table:
    """A table as it stands in a file; ``text`` is that of a text file, for numbers of lines."""

    source: Source
    frame: pd.DataFrame
    layout: str  # how it is written
    text: str | None = None
    delimiter: str = ","
    has_header: bool = True
    headless: pd.DataFrame | None = None  # with the first line as a row, if it might be one

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return list(self.frame.columns)

    @property
    def path(self) -> Path:
        """The file."""
        return self.source.path

    @property
    def is_map(self) -> bool:
        """Whether it is a file of geometries."""
        return self.layout == "map"

    def without_header(self) -> "Table":
        """Return the table with its first line as a row."""
        if self.headless is None:
            return self
        names = [f"column {number}" for number in range(1, self.headless.shape[1] + 1)]
        return replace(self, frame=self.headless.set_axis(names, axis=1), has_header=False)

    def check(self, name: str, option: str) -> str:
        """Return ``name`` if it is a column, else raise an error that offers the nearest."""
        if name not in self.names:
            hint = suggestion(name, self.names)
            raise ValueError(f"{self.source} has no column {name!r} ({option}). {hint}")
        return name

    def texts(self, name: str) -> pd.Series:
        """Return a column as text, "" where it is empty; whole numbers do not end in ".0"."""
        column = self.frame[name]
        if column.dtype.kind == "f" and (column.dropna() % 1 == 0).all():
            # whole numbers, stored as floats because of a gap
            return column.map(lambda value: "" if value != value else str(int(value)))
        return column.map(str).where(column.notna(), "").astype(object)

    def line(self, row: int) -> int:
        """Return the line of the file on which a row begins; cells may have several lines."""
        if self.text is not None:
            reader = csv.reader(io.StringIO(self.text), delimiter=self.delimiter)
            first, number = 1, -int(self.has_header)
            for fields in reader:
                if fields and number == row:
                    return first
                number += bool(fields)  # blank lines are no rows
                first = reader.line_num + 1
        return row + 1 + self.has_header

    def where(self, invalid: NDArray[np.bool_]) -> str:
        """Return the file and the line of the first invalid row, "" if all are valid."""
        return f"{self.source}, line {self.line(int(invalid.argmax()))}" if invalid.any() else ""


def suggestion(wrong: str, right: Sequence[str]) -> str:
    """Return a question that offers the nearest of the right names, or a list of them."""
    lower = {name.lower(): name for name in right[:MAX_COMPARED]}
    if near := get_close_matches(wrong.lower(), list(lower), n=1, cutoff=0.6):
        return f"Did you mean {lower[near[0]]!r}?"
    shown = ", ".join(repr(name) for name in right[:8])
    return f"There are {shown}{' …' if len(right) > 8 else ''}."


def existing(path: Path) -> Path:
    """Return a path if it is a file."""
    if path.is_dir():
        raise ValueError(f"{path} is a folder: name a file in it.")
    if not path.exists():
        files = [file.name for file in path.parent.iterdir()] if path.parent.is_dir() else []
        near = get_close_matches(path.name, files, n=1)
        hint = f" Did you mean {path.with_name(near[0])}?" if near else ""
        raise ValueError(f"There is no file {path}.{hint}")
    return path


def read_table(source: Source) -> Table:
    """Read a table."""
    path = existing(source.path)
    if source.query is not None:
        return _named(source, _run_query(source), "result of a query")
    suffix = path.suffix.lower()
    try:
        if suffix in MAPS:
            return _named(source, _without_geometry(_library("geopandas").read_file(path)), "map")
        if suffix in (".graphml", ".xml"):
            return _named(source, _graphml(path), "GraphML")
        if suffix == ".npz":
            return _named(source, _npz(path), "sparse matrix")
        with path.open("rb") as file:
            start = file.read(16)
            if start.startswith(b"SQLite format 3") or start[8:12] == b"DUCK":
                remedy = 'pass --sql "SELECT * FROM table", or --edges-sql for the edges.'
                raise ValueError(f"is a database: {remedy}")
            content = start + file.read()
        if start.startswith(b"PAR1"):
            return _named(source, _parquet(content), "Parquet file")
        if start.startswith(b"ARROW1"):
            return _named(source, pd.read_feather(io.BytesIO(content)), "Feather file")
        if start.startswith(b"PK\x03\x04"):
            _library("openpyxl")
            rows = pd.read_excel(io.BytesIO(content), header=None, dtype=object)
            return _with_header(source, rows, "spreadsheet")
        if start.startswith(b"\xd0\xcf\x11\xe0"):
            raise ValueError("is a spreadsheet of before 2007: save it as .xlsx or CSV.")
        return _text(source, content)
    except ImportError as error:
        raise ImportError(f"{path} {error}") from None
    except OSError as error:
        if error.filename is None:  # of a library
            raise ValueError(f"{path} is not a readable {suffix} file: {error}") from None
        raise
    except Exception as error:  # also classes of libraries that may not be importable
        text = str(error)
        if not text.startswith(("is ", "has ", "looks ")):
            text = f"is not a readable {suffix} file: {text}"
        raise ValueError(f"{path} {text}") from None


def _text(source: Source, content: bytes) -> Table:
    """A table of a text file, compressed or not."""
    for magic, unpack in COMPRESSED.items():
        if content.startswith(magic):
            try:
                content = unpack(content)
            except (EOFError, OSError, zlib.error, lzma.LZMAError, ValueError) as error:
                problem = f"is cut off or damaged ({str(error).rstrip('.')})"
                raise ValueError(f"{problem}: copy or download it again.") from None
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise ValueError("is UTF-16 text: save it as UTF-8.")
    if b"\0" in content:
        raise ValueError("is not text: pass a CSV or Parquet file.")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        byte = f"byte 0x{content[error.start]:02x}"
        remedy = "save it as UTF-8, for example with iconv -f WINDOWS-1252 -t UTF-8."
        raise ValueError(f"is not UTF-8 text ({byte}): {remedy}") from None
    lines = [line for line in text[: 1 << 16].splitlines()[:20] if line.strip()]
    if not lines:
        raise ValueError("is empty: its first line must name the columns.")
    if lines[0].lstrip()[0] in "{[":
        raise ValueError("looks like JSON: pass a CSV or Parquet file.")
    sizes = {}
    for delimiter in DELIMITERS:
        rows = csv.reader(lines, delimiter=delimiter, skipinitialspace=True)
        counts = [len(row) for row in rows]
        sizes[delimiter] = (counts[0] > 1 and len(set(counts)) == 1, counts[0])
    delimiter = max(sizes, key=lambda one: sizes[one])
    n_columns = sizes[delimiter][1]
    if n_columns == 1:
        remedy = "separate columns by comma, semicolon, tab or |."
        raise ValueError(f"has a single column, {lines[0].strip()!r}: {remedy}")
    options: dict[str, Any] = {"header": None, "names": range(n_columns), "index_col": False}
    options |= {"dtype": str, "keep_default_na": False, "skipinitialspace": True}
    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)
        try:
            rows = pd.read_csv(io.StringIO(text), sep=delimiter, **options)
        except pd.errors.ParserWarning:  # pandas would drop the rest of such lines
            problem = f"has lines with more fields than the {n_columns} of its first"
            raise ValueError(f"{problem}: put quotes around fields with {delimiter!r}.") from None
        except pd.errors.ParserError as error:
            reason = str(error).replace("Error tokenizing data. C error: ", "").strip()
            raise ValueError(f"is not a readable table: {reason}") from None
    rows = rows.apply(lambda column: column.fillna("").str.strip().astype(object))
    table = _with_header(source, rows, f"separated by {DELIMITERS[delimiter]}")
    return replace(table, text=text, delimiter=delimiter)


def _with_header(source: Source, rows: pd.DataFrame, layout: str) -> Table:
    """A table whose first row names the columns."""
    if not len(rows):
        raise ValueError("is empty: its first line must name the columns.")
    names = ["" if value != value else str(value) for value in rows.iloc[0].tolist()]
    frame = rows.iloc[1:].reset_index(drop=True).set_axis(names, axis=1)
    return replace(_named(source, frame, layout), headless=rows)


def _named(source: Source, frame: pd.DataFrame, layout: str) -> Table:
    """A table whose columns have names."""
    is_default = frame.index.name is None and frame.index.equals(pd.RangeIndex(len(frame)))
    frame = frame if is_default else frame.reset_index()  # ids are often kept in the index
    names = [str(name).strip() or f"unnamed {n}" for n, name in enumerate(frame.columns)]
    for position, name in enumerate(names):
        if name in names[:position]:
            raise ValueError(f"has two columns called {name!r}: rename one of them.")
    return Table(source, frame.set_axis(names, axis=1), layout)


def _library(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        raise ImportError(f"needs {name}: pip install {name}.") from None


def _parquet(content: bytes) -> pd.DataFrame:
    schema = _library("pyarrow.parquet").read_schema(io.BytesIO(content))
    if b"geo" in (schema.metadata or {}):
        return _without_geometry(_library("geopandas").read_parquet(io.BytesIO(content)))
    return pd.read_parquet(io.BytesIO(content))


def _without_geometry(table: Any) -> pd.DataFrame:
    """The columns of a map, with those of a point in each geometry in place of the geometry."""
    points = table.geometry.representative_point()
    frame = pd.DataFrame(table.drop(columns=table.geometry.name))
    is_degrees = table.crs is not None and table.crs.is_geographic
    names = ("longitude", "latitude") if is_degrees else ("x", "y")
    for name, values in zip(names, (points.x, points.y), strict=True):
        frame[name if name not in frame else f"geometry {name}"] = values
    return frame


def _graphml(path: Path) -> pd.DataFrame:
    """The edges of a GraphML file, with their attributes as columns."""
    graph = _library("networkx").read_graphml(path)
    edges = [
        {"source": one, "target": other, **more} for one, other, more in graph.edges(data=True)
    ]
    return pd.DataFrame(edges, columns=None if edges else ["source", "target"])


def _npz(path: Path) -> pd.DataFrame:
    """The entries of a sparse matrix of scipy: edges between row numbers."""
    matrix = sparse.load_npz(path).tocoo()
    return pd.DataFrame({"source": matrix.row, "target": matrix.col, "weight": matrix.data})


def _run_query(source: Source) -> pd.DataFrame:
    """The result of a query of SQLite or DuckDB."""
    path = source.path
    with path.open("rb") as file:
        start = file.read(16)
    if start.startswith(b"SQLite format 3"):
        uri = f"{path.absolute().as_uri()}?mode=ro"
        connection: Any = sqlite3.connect(uri, uri=True)
    elif start[8:12] == b"DUCK":
        connection = _library("duckdb").connect(str(path), read_only=True)
    else:
        raise ValueError(f"{path} is not a database of SQLite or DuckDB: leave --sql out.")
    with closing(connection):
        try:
            cursor = connection.execute(source.query)
            if hasattr(cursor, "df"):  # DuckDB
                frame: pd.DataFrame = cursor.df()
                return frame
            names = [column[0] for column in cursor.description or ()]
            return pd.DataFrame(cursor.fetchall(), columns=names)
        except Exception as error:  # classes of libraries that may not be importable
            raise ValueError(f"{source}: the query failed: {error}") from None
