"""The graph: nodes are the rows of a table, symmetric weights connect them.

``from_*`` converts other formats, ``build_*`` computes a new graph. A graph is immutable.
"""

import warnings
from collections.abc import Iterable, Mapping
from os import PathLike
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from ebboost.data.types import TableLike
from ebboost.graph import _convert, _neighbors
from ebboost.graph._edges import (
    count_one_way,
    directed_adjacency,
    distance_weights,
    merge_directions,
)
from ebboost.graph._neighbors import Ends, Metric, Points, as_points
from ebboost.graph._parquet_edges import ParquetEdges, adjacency_from_parquet, open_adjacency
from ebboost.graph._relations import check_relations, check_strengths, mixed_adjacency
from ebboost.graph._structure import GraphStructure


class Graph(GraphStructure):
    """A weighted graph whose node *i* is row *i* of a table.

    Create one with a ``from_*`` or ``build_*`` method. Repeated edges are merged, self-loops are
    dropped, and directions are dropped unless ``directed=True``.

    Parameters
    ----------
    adjacency : csr_array of shape (n_nodes, n_nodes)
        Symmetric weights with an empty diagonal. They become read-only and are not checked.
    node_ids : ndarray of shape (n_nodes,), optional
        An id for each node; the positions 0 … n_nodes-1 by default.
    part_of : tuple of (Graph, ndarray), optional
        The graph that this is a subgraph of, and the positions of these nodes in it.
    outgoing : csr_array of shape (n_nodes, n_nodes), optional
        Weights of directed edges, from row to column.
    groups, time, vectors : optional
        See :meth:`from_groups`, :meth:`with_time` and :meth:`with_vectors`.

    Examples
    --------
    >>> import ebboost as eb
    >>> eb.Graph.from_edges([0, 1, 2], [1, 2, 3], n_nodes=5)
    Graph(n_nodes=5, n_edges=3, n_components=2, isolates=1)
    """

    @classmethod
    def from_edges(
        cls,
        source: ArrayLike,
        target: ArrayLike,
        weight: ArrayLike | None = None,
        n_nodes: int | None = None,
        directed: bool = False,
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
        directed : bool, default=False
            Keep the directions: neighbour columns are then computed for incoming and outgoing
            neighbours; propagation and field use the undirected graph.

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
        return cls._from(_convert.from_edges(source, target, weight, n_nodes), directed)

    @classmethod
    def from_scipy(
        cls, matrix: ArrayLike | sparse.sparray | sparse.spmatrix, directed: bool = False
    ) -> Self:
        """Convert a scipy sparse (or dense) adjacency matrix.

        Parameters
        ----------
        matrix : sparse matrix or array-like of shape (n_nodes, n_nodes)
            Weights, finite and not negative; the diagonal is ignored.
        directed : bool, default=False
            Keep the directions: see :meth:`from_edges`.

        Returns
        -------
        Graph

        Examples
        --------
        >>> import ebboost as eb, numpy as np
        >>> eb.Graph.from_scipy(np.array([[0, 1], [1, 0]])).n_edges
        1
        """
        return cls._from(_convert.from_matrix(matrix), directed)

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
        directed: bool = False,
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
        directed : bool, default=False
            Keep the directions: see :meth:`from_edges`.

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
        columns = (source, target, weight, distance, node_id)
        return cls._from(_convert.from_dataframe(edges, nodes, *columns), directed)

    @classmethod
    def from_parquet(
        cls,
        path: str | PathLike[str],
        *,
        source: str | None = None,
        target: str | None = None,
        weight: str | None = None,
        n_nodes: int | None = None,
        directory: str | PathLike[str] | None = None,
    ) -> Self:
        """Convert an edge list in Parquet files that may be larger than memory.

        Parameters
        ----------
        path : path
            A file, or a folder of ``*.parquet`` files, read in the order of their names.
        source, target : str, optional
            Columns with the two ends, as row numbers of the table; default: the first and the
            second column.
        weight : str, optional
            Column with the weights.
        n_nodes : int, optional
            Number of nodes. Default: the largest position plus one.
        directory : path, optional
            A folder to store the adjacency in; :meth:`open` returns the graph again. Default: in
            memory, which takes twelve bytes for each end of an edge.

        Returns
        -------
        Graph

        Examples
        --------
        >>> import ebboost as eb, pandas as pd, os, tempfile
        >>> folder = tempfile.mkdtemp()
        >>> edges = os.path.join(folder, "edges.parquet")
        >>> pd.DataFrame({"from": [0, 1], "to": [1, 2]}).to_parquet(edges)
        >>> eb.Graph.from_parquet(edges, directory=os.path.join(folder, "graph"))
        Graph(n_nodes=3, n_edges=2, n_components=1, isolates=0)
        >>> eb.Graph.open(os.path.join(folder, "graph")).neighbors(1).tolist()
        [0, 2]
        """
        if n_nodes is not None:
            n_nodes = _convert.check_n_nodes(n_nodes)
        edges = ParquetEdges(path, source, target, weight)
        return cls(adjacency_from_parquet(edges, n_nodes, directory))

    @classmethod
    def open(cls, directory: str | PathLike[str]) -> Self:
        """Open a graph that :meth:`from_parquet` has stored.

        Parameters
        ----------
        directory : path
            The folder passed to :meth:`from_parquet`.

        Returns
        -------
        Graph
        """
        return cls(open_adjacency(directory))

    @classmethod
    def from_networkx(
        cls,
        graph: Any,
        weight: str | None = "weight",
        nodes: Iterable[object] | None = None,
        directed: bool = False,
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
        directed : bool, default=False
            Keep the directions: see :meth:`from_edges`.

        Returns
        -------
        Graph

        Examples
        --------
        >>> import ebboost as eb, networkx as nx
        >>> eb.Graph.from_networkx(nx.path_graph(["a", "b", "c"])).node_ids.tolist()
        ['a', 'b', 'c']
        """
        return cls._from(_convert.from_networkx(graph, weight, nodes), directed)

    @classmethod
    def from_igraph(cls, graph: Any, weight: str | None = "weight", directed: bool = False) -> Self:
        """Convert an igraph graph; node *i* is vertex *i*.

        Parameters
        ----------
        graph : igraph.Graph
            Vertices with the attribute ``name`` have it as their id.
        weight : str, optional
            Edge attribute with the weights, if there is one.
        directed : bool, default=False
            Keep the directions: see :meth:`from_edges`.

        Returns
        -------
        Graph
        """
        return cls._from(_convert.from_igraph(graph, weight), directed)

    @classmethod
    def from_graphml(
        cls,
        path: str | PathLike[str],
        weight: str = "weight",
        nodes: Iterable[object] | None = None,
    ) -> Self:
        """Convert a GraphML file.

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
    def _from(cls, conversion: _convert.Conversion, directed: bool = False) -> Self:
        one_way, has_directions, node_ids = conversion
        adjacency = merge_directions(one_way, one_way.T.tocsr())
        if directed:
            return cls(adjacency, node_ids, outgoing=one_way)
        n_one_way = count_one_way(one_way, adjacency) if has_directions else 0
        if n_one_way:
            warnings.warn(
                f"The input is directed: {n_one_way} of its edges differ from their reverse. The "
                "graph is undirected: an edge given in one direction counts in both, two "
                "directions are averaged. directed=True keeps the directions for neighbour "
                "columns, undirected input gives no warning.",
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
        return cls._between(points, _neighbors.knn_edges(points, k), metric, weight)

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
        return cls._between(points, _neighbors.delaunay_edges(coords, metric), metric, weight)

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
        return cls._between(points, _neighbors.radius_edges(points, radius, metric), metric, weight)

    @classmethod
    def _between(cls, points: Points, ends: Ends, metric: Metric, weight: str | None) -> Self:
        """Return the graph of pairs of points; a pair that is listed twice is one edge."""
        if weight not in ("distance", None):
            raise ValueError(f"weight must be 'distance' or None, got {weight!r}.")
        pairs = np.unique(np.sort(np.column_stack(ends), axis=1), axis=0)
        low, high = pairs.T
        weights = None
        if weight == "distance":
            weights = distance_weights(_neighbors.distances(points, (low, high), metric))
        return cls._from(_convert.Conversion(directed_adjacency(low, high, weights, len(points))))

    @classmethod
    def mix(
        cls, relations: "Mapping[str, Graph]", strengths: Mapping[str, float] | None = None
    ) -> Self:
        """Add several relations between the same nodes up to one graph.

        Parameters
        ----------
        relations : dict of Graph
            Graphs of the same nodes by name.
        strengths : dict of float, optional
            Factor for the weights of each relation; 1 by default. A negative one says that nodes
            with such an edge are dissimilar.

        Returns
        -------
        Graph

        Examples
        --------
        >>> import ebboost as eb
        >>> friend = eb.Graph.from_edges([0], [1], n_nodes=3)
        >>> rival = eb.Graph.from_edges([1], [2], n_nodes=3)
        >>> mixed = eb.Graph.mix({"friend": friend, "rival": rival}, {"friend": 1.0, "rival": -0.5})
        >>> mixed.adjacency.toarray().tolist()
        [[0.0, 1.0, 0.0], [1.0, 0.0, -0.5], [0.0, -0.5, 0.0]]
        """
        check_relations(relations, Graph)
        strengths = dict.fromkeys(relations, 1.0) if strengths is None else strengths
        check_strengths(strengths, relations)
        first = next(iter(relations.values()))
        mixed = mixed_adjacency({r: g.adjacency for r, g in relations.items()}, strengths)
        return cls(mixed, first.node_ids if first.has_ids else None)


#: Type of ``graph=``: one graph, or several relations between the same nodes by name.
Graphs = Graph | Mapping[str, Graph]
