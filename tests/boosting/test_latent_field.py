"""The latent field against dense closed forms, brute force and finite differences."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ebboost as eb
from ebboost.boosting.iterate import Iterate
from ebboost.boosting.latent_field import FieldObjective, FieldPosterior, LeaveOneOutObjective
from ebboost.data.labels import Labels
from ebboost.propagation import IdentityOperator, SparseSolver, _solver
from tests.strategies import graphs, random_graph, signed_graphs


def dense_system(graph, nodes, weight, lam, tau, unlabelled=0.0, normalized=True):
    """W + λL + τI, written down once more."""
    adjacency = graph.adjacency.toarray()
    degree = np.abs(adjacency).sum(1)
    if normalized:
        root = np.sqrt(np.where(degree > 0, degree, 1.0))
        adjacency = adjacency / root[:, None] / root
    ties = np.abs(adjacency).sum(1)
    if normalized:
        ties[degree == 0] = 1.0
    on_nodes = np.full(graph.n_nodes, unlabelled)
    on_nodes[nodes] = weight / weight.mean()
    return np.diag(on_nodes + tau + lam * ties) - lam * adjacency, on_nodes


def labelled(graph, seed):
    rng = np.random.default_rng(seed)
    nodes = np.sort(rng.choice(graph.n_nodes, max(graph.n_nodes // 2, 1), replace=False))
    return nodes, rng.random(nodes.size) + 0.2, rng.normal(size=(nodes.size, 2))


@given(
    graphs(min_nodes=2) | signed_graphs(min_nodes=2),
    st.integers(0, 1000),
    st.floats(0.01, 20),
    st.floats(0.01, 2),
    st.booleans(),
)
@settings(max_examples=80, deadline=None)
def test_field_equals_its_closed_form(graph, seed, lam, tau, normalized):
    nodes, weight, errors = labelled(graph, seed)
    field = eb.LatentField(lam, tau, normalized=normalized).operator(graph, nodes, weight)
    system, on_nodes = dense_system(graph, nodes, weight, lam, tau, normalized=normalized)
    right = np.zeros((graph.n_nodes, 2))
    right[nodes] = on_nodes[nodes, None] * errors
    expected = np.linalg.solve(system, right)
    close = {"rtol": 1e-8, "atol": 1e-10}
    np.testing.assert_allclose(field.posterior_mean(errors), expected, **close)
    # Systems with the curvature of another likelihood: here that of squared error.
    with_curvature = field.solve_system(field.weight[:, None], right, 1e-12)
    np.testing.assert_allclose(with_curvature, expected, **close)
    np.testing.assert_allclose(field.diagonal, np.diag(np.linalg.inv(system))[nodes], rtol=1e-8)


@given(
    graphs(min_nodes=3), st.integers(0, 1000), st.floats(0.05, 10), st.sampled_from([0.0, 0.3, 1.0])
)
@settings(max_examples=60, deadline=None)
def test_leave_one_out_residuals_equal_a_refit_without_the_label(graph, seed, lam, unlabelled):
    nodes, weight, errors = labelled(graph, seed)
    result = (
        eb.LatentField(lam, 0.1, unlabelled=unlabelled)
        .operator(graph, nodes, weight)
        .leave_one_out(errors)
    )
    system, on_nodes = dense_system(graph, nodes, weight, lam, 0.1, unlabelled)
    for place, node in enumerate(nodes):
        without = system.copy()
        without[node, node] += unlabelled - on_nodes[node]
        right = np.zeros((graph.n_nodes, 2))
        right[nodes] = on_nodes[nodes, None] * errors
        right[node] = 0.0
        expected = errors[place] - np.linalg.solve(without, right)[node]
        np.testing.assert_allclose(result[place], expected, rtol=1e-6, atol=1e-6)


def test_estimated_diagonal_is_within_its_stated_error(monkeypatch):
    graph = random_graph(400, 1200)
    nodes, weight, _ = labelled(graph, 0)
    exact = eb.LatentField().operator(graph, nodes, weight).diagonal
    inverse = np.linalg.inv(dense_system(graph, nodes, weight, 2.0, 0.05)[0])
    error = np.sqrt(((inverse**2).sum(1) - np.diag(inverse) ** 2)[nodes] / FieldPosterior.probes)
    monkeypatch.setattr(_solver, "elimination", lambda *_: None)
    monkeypatch.setattr(FieldPosterior, "exact_diagonal_up_to", 400)
    solved = eb.LatentField().operator(graph, nodes, weight).diagonal
    np.testing.assert_allclose(solved, exact, rtol=1e-8)
    monkeypatch.setattr(FieldPosterior, "exact_diagonal_up_to", 399)
    estimated = eb.LatentField().operator(graph, nodes, weight).diagonal
    assert (np.abs(estimated - exact) <= 5 * error).all()
    assert np.mean(np.abs(estimated - exact) <= 2 * error) > 0.9


def test_conjugate_gradients_and_factorisation_give_the_same_field(monkeypatch):
    graph = random_graph(300, 900)
    nodes, weight, errors = labelled(graph, 0)
    direct = eb.LatentField().operator(graph, nodes, weight).posterior_mean(errors)
    monkeypatch.setattr(SparseSolver, "direct_up_to", 0)
    field = eb.LatentField().operator(graph, nodes, weight)
    np.testing.assert_allclose(field.posterior_mean(errors), direct, rtol=1e-7, atol=1e-9)
    loose = field.posterior_mean(errors, 1e-2)
    assert np.linalg.norm(loose - direct) < 0.1 * np.linalg.norm(direct)


KINDS = {
    "field": eb.LatentField(2.0, 0.1),
    "left-out": eb.LatentField(2.0, 0.1, leave_one_out=True),
}


TWO_STEPS = eb.Laplacian(1.0, 2)


def objective(kind, graph, seed=0, penalty=0.2, smoothing=TWO_STEPS):
    rng = np.random.default_rng(seed)
    nodes, weight, _ = labelled(graph, seed)
    labels = Labels(nodes, rng.normal(size=(nodes.size, 1)), weight)
    smoother = (
        smoothing.operator(graph) if smoothing is not None else IdentityOperator(graph.n_nodes)
    )
    spec = KINDS[kind]
    build = LeaveOneOutObjective if spec.leave_one_out else FieldObjective
    return build(
        smoother, eb.SquaredError(), labels, None, penalty, spec.operator(graph, nodes, weight)
    )


def at(o, scores):
    return Iterate(scores, o.propagate(scores))


@pytest.mark.parametrize("kind", KINDS)
@given(graph=graphs(min_nodes=3), seed=st.integers(0, 100))
@settings(max_examples=15, deadline=None)
def test_gradients_equal_finite_differences(kind, graph, seed):
    o = objective(kind, graph, seed)
    scores = np.random.default_rng(seed).normal(size=(graph.n_nodes, 1))
    gradient, mass = o.gradient(at(o, scores)), o.labels.weight.sum()
    for node in range(graph.n_nodes):
        move = np.zeros_like(scores)
        move[node] = 1e-5
        rise = o.value(at(o, scores + move)) - o.value(at(o, scores - move))
        assert mass * rise / 2e-5 == pytest.approx(gradient[node, 0], abs=1e-6)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "smoothing",
    [
        None,
        eb.Laplacian(1.0, 2),
        eb.Laplacian(3.0, 4, method="chebyshev"),
        eb.Kernel("random-walk", 2.0),
        eb.Kernel("random-walk", 2.0, p=12),
    ],
    ids=repr,
)
@given(graph=graphs(min_nodes=3), seed=st.integers(0, 100))
@settings(max_examples=15, deadline=None)
def test_curvature_majorises_the_hessian(kind, smoothing, graph, seed):
    o = objective(kind, graph, seed, 0.0, smoothing)
    n = graph.n_nodes
    columns = [o.gradient(at(o, np.eye(n)[:, [i]])) - o.gradient(o.start()) for i in range(n)]
    bound = np.diag(np.broadcast_to(o.curvature(o.start()), (n, 1))[:, 0])
    assert np.linalg.eigvalsh(bound - np.hstack(columns)).min() >= -1e-8


@pytest.mark.parametrize("kind", KINDS)
def test_value_equals_the_dense_formula(kind):
    graph = random_graph(15, 30)
    o = objective(kind, graph, 3, 0.0)
    scores = np.random.default_rng(0).normal(size=(15, 1))
    nodes, weight = o.labels.nodes, o.labels.weight
    system, _ = dense_system(graph, nodes, weight, 2.0, 0.1)
    K = np.linalg.inv(system)[np.ix_(nodes, nodes)]
    e = o.labels.target - o.init_score - o.operator.apply(scores)[nodes]
    left = e - K @ (weight[:, None] * e)
    if kind == "field":
        expected = 0.5 * (weight[:, None] * e * left).sum()
    else:
        expected = 0.5 * (weight[:, None] * (left / (1 - weight * np.diag(K))[:, None]) ** 2).sum()
    assert o.value(at(o, scores)) == pytest.approx(expected / weight.sum())
    predicted = o.predict(at(o, scores))[nodes]
    np.testing.assert_allclose(predicted, o.labels.target - left)


@pytest.mark.parametrize("kind", KINDS)
def test_newton_step_is_the_exact_line_search(kind):
    o = objective(kind, random_graph(20, 40))
    rng = np.random.default_rng(0)
    point, tree = at(o, rng.normal(size=(20, 1))), rng.normal(size=(20, 1))
    smoothed = o.propagate(tree)
    best = o.newton_step(point, tree, smoothed)
    for off in (-0.1, 1e-3, 0.1):
        better, worse = (
            o.value(point.take_step(step, tree, smoothed)) for step in (best, best + off)
        )
        assert better < worse


@pytest.mark.parametrize("labels", ["field", "leave-one-out"])
@given(graph=graphs(min_nodes=4, max_nodes=40), seed=st.integers(0, 1000))
@settings(max_examples=20, deadline=None)
def test_training_loss_never_rises(labels, graph, seed):
    rng = np.random.default_rng(seed)
    y = rng.normal(size=graph.n_nodes)
    y[rng.random(graph.n_nodes) < 0.4] = np.nan
    y[0] = 1.0
    learner = eb.LightGBM(5, min_child_samples=1)
    m = eb.EBBSRegressor(
        12, 0.7, smoothing=eb.Laplacian(1.0, 2), labels=labels, learner=learner, n_jobs=1
    )
    m.set_params(early_stopping=False).fit(rng.normal(size=(graph.n_nodes, 2)), y, graph=graph)
    losses = np.array(m.history_["training"])
    assert (np.diff(losses) <= 1e-3 * np.abs(losses[:-1]) + 1e-12).all()
    assert np.isfinite(m.predict()).all()


def test_leave_one_out_mean_does_not_depend_on_the_own_label():
    graph = random_graph(40, 100)
    nodes, weight, errors = labelled(graph, 0)
    field = eb.LatentField().operator(graph, nodes, weight)
    other = errors.copy()
    other[3] += 100.0
    before, after = errors - field.leave_one_out(errors), other - field.leave_one_out(other)
    np.testing.assert_allclose(before[3], after[3], atol=1e-8)


def test_estimated_diagonal_stays_within_its_bounds(monkeypatch):
    graph = random_graph(300, 900)
    nodes, weight, _ = labelled(graph, 0)
    monkeypatch.setattr(FieldPosterior, "exact_diagonal_up_to", 0)
    monkeypatch.setattr(_solver, "elimination", lambda *_: None)
    monkeypatch.setattr(FieldPosterior, "probes", 16)
    field = eb.LatentField().operator(graph, nodes, weight)
    system, on_nodes = dense_system(graph, nodes, weight, 2.0, 0.05)
    assert (field.diagonal >= 1 / np.diag(system)[nodes] - 1e-12).all()
    assert (field.diagonal <= 1 / (on_nodes[nodes] + 0.05) + 1e-12).all()


def test_training_tolerance_shrinks_with_tau(monkeypatch):
    monkeypatch.setattr("ebboost.boosting.objective.DOUBLE_PRECISION_UP_TO", 0)
    graph = random_graph(30, 60)
    labels = Labels(np.arange(10), np.zeros((10, 1)), np.ones(10))
    for tau, expected in ((0.005, 0.002), (5.0, 0.1)):
        field = eb.LatentField(2.0, tau).operator(graph, labels.nodes, labels.weight)
        o = FieldObjective(IdentityOperator(30), eb.SquaredError(), labels, None, 0.0, field)
        assert o.tolerance == pytest.approx(expected)


def test_leave_one_out_curvature_is_a_row_sum_of_absolute_values():
    graph = random_graph(20, 40)
    o = objective("left-out", graph, 1, 0.0)
    nodes, weight = o.labels.nodes, o.labels.weight
    K = np.linalg.inv(dense_system(graph, nodes, weight, 2.0, 0.1)[0])[np.ix_(nodes, nodes)]
    S = (np.eye(nodes.size) - K * weight) / (1 - weight * np.diag(K))[:, None]
    P = o.operator.apply(np.eye(20))
    expected = P[nodes].T @ np.abs(S).T @ (weight * (np.abs(S) @ P[nodes].sum(1)))
    np.testing.assert_allclose(o.curvature(o.start())[:, 0], expected, rtol=1e-8)


@pytest.mark.parametrize("normalized", [True, False])
def test_local_solve_is_within_its_tolerance(normalized):
    rng = np.random.default_rng(0)
    ends = np.arange(5000)
    graph = eb.Graph.from_edges(ends, (ends + 1) % 5000, weight=rng.uniform(0.5, 2.0, 5000))
    labelled = rng.permutation(5000)[:1500]
    field = eb.LatentField(normalized=normalized).operator(
        graph, labelled, rng.uniform(0.5, 2.0, 1500)
    )
    nodes, values = np.sort(labelled[:3]), 1e-3 * rng.normal(size=(3, 2))
    right = np.zeros((5000, 2))
    right[nodes] = values
    exact = field.solve(right)
    sizes = []
    for tolerance in (1e-2, 1e-5, 1e-8):
        where, result = field.solve_local(nodes, values, tolerance)
        exact_there, beyond = exact[where], np.delete(exact, where, axis=0)
        off = max(np.abs(result - exact_there).max(), np.abs(beyond).max())
        assert 1e-5 * tolerance * np.abs(values).max() < off <= tolerance * np.abs(values).max()
        sizes.append(where.size)
    assert sizes[0] < sizes[1] < sizes[2] < 1000  # no larger than it needs to be


@pytest.mark.parametrize(("n_nodes", "n_solved"), [(64, 64), (72, 15)])
def test_local_solve_begins_within_eight_hops_and_ends_at_a_quarter_of_the_graph(n_nodes, n_solved):
    ends = np.arange(n_nodes)
    ring = eb.Graph.from_edges(ends, (ends + 1) % n_nodes)
    field = eb.LatentField(1.0, 1.0).operator(ring, ends, np.ones(n_nodes))
    where, result = field.solve_local(np.array([5]), np.ones((1, 1)), 0.1)
    assert where.size == result.size == n_solved


def test_local_solve_on_a_dense_graph_solves_the_full_system():
    rng = np.random.default_rng(0)
    ends = rng.integers(0, 2000, (2, 8000))
    graph = eb.Graph.from_edges(ends.min(axis=0), ends.max(axis=0), n_nodes=2000)
    field = eb.LatentField().operator(graph, np.arange(50), np.ones(50))
    where, result = field.solve_local(np.array([3]), np.ones((1, 1)), 1e-6)
    assert np.array_equal(where, np.arange(2000))
    assert np.allclose(result, field.solve_labelled(np.eye(50)[:, [3]]), atol=1e-12)


@pytest.mark.parametrize(
    ("name", "inside", "outside"),
    [
        ("lam", [0.0, 0.5], [-0.5, 1e101]),
        ("tau", [1e-9], [0.0, -0.5, 1e101, np.nan]),
        ("unlabelled", [0.0, 0.5], [-0.5, 1e101]),
    ],
)
def test_parameters_are_accepted_in_their_range_only(name, inside, outside):
    parts = (eb.Graph.from_edges([0, 1], [1, 2]), np.array([0]), np.ones(1))
    for number in inside:
        eb.LatentField(**{name: number}).operator(*parts)
    for number in outside:
        with pytest.raises(ValueError, match=f"LatentField: {name} must be"):
            eb.LatentField(**{name: number}).operator(*parts)


@pytest.mark.parametrize("normalized", [True, False])
def test_a_system_beyond_double_precision_names_parameters_that_help(normalized):
    graph = random_graph(30, 60)
    field = eb.LatentField(1e20, 1e-5, normalized=normalized)
    with pytest.raises(ValueError, match="a smaller lam") as error:
        field.operator(graph, np.arange(3), np.ones(3)).posterior_mean(np.ones((3, 1)))
    assert ("normalized=True" in str(error.value)) is not normalized
