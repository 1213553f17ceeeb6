"""Names of types, of checks of parameters, and warnings that point at the user's line."""

import contextlib
import inspect
import math
import os
import warnings
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

Array: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]
BoolArray: TypeAlias = NDArray[np.bool_]
#: A pandas, polars or pyarrow table, an array or a sparse matrix.
TableLike: TypeAlias = Any
#: Numbers or classes, NaN or None where unknown.
LabelsLike: TypeAlias = ArrayLike | Sequence[Any]
#: Rows and their labels.
LabelledRows: TypeAlias = tuple[ArrayLike, LabelsLike]
Seed: TypeAlias = int | np.random.RandomState | np.random.Generator | None

_PACKAGE = os.path.join(os.path.dirname(__file__), "")


def warn_caller(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the innermost line outside of this package, such as ``model.fit(...)``."""
    inside = (_PACKAGE, contextlib.__file__)
    frame = inspect.currentframe()
    level = 1
    while frame is not None and frame.f_code.co_filename.startswith(inside):
        frame = frame.f_back
        level += 1
    warnings.warn(message, category, stacklevel=level)


def check_number(
    name: str,
    value: object,
    *,
    integer: bool = False,
    low: float | None = None,
    high: float | None = None,
    closed: str = "both",
) -> None:
    """Raise ValueError unless ``value`` is a finite number, not a bool, from ``low`` to ``high``.

    ``closed`` says which of the two ends are allowed: "both", "left", "right" or "neither".
    """
    with_low = closed in ("both", "left")
    with_high = closed in ("both", "right")
    kind = Integral if integer else Real
    if isinstance(value, kind) and not isinstance(value, bool) and math.isfinite(value):
        number = float(value)
        above = low is None or number > low or (with_low and number == low)
        below = high is None or number < high or (with_high and number == high)
        if above and below:
            return
    interval = ""
    if low is not None and high is not None:
        interval = f" in {'[' if with_low else '('}{low:g}, {high:g}{']' if with_high else ')'}"
    elif low is not None:
        interval = f" {'>=' if with_low else '>'} {low:g}"
    elif high is not None:
        interval = f" {'<=' if with_high else '<'} {high:g}"
    noun = "an integer" if integer else "a number"
    raise ValueError(f"{name} must be {noun}{interval}, got {value!r}.")


def check_bool(name: str, value: object) -> None:
    """Raise ValueError unless ``value`` is True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError(f"{name} must be True or False, got {value!r}.")


def seed_of(random_state: Seed) -> int:
    """Return the seed of a fit from a seed or a random generator."""
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(np.iinfo(np.int32).max))
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))
