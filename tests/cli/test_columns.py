"""What columns of text mean: numbers however they are written, dates, categories, the target."""

import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebboost.cli import columns
from ebboost.cli.files import named, read_table

FINITE = st.floats(allow_nan=False, allow_infinity=False, width=32)


def table(tmp_path, delimiter=",", **values):
    """A table of text, as if it were read from a file."""
    frame = pd.DataFrame(values, dtype=object)
    read = named(tmp_path / "t.csv", frame, "text")
    return type(read)(read.path, read.frame, read.layout, delimiter=delimiter)


@given(st.lists(FINITE, min_size=1))
def test_numbers_are_those_that_were_written(values):
    for texts in (map(str, values), map(repr, values), (f"{value:.17g}" for value in values)):
        numbers = columns.as_numbers(pd.Series(list(texts), dtype=object))
        np.testing.assert_array_equal(numbers, values)


@given(st.lists(st.integers(-(10**12), 10**12), min_size=1), st.sampled_from(["", "€", "$", " %"]))
def test_thousands_and_currencies_are_read(values, sign):
    for form, exact in (("{:,}", 1.0), ("{:,.2f}", 1.0), ("{}", 1.0)):
        texts = [form.format(value) for value in values]
        texts = [f"{text}{sign}" if sign == " %" else f"{sign}{text}" for text in texts]
        numbers = columns.as_numbers(pd.Series(texts, dtype=object))
        np.testing.assert_array_equal(numbers, np.array(values) * exact)


@given(st.lists(st.integers(-(10**9), 10**9), min_size=1))
def test_decimal_commas_are_read(values):
    expected = np.array(values) / 4.0
    swapped = str.maketrans(",.", ".,")
    texts = [f"{value:,.2f}".translate(swapped) for value in expected]
    numbers = columns.as_numbers(pd.Series(texts, dtype=object), has_commas=True)
    np.testing.assert_array_equal(numbers, expected)


def test_a_comma_before_three_digits_is_a_decimal_one_where_semicolons_separate():
    texts = pd.Series(["1,234", "2,500"], dtype=object)
    assert columns.as_numbers(texts).tolist() == [1234.0, 2500.0]
    assert columns.as_numbers(texts, has_commas=True).tolist() == [1.234, 2.5]


@pytest.mark.parametrize("values", [("A12", "B13"), ("12-34", "1.2.3"), ("12 apples", "two")])
def test_other_text_is_no_number(values):
    assert columns.as_numbers(pd.Series(values, dtype=object)).isna().all()


