"""What columns of text mean: numbers, dates or categories, and which cells do not fit in.

pandas reads numbers and dates. What is read here are the ways in which people write numbers:
``1,000``, ``12 %``, ``€12``, ``1.000,5``.
"""

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.tseries.api import guess_datetime_format

from ebboost.cli.console import note
from ebboost.cli.files import Table
from ebboost.data.table import MAX_VALUE
from ebboost.inspection.graph_check import infer_task

# An id may be called NA, as Namibia is; in all other columns these mean a missing value.
MISSING = ("", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "NULL", "null", "None")
_CURRENCY = r"\s*(?:[€$£¥%]|EUR|USD|GBP|CHF)\s*"
_THOUSANDS = r"([+-]?\d{1,3}(?:,\d{3})+(?:\.\d+)?)"
_DECIMAL_COMMA = r"([+-]?(?:\d{1,3}(?:\.\d{3})+|\d*),\d+)"
_ISO = r"\d{4}-\d\d-\d\d(?:[T ]|$)"
MOSTLY = 0.5  # share of cells from which on the others are errors
SAMPLE = 20
FEW_ROWS = 20
NAMES = 0.9  # share of different texts in a column of names
MAX_SHARE_OF_CLASSES = 0.5  # of the labels of a text target: if more differ, they are no classes


@dataclass(frozen=True)
class Column:
    """What a column holds: "numbers", "dates" or "text", and which cells are not such."""

    kind: str
    values: pd.Series
    is_bad: NDArray[np.bool_]
    example: str = ""  # of what is not obvious
    has_decimal_comma: bool = False


def understand(column: pd.Series, prefers_comma: bool = False) -> Column:
    """Return what a column means; cells are bad where most others are numbers or dates.

    ``prefers_comma``: 1,234 is rather 1.234 than 1234.
    """
    nothing = np.zeros(len(column), dtype=bool)
    if column.dtype.kind in "biuf":
        return Column("numbers", column, nothing)
    if column.dtype.kind == "M":
        return Column("dates", column, nothing)
    known = column.notna() & ~column.astype(object).isin(MISSING)
    texts = column[known].astype(str).str.strip()
    if not len(texts):
        return Column("numbers", pd.Series(np.nan, column.index), nothing)
    if texts.str.lower().isin(["true", "false"]).all():
        values = (texts.str.lower() == "true").reindex(column.index)
        return Column("numbers", values if known.all() else values.astype(float), nothing)
    numbers, has_comma = as_numbers(texts, prefers_comma)
    dates, is_doubtful = as_dates(texts) if numbers.isna().any() else (None, False)
    for kind, values in (("numbers", numbers), ("dates", dates)):
        if values is None or not values.notna().mean() > MOSTLY:
            continue
        is_bad = values.isna().reindex(column.index, fill_value=False).to_numpy()
        example = ""
        plain = pd.to_numeric(texts, errors="coerce").isna()
        if kind == "dates" or plain.any():
            row = values[plain].first_valid_index()
            shown = (
                ""
                if row is None
                else f"{values[row]:%Y-%m-%d}"
                if kind == "dates"
                else f"{values[row]:g}"
            )
            example = f"{texts[row]!r} is {shown}" if shown else ""
        if kind == "dates" and is_doubtful and not is_bad.any():
            warnings.warn(
                f"Dates in column {column.name!r} may begin with the day or the month: {example}. "
                "Write them as 2024-05-31 to be sure.",
                stacklevel=2,
            )
        return Column(kind, values.reindex(column.index), is_bad, example, has_comma)
    return Column("text", texts.astype(object).reindex(column.index).where(known, None), nothing)


def as_numbers(texts: pd.Series, prefers_comma: bool = False) -> tuple[pd.Series, bool]:
    """Return text as numbers, NaN where it is none, and whether commas are decimal ones."""
    plain = pd.to_numeric(texts, errors="coerce")
    if plain.notna().all():
        return plain, False
    bare = texts.str.replace(_CURRENCY, "", regex=True)
    has_thousands = bare.str.fullmatch(_THOUSANDS)
    english = bare.where(~has_thousands, bare.str.replace(",", ""))
    has_comma = bare.str.fullmatch(_DECIMAL_COMMA)
    german = bare.where(~has_comma, bare.str.replace(".", "").str.replace(",", "."))
    readings = [(english, False), (german, True)]
    values = [(plain, False)]
    for reading, is_comma in reversed(readings) if prefers_comma else readings:
        values.append((pd.to_numeric(reading, errors="coerce"), is_comma))
    return max(values, key=lambda one: int(one[0].notna().sum()))


