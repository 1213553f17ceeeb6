"""Cross-validated gain of the graph and its standard error."""

import numpy as np
import pytest

import ebboost as eb
from ebboost.inspection import graph_gain


def grid(side):
    coords = np.argwhere(np.ones((side, side))).astype(float)
    return eb.Graph.build_radius(coords, 1.0)


def test_the_gain_and_its_error_are_those_of_paired_differences():
    rng = np.random.default_rng(0)
    before = [rng.random(1000) for _ in range(4)]
    after = [losses - 0.1 for losses in before]
    gain, error, levels = graph_gain.paired_gain(before, after, root=False)
    assert (
        gain == pytest.approx(0.1)
        and error == pytest.approx(0.0, abs=1e-12)
        and levels[0] == pytest.approx(0.5, abs=0.02)
    )
    noisy = [losses + rng.normal(size=1000) for losses in before]
    _, error, _ = graph_gain.paired_gain(before, noisy, root=False)
    assert 0.9 / np.sqrt(4000) < error < 3.0 / np.sqrt(4000)
    gain, error, (one, other) = graph_gain.paired_gain([4.0 * a for a in before], before, root=True)
    assert one == pytest.approx(2 * other) and gain == pytest.approx(other) and error < 0.02


def test_an_informative_graph_helps_and_a_random_one_adds_nothing():
    rng = np.random.default_rng(0)
    coords = rng.random((400, 2))
    y = np.sin(6 * coords[:, 0]) + 0.1 * rng.normal(size=400)
    X = rng.normal(size=(400, 2))
    steps = []
    good = eb.check_graph(
        X, y, eb.Graph.build_knn(coords, k=6), progress=lambda *step: steps.append(step)
    )
    assert good.estimate.gain > 5 * good.estimate.standard_error and "The graph helps" in str(good)
    assert good.estimate.with_graph < 0.6 * good.estimate.without and steps == [
        (i, 6) for i in range(1, 7)
    ]
    random_graph = eb.check_graph(X, y, eb.Graph.build_knn(rng.random((400, 2)), k=6)).estimate
    assert (
        abs(random_graph.gain) < 3 * random_graph.standard_error + 0.02
        and "helps" not in random_graph.verdict
    )


def test_classes_are_compared_by_accuracy():
    rng = np.random.default_rng(0)
    coords = rng.random((600, 2))
    y = np.where(coords[:, 0] > 0.5, "east", "west").astype(object)
    y[rng.random(600) < 0.2] = None
    result = eb.check_graph(
        rng.normal(size=(600, 2)), y, eb.Graph.build_knn(coords, k=6), n_folds=2
    ).estimate
    assert result.metric == "accuracy" and result.with_graph > 0.9 > result.without
    assert "accuracy on held-out labels rises by" in result.verdict


def test_unlabelled_regions_are_estimated_with_block_folds():
    rng = np.random.default_rng(0)
    y = np.repeat(np.linspace(0, 1, 20), 20) + 0.1 * rng.normal(size=400)
    X = rng.normal(size=(400, 2))
    y[200:] = np.nan
    result = eb.check_graph(X, y, grid(20), n_folds=2)
    assert result.estimate.folds == "blocks" and any(
        "neighbours of each other" in text for text in result.warnings
    )
    y[:] = np.where(np.arange(400) % 3 == 0, np.nan, 1.0 + rng.random(400))
    assert eb.check_graph(X, y, grid(20), n_folds=2).estimate.folds == "random"


def test_a_large_graph_is_estimated_on_a_connected_piece(monkeypatch):
    monkeypatch.setattr(graph_gain, "MAX_NODES", 150)
    rng = np.random.default_rng(0)
    result = eb.check_graph(
        rng.normal(size=(400, 2)), rng.normal(size=400), grid(20), n_folds=2
    ).estimate
    assert (result.n_nodes, result.n_labels) == (150, 150)


def test_a_gain_has_the_decimals_of_its_standard_error():
    fields = {
        "metric": "RMSE",
        "without": 2.0,
        "with_graph": 1.0,
        "choices": ["graph"],
        "folds": "random",
    }
    fields |= {"n_nodes": 9, "n_labels": 9}
    assert (
        graph_gain.Estimate(gain=0.01723, standard_error=0.00119, **fields).gain_text
        == "0.0172 ± 0.0012"
    )
    assert (
        graph_gain.Estimate(gain=1723.4, standard_error=119.0, **fields).gain_text == "1,723 ± 119"
    )
    assert "harm" in graph_gain.Estimate(gain=-1.0, standard_error=0.1, **fields).verdict
    assert "adds little" in graph_gain.Estimate(gain=0.1, standard_error=0.1, **fields).verdict
    unused = graph_gain.Estimate(
        gain=0.0, standard_error=0.0, **fields | {"choices": ["none", "none"]}
    )
    assert "not used" in unused.verdict and unused.gain_text == "0 ± 0"


def test_an_estimate_without_any_error_has_a_verdict():
    fields = {"choices": ["graph"], "folds": "random", "n_nodes": 9, "n_labels": 9}
    exact = graph_gain.Estimate("RMSE", 0.0, 0.0, 0.0, 0.0, **fields)
    assert "adds little" in exact.verdict and exact.gain_text == "0 ± 0"
