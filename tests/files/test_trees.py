"""Trees and networks as libraries write them pass; what would mislead a library does not."""

import copy
import json
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ebboost as eb
from ebboost.data.table import Table
from ebboost.files import trees

N = 120
_random = np.random.default_rng(0)
VALUES = np.column_stack(
    [_random.normal(size=N), _random.integers(0, 40, N), _random.normal(size=N)]
)
TABLE = Table(VALUES, ("a", "b", "c"), (1,), (0, 1, 2))
CATEGORIES = {1: 40}


def grown(learner, n_outputs, rounds=3):
    """An ensemble of random trees."""
    grower = learner.bin(TABLE, np.arange(N), n_outputs=n_outputs, n_jobs=1, device="cpu").grower(0)
    noise = np.random.default_rng(1)
    for _ in range(rounds):
        target = noise.normal(size=(N, n_outputs)) + (VALUES[:, [1]] % 3 == 0)
        grower.grow(-target, np.ones((N, 1)))
    return grower.compile([0.5] * rounds)


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_trees_of_lightgbm_pass(n_outputs):
    learner = eb.LightGBM(5, min_child_samples=3, params={"monotone_constraints": {"a": 1}})
    for one in (learner, eb.LightGBM(2), eb.LightGBM(8, min_child_samples=N)):
        ensemble = grown(one, n_outputs)
        text = ensemble.files()["trees.txt"].decode()
        trees.check_lightgbm(text, 3, n_outputs)
        for columns, outputs in ((2, n_outputs), (4, n_outputs), (3, n_outputs + 1)):
            with pytest.raises(ValueError, match="must describe"):
                trees.check_lightgbm(text, columns, outputs)


def test_sets_of_categories_are_checked():
    learner = eb.LightGBM(5, min_child_samples=3, params={"max_cat_to_onehot": 64})
    text = grown(learner, 1).files()["trees.txt"].decode()
    before = re.search("^cat_boundaries=0 ([^ \n]+)", text, flags=re.M)[0]
    for after in ("0 99999", "1 2", "0 -2", "2 0", "0"):
        with pytest.raises(ValueError, match=r"cat_|number for each node"):
            trees.check_lightgbm(text.replace(before, f"cat_boundaries={after}"), 3, 1)
    with pytest.raises(ValueError, match="cat_boundaries must have"):
        trees.check_lightgbm(re.sub("num_cat=[1-9]+", "num_cat=77", text), 3, 1)


def chain(depth):
    """The children of a tree of this depth."""
    left = np.full(2 * depth + 1, -1)
    right = left.copy()
    left[: 2 * depth : 2] = np.arange(1, 2 * depth, 2)
    right[: 2 * depth : 2] = np.arange(2, 2 * depth + 1, 2)
    return left, right


def test_a_tree_too_deep_for_recursion_is_rejected():
    root = np.zeros(1, dtype=np.int64)
    trees.check_forest(*chain(trees.MAX_DEPTH - 1), root)
    with pytest.raises(ValueError, match="deeper than"):
        trees.check_forest(*chain(trees.MAX_DEPTH), root)


@st.composite
def forests(draw):
    """Children of the nodes of some trees, and the roots."""
    left, right, roots = [], [], []
    for _ in range(draw(st.integers(1, 4))):
        roots.append(len(left))
        leaves = [len(left)]
        left.append(-1)
        right.append(-1)
        for _ in range(draw(st.integers(0, 6))):
            node = leaves.pop(draw(st.integers(0, len(leaves) - 1)))
            left[node], right[node] = len(left), len(left) + 1
            leaves += [len(left), len(left) + 1]
            left += [-1, -1]
            right += [-1, -1]
    return np.array(left), np.array(right), np.array(roots)


def is_forest(left, right, roots):
    """Whether every node is reached once from the roots, and children follow their parents."""
    seen, todo = [], roots.tolist()
    while todo and len(seen) <= left.size:
        node = todo.pop()
        seen.append(node)
        if left[node] != -1 or right[node] != -1:
            children = [int(left[node]), int(right[node])]
            if min(children) <= node or max(children) >= left.size:
                return False
            todo += children
    return sorted(seen) == list(range(left.size))


@settings(max_examples=200, deadline=None)
@given(forests(), st.data())
def test_what_passes_is_a_forest(forest, data):
    left, right, roots = forest
    trees.check_forest(left, right, roots)
    side = data.draw(st.sampled_from([left, right]))
    side[data.draw(st.integers(0, left.size - 1))] = data.draw(st.integers(-1, left.size - 1))
    expected = is_forest(left, right, roots)
    try:
        trees.check_forest(left, right, roots)
    except ValueError:
        assert not expected
    else:
        assert expected


def network(**changes):
    ensemble = copy.copy(grown(eb.RandomNetwork(4), 2))
    for name, value in changes.items():
        for part in ("units", "scaling"):
            if name in vars(getattr(ensemble, part)):
                setattr(ensemble, part, replace(getattr(ensemble, part), **{name: value}))
        if name in vars(ensemble):
            setattr(ensemble, name, value)
    return ensemble


def test_networks_pass_and_are_read():
    one = network()
    trees.check_network(one, 3, 2, CATEGORIES)
    read = eb.RandomNetwork.load(one.files())
    np.testing.assert_array_equal(read.predict(TABLE), one.predict(TABLE))
    np.testing.assert_array_equal(read.predict(TABLE.subset([3])), one.predict(TABLE.subset([3])))
    empty = grown(eb.RandomNetwork(4), 2, rounds=0)
    trees.check_network(empty, 3, 2, CATEGORIES)
    assert not empty.predict(TABLE.subset([0])).any() and not empty.predict(TABLE).any()


