"""The graph: nodes are the rows of a table, symmetric weights connect them.

``from_*`` converts other formats, ``build_*`` computes a new graph. A graph is immutable.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterable, Mapping
from functools import cached_property
from html import escape
from os import PathLike
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.sparse import csgraph

from ebboost._common import TableLike
from ebboost.graph import _build, _convert
from ebboost.graph._build import Ends, Metric, Points, as_points
from ebboost.graph._edges import count_one_way, distance_weights, merge_directions, one_way_matrix
from ebboost.graph.ids import Ids, as_id_array, as_row_numbers, check_unique_ids, is_default, lookup


class Graph:
    """A weighted graph whose node *i* is row *i* of a table.

    Create one with a ``from_*`` or ``build_*`` method. Repeated edges are merged; self-loops and
    directions are dropped.

    Parameters
    ----------
    adjacency : csr_array of shape (n_nodes, n_nodes)
        Symmetric weights with an empty diagonal. They become read-only and are not checked.
    node_ids : ndarray of shape (n_nodes,), optional
        An id for each node; the positions 0 … n_nodes-1 by default.

    Examples
    --------
    >>> import ebboost as eb
    >>> eb.Graph.from_edges([0, 1, 2], [1, 2, 3], n_nodes=5)
    Graph(n_nodes=5, n_edges=3, n_components=2, isolates=1)
    """

    def __init__(self, adjacency: sparse.csr_array, node_ids: Ids | None = None) -> None:
        adjacency.sort_indices()
        indices = adjacency.indices
        indptr = adjacency.indptr
        if max(adjacency.nnz, adjacency.shape[0]) < 2**31:  # half the memory traffic
            indices = indices.astype(np.int32, copy=False)
            indptr = indptr.astype(np.int32, copy=False)
        arrays = (adjacency.data, indices, indptr)
        for array in arrays:
            array.flags.writeable = False
        self._adjacency = sparse.csr_array(arrays, shape=adjacency.shape)
        self._node_ids = None if node_ids is None else _read_only(node_ids.copy())
        if not np.isfinite(self.degrees).all():
            node = np.flatnonzero(~np.isfinite(self.degrees))[0]
            raise ValueError(f"weight overflows at node {node}, added up: rescale the weights.")

    def __reduce__(self) -> tuple[Any, ...]:  # pickle restores arrays as writeable
        return type(self), (self._adjacency, self._node_ids)

    @classmethod
    def from_edges(
        cls,
        source: ArrayLike,
        target: ArrayLike,
        weight: ArrayLike | None = None,
        n_nodes: int | None = None,
    ) -> Self:
        """Convert an edge list of node positions.

        Parameters
        ----------
        source, target : array-like of int, shape (n_edges,)
            The two ends of each edge, as row numbers of the table.
        weight : array-like of float, shape (n_edges,), optional
            Weights of the edges, finite and not negative; 1 by default.
        n_nodes : int, optional
            Number of nodes, those without an edge included. Default: the largest position plus one.

        Returns
        -------
        Graph

        Examples
        --------
        >>> import ebboost as eb
        >>> g = eb.Graph.from_edges([0, 0], [1, 2], weight=[1.0, 0.5])
        >>> g.degrees.tolist()
        [1.5, 1.0, 0.5]
        """
        return cls._from(_convert.from_edges(source, target, weight, n_nodes))

    @classmethod
    def from_scipy(cls, matrix: ArrayLike | sparse.sparray | sparse.spmatrix) -> Self:
        """Convert a scipy sparse (or dense) adjacency matrix.

        Parameters
        ----------
        matrix : sparse matrix or array-like of shape (n_nodes, n_nodes)
            Weights, finite and not negative; the diagonal is ignored.

        Returns
        -------
        Graph

        Examples
        --------
        >>> import ebboost as eb, numpy as np
        >>> eb.Graph.from_scipy(np.array([[0, 1], [1, 0]])).n_edges
        1
        """
        return cls._from(_convert.from_matrix(matrix))

    @classmethod
    def from_dataframe(
        cls,
        edges: TableLike,
        nodes: TableLike = None,
        *,
        source: str | None = None,
        target: str | None = None,
        weight: str | None = None,
        distance: str | None = None,
        node_id: str | None = None,
        unknown: Literal["raise", "drop"] = "raise",
    ) -> Self:
        """Convert a pandas, polars or pyarrow table of edges between nodes with ids of any kind.

        Parameters
        ----------
        edges : dataframe
            One row per edge.
        nodes : sequence or dataframe, optional
            The ids of all nodes in the order of the rows of the table, or that table itself.
            Default: the ids in ``edges``, sorted.
        source, target : str, optional
            Columns of ``edges`` with the two ends; default: the first and the second column.
        weight : str, optional
            Column of ``edges`` with the weights.
        distance : str, optional
            Column of ``edges`` with distances d, in place of weights: 1 / (1 + d / median d).
        node_id : str, optional
            Column of ``nodes`` with the ids, if it is a dataframe; default: the first.
        unknown : {"raise", "drop"}, default="raise"
            What to do with edges to nodes that are not in ``nodes``.

        Returns
        -------
        Graph

        Examples
        --------
        >>> import ebboost as eb, pandas as pd
        >>> roads = pd.DataFrame({"from": ["Ulm", "Bonn"], "to": ["Bonn", "Kiel"]})
        >>> g = eb.Graph.from_dataframe(roads, nodes=["Bonn", "Kiel", "Ulm", "Wien"])
        >>> g.neighbors(g.index_of(["Bonn"])[0]).tolist(), g.isolates.tolist()
        ([1, 2], [3])
        """
        if unknown not in ("raise", "drop"):
            raise ValueError(f"unknown must be 'raise' or 'drop', got {unknown!r}.")
        columns = (source, target, weight, distance, node_id)
        return cls._from(_convert.from_dataframe(edges, nodes, *columns, unknown == "drop"))

    @classmethod
    def from_parquet(
        cls,
        path: str | PathLike[str],
        *,
        source: str | None = None,
        target: str | None = None,
        weight: str | None = None,
        n_nodes: int | None = None,
    ) -> Self:
        """Convert an edge list of row numbers in Parquet files; needs pyarrow.

        Parameters
        ----------
        path : path
            A file, or a folder of ``*.parquet`` files.
        source, target : str, optional
            Columns with the two ends, as row numbers of the table; default: the first and the
            second column.
        weight : str, optional
            Column with the weights.
        n_nodes : int, optional
            Number of nodes. Default: the largest position plus one.

        Returns
        -------
        Graph

        Examples
        --------
        >>> import ebboost as eb, pandas as pd, os, tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "edges.parquet")
        >>> pd.DataFrame({"from": [0, 1], "to": [1, 2]}).to_parquet(path)
        >>> eb.Graph.from_parquet(path)
        Graph(n_nodes=3, n_edges=2, n_components=1, isolates=0)
        """
        return cls._from(_convert.from_parquet(path, source, target, weight, n_nodes))

    @classmethod
    def from_networkx(
        cls, graph: Any, weight: str | None = "weight", nodes: Iterable[object] | None = None
    ) -> Self:
        """Convert a networkx graph.

        Parameters
        ----------
        graph : networkx.Graph
            Directed graphs and multigraphs too; weights of parallel edges are added up.
        weight : str, optional
            Edge attribute with the weights; edges without it have weight 1. None: all are 1.
        nodes : iterable, optional
            The nodes in the order of the rows of the table. Default: integers are sorted, so that
            node 7 of a graph with nodes 0 … n-1 is row 7; other ids are in the order of the graph.

        Returns
        -------
        Graph

        Examples
        --------
        >>> import ebboost as eb, networkx as nx
        >>> eb.Graph.from_networkx(nx.path_graph(["a", "b", "c"])).node_ids.tolist()
        ['a', 'b', 'c']
        """
        return cls._from(_convert.from_networkx(graph, weight, nodes))

    @classmethod
    def from_igraph(cls, graph: Any, weight: str | None = "weight") -> Self:
        """Convert an igraph graph; node *i* is vertex *i*.

        Parameters
        ----------
        graph : igraph.Graph
            Vertices with the attribute ``name`` have it as their id.
        weight : str, optional
            Edge attribute with the weights, if there is one.

        Returns
        -------
        Graph
        """
        return cls._from(_convert.from_igraph(graph, weight))

    @classmethod
    def from_graphml(
        cls,
        path: str | PathLike[str],
        weight: str = "weight",
        nodes: Iterable[object] | None = None,
    ) -> Self:
        """Convert a GraphML file; needs networkx.

        Parameters
        ----------
        path : path
            The file.
        weight : str, default="weight"
            Edge attribute with the weights; without it all are 1.
        nodes : iterable, optional
            The ids in the order of the rows of the table. Default: integers are sorted, so that
            node ``"7"`` of ``"0"`` … ``"n-1"`` is row 7; other ids are in the order of the file.

        Returns
        -------
        Graph
        """
        return cls._from(_convert.from_graphml(path, weight, nodes))

    @classmethod
    def from_pyg(cls, data: Any) -> Self:
        """Convert a PyTorch Geometric ``Data``.

        Parameters
        ----------
        data : torch_geometric.data.Data
            With ``edge_index``, and ``edge_weight`` and ``num_nodes`` if it has them.

        Returns
        -------
        Graph
        """
        return cls._from(_convert.from_pyg(data))

    @classmethod
    def from_libpysal(cls, weights: Any) -> Self:
        """Convert a libpysal ``Graph`` or ``W``.

        Parameters
        ----------
        weights : libpysal.graph.Graph or libpysal.weights.W
            Spatial weights.

        Returns
        -------
        Graph
        """
        return cls._from(_convert.from_libpysal(weights))

    @classmethod
    def _from(cls, conversion: _convert.Conversion) -> Self:
        one_way, has_directions, node_ids = conversion
        adjacency = merge_directions(one_way, one_way.T.tocsr())
        n_one_way = count_one_way(one_way, adjacency) if has_directions else 0
        if n_one_way:
            warnings.warn(
                f"The input is directed: {n_one_way} of its edges differ from their reverse. The "
                "graph is undirected: an edge given in one direction counts in both, two "
                "directions are averaged. Undirected input gives no warning.",
                UserWarning,
                stacklevel=3,
            )
        return cls(adjacency, node_ids)

    @classmethod
    def build_knn(
        cls,
        coords: ArrayLike,
        k: int = 8,
        metric: Metric = "euclidean",
        weight: Literal["distance"] | None = None,
    ) -> Self:
        """Connect every node to its ``k`` nearest neighbours.

        Parameters
        ----------
        coords : array-like of shape (n_nodes, n_dimensions)
            Coordinates; for ``metric="haversine"``, latitude and longitude in degrees.
        k : int, default=8
            Number of neighbours; two nodes are connected if either is near to the other.
        metric : {"euclidean", "haversine"}, default="euclidean"
            Distance between coordinates.
        weight : {"distance"}, optional
            ``"distance"``: an edge of length d weighs 1 / (1 + d / median d). Default: all weigh 1.

        Returns
        -------
        Graph

        Examples
        --------
        >>> import ebboost as eb
        >>> eb.Graph.build_knn([[0.0], [1.0], [3.0], [3.5]], k=1).n_edges
        2
        >>> eb.Graph.build_knn([[0.0], [1.0], [4.0]], k=1, weight="distance").degrees.tolist()
        [0.6666666666666666, 1.0666666666666667, 0.4]
        """
        points = as_points(coords, metric)
        return cls._between(points, _build.knn_edges(points, k), metric, weight)

    @classmethod
    def build_delaunay(
        cls,
        coords: ArrayLike,
        metric: Metric = "euclidean",
        weight: Literal["distance"] | None = None,
    ) -> Self:
        """Connect the corners of the Delaunay triangles of the plane.

        Parameters
        ----------
        coords : array-like of shape (n_nodes, 2)
            Coordinates; for ``metric="haversine"``, latitude and longitude in degrees. Rows at one
            point are connected in a chain.
        metric, weight
            As in :meth:`build_knn`.

        Returns
        -------
        Graph

        Examples
        --------
        >>> import ebboost as eb
        >>> eb.Graph.build_delaunay([[0, 0], [2, 0], [1, 1], [1, 3]]).n_edges
        6
        """
        points = as_points(coords, metric)
        return cls._between(points, _build.delaunay_edges(coords, metric), metric, weight)

    @classmethod
    def build_radius(
        cls,
        coords: ArrayLike,
        radius: float,
        metric: Metric = "euclidean",
        weight: Literal["distance"] | None = None,
    ) -> Self:
        """Connect all nodes within a distance of each other.

        Parameters
        ----------
        coords : array-like of shape (n_nodes, n_dimensions)
            Coordinates; for ``metric="haversine"``, latitude and longitude in degrees.
        radius : float
            The largest distance, in the units of ``coords``; kilometres for haversine.
        metric, weight
            As in :meth:`build_knn`.

        Returns
        -------
        Graph

        Examples
        --------
        >>> import ebboost as eb
        >>> lat_lon = [[52.52, 13.40], [52.40, 13.07], [48.14, 11.58]]  # Berlin, Potsdam, Munich
        >>> eb.Graph.build_radius(lat_lon, radius=50, metric="haversine").isolates.tolist()
        [2]
        """
        points = as_points(coords, metric)
        return cls._between(points, _build.radius_edges(points, radius, metric), metric, weight)

    @classmethod
    def build_contiguity(cls, geometry: Any, rook: bool = False) -> Self:
        """Connect polygons that share a border; needs geopandas.

        Parameters
        ----------
        geometry : GeoDataFrame or GeoSeries
            Polygons, one for each node. Its index has the ids of the nodes.
        rook : bool, default=False
            Whether polygons must share a line; otherwise a corner is enough.

        Returns
        -------
        Graph

        Examples
        --------
        >>> import ebboost as eb, geopandas
        >>> from shapely import box
        >>> squares = [box(0, 0, 1, 1), box(1, 0, 2, 1), box(1, 1, 2, 2)]
        >>> areas = geopandas.GeoSeries(squares, index=["a", "b", "c"])
        >>> eb.Graph.build_contiguity(areas).n_edges
        3
        >>> eb.Graph.build_contiguity(areas, rook=True).n_edges
        2
        """
        from ebboost.graph._contiguity import contiguity_edges

        if not hasattr(geometry, "sindex"):
            kind = type(geometry).__name__
            raise TypeError(f"geometry must be a GeoDataFrame or a GeoSeries, got {kind}.")
        series = geometry.geometry
        low, high = contiguity_edges(series, rook)
        ids = as_id_array(series.index, "the index of geometry")
        check_unique_ids(ids)
        one_way = one_way_matrix(low, high, None, len(series))
        return cls._from(_convert.Conversion(one_way, False, None if is_default(ids) else ids))

    @classmethod
    def _between(cls, points: Points, ends: Ends, metric: Metric, weight: str | None) -> Self:
        """Return the graph of pairs of points; a pair that is listed twice is one edge."""
        if weight not in ("distance", None):
            raise ValueError(f"weight must be 'distance' or None, got {weight!r}.")
        low, high = np.unique(np.sort(np.column_stack(ends), axis=1), axis=0).T
        weights = None
        if weight == "distance":
            weights = distance_weights(_build.distances(points, (low, high), metric))
        return cls._from(_convert.Conversion(one_way_matrix(low, high, weights, len(points))))

    @classmethod
    def mix(cls, graphs: Mapping[str, Graph], strengths: Mapping[str, float]) -> Self:
        """Add several graphs of the same nodes up to one.

        Parameters
        ----------
        graphs : dict of Graph
            Graphs of the same nodes by name.
        strengths : dict of float
            What the weights of each are multiplied by, 0 or more.

        Returns
        -------
        Graph

        Examples
        --------
        >>> import ebboost as eb
        >>> friends = eb.Graph.from_edges([0], [1], n_nodes=3)
        >>> colleagues = eb.Graph.from_edges([1], [2], n_nodes=3)
        >>> graphs = {"friends": friends, "colleagues": colleagues}
        >>> eb.Graph.mix(graphs, {"friends": 1.0, "colleagues": 0.2}).degrees.tolist()
        [1.0, 1.2, 0.2]
        """
        if not isinstance(graphs, Mapping) or not graphs:
            raise TypeError(f'graphs must be a dict such as {{"friends": g}}, got {graphs!r}.')
        first = next(iter(graphs.values()))
        for name, graph in graphs.items():
            if not isinstance(graph, Graph):
                raise TypeError(f"graphs[{name!r}] must be an ebboost.Graph, got {type(graph)}.")
            if not np.array_equal(graph.node_ids, first.node_ids):
                problem = f"graphs[{name!r}] has other nodes than the first, or another order"
                raise ValueError(f"{problem}: create all with the same n_nodes= or nodes=.")
        if set(strengths) != set(graphs):
            raise ValueError(
                f"strengths must have a number for each of {list(graphs)}, got {dict(strengths)}."
            )
        if any(not 0 <= strength < np.inf for strength in strengths.values()):
            raise ValueError(f"strengths must be 0 or more and finite, got {dict(strengths)}.")
        total = sparse.csr_array(first.adjacency.shape)
        with np.errstate(over="ignore"):  # checked in __init__
            for name, graph in graphs.items():
                total = total + float(strengths[name]) * graph.adjacency
        total.eliminate_zeros()
        return cls(sparse.csr_array(total), first._node_ids)

    @property
    def adjacency(self) -> sparse.csr_array:
        """Symmetric weights with an empty diagonal, read-only."""
        return copy.copy(self._adjacency)  # shares the arrays; scipy may replace those of its own

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return int(self._adjacency.shape[0])

    @property
    def n_edges(self) -> int:
        """Number of undirected edges."""
        return int(self._adjacency.nnz) // 2

    @property
    def node_ids(self) -> Ids:
        """The id of each node in the order of the rows; 0 … n-1 by default."""
        return np.arange(self.n_nodes) if self._node_ids is None else self._node_ids

    @property
    def has_ids(self) -> bool:
        """Whether nodes have ids other than their positions."""
        return self._node_ids is not None

    @cached_property
    def degrees(self) -> NDArray[np.float64]:
        """Sum of the weights at each node."""
        with np.errstate(over="ignore"):  # checked in __init__
            return _read_only(np.asarray(self._adjacency.sum(axis=1), dtype=np.float64).ravel())

    @cached_property
    def isolates(self) -> NDArray[np.int64]:
        """Positions of the nodes without edges."""
        return _read_only(np.flatnonzero(np.diff(self._adjacency.indptr) == 0))

    @cached_property
    def component_labels(self) -> NDArray[np.int32]:
        """Number of the connected component of each node."""
        return _read_only(csgraph.connected_components(self._adjacency, directed=False)[1])

    @cached_property
    def n_components(self) -> int:
        """Number of connected components; an isolated node is one of them."""
        return int(self.component_labels.max()) + 1

    def neighbors(self, node: int) -> NDArray[np.int32]:
        """Return the positions of the neighbours of a node.

        Parameters
        ----------
        node : int
            Position of the node.

        Returns
        -------
        ndarray of int
            Positions in ascending order.
        """
        if not 0 <= node < self.n_nodes:
            raise IndexError(f"node must be a position from 0 to {self.n_nodes - 1}, got {node}.")
        start, stop = self._adjacency.indptr[node : node + 2]
        return self._adjacency.indices[start:stop]

    def index_of(self, ids: Iterable[object]) -> NDArray[np.int64]:
        """Return the positions of the nodes with these ids.

        Parameters
        ----------
        ids : iterable
            Ids out of :attr:`node_ids`.

        Returns
        -------
        ndarray of int
            A position for each id. ``nodes=`` and other arguments take it as row numbers, also
            where ids are integers that could be row numbers.

        Examples
        --------
        >>> import ebboost as eb, pandas as pd
        >>> edges = pd.DataFrame({"a": ["x"], "b": ["y"]})
        >>> eb.Graph.from_dataframe(edges, nodes=["y", "z", "x"]).index_of(["x", "y"]).tolist()
        [2, 0]
        """
        found = lookup(self.node_ids, as_id_array(ids, "ids"), "ids", "See node_ids for all ids.")
        return as_row_numbers(found)

    def summary(self) -> str:
        """Describe the graph in a few lines.

        Returns
        -------
        str
            Numbers of nodes, edges, neighbours, isolated nodes and components.

        Examples
        --------
        >>> import ebboost as eb
        >>> print(eb.Graph.from_edges([0, 1], [1, 2], n_nodes=4).summary())
        nodes       4
        edges       2 (unweighted)
        neighbours  median 1, most 2
        isolates    1 (25.0 %)
        components  2, the largest with 3 nodes (75.0 %)
        """
        return "\n".join(f"{name:<12}{value}" for name, value in self._facts().items())

    def _facts(self) -> dict[str, str]:
        weights = self._adjacency.data
        n_neighbors = np.diff(self._adjacency.indptr)
        kind = "unweighted"
        if not (weights == 1).all():
            kind = f"weights {weights.min():.3g} to {weights.max():.3g}"
        largest = int(np.bincount(self.component_labels).max())
        share = f"{100 * largest / self.n_nodes:.1f} %"
        isolated = self.isolates.size
        return {
            "nodes": f"{self.n_nodes:,}",
            "edges": f"{self.n_edges:,} ({kind})",
            "neighbours": f"median {np.median(n_neighbors):.0f}, most {n_neighbors.max()}",
            "isolates": f"{isolated:,} ({100 * isolated / self.n_nodes:.1f} %)",
            "components": f"{self.n_components:,}, the largest with {largest:,} nodes ({share})",
        }

    def __repr__(self) -> str:
        parts = f"n_components={self.n_components}, isolates={self.isolates.size}"
        return f"Graph(n_nodes={self.n_nodes}, n_edges={self.n_edges}, {parts})"

    def _repr_html_(self) -> str:
        """Return the summary and the first node ids as a table, for notebooks."""
        ids = ", ".join(str(value) for value in self.node_ids[:3].tolist())
        rows = self._facts() | {"node ids": ids + (", …" if self.n_nodes > 3 else "")}
        cells = "".join(f"<tr><th>{k}</th><td>{escape(v)}</td></tr>" for k, v in rows.items())
        return f"<table><caption>ebboost.Graph</caption><tbody>{cells}</tbody></table>"


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    array.flags.writeable = False
    return array
