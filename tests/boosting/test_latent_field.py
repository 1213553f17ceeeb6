"""The field against its dense closed form, leave-one-out against brute force, gradients against finite differences."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import log_loss

import ebboost as eb
from ebboost.boosting.calibration import ProbabilityField, expected_calibration_error
from ebboost.boosting.iterate import Iterate
from ebboost.boosting.label_use import objective_for
from ebboost.boosting.latent_field import FieldObjective, FieldPosterior, LeaveOneOutObjective
from ebboost.boosting.masked_labels import MaskedObjective, masked_prediction
from ebboost.data.labels import Labels
from ebboost.propagation import IdentityOperator, SparseSolver
from tests.problems import homophilous
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
    np.testing.assert_allclose(
        field.posterior_mean(errors), np.linalg.solve(system, right), rtol=1e-8, atol=1e-10
    )
    np.testing.assert_allclose(field.diagonal, np.diag(np.linalg.inv(system))[nodes], rtol=1e-8)


@given(
    graphs(min_nodes=3), st.integers(0, 1000), st.floats(0.05, 10), st.sampled_from([0.0, 0.3, 1.0])
)
@settings(max_examples=60, deadline=None)
def test_left_out_errors_equal_a_refit_without_the_label(graph, seed, lam, unlabelled):
    nodes, weight, errors = labelled(graph, seed)
    found = (
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
        np.testing.assert_allclose(found[place], expected, rtol=1e-6, atol=1e-6)


def test_estimated_diagonal_is_within_its_stated_error(monkeypatch):
    graph = random_graph(400, 1200)
    nodes, weight, _ = labelled(graph, 0)
    exact = eb.LatentField().operator(graph, nodes, weight).diagonal
    inverse = np.linalg.inv(dense_system(graph, nodes, weight, 2.0, 0.05)[0])
    error = np.sqrt(((inverse**2).sum(1) - np.diag(inverse) ** 2)[nodes] / FieldPosterior.probes)
    monkeypatch.setattr(FieldPosterior, "exact_diagonal_up_to", 0)
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
def test_value_is_what_the_docstring_says(kind):
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


@pytest.mark.parametrize(
    "use",
    [eb.MaskedLabels(), eb.MaskedLabels(smooth_labels=False), eb.MaskedLabels(smooth_errors=False)],
    ids=repr,
)
def test_masked_gradient_equals_finite_differences(use):
    graph = random_graph(15, 30)
    rng = np.random.default_rng(0)
    labels = Labels(np.arange(10), rng.normal(size=(10, 1)), np.ones(10))
    o = MaskedObjective(
        eb.Laplacian(2.0, 3).operator(graph), eb.SquaredError(), labels, None, 0.0, use, 0
    )
    scores = rng.normal(size=(15, 1))
    gradient = o.gradient(Iterate(scores, scores))
    mass = (~o._is_shown).sum()
    assert 0 < mass < 10
    for node in range(15):
        move = np.zeros_like(scores)
        move[node] = 1e-5
        rise = o._value(Iterate(scores + move, scores)) - o._value(Iterate(scores - move, scores))
        assert mass * rise / 2e-5 == pytest.approx(gradient[node, 0], abs=1e-6)


def test_masked_prediction_is_equation_15():
    graph = random_graph(12, 25)
    P = eb.Laplacian(2.0, 5).operator(graph)
    scores = np.random.default_rng(0).normal(size=(12, 1))
    shown = Labels(np.array([1, 4]), np.array([[2.0], [3.0]]), np.ones(2))
    mask = np.zeros((12, 1))
    mask[[1, 4]] = 1.0
    truth = np.zeros((12, 1))
    truth[[1, 4], 0] = [2.0, 3.0]
    expected = scores + P.apply(mask * (truth - scores))
    zero = np.zeros(1)
    np.testing.assert_allclose(
        masked_prediction(eb.MaskedLabels(smooth_labels=False), P, scores, shown, zero), expected
    )
    expected = P.apply(np.where(mask > 0, truth, expected))
    np.testing.assert_allclose(
        masked_prediction(eb.MaskedLabels(), P, scores, shown, zero), expected
    )
    moved = Labels(shown.nodes, shown.target + 7.0, shown.weight)
    np.testing.assert_allclose(
        masked_prediction(eb.MaskedLabels(), P, scores, moved, np.array([7.0])), 7.0 + expected
    )


def fitted(**changes):
    X, y, graph = homophilous()
    settings = {
        "n_estimators": 60,
        "random_state": 0,
        "n_jobs": 1,
        "smoothing": None,
        "labels": "field",
    } | changes
    m = eb.EBBSRegressor(**settings).fit(X, y[:300], nodes=np.arange(300), graph=graph)
    return m, X, y, graph


@pytest.mark.parametrize("labels", ["field", "leave-one-out", "masked"])
def test_labels_of_neighbours_explain_what_columns_cannot(labels):
    changes = {"smoothing": eb.Laplacian(2.0, 5)} if labels == "masked" else {}
    if labels == "masked":
        changes |= {"learner": eb.CatBoost(4, shrinkage=0.3), "learning_rate": 1.0}
    with_labels, _, y, _ = fitted(labels=labels, **changes)
    without = fitted(labels="none")[0]
    test = np.arange(300, 600)
    assert with_labels.score(None, y, nodes=test) > without.score(None, y, nodes=test) + 0.4


def test_labels_known_later_help_without_a_new_fit():
    m, _, y, _ = fitted()
    later, test = np.arange(300, 450), np.arange(450, 600)
    before = np.mean((m.predict()[test] - y[test]) ** 2)
    after = np.mean((m.predict(new_labels=(later, y[later]))[test] - y[test]) ** 2)
    assert after < before
    np.testing.assert_array_equal(m.predict(), m.predict())


def test_known_labels_on_a_new_graph():
    m = fitted()[0]
    X, y, graph = homophilous(seed=1)
    some, rest = np.arange(0, 600, 2), np.arange(1, 600, 2)
    blind, told = m.predict(X, graph=graph), m.predict(X, graph=graph, new_labels=(some, y[some]))
    assert np.mean((told - y)[rest] ** 2) < 0.6 * np.mean((blind - y)[rest] ** 2)


def test_known_is_refused_where_it_makes_no_sense():
    m = fitted()[0]
    with pytest.raises(ValueError, match="new_labels and y share"):
        m.predict(new_labels=([0], [1.0]))
    with pytest.raises(ValueError, match="new_labels must be a pair"):
        m.predict(new_labels=5)
    with pytest.raises(ValueError, match="makes no use of labels"):
        fitted(labels="none")[0].predict(new_labels=([400], [1.0]))


def test_prediction_of_a_node_does_not_depend_on_its_own_left_out_label():
    graph = random_graph(40, 100)
    nodes, weight, errors = labelled(graph, 0)
    field = eb.LatentField().operator(graph, nodes, weight)
    other = errors.copy()
    other[3] += 100.0
    before, after = errors - field.leave_one_out(errors), other - field.leave_one_out(other)
    np.testing.assert_allclose(before[3], after[3], atol=1e-8)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ("some", "labels must be"),
        (eb.LatentField(lam=-1.0), "lam"),
        (eb.LatentField(tau=0.0), "tau"),
        (eb.LatentField(lam=float("nan")), "lam"),
        (eb.LatentField(tau=float("inf")), "tau"),
        (eb.LatentField(unlabelled="few"), "unlabelled must be a number"),
        (eb.LatentField(unlabelled=1.0, leave_one_out=True), "unlabelled=0"),
    ],
    ids=repr,
)
def test_wrong_settings_are_refused_by_name(labels, message):
    with pytest.raises(ValueError, match=message):
        fitted(labels=labels)


def test_labels_need_the_squared_error():
    with pytest.raises(ValueError, match="needs loss='squared_error'"):
        fitted(loss="huber")
    assert fitted(loss="huber", labels="auto")[0].labels_ is None
    X, y, graph = homophilous()
    with pytest.raises(ValueError, match="is for regression"):
        eb.EBBSClassifier(labels="masked").fit(X, y > 0, graph=graph)


def test_a_loss_made_of_the_squared_error_is_another_one():
    class Doubled(eb.SquaredError):
        constant_curvature = False

        def value(self, scores, target):
            return 2.0 * super().value(scores, target)

        def gradient(self, scores, target):
            return 2.0 * super().gradient(scores, target)

        def curvature(self, scores, target):
            return np.full_like(scores, 2.0)

    with pytest.raises(ValueError, match="needs loss='squared_error'"):
        fitted(labels="leave-one-out", loss=Doubled())
    assert fitted(labels="auto", loss=Doubled())[0].labels_ is None


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_classifier_uses_labels_and_stays_calibrated(n_classes):
    X, y, graph = homophilous(1500)
    classes = np.digitize(y, np.quantile(y, np.linspace(0, 1, n_classes + 1)[1:-1]))
    train, test = np.arange(750), np.arange(750, 1500)
    models = {}
    for labels in ("field", "none"):
        m = eb.EBBSClassifier(60, labels=labels, smoothing=None, random_state=0, n_jobs=1)
        models[labels] = m.fit(X, classes[train], nodes=train, graph=graph)
    loss = {
        name: log_loss(classes[test], m.predict_proba(nodes=test)) for name, m in models.items()
    }
    assert loss["field"] < 0.9 * loss["none"]
    assert models["field"].label_strength_ > 0
    assert models["none"].label_strength_ == 0
    assert models["field"].calibration_error_ < 0.15
    np.testing.assert_allclose(models["field"].predict_proba().sum(1), 1.0)
    later = models["field"].predict_proba(new_labels=(test[:300], classes[test[:300]]))
    assert log_loss(classes[test[300:]], later[test[300:]]) < log_loss(
        classes[test[300:]], models["field"].predict_proba()[test[300:]]
    )


def test_calibration_error_by_hand():
    stated = np.array([[0.9, 0.1], [0.9, 0.1], [0.55, 0.45]])
    truth = np.array([[0.0], [1.0], [0.0]])
    # the two of 0.9 are right half the time, the one of 0.55 is right
    assert expected_calibration_error(stated, truth) == pytest.approx((2 * 0.4 + 0.45) / 3)


def test_shifted_probabilities_are_probabilities():
    field = ProbabilityField(1.0, 1.0)
    graph = random_graph(30, 60)
    known = Labels(np.arange(10), np.eye(3)[np.arange(10) % 3], np.ones(10))
    scores = np.random.default_rng(0).normal(size=(30, 3)) * 5
    moved = field.probabilities(
        scores, eb.Softmax(), known, eb.LatentField().operator(graph, known.nodes, known.weight)
    )
    assert (moved > 0).all()
    np.testing.assert_allclose(moved.sum(1), 1.0)
    assert not np.allclose(moved, eb.Softmax().inverse_link(scores))


def test_temperature_applies_without_labels_too():
    scores = np.random.default_rng(0).normal(size=(5, 3))
    found = ProbabilityField(2.0, 0.0).probabilities(scores, eb.Softmax(), None, None)
    np.testing.assert_allclose(found, eb.Softmax().inverse_link(scores / 2.0))


def test_strength_is_chosen_without_a_node_s_own_label():
    """Labels that are pure chance: a field that saw a node's own label would look perfect."""
    rng = np.random.default_rng(0)
    graph = random_graph(300, 900)
    known = Labels(np.arange(300), rng.integers(0, 2, (300, 1)).astype(float), np.ones(300))
    chosen = ProbabilityField()
    chosen.choose_left_out(
        np.zeros((300, 1)),
        eb.LogLoss(),
        known,
        eb.LatentField().operator(graph, known.nodes, known.weight),
    )
    assert chosen.strength == 0.0


