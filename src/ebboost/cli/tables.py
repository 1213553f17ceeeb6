"""Tables in files: text is read here, other formats by ``formats``; CSV and Parquet are written.

Columns of ids are text, exactly as written ("01001" stays "01001"). A file is written beside its
target and renamed, so that readers see the old file or the complete new one. Messages name the
file, the line and the remedy.
"""

import csv
import warnings
from collections.abc import Collection, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import infer_dtype

from ebboost.cli import outputs
from ebboost.cli.formats import (
    Query,
    TableSource,
    complete_files,
    compression_of,
    on_disk,
    opened_text,
    read_frame,
)
from ebboost.cli.text_columns import as_numbers, parse_columns

DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
SNIFFED_CHARACTERS = 1 << 16
MAX_COMPARED = 20_000  # names in the search for the nearest, which then takes a second
PARQUET_SUFFIXES = (".parquet", ".pq")
SHEET_SUFFIXES = (".xlsx", ".xlsm")
# An id may be called NA, as Namibia is; in all other columns these mean a missing value.
MISSING_VALUES = ["", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "NULL", "null", "None"]
CSV_OPTIONS: dict[str, Any] = {"index_col": False, "encoding": "utf-8-sig"}
CSV_OPTIONS |= {"skipinitialspace": True, "low_memory": False, "keep_default_na": False}


def suggestion(wrong: str, right: Sequence[str]) -> str:
    """Return a question that offers the nearest of the right names, or a list of them."""
    lower = {name.lower(): name for name in right[:MAX_COMPARED]}
    if near := get_close_matches(wrong.lower(), list(lower), n=1, cutoff=0.6):
        return f"Did you mean {lower[near[0]]!r}?"
    shown = ", ".join(repr(name) for name in right[:8])
    return f"There are {shown}{' …' if len(right) > 8 else ''}."


def check_column(columns: Sequence[str], name: str, option: str, path: TableSource) -> str:
    """Return ``name`` if it is a column, else raise an error that offers the nearest."""
    if name not in columns:
        raise ValueError(f"{path} has no column {name!r} ({option}). {suggestion(name, columns)}")
    return name


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


def column_names(source: TableSource, header: bool = True) -> list[str]:
    """Return the names of the columns; without a ``header``, they are ``column 1`` and so on."""
    existing(source.database if isinstance(source, Query) else source)
    frame = read_frame(source)
    if frame is not None:
        names = [str(name) for name in frame]
    else:
        assert isinstance(source, Path)
        names, _ = _read_first_line(source)
    if not header:
        return [f"column {number}" for number in range(1, len(names) + 1)]
    if frame is None:
        if as_numbers(pd.Series(names)).notna().all():
            remedy = "Put a line with the names of the columns first."
            raise ValueError(f"{source} has no header: its first line is {names}. {remedy}")
        names = [name or f"unnamed {number}" for number, name in enumerate(names)]
    for position, name in enumerate(names):
        if name in names[:position]:
            raise ValueError(f"{source} has two columns called {name!r}: rename one of them.")
    return names


def first_fields(source: TableSource) -> list[str]:
    """Return the fields of the first line of a text file or sheet, none for other files."""
    if isinstance(source, Query):
        return []
    frame = read_frame(existing(source))
    if frame is not None:
        return [str(name) for name in frame] if source.suffix.lower() in SHEET_SUFFIXES else []
    return _read_first_line(source)[0]


def read_table(
    source: TableSource,
    text: Collection[str] = (),
    only: Sequence[str] | None = None,
    header: bool = True,
) -> pd.DataFrame:
    """Read a table, the columns in ``text`` as text without blanks around it."""
    names = column_names(source, header)
    frame = read_frame(source)
    if frame is not None:
        if not header:
            first = pd.DataFrame([map(_as_field, frame)], columns=frame.columns, dtype=object)
            frame = pd.concat([first, frame.astype(object)], ignore_index=True)
        frame = frame.set_axis(names, axis=1)[names if only is None else list(only)].copy()
        for name in text:
            frame[name] = _as_text(frame[name])
        others = [name for name in frame if name not in text]
        texts = [name for name in others if infer_dtype(frame[name]) == "string"]
        frame = parse_columns(frame, texts, source.name)
        kind = "result of a query" if isinstance(source, Query) else f"{source.suffix[1:]} file"
        frame.attrs["layout"] = kind
        return frame
    assert isinstance(source, Path)
    _, delimiter = _read_first_line(source)
    options = {"sep": delimiter, "names": names, "usecols": only, "header": 0 if header else None}
    frame = _read_csv(source, text, options)
    layout = f"separated by {DELIMITERS[delimiter]}"
    if delimiter == ";" and _has_decimal_commas(frame, text):
        frame = _read_csv(source, text, options | {"decimal": ","})
        layout += ", decimal commas"
    frame = parse_columns(frame, [name for name in frame if name not in text], source.name)
    frame.attrs["layout"] = layout
    return frame


