"""The graph of the paper: nodes are the rows of a table, symmetric non-negative weights tie them together.

``from_*`` converts what you have, ``build_*`` computes something new. A graph never changes once made.
"""

import copy
import os
import warnings
from collections.abc import Iterable, Mapping
from functools import cached_property
from html import escape
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.sparse import csgraph

from ebboost.graph._edges import edge_weights, node_positions, symmetric_adjacency, symmetrize
from ebboost.graph._graphml import read_graphml, whole_numbers
from ebboost.graph._ids import as_id_array, lookup, plain_range, refuse_duplicates
from ebboost.graph._neighbors import Metric, knn_edges, radius_edges
from ebboost.graph._parquet import EdgesOnDisk, adjacency_from_blocks, opened
from ebboost.graph._relations import check_relations, check_strengths, mixed_adjacency
from ebboost.graph._similarity import similarity_weights
from ebboost.graph._subgraph import surroundings


class Graph:
    """An undirected weighted graph whose node *i* is row *i* of your table.

    Make one with a ``from_*`` or ``build_*`` constructor. Repeated edges are merged, self-loops are dropped
    (a node always knows itself) and directed input becomes undirected, with a warning.

    Examples
    --------
    >>> import ebboost as eb
    >>> eb.Graph.from_edges([0, 1, 2], [1, 2, 3], n_nodes=5)
    Graph(n_nodes=5, n_edges=3, n_components=2, isolates=1)
    """

    def __init__(
        self,
        adjacency: sparse.csr_array,
        node_ids: NDArray[Any] | None = None,
        part_of: "tuple[Graph, NDArray[np.int64]] | None" = None,
    ) -> None:
        adjacency.sort_indices()
        if (
            max(adjacency.nnz, adjacency.shape[0]) <= np.iinfo(np.int32).max
        ):  # half the memory to read in every sweep
            short = (
                part.astype(np.int32, copy=False) for part in (adjacency.indices, adjacency.indptr)
            )
            adjacency = sparse.csr_array((adjacency.data, *short), shape=adjacency.shape)
        for array in (adjacency.data, adjacency.indices, adjacency.indptr):
            array.flags.writeable = False
        if node_ids is not None:
            node_ids = node_ids.copy()
            node_ids.flags.writeable = False
        self._adjacency = adjacency
        self._node_ids = node_ids
        self._part_of = part_of
        self._similar: dict[int, Graph] = {}
        #: Ends of spectra that were found, by what they are of: see LaplacianSystem.
        self.spectra: dict[Any, float] = {}
        if not np.isfinite(self.degrees).all():
            node = int(np.flatnonzero(~np.isfinite(self.degrees))[0])
            raise ValueError(
                f"weight overflows when those of node {node} are added up: rescale the weights."
            )

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (
            self._adjacency,
            self._node_ids,
            self._part_of,
        )  # numpy forgets that arrays are read-only

    # ------------------------------------------------------------------ from_*: what you have

    @classmethod
    def from_edges(
        cls,
        source: ArrayLike,
        target: ArrayLike,
        weight: ArrayLike | None = None,
        n_nodes: int | None = None,
    ) -> "Graph":
        """Make a graph from an edge list of node positions.

        Parameters
        ----------
        source, target : array-like of int, shape (m,)
            The two ends of each edge, as row numbers of your table.
        weight : array-like of float, shape (m,), optional
            How strongly the two are tied; 1 each if left out.
        n_nodes : int, optional
            Number of nodes, so that nodes without an edge count too. Default: the largest position plus one.

        Examples
        --------
        >>> import ebboost as eb
        >>> g = eb.Graph.from_edges([0, 0], [1, 2], weight=[1.0, 0.5])
        >>> g.degrees.tolist()
        [1.5, 1.0, 0.5]
        """
        src, dst = node_positions(source, "source"), node_positions(target, "target")
        if src.shape != dst.shape:
            raise ValueError(
                f"source and target must be equally long, got {src.size} and {dst.size} edges."
            )
        if n_nodes is None:
            n_nodes = int(max(src.max(initial=-1), dst.max(initial=-1))) + 1
        if not isinstance(n_nodes, (int, np.integer)) or n_nodes < 1:
            raise ValueError(f"n_nodes must be a whole number of at least 1, got {n_nodes!r}.")
        adjacency, n_one_way = symmetric_adjacency(
            src, dst, edge_weights(weight, src.size), int(n_nodes)
        )
        _say_if_directed(n_one_way)
        return cls(adjacency)

    @classmethod
    def from_scipy(cls, matrix: Any) -> "Graph":
        """Make a graph from a scipy sparse (or dense) adjacency matrix.

        Examples
        --------
        >>> import ebboost as eb, numpy as np
        >>> eb.Graph.from_scipy(np.array([[0, 1], [1, 0]])).n_edges
        1
        """
        if not sparse.issparse(matrix):
            matrix = np.asarray(matrix)
            if matrix.ndim != 2:
                raise ValueError(f"matrix must be two-dimensional, got shape {matrix.shape}.")
        if matrix.dtype.kind not in "biuf":
            raise TypeError(f"matrix must hold real numbers, got dtype {matrix.dtype}.")
        if matrix.shape[0] != matrix.shape[1] or matrix.shape[0] < 1:
            raise ValueError(
                f"matrix must be square, one row and one column per node, got shape {matrix.shape}."
            )
        entries = sparse.coo_array(matrix)
        entries.sum_duplicates()
        try:
            edge_weights(entries.data, entries.data.size)
        except ValueError as error:
            bad = ~np.isfinite(entries.data) | (entries.data < 0)
            row, column = (int(axis[bad][0]) for axis in entries.coords)
            raise ValueError(
                f"matrix has a bad weight at row {row}, column {column}: {error}"
            ) from None
        keep = (entries.coords[0] != entries.coords[1]) & (entries.data > 0)
        one_way = sparse.csr_array(
            (
                entries.data[keep].astype(np.float64),
                (entries.coords[0][keep], entries.coords[1][keep]),
            ),
            shape=matrix.shape,
        )
        adjacency, n_one_way = symmetrize(one_way, directed=True)
        _say_if_directed(n_one_way)
        return cls(adjacency)

    @classmethod
    def from_dataframe(
        cls,
        edges: Any,
        nodes: Any = None,
        *,
        source: str | None = None,
        target: str | None = None,
        weight: str | None = None,
        node_id: str | None = None,
    ) -> "Graph":
        """Make a graph from a pandas, polars or pyarrow table of edges between nodes with ids of any kind.

        Parameters
        ----------
        edges : dataframe
            One row per edge.
        nodes : sequence or dataframe, optional
            The ids of all nodes in the order of the rows of your table, or that table itself (then ``node_id``
            names its id column; default: the first). Without it the nodes are those of the edges, sorted.
        source, target : str, optional
            Columns of ``edges`` with the two ends; default: the first and the second column.
        weight : str, optional
            Column of ``edges`` with the weights.

        Examples
        --------
        >>> import ebboost as eb, pandas as pd
        >>> roads = pd.DataFrame({"from": ["Ulm", "Bonn"], "to": ["Bonn", "Kiel"]})
        >>> g = eb.Graph.from_dataframe(roads, nodes=["Bonn", "Kiel", "Ulm", "Wien"])
        >>> g.neighbors(g.index_of(["Bonn"])[0]).tolist(), g.isolates.tolist()
        ([1, 2], [3])
        """
        table = _eager(edges, "edges")
        if len(table.columns) < 2:
            raise ValueError(f"edges needs a source and a target column, it has {table.columns}.")
        source = _column(table, table.columns[0] if source is None else source, "source")
        target = _column(
            table,
            next(c for c in table.columns if c != source) if target is None else target,
            "target",
        )
        if source == target:
            raise ValueError(
                f"source and target are both the column {source!r}: name the two ends of the edges."
            )
        ends = [
            as_id_array(table.get_column(name).to_numpy(), f"edges[{name!r}]")
            for name in (source, target)
        ]
        weights = None
        if weight is not None:
            weights = edge_weights(
                table.get_column(_column(table, weight, "weight")).to_numpy(), len(table)
            )
        if nodes is None:
            try:
                ids = as_id_array(sorted({*ends[0].tolist(), *ends[1].tolist()}), "edges")
            except TypeError:
                raise TypeError(
                    "edges holds ids of different kinds, which have no order: pass nodes, the ids in the order of the "
                    "rows of your table."
                ) from None
        elif _is_dataframe(nodes):
            node_table = _eager(nodes, "nodes")
            column = _column(
                node_table, node_table.columns[0] if node_id is None else node_id, "node_id"
            )
            ids = as_id_array(node_table.get_column(column).to_numpy(), f"nodes[{column!r}]")
        else:
            ids = as_id_array(nodes, "nodes")
        return cls._from_named(
            ids, ends[0], ends[1], weights, (f"edges[{source!r}]", f"edges[{target!r}]")
        )

    @classmethod
    def from_parquet(
        cls,
        path: str | os.PathLike[str],
        *,
        source: str | None = None,
        target: str | None = None,
        weight: str | None = None,
        n_nodes: int | None = None,
        directory: str | os.PathLike[str] | None = None,
    ) -> "Graph":
        """Make a graph from an edge list in Parquet files that may be larger than memory.

        The edges are read twice, a block at a time, and merged as :meth:`from_edges` merges them.

        Parameters
        ----------
        path : path
            A file, or a folder of ``*.parquet`` files, taken in the order of their names, numbers in them as numbers.
        source, target : str, optional
            Columns with the two ends, as row numbers of your table; default: the first and the second column.
        weight : str, optional
            Column with the weights.
        n_nodes : int, optional
            Number of nodes. Default: the largest position plus one.
        directory : path, optional
            A folder to keep the graph in, made if there is none. The adjacency is then read from its files as it is
            needed, and :meth:`open` has the graph back. Default: in memory, with twelve bytes for each end of an edge.

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
        if n_nodes is not None and (not isinstance(n_nodes, (int, np.integer)) or n_nodes < 1):
            raise ValueError(f"n_nodes must be a whole number of at least 1, got {n_nodes!r}.")
        edges = EdgesOnDisk(path, source, target, weight)
        adjacency, n_one_way = adjacency_from_blocks(
            edges, None if n_nodes is None else int(n_nodes), directory
        )
        _say_if_directed(n_one_way)
        return cls(adjacency)

    @classmethod
    def open(cls, directory: str | os.PathLike[str]) -> "Graph":
        """Return the graph that :meth:`from_parquet` keeps in a folder; its edges are read as they are needed."""
        return cls(opened(directory))

    @classmethod
    def from_networkx(
        cls, graph: Any, weight: str | None = "weight", nodes: Iterable[Any] | None = None
    ) -> "Graph":
        """Make a graph from a networkx graph; ``nodes`` gives the order of your table's rows.

        Edges without the ``weight`` attribute count 1; parallel edges of a multigraph add up. Without ``nodes``, ids
        that are all whole numbers are sorted, so that node 7 of a graph with nodes 0 … n-1 is row 7 in whatever order
        they were added; any other ids keep the order of the graph.

        Examples
        --------
        >>> import ebboost as eb, networkx as nx
        >>> eb.Graph.from_networkx(nx.path_graph(["a", "b", "c"])).node_ids.tolist()
        ['a', 'b', 'c']
        """
        if not hasattr(graph, "is_directed") or not hasattr(graph, "nodes"):
            raise TypeError(f"graph must be a networkx graph, got {type(graph)}.")
        known = as_id_array(graph.nodes, "graph.nodes")
        ids = _in_row_order(known) if nodes is None else as_id_array(nodes, "nodes")
        triples = (
            list(graph.edges(data=weight, default=1.0))
            if weight
            else [(*e, 1.0) for e in graph.edges()]
        )
        ends = [as_id_array([edge[side] for edge in triples], "graph") for side in (0, 1)]
        weights = edge_weights([edge[2] for edge in triples], len(triples))
        lookup(ids, known, "graph", "Add it to nodes, or take it out of the graph.")
        return cls._from_named(
            ids, ends[0], ends[1], weights, ("graph", "graph"), directed=graph.is_directed()
        )

    @classmethod
    def from_graphml(
        cls, path: str | os.PathLike[str], weight: str = "weight", nodes: Any = None
    ) -> "Graph":
        """Read a GraphML file; ``nodes`` gives the order of your table's rows.

        Without ``nodes``, ids that are all whole numbers are sorted, so that node ``"7"`` of a file with nodes
        ``"0"`` … ``"n-1"`` is row 7; any other ids keep the order of the file.
        """
        declared, source, target, weights, directed = read_graphml(path, weight)
        if nodes is None:
            numbers = whole_numbers(declared)
            ids = declared if numbers is None else _in_row_order(numbers)
        else:
            ids = as_id_array(nodes, "nodes")
        as_text = np.asarray([str(value) for value in ids.tolist()], dtype=object)
        try:
            weights = edge_weights(weights, source.size)
            lookup(as_text, declared, "node", "Add it to nodes, or take it out of the file.")
            return cls._from_named(
                ids, source, target, weights, ("edge source", "edge target"), directed, as_text
            )
        except ValueError as error:
            raise ValueError(f"{os.fspath(path)}: {error}") from None

    @classmethod
    def from_pyg(cls, data: Any) -> "Graph":
        """Make a graph from a PyTorch Geometric ``Data`` (``edge_index``, and ``edge_weight`` if it has one)."""
        if getattr(data, "edge_index", None) is None:
            raise TypeError(
                f"data must have an edge_index, as torch_geometric.data.Data has; got {type(data)}."
            )
        index = _on_host(data.edge_index)
        if index.ndim != 2 or index.shape[0] != 2:
            raise ValueError(f"data.edge_index must have shape (2, n_edges), got {index.shape}.")
        weight = getattr(data, "edge_weight", None)
        n_nodes = getattr(data, "num_nodes", None)
        return cls.from_edges(
            index[0], index[1], None if weight is None else _on_host(weight).ravel(), n_nodes
        )

    @classmethod
    def from_libpysal(cls, weights: Any) -> "Graph":
        """Make a graph from a libpysal ``Graph`` or ``W``; its ids are kept."""
        if not hasattr(weights, "sparse"):
            raise TypeError(f"weights must be a libpysal Graph or W, got {type(weights)}.")
        graph = cls.from_scipy(weights.sparse)
        ids = as_id_array(
            weights.unique_ids if hasattr(weights, "unique_ids") else weights.id_order, "weights"
        )
        return cls(graph._adjacency, None if plain_range(ids) else ids)

    @classmethod
    def _from_named(
        cls,
        ids: NDArray[Any],
        source: NDArray[Any],
        target: NDArray[Any],
        weight: NDArray[np.float64] | None,
        names: tuple[str, str],
        directed: bool = False,
        written_as: NDArray[Any] | None = None,
    ) -> "Graph":
        """Look the ends up among ``ids``, or among ``written_as`` where the input spells ids in another way."""
        if ids.size == 0:
            raise ValueError("nodes is empty: a graph needs at least one node.")
        refuse_duplicates(ids)
        known = ids if written_as is None else written_as
        positions = [
            lookup(known, end, name) for end, name in zip((source, target), names, strict=True)
        ]
        adjacency, n_one_way = symmetric_adjacency(
            positions[0], positions[1], weight, ids.size, directed
        )
        _say_if_directed(n_one_way, stacklevel=4)
        return cls(adjacency, None if plain_range(ids) else ids)

    # ------------------------------------------------------------------ build_*: something new

    @classmethod
    def build_knn(cls, coords: ArrayLike, k: int = 8, metric: Metric = "euclidean") -> "Graph":
        """Tie every node to its ``k`` nearest others (two nodes are tied if either is near to the other).

        Parameters
        ----------
        coords : array-like of shape (n, 2) or more columns
            Positions; for ``metric="haversine"``, latitude and longitude in degrees.
        k : int
            How many neighbours each node looks for.
        metric : {"euclidean", "haversine"}

        Examples
        --------
        >>> import ebboost as eb
        >>> eb.Graph.build_knn([[0.0], [1.0], [3.0], [3.5]], k=1).n_edges
        2
        """
        source, target, n = knn_edges(coords, k, metric)
        return cls(symmetric_adjacency(source, target, None, n)[0])

    @classmethod
    def build_radius(
        cls, coords: ArrayLike, radius: float, metric: Metric = "euclidean"
    ) -> "Graph":
        """Tie all nodes no farther apart than ``radius`` (in the units of ``coords``; kilometres for haversine).

        Examples
        --------
        >>> import ebboost as eb
        >>> lat_lon = [[52.52, 13.40], [52.40, 13.07], [48.14, 11.58]]  # Berlin, Potsdam, Munich
        >>> eb.Graph.build_radius(lat_lon, radius=50, metric="haversine").isolates.tolist()
        [2]
        """
        source, target, n = radius_edges(coords, radius, metric)
        return cls(symmetric_adjacency(source, target, None, n)[0])

    @classmethod
    def mix(
        cls, relations: "Mapping[str, Graph]", strengths: Mapping[str, float] | None = None
    ) -> "Graph":
        """Make one graph of several relations between the same nodes.

        Parameters
        ----------
        relations : dict of Graph
            By name; all of the same nodes.
        strengths : dict of float, optional
            What the weights of each relation are multiplied by; 1 by default. Negative: nodes so tied are unlike.

        Examples
        --------
        >>> import ebboost as eb
        >>> friend, rival = eb.Graph.from_edges([0], [1], n_nodes=3), eb.Graph.from_edges([1], [2], n_nodes=3)
        >>> mixed = eb.Graph.mix({"friend": friend, "rival": rival}, {"friend": 1.0, "rival": -0.5})
        >>> mixed.adjacency.toarray().tolist()
        [[0.0, 1.0, 0.0], [1.0, 0.0, -0.5], [0.0, -0.5, 0.0]]
        """
        check_relations(relations, Graph)
        strengths = dict.fromkeys(relations, 1.0) if strengths is None else strengths
        check_strengths(strengths, relations)
        first = next(iter(relations.values()))
        return cls(mixed_adjacency(relations, strengths), first._node_ids)

    # ------------------------------------------------------------------ facts

    @property
    def adjacency(self) -> sparse.csr_array:
        """The symmetric weights, read-only, with an empty diagonal."""
        return copy.copy(
            self._adjacency
        )  # the same arrays: scipy may swap those of its own object, never ours

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return int(self._adjacency.shape[0])

    @property
    def n_edges(self) -> int:
        """Number of undirected edges."""
        return int(self._adjacency.nnz) // 2

    @property
    def node_ids(self) -> NDArray[Any]:
        """The id of each node, in the order of the table's rows (0 … n-1 if none were given)."""
        return np.arange(self.n_nodes) if self._node_ids is None else self._node_ids

    @property
    def has_ids(self) -> bool:
        """Whether nodes carry ids other than their positions."""
        return self._node_ids is not None

    @cached_property
    def degrees(self) -> NDArray[np.float64]:
        """Sum of the weights at each node, without their signs; of a part of a graph, in the whole."""
        if self._part_of is not None:
            return _read_only(self._part_of[0].degrees[self._part_of[1]])
        weights = abs(self._adjacency) if self.is_signed else self._adjacency
        with np.errstate(over="ignore"):  # refused when the graph is made
            return _read_only(np.asarray(weights.sum(axis=1), dtype=np.float64).ravel())

    @cached_property
    def is_signed(self) -> bool:
        """Whether some edges say that two nodes are unlike: see :meth:`mix`."""
        return bool(self._adjacency.data.min(initial=0.0) < 0)

    @cached_property
    def unsigned(self) -> "Graph":
        """The same graph with all weights positive."""
        if not self.is_signed:
            return self
        part_of = None if self._part_of is None else (self._part_of[0].unsigned, self._part_of[1])
        return Graph(sparse.csr_array(abs(self._adjacency)), self._node_ids, part_of)

    @property
    def parent(self) -> "Graph":
        """The graph that this is a part of: see :meth:`around`. Itself, if of none."""
        return self if self._part_of is None else self._part_of[0]

    @cached_property
    def isolates(self) -> NDArray[np.int64]:
        """Positions of the nodes without any edge."""
        return _read_only(np.flatnonzero(np.diff(self._adjacency.indptr) == 0))

    @cached_property
    def component_labels(self) -> NDArray[np.int32]:
        """The number of the connected component each node belongs to."""
        return _read_only(csgraph.connected_components(self._adjacency, directed=False)[1])

    @cached_property
    def n_components(self) -> int:
        """Number of connected components; an isolated node is one of its own."""
        return int(self.component_labels.max()) + 1

    def neighbors(self, node: int) -> NDArray[np.int32]:
        """Positions of the nodes tied to ``node``."""
        if not 0 <= node < self.n_nodes:
            raise IndexError(f"node must be a position from 0 to {self.n_nodes - 1}, got {node}.")
        start, stop = self._adjacency.indptr[node : node + 2]
        found: NDArray[np.int32] = self._adjacency.indices[start:stop]
        return found

    def index_of(self, ids: Iterable[Any]) -> NDArray[np.int64]:
        """Positions of the nodes with these ids.

        Examples
        --------
        >>> import ebboost as eb, pandas as pd
        >>> g = eb.Graph.from_dataframe(pd.DataFrame({"a": ["x"], "b": ["y"]}), nodes=["y", "z", "x"])
        >>> g.index_of(["x", "y"]).tolist()
        [2, 0]
        """
        return lookup(
            self.node_ids, as_id_array(ids, "ids"), "ids", "See node_ids for those there are."
        )

    def neighborhood(self, nodes: NDArray[Any], hops: int) -> "Neighborhood":
        """Return the part of the graph that ``hops`` steps along edges, from these nodes or to them, need.

        Its degrees are those of the whole graph. Edges between two nodes that are both ``hops`` away are left out.

        Examples
        --------
        >>> import ebboost as eb
        >>> path = eb.Graph.from_edges(range(9), range(1, 10))
        >>> near = path.neighborhood([4], 2)
        >>> near.nodes.tolist(), near.distance.tolist(), near.graph.degrees.tolist()
        ([2, 3, 4, 5, 6], [2, 1, 0, 1, 2], [2.0, 2.0, 2.0, 2.0, 2.0])
        """
        members, distance, adjacency = surroundings(
            self._adjacency, np.asarray(nodes, dtype=np.int64), hops
        )
        return Neighborhood(Graph(adjacency, part_of=(self, members)), members, distance)

    def similar_neighborhoods(self, k: int = 10) -> "Graph":
        """Connect each node to the ``k`` nodes with the most similar neighbours.

        For heterophilous graphs, in which neighbours differ but nodes with the same neighbours are
        similar. The weight is the eighth power of the cosine between the two rows of A D^{-1/2};
        cosines below 0.2 are left out. The result is cached.

        Parameters
        ----------
        k : int, default=10
            Number of nodes to connect each node to.

        Returns
        -------
        Graph
            On the same nodes.

        Raises
        ------
        ValueError
            If hubs make the comparison of all pairs too expensive.

        Examples
        --------
        >>> import ebboost as eb
        >>> star = eb.Graph.from_edges([0, 0, 0], [1, 2, 3])
        >>> star.similar_neighborhoods().neighbors(1).tolist()
        [2, 3]
        """
        if k not in self._similar:
            weights = similarity_weights(self.unsigned._adjacency, k)
            self._similar[k] = Graph(weights, self._node_ids)
        return self._similar[k]

    def summary(self) -> str:
        """Describe the graph in a few lines.

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
        counts = np.diff(self._adjacency.indptr)
        data = self._adjacency.data
        weights = "unweighted"
        if data.size and not (data == 1).all():
            weights = f"weights {data.min():.3g} to {data.max():.3g}"
        largest = int(np.bincount(self.component_labels).max())
        n = self.n_nodes
        return "\n".join(
            [
                f"nodes       {n:,}",
                f"edges       {self.n_edges:,} ({weights})",
                f"neighbours  median {np.median(counts):.0f}, most {counts.max()}",
                f"isolates    {self.isolates.size:,} ({self.isolates.size / n:.1%})".replace(
                    "%", " %"
                ),
                f"components  {self.n_components:,}, the largest with {largest:,} nodes ({largest / n:.1%})".replace(
                    "%", " %"
                ),
            ]
        )

    def __repr__(self) -> str:
        return (
            f"Graph(n_nodes={self.n_nodes}, n_edges={self.n_edges}, n_components={self.n_components}, "
            f"isolates={self.isolates.size})"
        )

    def _repr_html_(self) -> str:
        """The facts as a small table, for notebooks."""
        ties = np.diff(self._adjacency.indptr)
        ids = ", ".join(str(value) for value in self.node_ids[:3].tolist()) + (
            ", …" if self.n_nodes > 3 else ""
        )
        facts = {
            "nodes": f"{self.n_nodes:,}",
            "edges": f"{self.n_edges:,}",
            "neighbours": f"{ties.mean():.1f} on average, {int(ties.min()):,} to {int(ties.max()):,}",
            "components": f"{self.n_components:,}, the largest of {int(np.bincount(self.component_labels).max()):,} nodes",
            "isolated nodes": f"{self.isolates.size:,}",
            "node ids": ids if self.has_ids else f"the rows, 0 to {self.n_nodes - 1:,}",
        }
        if self.is_signed:
            facts["unlike nodes"] = f"tied by {int((self._adjacency.data < 0).sum()) // 2:,} edges"
        rows = "".join(
            f"<tr><th>{name}</th><td>{escape(value)}</td></tr>" for name, value in facts.items()
        )
        return f"<table><caption>ebboost.Graph</caption><tbody>{rows}</tbody></table>"


class Neighborhood(NamedTuple):
    """A part of a graph, the nodes of the whole that its own are, in order, and how many edges far each is."""

    graph: Graph
    nodes: NDArray[np.int64]
    distance: NDArray[np.int32]


#: What ``graph=`` takes: one graph, or several relations between the same nodes, by name.
Graphs = Graph | Mapping[str, Graph]


def _say_if_directed(n_one_way: int, stacklevel: int = 3) -> None:
    if n_one_way:
        warnings.warn(
            f"The input is directed: {n_one_way} of its edges differ from their reverse. The graph is made "
            "undirected: an edge given in one direction counts in both, two directions are averaged.",
            UserWarning,
            stacklevel=stacklevel,
        )


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    array.flags.writeable = False
    return array


def _in_row_order(ids: NDArray[Any]) -> NDArray[Any]:
    return np.sort(ids) if ids.dtype.kind in "iu" else ids


def _on_host(tensor: Any) -> NDArray[Any]:
    """A torch tensor, wherever it lives, as an array."""
    return np.asarray(tensor.detach().cpu() if hasattr(tensor, "detach") else tensor)


def _is_dataframe(value: Any) -> bool:
    return nw.dependencies.is_into_dataframe(value)


def _eager(table: Any, name: str) -> Any:
    """Wrap any dataframe in narwhals, our one seam for them."""
    try:
        return nw.from_native(table, eager_only=True)
    except TypeError:
        raise TypeError(
            f"{name} must be a dataframe (pandas, polars or pyarrow), got {type(table)}."
        ) from None


def _column(table: Any, name: str, argument: str) -> str:
    if name not in table.columns:
        raise ValueError(f"{argument}={name!r} is not a column; there are {list(table.columns)}.")
    return name
