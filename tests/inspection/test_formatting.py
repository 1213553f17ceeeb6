import numpy as np
import pytest

from ebboost.inspection import formatting


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (18413.2, "18,410"),
        (1996.2, "1996"),
        (0.053581, "0.05358"),
        (-2.5, "-2.500"),
        (0.0, "0"),
        (1e-7, "1e-07"),
        (99999.0, "100,000"),
        (np.inf, "∞"),
        (np.nan, "–"),
    ],
)
def test_figures_have_a_fixed_number_of_significant_digits(value, text):
    assert formatting.figure(value) == text


@pytest.mark.parametrize(
    ("days", "text"),
    [(0.0, "1970-01-01"), (-1.0, "1969-12-31"), (18412.5, "2020-05-30 12:00"), (1e9, "1e+09")],
)
def test_days_since_1970_are_dates(days, text):
    assert formatting.date(days) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(1996, "1996"), (123456, "123,456"), (0.5, "0.5"), (-0.12345, "-0.1235"), (0, "0")],
)
def test_numbers_have_no_zeros_at_their_end(value, text):
    assert formatting.number(value) == text


def test_small_shares_have_decimals_and_less_than_all_is_not_all():
    shares = [0.0, 0.000333, 0.5, 0.9996, 1.0]
    assert list(map(formatting.percent, shares)) == ["0%", "0.0333%", "50%", "99.9%", "100%"]
    assert formatting.percent(0.12345, 1) == "12.3%"


def test_counts_names_and_sizes():
    assert formatting.count(1, "node") == "1 node"
    assert formatting.count(1200, "node") == "1,200 nodes"
    assert formatting.shorten("a\n\tb") == "a b"
    assert formatting.shorten("x" * 200) == "x" * 150 + "…"
    assert formatting.file_size(250_900) == "250.9 kB"
    assert formatting.file_size(2_500_000) == "2.5 MB"
