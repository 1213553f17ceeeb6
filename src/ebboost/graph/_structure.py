"""Structure of a graph: immutable symmetric weights, node ids, and what is computed from them."""

import copy
from collections.abc import Iterable
from html import escape
from typing import Any, Generic, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.sparse import csgraph

from ebboost.data.once import lazy_property
from ebboost.graph._groups import group_ids, row_adjacency, unique_ids
from ebboost.graph._similarity import similarity_weights
from ebboost.graph._subgraph import surroundings
from ebboost.graph.ids import Ids, as_id_array, index_of, positions_of

G = TypeVar("G", bound="GraphStructure")


class Neighborhood(NamedTuple, Generic[G]):
    """A subgraph, the positions of its nodes in the parent graph, and their distances in edges."""

    graph: G
    nodes: NDArray[np.int64]
    distance: NDArray[np.int32]


class Groups(NamedTuple, Generic[G]):
    """A graph of groups, and the group of each row, as a position in it."""

    graph: G
    group_of: NDArray[np.int64]


class GraphStructure:
    """Symmetric adjacency of an undirected weighted graph, and its node ids: see ``Graph``."""

    def __init__(
        self,
        adjacency: sparse.csr_array,
        node_ids: Ids | None = None,
        part_of: tuple[Self, NDArray[np.int64]] | None = None,
        outgoing: sparse.csr_array | None = None,
        groups: Groups[Self] | None = None,
        time: NDArray[np.float64] | None = None,
        vectors: NDArray[np.float32] | None = None,
    ) -> None:
        adjacency.sort_indices()
        indices = adjacency.indices
        indptr = adjacency.indptr
        if max(adjacency.nnz, adjacency.shape[0]) < 2**31:  # half the memory traffic
            indices = indices.astype(np.int32, copy=False)
            indptr = indptr.astype(np.int32, copy=False)
        arrays = (adjacency.data, indices, indptr)
        self._adjacency = sparse.csr_array(arrays, shape=adjacency.shape)
        self._node_ids = None if node_ids is None else _read_only(node_ids.copy())
        self._part_of = part_of
        self._outgoing = outgoing
        self._groups = groups
        self._time = None if time is None else _read_only(time.copy())
        self._vectors = vectors
        _freeze(self._adjacency)
        _freeze(outgoing)
        self._similar: dict[int, Self] = {}
        if not np.isfinite(self.degrees).all():
            node = np.flatnonzero(~np.isfinite(self.degrees))[0]
            raise ValueError(f"weight overflows at node {node}, added up: rescale the weights.")

    def __reduce__(self) -> tuple[Any, ...]:  # pickle restores arrays as writeable
        parts = (self._part_of, self._outgoing, self._groups, self._time, self._vectors)
        return type(self), (self._adjacency, self._node_ids, *parts)

    @property
    def adjacency(self) -> sparse.csr_array:
        """Symmetric weights with an empty diagonal, read-only."""
        return copy.copy(self._adjacency)  # shares the arrays; scipy may replace those of its own

    @property
    def outgoing(self) -> sparse.csr_array | None:
        """Weights of the edges from row to column of a directed graph; None if undirected."""
        return self._outgoing

    @classmethod
    def from_groups(cls, groups: Iterable[object], graph: Self | None = None) -> Self:
        """Return the graph of rows of which several share a node.

        A latent field has one value for all rows of a group; neighbour columns are means over
        groups. The edges of this graph only represent that: the rows of a group are a chain.

        Parameters
        ----------
        groups : sequence
            The group of each row.
        graph : Graph, optional
            Edges between groups, whose ids are its node ids, or its positions if it has none. Ids
            that it lacks are groups without edges. Default: no group has edges.

        Returns
        -------
        Graph

        Examples
        --------
        >>> import ebboost as eb
        >>> rows = eb.Graph.from_groups(["a", "b", "a", "c"])
        >>> rows.groups.group_of.tolist(), rows.n_components
        ([0, 1, 0, 2], 3)
        """
        ids = group_ids(groups)
        known = unique_ids(ids)
        adjacency = sparse.csr_array((known.size, known.size))
        if graph is not None:
            new = known[positions_of(graph.node_ids, known) < 0]
            known = as_id_array([*graph.node_ids.tolist(), *new.tolist()], "groups")
            parts = [graph.adjacency, sparse.csr_array((new.size, new.size))]
            adjacency = sparse.csr_array(sparse.block_diag(parts, format="csr"))
        group_of = positions_of(known, ids)
        between = cls(adjacency, known)
        return cls(row_adjacency(group_of, adjacency), groups=Groups(between, group_of))

    @property
    def groups(self) -> Groups[Self] | None:
        """The graph of groups and the group of each node: see :meth:`from_groups`."""
        return self._groups

    def with_time(self, time: NDArray[np.float64] | None) -> Self:
        """Return the graph with a time for each node, so that only earlier neighbours are used.

        Parameters
        ----------
        time : ndarray of shape (n_nodes,) or None

        Returns
        -------
        Graph
        """
        timed = copy.copy(self)
        timed._time = None if time is None else _read_only(time.copy())
        return timed

    @property
    def time(self) -> NDArray[np.float64] | None:
        """The time of each node, where only earlier neighbours are used."""
        return self._time

    def with_vectors(self, vectors: NDArray[np.float32] | None) -> Self:
        """Return the graph with vectors of its nodes, which spectral columns are computed from.

        Parameters
        ----------
        vectors : ndarray of shape (n_nodes, n_components) or None

        Returns
        -------
        Graph
        """
        graph = copy.copy(self)
        graph._vectors = vectors
        return graph

    @property
    def vectors(self) -> NDArray[np.float32] | None:
        """Vectors of the nodes; of a subgraph, those in its parent."""
        if self._part_of is None:
            return self._vectors
        parent, members = self._part_of
        vectors = parent.vectors
        return None if vectors is None else vectors[members]

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

    def has_edges_of(self, other: "GraphStructure") -> bool:
        """Whether another graph has the same number of nodes and the same weights.

        Parameters
        ----------
        other : Graph

        Returns
        -------
        bool
        """
        if (self._outgoing is None) != (other._outgoing is None):
            return False
        parts = zip(_arrays(self._adjacency), _arrays(other._adjacency), strict=True)
        return self is other or all(np.array_equal(*pair) for pair in parts)

    @lazy_property
    def degrees(self) -> NDArray[np.float64]:
        """Sum of the absolute weights at each node; of a subgraph, those in its parent."""
        if self._part_of is not None:
            parent, members = self._part_of
            return _read_only(parent.degrees[members])
        weights = abs(self._adjacency) if self.is_signed else self._adjacency
        with np.errstate(over="ignore"):  # checked in __init__
            return _read_only(np.asarray(weights.sum(axis=1), dtype=np.float64).ravel())

    @lazy_property
    def is_signed(self) -> bool:
        """Whether some edges have negative weights: see :meth:`mix`."""
        return bool(self._adjacency.data.min(initial=0.0) < 0)

    @lazy_property
    def unsigned(self) -> Self:
        """The same graph with the absolute values of the weights."""
        if not self.is_signed:
            return self
        part_of = None if self._part_of is None else (self._part_of[0].unsigned, self._part_of[1])
        adjacency = sparse.csr_array(abs(self._adjacency))
        return type(self)(adjacency, self._node_ids, part_of, self._outgoing)

    @property
    def parent(self) -> Self:
        """The graph that this is a subgraph of (see :meth:`neighborhood`), or the graph itself."""
        return self if self._part_of is None else self._part_of[0]

    @lazy_property
    def isolates(self) -> NDArray[np.int64]:
        """Positions of the nodes without edges."""
        return _read_only(np.flatnonzero(np.diff(self._adjacency.indptr) == 0))

    @lazy_property
    def component_labels(self) -> NDArray[np.int32]:
        """Number of the connected component of each node."""
        return _read_only(csgraph.connected_components(self._adjacency, directed=False)[1])

    @lazy_property
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
            A position for each id, which ``nodes=`` and others never take for ids.

        Examples
        --------
        >>> import ebboost as eb, pandas as pd
        >>> edges = pd.DataFrame({"a": ["x"], "b": ["y"]})
        >>> eb.Graph.from_dataframe(edges, nodes=["y", "z", "x"]).index_of(["x", "y"]).tolist()
        [2, 0]
        """
        return index_of(self.node_ids, ids)

    def neighborhood(self, nodes: ArrayLike, hops: int) -> Neighborhood[Self]:
        """Return the subgraph on which walks of ``hops`` edges from or to some nodes take place.

        Its degrees are those of this graph. Edges between two nodes that are both ``hops`` away are
        left out.

        Parameters
        ----------
        nodes : array-like of int
            Positions of the nodes.
        hops : int
            Number of edges.

        Returns
        -------
        Neighborhood
            The subgraph, its nodes, and their distances from ``nodes``.

        Examples
        --------
        >>> import ebboost as eb
        >>> path = eb.Graph.from_edges(range(9), range(1, 10))
        >>> near = path.neighborhood([4], 2)
        >>> near.nodes.tolist(), near.distance.tolist(), near.graph.degrees.tolist()
        ([2, 3, 4, 5, 6], [2, 1, 0, 1, 2], [2.0, 2.0, 2.0, 2.0, 2.0])
        """
        start = np.asarray(nodes, dtype=np.int64)
        members, distance, adjacency = surroundings(self._adjacency, start, hops)
        outgoing = self._outgoing
        if outgoing is not None:
            outgoing = sparse.csr_array(outgoing[members][:, members])
        subgraph = type(self)(adjacency, None, (self, members), outgoing)
        return Neighborhood(subgraph, members, distance)

    def similar_neighborhoods(self, k: int = 10) -> Self:
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
            self._similar[k] = type(self)(weights, self._node_ids)
        return self._similar[k]

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
        return "\n".join(f"{name:<12}{value}" for name, value in _facts(self).items())

    def __repr__(self) -> str:
        parts = f"n_components={self.n_components}, isolates={self.isolates.size}"
        return f"Graph(n_nodes={self.n_nodes}, n_edges={self.n_edges}, {parts})"

    def _repr_html_(self) -> str:
        """Return the summary and the first node ids as a table, for notebooks."""
        return _html(self)


def _facts(graph: GraphStructure) -> dict[str, str]:
    weights = graph.adjacency.data
    n_neighbors = np.diff(graph.adjacency.indptr)
    kind = "unweighted"
    if not (weights == 1).all():
        kind = f"weights {weights.min():.3g} to {weights.max():.3g}"
    largest = int(np.bincount(graph.component_labels).max())
    share = f"{100 * largest / graph.n_nodes:.1f} %"
    isolated = graph.isolates.size
    return {
        "nodes": f"{graph.n_nodes:,}",
        "edges": f"{graph.n_edges:,} ({kind})",
        "neighbours": f"median {np.median(n_neighbors):.0f}, most {n_neighbors.max()}",
        "isolates": f"{isolated:,} ({100 * isolated / graph.n_nodes:.1f} %)",
        "components": f"{graph.n_components:,}, the largest with {largest:,} nodes ({share})",
    }


def _html(graph: GraphStructure) -> str:
    ids = ", ".join(str(value) for value in graph.node_ids[:3].tolist())
    rows = _facts(graph) | {"node ids": ids + (", …" if graph.n_nodes > 3 else "")}
    cells = "".join(f"<tr><th>{k}</th><td>{escape(v)}</td></tr>" for k, v in rows.items())
    return f"<table><caption>ebboost.Graph</caption><tbody>{cells}</tbody></table>"


def _arrays(matrix: sparse.csr_array) -> tuple[NDArray[Any], ...]:
    return matrix.indptr, matrix.indices, matrix.data


def _freeze(matrix: sparse.csr_array | None) -> None:
    for array in () if matrix is None else _arrays(matrix):
        array.flags.writeable = False


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    array.flags.writeable = False
    return array
