"""Rows that share the nodes of a graph."""

from collections.abc import Iterable

import numpy as np
from scipy import sparse

from ebboost.data.types import IntArray
from ebboost.graph.ids import Ids, as_id_array


def group_ids(groups: Iterable[object]) -> Ids:
    """Return the group of each row as an array of ids."""
    ids = groups.to_numpy() if hasattr(groups, "to_numpy") else groups
    return as_id_array(ids, "groups")


def unique_ids(ids: Ids) -> Ids:
    """Return each id once, in the order of the rows."""
    if ids.dtype.kind in "iu":
        return ids[np.sort(np.unique(ids, return_index=True)[1])]
    return as_id_array(dict.fromkeys(ids.tolist()), "groups")


def row_adjacency(group_of: IntArray, groups: sparse.csr_array) -> sparse.csr_array:
    """Return a graph of the rows with the same components.

    The rows of a group are connected in a chain, and the first rows of neighbouring groups.
    """
    order = np.argsort(group_of, kind="stable")
    next_is_same = np.flatnonzero(np.diff(group_of[order]) == 0)
    first = np.full(groups.shape[0], -1)
    first[group_of[::-1]] = np.arange(group_of.size)[::-1]
    edges = sparse.triu(groups, format="coo")
    low, high = (first[end] for end in edges.coords)
    has_rows = (low >= 0) & (high >= 0)
    source = np.concatenate([order[next_is_same], low[has_rows]])
    target = np.concatenate([order[next_is_same + 1], high[has_rows]])
    weight = np.concatenate([np.ones(next_is_same.size), edges.data[has_rows]])
    shape = (group_of.size, group_of.size)
    one_way = sparse.coo_array((weight, (source, target)), shape=shape).tocsr()
    return sparse.csr_array(one_way + one_way.T)