def test_held_nodes_of_no_weight_have_no_say_in_temperature_and_strength():
    rng = np.random.default_rng(0)
    graph = random_graph(200, 600)
    training = Labels(np.arange(100), np.eye(2)[rng.integers(0, 2, 100)][:, 1:], np.ones(100))
    scores = 3 * rng.normal(size=(200, 1))
    truth = (scores[100:] > 0).astype(float)
    field = eb.LatentField().operator(graph, training.nodes, training.weight)
    few, all_of_them = ProbabilityField(), ProbabilityField()
    few.choose(
        scores, eb.LogLoss(), training, field, Labels(np.arange(100, 150), truth[:50], np.ones(50))
    )
    wrong = np.r_[truth[:50], 1 - truth[50:]]
    weight = np.repeat([1.0, 0.0], 50)
    all_of_them.choose(
        scores, eb.LogLoss(), training, field, Labels(np.arange(100, 200), wrong, weight)
    )
    assert (few.temperature, few.strength) == (all_of_them.temperature, all_of_them.strength)
    assert few.temperature < 1.0


@pytest.mark.parametrize("temperature", [0.7, 0.85, 1.0, 1.2, 1.5, 2.0])
@pytest.mark.parametrize("strength", [0.0, 0.25, 0.5, 0.75, 1.0])
def test_the_temperature_and_strength_that_made_the_labels_are_found(temperature, strength):
    rng = np.random.default_rng(0)
    graph, scores = random_graph(100, 300), 2 * rng.normal(size=(100, 3))
    training = Labels(np.arange(50), np.eye(3)[rng.integers(0, 3, 50)], np.ones(50))
    field = eb.LatentField().operator(graph, training.nodes, training.weight)
    truth = ProbabilityField(temperature, strength).probabilities(
        scores, eb.Softmax(), training, field
    )[50:]
    chosen = ProbabilityField()
    chosen.choose(
        scores, eb.Softmax(), training, field, Labels(np.arange(50, 100), truth, np.ones(50))
    )
    assert (chosen.temperature, chosen.strength) == (temperature, strength)


