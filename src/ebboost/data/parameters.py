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
    """Raise ValueError unless ``value`` is a finite number, not a bool, within an interval.

    Parameters
    ----------
    name : str
        The parameter, as the message names it.
    value : object
        What was passed for it.
    integer : bool, default=False
        Whether it must be an integer.
    low, high : float, optional
        Ends of the interval; None for no bound on that side.
    closed : {"both", "left", "right", "neither"}, default="both"
        Which ends belong to the interval.

    Examples
    --------
    >>> check_number("share", 0.5, low=0.0, high=1.0)
    >>> check_number("tau", 0.0, low=0.0, closed="neither")
    Traceback (most recent call last):
        ...
    ValueError: tau must be a number > 0, got 0.0.
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
    if low is not None and high is not None:
        interval = f" in {'[' if with_low else '('}{low:g}, {high:g}{']' if with_high else ')'}"
    elif low is not None:
        interval = f" {'>=' if with_low else '>'} {low:g}"
    elif high is not None:
        interval = f" {'<=' if with_high else '<'} {high:g}"
    else:
        interval = ""
    noun = "an integer" if integer else "a number"
    raise ValueError(f"{name} must be {noun}{interval}, got {value!r}.")


def check_bool(name: str, value: object) -> None:
    """Raise ValueError unless ``value`` is True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError(f"{name} must be True or False, got {value!r}.")
