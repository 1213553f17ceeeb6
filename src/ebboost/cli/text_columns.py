"""Columns of text that are numbers or dates: ``1,000``, ``12 %``, ``€12``, ``31/12/2020``."""

import warnings
from collections.abc import Sequence

import pandas as pd

from ebboost.cli.console import LoudWarning

_CURRENCY = r"(?:[€$£¥]|EUR|USD|GBP|CHF)?"
_NUMBER = rf"{_CURRENCY}\s*[+-]?\s*{_CURRENCY}\s*(?:\d{{1,3}}(?:,\d{{3}})+|\d+)(?:\.\d+)?"
WRITTEN_NUMBER = rf"{_NUMBER}\s*(?:%|{_CURRENCY})"
# Hours without seconds, with seconds, and on a clock of twelve hours.
_TIMES = ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p")
_DAYS = ("%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d", "%d.%m.%Y", "%d-%m-%Y", "%d %b %Y", "%d-%b-%Y")
DATE_FORMATS = tuple(day + time for time in _TIMES for day in (*_DAYS, "%d %B %Y", "%b %d, %Y"))
_ISO = r"\d{4}-[01]\d-[0-3]\d(?:[ T][0-2]\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?"
_SAMPLE = 100
_DECIMAL_COMMA = r"[+-]?\d*,?\d+"
_DATE_LIKE = r"\d.*[-/. ].*\d"


def is_numeric(column: pd.Series) -> bool:
    """Whether a column holds numbers or booleans."""
    return column.dtype.kind in "biuf"


def as_numbers(column: pd.Series) -> pd.Series:
    """Return a column as numbers, NaN where an entry is not a number."""
    values = column if is_numeric(column) else column.astype(object)
    return pd.to_numeric(values, errors="coerce")


def bad_cells(column: pd.Series) -> tuple[str, pd.Series] | None:
    """Return what most cells of a text column are, numbers or dates, and which are not.

    None where all cells, or none to speak of, are such. Missing cells are neither.
    """
    known = column.dropna()
    if is_numeric(column) or column.dtype.kind == "M" or not len(known):
        return None
    texts = known.astype(str).str.strip()
    are_numbers = as_numbers(texts).notna() | texts.str.fullmatch(WRITTEN_NUMBER)
    candidates = [("numbers", are_numbers | texts.str.fullmatch(_DECIMAL_COMMA))]
    if texts.iloc[:_SAMPLE].str.contains(_DATE_LIKE).mean() > 0.5:
        forms = [_dates_in(texts, form) for form in DATE_FORMATS]
        forms.append(texts.str.fullmatch(_ISO))
        candidates.append(("dates", max(forms, key=lambda are_dates: are_dates.mean())))
    for kind, are_such in candidates:
        if 0.5 < are_such.mean() < 1.0:
            return kind, (~are_such).reindex(column.index, fill_value=False)
    return None


def _dates_in(texts: pd.Series, form: str) -> pd.Series:
    return pd.to_datetime(texts, format=form, errors="coerce").notna()


def parse_columns(frame: pd.DataFrame, names: Sequence[str], file: str) -> pd.DataFrame:
    """Return a table in which columns of dates and of written numbers are such.

    A column is one only if all of its values are. Warns of what was not obvious. ``attrs["dates"]``
    of the table are examples by column.
    """
    examples = {}
    for name in names:
        values = frame[name].dropna()
        if not len(values) or is_numeric(values):
            continue
        texts = values.astype(str).str.strip()
        dates = _dates(texts, f"column {name!r} of {file}")
        if dates is not None:
            frame[name] = dates.reindex(frame.index)
            examples[name] = f"{texts.iloc[0]!r} is {dates.iloc[0]:%Y-%m-%d}"
        elif texts.str.fullmatch(WRITTEN_NUMBER).all():
            numbers = texts.str.replace(r"[^\d.+-]", "", regex=True).astype(float)
            frame[name] = numbers.reindex(frame.index)
            example = f"{texts.iloc[0]!r} is {numbers.iloc[0]:g}"
            warnings.warn(f"Column {name!r} of {file} is read as numbers: {example}.", stacklevel=3)
    frame.attrs["dates"] = examples
    return frame


def _dates(texts: pd.Series, where: str) -> pd.Series | None:
    """Return dates without a time zone, None where some text is not one."""
    if texts.str.fullmatch(_ISO).all():
        return pd.to_datetime(texts, format="ISO8601", utc=True).dt.tz_localize(None)
    sample = texts.iloc[:_SAMPLE]
    if not sample.str.contains(r"\d").all():
        return None
    likely = [one for one in DATE_FORMATS if _parsed(sample, one) is not None]
    parsed = {one: dates for one in likely if (dates := _parsed(texts, one)) is not None}
    if not parsed:
        return None
    *_, chosen = parsed  # month before day where both are possible, as pandas has it
    if len(parsed) > 1 and len({tuple(dates) for dates in parsed.values()}) > 1:
        example = f"{texts.iloc[0]!r} is {parsed[chosen].iloc[0]:%Y-%m-%d}"
        problem = f"Dates in {where} may begin with the day or the month: {example}"
        text = f"{problem}. Write them as 2024-05-31 to be sure."
        warnings.warn(text, LoudWarning, stacklevel=4)
    return parsed[chosen]


def _parsed(texts: pd.Series, form: str) -> pd.Series | None:
    try:
        return pd.to_datetime(texts, format=form)
    except ValueError:
        return None
