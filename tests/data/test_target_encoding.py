"""Ordered target statistics against a literal loop, and against what they must not know."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebboost.data.labels import Labels
from ebboost.data.table import Table
from ebboost.data.target_encoding import OrderedTargetEncoder


def example(seed, n=30, n_outputs=1, n_categories=4):
    """A numeric column between two of categories (-1: missing), two thirds labelled."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(-1, n_categories, (n, 2)).astype(float)
    codes[codes < 0] = np.nan
    values = np.column_stack([codes[:, 0], rng.normal(size=n), codes[:, 1]])
    table = Table(values, ("a", "x", "b"), categorical=(0, 2), origin=(0, 1, 2))
    nodes = np.sort(rng.choice(n, 2 * n // 3, replace=False))
    labels = Labels(
        nodes, rng.normal(3.0, 1.0, (nodes.size, n_outputs)), rng.random(nodes.size) + 0.1
    )
    return table, labels


def same_category(a, b):
    return a == b or (np.isnan(a) and np.isnan(b))


def slow_encoding(table, labels, column, seed):
    """One node and one label at a time; every sum starts from nothing."""
    order = np.random.default_rng(seed).permutation(labels.nodes.size)
    position = {labels.nodes[label]: rank for rank, label in enumerate(order)}
    result = np.empty((table.n_rows, labels.target.shape[1]))
    for node in range(table.n_rows):
        rank = position.get(node)
        heard = [label for label in order if rank is None or position[labels.nodes[label]] < rank]
        for_prior = heard or [label for label in order if labels.nodes[label] != node]
        prior = sum(labels.weight[label] * labels.target[label] for label in for_prior)
        prior = prior / sum(labels.weight[label] for label in for_prior)
        total, count = 1.0 * prior, 1.0
        for label in heard:
            if same_category(table.values[labels.nodes[label], column], table.values[node, column]):
                total = total + labels.weight[label] * labels.target[label]
                count += labels.weight[label]
        result[node] = total / count
    return result


@given(seed=st.integers(0, 10_000), n_outputs=st.integers(1, 3))
@settings(max_examples=25, deadline=None)
def test_equals_a_literal_loop_over_nodes_and_labels(seed, n_outputs):
    table, labels = example(seed, n_outputs=n_outputs)
    encoded = OrderedTargetEncoder().fit_transform(table, labels, seed)
    first, last = encoded.values[:, :n_outputs], encoded.values[:, n_outputs + 1 :]
    np.testing.assert_allclose(first, slow_encoding(table, labels, 0, seed), rtol=1e-12)
    np.testing.assert_allclose(last, slow_encoding(table, labels, 2, seed), rtol=1e-12)
    assert (encoded.values[:, n_outputs] == table.values[:, 1]).all()
    assert encoded.names == ("a",) * n_outputs + ("x",) + ("b",) * n_outputs
    assert encoded.origin == (0,) * n_outputs + (1,) + (2,) * n_outputs
    assert encoded.categorical == ()


@given(seed=st.integers(0, 10_000), changed=st.integers(0, 19))
@settings(max_examples=50, deadline=None)
def test_a_label_never_enters_the_encoding_of_its_own_node(seed, changed):
    table, labels = example(seed)
    target = labels.target.copy()
    target[changed] += 1000.0
    before = OrderedTargetEncoder().fit_transform(table, labels, seed).values
    after = (
        OrderedTargetEncoder()
        .fit_transform(table, Labels(labels.nodes, target, labels.weight), seed)
        .values
    )
    node = labels.nodes[changed]
    assert (after[node] == before[node]).all()
    unlabelled = np.setdiff1d(np.arange(table.n_rows), labels.nodes)
    assert (
        after[unlabelled][:, [0, 2]] > before[unlabelled][:, [0, 2]]
    ).all()  # through the mean, at least


def test_a_single_label_is_not_in_its_own_encoding():
    table = Table(np.zeros((2, 1)), ("a",), categorical=(0,), origin=(0,))
    encoded = [
        OrderedTargetEncoder()
        .fit_transform(table, Labels(np.array([0]), np.array([[y]]), np.ones(1)), 0)
        .values
        for y in (5.0, 9.0)
    ]
    assert encoded[0][0] == encoded[1][0]
    assert [e[1, 0] for e in encoded] == [5.0, 9.0]


def test_unlabelled_nodes_and_new_tables_get_the_same_means():
    table, labels = example(3)
    encoder = OrderedTargetEncoder()
    fitted, again = encoder.fit_transform(table, labels, 0), encoder.transform(table)
    unlabelled = np.setdiff1d(np.arange(table.n_rows), labels.nodes)
    assert (fitted.values[unlabelled] == again.values[unlabelled]).all()
    assert (fitted.values[labels.nodes] != again.values[labels.nodes]).any()


def test_categories_are_shrunk_to_the_mean_of_all_by_one_label():
    table = Table(np.array([[0.0], [1.0], [np.nan]]), ("a",), categorical=(0,), origin=(0,))
    labels = Labels(np.arange(3), np.array([[1.0], [4.0], [10.0]]), np.array([1.0, 1.0, 1.0]))
    encoder = OrderedTargetEncoder()
    encoder.fit_transform(table, labels, 0)
    later = Table(np.array([[0.0], [1.0], [np.nan], [7.0]]), ("a",), categorical=(0,), origin=(0,))
    # (1 + 5)/2, (4 + 5)/2, missing is a category like any other, and a code never seen gets the
    # mean 5
    assert encoder.transform(later).values.ravel().tolist() == [3.0, 4.5, 7.5, 5.0]


@pytest.mark.parametrize("seed", range(3))
def test_unique_categories_do_not_predict_noise(seed):
    """With a category per node, a leak would let any tree read the labels off the encoding."""
    rng = np.random.default_rng(seed)
    n = 2000
    table = Table(np.arange(n, dtype=float)[:, None], ("name",), categorical=(0,), origin=(0,))
    labels = Labels(np.arange(n), rng.normal(size=(n, 1)), np.ones(n))
    encoded = OrderedTargetEncoder().fit_transform(table, labels, seed).values[:, 0]
    ranks = [np.argsort(np.argsort(v)) for v in (encoded, labels.target[:, 0])]
    assert abs(np.corrcoef(*ranks)[0, 1]) < 4 / np.sqrt(n)
