"""What columns of text mean: numbers, dates or categories, and which cells do not fit in.

pandas reads numbers and dates. Here are the ways in which people write numbers: ``1,000``,
``12 %``, ``€12``, ``1.000,5``.
"""

import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.tseries.api import guess_datetime_format

from ebboost.cli.files import Table
from ebboost.inspection.graph_check import infer_task

# An id may be called NA, as Namibia is; in all other columns these mean a missing value.
MISSING = ("", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "NULL", "null", "None")
CURRENCY = r"\s*(?:[€$£¥%]|EUR|USD|GBP|CHF)\s*"
THOUSANDS = r"[+-]?\d{1,3}(?:,\d{3})+(?:\.\d+)?"
DECIMAL_COMMA = r"[+-]?(?:\d{1,3}(?:\.\d{3})+|\d*),\d+"
GROUPS = r"[+-]?\d{1,3}(?:\.\d{3})+"  # 1.234 in a table of decimal commas
ISO_DATE = r"\d{4}-\d\d-\d\d(?:[T ]|$)"
MOSTLY = 0.5  # share of cells from which on the others are errors
SAMPLE = 20  # texts that formats of dates are guessed from
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


def understand(table: Table, name: str, unknown: Any = False) -> Column:
    """Return what a column means; cells are bad where most others are numbers or dates.

    Cells that are ``unknown`` count as empty.
    """
    column = table.frame[name]
    column = column.where(~unknown) if np.any(unknown) else column
    nothing = np.zeros(len(column), dtype=bool)
    if column.dtype.kind in "biufM":
        return Column("dates" if column.dtype.kind == "M" else "numbers", column, nothing)
    known = column.notna() & ~column.astype(object).isin(MISSING)
    texts = column[known].astype(str).str.strip()
    if texts.str.lower().isin(["true", "false"]).all():  # or there are none
        values = (texts.str.lower() == "true").reindex(column.index)
        return Column("numbers", values if known.all() else values.astype(float), nothing)
    numbers = as_numbers(texts, table.has_commas)
    dates, is_doubtful = as_dates(texts) if numbers.isna().any() else (numbers * np.nan, False)
    for kind, values in (("numbers", numbers), ("dates", dates)):
        if values.notna().mean() <= MOSTLY:
            continue
        odd = values[(pd.to_numeric(texts, errors="coerce") != values) & values.notna()]
        shown = "".join(f"{one:%Y-%m-%d}" if kind == "dates" else f"{one:g}" for one in odd[:1])
        example = f"{texts[odd.index[0]]!r} is {shown}" if shown else ""
        is_bad = values.isna().reindex(column.index, fill_value=False).to_numpy()
        if kind == "dates" and is_doubtful and not is_bad.any():
            warnings.warn(
                f"Dates in column {name!r} may begin with the day or the month: {example}. Write "
                "them as 2024-05-31 to be sure.",
                stacklevel=2,
            )
        return Column(kind, values.reindex(column.index), is_bad, example)
    return Column("text", texts.astype(object).reindex(column.index).where(known, None), nothing)


def as_numbers(texts: pd.Series, has_commas: bool = False) -> pd.Series:
    """Return text as numbers, NaN where it is none.

    In a table that ``has_commas`` as decimal points, dots separate thousands if they all may.
    """
    plain = pd.to_numeric(texts, errors="coerce")
    if plain.notna().all() and not has_commas:
        return plain
    bare = texts.str.replace(CURRENCY, "", regex=True)
    english = bare.where(~bare.str.fullmatch(THOUSANDS), bare.str.replace(",", ""))
    with_dots = bare[bare.str.contains(".", regex=False)]
    are_groups = has_commas and with_dots.str.fullmatch(f"{GROUPS}|{DECIMAL_COMMA}").all()
    pattern = f"{GROUPS}|{DECIMAL_COMMA}" if are_groups else DECIMAL_COMMA
    german = bare.str.replace(".", "").str.replace(",", ".")
    german = bare.where(~bare.str.fullmatch(pattern), german)
    order = (german, english, texts) if has_commas else (texts, english, german)
    readings = [plain if one is texts else pd.to_numeric(one, errors="coerce") for one in order]
    return max(readings, key=lambda one: int(one.notna().sum()))  # the first that reads most


def as_dates(texts: pd.Series) -> tuple[pd.Series, bool]:
    """Return text as dates, NaT where it is none; and whether day and month may be swapped."""
    some = texts.drop_duplicates().iloc[:SAMPLE]
    if some.str.match(ISO_DATE).mean() > MOSTLY:
        read = pd.to_datetime(texts, format="ISO8601", utc=True, errors="coerce")
        return read.dt.tz_localize(None), False
    found: dict[str, pd.Series] = {}
    for text in some[some.str.match(r".*\d.*[-/. ].*\d")]:
        clock = re.search(r" [AP]M$", text, re.IGNORECASE)  # which pandas does not guess
        for day_first in (False, True):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                form = guess_datetime_format(text[: -3 if clock else None], dayfirst=day_first)
            if form is not None:
                form = form.replace("%H", "%I") + " %p" if clock else form
                found[form] = pd.to_datetime(texts, format=form, errors="coerce")
    if not found:
        return pd.Series(pd.NaT, texts.index), False
    best = max(found.values(), key=lambda one: int(one.notna().sum()))
    others = [one for one in found.values() if one.notna().sum() == best.notna().sum()]
    return best, any(not one.equals(best) for one in others)


