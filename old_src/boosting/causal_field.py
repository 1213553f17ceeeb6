"""The latent field where nodes have a time: each node's value uses labels of earlier nodes alone.

Nodes up to the time of the last label that is used have the field of their own graph. A later node
has the mean that its earlier neighbours give it, in the order of time: the mode of
λ Σ a_ij (z_i − z_j)² + τ z_i², j earlier. Nothing of a later node enters, not even its edges.
"""

from collections.abc import Callable

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import spsolve_triangular

from ebboost.boosting.latent_field import LatentField
from ebboost.boosting.losses import Loss
from ebboost.data.labels import Labels
from ebboost.data.types import Array, IntArray
from ebboost.graph import Graph, earlier_neighbors

#: The field of a graph, for labels and for scores at their nodes.
FieldMode = Callable[[LatentField, Graph, Labels, Loss, Array], Array]
# Sets of labels for which the field is computed. With more times than that among the labels, the
# latest labels before a node are left out.
MAX_PERIODS = 32


def causal_mode(
    mode: FieldMode,
    use: LatentField,
    graph: Graph,
    labels: Labels,
    loss: Loss,
    scores: Array,
    nodes: IntArray | None = None,
) -> Array:
    """Return the field on all nodes, each from labels of earlier ones; 0 where there are none.

    ``scores`` are those of the labelled nodes. With ``nodes``, only values there are right.
    """
    time = graph.time
    assert time is not None
    field = np.zeros((graph.n_nodes, scores.shape[1]))
    of_labels = time[labels.nodes]
    ends = np.unique(of_labels)
    ends = ends[np.unique(np.linspace(0, ends.size - 1, MAX_PERIODS).round().astype(np.int64))]
    period = np.searchsorted(ends, time)  # the number of ends that are earlier
    edges = earlier_neighbors(graph.adjacency, time)
    for number in np.unique(period if nodes is None else period[nodes]):
        if number == 0:
            continue
        end = ends[number - 1]
        in_period = period == number
        known = of_labels <= end
        past_labels = labels.subset(known)
        if graph.groups is not None:
            values = mode(use, graph.with_time(None), past_labels, loss, scores[known])
            field[in_period] = values[in_period]
            continue
        past = np.flatnonzero(time <= end)
        later = np.flatnonzero((time > end) & (time <= time[in_period].max()))
        later = later[np.argsort(time[later], kind="stable")]
        own = Graph(sparse.csr_array(graph.adjacency[past][:, past]))
        moved = Labels(
            np.searchsorted(past, past_labels.nodes), past_labels.target, past_labels.weight
        )
        values = mode(use, own, moved, loss, scores[known])
        near = edges[later]
        extended = _extend(use, near[:, past], near[:, later], own.degrees, values)
        is_wanted = in_period[later]
        field[later[is_wanted]] = extended[is_wanted]
    return field


def _extend(
    use: LatentField,
    to_past: sparse.csr_array,
    to_earlier: sparse.csr_array,
    degrees: Array,
    values: Array,
) -> Array:
    """Return the field of later nodes, sorted by time, from edges to the past and to each other."""
    edges = sparse.hstack([to_past, to_earlier], format="csr")
    own = np.asarray(edges.sum(axis=1)).ravel()
    if use.normalized:
        all_degrees = np.concatenate([degrees, own])
        row = np.repeat(np.arange(own.size), np.diff(edges.indptr))
        product = own[row] * (all_degrees[edges.indices] + edges.data)
        edges = sparse.csr_array(
            (edges.data / np.sqrt(product), edges.indices, edges.indptr), shape=edges.shape
        )
    sums = np.asarray(edges.sum(axis=1)).ravel()
    shares = sparse.diags_array(use.lam / (use.lam * sums + use.tau)) @ edges
    n_past = degrees.size
    right = shares[:, :n_past] @ values
    triangle = sparse.eye_array(own.size, format="csr") - shares[:, n_past:]
    return spsolve_triangular(triangle.tocsr(), right, lower=True, unit_diagonal=True)
