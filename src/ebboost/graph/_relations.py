"""Several relations between the same nodes as one weighted graph: A = Σ_r s_r A_r.

A negative strength s_r says that nodes tied by r are unlike. Its edges enter the energy as |s_r|(z_i + z_j)² rather than
s_r(z_i − z_j)²: the Laplacian D − A with D the row sums of |A|, which has no negative eigenvalue whatever the signs.
"""

from collections.abc import Mapping
from numbers import Real
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

if TYPE_CHECKING:
    from ebboost.graph import Graph


def check_relations(relations: "Mapping[str, Graph]", kind: type) -> None:
    """Refuse what is not a dict of graphs of the same nodes."""
    if not isinstance(relations, Mapping):
        raise TypeError(
            f'Relations must be a dict such as {{"friend": g1, "city": g2}}, got {type(relations)}.'
        )
    if not relations:
        raise ValueError(
            'The dict of relations is empty: give at least one, such as {"friend": g1, "city": g2}.'
        )
    first, size = next(iter(relations)), None
    for name, graph in relations.items():
        if not isinstance(name, str):
            raise TypeError(f"Relations are named by text, got the name {name!r}.")
        if not isinstance(graph, kind):
            raise TypeError(f"Relation {name!r} must be an ebboost.Graph, got {type(graph)}.")
        size = size or graph.n_nodes
        if graph.n_nodes != size:
            raise ValueError(
                f"Relation {name!r} has {graph.n_nodes} nodes, {first!r} has {size}: all relations are between the same "
                "nodes. Pass n_nodes= (or nodes=) when making them."
            )
        if not np.array_equal(graph.node_ids, relations[first].node_ids):
            raise ValueError(
                f"Relations {first!r} and {name!r} list the nodes by other ids or in another order: make both with the same "
                "nodes=."
            )


def check_strengths(strengths: Mapping[str, float], names: "Mapping[str, object]") -> None:
    """Refuse strengths that are not one number for each relation."""
    if not isinstance(strengths, Mapping):
        raise TypeError(
            f'Strengths must be a dict such as {{"friend": 1.0}}, got {type(strengths)}.'
        )
    for name, value in strengths.items():
        if name not in names:
            raise ValueError(
                f"There is no relation {name!r} to give a strength to; there are {list(names)}."
            )
        if isinstance(value, bool) or not isinstance(value, Real) or not np.isfinite(float(value)):
            raise ValueError(
                f"The strength of relation {name!r} must be a finite number, got {value!r}."
            )
    missing = [name for name in names if name not in strengths]
    if missing:
        raise ValueError(
            f"Relation {missing[0]!r} has no strength: give one for each of {list(names)}."
        )
    if not any(strengths.values()):
        raise ValueError(f"All strengths are 0 ({dict(strengths)}): no relation would be left.")


def mixed_adjacency(
    relations: "Mapping[str, Graph]", strengths: Mapping[str, float]
) -> sparse.csr_array:
    """Return Σ_r s_r A_r; edges that cancel are gone."""
    with np.errstate(over="ignore", invalid="ignore"):  # a graph refuses weights that are too large
        parts = [
            float(strengths[name]) * graph.adjacency
            for name, graph in relations.items()
            if strengths[name]
        ]
        total = sparse.csr_array(sum(parts[1:], start=parts[0]))
    total.eliminate_zeros()
    return total