def test_estimated_diagonal_stays_within_its_bounds(monkeypatch):
    graph = random_graph(300, 900)
    nodes, weight, _ = labelled(graph, 0)
    monkeypatch.setattr(FieldPosterior, "exact_diagonal_up_to", 0)
    monkeypatch.setattr(FieldPosterior, "probes", 16)
    field = eb.LatentField().operator(graph, nodes, weight)
    system, on_nodes = dense_system(graph, nodes, weight, 2.0, 0.05)
    assert (field.diagonal >= 1 / np.diag(system)[nodes] - 1e-12).all()
    assert (field.diagonal <= 1 / (on_nodes[nodes] + 0.05) + 1e-12).all()


def test_weak_fields_are_solved_more_closely(monkeypatch):
    monkeypatch.setattr("ebboost.boosting.objective.DOUBLE_PRECISION_UP_TO", 0)
    graph = random_graph(30, 60)
    labels = Labels(np.arange(10), np.zeros((10, 1)), np.ones(10))
    for tau, expected in ((0.005, 0.002), (5.0, 0.1)):
        field = eb.LatentField(2.0, tau).operator(graph, labels.nodes, labels.weight)
        o = FieldObjective(IdentityOperator(30), eb.SquaredError(), labels, None, 0.0, field)
        assert o.tolerance == pytest.approx(expected)