def as_dates(texts: pd.Series) -> tuple[pd.Series | None, bool]:
    """Return text as dates, NaT where it is none; and whether day and month may be swapped."""
    some = texts.drop_duplicates().iloc[:SAMPLE]
    if some.str.match(_ISO).mean() > MOSTLY:
        read = pd.to_datetime(texts, format="ISO8601", utc=True, errors="coerce")
        return read.dt.tz_localize(None), False
    found: dict[str, pd.Series] = {}
    for text in some:
        if not re.match(r".*\d.*[-/. ].*\d", text):
            continue
        clock = re.search(r" [AP]M$", text, re.IGNORECASE)  # which pandas does not guess
        for day_first in (False, True):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                form = guess_datetime_format(text[: -3 if clock else None], dayfirst=day_first)
            if form is None:
                continue
            form = form.replace("%H", "%I") + " %p" if clock else form
            if form not in found:
                found[form] = pd.to_datetime(texts, format=form, errors="coerce")
    if not found:
        return None, False
    most = max(int(one.notna().sum()) for one in found.values())
    best = [one for one in found.values() if one.notna().sum() == most]
    return best[0], any(not one.equals(best[0]) for one in best[1:])


@dataclass(frozen=True)
class Features:
    """The columns to learn from, and how they were read."""

    X: pd.DataFrame
    facts: dict[str, list[str]]  # names by kind
    has_decimal_comma: bool


def features(table: Table, leave: Sequence[str], categorical: Sequence[str]) -> Features:
    """Return the columns to learn from, without those to ``leave``.

    A cell that is no number or date, in a column of such, is an error with its line. Columns of
    names are left out, with a warning.
    """
    names = [name for name in table.names if name not in leave]
    kinds: dict[str, list[str]] = {"numbers": [], "dates": [], "categories": [], "left out": []}
    columns: dict[str, pd.Series] = {}
    commas = False
    for name in names:
        if name in categorical:
            columns[name] = as_names(table, name).astype("category")
            kinds["categories"].append(f"{name} ({columns[name].nunique():,})")
            continue
        column = understand(table.frame[name], table.delimiter == ";")
        remedies = (
            f"; --categorical {name!r} takes the column as categories, --drop {name!r} drops it"
        )
        check_cells(table, name, column, remedies)
        commas |= column.has_decimal_comma
        values, known = column.values, column.values.dropna()
        if column.kind == "text" and len(known) > FEW_ROWS and known.nunique() > NAMES * len(known):
            kinds["left out"].append(name)
            warnings.warn(
                f"Column {name!r} is left out: its text is different in nearly every row, like a "
                f"name. --categorical {name!r} uses it all the same, --drop {name!r} says so.",
                stacklevel=2,
            )
            continue
        if column.kind == "numbers":
            invalid = values.abs() > MAX_VALUE if values.dtype.kind != "b" else values & False
            if where := table.where(invalid.to_numpy(dtype=bool, na_value=False)):
                value = values[invalid].iloc[0]
                remedy = "Write a number in range, or leave the cell empty if it is unknown."
                raise ValueError(f"{where}: column {name!r} is {value}. {remedy}")
        columns[name] = values
        kind = "categories" if column.kind == "text" else column.kind
        more = f" ({known.nunique():,})" if column.kind == "text" else ""
        more = f" ({column.example})" if column.example else more
        kinds[kind].append(f"{name}{more}")
    if not columns:
        raise ValueError(f"{table.source} has no column to learn from besides ids and target.")
    return Features(pd.DataFrame(columns), {k: v for k, v in kinds.items() if v}, commas)


def check_cells(table: Table, name: str, column: Column, remedies: str = "") -> None:
    """Raise an error with the line of a cell that is no number or date, where most others are."""
    if not column.is_bad.any():
        return
    value = str(table.frame[name].iloc[int(column.is_bad.argmax())])
    share = f"{column.is_bad.sum():,} of {column.values.size:,} cells"
    problem = f"column {name!r} holds {column.kind}, but here {value!r} (so in {share})"
    remedy = f"Correct it, or leave the cell empty if it is unknown{remedies}."
    raise ValueError(f"{table.where(column.is_bad)}: {problem}. {remedy}")


def as_names(table: Table, name: str) -> pd.Series:
    """Return a column as text, None where it is missing."""
    texts = table.texts(name)
    return texts.where(~texts.isin(MISSING), None)


