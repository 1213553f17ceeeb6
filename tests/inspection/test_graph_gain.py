"""What the graph is worth, by the fit itself."""

import numpy as np
import pytest

import ebboost as eb
from ebboost.inspection import graph_gain
from ebboost.inspection.graph_gain import Estimate


def grid(side):
    coords = np.argwhere(np.ones((side, side))).astype(float)
    return eb.Graph.build_radius(coords, 1.0)


def problem(n=300):
    """Columns of noise, labels that vary over space, and the coordinates."""
    rng = np.random.default_rng(0)
    coords = rng.random((n, 2))
    y = np.sin(6 * coords[:, 0]) + 0.1 * rng.normal(size=n)
    return rng.normal(size=(n, 2)), y, coords


def test_an_informative_graph_helps_and_the_numbers_are_those_of_fit():
    X, y, coords = problem()
    graph = eb.Graph.build_knn(coords, k=6)
    check = eb.check_graph(X, y, graph, random_state=3)
    model = eb.EBBSRegressor(random_state=3).fit(X, y, graph=graph)
    estimate = check.estimate
    assert vars(model.gain_).items() <= vars(estimate).items()
    assert estimate.choice.split("; ") == model.state_.candidate_names
    assert estimate.gain > 5 * estimate.standard_error
    assert estimate.with_graph < 0.6 * estimate.without
    assert str(check).startswith("The graph helps: the RMSE at held-out labels falls by")
    assert check.to_dict()["estimate"]["gain"] == estimate.gain


def test_a_random_graph_is_not_said_to_help(all_folds):
    X, y, _ = problem()
    random = np.random.default_rng(1).random((300, 2))
    estimate = eb.check_graph(X, y, eb.Graph.build_knn(random, k=6)).estimate
    assert abs(estimate.gain) < 3 * estimate.standard_error + 0.02
    assert "helps" not in estimate.verdict


def test_classes_are_compared_by_their_log_loss():
    rng = np.random.default_rng(0)
    coords = rng.random((400, 2))
    y = np.where(coords[:, 0] > 0.5, "east", "west").astype(object)
    y[rng.random(400) < 0.2] = None
    graph = eb.Graph.build_knn(coords, k=6)
    estimate = eb.check_graph(rng.normal(size=(400, 2)), y, graph).estimate
    assert estimate.metric == "loss"
    assert estimate.with_graph < 0.5 < estimate.without


def test_callbacks_see_the_rounds_of_the_fit():
    X, y, coords = problem(100)
    seen = set()

    class Watch(eb.Callback):
        def after_round(self, info):
            seen.add((info.candidate, info.fold))

    eb.check_graph(X, y, eb.Graph.build_knn(coords, k=6), callbacks=Watch())
    assert ("none", 0) in seen
    assert len({candidate for candidate, _ in seen}) > 1


def test_unlabelled_regions_give_a_warning():
    rng = np.random.default_rng(0)
    y = rng.normal(size=400)
    y[200:] = np.nan
    warnings = eb.check_graph(rng.normal(size=(400, 2)), y, grid(20), estimate=False).warnings
    assert any("neighbours of each other" in text for text in warnings)
    y[:] = np.where(np.arange(400) % 3 == 0, np.nan, rng.random(400))
    warnings = eb.check_graph(rng.normal(size=(400, 2)), y, grid(20), estimate=False).warnings
    assert not any("neighbours of each other" in text for text in warnings)


def test_a_large_graph_is_estimated_on_a_connected_piece(monkeypatch):
    monkeypatch.setattr(graph_gain, "MAX_NODES", 150)
    rng = np.random.default_rng(0)
    estimate = eb.check_graph(rng.normal(size=(400, 2)), rng.normal(size=400), grid(20)).estimate
    assert (estimate.n_nodes, estimate.n_labels) == (150, 150)


@pytest.mark.parametrize(
    ("without", "with_graph", "error", "choice", "verdict", "gain"),
    [
        (2.01723, 2.0, 0.00119, "field", "The graph helps", "0.0172 ± 0.0012"),
        (3723.4, 2000.0, 119.0, "field", "falls by 46%", "1,723 ± 119"),
        (1.0, 2.0, 0.1, "field", "The graph does harm", "-1.00 ± 0.10"),
        (2.0, 1.9, 0.1, "field", "The graph adds little", "0.10 ± 0.10"),
        (2.0, 2.0, 0.0, "none", "The graph is not used", "0 ± 0"),
        (0.0, 0.0, 0.0, "field", "The graph adds little", "0 ± 0"),
    ],
)
def test_the_verdict_and_the_decimals_follow_from_the_standard_error(
    without, with_graph, error, choice, verdict, gain
):
    estimate = Estimate("RMSE", without, with_graph, error, 9, choice=choice, n_nodes=9)
    assert verdict in estimate.verdict
    assert estimate.gain_text == gain