def test_left_out_curvature_is_the_row_sum_of_absolute_values():
    graph = random_graph(20, 40)
    o = objective("left-out", graph, 1, 0.0)
    nodes, weight = o.labels.nodes, o.labels.weight
    K = np.linalg.inv(dense_system(graph, nodes, weight, 2.0, 0.1)[0])[np.ix_(nodes, nodes)]
    S = (np.eye(nodes.size) - K * weight) / (1 - weight * np.diag(K))[:, None]
    P = o.operator.apply(np.eye(20))
    expected = P[nodes].T @ np.abs(S).T @ (weight * (np.abs(S) @ P[nodes].sum(1)))
    np.testing.assert_allclose(o.curvature(o.start())[:, 0], expected, rtol=1e-8)


def test_masked_training_finds_a_far_mean():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 4))
    y = 100 + X[:, 0] + 0.3 * rng.normal(size=400)
    graph = eb.Graph.build_knn(X[:, :2], k=5)
    m = eb.EBBSRegressor(200, labels="masked", random_state=0, n_jobs=1).fit(
        X, y[:60], nodes=np.arange(60), graph=graph
    )
    assert np.sqrt(np.mean((m.predict()[200:] - y[200:]) ** 2)) < 2.0


def test_masked_training_has_no_penalty():
    with pytest.raises(ValueError, match="penalty has no part"):
        fitted(labels="masked", penalty=1.0, smoothing=eb.Laplacian())


