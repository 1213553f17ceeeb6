"""Standard errors of the field's strengths and of the likelihood's parameters."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

import ebboost as eb
from ebboost.uncertainty import Likelihood
from tests import dense
from tests.strategies import homophilous, quick
from tests.test_strengths import simulated


def test_the_marginal_likelihood_of_numbers_is_that_of_their_covariance():
    places, labels, scores = simulated(eb.SquaredError(), 2.0, 0.2, n=64, per_node=2)
    start = eb.LatentField(1.0, 0.5)
    own = Likelihood(places, labels, scores, eb.SquaredError(), start, [], 0.7)

    def expected(lam, tau, noise):
        covariance = np.linalg.inv(dense.precision(places.graph, eb.LatentField(lam, tau)))
        nodes = places.node_of_row
        covariance = noise * (covariance[np.ix_(nodes, nodes)] + np.eye(nodes.size))
        return -multivariate_normal(cov=covariance).logpdf((labels.target - scores)[:, 0])

    points = [(1.0, 0.5, 0.7), (3.0, 0.1, 1.2)]
    change = np.subtract(*(own.minus_log(np.log(one)) for one in points))
    assert change == pytest.approx(np.subtract(*(expected(*one) for one in points)), rel=1e-6)


@pytest.mark.parametrize(
    "loss", [eb.SquaredError(), eb.Poisson(), eb.NegativeBinomial(4.0)], ids=repr
)
def test_intervals_contain_the_truth_as_often_as_they_say(loss):
    inside = {}
    for seed in range(40):
        places, labels, scores = simulated(loss, 1.0, 0.2, n=196, seed=seed, per_node=3)
        parts = (places, labels, scores, loss, eb.LatentField(1.5, 0.1), list(loss.get_params()))
        true = {"λ": 1.0, "τ": 0.2, "noise": 1.0} | loss.get_params()
        for one in Likelihood(*parts).estimates():
            is_inside = one.lower <= true[one.parameter] <= one.upper
            inside.setdefault(one.parameter, []).append(is_inside)
    assert len(inside) >= 2
    for coverage in inside.values():
        assert 0.8 <= np.mean(coverage) <= 0.99


def test_a_model_states_them_on_demand(tmp_path):
    X, y, graph = homophilous()
    model = quick().fit(X, y, graph=graph)
    table = model.estimates_
    assert table["parameter"].tolist() == ["λ", "τ", "noise"]
    assert (table["lower"] < table["estimate"]).all() and (table["estimate"] < table["upper"]).all()
    assert "estimates   λ " in model.summary()
    model.save(tmp_path / "model.ebb")
    assert eb.load(tmp_path / "model.ebb").estimates_.equals(table)


def test_groups_have_one_strength_and_counts_their_own_parameters():
    random = np.random.default_rng(0)
    groups = np.repeat(np.arange(60), 10)
    effect = random.normal(size=60)[groups]
    X = random.normal(size=(600, 2))
    y = eb.ZeroInflated(3.0, 0.3).sample(random, (1.0 + effect)[:, None])[:, 0]
    model = quick(loss="zero_inflated_negative_binomial").fit(X, y, groups=groups)
    table = model.estimates_.set_index("parameter")
    assert table.index.tolist() == ["λ + τ", "theta", "share"]
    assert (table["lower"] < [1.5, 3.5, 0.35]).all() and (table["upper"] > [0.7, 2.5, 0.25]).all()


def test_nothing_is_stated_of_one_count_a_node_and_of_classes():
    X, y, graph = homophilous()
    counts = np.random.default_rng(0).poisson(np.exp(np.clip(y, -2.0, 2.0)))
    assert not len(quick(loss="poisson").fit(X, counts, graph=graph).estimates_)
    model = eb.EBBSClassifier(20, random_state=0, n_jobs=1).fit(X, y > 0.0, graph=graph)
    assert not len(model.estimates_) and "by likelihood" not in model.summary()