def _read_first_line(path: Path) -> tuple[list[str], str]:
    """Fields of the first line of a CSV file, and the delimiter."""
    try:
        with opened_text(path) as file:
            start = file.read(SNIFFED_CHARACTERS)
    except UnicodeDecodeError as error:
        raise _not_utf8(path, error) from None
    if "\0" in start:
        raise ValueError(f"{path} is not text: pass a CSV or Parquet file.")
    lines = [line for line in start.splitlines()[:20] if line.strip()]
    if not lines:
        raise ValueError(f"{path} is empty: its first line must name the columns.")
    if lines[0].lstrip()[0] in "{[":
        raise ValueError(f"{path} looks like JSON: pass a CSV or Parquet file.")
    rows = {
        delimiter: list(csv.reader(lines, delimiter=delimiter, skipinitialspace=True))
        for delimiter in DELIMITERS
    }
    delimiter = max(rows, key=lambda delimiter: _likelihood(rows[delimiter]))
    names = [name.strip() for name in rows[delimiter][0]]
    if len(names) == 1:
        remedy = "separate columns by comma, semicolon, tab or |."
        raise ValueError(f"{path} has a single column, {names[0]!r}: {remedy}")
    return names, delimiter


def _likelihood(rows: list[list[str]]) -> tuple[bool, int]:
    """Whether all lines have equally many fields, two or more, and how many the first has."""
    n_fields = [len(row) for row in rows]
    return n_fields[0] > 1 and len(set(n_fields)) == 1, n_fields[0]


def _read_csv(path: Path, text: Collection[str], options: dict[str, Any]) -> pd.DataFrame:
    names = options["names"]
    missing = {name: MISSING_VALUES for name in names if name not in text}
    types = dict.fromkeys(text, str)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            compression = compression_of(path)
            read: dict[str, Any] = {
                "dtype": types,
                "na_values": missing,
                "compression": compression,
            }
            with complete_files(path):
                frame = pd.read_csv(on_disk(path), **read, **CSV_OPTIONS, **options)
    except UnicodeDecodeError as error:
        raise _not_utf8(path, error) from None
    except Warning:  # pandas would drop the rest of such lines
        message = f"{path} has lines with more fields than the {len(names)} of its header."
        raise ValueError(message) from None
    except ValueError as error:
        reason = str(error).strip().replace("Error tokenizing data. C error: ", "")
        raise ValueError(f"{path} is not a readable table: {reason}") from None
    for name in text:
        frame[name] = frame[name].str.strip().astype(object)
    return frame


def _not_utf8(path: Path, error: UnicodeDecodeError) -> ValueError:
    if error.object.startswith((b"\xff\xfe", b"\xfe\xff")):
        return ValueError(f"{path} is UTF-16 text: save it as UTF-8.")
    if b"\0" in error.object:
        return ValueError(f"{path} is not text: pass a CSV or Parquet file.")
    return ValueError(
        f"{path} is not UTF-8 text (byte 0x{error.object[error.start]:02x}): save it as UTF-8, for "
        "example with iconv -f WINDOWS-1252 -t UTF-8."
    )


def cell_text(value: object) -> str:
    """Return a cell as it is quoted in messages."""
    return "an empty cell" if pd.isna(value) else repr(getattr(value, "item", lambda: value)())


def as_names(column: pd.Series) -> pd.Series:
    """Return a column as text, None where missing; whole numbers do not end in ".0"."""
    return _as_text(column).astype(object).where(column.notna(), None)


def _as_field(name: object) -> object:
    """A cell that pandas read as the name of a column: floats if one of the names is no integer."""
    return int(name) if isinstance(name, float) and name.is_integer() else name


def _as_text(column: pd.Series) -> pd.Series:
    if column.dtype.kind == "f" and (column.dropna() % 1 == 0).all():
        # whole numbers, stored as floats because of a gap
        return column.map(lambda value: "" if value != value else str(int(value)))
    return column.map(str).where(column.notna(), "").astype(object)


def line_of(source: TableSource, row: int, header: bool = True) -> int:
    """Return the line of a file on which a row begins; cells may have several lines."""
    path = source.database if isinstance(source, Query) else source
    line = 1
    rows_before = -int(header)
    try:
        _, delimiter = _read_first_line(path)
        with opened_text(path) as file:
            reader = csv.reader(file, delimiter=delimiter, skipinitialspace=True)
            for fields in reader:
                if fields and rows_before == row:
                    return line
                rows_before += bool(fields)  # blank lines are no rows
                line = reader.line_num + 1
    except (OSError, ValueError, csv.Error):  # not text
        pass
    return row + 1 + header


def first_line(invalid: NDArray[np.bool_], source: TableSource) -> int:
    """Return the line of the first invalid row, 0 if all are valid."""
    return line_of(source, int(invalid.argmax())) if invalid.any() else 0


def _has_decimal_commas(frame: pd.DataFrame, text: Collection[str]) -> bool:
    """Whether a column that is not numeric is so only because of decimal commas."""
    texts = frame.drop(columns=list(text)).select_dtypes(exclude=["number", "bool"])
    for _, column in texts.items():
        values = column.dropna().astype(str)
        has_comma = values.str.contains(",").any()
        if has_comma and values.str.fullmatch(r"[+-]?\d*,?\d+").all():
            return True
    return False


def write_table(frame: pd.DataFrame, path: Path) -> None:
    """Write Parquet if the name ends in .parquet or .pq, else CSV; all or nothing."""
    with outputs.replacing(path) as temporary:
        if path.suffix.lower() not in PARQUET_SUFFIXES:
            frame.to_csv(temporary, index=False)
            return
        try:
            frame.to_parquet(temporary, index=False)
        except ImportError:
            raise ImportError("Parquet files need pyarrow: pip install pyarrow.") from None