@pytest.mark.parametrize(
    ("values", "first"),
    [
        (("2020-12-31", ""), "2020-12-31"),
        (("31/12/2020", "01/02/2020"), "2020-12-31"),
        (("12/31/2020", "01/02/2020"), "2020-12-31"),
        (("31.12.2020", "1.2.2020"), "2020-12-31"),
        (("2020/12/31",), "2020-12-31"),
        (("31 Dec 2020",), "2020-12-31"),
        (("Dec 31, 2020",), "2020-12-31"),
        (("12/31/2020 10:30 PM",), "2020-12-31 22:30"),
        (("2020-12-31T10:00:00+02:00",), "2020-12-31 08:00"),
        (("2020-12-31 10:00:00.5Z", "2020-12-31 10:00"), "2020-12-31 10:00:00.5"),
    ],
)
def test_common_dates_are_dates(values, first, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        column = columns.understand(table(tmp_path, a=values), "a")
    assert column.kind == "dates" and not column.is_bad.any()
    assert column.values[0] == pd.Timestamp(first) and "2020-12-31" in column.example
    assert column.values.isna().tolist() == [not value for value in values]


@given(st.lists(st.dates(pd.Timestamp("1900-01-01").date(), pd.Timestamp("2100-01-01").date())))
def test_dates_are_those_that_were_written(days):
    days.append(pd.Timestamp("2020-12-31").date())  # which tells days and months apart
    for form in ("%d/%m/%Y", "%m/%d/%Y", "%Y-%m-%d", "%d.%m.%Y"):
        texts = pd.Series([day.strftime(form) for day in days], dtype=object)
        read, is_doubtful = columns.as_dates(texts)
        assert read.dt.date.tolist() == days and not is_doubtful


@pytest.mark.parametrize("values", [("2024-1", "x-2"), ("soon", "later"), ("10-12", "3-4")])
def test_other_text_is_no_date(values, tmp_path):
    assert columns.understand(table(tmp_path, a=values), "a").kind == "text"


def test_booleans_gaps_and_empty_columns(tmp_path):
    read = table(tmp_path, a=["True", "false"], b=["true", ""], c=["", "NA"], d=["x", "null"])
    kinds = [columns.understand(read, name) for name in "abcd"]
    assert [one.kind for one in kinds] == ["numbers", "numbers", "numbers", "text"]
    assert kinds[0].values.tolist() == [True, False] and np.isnan(kinds[2].values).all()
    assert kinds[3].values.tolist() == ["x", None]


def test_features_are_all_columns_but_those_left_and_names(tmp_path):
    n = 30
    read = table(
        tmp_path,
        y=[str(i) for i in range(n)],
        x=[f"{i}.5" for i in range(n)],
        zone=["1", "", "3"] * 10,
        name=[f"house {i}" for i in range(n)],
        sold=[f"2020-01-{i + 1:02d}" for i in range(n)],
        kind=["red", "blue"] * 15,
    )
    with pytest.warns(UserWarning, match="Column 'name' is left out: its text is different"):
        X, facts = columns.features(read, ["y"], ["zone"])
    assert list(X) == ["x", "zone", "sold", "kind"]
    assert X["zone"].cat.categories.tolist() == ["1", "3"] and X["sold"].dtype.kind == "M"
    assert facts["left out"] == ["name"] and facts["categories"] == ["zone (2)", "kind (2)"]
    with pytest.raises(ValueError, match="no column to learn from"):
        columns.features(read, read.names, [])


TARGETS = [
    (["1.5", "", "2.5", "3.0"], "auto", "regression", [1.5, np.nan, 2.5, 3.0]),
    (["0", "", "1"], "auto", "classification", [0, None, 1]),
    (["0", "", "1"], "regression", "regression", [0.0, np.nan, 1.0]),
    (["a", "NA", "b"], "auto", "classification", ["a", None, "b"]),
    (["True", "False", "True"], "auto", "classification", [True, False, True]),
    (["3", "1", "2", "2"], "classification", "classification", [3, 1, 2, 2]),
    (["01", "x", "x"], "auto", "classification", ["01", "x", "x"]),
    (["1,5", "2,5"], "auto", "regression", [1.5, 2.5]),
]


@pytest.mark.parametrize(("values", "task", "kind", "expected"), TARGETS)
def test_the_target_is_numbers_or_classes(values, task, kind, expected, tmp_path):
    read = table(tmp_path, y=values)
    if values == ["1,5", "2,5"]:
        task = "regression"
    labels, inferred, _ = columns.labels(read, "y", task, [])
    assert inferred == kind
    assert [type(value) for value in labels.tolist()] == [type(value) for value in expected]
    np.testing.assert_array_equal(labels, np.asarray(expected, dtype=labels.dtype))


def test_values_that_mean_unknown_are_left_out(tmp_path):
    read = table(tmp_path, y=["-999", "1", "2.5", "?", "4"])
    labels, _, _ = columns.labels(read, "y", "auto", ["-999", "?"])
    np.testing.assert_array_equal(labels, [np.nan, 1.0, 2.5, np.nan, 4.0])
    with pytest.raises(ValueError, match="'y' is empty in every row"):
        columns.labels(read, "y", "auto", ["-999", "1", "2.5", "?", "4"])


def test_text_that_hardly_repeats_is_no_class(tmp_path):
    prices = [str(i) for i in range(40)] + ["on request"] + ["7"] * 40
    with pytest.raises(ValueError, match=r"line 42: the target 'y' is 'on request', not a number"):
        columns.labels(table(tmp_path, y=prices), "y", "auto", [])
    people = [f"person {i}" for i in range(40)]
    with pytest.raises(ValueError, match=r"line 2: the target 'y' is 'person 0'"):
        columns.labels(table(tmp_path, y=people), "y", "auto", [])
    assert columns.labels(table(tmp_path, y=prices), "y", "classification", [])[1] != "regression"


def test_dots_are_thousands_where_commas_are_decimal_points(tmp_path):
    path = tmp_path / "t.csv"
    for sizes, expected in (("12,5", [90000.0, 315000.0]), ("12.5", [90.0, 315.0])):
        path.write_text(f"price;size;at\n90.000;{sizes};41.0847\n315.000;7;41.123\n")
        read = read_table(path)
        column = columns.understand(read, "price")
        assert column.values.tolist() == expected and read.has_commas == ("," in sizes)
        assert column.example == ("'90.000' is 90000" if read.has_commas else "")
        assert columns.understand(read, "at").values.tolist() == [41.0847, 41.123]
