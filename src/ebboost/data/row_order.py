"""Rows in the order of the nodes: pandas indexes are compared, ids and row numbers told apart.

Nodes are named by row numbers 0 … n−1, by a boolean mask, or by ids of the graph. What cannot be
row numbers, text or integers beyond n−1, is looked up among the ids. Integers that could be both
are row numbers, with a warning if they look like ids; for edges of new rows they are an error.
``graph.index_of(ids)`` returns row numbers that are known to be such, and so does a mask.
"""

from typing import Any

import numpy as np

from ebboost._common import IntArray, warn_caller
from ebboost.graph import Graph
from ebboost.graph.ids import Ids, RowNumbers, as_id_array, as_row_numbers, positions_of

HOW = (
    "For ids pass graph.index_of(ids); if they are row numbers, a boolean mask or "
    "graph.index_of(graph.node_ids[rows]) says so."
)


class RowOrder:
    """What is known about the order of some rows: the index of a table, and the ids of nodes.

    Parameters
    ----------
    X : table or None
    graph : Graph or None
        Its nodes are the rows.
    index : pandas.Index or None
        In place of that of ``X``.
    """

    def __init__(self, X: Any = None, graph: Any = None, index: Any = None) -> None:
        self.index = index_of(X) if index is None else index
        has_ids = isinstance(graph, Graph) and graph.has_ids
        self.ids = graph.node_ids if has_ids else None
        if self.ids is not None and self.ids.size and isinstance(self.ids[0], int):
            self.ids = as_id_array(self.ids, "graph")  # integers among objects

    def check(self, nodes: Any = None, **values: Any) -> None:
        """Raise ValueError if the index of one of ``values`` has the rows in another order.

        With ``nodes``, values are those of these rows, or of all.
        """
        for name, value in values.items():
            if isinstance(value, dict):
                self.check(nodes, **{f"{name}[{key!r}]": one for key, one in value.items()})
            given = index_of(value)
            if given is not None:
                self._compare(given, nodes, name)

    def pair(self, pair: Any, name: str) -> Any:
        """Return ``(nodes, labels)`` with nodes as :meth:`rows`, the labels compared."""
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            return pair
        nodes = self.rows(pair[0], f"{name}[0]")
        self.check(nodes, **{f"{name}[1]": pair[1]})
        return nodes, pair[1]

    def rows(self, nodes: Any, name: str = "nodes", strict: bool = False) -> Any:
        """Return nodes as row numbers or a mask if they are ids; any others as they are.

        ``strict``: integers that could be both are an error.
        """
        if nodes is None or isinstance(nodes, RowNumbers):
            return nodes
        try:
            array = np.asarray(nodes)
        except ValueError:  # lists of unequal lengths
            return nodes
        if array.ndim != 1 or not array.size:
            return nodes
        if array.dtype.kind == "b":
            self.check(**{name: nodes})
            return array
        if self.ids is None:
            self._reject_labels(nodes, array, name)
            return nodes
        if array.dtype.kind in "OUS":
            array = as_id_array(nodes, name)
            if array.dtype.kind not in "iu":
                return self._looked_up(array, name)
        if array.dtype.kind not in "iu" or self.ids.dtype.kind not in "iu":
            return array
        return self._told_apart(array, name, strict)

    def _looked_up(self, array: Ids, name: str) -> IntArray:
        """The row numbers of ids, which all must be known."""
        assert self.ids is not None
        found = positions_of(self.ids, array)
        if (found < 0).any():
            entry = int((found < 0).argmax())
            unknown, known = array[entry], self.ids[:1].tolist()[0]
            unknown = unknown.item() if isinstance(unknown, np.generic) else unknown
            raise ValueError(
                f"{name}, entry {entry} is {unknown!r}, which is not an id of the graph: its first "
                f"is {known!r}. Pass ids, row numbers or a boolean mask."
            )
        return as_row_numbers(found)

    def _told_apart(self, array: IntArray, name: str, strict: bool) -> IntArray:
        """Integers, where ids are integers, as row numbers."""
        assert self.ids is not None
        n_rows = self.ids.size
        found = positions_of(self.ids, array)
        are_ids = found >= 0
        if not ((array >= 0) & (array < n_rows)).all():
            return as_row_numbers(found) if are_ids.all() else array
        differ = are_ids & (found != array)
        if not differ.any():
            return array
        problem = f"{name} holds integers that are row numbers and ids of other nodes, such as "
        problem += f"{array[differ][0]}"
        if strict:
            raise ValueError(f"{problem}: say which. {HOW}")
        # Most of some row numbers are ids only if most of all are.
        usual = float(np.isin(np.arange(n_rows), self.ids).mean())
        if are_ids.all() or (are_ids.mean() > 0.9 and usual < 0.5):
            warn_caller(f"{problem}: taken as row numbers. {HOW}")
        return array

    def _reject_labels(self, nodes: Any, array: Any, name: str) -> None:
        """Raise ValueError for labels of the index of X, where rows are counted."""
        if self.index is None or not hasattr(nodes, "get_indexer"):
            return
        if array.dtype.kind in "iu" and nodes.isin(self.index).all():
            labels = _taken(self.index, array)
            if labels is None or not nodes.equals(labels):
                raise ValueError(
                    f"{name} holds labels of X.index, such as {array[0]}, which are not the "
                    f"numbers of these rows: pass X.index.get_indexer({name})."
                )

    def _compare(self, given: Any, nodes: Any, name: str) -> None:
        """Raise ValueError if an index has the labels of the rows in another order."""
        import pandas as pd

        orders = {"X.index": self.index}
        orders["graph.node_ids"] = None if self.ids is None else pd.Index(self.ids)
        rows = None if nodes is None else _numbers(nodes)
        expected = []
        for text, order in orders.items():
            of_rows = None if order is None else _taken(order, rows)
            if of_rows is not None and len(of_rows) == len(given):
                expected.append((f"{text}[nodes]" if rows is not None else text, order, of_rows))
            elif order is not None and len(order) == len(given):
                expected.append((text, order, order))
        if any(given.equals(of_rows) for *_, of_rows in expected):
            return
        # As of pd.Series(array) and after reset_index: it says nothing about rows.
        is_default = isinstance(given, pd.RangeIndex) and given.start == 0 and given.step == 1
        for text, order, of_rows in expected:
            is_whole = order is of_rows
            if is_default and not (is_whole and order is self.index):
                continue
            if order.nlevels != given.nlevels or not given.isin(order).all():
                continue
            differences = np.flatnonzero(np.asarray(given != of_rows))
            if not differences.size or (is_whole and not order.isin(given).all()):
                continue
            row = int(differences[0])
            raise ValueError(
                f"The index of {name} lists the rows in another order: entry {row} is "
                f"{given[row]!r} where {text} has {of_rows[row]!r}. Sort it, {name}.loc[{text}], "
                f"or pass {name}.to_numpy() if its order is right."
            )


def index_of(values: Any) -> Any:
    """Return the pandas index of values, None if they have none; lists have a method."""
    index = getattr(values, "index", None)
    return index if hasattr(index, "get_indexer") else None


def _numbers(nodes: Any) -> IntArray:
    """Row numbers of a mask; any others as they are."""
    array = np.asarray(nodes)
    return np.flatnonzero(array) if array.dtype.kind == "b" else array


def _taken(order: Any, rows: IntArray | None) -> Any:
    """The labels of some rows, or of all; None if one of them does not exist."""
    if rows is None:
        return order
    if rows.ndim != 1 or (rows.size and rows.dtype.kind not in "iu"):
        return None
    is_row = (rows >= 0) & (rows < len(order))
    return order[rows.astype(np.int64)] if is_row.all() else None
