"""Numerical honesty: single precision agrees with double, what did not converge says so, what is no number is named."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

import ebboost as eb
from ebboost.boosting import loop as boosting
from ebboost.boosting.objective import Objective
from ebboost.data.labels import Labels
from ebboost.propagation import SparseSolver, _compiled
from tests.strategies import graphs, random_graph

SMOOTHERS = [
    eb.Laplacian(2.0, 5),
    eb.Laplacian(2.0, 5, normalized=False),
    eb.Laplacian(2.0, 5, method="jacobi"),
    eb.Laplacian(2.0, 5, method="chebyshev"),
    eb.Laplacian(2.0, method="exact"),
    eb.Kernel("diffusion"),
    eb.Kernel("random-walk", p=3, lam=10.0),
    eb.Robust(2.0, 5, scale=1.0),
]


@pytest.mark.parametrize("smoother", SMOOTHERS, ids=repr)
@settings(max_examples=10, deadline=None)
@given(graphs(), st.integers(0, 10**6))
def test_single_precision_agrees_with_double_to_one_part_in_a_hundred_thousand(
    smoother, graph, seed
):
    """The tolerance stated in docs/reliability.md: 1e-5 of the largest score, for every operator."""
    scores = np.random.default_rng(seed).normal(size=(graph.n_nodes, 2))
    operator = smoother.operator(graph)
    full, short = operator.apply(scores), operator.apply(scores.astype(np.float32))
    assert short.dtype == np.float32
    np.testing.assert_allclose(short, full, rtol=0, atol=1e-5 * np.abs(scores).max())


def problem(n=12_000):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 4))
    y = X[:, 0] + np.sin(3 * X[:, 1]) + 0.1 * rng.normal(size=n)
    return X, y, random_graph(n, 4 * n)


def test_the_gradient_of_a_large_graph_is_that_of_double_precision():
    _, y, graph = problem()
    labels = Labels(np.arange(0, y.size, 2), y[::2, None], np.ones(y[::2].size))
    one, other = (
        Objective(eb.Laplacian().operator(graph), eb.SquaredError(), labels) for _ in range(2)
    )
    assert not one.double_precision
    other.double_precision = True
    found, expected = one.gradient(one.start()), other.gradient(other.start())
    assert not np.array_equal(found, expected)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6 * np.abs(expected).max())


@pytest.mark.parametrize("labels", ["none", "field"])
def test_a_fit_on_a_large_graph_is_that_of_double_precision_to_a_percent(labels, monkeypatch):
    """Trees that nearly tie may come out otherwise; their sum does not: 1 % of the spread of the predictions."""
    X, y, graph = problem()
    y[::2] = np.nan
    fits = []
    for exact_up_to in (10_000, 10**9):
        monkeypatch.setattr("ebboost.boosting.objective.DOUBLE_PRECISION_UP_TO", exact_up_to)
        model = eb.EBBSRegressor(
            15, smoothing=eb.Laplacian(1.0, 2), labels=labels, early_stopping=False, random_state=0
        )
        fits.append(model.fit(X, y, graph=graph).predict())
    short, full = fits
    assert not np.array_equal(short, full)
    assert np.sqrt(np.mean((short - full) ** 2)) < 0.01 * full.std()


@pytest.mark.parametrize("columns", [1, 2], ids=["one column", "several"])
@pytest.mark.parametrize("loops", ["compiled", "scipy"])
def test_a_solver_that_stopped_early_names_the_remedy(loops, columns, monkeypatch):
    if loops == "scipy":
        monkeypatch.setattr(_compiled, "COMPILED", None)
    elif _compiled.COMPILED is None:
        pytest.skip("the loops were not compiled here")
    monkeypatch.setattr(SparseSolver, "direct_up_to", 0)
    monkeypatch.setattr(SparseSolver, "max_iterations", 2)
    graph, scores = random_graph(300, 900), np.random.default_rng(0).normal(size=(300, columns))
    with pytest.warns(
        ConvergenceWarning, match=r"after 2 iterations.*lam=10000.* smaller one, normalized=True"
    ):
        eb.Laplacian(1e4, normalized=False, method="exact").operator(graph).apply(scores)
    with pytest.warns(
        ConvergenceWarning, match=r"smaller lam \(now 1000.0\) or a larger tau \(now 0.001\)"
    ):
        eb.LatentField(1000.0, 0.001).operator(graph, np.arange(300), np.ones(300)).posterior_mean(
            scores
        )


class Spoilt(eb.Loss):
    """Squared error that goes wrong in one of its parts, at one label, once the model has moved."""

    def __init__(self, part="gradient", by=np.nan):
        self.part, self.by = part, by

    def _spoilt(self, part, values, scores, target):
        moved = (target == 5.0) & (scores != scores[0, 0])
        hit = moved.any(axis=1) if part == "value" else moved
        return np.where(hit & (self.part == part), self.by, values)

    def value(self, scores, target):
        return self._spoilt("value", 0.5 * ((scores - target) ** 2).sum(axis=1), scores, target)

    def gradient(self, scores, target):
        return self._spoilt("gradient", scores - target, scores, target)

    def curvature(self, scores, target):
        return self._spoilt("curvature", np.ones_like(scores), scores, target)


@pytest.mark.parametrize(
    ("part", "by"),
    [
        ("value", np.nan),
        ("gradient", np.nan),
        ("gradient", np.inf),
        ("curvature", np.nan),
        ("curvature", -1.0),
    ],
)
def test_a_loss_that_is_no_number_is_named_with_its_node_and_round(part, by):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 2))
    y = np.round(X[:, 0])
    y[17] = 5.0
    model = eb.EBBSRegressor(10, loss=Spoilt(part, by), early_stopping=False, n_jobs=1)
    number = 1 if part == "value" else 2
    with pytest.raises(
        ValueError,
        match=rf"^Round {number}: the {part} of Spoilt\(.*\) is .*{by} ?\]? at node 17.*\[5.0\]",
    ):
        model.fit(X, y, graph=random_graph(80, 200))


def test_a_loss_that_overflows_on_the_way_is_stepped_back_from():
    y = np.exp(np.random.default_rng(0).normal(0.0, 3.0, 200))
    model = eb.EBBSRegressor(30, 1.0, loss="poisson", early_stopping=False, n_jobs=1).fit(
        np.log(y)[:, None], y
    )
    assert np.isfinite(model.predict()).all()
    assert (
        np.diff(model.history_["training"]) <= 1e-9 * np.abs(model.history_["training"][:-1])
    ).all()


def test_a_loss_of_the_wrong_shape_is_named():
    class Column(eb.SquaredError):
        def value(self, scores, target):
            return 0.5 * (scores - target) ** 2

    class Short(eb.SquaredError):
        def curvature(self, scores, target):
            return np.ones(3)

    X = np.arange(20.0)[:, None]
    for loss, words in (
        (Column(), r"value of Column\(\) must have shape \(20,\) here, got \(20, 1\)"),
        (Short(), r"curvature of Short\(\) must have shape \(20, 1\) here, got \(3,\)"),
    ):
        with pytest.raises(ValueError, match=words):
            eb.EBBSRegressor(2, loss=loss, early_stopping=False).fit(X, X[:, 0])


def test_the_loop_knows_no_array_library():
    assert "numpy" not in vars(boosting) and "np" not in vars(boosting)
