import numpy as np
import pytest

from ebboost.data.parameters import check_bool, check_number


@pytest.mark.parametrize("value", [1, 0.5, np.float32(0.25), np.int64(1)])
def test_numbers_of_python_and_numpy_are_accepted(value):
    check_number("share", value, low=0.0, high=1.0, closed="right")


@pytest.mark.parametrize("value", [True, "1", None, float("nan"), float("inf"), 2.0, 0.0])
def test_anything_else_is_rejected_with_the_name_the_interval_and_the_value(value):
    message = rf"^share must be a number in \(0, 1\], got {value!r}\.$"
    with pytest.raises(ValueError, match=message):
        check_number("share", value, low=0.0, high=1.0, closed="right")


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"low": 1, "integer": True}, "an integer >= 1"),
        ({"low": 1, "closed": "neither"}, "a number > 1"),
        ({"high": -2.5}, "a number <= -2.5"),
        ({"high": -2.5, "closed": "left"}, "a number < -2.5"),
        ({"integer": True}, "an integer"),
    ],
)
def test_the_message_states_the_interval(limits, words):
    with pytest.raises(ValueError, match=rf"^k must be {words}, got 0\.5\.$"):
        check_number("k", 0.5, **limits)


def test_ends_of_the_interval_belong_to_it_where_closed_says_so():
    for closed, ends in (("both", (0, 1)), ("left", (0,)), ("right", (1,)), ("neither", ())):
        for end in (0, 1):
            if end in ends:
                check_number("k", end, low=0, high=1, closed=closed)
            else:
                with pytest.raises(ValueError, match="must be"):
                    check_number("k", end, low=0, high=1, closed=closed)


def test_switches_are_true_or_false():
    for value in (True, False, np.True_):
        check_bool("restart", value)
    for value in (1, None, "yes"):
        with pytest.raises(ValueError, match=r"^restart must be True or False, got"):
            check_bool("restart", value)
