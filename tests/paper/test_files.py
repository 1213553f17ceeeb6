"""Models of the paper in files: they predict as before, and damaged trees are refused."""

import json

import numpy as np
import pytest

import ebboost as eb
from ebboost import paper
from tests.paper.problems import neighbor_sums, regressor

pytest.importorskip("ebboost.files")

FITS = {
    "robust": {"smoothing": paper.Robust(penalty="sqrt"), "labels": "field"},
    "kernel": {"smoothing": paper.Kernel("random-walk"), "penalty": 0.1},
    "steps": {"smoothing": paper.Chebyshev(2.0, "auto"), "feature_smoothing": paper.Jacobi()},
    "masked": {"labels": paper.MaskedLabels(share=0.3)},
    "momentum": {"momentum": paper.CorrectedMomentum(0.1)},
    "catboost": {"learner": paper.CatBoost(3)},
}


@pytest.mark.parametrize("name", FITS)
def test_a_loaded_model_predicts_the_same(name, tmp_path):
    X, y, graph = neighbor_sums()
    model = regressor(early_stopping=5, **FITS[name]).fit(X, y, graph=graph)
    model.save(tmp_path / "m.ebb")
    again = eb.load(tmp_path / "m.ebb")
    assert type(again) is paper.PaperRegressor
    np.testing.assert_array_equal(again.predict(), model.predict())
    raw = again.model_.predictions_given(again.model_.labels)  # smoothed anew
    np.testing.assert_allclose(raw, model.model_.raw, rtol=1e-12, atol=1e-12)
    if name != "masked":
        new = {"attach": (np.arange(5), np.arange(5))}
        np.testing.assert_allclose(again.predict(X[:5], **new), model.predict(X[:5], **new))
    if name not in ("masked", "robust"):
        assert repr(paper.convergence.report(again)) == repr(paper.convergence.report(model))


def test_a_model_with_encoded_categories_is_loaded(tmp_path):
    pandas = pytest.importorskip("pandas")
    X, y, graph = neighbor_sums()
    X = pandas.DataFrame({"a": X[:, 0], "b": np.where(X[:, 1] > 0, "up", "down")})
    model = regressor(learner=paper.CatBoost(3), feature_smoothing=eb.Laplacian())
    model.fit(X, y, graph=graph).save(tmp_path / "m.ebb")
    again = eb.load(tmp_path / "m.ebb")
    new = {"attach": (np.arange(200), np.arange(200))}
    np.testing.assert_array_equal(again.predict(X, **new), model.predict(X, **new))


@pytest.fixture(scope="module")
def trees():
    X, y, graph = neighbor_sums()
    model = regressor(n_estimators=3, learner=paper.CatBoost(2)).fit(X, y, graph=graph)
    return model.model_.components[0].ensemble.files()


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("oblivious_trees", 0, "splits", 0, "split_index"), 10**6),
        (("oblivious_trees", 0, "splits", 0, "split_index"), -1),
        (("oblivious_trees", 0, "splits", 0, "split_index"), True),
        (("oblivious_trees", 0, "splits", 0, "float_feature_index"), 99),
        (("oblivious_trees", 0, "splits", 0, "border"), 1e300),
        (("oblivious_trees", 0, "splits", 0, "split_type"), "OnlineCtr"),
        (("oblivious_trees", 0, "splits"), []),
        (("oblivious_trees", 0, "splits"), [{}] * 17),
        (("oblivious_trees", 0, "leaf_values"), [1.0]),
        (("oblivious_trees", 0, "leaf_weights"), [1e300, 0, 0, 0]),
        (("oblivious_trees",), []),
        (("features_info", "float_features", 0, "feature_index"), 1),
        (("features_info", "float_features", 0, "borders"), [2.0, 1.0]),
        (("features_info", "float_features", 0, "has_nans"), 1),
        (("features_info", "float_features", 0, "nan_value_treatment"), "Min"),
        (("features_info", "float_features"), []),
        (("features_info", "categorical_features"), []),
        (("scale_and_bias", 0), 2),
        (("scale_and_bias", 1), [1e300]),
        (("ctr_data",), {}),
    ],
)
def test_trees_that_are_no_trees_are_refused(trees, path, value):
    model = json.loads(trees["trees-00000.json"])
    part = model
    for key in path[:-1]:
        part = part[key]
    part[path[-1]] = value
    changed = {**trees, "trees-00000.json": json.dumps(model).encode()}
    ensemble = paper.CatBoost.load(changed)
    with pytest.raises(ValueError):
        ensemble.check(4, 1, {})
    paper.CatBoost.load(trees).check(4, 1, {})


def test_trees_of_other_shapes_are_refused(trees):
    for shape in ((3, 1), (4, 2)):
        with pytest.raises(ValueError, match=r"shape\.json must be"):
            paper.CatBoost.load(trees).check(*shape, {})
    two = paper.CatBoost.load({**trees, "trees-00001.json": b"{}"})
    with pytest.raises(ValueError, match="a file of trees for each"):
        two.check(4, 1, {})
    X, y, graph = neighbor_sums()
    model = regressor(learner=paper.CatBoost(params={"grow_policy": "Lossguide"}))
    with pytest.raises(ValueError, match="grow_policy must be"):
        model.fit(X, y, graph=graph)
