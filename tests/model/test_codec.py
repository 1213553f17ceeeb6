"""Values as JSON: what survives, and what is rejected."""

import json

import numpy as np
import pytest
from sklearn.linear_model import Ridge

import ebboost as eb
from ebboost.model.codec import PartCodec, StateCodec, describe_parameters

PARTS = {"Laplacian": eb.Laplacian, "LatentField": eb.LatentField, "Quantile": eb.Quantile}


def through_json(value):
    encoded = PartCodec().encode(value, "value")
    return PartCodec(PARTS).decode(json.loads(json.dumps(encoded)))


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        3,
        -0.5,
        float("inf"),
        "text",
        [1, [2.0, None]],
        (1, ("a", 2.5)),
        {"a": 1, 2: (3, 4), (0, 1): {"nested": []}},
        {"array": [1], "dtype": "<f8"},  # a dict of the user, not an encoded array
        {},
    ],
    ids=repr,
)
def test_plain_values_survive_with_their_types(value):
    decoded = through_json(value)
    assert decoded == value and type(decoded) is type(value)


@pytest.mark.parametrize(
    "array",
    [
        np.array([1.5, np.nan, np.inf]),
        np.array([1, 2], dtype=np.int32),
        np.array([True, False]),
        np.array(["ü", "", "abc"]),
        np.array([], dtype=float),
        np.array(["a", 3, None], dtype=object),
    ],
    ids=repr,
)
def test_arrays_survive_with_their_types(array):
    decoded = through_json(array)
    assert decoded.dtype == array.dtype
    np.testing.assert_array_equal(decoded, array)


def test_arrays_of_tuples_stay_one_dimensional():
    ids = np.empty(2, dtype=object)
    ids[:] = [(0, 1), (2, 3)]
    assert through_json(ids).tolist() == [(0, 1), (2, 3)]


def test_text_arrays_are_stored_as_wide_as_their_longest_item():
    encoded = PartCodec().encode(np.array(["a", "bc"], dtype="U1000"), "ids")
    assert encoded["dtype"] == "<U2"


def test_scalars_of_numpy_become_numbers_and_random_states_none():
    assert through_json([np.float32(0.5), np.int8(3), np.str_("a")]) == [0.5, 3, "a"]
    assert through_json(np.random.RandomState(0)) is None


def test_parts_survive_with_their_parameters():
    part = through_json(eb.Laplacian(2.5, 7, method="chebyshev"))
    assert repr(part) == repr(eb.Laplacian(2.5, 7, method="chebyshev"))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (object(), "value holds <object .* cannot be saved without pickle"),
        (np.datetime64("2020-01-01"), "numbers or text before you fit"),
        (eb.Kernel(np.sqrt), r"r=.* of Kernel is a function.*classes="),
    ],
)
def test_values_without_a_plain_form_are_rejected(value, message):
    with pytest.raises(ValueError, match=message):
        PartCodec().encode(value, "value")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"unknown": 1}, r"unknown kind of value with the keys \['unknown'\]"),
        ({"class": "Ridge", "parameters": {}}, "Ridge, which is not part of ebboost.*classes="),
        (
            {"class": "Laplacian", "parameters": {"lam": {"array": [1.0], "dtype": "<f8"}}},
            "parameter of Laplacian must not be an array",
        ),
        ({"array": [1], "dtype": "<U4"}, "array of text must hold text"),
        ({"array": ["x" * 10**6] + ["x"] * 60, "dtype": "<U9"}, "not be much wider"),
        ({"array": ["x"], "dtype": "<f8"}, "must hold numbers or text"),
        ({"array": [0], "dtype": "V1000000000"}, "must hold numbers or text"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_json_that_no_value_is_encoded_as_is_rejected(value, message):
    with pytest.raises(ValueError, match=message):
        PartCodec(PARTS).decode(value)


def test_parts_of_the_user_may_have_arrays():
    class Grid(eb.Laplacian):
        def __init__(self, values=None):
            self.values = values

    encoded = PartCodec().encode(Grid(np.array([1.0, 2.0])), "smoothing")
    decoded = PartCodec(PARTS, {"Grid": Grid}).decode(encoded)
    assert decoded.values.tolist() == [1.0, 2.0]


def test_checkpoints_store_an_array_that_occurs_twice_once():
    entries = {}
    array = np.arange(3.0)
    encoded = StateCodec(entries, False).encode({"a": array, "b": [array, b"bytes"]}, "state")
    assert sorted(entries) == ["0.npy", "1.bin"]
    assert encoded["dict"][0][1] == encoded["dict"][1][1][0] == {"npy": "0.npy"}


def test_checkpoints_reject_states_without_a_plain_form():
    with pytest.raises(TypeError, match=r"the learner has a state\(\) with <object"):
        StateCodec({}, False).encode([object()], "the learner")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0, "1"),
        (np.float64(0.1), "0.1"),
        (None, "None"),
        ("auto", "'auto'"),
        ((1, 2.0), "[1, 2]"),
        ({"a": 1.0}, "{'a': 1}"),
        (Ridge, "Ridge"),
        (eb.LightGBM, "LightGBM"),
    ],
    ids=repr,
)
def test_parameters_are_described_independently_of_the_type_of_numbers(value, text):
    assert describe_parameters(value) == text


def test_functions_are_described_by_their_code():
    def shift(s):
        return s + 1.0

    texts = {describe_parameters(function) for function in (shift, lambda s: s, lambda s: 2 * s)}
    assert len(texts) == 3 and all("(code " in text for text in texts)


def test_arrays_are_described_by_their_contents():
    arrays = (np.arange(3), np.arange(3), np.arange(4))
    first, second, third = map(describe_parameters, arrays)
    assert first == second != third
