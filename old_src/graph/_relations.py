"""Several relations between the same nodes as one weighted graph: A = Σ_r s_r A_r.

A negative strength s_r says that nodes with an edge in r are dissimilar. Such edges enter the
energy as |s_r|(z_i + z_j)² rather than s_r(z_i − z_j)²: the Laplacian D − A with D the row sums of
|A|, which has no negative eigenvalue whatever the signs.
"""

from collections.abc import Iterable, Mapping
from numbers import Real
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

if TYPE_CHECKING:
    from ebboost.graph.base import Graph


def check_relations(relations: "Mapping[str, Graph]", kind: type) -> None:
    """Raise an error unless ``relations`` is a dict of graphs of the same nodes."""
    if not isinstance(relations, Mapping):
        raise TypeError(f'Relations must be a dict such as {{"friend": g}}, got {type(relations)}.')
    if not relations:
        raise ValueError('The dict of relations is empty: pass one, such as {"friend": g}.')
    first = next(iter(relations))
    for name, graph in relations.items():
        if not isinstance(name, str):
            raise TypeError(f"Names of relations must be text, got {name!r}.")
        if not isinstance(graph, kind):
            raise TypeError(f"Relation {name!r} must be an ebboost.Graph, got {type(graph)}.")
        if graph.n_nodes != relations[first].n_nodes:
            sizes = f"{graph.n_nodes} nodes, {first!r} has {relations[first].n_nodes}"
            remedy = "create both with the same n_nodes= or nodes="
            raise ValueError(f"Relation {name!r} has {sizes}: {remedy}.")
        if not np.array_equal(graph.node_ids, relations[first].node_ids):
            problem = f"Relations {first!r} and {name!r} have different node ids, or another order"
            raise ValueError(f"{problem}: create both with the same nodes=.")


def check_strengths(strengths: Mapping[str, float], names: Iterable[str]) -> None:
    """Raise an error unless ``strengths`` has a finite number for each relation, not all 0."""
    names = list(names)
    if not isinstance(strengths, Mapping):
        raise TypeError(f"Strengths must be a dict of numbers, got {type(strengths)}.")
    for name, value in strengths.items():
        if name not in names:
            raise ValueError(f"strengths names {name!r}, which is not a relation out of {names}.")
        if isinstance(value, bool) or not isinstance(value, Real) or not np.isfinite(float(value)):
            raise ValueError(f"The strength of {name!r} must be a finite number, got {value!r}.")
    for name in names:
        if name not in strengths:
            raise ValueError(f"Relation {name!r} has no strength: pass one for each of {names}.")
    if not any(strengths.values()):
        raise ValueError(f"At least one strength must not be 0, got {dict(strengths)}.")


def mixed_adjacency(
    adjacencies: Mapping[str, sparse.csr_array], strengths: Mapping[str, float]
) -> sparse.csr_array:
    """Return Σ_r s_r A_r without entries that cancel."""
    with np.errstate(over="ignore", invalid="ignore"):  # Graph rejects weights that are too large
        terms = [float(strengths[r]) * adjacencies[r] for r in adjacencies if strengths[r]]
        total = sparse.csr_array(sum(terms[1:], start=terms[0]))
    total.eliminate_zeros()
    return total
