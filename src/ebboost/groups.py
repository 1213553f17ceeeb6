"""Groups of rows: the node of each row, or its nodes and fields where it belongs to several groups.

Imported by fits with groups only.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from scipy import sparse

from ebboost._common import Array, IntArray, TableLike, warn_caller
from ebboost.data.checks import group_column
from ebboost.data.labels import Labels
from ebboost.data.neighbors import Places
from ebboost.field import (
    FieldEnergy,
    LatentField,
    Posterior,
    Prior,
    field_laplacian,
    field_mode,
    posterior_variances,
)
from ebboost.graph import Graph
from ebboost.graph.ids import Ids, as_id_array, check_unique_ids, positions_of
from ebboost.linalg import Structure
from ebboost.losses import Loss

#: Levels of the rows and a graph of the levels, by the name of a group; "" where there is one only.
Groups = Mapping[str, tuple[Any, Graph | None]]


def read_groups(X: TableLike, groups: Any, n_rows: int) -> Groups:
    """Return the groups of rows: a column, a list of names of columns, or a dictionary.

    Values of a dictionary are None for the column of that name, levels of the rows, a graph of the
    levels of that column, or a pair of levels and graph. A list with an entry for each row is one
    group.
    """
    is_names = isinstance(groups, (list, tuple)) and len(groups) != n_rows
    if is_names and groups and all(isinstance(name, str) for name in groups):
        groups = dict.fromkeys(groups)
    elif hasattr(groups, "columns"):  # a dataframe
        groups = {str(name): groups[name] for name in groups.columns}
    if not isinstance(groups, Mapping):
        return {"": (group_column(X, groups, n_rows), None)}
    if not groups or not all(isinstance(name, str) for name in groups):
        raise ValueError(f"groups must have names, which are text, got {list(groups)}.")
    result = {}
    for name, value in groups.items():
        is_pair = isinstance(value, tuple) and len(value) == 2 and isinstance(value[1], Graph)
        levels, graph = value if is_pair else (value, None)
        if isinstance(value, Graph):
            levels, graph = None, value
        result[name] = (group_column(X, name if levels is None else levels, n_rows, name), graph)
    return result


def group_places(groups: Groups, graph: Graph | None = None) -> Places:
    """Return the places of rows in groups; ``graph`` is that of the only group."""
    if graph is not None and len(groups) > 1:
        raise ValueError(
            f"graph= needs one group, got {list(groups)}: name the graph of each, such as "
            f"groups={{{next(iter(groups))!r}: graph, ...}}."
        )
    parts = [_one_group(levels, own if graph is None else graph) for levels, own in groups.values()]
    if len(parts) == 1:
        return parts[0]
    sizes = [part.graph.n_nodes for part in parts]
    starts = np.cumsum([0, *sizes[:-1]])
    nodes = [part.node_of_row + start for part, start in zip(parts, starts, strict=True)]
    named = zip(groups, parts, strict=True)
    ids = np.concatenate([_level_ids(name, part.graph.node_ids) for name, part in named])
    check_unique_ids(ids, "groups")
    blocks = sparse.block_diag([part.graph.adjacency for part in parts], format="csr")
    graph = Graph(sparse.csr_array(blocks), ids)
    return Places(graph, np.column_stack(nodes), dict(zip(groups, sizes, strict=True)))


def nodes_of(places: Places, groups: Groups) -> IntArray:
    """Return the nodes of new rows in the groups of a fit, −1 for new levels."""
    expected = list(places.groups) or ["one group"]
    known = places.graph.node_ids
    if not places.groups and len(groups) == 1:
        levels, _ = next(iter(groups.values()))
        return positions_of(known, as_id_array(levels, "groups"))
    if set(groups) != set(places.groups):
        raise ValueError(f"groups must be those of the fit, {expected}, got {list(groups)}.")
    ids = [_level_ids(name, as_id_array(groups[name][0], "groups")) for name in places.groups]
    return np.column_stack([positions_of(known, own) for own in ids])


def _level_ids(name: str, levels: Ids) -> Ids:
    """What levels of a group are called among those of all groups: 1 and 1.0 are the same."""
    values = (int(v) if isinstance(v, float) and v.is_integer() else v for v in levels.tolist())
    return np.fromiter((f"{name}={value}" for value in values), object, len(levels))


def _one_group(levels: Any, graph: Graph | None) -> Places:
    """Return the places of rows in one group: nodes of a graph, and groups without edges."""
    ids = as_id_array(levels, "groups")
    known = as_id_array(list(dict.fromkeys(ids.tolist())), "groups")
    if graph is None:
        empty = sparse.csr_array((known.size, known.size))
        return Places(Graph(empty, known), positions_of(known, ids))
    new = known[positions_of(graph.node_ids, known) < 0]
    if new.size == known.size:
        example, other = known[:1].tolist()[0], graph.node_ids[:1].tolist()[0]
        warn_caller(
            f"No group is a node of graph: groups hold {example!r}, graph has {other!r}. Its edges "
            "are not used. Are ids numbers in one and text in the other?"
        )
    if new.size:
        every = as_id_array([*graph.node_ids.tolist(), *new.tolist()], "groups")
        adjacency = graph.adjacency
        adjacency.resize((every.size, every.size))
        graph = Graph(adjacency, every)
    return Places(graph, positions_of(graph.node_ids, ids))


class GroupFields(LatentField):
    """Independent fields of several groups, whose nodes follow each other in one graph.

    Parameters
    ----------
    fields : sequence of LatentField
        One of each group.
    sizes : sequence of int
        Number of nodes of each group.
    """

    def __init__(self, fields: Sequence[LatentField], sizes: Sequence[int]) -> None:
        self.fields = fields
        self.sizes = sizes

    def prior(self, graph: Graph) -> Prior:
        """Return the precision matrix, with a block λL + τI of each group.

        Parameters
        ----------
        graph : Graph
            Without edges between groups.

        Returns
        -------
        Prior
        """
        if len(self.fields) != len(self.sizes) or sum(self.sizes) != graph.n_nodes:
            counts = f"{len(self.fields)} fields and sizes {list(self.sizes)}"
            raise ValueError(f"GroupFields: {counts} do not fit {graph.n_nodes} nodes of groups.")
        laplacian, structure = field_laplacian(graph)
        for one in self.fields:
            one.check()
        lam = np.repeat([one.lam for one in self.fields], self.sizes)
        tau = np.repeat([one.tau for one in self.fields], self.sizes)
        data = np.repeat(lam, np.diff(laplacian.indptr)) * laplacian.data
        data[structure.diagonal] += tau
        return Prior(structure, data)

    def scaled(self, factor: float) -> "GroupFields":
        """Return fields with strengths times a factor, rounded to three digits.

        Parameters
        ----------
        factor : float

        Returns
        -------
        GroupFields
        """
        return GroupFields(tuple(one.scaled(factor) for one in self.fields), self.sizes)


def by_variances(
    fields: Sequence[LatentField],
    places: Places,
    labels: Labels,
    scores: Array,
    loss: Loss,
    noise: float,
) -> tuple[LatentField, ...]:
    """Return fields whose groups without edges have the variance of their effects.

    Labels predict about as well with other variances where levels have many rows, but intervals of
    new levels need them. ``noise`` is the dispersion, or slightly more.
    """
    field = GroupFields(fields, tuple(places.groups.values()))
    posterior = Posterior(field.prior(places.graph), places.node_of_row[labels.rows])
    known = labels.relative()
    z = field_mode(posterior, loss, known, scores)
    curvature = FieldEnergy(posterior, loss, known).curvature(scores, z)
    mean = curvature.mean(axis=1, keepdims=True)
    squares = (z**2).mean(axis=1) / noise + posterior_variances(posterior, mean, None)
    result, start = [], 0
    for one, size in zip(fields, places.groups.values(), strict=True):
        level = slice(start, start + size)
        start += size
        if not places.graph.degrees[level].any():
            one = one.scaled(1.0 / (float(squares[level].mean()) * (one.lam + one.tau)))
        result.append(one)
    return tuple(result)


class Crossing:
    """SᵀHS + Q where rows have several nodes: pairs of nodes that share a row have an entry, too.

    Parameters
    ----------
    structure : Structure
        That of Q, in which no such pair has an entry.
    nodes : ndarray of shape (m, k)
    """

    def __init__(self, structure: Structure, nodes: IntArray) -> None:
        n_nodes = structure.shape[0]
        pairs = [low * n_nodes + high for low, high in combinations(nodes.T.astype(np.int64), 2)]
        found, self._pair = np.unique(np.concatenate(pairs), return_inverse=True)
        low, high = np.divmod(found, n_nodes)
        row = np.repeat(np.arange(n_nodes), np.diff(structure.indptr))
        row = np.concatenate([row, low, high])
        column = np.concatenate([structure.indices, high, low]).astype(structure.indices.dtype)
        self._order = np.argsort(row * n_nodes + column)
        starts = np.zeros(n_nodes + 1, dtype=structure.indptr.dtype)
        np.cumsum(np.bincount(row, minlength=n_nodes), out=starts[1:])
        parts = (np.ones(row.size), column[self._order], starts)
        self.structure = Structure(sparse.csr_array(parts, shape=structure.shape))

    def data(self, prior: Array, curvature: Array) -> Array:
        """Return the numbers, from those of Q plus the diagonal of SᵀHS, and from H."""
        n_pairs = self._pair.size // curvature.size
        shared = np.bincount(self._pair, np.tile(curvature, n_pairs))
        return np.concatenate([prior, shared, shared])[self._order]
