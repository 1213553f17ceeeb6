"""Tables and graphs in files, for the command line: CSV, Parquet and GraphML in, CSV and Parquet out.

Ids are text, exactly as written ("01001" stays "01001"). A file is written beside its target and renamed, so that a
reader sees the old one or the whole new one. Messages name the file, the line and the remedy.
"""

import csv
import os
import stat
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ebboost.data.archive import atomic_write
from ebboost.graph import Graph
from ebboost.graph.graphml import read_graphml

DELIMITERS = ",;\t|"
SNIFFED = 1 << 16  # characters
MOST_COMPARED = 20_000  # names, when looking for the nearest: it takes a second
GRAPHML = (".graphml", ".xml")
PARQUET = (".parquet", ".pq")
ID_NAMES = ("id", "node", "node_id", "nodeid", "ids", "key", "code", "name", "index")
SOURCE_NAMES = ("source", "src", "from", "node1", "node_1", "a", "u", "i")
TARGET_NAMES = ("target", "dst", "to", "node2", "node_2", "b", "v", "j")
# An id may be called NA, as Namibia is; in all other columns these mean that nothing is known.
MISSING = ["", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "NULL", "null", "None"]
ROWS = "rows"  # --id rows: the edges count rows
FIRST_LINE = 2  # a table's first row is the file's second line


@dataclass
class NodesAndEdges:
    """A table, the ids of its rows and the graph between them.

    Attributes
    ----------
    table : pandas.DataFrame
        All columns but the ids.
    ids : ndarray
        Text, or the row numbers where the edges count rows.
    id_name : str or None
        The column that the ids came from; None: rows are counted from 0.
    graph : Graph
    notes : list of str
        What a user should know of how the files were read.
    """

    table: Any
    ids: NDArray[Any]
    id_name: str | None
    graph: Graph
    notes: list[str]


# ---------------------------------------------------------------------- names


def suggestion(wrong: str, right: Sequence[str]) -> str:
    """Return a question that offers the nearest of the right names, or a list of them."""
    lower = {name.lower(): name for name in right[:MOST_COMPARED]}
    near = get_close_matches(wrong.lower(), list(lower), n=1, cutoff=0.6)
    if near:
        return f"Did you mean {lower[near[0]]!r}?"
    shown = ", ".join(repr(name) for name in right[:8])
    return f"There are {shown}{' …' if len(right) > 8 else ''}."


def column_of(columns: Sequence[str], wanted: str, option: str, path: Path) -> str:
    """Return ``wanted`` if it is a column, else refuse it and offer the nearest."""
    if wanted not in columns:
        raise ValueError(
            f"{path} has no column {wanted!r} ({option}). {suggestion(wanted, columns)}"
        )
    return wanted


def _named_like(columns: Sequence[str], names: Sequence[str]) -> str | None:
    lower = {column.strip().lower(): column for column in reversed(columns)}
    return next((lower[name] for name in names if name in lower), None)


# ---------------------------------------------------------------------- reading


def _pandas() -> Any:
    try:
        import pandas
    except ImportError:
        raise ImportError('Reading tables needs pandas: pip install "ebboost[cli]".') from None
    return pandas


def existing(path: Path) -> Path:
    """Return a path if a file is there."""
    if path.is_dir():
        raise ValueError(f"{path} is a folder: name a file in it.")
    if not path.exists():
        folder = path.parent if path.parent.is_dir() else None
        near = (
            get_close_matches(path.name, [f.name for f in folder.iterdir()], n=1) if folder else []
        )
        hint = f" Did you mean {path.with_name(near[0])}?" if near else ""
        raise ValueError(f"There is no file {path}.{hint}")
    return path


def column_names(path: Path) -> list[str]:
    """Read the names of the columns alone."""
    is_parquet = _is_parquet(existing(path))
    names = [str(name) for name in _parquet(path).columns] if is_parquet else _header(path)[0]
    for position, name in enumerate(names):
        if name in names[:position]:
            raise ValueError(f"{path} has two columns called {name!r}: rename one of them.")
    return names


