"""A graph in Parquet files that a fit reads: the workers of a cluster each their own part."""

from collections.abc import Mapping
from copy import copy
from os import PathLike
from typing import Any

from ebboost.graph._parquet_edges import ParquetEdges


class ParquetGraph:
    """An edge list in Parquet files, to be passed as ``graph``.

    With a Dask collection as ``X`` the client reads nothing but the names of the columns: each
    worker of the cluster reads some row groups, and edges are sent to the workers of their two
    nodes. With any other table this process does what a single worker does, with a
    :class:`ParquetTable` in temporary files, in the folder that the variable TMPDIR names. Edges
    may be listed in one direction or in both, repeats are merged and self-loops dropped, as by
    :meth:`Graph.from_parquet`.

    Parameters
    ----------
    path : path
        A file, or a folder of ``*.parquet`` files, that every worker can read.
    source, target : str, optional
        Columns of the two ends; default: the first two.
    weight : str, optional
        Column of the weights; 1 by default.
    ids : Dask series or array, or array-like, optional
        The id of each row of ``X``, in the same order: integers or text. By default the ends are
        positions 0 … n_nodes-1 of rows. With ``groups``, the ids of groups.

    Examples
    --------
    >>> import ebboost as eb, pandas as pd, os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "edges.parquet")
    >>> pd.DataFrame({"from": [0, 1], "to": [1, 2]}).to_parquet(path)
    >>> eb.ParquetGraph(path).edges.ends
    ('from', 'to')
    """

    def __init__(
        self,
        path: str | PathLike[str],
        *,
        source: str | None = None,
        target: str | None = None,
        weight: str | None = None,
        ids: Any = None,
    ) -> None:
        self.edges = ParquetEdges(path, source, target, weight)
        self.ids = ids

    def with_ids(self, ids: Any) -> "ParquetGraph":
        """Return the graph with other ids of the rows.

        Parameters
        ----------
        ids : Dask series or array, or array-like, or None

        Returns
        -------
        ParquetGraph
        """
        other = copy(self)
        other.ids = ids
        return other

    def without_ids(self) -> "ParquetGraph":
        """Return the graph as it is sent to workers, each of which has the ids of its rows.

        Returns
        -------
        ParquetGraph
        """
        return self.with_ids(None)

    def __repr__(self) -> str:
        return f"ParquetGraph({str(self.edges.path)!r})"


def as_parquet_relations(graph: object) -> dict[str | None, ParquetGraph] | None:
    """Return the edge lists of a graph by relation, None for a single one; None if in memory."""
    relations = graph if isinstance(graph, Mapping) else {None: graph}
    if not any(isinstance(one, ParquetGraph) for one in relations.values()):
        return None
    for name, one in relations.items():
        if not isinstance(one, ParquetGraph):
            raise TypeError(f"Relation {name!r} must be a ParquetGraph as others, got {type(one)}.")
    return dict(relations)