def features(
    table: Table, leave: Sequence[str], categorical: Sequence[str]
) -> tuple[pd.DataFrame, dict[str, list[str]]]:
    """Return the columns to learn from, and their names by kind.

    A cell that is no number or date, in a column of such, is an error with its line. Columns of
    names are left out, with a warning.
    """
    kinds: dict[str, list[str]] = {"numbers": [], "dates": [], "categories": [], "left out": []}
    X: dict[str, pd.Series] = {}
    for name in [name for name in table.names if name not in leave]:
        if name in categorical:
            X[name] = as_names(table, name).astype("category")
            kinds["categories"].append(f"{name} ({X[name].nunique():,})")
            continue
        column = understand(table, name)
        more = f"; --categorical {name!r} takes the column as categories, --drop {name!r} drops it"
        check_cells(table, name, column, more)
        values, known = column.values, column.values.dropna()
        if column.kind != "text":
            example = f" ({column.example})" if column.example else ""
            kinds[column.kind].append(f"{name}{example}")
        elif len(known) > FEW_ROWS and known.nunique() > NAMES * len(known):
            kinds["left out"].append(name)
            warnings.warn(
                f"Column {name!r} is left out: its text is different in nearly every row, like a "
                f"name. --categorical {name!r} uses it all the same, --drop {name!r} says so.",
                stacklevel=2,
            )
            continue
        else:
            kinds["categories"].append(f"{name} ({known.nunique():,})")
        X[name] = values
    if not X:
        raise ValueError(f"{table.path} has no column to learn from besides ids and target.")
    return pd.DataFrame(X), {kind: own for kind, own in kinds.items() if own}


def check_cells(table: Table, name: str, column: Column, remedies: str = "") -> None:
    """Raise an error with the line of a cell that is no number or date, where most others are."""
    if column.is_bad.any():
        value = str(table.frame[name].iloc[int(column.is_bad.argmax())])
        share = f"{column.is_bad.sum():,} of {column.values.size:,} cells"
        problem = f"column {name!r} holds {column.kind}, but here {value!r} (so in {share})"
        remedy = f"Correct it, or leave the cell empty if it is unknown{remedies}."
        raise ValueError(f"{table.where(column.is_bad)}: {problem}. {remedy}")


def as_names(table: Table, name: str) -> pd.Series:
    """Return a column as text, None where it is missing."""
    texts = table.texts(name)
    return texts.where(~texts.isin(MISSING), None)


def labels(table: Table, name: str, task: str, missing: Sequence[str]) -> tuple[Any, str, str]:
    """Return the target, NaN or None where unknown, "regression" or "classification", an example.

    The example is of what is not obvious, else "".
    """
    texts = as_names(table, name)
    as_numbers = pd.to_numeric(pd.Series(list(missing), dtype=object), errors="coerce").dropna()
    unknown = texts.isna() | texts.isin(missing)  # -999 is also -999.0
    unknown |= pd.to_numeric(texts, errors="coerce").isin(as_numbers)
    column = understand(table, name, unknown)
    is_number = column.kind == "numbers" and not column.is_bad.any()
    known = (column.values if is_number else texts)[~unknown]
    if not len(known):
        raise ValueError(f"{table.path}: the target {name!r} is empty in every row.")
    if task == "auto":
        # Text cannot be classes if it is mostly numbers, or if hardly an entry occurs twice.
        most = FEW_ROWS if column.is_bad.any() else MAX_SHARE_OF_CLASSES * len(known)
        is_spoilt = not is_number and len(known) > FEW_ROWS and known.nunique() > most
        task = "regression" if is_spoilt else infer_task(known)
    if task == "regression":
        remedy = "Correct it; if it means unknown, --missing {value!r} says so; or predict "
        remedy += "classes: --task classification."
        values = numbers(table, name, f"the target {name!r}", remedy, unknown)
        return values, task, column.example
    if is_number and known.dtype.kind == "f" and (known % 1 == 0).all():
        known = known.astype(int)  # floats because of a gap
    result = np.full(len(texts), None, dtype=object)
    result[~unknown.to_numpy()] = known.tolist()
    return result, task, column.example if is_number else ""


def numbers(
    table: Table, name: str, what: str, remedy: str, unknown: Any = False
) -> NDArray[np.float64]:
    """Return a column as numbers, NaN where it is empty; other text is an error with its line."""
    texts = as_names(table, name)
    column = understand(table, name, unknown)
    values = column.values if column.kind == "numbers" else pd.Series(np.nan, texts.index)
    values = values.astype(float).where(~(texts.isna() | unknown))
    invalid = (values.isna() & texts.notna() & ~np.asarray(unknown)).to_numpy()
    if where := table.where(invalid):
        value = texts.iloc[int(invalid.argmax())]
        remedy = remedy.format(value=value)
        raise ValueError(f"{where}: {what} is {value!r}, not a number. {remedy}")
    return values.to_numpy()


def group_names(table: Table, text: str) -> list[str]:
    """Return the columns that --groups names: one, or several with commas between them."""
    names = [text] if text in table.names else [name.strip() for name in text.split(",")]
    return [table.check(name, "--groups") for name in names]


def roles(table: Table, columns: Mapping[str, str]) -> dict[str, Any]:
    """Return the columns that are arguments of ``fit`` and ``predict``, by their names there."""
    result: dict[str, Any] = {}
    for role, name in columns.items():
        if role == "groups":
            levels = {
                own: table.texts(own).to_numpy(dtype=object) for own in group_names(table, name)
            }
            for own, values in levels.items():
                if where := table.where(values == ""):
                    what = f"column {own!r} (--groups)"
                    raise ValueError(f"{where}: {what} is empty. Name the group.")
            result[role] = levels if len(levels) > 1 else next(iter(levels.values()))
            continue
        what = f"column {table.check(name, f'--{role}')!r} (--{role})"
        if role == "time":
            column = understand(table, name)
            check_cells(table, name, column)
            result[role] = column.values.to_numpy()
        else:
            result[role] = numbers(table, name, what, "Every row needs one.")
    return result
