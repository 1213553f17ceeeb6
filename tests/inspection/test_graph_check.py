"""Statistics of check_graph against closed forms, and its estimate of what the graph adds."""

import numpy as np
import pandas as pd
import pytest

import ebboost as eb
from ebboost.inspection import graph_check


def ring(n):
    return eb.Graph.from_edges(np.arange(n), (np.arange(n) + 1) % n)


def grid(side):
    n = np.arange(side * side)
    right, below = n[n % side < side - 1], n[:-side]
    return eb.Graph.from_edges(
        np.concatenate([right, below]), np.concatenate([right + 1, below + side])
    )


def test_morans_i_equals_its_definition():
    rng = np.random.default_rng(0)
    graph = eb.Graph.build_knn(rng.random((40, 2)), k=4)
    nodes, y = np.sort(rng.permutation(40)[:30]), rng.normal(size=30)
    weights = graph.adjacency.toarray()[np.ix_(nodes, nodes)]
    z = y - y.mean()
    result = graph_check.label_autocorrelation(graph, nodes, y, "regression")
    assert result.value == pytest.approx(30 / weights.sum() * (z @ weights @ z) / (z @ z))
    assert (
        result.expected == pytest.approx(-1 / 29)
        and result.n_edges == np.count_nonzero(weights) // 2
    )


def test_alternating_labels_on_a_ring_have_the_extreme_values():
    nodes, y = np.arange(20), np.tile([0.0, 1.0], 10)
    assert graph_check.label_autocorrelation(
        ring(20), nodes, y, "regression"
    ).value == pytest.approx(-1.0)
    result = graph_check.label_autocorrelation(ring(20), nodes, y, "classification")
    assert (
        result.value == 0.0 and result.expected == pytest.approx(9 / 19) and result.p_value == 1.0
    )


def test_the_expected_edge_agreement_is_the_mean_over_permutations():
    rng, y = np.random.default_rng(0), np.repeat([0.0, 1.0, 2.0], [2, 3, 5])
    expected = graph_check.label_autocorrelation(
        ring(10), np.arange(10), y, "classification"
    ).expected
    permuted = [
        graph_check.label_autocorrelation(
            ring(10), np.arange(10), rng.permutation(y), "classification"
        ).value
        for _ in range(400)
    ]
    assert np.mean(permuted) == pytest.approx(expected, abs=0.03)


def test_labels_that_ignore_the_graph_have_no_small_p_value():
    y = np.random.default_rng(1).normal(size=400)
    assert (
        graph_check.label_autocorrelation(grid(20), np.arange(400), y, "regression").p_value > 0.02
    )
    assert (
        graph_check.label_autocorrelation(
            grid(20), np.arange(400), np.sort(y), "regression"
        ).p_value
        == 1 / 200
    )


def test_no_autocorrelation_without_linked_or_different_labels():
    graph = eb.Graph.from_edges([0, 2], [1, 3])
    assert (
        graph_check.label_autocorrelation(
            graph, np.array([0, 2]), np.array([1.0, 2.0]), "regression"
        )
        is None
    )
    assert (
        graph_check.label_autocorrelation(
            graph, np.array([0, 1]), np.array([1.0, 1.0]), "regression"
        )
        is None
    )


@pytest.mark.parametrize(
    ("y", "task"),
    [
        ([1.0, 2.0, 3.0, np.nan], "regression"),
        ([0, 1, 1, 0], "classification"),
        ([0.0, 1.0, np.nan, 1.0], "classification"),
        (["a", None, "b"], "classification"),
        ([True, False], "classification"),
        (np.array([1, None, 2, 3], dtype=object), "regression"),
        (pd.Series([1, None, 2, 3], dtype="Int64"), "regression"),
        (pd.Series([True, None, False], dtype="boolean"), "classification"),
    ],
)
def test_the_task_follows_from_the_labels(y, task):
    assert graph_check.infer_task(y) == task


def check(X, y, graph, **options):
    return eb.check_graph(X, y, graph, estimate=False, **options)


def test_sizes_and_missing_shares_are_counted():
    X = pd.DataFrame({"x": [1.0, np.nan, 3.0, 4.0, 5.0], "z": [1.0, 2.0, 3.0, 4.0, 4.5]})
    result = check(X, [1.0, 2.0, np.nan, 5.0, 4.0], eb.Graph.from_edges([0, 1], [1, 2], n_nodes=5))
    assert (
        result.n_nodes,
        result.n_edges,
        result.n_isolates,
        result.n_components,
        result.largest_component,
    ) == (5, 2, 2, 3, 3)
    assert result.missing == {"x": 0.2} and result.n_labelled == 4 and result.task == "regression"
    assert "x 20%" in str(result) and "2 nodes without an edge (40%)" in str(result)
    assert result.to_dict()["estimate"] is None


def test_too_few_labels_give_a_warning_and_wrong_arguments_raise():
    X = np.random.default_rng(0).normal(size=(25, 1))
    result = eb.check_graph(X, np.arange(25.0), grid(5))
    assert result.estimate is None and any("too few" in text for text in result.warnings)
    with pytest.raises(ValueError, match="task must be one of auto"):
        eb.check_graph(X, X[:, 0], grid(5), task="ranking")
    with pytest.raises(TypeError, match=r"must be an ebboost\.Graph"):
        eb.check_graph(X, X[:, 0], np.eye(25))
    with pytest.raises(ValueError, match="25 rows but graph has 36 nodes"):
        eb.check_graph(X, X[:, 0], grid(6))


def test_shares_below_all_are_not_rounded_to_all():
    complete = dict(
        eb.check_graph(np.arange(40.0)[:, None], np.arange(40.0), ring(40), estimate=False).facts()
    )
    assert (complete["isolates"], complete["components"]) == ("none", "1")
    graph = eb.Graph.from_edges(np.arange(2999), np.arange(1, 3000), n_nodes=3001)
    result = dict(
        eb.check_graph(np.arange(3001.0)[:, None], np.arange(3001.0), graph, estimate=False).facts()
    )
    assert result["isolates"] == "1 node without an edge (0.0333%)"
    assert result["components"] == "2, the largest with 99.9% of the nodes"


@pytest.mark.parametrize("y", [np.full(100, 3.5), np.full(100, "a", dtype=object)])
def test_a_constant_target_gives_a_warning_and_no_estimate(y):
    X = np.random.default_rng(0).normal(size=(100, 2))
    result = eb.check_graph(X, y, grid(10))
    assert result.estimate is None and result.autocorrelation is None
    assert any("All labels are equal" in text for text in result.warnings)
