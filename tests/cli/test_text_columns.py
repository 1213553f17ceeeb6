"""Written numbers and dates in columns of text."""

import warnings

import pandas as pd
import pytest

from ebboost.cli.text_columns import parse_columns


def parsed(*values):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        frame = parse_columns(pd.DataFrame({"a": values}), ["a"], "t.csv")
    return frame["a"], " ".join(str(warning.message) for warning in caught)


@pytest.mark.parametrize(
    ("values", "numbers"),
    [
        (("1,000", "2"), [1000.0, 2.0]),
        (("12 %", "-3.5%"), [12.0, -3.5]),
        (("€12", "-€3.50"), [12.0, -3.5]),
        (("$1,200.50", "$7"), [1200.5, 7.0]),
        (("12 €", "1 €"), [12.0, 1.0]),
    ],
)
def test_a_column_of_written_numbers_is_numbers_with_a_note(values, numbers):
    column, note = parsed(*values)
    assert column.tolist() == numbers and "is read as numbers" in note


@pytest.mark.parametrize("values", [("1,000", "many"), ("1,00",), ("A12", "B13"), ("12-34",)])
def test_a_column_that_is_not_all_numbers_stays_text(values):
    column, note = parsed(*values)
    assert column.tolist() == list(values) and not note


@pytest.mark.parametrize(
    ("values", "first"),
    [
        (("2020-12-31", None), "2020-12-31"),
        (("31/12/2020", "01/02/2020"), "2020-12-31"),
        (("12/31/2020", "01/02/2020"), "2020-12-31"),
        (("31.12.2020", "1.2.2020"), "2020-12-31"),
        (("2020/12/31",), "2020-12-31"),
        (("31 Dec 2020",), "2020-12-31"),
        (("Dec 31, 2020",), "2020-12-31"),
        (("12/31/2020 10:30 PM",), "2020-12-31 22:30"),
        (("2020-12-31T10:00:00+02:00",), "2020-12-31 08:00"),
        (("2020-12-31 10:00:00.5Z",), "2020-12-31 10:00:00.5"),
    ],
)
def test_common_dates_are_dates(values, first):
    column, note = parsed(*values)
    assert column[0] == pd.Timestamp(first) and column.dtype.kind == "M" and not note
    assert column.isna().tolist() == [value is None for value in values]


def test_dates_that_may_begin_with_day_or_month_are_noted():
    column, note = parsed("01/02/2020", "03/04/2020")
    assert column[0] == pd.Timestamp("2020-01-02") and "may begin with the day or the month" in note


@pytest.mark.parametrize("values", [("2024-1",), ("31/12/2020", "soon"), ("2020-13-45",)])
def test_other_text_is_not_a_date(values):
    assert parsed(*values)[0].dtype.kind != "M"
