"""What the columns of a table mean to a model: features, and numbers or classes to predict."""

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ebboost.cli.console import LoudWarning
from ebboost.cli.tables import as_names, check_column, first_line
from ebboost.cli.text_columns import as_numbers, bad_cells, is_numeric
from ebboost.data.table import MAX_VALUE
from ebboost.inspection.graph_check import infer_task

MAX_SHARE_OF_CLASSES = 0.5  # of the labels of a text target: if more differ, they are no classes
FEW_ROWS = 20


def features(
    table: pd.DataFrame, target: str, drop: Sequence[str], categorical: Sequence[str], path: Path
) -> pd.DataFrame:
    """Return the columns to learn from; warns of columns of names, which are left out.

    A cell that is no number or date, in a column of such, is an error with its line.
    ``attrs["left out"]`` of the result are the columns of names.
    """
    for name in drop:
        check_column(list(table.columns), name, "--drop", path)
    X = table.drop(columns=[target, *drop])
    for name in X.select_dtypes("number").columns:
        invalid = (X[name].abs() > MAX_VALUE).to_numpy(dtype=bool, na_value=False)
        if line := first_line(invalid, path):
            value = X[name].iloc[invalid.argmax()]
            remedy = "Write a number in range, or leave the cell empty if it is unknown."
            raise ValueError(f"{path}, line {line}: column {name!r} is {value}. {remedy}")
    for name in categorical:
        check_column(list(X.columns), name, "--categorical", path)
        X[name] = as_names(X[name]).astype("category")
    names = []
    for name in [name for name in X.columns if X[name].dtype.kind not in "biufM"]:
        if name in categorical:
            continue
        check_cells(X[name], path, remedies=True)
        values = X[name].dropna()
        if len(values) > FEW_ROWS and values.nunique() == len(values):
            names.append(name)
            del X[name]
            text = f"Column {name!r} is left out: its text is different in every row, like a name."
            remedy = f"--categorical {name!r} uses it all the same, --drop {name!r} says so."
            warnings.warn(f"{text} {remedy}", LoudWarning, stacklevel=2)
    X.attrs["left out"] = names
    if not X.shape[1]:
        raise ValueError(f"{path} has no column to learn from besides the ids and {target!r}.")
    return X


def check_cells(column: pd.Series, path: Path, remedies: bool = False) -> None:
    """Raise an error with the line of a cell that is no number or date, where most others are."""
    cells = None if column.dtype == "category" else bad_cells(column)
    if cells is None:
        return
    kind, are_bad = cells
    invalid = are_bad.to_numpy(dtype=bool)
    line = first_line(invalid, path)
    name = str(column.name)
    value = str(column.iloc[int(invalid.argmax())])
    share = f"{invalid.sum():,} of {column.notna().sum():,} cells"
    text = f"{path}, line {line}: column {name!r} holds {kind}, but here {value!r} (so in {share})."
    text += " Correct it, or leave the cell empty if it is unknown"
    if remedies:
        text += f"; --categorical {name!r} takes the column as categories, --drop {name!r} drops it"
    raise ValueError(f"{text}.")


def without(column: pd.Series, missing: Sequence[str]) -> pd.Series:
    """Return a column in which these values, as a user writes them, are missing."""
    if not missing:
        return column
    names = as_names(column)
    unknown = names.isin(missing)
    if is_numeric(column):
        unknown |= column.isin(as_numbers(pd.Series(missing)).dropna())
    return column.where(~unknown)


def labels(column: pd.Series, task: str, path: Path) -> tuple[NDArray[Any], str]:
    """Return the target, NaN or None where unknown, and "regression" or "classification"."""
    known = column.dropna()
    target = f"{path}: the target {str(column.name)!r}"
    if not len(known):
        raise ValueError(f"{target} is empty in every row. Fill it in where it is known.")
    if task == "auto":
        task = "regression" if _is_spoilt_number(known) else infer_task(known)
        if is_numeric(known) and set(known) == {-1, 0, 1}:
            ask = "If -1 means unknown: --missing -1. If these are classes: --task classification."
            warnings.warn(f"The target is -1, 0 or 1: predicted as a number. {ask}", stacklevel=2)
    constant = f"is {str(known.iloc[0])!r} wherever it is known: there is nothing to learn"
    if task == "regression":
        if known.nunique() < 2:
            warnings.warn(f"{target} {constant}.", stacklevel=2)
        return target_numbers(column, path), task
    if known.nunique() < 2:
        raise ValueError(f"{target} {constant}. Fill in rows of another class.")
    if column.dtype.kind == "f":  # integers, because of a gap
        if (known % 1 != 0).any():
            remedy = "which are not classes: use --task regression."
            raise ValueError(f"{target} holds decimal numbers, {remedy}")
        known = known.astype(int)
    values = np.full(len(column), None, dtype=object)
    values[column.notna().to_numpy()] = known.tolist()
    return values, task


def target_numbers(column: pd.Series, path: Path) -> NDArray[np.float64]:
    """Return a target as numbers, NaN where it is empty; other text raises an error."""
    remedy = "Correct it, or predict classes: --task classification."
    check_numbers(column, path, f"the target {str(column.name)!r}", remedy)
    numbers: NDArray[np.float64] = as_numbers(column).to_numpy(dtype=np.float64)
    return numbers


def check_numbers(column: pd.Series, path: Path, what: str, remedy: str) -> None:
    """Raise an error with the first line of a column that is neither empty nor a number."""
    invalid = _not_numbers(column)
    if line := first_line(invalid, path):
        value = str(column.iloc[invalid.argmax()])
        raise ValueError(f"{path}, line {line}: {what} is {value!r}, not a number. {remedy}")


def _not_numbers(column: pd.Series) -> NDArray[np.bool_]:
    """Which entries are neither missing nor a number."""
    return (as_numbers(column).isna() & column.notna()).to_numpy()


def _mostly_numbers(values: pd.Series) -> bool:
    return len(values) > 0 and bool(0.5 < as_numbers(values).notna().mean() < 1.0)


def _is_spoilt_number(values: pd.Series) -> bool:
    """Whether text cannot be classes: mostly numbers, or hardly an entry occurs twice."""
    if is_numeric(values) or len(values) <= FEW_ROWS:
        return False
    n_different = values.nunique()
    mostly_numbers = _mostly_numbers(values) and n_different > FEW_ROWS
    return mostly_numbers or n_different > MAX_SHARE_OF_CLASSES * len(values)
