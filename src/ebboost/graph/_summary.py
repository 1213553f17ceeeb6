"""Facts about a graph as text and as an HTML table."""

from html import escape
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from ebboost.graph._structure import GraphStructure


def facts(graph: "GraphStructure") -> dict[str, str]:
    """Return numbers of nodes, edges, neighbours, isolates and components as text."""
    adjacency = graph.adjacency
    n_neighbors = np.diff(adjacency.indptr)
    weights = "unweighted"
    if adjacency.nnz and not (adjacency.data == 1).all():
        weights = f"weights {adjacency.data.min():.3g} to {adjacency.data.max():.3g}"
    largest = int(np.bincount(graph.component_labels).max())
    isolated = graph.isolates.size
    n = graph.n_nodes
    return {
        "nodes": f"{n:,}",
        "edges": f"{graph.n_edges:,} ({weights})",
        "neighbours": f"median {np.median(n_neighbors):.0f}, most {n_neighbors.max()}",
        "isolates": f"{isolated:,} ({100 * isolated / n:.1f} %)",
        "components": f"{graph.n_components:,}, the largest with {largest:,} nodes "
        f"({100 * largest / n:.1f} %)",
    }


def html_table(graph: "GraphStructure") -> str:
    """Return the facts and the first node ids as an HTML table."""
    ids = ", ".join(str(value) for value in graph.node_ids[:3].tolist())
    rows = facts(graph) | {"node ids": ids + (", …" if graph.n_nodes > 3 else "")}
    cells = "".join(f"<tr><th>{k}</th><td>{escape(v)}</td></tr>" for k, v in rows.items())
    return f"<table><caption>ebboost.Graph</caption><tbody>{cells}</tbody></table>"
