"""What check_graph finds: closed forms for its figures, made-up faults for its warnings."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ebboost as eb
from ebboost.inspection import graph_check as checking


def ring(n):
    return eb.Graph.from_edges(np.arange(n), (np.arange(n) + 1) % n)


def grid(side):
    n = np.arange(side * side)
    right, below = n[n % side < side - 1], n[:-side]
    return eb.Graph.from_edges(
        np.concatenate([right, below]), np.concatenate([right + 1, below + side])
    )


def test_morans_i_is_what_its_definition_says():
    rng = np.random.default_rng(0)
    graph = eb.Graph.build_knn(rng.random((40, 2)), k=4)
    nodes, y = np.sort(rng.permutation(40)[:30]), rng.normal(size=30)
    weights = graph.adjacency.toarray()[np.ix_(nodes, nodes)]
    z = y - y.mean()
    found = checking.label_autocorrelation(graph, nodes, y, "regression")
    assert found.value == pytest.approx(30 / weights.sum() * (z @ weights @ z) / (z @ z))
    assert (
        found.expected == pytest.approx(-1 / 29) and found.n_edges == np.count_nonzero(weights) // 2
    )


def test_alternating_labels_on_a_ring_have_the_extreme_values():
    nodes, y = np.arange(20), np.tile([0.0, 1.0], 10)
    assert checking.label_autocorrelation(ring(20), nodes, y, "regression").value == pytest.approx(
        -1.0
    )
    found = checking.label_autocorrelation(ring(20), nodes, y, "classification")
    assert found.value == 0.0 and found.expected == pytest.approx(9 / 19) and found.p_value == 1.0


def test_the_expected_agreement_is_the_mean_over_random_deals():
    rng, y = np.random.default_rng(0), np.repeat([0.0, 1.0, 2.0], [2, 3, 5])
    expected = checking.label_autocorrelation(ring(10), np.arange(10), y, "classification").expected
    deals = [
        checking.label_autocorrelation(
            ring(10), np.arange(10), rng.permutation(y), "classification"
        ).value
        for _ in range(400)
    ]
    assert np.mean(deals) == pytest.approx(expected, abs=0.03)


def test_labels_that_ignore_the_graph_have_no_small_p_value():
    y = np.random.default_rng(1).normal(size=400)
    assert checking.label_autocorrelation(grid(20), np.arange(400), y, "regression").p_value > 0.02
    assert (
        checking.label_autocorrelation(grid(20), np.arange(400), np.sort(y), "regression").p_value
        == 1 / 200
    )


def test_nothing_to_compare_gives_no_figure():
    graph = eb.Graph.from_edges([0, 2], [1, 3])
    assert (
        checking.label_autocorrelation(graph, np.array([0, 2]), np.array([1.0, 2.0]), "regression")
        is None
    )
    assert (
        checking.label_autocorrelation(graph, np.array([0, 1]), np.array([1.0, 1.0]), "regression")
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
    assert checking.task_of(y) == task


# ---------------------------------------------------------------------- one column alone


@given(st.floats(-3, 3).filter(lambda power: abs(power) > 0.1))
def test_a_monotone_copy_explains_everything(power):
    y = np.random.default_rng(0).random(200) + 0.1
    assert checking.explained_by(y**power, y, False, "regression") == pytest.approx(1.0)


def test_noise_explains_next_to_nothing_however_many_bins():
    rng = np.random.default_rng(0)
    column, y = rng.normal(size=2000), rng.normal(size=2000)
    assert checking.explained_by(column, y, False, "regression") < 0.05
    assert checking.explained_by(column, (y > 0).astype(float), False, "classification") < 0.1
    names = rng.integers(0, 1000, 2000).astype(float)  # as many names as there can be
    assert checking.explained_by(names, y, True, "regression") < 0.05


def test_a_copy_that_rises_and_falls_and_a_copy_of_classes_are_seen():
    rng = np.random.default_rng(0)
    column = rng.normal(size=4000)
    assert checking.explained_by(column, np.abs(column), False, "regression") > 0.95
    classes = rng.integers(0, 3, 500).astype(float)
    assert checking.explained_by(
        (classes + 1) % 3, classes, True, "classification"
    ) == pytest.approx(1.0)
    assert checking.explained_by(-classes, classes, False, "classification") == pytest.approx(1.0)


# ---------------------------------------------------------------------- warnings


def check(X, y, graph, **options):
    return eb.check_graph(X, y, graph, estimate=False, **options)


def test_each_fault_is_named_and_a_clean_table_has_none():
    rng = np.random.default_rng(0)
    n = 400
    y = rng.normal(size=n)
    y[::4] = np.nan
    clean = pd.DataFrame({"x": rng.normal(size=n), "kind": rng.choice(["a", "b"], n)})
    assert check(clean, y, grid(20)).warnings == []
    full = np.where(np.isnan(y), 0.0, y)
    faults = {
        "copy": (np.exp(full), "nearly copies the target"),
        "close": (full + 0.2 * rng.normal(size=n), "by itself: would you know it"),
        "same": (np.ones(n), "'same' says nothing: all its values are equal"),
        "nothing": (np.full(n, np.nan), "'nothing' says nothing: it is empty"),
        "number": (np.arange(n), "like an id"),
        "label": ([f"row {i}" for i in range(n)], "like an id"),
        "late": (
            np.where(np.isnan(y), np.nan, rng.normal(size=n)),
            "is empty in 100 % of the rows to predict",
        ),
    }
    for name, (column, words) in faults.items():
        (found,) = check(clean.assign(**{name: column}), y, grid(20)).warnings
        assert words in found and repr(name) in found


def test_faults_of_the_graph_and_of_rows_are_named():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"x": rng.normal(size=100)})
    y = np.repeat(["a", "b"], 50).astype(object)
    ties = np.concatenate([np.arange(49), np.arange(50, 99)])
    assert "made from the labels" in check(X, y, eb.Graph.from_edges(ties, ties + 1)).warnings[0]
    y[0] = None
    lonely = eb.Graph.from_edges(np.arange(1, 99), np.arange(2, 100), n_nodes=100)
    assert "Without any edge: 1 of the 1 nodes" in check(X, y, lonely).warnings[0]
    doubled = pd.DataFrame({"x": np.tile(rng.normal(size=50), 2)})
    assert any("50 rows repeat another" in text for text in check(doubled, y, ring(100)).warnings)


@given(st.integers(0, 2**32))
def test_rows_that_repeat_are_counted_exactly(seed):
    rng = np.random.default_rng(seed)
    values = rng.choice([0.0, -0.0, 1.0, np.nan, 1e300, -1e-300], size=(60, 4))
    wanted = len({tuple("?" if v != v else v + 0.0 for v in row) for row in values.tolist()})
    assert np.unique(checking._row_hashes(values)).size == wanted


def test_sizes_gaps_and_the_page_are_right():
    X = pd.DataFrame({"x": [1.0, np.nan, 3.0, 4.0, 5.0], "z": [1.0, 2.0, 3.0, 4.0, 4.5]})
    found = check(X, [1.0, 2.0, np.nan, 5.0, 4.0], eb.Graph.from_edges([0, 1], [1, 2], n_nodes=5))
    assert (
        found.n_nodes,
        found.n_edges,
        found.n_isolates,
        found.n_components,
        found.largest_component,
    ) == (5, 2, 2, 3, 3)
    assert found.missing == {"x": 0.2} and found.n_labelled == 4 and found.task == "regression"
    assert "x 20 %" in str(found) and "2 nodes without an edge (40 %)" in str(found)
    assert found.to_dict()["estimate"] is None


# ---------------------------------------------------------------------- what the graph adds


def test_the_gain_and_its_error_are_those_of_paired_differences():
    rng = np.random.default_rng(0)
    before = [rng.random(1000) for _ in range(4)]
    after = [losses - 0.1 for losses in before]
    gain, error, levels = checking.paired_gain(before, after, root=False)
    assert (
        gain == pytest.approx(0.1)
        and error == pytest.approx(0.0, abs=1e-12)
        and levels[0] == pytest.approx(0.5, abs=0.02)
    )
    noisy = [losses + rng.normal(size=1000) for losses in before]
    _, error, _ = checking.paired_gain(before, noisy, root=False)
    assert 0.9 / np.sqrt(4000) < error < 3.0 / np.sqrt(4000)
    gain, error, (one, other) = checking.paired_gain([4.0 * a for a in before], before, root=True)
    assert one == pytest.approx(2 * other) and gain == pytest.approx(other) and error < 0.02


def test_a_graph_that_knows_helps_and_one_that_does_not_adds_nothing():
    rng = np.random.default_rng(0)
    place = rng.random((400, 2))
    y = np.sin(6 * place[:, 0]) + 0.1 * rng.normal(size=400)
    X = rng.normal(size=(400, 2))
    steps = []
    good = eb.check_graph(
        X, y, eb.Graph.build_knn(place, k=6), progress=lambda *step: steps.append(step)
    )
    assert good.estimate.gain > 5 * good.estimate.standard_error and "The graph helps" in str(good)
    assert good.estimate.with_graph < 0.6 * good.estimate.without and steps == [
        (i, 6) for i in range(1, 7)
    ]
    ignorant = eb.check_graph(X, y, eb.Graph.build_knn(rng.random((400, 2)), k=6)).estimate
    assert (
        abs(ignorant.gain) < 3 * ignorant.standard_error + 0.02 and "helps" not in ignorant.verdict
    )


def test_classes_are_compared_by_accuracy():
    rng = np.random.default_rng(0)
    place = rng.random((600, 2))
    y = np.where(place[:, 0] > 0.5, "east", "west").astype(object)
    y[rng.random(600) < 0.2] = None
    found = eb.check_graph(
        rng.normal(size=(600, 2)), y, eb.Graph.build_knn(place, k=6), n_folds=2
    ).estimate
    assert found.metric == "accuracy" and found.with_graph > 0.9 > found.without
    assert "points more accuracy" in found.verdict


def test_regions_without_labels_are_estimated_by_holding_out_regions():
    rng = np.random.default_rng(0)
    y = np.repeat(np.linspace(0, 1, 20), 20) + 0.1 * rng.normal(size=400)
    X = rng.normal(size=(400, 2))
    y[200:] = np.nan
    found = eb.check_graph(X, y, grid(20), n_folds=2)
    assert found.estimate.folds == "blocks" and any(
        "lie together" in text for text in found.warnings
    )
    y[:] = np.where(np.arange(400) % 3 == 0, np.nan, 1.0 + rng.random(400))
    assert eb.check_graph(X, y, grid(20), n_folds=2).estimate.folds == "random"


def test_a_large_graph_is_estimated_on_a_connected_piece(monkeypatch):
    monkeypatch.setattr(checking, "MOST_NODES", 150)
    rng = np.random.default_rng(0)
    found = eb.check_graph(
        rng.normal(size=(400, 2)), rng.normal(size=400), grid(20), n_folds=2
    ).estimate
    assert (found.n_nodes, found.n_labels) == (150, 150)


def test_too_few_labels_and_wrong_arguments_are_said():
    X = np.random.default_rng(0).normal(size=(25, 1))
    found = eb.check_graph(X, np.arange(25.0), grid(5))
    assert found.estimate is None and any("too few" in text for text in found.warnings)
    with pytest.raises(ValueError, match="task must be one of auto"):
        eb.check_graph(X, X[:, 0], grid(5), task="ranking")
    with pytest.raises(TypeError, match=r"must be an ebboost\.Graph"):
        eb.check_graph(X, X[:, 0], np.eye(25))
    with pytest.raises(ValueError, match="25 rows but graph has 36 nodes"):
        eb.check_graph(X, X[:, 0], grid(6))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (18413.2, "18,410"),
        (0.053581, "0.05358"),
        (-2.5, "-2.500"),
        (0.0, "0"),
        (1e-7, "1e-07"),
        (99999.0, "100,000"),
    ],
)
def test_figures_are_written_in_full(value, text):
    assert checking.figure(value) == text


def test_a_gain_is_written_to_the_place_of_its_error():
    given = {
        "metric": "RMSE",
        "without": 2.0,
        "with_graph": 1.0,
        "choices": ["graph"],
        "folds": "random",
    }
    given |= {"n_nodes": 9, "n_labels": 9}
    assert (
        checking.Estimate(gain=0.01723, standard_error=0.00119, **given).gain_text
        == "0.0172 ± 0.0012"
    )
    assert checking.Estimate(gain=1723.4, standard_error=119.0, **given).gain_text == "1,723 ± 119"
    assert "harm" in checking.Estimate(gain=-1.0, standard_error=0.1, **given).verdict
    assert "chance" in checking.Estimate(gain=0.1, standard_error=0.1, **given).verdict
    unused = checking.Estimate(
        gain=0.0, standard_error=0.0, **given | {"choices": ["none", "none"]}
    )
    assert "not used" in unused.verdict and unused.gain_text == "0 ± 0"


def test_facts_call_all_all_and_nearly_all_not():
    whole = dict(
        eb.check_graph(np.arange(40.0)[:, None], np.arange(40.0), ring(40), estimate=False).facts()
    )
    assert (whole["isolates"], whole["components"]) == ("none", "1")
    graph = eb.Graph.from_edges(np.arange(2999), np.arange(1, 3000), n_nodes=3001)
    found = dict(
        eb.check_graph(np.arange(3001.0)[:, None], np.arange(3001.0), graph, estimate=False).facts()
    )
    assert found["isolates"] == "1 node without an edge (0.0333 %)"
    assert found["components"] == "2, the largest with 99.9 % of the nodes"
