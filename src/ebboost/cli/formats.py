"""Files other than text as dataframes: Parquet, Feather, Excel, geographic files, databases.

The kind of a file is read off its first bytes; only geographic files in common containers are
recognised by the ends of their names.
"""

import atexit
import bz2
import gzip
import lzma
import sqlite3
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from shutil import copyfileobj, rmtree
from tempfile import mkdtemp
from types import ModuleType
from typing import Any

import pandas as pd

GEOGRAPHIC_SUFFIXES = (".gpkg", ".geojson", ".shp", ".fgb")
COMPRESSED = {b"\x1f\x8b": "gzip", b"BZh": "bz2", b"\xfd7zXZ": "xz"}
_TO_INSTALL = {"openpyxl": "Excel files need openpyxl", "duckdb": "DuckDB needs duckdb"}
_TO_INSTALL |= {"geopandas": "Geographic files need geopandas", "pyarrow": "Parquet needs pyarrow"}


@dataclass(frozen=True)
class Query:
    """An SQL query of a database, in place of a file that holds a table."""

    database: Path
    text: str

    @property
    def name(self) -> str:
        """The name of the database file."""
        return self.database.name

    @property
    def suffix(self) -> str:
        """The end of that name."""
        return self.database.suffix

    def __str__(self) -> str:
        return str(self.database)


TableSource = Path | Query


@lru_cache
def on_disk(path: Path) -> Path:
    """Return a path to read from more than once: of a pipe, a copy of what it holds."""
    if not path.exists() or path.is_file() or path.is_dir():
        return path
    folder = Path(mkdtemp(prefix="ebboost-"))
    atexit.register(rmtree, folder, ignore_errors=True)
    copied = folder / path.name
    with path.open("rb") as source, copied.open("wb") as target:
        copyfileobj(source, target)
    return copied


@contextmanager
def complete_files(path: Path) -> Iterator[None]:
    """Context in which compressed files that end early are errors with their name."""
    try:
        yield
    except (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile) as error:
        problem = f"{path} is cut off or damaged ({str(error).rstrip('.')})"
        raise ValueError(f"{problem}: copy or download it again.") from None


def compression_of(path: Path) -> str | None:
    """Return how a text file is compressed, None if it is not."""
    start = _first_bytes(path)
    return next((name for magic, name in COMPRESSED.items() if start.startswith(magic)), None)


def read_frame(source: TableSource) -> pd.DataFrame | None:
    """Return the table of a file that is not text, None for text; a copy for each call."""
    path = source.database if isinstance(source, Query) else source
    frame = _read(source, path.stat().st_mtime_ns)
    return None if frame is None else frame.copy()


@lru_cache(maxsize=2)  # column names are looked up before the columns are read
def _read(source: TableSource, _: int) -> pd.DataFrame | None:
    path = source.database if isinstance(source, Query) else source
    start = _first_bytes(path)
    connect = _connection(path, start)
    if isinstance(source, Query):
        if connect is None:
            raise ValueError(f"{path} is not a database of SQLite or DuckDB: leave --sql out.")
        return _run_query(source, connect)
    read = _reader(path, start)
    if read is None and connect is not None:
        remedy = 'pass --sql "SELECT * FROM table", or --edges-sql for the edges.'
        raise ValueError(f"{path} is a database: {remedy}")
    if read is None:
        return None
    try:
        frame = read(on_disk(path))
    except ImportError as error:
        raise _missing_package(error) from None
    except Exception as error:  # classes of libraries that may not be importable
        raise ValueError(f"{path} is not a readable {path.suffix} file: {error}") from None
    has_row_numbers = frame.index.name is None and frame.index.equals(pd.RangeIndex(len(frame)))
    return frame if has_row_numbers else frame.reset_index()  # ids are often kept in the index


def _reader(path: Path, start: bytes) -> Callable[[Path], pd.DataFrame] | None:
    if path.suffix.lower() in GEOGRAPHIC_SUFFIXES:
        return _read_geographic
    if start.startswith(b"PK\x03\x04"):
        return _read_excel
    if start.startswith(b"\xd0\xcf\x11\xe0"):
        raise ValueError(f"{path} is a spreadsheet of before 2007: save it as .xlsx or CSV.")
    if start.startswith(b"ARROW1"):
        return pd.read_feather
    return _read_parquet if start.startswith(b"PAR1") else None


def _read_excel(path: Path) -> pd.DataFrame:
    """Return the first sheet, text as it stands: pandas would read the id 007 as 7."""
    frame: pd.DataFrame = pd.read_excel(path, dtype=object)
    return frame.infer_objects()


def _read_parquet(path: Path) -> pd.DataFrame:
    import pyarrow.parquet

    is_geographic = b"geo" in (pyarrow.parquet.read_schema(path).metadata or {})
    return _read_geographic(path) if is_geographic else pd.read_parquet(path)


def _read_geographic(path: Path) -> pd.DataFrame:
    """Return the columns, with those of a point in each geometry in place of the geometry."""
    import geopandas

    is_parquet = _first_bytes(path).startswith(b"PAR1")
    table = geopandas.read_parquet(path) if is_parquet else geopandas.read_file(path)
    points = table.geometry.representative_point()
    frame = pd.DataFrame(table.drop(columns=table.geometry.name))
    names = ("x", "y")
    if table.crs is not None and table.crs.is_geographic:
        names = ("longitude", "latitude")
    for name, values in zip(names, (points.x, points.y), strict=True):
        frame[name if name not in frame else f"geometry {name}"] = values
    return frame


def _connection(path: Path, start: bytes) -> Callable[[], Any] | None:
    """A function that connects to the database in a file, None if it is not one."""
    if start.startswith(b"SQLite format 3"):
        return lambda: sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    if start[8:12] == b"DUCK":
        return lambda: _duckdb().connect(str(path), read_only=True)
    return None


def _duckdb() -> ModuleType:
    try:
        import duckdb
    except ImportError as error:
        raise _missing_package(error) from None
    module: ModuleType = duckdb
    return module


def _run_query(query: Query, connect: Callable[[], Any]) -> pd.DataFrame:
    with closing(connect()) as connection:
        try:
            cursor = connection.execute(query.text)
            names = [column[0] for column in cursor.description or ()]
            if hasattr(cursor, "df"):  # DuckDB
                frame: pd.DataFrame = cursor.df()
                return frame
            return pd.DataFrame(cursor.fetchall(), columns=names)
        except Exception as error:  # classes of libraries that may not be importable
            raise ValueError(f"{query}: the query failed: {error}") from None


def _missing_package(error: ImportError) -> ImportError:
    name = (error.name or "").partition(".")[0]
    package = name if name in _TO_INSTALL else "openpyxl"  # pandas raises without a name
    return ImportError(f"{_TO_INSTALL[package]}: pip install {package}.")


def _first_bytes(path: Path) -> bytes:
    with on_disk(path).open("rb") as file:
        return file.read(16)


@contextmanager
def opened_text(path: Path) -> Iterator[Any]:
    """Open a text file, compressed or not."""
    handle: Any = open
    if (compression := compression_of(path)) is not None:
        handle = {"gzip": gzip.open, "bz2": bz2.open, "xz": lzma.open}[compression]
    opened = handle(on_disk(path), "rt", encoding="utf-8-sig", newline="")
    with complete_files(path), opened as file:
        yield file