def test_labels_known_later_weigh_as_much_as_the_others():
    X, y, graph = homophilous(300)
    held = (np.arange(200, 250), y[200:250])
    told = [
        eb.EBBSRegressor(15, labels="field", smoothing=None, random_state=0, n_jobs=1)
        .fit(X, y[:200], np.full(200, w), nodes=np.arange(200), graph=graph, eval_set=held)
        .predict(new_labels=(np.arange(250, 280), y[250:280]))
        for w in (1.0, 10.0)
    ]
    np.testing.assert_allclose(told[0], told[1], rtol=1e-6)


def test_masks_show_the_share_asked_for():
    labels = Labels(np.arange(2000), np.zeros((2000, 1)), np.ones(2000))
    use = eb.MaskedLabels(share=0.9)
    o = MaskedObjective(IdentityOperator(2000), eb.SquaredError(), labels, None, 0.0, use, 0)
    assert o._is_shown.mean() == pytest.approx(0.9, abs=0.03)
    before = o._is_shown.copy()
    o.gradient(o.start())
    assert not np.array_equal(o._is_shown, before)


@pytest.mark.parametrize("normalized", [True, False])
def test_the_field_of_a_few_labels_is_found_near_them_within_its_bound(normalized):
    rng = np.random.default_rng(0)
    graph = eb.Graph.build_knn(rng.random((5000, 1)), k=5)
    labelled = rng.permutation(5000)[:1500]
    field = eb.LatentField(normalized=normalized).operator(
        graph, labelled, rng.uniform(0.5, 2.0, 1500)
    )
    nodes, values = np.sort(labelled[:3]), rng.normal(size=(3, 2))
    right = np.zeros((5000, 2))
    right[nodes] = values
    exact = field.solve(right)
    for tolerance in (1e-2, 1e-5):
        where, found = field.solve_local(nodes, values, tolerance)
        exact_there, beyond = exact[where], np.delete(exact, where, axis=0)
        off = max(np.abs(found - exact_there).max(), np.abs(beyond).max())
        assert where.size < 2500 and off <= tolerance * np.abs(values).max()


def test_where_everyone_is_near_the_field_is_solved_for_everywhere():
    rng = np.random.default_rng(0)
    ends = rng.integers(0, 2000, (2, 8000))
    graph = eb.Graph.from_edges(ends.min(axis=0), ends.max(axis=0), n_nodes=2000)
    field = eb.LatentField().operator(graph, np.arange(50), np.ones(50))
    where, found = field.solve_local(np.array([3]), np.ones((1, 1)), 1e-6)
    assert np.array_equal(where, np.arange(2000))
    assert np.allclose(found, field.solve_labelled(np.eye(50)[:, [3]]), atol=1e-12)


