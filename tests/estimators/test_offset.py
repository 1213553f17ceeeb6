"""Offset and exposure in fit, predict, score, cross-validation, tuning and files."""

import numpy as np
import pytest

import ebboost as eb
from tests.problems import homophilous


def counts(n=400, seed=0):
    """X, counts with exposure, the exposure and a graph on which rates vary smoothly."""
    X, y, graph = homophilous(n, seed)
    random = np.random.default_rng(seed)
    exposure = np.exp(random.uniform(0.0, 4.0, n))
    return X, random.poisson(exposure * np.exp(0.5 * y)).astype(float), exposure, graph


def model(**changes):
    settings = {"n_estimators": 30, "random_state": 0, "n_jobs": 1, "loss": "poisson"}
    settings |= {"selection": "rules"}
    return eb.EBBSRegressor(**(settings | changes))


def test_offset_is_the_log_of_the_exposure():
    X, y, exposure, graph = counts()
    first = model().fit(X, y, graph=graph, exposure=exposure).predict()
    np.testing.assert_array_equal(
        model().fit(X, y, graph=graph, offset=np.log(exposure)).predict(), first
    )


def test_exposure_explains_counts_that_the_columns_do_not():
    X, y, exposure, graph = counts()
    known = np.arange(200)
    with_exposure = model().fit(X, y[known], nodes=known, graph=graph, exposure=exposure)
    without = model().fit(X, y[known], nodes=known, graph=graph)
    test = np.arange(200, 400)
    assert with_exposure.score(None, y, nodes=test) - without.score(None, y, nodes=test) > 0.4


def test_twice_the_exposure_doubles_predictions_and_changes_no_tree():
    X, y, exposure, graph = counts()
    once = model(labels="none").fit(X, y, graph=graph, exposure=exposure)
    twice = model(labels="none").fit(X, y, graph=graph, exposure=2 * exposure)
    np.testing.assert_allclose(once.predict(), twice.predict(), rtol=1e-5)
    doubled = once.predict(X, graph=graph, exposure=2 * exposure)
    np.testing.assert_allclose(doubled, 2 * once.predict(X, graph=graph, exposure=exposure))


@pytest.mark.parametrize("labels", ["none", "field", "leave-one-out"])
def test_offset_of_squared_error_is_subtracted_from_the_labels(labels):
    X, y, graph = homophilous()
    offset = 3.0 * np.random.default_rng(0).normal(size=y.size)
    part = {"loss": "squared_error", "labels": labels, "smoothing": eb.Laplacian()}
    m = model(**part).fit(X, y + offset, graph=graph, offset=offset)
    expected = model(**part).fit(X, y, graph=graph).predict() + offset
    np.testing.assert_allclose(m.predict(), expected, rtol=1e-4, atol=1e-4)


def test_a_classifier_of_two_classes_takes_an_offset():
    X, y, graph = homophilous()
    offset = np.where(y > 0, 2.0, -2.0)
    m = eb.EBBSClassifier(20, random_state=0, n_jobs=1, smoothing=None, labels="none")
    m.fit(X, y > 0, graph=graph, offset=offset)
    raw = m.init_score_ + offset[:, None] + m.propagated_scores_
    np.testing.assert_allclose(
        m.predict_proba()[:, 1], 1 / (1 + np.exp(-m.calibration_.apply(raw)[:, 0]))
    )
    np.testing.assert_allclose(m.predict_proba(X, graph=graph, offset=offset), m.predict_proba())


def test_new_rows_need_their_own_exposure(tmp_path):
    X, y, exposure, graph = counts()
    m = model().fit(X, y, graph=graph, exposure=exposure)
    m.save(tmp_path / "m.ebb")
    for one in (m, eb.load(tmp_path / "m.ebb")):
        with pytest.raises(ValueError, match=r"fitted with an offset .* pass predict\(X_new, exp"):
            one.predict(X, graph=graph)
        with pytest.raises(ValueError, match="fitted with an offset"):
            one.predict(X, graph=graph, nodes=[3])
        np.testing.assert_allclose(one.predict(), m.predict())
        rows = one.predict(X, graph=graph, exposure=exposure, nodes=[5, 3])
        np.testing.assert_allclose(rows, m.predict(X, graph=graph, exposure=exposure)[[5, 3]])
    known = (np.arange(100), y[:100])
    new = m.predict(X, graph=graph, exposure=exposure, new_labels=known) if m.labels_ else None
    assert new is None or np.isfinite(new).all()


def test_exposure_of_fitted_nodes_is_that_of_fit():
    X, y, exposure, graph = counts()
    m = model().fit(X, y, graph=graph, exposure=exposure)
    with pytest.raises(ValueError, match=r"are those of fit.*divide predict\(\)"):
        m.predict(exposure=exposure)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"exposure": np.ones(3)}, r"exposure must have a number for each of 400 rows, got \(3,\)"),
        ({"exposure": np.r_[np.ones(399), 0.0]}, "exposure must be positive .* row 399 is 0.0"),
        ({"exposure": np.full(400, np.nan)}, "exposure must be positive and finite"),
        ({"offset": np.full(400, np.inf)}, "offset must be finite in every row, row 0 is inf"),
        ({"offset": ["a"] * 400}, "offset must hold numbers"),
        ({"offset": np.ones(400), "exposure": np.ones(400)}, "not both"),
    ],
    ids=str,
)
def test_invalid_offsets_are_rejected(arguments, message):
    X, y, _, graph = counts()
    with pytest.raises(ValueError, match=message):
        model().fit(X, y, graph=graph, **arguments)


def test_exposure_needs_a_log_link():
    X, y, exposure, graph = counts()
    with pytest.raises(ValueError, match="exposure needs a loss with a log link"):
        model(loss="squared_error").fit(X, y, graph=graph, exposure=exposure)
    with pytest.raises(ValueError, match="not supported with labels='masked'"):
        model(loss="squared_error", labels="masked").fit(X, y, graph=graph, offset=exposure)
    with pytest.raises(ValueError, match="more than two classes"):
        eb.EBBSClassifier(5).fit(X, np.arange(400) % 3, graph=graph, offset=exposure)


def test_cross_validation_and_tuning_pass_the_exposure_of_all_rows():
    X, y, exposure, graph = counts()
    options = {"scoring": "r2", "cv": 3, "random_state": 0}
    with_exposure = eb.cross_validate(
        model(), X, y, graph, fit_parameters={"exposure": exposure}, **options
    )
    assert with_exposure["test_score"].mean() > 0.5
    pytest.importorskip("optuna")
    best = eb.tune(
        model(n_estimators=5), X, y, graph, exposure=exposure, n_trials=2, random_state=0, verbose=0
    )
    assert best.state_.offset is not None


def test_a_predictor_follows_new_rows_with_exposure():
    X, y, exposure, graph = counts()
    m = model(labels=eb.LatentField(5.0, 0.1), smoothing=eb.Laplacian(1.0, 2))
    m.fit(X, y, graph=graph, exposure=exposure)
    known = (np.arange(0, 400, 2), y[::2])
    predictor = m.predictor(X, graph=graph, exposure=exposure, new_labels=known)
    changed = X.copy()
    changed[[4, 9]] += 1.0
    predictor.update([4, 9], changed[[4, 9]])
    expected = m.predict(changed, graph=graph, exposure=exposure, new_labels=known)
    np.testing.assert_allclose(predictor.predict(), expected, rtol=1e-6)
