"""Fits that add trees to an earlier model."""

import numpy as np
import pandas as pd
import pytest

import ebboost as eb
from ebboost.training import defaults
from tests.problems import fixed_regressor, homophilous, skewed

X, Y, GRAPH = homophilous(200)
SMALL = homophilous(100)[2]
Y = np.where(np.arange(200) < 140, Y, np.nan)


@pytest.mark.parametrize(
    "parts",
    [
        {"smoothing": None},
        {"smoothing": eb.Robust()},
        {"labels": "field"},
        {"labels": "field", "loss": "huber"},
        {"labels": "leave-one-out", "neighbor_features": eb.NeighborFeatures()},
        {"momentum": "simple", "spectral_features": eb.SpectralFeatures(4)},
    ],
)
def test_twenty_rounds_and_twenty_more_are_forty(parts, tmp_path):
    half = fixed_regressor(n_estimators=20, **parts).fit(X, Y, graph=GRAPH)
    half.save(tmp_path / "half.ebb")
    both = fixed_regressor(n_estimators=20, **parts)
    both.fit(X, Y, graph=GRAPH, init_model=tmp_path / "half.ebb")
    losses = [model.history_["training"][-1] for model in (half, both)]
    assert losses[1] < 0.9 * losses[0] and both.rounds_ == (20,)
    if "momentum" not in parts:  # momentum starts anew
        full = fixed_regressor(n_estimators=40, **parts).fit(X, Y, graph=GRAPH)
        np.testing.assert_allclose(both.predict(), full.predict(), rtol=0, atol=1e-9)
    np.testing.assert_allclose(both.predict(X, graph=GRAPH), both.predict(), rtol=0, atol=1e-9)
    both.save(tmp_path / "both.ebb")
    np.testing.assert_array_equal(eb.load(tmp_path / "both.ebb").predict(), both.predict())


def test_every_candidate_of_an_average_is_continued_on_other_rows(monkeypatch):
    monkeypatch.setattr(defaults, "MIN_GAIN", -1.0)  # average whatever was tried
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    frame["kind"] = np.where(X[:, 2] > 0, "high", "low")
    earlier = eb.EBBSRegressor(30, selection="thorough", n_folds=3, random_state=0, n_jobs=1)
    earlier.fit(frame, Y, graph=GRAPH)
    assert len(earlier.state_.members) > 1
    later = eb.EBBSRegressor(5, n_folds=2, random_state=0, n_jobs=1)
    later.fit(frame[:100], Y[:100] + 1.0, graph=SMALL, init_model=earlier)
    names = [name for name in earlier.state_.candidate_names if not name.endswith("network")]
    assert later.state_.candidate_names == names  # trees alone are continued
    assert len(later.rounds_) == 2 * len(later.state_.members)
    explained = later.explain(nodes=[0])
    assert explained.contribution.sum() == pytest.approx(later.predict()[0], abs=1e-6)


def test_a_classifier_keeps_its_classes_where_new_labels_have_fewer():
    classes = np.digitize(Y[:140], [-0.5, 0.5]).astype(str)
    nodes = np.arange(140)
    settings = {"labels": "none", "smoothing": eb.Laplacian(), "early_stopping": False}
    earlier = eb.EBBSClassifier(5, **settings).fit(X, classes, nodes=nodes, graph=GRAPH)
    few = nodes[classes != "2"]
    later = eb.EBBSClassifier(5, **settings)
    later.fit(X, classes[few], nodes=few, graph=GRAPH, init_model=earlier)
    assert later.classes_.tolist() == ["0", "1", "2"]
    assert later.predict_proba()[:, 2].mean() < earlier.predict_proba()[:, 2].mean()
    with pytest.raises(ValueError, match="y holds the class 'x'"):
        later.fit(X, ["x", "0"] * 70, nodes=nodes, graph=GRAPH, init_model=earlier)


def test_labels_that_the_earlier_model_has_seen_are_no_validation():
    earlier = fixed_regressor(n_estimators=2).fit(X, Y, graph=GRAPH)
    later = eb.EBBSRegressor(2, n_folds=2, random_state=0)
    with pytest.warns(UserWarning, match="the labels that init_model was trained on"):
        later.fit(X, Y, graph=GRAPH, init_model=earlier)


@pytest.mark.parametrize(
    ("changes", "data", "message"),
    [
        ({"loss": "huber"}, {}, "loss must be that of init_model, SquaredError"),
        ({"learner": "xgboost"}, {}, "init_model needs learner='lightgbm' in both fits"),
        ({}, {"X": X[:, :2]}, "X has 2 features, but .* is expecting 3"),
        ({}, {"graph": None}, "graph must be as for init_model, which was fitted with"),
        ({}, {"init_model": "gone.ebb"}, "gone.ebb"),
        ({}, {"init_model": eb.EBBSRegressor()}, "not fitted yet"),
        ({}, {"init_model": 3}, "init_model must be a fitted estimator or a path, got int"),
    ],
)
def test_what_does_not_fit_the_earlier_model_is_rejected(changes, data, message):
    earlier = fixed_regressor(n_estimators=2).fit(X, Y, graph=GRAPH)
    arguments = {"X": X, "y": Y, "graph": GRAPH, "init_model": earlier} | data
    with pytest.raises((ValueError, TypeError, OSError), match=message):
        fixed_regressor(**changes).fit(**arguments)
    with pytest.raises(ValueError, match="init_model must be an EBBSClassifier"):
        eb.EBBSClassifier().fit(X, Y > 0, graph=GRAPH, init_model=earlier)


@pytest.fixture(scope="module")
def counted():
    """X, y and a graph, and a model whose trees were trained with the Poisson loss."""
    table, y, graph = skewed(400)
    m = eb.EBBSRegressor(40, 0.3, n_folds=2, random_state=0, n_jobs=1, learner=eb.LightGBM())
    m.fit(table, y[:250], nodes=np.arange(250), graph=graph)
    assert all(type(one.candidate.loss) is eb.Poisson for one in m.state_.candidates)
    return table, y, graph, m


@pytest.mark.parametrize(
    ("labels", "more", "message"),
    [
        (lambda y: y - 3.0, {}, "must not be negative for the Poisson loss"),
        (lambda y: 0.0 * y, {}, "must not be 0 at every labelled node"),
        (lambda y: y, {"offset": np.ones(400)}, "offset must be None, as for init_model"),
    ],
)
def test_trees_of_another_loss_are_not_continued_for_labels_of_another_kind(
    labels, more, message, counted
):
    table, y, graph, earlier = counted
    model = eb.EBBSRegressor(5, learner=eb.LightGBM(), random_state=0, n_jobs=1)
    with pytest.raises(ValueError, match=f"{message}.* fit it with loss='squared_error'"):
        model.fit(
            table,
            labels(y[250:]),
            nodes=np.arange(250, 400),
            graph=graph,
            init_model=earlier,
            **more,
        )


def test_without_held_out_labels_predictions_keep_the_factor_of_their_mean(counted):
    table, y, graph, earlier = counted
    model = eb.EBBSRegressor(
        5, learner=eb.LightGBM(), early_stopping=False, random_state=0, n_jobs=1
    )
    model.fit(table, y[250:], nodes=np.arange(250, 400), graph=graph, init_model=earlier)
    factors = [[one.factor for one in m.state_.candidates] for m in (earlier, model)]
    assert factors[0] == factors[1] and 1.0 not in factors[0]