UNITS = network().units
SCALING = network().scaling


@pytest.mark.parametrize(
    "changes",
    [
        {"n_columns": 4},
        {"source": SCALING.source + 3},
        {"source": SCALING.source - 3},
        {"level": SCALING.level[:-1]},
        {"knots": SCALING.knots[:, ::-1]},
        {"knots": np.full_like(SCALING.knots, np.nan)},
        {"knots": SCALING.knots[:, :0], "scores": SCALING.scores[:, :0]},
        {"scores": 1e9 * SCALING.scores},
        {"inputs": UNITS.inputs + len(SCALING.source)},
        {"inputs": UNITS.inputs - 99},
        {"inputs": UNITS.inputs[:, :2]},
        {"coefficients": np.full_like(UNITS.coefficients, np.inf)},
        {"biases": UNITS.biases[:-1]},
        {"outputs": UNITS.outputs[:-1]},
        {"outputs": UNITS.outputs[:, :1]},
        {"weights": np.ones(5)},
        {"weights": np.array([1.0, np.nan, 1.0])},
        {"sample": np.zeros((5, 1), dtype=np.float32)},
    ],
)
def test_arrays_of_networks_are_checked(changes):
    with pytest.raises(ValueError):
        trees.check_network(network(**changes), 3, 2, CATEGORIES)


def boosted(n_outputs):
    """The JSON of XGBoost, as with gradients from outside."""
    xgboost = pytest.importorskip("xgboost")
    options = {"feature_types": ["q", "c", "q"], "enable_categorical": True}
    data = xgboost.QuantileDMatrix(VALUES, **options)
    params = {"base_score": 0.0, "num_target": n_outputs, "max_depth": 3, "nthread": 1}
    booster = xgboost.Booster({**params, "tree_method": "hist", "verbosity": 0}, [data])
    noise = np.random.default_rng(1)
    for number in range(2):
        gradient = noise.normal(size=(N, n_outputs)) - (VALUES[:, [1]] % 3 == 0)
        booster.boost(data, number, grad=gradient, hess=np.ones((N, n_outputs)))
    document = json.loads(booster.save_raw("json"))
    model = document["learner"]["gradient_booster"]["model"]
    model["iteration_indptr"] = [0, n_outputs, 2 * n_outputs]
    return document


def check_boosted(document, n_columns=3, n_outputs=1, categories=CATEGORIES):
    trees.check_xgboost(json.dumps(document).encode(), n_columns, n_outputs, categories)


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_trees_of_xgboost_pass(n_outputs):
    document = boosted(n_outputs)
    check_boosted(document, n_outputs=n_outputs)
    none = copy.deepcopy(document)
    none["learner"]["gradient_booster"]["model"].update(
        trees=[], tree_info=[], iteration_indptr=[0]
    )
    none["learner"]["gradient_booster"]["model"]["gbtree_model_param"]["num_trees"] = "0"
    check_boosted(none, n_outputs=n_outputs)
    for change in ({"n_columns": 4}, {"n_outputs": n_outputs + 1}, {"categories": {}}):
        with pytest.raises(ValueError):
            check_boosted(document, **{"n_outputs": n_outputs, **change})


@pytest.mark.parametrize(
    ("name", "at", "value"),
    [
        ("left_children", 0, 0),
        ("left_children", 1, 0),
        ("right_children", 0, 10**6),
        ("left_children", 0, -7),
        ("left_children", 0, 1.0),
        ("split_indices", 0, 3),
        ("split_indices", 0, -1),
        ("split_indices", 0, 10**30),
        ("split_conditions", -1, float("nan")),
        ("split_conditions", -1, 1e39),
        ("base_weights", 0, "x"),
        ("parents", 1, 5),
        ("split_type", -1, 1),
        ("categories", 0, 2**31 - 1),
        ("categories", 0, 40),
        ("categories_sizes", 0, 10**6),
        ("categories_segments", 0, 10**6),
        ("categories_nodes", 0, 99),
        ("tree_param", "num_nodes", "1"),
        ("tree_param", "size_leaf_vector", "99"),
    ],
)
def test_trees_that_would_mislead_xgboost_are_rejected(name, at, value):
    document = boosted(1)
    own = document["learner"]["gradient_booster"]["model"]["trees"]
    changed = next(tree for tree in own if tree["categories"])
    changed[name][at] = value
    with pytest.raises((ValueError, OverflowError)):
        check_boosted(document)


@pytest.mark.parametrize(
    "change",
    [
        lambda learner: learner["learner_model_param"].update(num_feature="1"),
        lambda learner: learner["gradient_booster"].update(name="dart"),
        lambda learner: learner["gradient_booster"]["model"]["trees"].pop(),
        lambda learner: learner["gradient_booster"]["model"]["trees"][0].update(more=1),
        lambda learner: learner["gradient_booster"]["model"]["trees"][0].pop("parents"),
        lambda learner: learner["gradient_booster"]["model"].update(tree_info=[0, 7]),
        lambda learner: learner.update(attributes={"x": "y"}),
    ],
)
def test_models_that_would_mislead_xgboost_are_rejected(change):
    document = boosted(1)
    change(document["learner"])
    with pytest.raises((ValueError, KeyError)):
        check_boosted(document)
