"""Checks of numbers that would be changed without a word: complex ones, and large integers."""

from typing import Any

import numpy as np

# Double precision cannot tell larger integers apart.
MAX_INTEGER = 2**53


def check_real(values: Any, name: str) -> None:
    """Raise ValueError for complex numbers, whose imaginary part would be dropped."""
    kind = getattr(values, "dtype", None)
    is_complex = isinstance(values, (list, tuple)) and any(
        isinstance(one, complex) for one in values
    )
    if is_complex or getattr(kind, "kind", "") == "c":
        raise ValueError(f"{name} holds complex numbers: pass their real part, or their modulus.")


def check_integers(values: Any, name: str) -> None:
    """Raise ValueError for integers that double precision would round."""
    if values.dtype.kind == "O":
        # Larger ones are out of range, and rejected as such.
        large = [
            isinstance(value, int) and MAX_INTEGER < abs(value) < 10**37 for value in values.ravel()
        ]
        is_large = np.array(large, dtype=bool).reshape(values.shape)
    elif values.dtype.kind in "iu":
        smallest = values.min(initial=0)
        if values.max(initial=0) <= MAX_INTEGER and smallest >= -MAX_INTEGER:
            return
        is_large = (values > MAX_INTEGER) | (values < -MAX_INTEGER)
    else:
        return
    if is_large.any():
        row, *column = np.argwhere(is_large)[0].tolist()
        where = f"row {row}" + "".join(f", column {number}" for number in column)
        raise ValueError(
            f"{name} holds integers beyond 2**53, such as {values[is_large][0]} ({where}), which "
            "double precision cannot tell apart. Pass ids as text, times as datetimes, or leave "
            "them out."
        )