def labels(table: Table, name: str, task: str, missing: Sequence[str]) -> tuple[Any, str]:
    """Return the target, NaN or None where unknown, and "regression" or "classification"."""
    texts = as_names(table, name)
    column = understand(table.frame[name].where(~texts.isin(missing)), table.delimiter == ";")
    unknown = texts.isna() | texts.isin(missing)
    if column.kind == "numbers":  # -999 is -999.0
        codes = pd.to_numeric(pd.Series(list(missing), dtype=object), errors="coerce").dropna()
        unknown |= column.values.isin(codes)
    known = texts[~unknown] if column.is_bad.any() else column.values[~unknown]
    where = f"{table.source}: the target {name!r}"
    if not len(known):
        raise ValueError(f"{where} is empty in every row. Fill it in where it is known.")
    is_number = known.dtype.kind in "biuf"
    if task == "auto":
        # Text cannot be classes if it is mostly numbers, or if hardly an entry occurs twice.
        most = FEW_ROWS if column.is_bad.any() else MAX_SHARE_OF_CLASSES * len(known)
        is_spoilt = not is_number and len(known) > FEW_ROWS and known.nunique() > most
        task = "regression" if is_spoilt else infer_task(known)
        if is_number and set(known) == {-1, 0, 1}:
            ask = "If -1 means unknown: --missing -1. If these are classes: --task classification."
            note(f"The target is -1, 0 or 1: predicted as a number. {ask}")
    constant = f"{where} is {str(known.iloc[0])!r} wherever it is known: there is nothing to learn"
    if task == "regression":
        if known.nunique() < 2:
            note(f"{constant}.")
        remedy = "Correct it, or predict classes: --task classification."
        return numbers(table, name, f"the target {name!r} is", remedy, unknown), task
    if known.nunique() < 2:
        raise ValueError(f"{constant}. Fill in rows of another class.")
    if is_number and known.dtype.kind == "f":  # integers, because of a gap
        if (known % 1 != 0).any():
            remedy = "which are not classes: use --task regression."
            raise ValueError(f"{where} holds decimal numbers, {remedy}")
        known = known.astype(int)
    if column.kind == "dates":
        known = texts[~unknown]
    result = np.full(len(texts), None, dtype=object)
    result[~unknown.to_numpy()] = known.tolist()
    return result, task


def numbers(
    table: Table, name: str, what: str, remedy: str, unknown: pd.Series | None = None
) -> NDArray[np.float64]:
    """Return a column as numbers, NaN where it is empty; other text is an error with its line."""
    texts = as_names(table, name)
    column = understand(table.frame[name], table.delimiter == ";")
    is_number = column.kind == "numbers"
    values = column.values.astype(float) if is_number else pd.Series(np.nan, texts.index)
    if unknown is not None:
        values = values.where(~unknown)
        texts = texts.where(~unknown)
    invalid = (values.isna() & texts.notna()).to_numpy()
    if where := table.where(invalid):
        value = texts.iloc[int(invalid.argmax())]
        raise ValueError(f"{where}: {what} {value!r}, not a number. {remedy}")
    return values.to_numpy()


def roles(table: Table, columns: dict[str, str]) -> dict[str, NDArray[Any]]:
    """Return the columns that are arguments of ``fit`` and ``predict``, by their names there."""
    result: dict[str, NDArray[Any]] = {}
    for role, name in columns.items():
        table.check(name, f"--{role}")
        if role == "groups":
            result[role] = as_names(table, name).to_numpy(dtype=object)
            continue
        column = understand(table.frame[name], table.delimiter == ";")
        values = column.values if column.kind != "text" else pd.Series(np.nan, column.values.index)
        is_number = column.kind == "numbers"
        if not is_number and role != "time":
            values = pd.Series(np.nan, column.values.index)
        invalid = values.isna() if role == "time" or not is_number else ~np.isfinite(values)
        invalid |= (values <= 0) if role == "exposure" else False
        if where := table.where(invalid.to_numpy(dtype=bool)):
            kinds = {"time": "a number or a date", "exposure": "a positive number"}
            must_be = f"must be {kinds.get(role, 'a number')} in every row"
            value = table.texts(name).iloc[int(invalid.to_numpy().argmax())]
            got = repr(value) if value else "an empty cell"
            raise ValueError(f"{where}: column {name!r} (--{role}) {must_be}, got {got}.")
        result[role] = values.to_numpy()
    return result
