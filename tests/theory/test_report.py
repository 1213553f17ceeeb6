"""Reports on fitted models, and rates of convergence on real data."""

import os
from pathlib import Path

import numpy as np
import pytest

import ebboost as eb
from tests.problems import fixed_regressor, neighbor_sums, skewed

COUNTY = (
    Path(os.environ.get("EBBOOST_DATA", Path(__file__).parents[2] / "../shared/datasets"))
    / "county"
)


def test_report_names_the_theorem_that_applies():
    X, y, graph = neighbor_sums()

    def report(**changes):
        return eb.convergence.report(fixed_regressor(**changes).fit(X, y, graph=graph))

    assert (
        "every round descends" in report().guarantee
        and report().bound is None
        and report().monotone
    )
    assert "Corollary 1" in report(penalty=0.1).guarantee
    assert "none: the simple momentum" in report(momentum=True).guarantee
    corrected = report(momentum="corrected")
    assert "Theorem 1" in corrected.guarantee and "is beyond" in corrected.guarantee
    wild = report(momentum=eb.CorrectedMomentum(1.0), n_estimators=100, learning_rate=1.0)
    assert "restarted after round" in wild.guarantee and not wild.monotone
    assert np.isnan(wild.bound[-1]) and "rose in" in repr(wild)
    assert report(smoothing=None).smoothing is None
    for text in ("training loss", "guarantee", "bound", "cosine Γ", "‖P^(k) − P*‖"):
        assert text in repr(corrected)


def test_the_loss_is_that_of_training():
    X, y, graph = skewed()
    known = np.arange(400)
    m = eb.EBBSRegressor(40, 0.3, selection="rules", n_folds=1, random_state=0, n_jobs=1)
    m.fit(X, y[known], nodes=known, graph=graph)
    assert type(m.state_.training_loss) is eb.Poisson
    result = eb.convergence.report(m)
    steps = -np.diff(result.loss)
    assert result.monotone and 0.0 < steps[0] < 2.0 * steps[1]  # before the first round, too
    assert "Corollary" not in result.guarantee


def test_report_rebuilds_the_objective_of_the_fit(tmp_path):
    """The last value of the history is the loss of the final scores."""
    X, y, graph = neighbor_sums(n=400, n_labelled=300)
    weight = np.random.default_rng(1).random(400) + 0.5
    for labels in ("none", "field"):
        m = fixed_regressor(
            labels=labels,
            early_stopping=True,
            n_iter_no_change=10_000,
            penalty=0.2,
            momentum="corrected",
        )
        m.fit(X, y, sample_weight=weight, graph=graph)
        result = eb.convergence.report(m)
        best = int(np.argmin(m.history_["validation"]))
        assert result.optimum == pytest.approx(m.history_["training"][best], rel=1e-6)
        m.save(tmp_path / "m.ebb")
        again = eb.convergence.report(eb.load(tmp_path / "m.ebb"))
        np.testing.assert_allclose(again.bound, result.bound)


def test_propagation_gap_bounds_what_more_steps_would_change():
    X, y, graph = neighbor_sums()
    for steps in (1, 3, 10):
        m = fixed_regressor(smoothing=eb.Laplacian(5.0, steps)).fit(X, y, graph=graph)
        ideal = (
            eb.Laplacian(5.0, method="exact").operator(graph).apply(m.scores_)[:120, 0]
            + m.init_score_[0]
        )
        result = eb.convergence.report(m)
        assert (
            abs(0.5 * np.mean((y[:120] - ideal) ** 2) - result.loss[-1]) <= result.propagation_gap
        )
    assert (
        eb.convergence.report(
            fixed_regressor(smoothing=eb.Laplacian(method="exact")).fit(X, y, graph=graph)
        ).propagation_gap
        == 0
    )


def test_report_rejects_models_without_a_theorem():
    X, y, graph = neighbor_sums()
    with pytest.raises(ValueError, match="masked"):
        eb.convergence.report(fixed_regressor(labels="masked").fit(X, y, graph=graph))
    old = fixed_regressor().fit(X, y, graph=graph)
    del old.history_["cosine"]
    with pytest.raises(ValueError, match="history_ has no cosines"):
        eb.convergence.report(old)


