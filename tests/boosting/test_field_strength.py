"""Strengths of the field: estimated from residuals drawn from a known field."""

import numpy as np
import pytest

import ebboost as eb
from ebboost.boosting.field_strength import estimate_strengths
from ebboost.boosting.latent_field import LatentField
from ebboost.data.labels import Labels


def grid_graph(side):
    """A square grid of side² nodes."""
    node = np.arange(side * side).reshape(side, side)
    source = np.r_[node[:, :-1].ravel(), node[:-1].ravel()]
    target = np.r_[node[:, 1:].ravel(), node[1:].ravel()]
    return eb.Graph.from_edges(source, target)


def draw_field(graph, lam, tau, noise, seed):
    """Residuals of a field with precision matrix λL + τI over noise of variance 1."""
    adjacency = graph.adjacency.toarray()
    root = 1.0 / np.sqrt(adjacency.sum(axis=1))
    normalized = root[:, None] * adjacency * root
    precision = lam * (np.diag(normalized.sum(axis=1)) - normalized) + tau * np.eye(len(root))
    rng = np.random.default_rng(seed)
    field = np.linalg.solve(np.linalg.cholesky(precision).T, rng.normal(size=len(root)))
    return field + noise * rng.normal(size=len(root))


def residuals_at(graph, values, share=0.6):
    nodes = np.random.default_rng(0).permutation(graph.n_nodes)[: int(share * graph.n_nodes)]
    return Labels(nodes, values[nodes, None], np.ones(nodes.size))


@pytest.mark.parametrize(("lam", "tau"), [(10.0, 0.03), (1.0, 0.1)])
def test_estimated_strengths_predict_nearly_as_well_as_the_true_ones(lam, tau):
    graph = grid_graph(32)
    values = draw_field(graph, lam, tau, 1.0, seed=1)
    residuals = residuals_at(graph, values)
    estimate = estimate_strengths(graph, residuals, seed=0)
    unknown = np.setdiff1d(np.arange(graph.n_nodes), residuals.nodes)

    def error(field):
        posterior = field.operator(graph, residuals.nodes, residuals.weight)
        mean = posterior.posterior_mean(residuals.target)[unknown, 0]
        return float(((values[unknown] - mean) ** 2).mean())

    assert error(estimate.field) < 1.02 * error(LatentField(lam, tau))
    assert estimate.with_field < estimate.without


def test_residuals_without_structure_are_shrunk_to_zero():
    graph = grid_graph(24)
    values = np.random.default_rng(3).normal(size=graph.n_nodes)
    estimate = estimate_strengths(graph, residuals_at(graph, values), seed=0)
    assert estimate.with_field > 0.97 * estimate.without
    shares = estimate.field.operator(graph, np.arange(graph.n_nodes), np.ones(graph.n_nodes))
    assert np.abs(shares.posterior_mean(values[:, None])).max() < 0.5


@pytest.mark.parametrize("unit", [1e-6, 1e6])
def test_strengths_do_not_depend_on_the_unit_of_the_labels(unit):
    graph = grid_graph(20)
    values = draw_field(graph, 3.0, 0.1, 1.0, seed=2)
    fields = [
        estimate_strengths(graph, residuals_at(graph, scale * values), seed=0).field
        for scale in (1.0, unit)
    ]
    assert repr(fields[0]) == repr(fields[1])
