"""Share of the target that one column explains."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ebboost as eb
from ebboost.data.leakage import explained_share


@given(st.floats(-3, 3).filter(lambda power: abs(power) > 0.1))
def test_a_monotone_copy_explains_everything(power):
    y = np.random.default_rng(0).random(200) + 0.1
    assert explained_share(y**power, y, False, False) == pytest.approx(1.0)


def test_noise_explains_next_to_nothing_however_many_bins():
    rng = np.random.default_rng(0)
    column = rng.normal(size=2000)
    y = rng.normal(size=2000)
    assert explained_share(column, y, False, False) < 0.05
    assert explained_share(column, (y > 0).astype(float), False, True) < 0.1
    categories = rng.integers(0, 1000, 2000).astype(float)
    assert explained_share(categories, y, True, False) < 0.05


def test_copies_that_are_not_monotone_and_copies_of_classes_are_recognized():
    rng = np.random.default_rng(0)
    column = rng.normal(size=4000)
    assert explained_share(column, np.abs(column), False, False) > 0.95
    classes = rng.integers(0, 3, 500).astype(float)
    assert explained_share((classes + 1) % 3, classes, True, True) == pytest.approx(1.0)
    assert explained_share(-classes, classes, False, True) == pytest.approx(1.0)


@pytest.mark.parametrize("kind", [eb.EBBSRegressor, eb.EBBSClassifier])
def test_fit_warns_of_a_column_that_copies_the_target_and_of_no_other(kind, recwarn):
    random = np.random.default_rng(0)
    X = random.normal(size=(400, 3))
    y = X[:, 1] + 0.2 * random.normal(size=400)
    copy = np.column_stack([X, np.exp(y)])
    y = np.repeat(["a", "b"], 200)[np.argsort(np.argsort(y))] if kind is eb.EBBSClassifier else y
    model = kind(10, n_folds=1, random_state=0, n_jobs=1).fit(X, y)
    assert not recwarn
    with pytest.warns(UserWarning, match="Column 'x3' of X nearly copies y"):
        model.fit(copy, y)


def test_fit_warns_of_edges_within_classes_alone(recwarn):
    X = np.random.default_rng(0).normal(size=(400, 2))
    y = np.arange(400) % 2
    chain = np.arange(398)
    model = eb.EBBSClassifier(2, n_folds=1, random_state=0, n_jobs=1)
    model.fit(X, y, graph=eb.Graph.from_edges(chain, chain + 1, n_nodes=400))
    assert not recwarn
    with pytest.warns(UserWarning, match="Edges connect rows of the same class only"):
        model.fit(X, y, graph=eb.Graph.from_edges(chain, chain + 2, n_nodes=400))
