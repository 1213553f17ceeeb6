"""The summary: models, errors without and with the graph, variances and range of the field."""

from dataclasses import replace

import numpy as np
import pytest

import ebboost as eb
from ebboost.data.labels import Labels
from ebboost.model import summary
from ebboost.model.state import GraphGain
from ebboost.training import defaults
from tests.problems import fixed_regressor, homophilous, skewed


@pytest.fixture(scope="module")
def model():
    X, y, graph = homophilous(300)
    model = eb.EBBSRegressor(20, 0.2, smoothing=None, n_folds=3, random_state=0, n_jobs=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(defaults, "MAX_AVERAGED", 1)
        return model.fit(X, y[:200], nodes=np.arange(200), graph=graph)


def test_the_summary_names_models_parts_errors_and_candidates(model):
    text = model.summary()
    low, high = min(model.rounds_), max(model.rounds_)
    assert f"EBBSRegressor: mean of 3 models with {low} to {high} rounds" in text
    assert f"ended       {model.stop_reason_}" in text
    assert f"graph       used: {model.best_candidate_}" in text
    gain = model.gain_
    assert f"RMSE {gain.without:.4g} without the graph, {gain.with_graph:.4g} with it" in text
    best = model.selection_["candidate"][: summary.MAX_CANDIDATES]
    assert all(name in text for name in best)
    (selected,) = [line for line in text.splitlines() if line.lstrip().startswith("* ")]
    assert selected.endswith(model.best_candidate_)


def test_the_change_of_the_error_has_a_standard_error():
    text = summary.error_text(GraphGain("RMSE", 2.0, 1.5, 0.02, 100))
    assert text == "RMSE 2 without the graph, 1.5 with it: -25.0 ± 1.0 %"
    harm = summary.error_text(GraphGain("loss", -2.0, -1.5, 0.02, 100))
    assert harm.endswith(": +25.0 ± 1.0 %")
    assert summary.error_text(GraphGain("RMSE", 2.0, 2.0, 0.0, 9)).endswith("2 with it")


def test_one_model_without_a_graph_or_a_history():
    X = np.arange(20.0)[:, None]
    model = eb.EBBSRegressor(3, early_stopping=False).fit(X, X[:, 0])
    bare = type(model).from_state(replace(model.state_, history={})).summary()
    assert "EBBSRegressor: 3 rounds" in bare
    assert "none given" in bare
    assert "every label was trained on" in bare


@pytest.mark.parametrize("normalized", [True, False])
def test_the_range_is_where_the_correlation_on_a_path_is_one_over_e(normalized):
    n = 400
    adjacency = np.eye(n, k=1) + np.eye(n, k=-1)
    laplacian = np.diag(adjacency.sum(axis=1)) - adjacency
    if normalized:
        laplacian = laplacian / 2.0  # away from the ends every degree is 2
    covariance = np.linalg.inv(3.0 * laplacian + 0.02 * np.eye(n))
    field = eb.LatentField(3.0, 0.02, normalized=normalized)
    steps = 10
    correlation = covariance[n // 2, n // 2 + steps] / covariance[n // 2, n // 2]
    assert summary.field_range(field) == pytest.approx(-steps / np.log(correlation), rel=1e-3)
    assert summary.field_range(eb.LatentField(0.0)) == 0.0


def test_variances_of_field_and_noise_are_those_that_were_simulated(model):
    rng = np.random.default_rng(0)
    n = 60
    graph = eb.Graph.from_edges(range(n - 1), range(1, n))
    field = eb.LatentField(2.0, 0.1)
    nodes = np.arange(0, n, 2)
    posterior = field.operator(graph, nodes, np.ones(nodes.size))
    prior = np.linalg.inv(
        np.linalg.inv(posterior.solve(np.eye(n))) - np.diag(np.isin(range(n), nodes))
    )
    noise_variance = 0.25
    estimates = []
    for _ in range(300):
        truth = rng.multivariate_normal(np.zeros(n), noise_variance * prior, method="cholesky")
        target = (truth + np.sqrt(noise_variance) * rng.normal(size=n))[nodes, None]
        state = replace(
            model.state_,
            graph=graph,
            labels=Labels(nodes, target, np.ones(nodes.size)),
            candidate=replace(model.state_.candidate, labels=field),
            init_score=np.zeros(1),
            scores=np.zeros((n, 1)),
            propagated_scores=np.zeros((n, 1)),
            raw_predictions=posterior.posterior_mean(target),
        )
        estimates.append(summary.variance_shares(state))
    expected = (noise_variance * np.diag(prior)[nodes].mean(), noise_variance)
    assert np.mean(estimates, axis=0) == pytest.approx(expected, rel=0.1)


def test_other_models_have_no_variances(model):
    state = model.state_
    parts = replace(state.candidate, labels=None)
    assert summary.variance_shares(replace(state, candidate=parts)) is None
    X, y, graph = homophilous(100)
    classes = eb.EBBSClassifier(3, smoothing=None, labels="field", random_state=0)
    assert summary.variance_shares(classes.fit(X, y > 0, graph=graph).state_) is None
    assert "residual variance" not in classes.summary()
    X, y, graph = skewed()
    counted = fixed_regressor(labels="auto", selection="rules", early_stopping=True, loss="auto")
    counted.fit(X, y, graph=graph)
    assert counted.state_.candidate.loss is not None and counted.state_.label_field is not None
    assert summary.variance_shares(counted.state_) is None


def test_an_offset_does_not_change_the_variances():
    X, y, graph = homophilous(200)
    offset = 3.0 * X[:, [1]]
    settings = {"labels": "field", "loss": "squared_error"}
    without = fixed_regressor(**settings).fit(X, y, graph=graph)
    shifted = fixed_regressor(**settings).fit(X, y + offset[:, 0], graph=graph, offset=offset[:, 0])
    shares = [summary.variance_shares(m.state_) for m in (without, shifted)]
    assert shares[0] == pytest.approx(shares[1])
