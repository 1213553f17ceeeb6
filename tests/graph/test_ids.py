"""Node ids of any kind, looked up exactly."""

import numpy as np
import pandas as pd
import pytest

from ebboost.graph.ids import as_id_array, check_unique_ids, is_missing, lookup


@pytest.mark.parametrize(
    "value", [None, np.nan, float("nan"), pd.NA, pd.NaT, np.datetime64("NaT", "D")]
)
def test_every_marker_of_a_missing_value_is_missing(value):
    assert is_missing(value)


@pytest.mark.parametrize(
    ("ids", "dtype"),
    [
        ([3, 1], np.int64),
        (np.array([2**63, 1], dtype=np.uint64), np.uint64),
        (["a", 1], object),
        ([True], object),
    ],
)
def test_integers_stay_integers_and_others_become_objects(ids, dtype):
    array = as_id_array(ids, "ids")
    assert array.dtype == dtype and array.tolist() == list(ids)


@pytest.mark.parametrize("ids", [np.array([30, 10, 20]), np.array(["c", "a", "b"], dtype=object)])
def test_lookup_inverts_indexing(ids):
    wanted = np.array([2, 0, 0, 1])
    assert lookup(ids, ids[wanted], "ids").tolist() == wanted.tolist()


def test_an_unknown_id_is_named_with_its_row_and_type():
    with pytest.raises(ValueError, match=r"edges names .* row 1: '7'.*nodes has 7, this is '7'"):
        lookup(np.array([7, 8]), np.array([7, "7"], dtype=object), "edges")
    with pytest.raises(ValueError, match="row 0: 5"):
        lookup(np.zeros(0, dtype=np.int64), np.array([5]), "ids")


def test_an_id_that_occurs_twice_is_named_with_both_rows():
    with pytest.raises(ValueError, match="'a' twice, at rows 0 and 2"):
        check_unique_ids(np.array(["a", "b", "a"], dtype=object))
