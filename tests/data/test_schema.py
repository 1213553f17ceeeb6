import re

import numpy as np
import pytest

from ebboost.data.schema import Integers, Numbers, match

SCHEMA = {
    "name": "tree",
    "kind": ("a", 1),
    "size": int | None,
    "nodes": {"left": Integers(-1, 5, 3), "value": Numbers(2)},
    "rounds": [0, 1],
}
VALUE = {
    "name": "tree",
    "kind": 1,
    "size": None,
    "nodes": {"left": [-1, 0, 5], "value": [1, 0.5]},
    "rounds": [0, 1],
}


def test_lists_of_numbers_become_arrays():
    nodes = match(VALUE, SCHEMA, "file")["nodes"]
    np.testing.assert_array_equal(nodes["left"], [-1, 0, 5], strict=True)
    np.testing.assert_array_equal(nodes["value"], [1.0, 0.5], strict=True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "leaf"}, 'file.name must be "tree"'),
        ({"kind": True}, 'file.kind must be "a" or 1'),
        ({"kind": 1.0}, 'file.kind must be "a" or 1'),
        ({"size": "3"}, "file.size must be int | None"),
        ({"extra": 1}, "file must have the keys"),
        ({"rounds": [0, 1.0]}, "file.rounds must be [0, 1]"),
        ({"rounds": [False, True]}, "file.rounds must be [0, 1]"),
        ({"nodes": []}, "file.nodes must have the keys"),
        ({"nodes": {"left": [0, 1, 6], "value": [1, 2]}}, "left must be integers from -1 to 5"),
        ({"nodes": {"left": [0, 1, 10**30], "value": [1, 2]}}, "must be integers from -1 to 5"),
        ({"nodes": {"left": [0, 1, True], "value": [1, 2]}}, "left must be a list of integers"),
        ({"nodes": {"left": [0, 1], "value": [1, 2]}}, "left must have 3 integers, got 2"),
        ({"nodes": {"left": [0, 1, 2], "value": [1, float("nan")]}}, "value must be finite"),
        ({"nodes": {"left": [0, 1, 2], "value": [1, 1e200]}}, "value must be finite"),
        ({"nodes": {"left": [0, 1, 2], "value": "12"}}, "value must be a list of numbers"),
    ],
)
def test_other_values_are_rejected_with_their_path(change, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        match(VALUE | change, SCHEMA, "file")