def test_probabilities_without_known_labels_are_those_of_the_scores():
    graph, scores = eb.Graph.from_edges([0, 1], [1, 2]), np.array([[0.3], [-1.0], [2.0]])
    field = eb.LatentField().operator(graph, np.array([0]), np.ones(1))
    calibrated, loss = ProbabilityField(temperature=2.0, strength=0.7), eb.LogLoss()
    expected = loss.inverse_link(scores / 2.0)
    np.testing.assert_array_equal(calibrated.probabilities(scores, loss, None, field), expected)
    known = Labels(np.array([0]), np.ones((1, 1)), np.ones(1))
    np.testing.assert_array_equal(calibrated.probabilities(scores, loss, known, None), expected)
    np.testing.assert_array_equal(
        ProbabilityField(temperature=2.0, strength=0.0).probabilities(scores, loss, known, field),
        expected,
    )
    assert (calibrated.probabilities(scores, loss, known, field) != expected).any()


def test_masked_steps_are_twice_the_residual_as_published():
    graph = eb.Graph.from_edges([0, 1], [1, 2])
    labels = Labels(np.arange(3), np.arange(3.0)[:, None], np.ones(3))
    objective = objective_for(
        eb.MaskedLabels(),
        graph,
        eb.Laplacian().operator(graph),
        eb.SquaredError(),
        labels,
        None,
        0.0,
        0,
    )
    point, tree = objective.start(), np.ones((3, 1))
    assert objective.newton_step(point, tree, objective.propagate(tree, point)) == 2.0


def test_probabilities_are_not_corrected_before_it_is_known_by_how_much():
    assert ProbabilityField().temperature == 1.0 and ProbabilityField().strength == 0.0


@pytest.mark.parametrize(
    "change", [{"tau": 0.0}, {"tau": -0.5}, {"lam": -1.0}, {"unlabelled": -0.1}, {"tau": np.nan}]
)
def test_a_field_that_is_none_is_refused(change):
    with pytest.raises(ValueError, match=f"LatentField: {next(iter(change))} must be"):
        eb.LatentField(**change).operator(
            eb.Graph.from_edges([0, 1], [1, 2]), np.array([0]), np.ones(1)
        )


def test_calibration_is_looked_at_in_fifteen_bins():
    stated = np.array([[0.05, 0.95], [0.09, 0.91], [0.066, 0.934], [0.06, 0.94]])
    right = np.array(
        [[1.0], [0.0], [1.0], [1.0]]
    )  # the second, wrong, is alone in its bin; the others share theirs
    expected = (3.0 - 0.95 - 0.934 - 0.94 + 0.91) / 4
    assert expected_calibration_error(stated, right) == pytest.approx(expected)


def test_similarity_predicts_from_nodes_with_the_same_neighbours():
    """Labels of nodes on the same two hubs agree while neighbours (the hubs) have other labels."""
    rng = np.random.default_rng(0)
    n_hubs = 60
    hub = rng.integers(0, n_hubs, 600)
    node = np.arange(600) + n_hubs
    graph = eb.Graph.from_edges(np.r_[hub, (hub * 7 + 3) % n_hubs], np.r_[node, node])
    noise = 0.05 * rng.normal(size=600)
    y = np.r_[10 * rng.normal(size=n_hubs), rng.normal(size=n_hubs)[hub] + noise]
    X = rng.normal(size=(y.size, 2))
    labelled = node[rng.random(600) < 0.7]
    rest = np.setdiff1d(node, labelled)
    field = eb.LatentField(0.5, 0.005, normalized=False, similarity=True)
    model = eb.EBBSRegressor(60, smoothing=None, labels=field, random_state=0)
    model.fit(X, y[labelled], nodes=labelled, graph=graph)
    assert model.score(None, y, nodes=rest) > 0.8