def lucas():
    X, y, graph, _ = eb.datasets.load_lucas()
    known = np.random.default_rng(0).permutation(2000)[:1200]
    return X.iloc[:2000], y[:2000], eb.Graph.from_scipy(graph.adjacency[:2000, :2000]), known


def county():
    if not COUNTY.exists():
        pytest.skip("County is not at hand")
    X, y, graph, splits = eb.datasets.load_folder(COUNTY)
    return X, y.astype(float), graph, splits[0]["train"]


@pytest.fixture(scope="module", params=[lucas, county], ids=["lucas", "county"])
def fitted(request):
    X, y, graph, known = request.param()

    def fit(n_rounds, **changes):
        return fixed_regressor(n_estimators=n_rounds, **{"learning_rate": 0.02} | changes).fit(
            X, y[known], nodes=known, graph=graph
        )

    return fit


def decay_exponent(loss, first, last):
    t = np.arange(first, last)
    return np.polyfit(np.log(t), np.log(loss[first:last]), 1)[0]


def test_momentum_reaches_the_same_training_loss_in_a_fifth_of_the_rounds(fitted):
    """At the same learning rate and with the same trees; the gain grows with the rounds."""
    plain = eb.convergence.report(fitted(640))
    assert plain.monotone
    for momentum in ("simple", "corrected"):
        fast = eb.convergence.report(fitted(320, momentum=momentum)).loss
        reached = np.minimum.accumulate(fast)
        gains = [rounds / np.argmax(reached <= plain.loss[rounds]) for rounds in (40, 160, 640)]
        assert gains[2] >= 5.0
        assert gains[0] < gains[1] < gains[2]
    assert decay_exponent(fast, 40, 320) <= -2.0 < -1.0 < decay_exponent(plain.loss, 40, 320)


def test_penalty_makes_convergence_linear(fitted):
    """The distance from the optimum falls linearly on a logarithmic axis."""
    deep = eb.LightGBM(64, min_child_samples=1, params={"min_sum_hessian_in_leaf": 1e-6})
    result = eb.convergence.report(fitted(200, learning_rate=0.5, penalty=1.0, learner=deep))
    gap, t = result.loss - result.optimum, np.arange(20, 201)
    assert result.monotone and (gap > 0).all() and (result.loss <= result.bound).all()
    assert np.corrcoef(t, np.log(gap[20:]))[0, 1] < -0.99
    halves = [
        np.polyfit(t[part], np.log(gap[20:][part]), 1)[0] for part in (slice(0, 90), slice(90, 181))
    ]
    assert halves[1] < -0.01 and 0.5 < halves[1] / halves[0] < 2.0


@pytest.mark.parametrize("loss", ["poisson", "huber", "logistic"])
@pytest.mark.parametrize("labels", ["none", eb.LatentField(1.0, 0.3)], ids=["plain", "field"])
def test_the_optimum_of_a_convex_loss_is_within_its_gap(loss, labels):
    X, y, graph = neighbor_sums(n=60, n_labelled=40)
    kind = eb.EBBSClassifier if loss == "logistic" else eb.EBBSRegressor
    options = {"penalty": 1.0, "labels": labels, "smoothing": eb.Laplacian(1.0, 2)}
    options |= {"early_stopping": False, "random_state": 0, "learning_rate": 0.5, "n_jobs": 1}
    if loss == "logistic":
        y = np.where(np.isnan(y), None, y > 0)
    else:
        y = np.round(np.exp(y)) if loss == "poisson" else y
        options["loss"] = loss
    short, long = (
        eb.convergence.report(kind(rounds, **options).fit(X, y, graph=graph)) for rounds in (10, 60)
    )
    assert short.monotone and "every round descends" in short.guarantee
    assert 0.0 < short.loss[-1] - long.loss[-1] <= short.optimality_gap
    assert long.optimality_gap < short.optimality_gap and "optimum" in str(long)
