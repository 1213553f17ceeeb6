"""Checks of numeric parameters, shared by smoothers, label models, losses and estimators."""

import math
from numbers import Integral, Real

import numpy as np


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

    Which of these ends it may equal says ``closed``: "both", "left", "right" or "neither".
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