def read_table(path: Path, text: Sequence[str] = (), only: Sequence[str] | None = None) -> Any:
    """Read a CSV or Parquet file; the columns in ``text`` as text exactly as written, blanks around it removed."""
    pandas = _pandas()
    names = column_names(path)
    if _is_parquet(path):
        frame = _parquet(path)[names if only is None else list(only)].copy()
        for name in text:
            frame[name] = _as_text(frame[name])
        return frame
    delimiter = _header(path)[1]
    frame = _csv(pandas, path, delimiter, names, text, only)
    if delimiter == ";" and _has_decimal_commas(frame, text):
        frame = _csv(pandas, path, delimiter, names, text, only, decimal=",")
    for name in frame.columns:
        known = frame[name].dropna()
        if name not in text and len(known) and known.dtype.kind not in "biuf" and _are_dates(known):
            frame[name] = pandas.to_datetime(frame[name], format="ISO8601")
    return frame


def _is_parquet(path: Path) -> bool:
    with path.open("rb") as file:
        start = file.read(4)
    if start[:2] == b"PK" or start == b"\xd0\xcf\x11\xe0":
        raise ValueError(f"{path} is a spreadsheet or a zip, not a table of text: save it as CSV.")
    return start == b"PAR1"


def _parquet(path: Path) -> Any:
    try:
        frame = _pandas().read_parquet(path)
        is_plain = frame.index.name is None and frame.index.equals(_pandas().RangeIndex(len(frame)))
        return frame if is_plain else frame.reset_index()  # ids are often kept in the index
    except ImportError:
        raise ImportError("Parquet files need pyarrow: pip install pyarrow.") from None
    except Exception as error:  # pyarrow's own classes, which may not be importable
        raise ValueError(f"{path} is not a Parquet file we can read: {error}") from None


