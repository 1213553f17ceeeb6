"""What the columns of a file mean: which are features, whether the target is numbers or classes."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from ebboost.cli import roles, tables

PATH = Path("t.csv")


def test_features_are_all_columns_but_target_dropped_ones_and_names():
    n = 30
    table = pd.DataFrame(
        {"y": range(n), "x": range(n), "zone": [1.0, np.nan, 3.0] * 10, "out": range(n)}
    )
    table["name"] = [f"house {i}" for i in range(n)]
    table["sold"] = pd.date_range("1970-01-02", periods=n)
    with pytest.warns(
        UserWarning, match="Column 'name' is left out: its text is different in every row"
    ):
        X = roles.features(table, "y", ["out"], ["zone"], PATH)
    assert list(X.columns) == ["x", "zone", "sold"]
    assert list(X["zone"].cat.categories) == ["1", "3"] and X["sold"].dtype.kind == "M"


def test_a_stray_word_among_numbers_is_an_error(tmp_path):
    (tmp_path / "t.csv").write_text(
        "id,y,built\n" + "".join(f"{i},{i},19{i}\n" for i in range(10, 40)) + "a,1,unknown\n"
    )
    table = tables.read_table(tmp_path / "t.csv", text=["id"]).drop(columns="id")
    table = pd.concat([table, table], ignore_index=True)
    with pytest.raises(ValueError, match=r"line 32: column 'built' holds numbers.*'unknown'"):
        roles.features(table, "y", [], [], PATH)
    X = roles.features(table.astype({"built": "category"}), "y", [], [], PATH)
    assert list(X.columns) == ["built"]
    roles.features(table, "y", [], ["built"], PATH)


def test_a_stray_word_among_different_numbers_is_an_error(tmp_path):
    path = tmp_path / "n.csv"
    column = [str(number) for number in range(60)]
    column[7] = "n/a?"
    table = pd.DataFrame({"y": range(60), "x": range(60), "area": column})
    table.to_csv(path, index=False)
    with pytest.raises(ValueError, match=r"n\.csv, line 9: .*'n/a\?' \(so in 1 of 60 cells\)"):
        roles.features(table, "y", [], [], path)


def test_minus_one_zero_and_one_are_asked_about():
    values = pd.Series([-1, 0, 1, 1], name="state")
    with pytest.warns(UserWarning, match=r"If -1 means unknown: --missing -1\. If these are"):
        assert roles.labels(values, "auto", PATH)[1] == "regression"


def test_a_target_with_one_value_is_noted_or_rejected():
    values = pd.Series([5.0, np.nan, 5.0, 5.0], name="price")
    with pytest.warns(UserWarning, match=r"t\.csv: the target 'price' is '5\.0' wherever"):
        assert roles.labels(values, "regression", PATH)[1] == "regression"
    with pytest.raises(ValueError, match=r"nothing to learn\. Fill in rows of another class"):
        roles.labels(values, "classification", PATH)


def test_a_table_without_features_raises_an_error():
    with pytest.raises(ValueError, match="no column to learn from"):
        roles.features(pd.DataFrame({"y": [1.0, 2.0]}), "y", [], [], PATH)


@pytest.mark.parametrize(
    ("values", "task", "kind", "expected"),
    [
        ([1.5, None, 2.5, 3.0], "auto", "regression", [1.5, np.nan, 2.5, 3.0]),
        ([0.0, None, 1.0], "auto", "classification", [0, None, 1]),
        ([0.0, None, 1.0], "regression", "regression", [0.0, np.nan, 1.0]),
        (["a", None, "b"], "auto", "classification", ["a", None, "b"]),
        ([True, False, True], "auto", "classification", [True, False, True]),
        ([True, False, True], "regression", "regression", [1.0, 0.0, 1.0]),
        ([3, 1, 2, 2], "classification", "classification", [3, 1, 2, 2]),
        (["1", "2", None, "2.5"], "regression", "regression", [1.0, 2.0, np.nan, 2.5]),
    ],
)
def test_the_target_is_numbers_or_classes(values, task, kind, expected):
    labels, inferred = roles.labels(pd.Series(values, name="y"), task, PATH)
    assert inferred == kind
    assert [type(value) for value in labels.tolist()] == [type(value) for value in expected]
    np.testing.assert_array_equal(labels, np.asarray(expected, dtype=labels.dtype))


def test_text_that_hardly_repeats_is_not_read_as_classes():
    prices = pd.Series([str(i) for i in range(40)] + ["on request"] + ["7"] * 40, name="price")
    with pytest.raises(
        ValueError, match=r"t\.csv, line 42: the target 'price' is 'on request', not a number"
    ):
        roles.labels(prices, "auto", PATH)
    with pytest.raises(ValueError, match=r"line 2: the target 'who' is 'person 0'"):
        roles.labels(pd.Series([f"person {i}" for i in range(40)], name="who"), "auto", PATH)
    assert roles.labels(prices, "classification", PATH)[1] == "classification"
