"""Declarative checks of JSON values that come from an untrusted file.

A schema is nested as the value is. In it, a dict lists the keys that must be there and no others; a
type, or a union of types, admits its values; a tuple lists the values to choose from;
:class:`Integers` and :class:`Numbers` describe lists and become arrays; anything else is the one
value allowed. ``True``, ``1`` and ``1.0`` are three different values.
"""

import json
from dataclasses import dataclass
from types import UnionType
from typing import Any

import numpy as np
from numpy.typing import NDArray

LARGEST = 1e150  # of a score; its square, and sums of such, are finite


def require(condition: object, message: str) -> None:
    """Raise ``ValueError`` unless the condition holds."""
    if not condition:
        raise ValueError(message)


@dataclass(frozen=True)
class Integers:
    """A list of integers from ``low`` to ``high``, of length ``size`` unless that is None."""

    low: int
    high: int
    size: int | None = None

    def read(self, value: object, path: str) -> NDArray[np.int64]:
        """Return the list as an array."""
        values = _read_list(value, {int}, "integers", self.size, path)
        in_range = not values or (self.low <= min(values) and max(values) <= self.high)
        require(in_range, f"{path} must be integers from {self.low} to {self.high}")
        return np.array(values, dtype=np.int64)


@dataclass(frozen=True)
class Numbers:
    """A list of numbers no larger than ``high`` in size, none of them NaN."""

    size: int | None = None
    high: float = LARGEST
    kinds: tuple[type, ...] = (int, float)

    def read(self, value: object, path: str) -> NDArray[np.float64]:
        """Return the list as an array."""
        values = _read_list(value, set(self.kinds), "numbers", self.size, path)
        array = np.array(values, dtype=np.float64)
        require((np.abs(array) <= self.high).all(), f"{path} must be finite, at most {self.high:g}")
        return array


def _read_list(
    value: object, kinds: set[type], noun: str, size: int | None, path: str
) -> list[Any]:
    is_list = isinstance(value, list) and set(map(type, value)) <= kinds
    require(is_list, f"{path} must be a list of {noun}")
    assert isinstance(value, list)
    require(size in (None, len(value)), f"{path} must have {size} {noun}, got {len(value)}")
    return value


def is_integer(value: object, low: int, high: int) -> bool:
    """Whether a value is an integer within bounds; booleans are not."""
    return type(value) is int and low <= value <= high


def match(value: Any, schema: Any, path: str) -> Any:
    """Return a value, with arrays for lists of numbers, or raise ``ValueError`` with its path."""
    if isinstance(schema, Integers | Numbers):
        return schema.read(value, path)
    if isinstance(schema, dict):
        has_keys = isinstance(value, dict) and set(value) == set(schema)
        require(has_keys, f"{path} must have the keys {sorted(schema)}")
        return {key: match(value[key], part, f"{path}.{key}") for key, part in schema.items()}
    if isinstance(schema, type | UnionType):
        name = schema.__name__ if isinstance(schema, type) else schema
        require(isinstance(value, schema), f"{path} must be {name}")
        return value
    choices = schema if isinstance(schema, tuple) else (schema,)
    if not any(_is_same(value, choice) for choice in choices):
        expected = " or ".join(json.dumps(choice)[:80] for choice in choices)
        raise ValueError(f"{path} must be {expected}")
    return value


def _is_same(value: object, choice: object) -> bool:
    if isinstance(choice, list):
        return json.dumps(value) == json.dumps(choice)
    return type(value) is type(choice) and value == choice