def _header(path: Path) -> tuple[list[str], str]:
    """Column names and delimiter of a CSV file."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            start = file.read(SNIFFED)
    except UnicodeDecodeError as error:
        raise _not_utf8(path, error) from None
    if "\0" in start:
        raise ValueError(f"{path} is not text: pass a CSV or Parquet file.")
    lines = [line for line in start.splitlines()[:20] if line.strip()]
    if not lines:
        raise ValueError(f"{path} is empty: its first line must name the columns.")
    rows = {
        mark: list(csv.reader(lines, delimiter=mark, skipinitialspace=True)) for mark in DELIMITERS
    }
    counts = {mark: [len(row) for row in found] for mark, found in rows.items()}
    steady = [delimiter for delimiter, found in counts.items() if len(set(found)) == 1]
    delimiter = max(steady or DELIMITERS, key=lambda d: counts[d][0])
    if counts[delimiter][0] == 1:
        delimiter = max(DELIMITERS, key=lambda d: counts[d][0])
    names = [name.strip() for name in rows[delimiter][0]]
    if len(names) == 1:
        raise ValueError(
            f"{path} has a single column, {names[0]!r}: columns must be separated by comma, semicolon, tab or |."
        )
    if all(_is_number(name) for name in names):
        raise ValueError(
            f"{path} has no header: its first line is {lines[0][:60]!r}. Put a line with the names of the columns first."
        )
    return [name or f"unnamed {place}" for place, name in enumerate(names)], delimiter


def _csv(
    pandas: Any,
    path: Path,
    delimiter: str,
    names: list[str],
    text: Sequence[str],
    only: Any,
    decimal: str = ".",
) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            frame = pandas.read_csv(
                path,
                sep=delimiter,
                header=0,
                names=names,
                index_col=False,
                encoding="utf-8-sig",
                decimal=decimal,
                skipinitialspace=True,
                low_memory=False,
                dtype=dict.fromkeys(text, str),
                usecols=only,
                keep_default_na=False,
                na_values={name: MISSING for name in names if name not in text},
            )
        for name in text:
            frame[name] = frame[name].str.strip().astype(object)
        return frame
    except UnicodeDecodeError as error:
        raise _not_utf8(path, error) from None
    except Warning:  # pandas would drop the rest of such lines
        raise ValueError(
            f"{path} has lines with more fields than the {len(names)} of its header."
        ) from None
    except ValueError as error:
        what = str(error).strip().replace("Error tokenizing data. C error: ", "")
        raise ValueError(f"{path} is not a table we can read: {what}") from None


def _not_utf8(path: Path, error: UnicodeDecodeError) -> ValueError:
    return ValueError(
        f"{path} is not UTF-8 text (byte 0x{error.object[error.start]:02x}): save it as UTF-8, for example with "
        f"iconv -f WINDOWS-1252 -t UTF-8."
    )


def numbers(column: Any) -> Any:
    """A column as numbers, NaN where an entry is none."""
    return _pandas().to_numeric(
        column if column.dtype.kind in "biuf" else column.astype(object), errors="coerce"
    )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _has_decimal_commas(frame: Any, text: Sequence[str]) -> bool:
    for name in frame.columns:
        if name in text or frame[name].dtype.kind in "biuf":
            continue
        known = frame[name].dropna().astype(str)
        if (
            len(known)
            and known.str.fullmatch(r"[+-]?\d*,?\d+").all()
            and known.str.contains(",").any()
        ):
            return True
    return False


def as_names(column: Any) -> Any:
    """A column of numbers or text as text, None where it is missing: whole numbers never end in ".0"."""
    return _as_text(column).astype(object).where(column.notna(), None)


def _are_dates(known: Any) -> bool:
    return bool(
        known.astype(str).str.fullmatch(r"\d{4}-[01]\d-[0-3]\d([ T][0-2]\d:\d\d(:\d\d)?)?").all()
    )


def _as_text(column: Any) -> Any:
    if (
        column.dtype.kind == "f" and (column.dropna() % 1 == 0).all()
    ):  # whole numbers that a gap made floats
        return column.map(lambda value: "" if value != value else str(int(value)))
    return column.map(str).where(column.notna(), "").astype(object)


# ---------------------------------------------------------------------- nodes and edges


def read_nodes_and_edges(
    nodes: Path,
    edges: Path,
    *,
    node_id: str | None = None,
    source: str | None = None,
    target_node: str | None = None,
    weight: str | None = None,
    skip_unknown: bool = False,
    elsewhere: NDArray[Any] | None = None,
) -> NodesAndEdges:
    """Read a table and its edges, and tie them by their ids.

    Without ``node_id`` the ids are the column that is named like one, or else the first, if the edges use its values; or
    the numbers of the rows from 0, if that is what the edges hold (``"rows"`` asks for these). ``elsewhere`` are ids that
    edges may name although they are not in the table: such nodes come after those of the table.
    """
    notes: list[str] = []
    columns = column_names(nodes)
    counts_rows = node_id == ROWS and ROWS not in columns
    if node_id is not None and not counts_rows:
        column_of(columns, node_id, "--id", nodes)
    ends, weights = _read_edges(edges, source, target_node, weight, notes)
    used = _pandas().unique(np.concatenate(ends))
    others = np.zeros(0, dtype=object) if elsewhere is None else elsewhere
    if counts_rows and others.size:
        raise ValueError(
            "--attach ties new rows to fitted nodes by their ids: name the column of ids instead of --id rows."
        )
    id_name = None if counts_rows else node_id or _id_column(nodes, columns, used, others, edges)
    table = read_table(nodes, text=[] if id_name is None else [id_name])
    if not len(table):
        raise ValueError(f"{nodes} has a header but no rows.")
    ids: NDArray[Any] = np.arange(len(table))
    if id_name is None:
        notes.append(
            f"{edges.name} counts the rows of {nodes.name} from 0; no column holds its ids."
        )
        positions = [_row_numbers(end, len(table)) for end in ends]
    else:
        ids = table.pop(id_name).to_numpy(dtype=object)
        _refuse_bad_ids(ids, id_name, nodes)
        both = _pandas().Index(np.concatenate([ids, others]))
        if others.size and not both.is_unique:
            twice = both[both.duplicated()][0]
            raise ValueError(
                f"{nodes}: node {twice!r} is one of the nodes the model was fitted on: leave it out."
            )
        positions = [both.get_indexer(end) for end in ends]
    first = columns[0]
    if first.startswith("unnamed ") and first in table.columns:
        notes.append(f"The first column of {nodes.name} has no name and is left out.")
        del table[first]
    unknown = (positions[0] < 0) | (positions[1] < 0)
    if unknown.any():
        row = int(np.flatnonzero(unknown)[0])
        strange = next(
            str(end[row]) for end, found in zip(ends, positions, strict=True) if found[row] < 0
        )
        if not skip_unknown:
            whose = "a row" if id_name is None else f"in column {id_name!r}"
            where = "" if edges.suffix in GRAPHML else f", line {row + FIRST_LINE}"
            raise ValueError(
                f"{edges}{where}: node {strange!r} is not {whose} of {nodes.name} (so in {unknown.sum():,} of "
                f"{unknown.size:,} edges). Add it, choose another --id, or leave such edges out with --skip-unknown."
            )
        notes.append(
            f"{int(unknown.sum()):,} edges name nodes that are not in {nodes.name}, such as {strange!r}: skipped."
        )
        positions = [end[~unknown] for end in positions]
        weights = None if weights is None else weights[~unknown]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        n_nodes = len(ids) + (others.size if id_name is not None else 0)
        graph = Graph.from_edges(positions[0], positions[1], weights, n_nodes)
    notes += [str(warning.message) for warning in caught]
    if graph.n_edges == 0:
        raise ValueError(
            f"{edges} ties no two different nodes of {nodes.name}: there is no graph to use."
        )
    if id_name is not None:
        graph = Graph(graph.adjacency, np.concatenate([ids, others]))
    return NodesAndEdges(table, ids, id_name, graph, notes)


def _read_edges(
    path: Path, source: str | None, target: str | None, weight: str | None, notes: list[str]
) -> tuple[list[NDArray[Any]], NDArray[np.float64] | None]:
    """The two ends of each edge as text, and their weights if asked for."""
    if existing(path).suffix.lower() in GRAPHML:
        _, sources, targets, weights, _ = read_graphml(path, weight or "weight")
        if weights is None and weight is not None:
            raise ValueError(f"{path}: no edge attribute is called {weight!r} (--weight).")
        if weight is None and weights is not None:
            notes.append(f"{path.name} has edge weights: use them with --weight weight.")
        found, kept = [sources, targets], weights if weight is not None else None
    else:
        columns = column_names(path)
        if source is None:
            source = _named_like(columns, SOURCE_NAMES) if target is None else None
            source = source or next(name for name in columns if name != target)
        first = column_of(columns, source, "--source", path)
        if target is None:
            target = _named_like([c for c in columns if c != first], TARGET_NAMES)
            target = target or next(name for name in columns if name != first)
        second = column_of(columns, target, "--target-node", path)
        if first == second:
            raise ValueError(
                f"--source and --target-node are both {first!r}: name the two ends of the edges."
            )
        if weight is not None:
            column_of(columns, weight, "--weight", path)
        elif (unused := _named_like(columns, ("weight", "weights"))) and unused not in (
            first,
            second,
        ):
            notes.append(f"{path.name} has a column {unused!r}: use it with --weight {unused}.")
        table = read_table(
            path, text=[first, second], only=[first, second, *([weight] if weight else [])]
        )
        found = [table[name].to_numpy(dtype=object) for name in (first, second)]
        kept = None if weight is None else _weights(table[weight], weight, path)
        for name, end in zip((first, second), found, strict=True):
            if (end == "").any():
                row = int(np.flatnonzero(end == "")[0])
                raise ValueError(
                    f"{path}, line {row + FIRST_LINE}: there is no node in column {name!r}."
                )
    if not found[0].size:
        raise ValueError(f"{path} lists no edges.")
    return found, kept


def _weights(column: Any, name: str, path: Path) -> NDArray[np.float64]:
    found = numbers(column).to_numpy(dtype=np.float64)
    bad = ~np.isfinite(found) | (found < 0)
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise ValueError(
            f"{path}, line {row + FIRST_LINE}: the weight in column {name!r} is {str(column.iloc[row])!r}. Weights must be "
            "numbers that are not negative."
        )
    return found


def _id_column(nodes: Path, columns: list[str], used: Any, others: Any, edges: Path) -> str | None:
    """The column that holds ids, or None where the edges count rows."""
    here = used if not others.size else used[~np.isin(used.astype(str), others.astype(str))]
    if not here.size:
        here = used
    named = _named_like(columns, ID_NAMES)
    candidates = [name for name in dict.fromkeys([named, columns[0]]) if name is not None]
    values = read_table(nodes, text=candidates, only=candidates)
    share = {name: _share_found(here, values[name]) for name in candidates}
    best = max(candidates, key=lambda name: share[name])
    if (
        share[best] >= 0.5
    ):  # the right column; what is wrong with the edges, if anything, is said later
        return best
    if _are_rows(used, len(values)) and not others.size:
        return None
    values = read_table(nodes, text=columns)
    complete = [
        name
        for name in columns
        if _share_found(here, values[name]) == 1.0 and values[name].is_unique
    ]
    hint = (
        f"column {complete[0]!r} has them: pass --id {complete[0]!r}"
        if complete
        else "pass --id COLUMN"
    )
    raise ValueError(
        f"Which column of {nodes} holds the ids that {edges.name} uses, such as {str(here[0])!r}? "
        f"Not {candidates[0]!r}; {hint}."
    )


def _share_found(wanted: Any, column: Any) -> float:
    return float(_pandas().Series(wanted).isin(set(column)).mean())


def _are_rows(used: Any, n_rows: int) -> bool:
    return bool((_row_numbers(used, n_rows) >= 0).all())


def _row_numbers(texts: NDArray[Any], n_rows: int) -> NDArray[np.int64]:
    """Text as numbers of rows, -1 where it is none."""
    plain = (
        text if text.isascii() and text.isdecimal() and len(text) < 19 else "-1"
        for text in texts.tolist()
    )
    found = np.fromiter(map(int, plain), np.int64, texts.size)
    return np.where(found < n_rows, found, -1)


def attached(new: Graph, fitted: Graph) -> Graph:
    """Return the graph of new nodes, whose last nodes are those of ``fitted``, with the edges of ``fitted`` added."""
    n_new = new.n_nodes - fitted.n_nodes
    entries = fitted.adjacency.tocoo()
    rows, columns = (axis + n_new for axis in entries.coords)
    old = sparse.csr_array((entries.data, (rows, columns)), shape=new.adjacency.shape)
    return Graph(sparse.csr_array(new.adjacency.maximum(old)), new.node_ids)


def _refuse_bad_ids(ids: NDArray[Any], name: str, path: Path) -> None:
    index = _pandas().Index(ids)
    if (ids == "").any():
        row = int(np.flatnonzero(ids == "")[0])
        raise ValueError(
            f"{path}, line {row + FIRST_LINE}: the id in column {name!r} is empty. Every row needs one."
        )
    if not index.is_unique:
        again = int(np.flatnonzero(index.duplicated())[0])
        earlier = int(np.flatnonzero(ids == ids[again])[0])
        raise ValueError(
            f"{path}: id {ids[again]!r} in column {name!r} stands in lines {earlier + FIRST_LINE} and {again + FIRST_LINE}: "
            "ids must differ. Remove one of the rows, or choose another --id."
        )


# ---------------------------------------------------------------------- writing


def check_writable(path: Path) -> None:
    """Refuse a place that cannot be written to, before the work is done."""
    if path.is_dir():
        raise ValueError(f"{path} is a folder: name a file to write.")
    if not path.absolute().parent.is_dir():
        raise ValueError(f"{path} cannot be written: there is no folder {path.absolute().parent}.")
    if path.exists() and not os.access(path, os.W_OK):
        raise PermissionError(f"{path} cannot be written: no permission.")
    if not path.exists() and not os.access(path.absolute().parent, os.W_OK):
        raise PermissionError(
            f"{path} cannot be written: no permission in {path.absolute().parent}."
        )


def is_special(path: Path) -> bool:
    """Whether a path is a device or a pipe, which must not be replaced by a file."""
    return path.exists() and not stat.S_ISREG(path.stat().st_mode)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a path to write to beside ``path``; rename it when all went well, remove it when not."""
    check_writable(path)
    if is_special(path):
        yield path
        return
    with atomic_write(path, path.suffix) as temporary:
        yield Path(temporary)


def write_table(frame: Any, path: Path) -> None:
    """Write CSV, or Parquet if the name ends so, all or nothing."""
    with replacing(path) as place:
        if path.suffix.lower() in PARQUET:
            try:
                frame.to_parquet(place, index=False)
            except ImportError:
                raise ImportError("Parquet files need pyarrow: pip install pyarrow.") from None
        else:
            frame.to_csv(place, index=False)
