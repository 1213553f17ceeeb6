"""The model written down once more, with dense matrices: what sparse code is compared with."""

import numpy as np
from scipy.optimize import minimize

from ebboost.data.labels import Labels
from tests.strategies import loss_data


def laplacian(graph):
    """L of D^{-1/2} A D^{-1/2}, with a 1 for nodes without edges."""
    root = np.sqrt(np.where(graph.degrees > 0, graph.degrees, 1.0))
    weights = graph.adjacency.toarray() / root[:, None] / root
    ties = np.where(graph.degrees > 0, weights.sum(axis=1), 1.0)
    return np.diag(ties) - weights


def precision(graph, field):
    """Q = λL + τI."""
    return field.lam * laplacian(graph) + field.tau * np.eye(graph.n_nodes)


def places(n_nodes, nodes):
    """S, from nodes to rows."""
    return np.eye(n_nodes)[nodes]


def labels_at(loss, graph, seed, n_rows=None):
    """Scores, labels and nodes of rows of which several share a node."""
    rng = np.random.default_rng(seed)
    m = n_rows or max(graph.n_nodes, 2)
    nodes = rng.integers(0, graph.n_nodes, m)
    scores, target = loss_data(loss, seed, m)
    weight = rng.random(m) + 0.2
    return 0.5 * scores, Labels(np.arange(m), target, weight).relative(), nodes


def energy(loss, scores, labels, nodes, Q):
    """E and its gradient as functions of a flat z."""
    S = places(len(Q), nodes)
    shape = (len(Q), scores.shape[1])

    def compute(flat):
        z = flat.reshape(shape)
        eta = scores + S @ z
        value = labels.weight @ loss.value(eta, labels.target) + 0.5 * np.sum(z * (Q @ z))
        slope = labels.weight[:, None] * loss.gradient(eta, labels.target)
        return value, (Q @ z + S.T @ slope).ravel()

    return compute


def mode(loss, scores, labels, nodes, Q):
    """The z of least E, by a general optimiser."""
    compute = energy(loss, scores, labels, nodes, Q)
    start = np.zeros(len(Q) * scores.shape[1])
    options = {"maxiter": 20_000, "maxfun": 100_000, "ftol": 1e-16, "gtol": 1e-11, "maxcor": 50}
    found = minimize(compute, start, jac=True, method="L-BFGS-B", options=options)
    return found.x.reshape(len(Q), -1)
