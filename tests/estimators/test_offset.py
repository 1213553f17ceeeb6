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


def test_labels_that_the_loss_is_not_defined_for_are_named():
    X, y, exposure, graph = counts()
    known = np.arange(300)
    m = model(labels=eb.LatentField(1.0, 0.05), smoothing=None)
    m.fit(X, y[known], nodes=known, graph=graph, exposure=exposure)
    negative = np.where(np.arange(400) == 17, -5.0, y)
    with pytest.raises(ValueError, match=r"y must not be negative .* got -5 \(row 17\)\."):
        model().fit(X, negative, graph=graph)
    with pytest.raises(ValueError, match=r"new_labels: y must .* got -3 \(position 0\)"):
        m.predict(new_labels=([350], [-3.0]))
    assert m.predict(new_labels=([350], [0.0]))[350] < m.predict()[350]
    with pytest.raises(ValueError, match="y: y must not be negative"):
        m.score(None, -y, metric="deviance")
    with pytest.raises(ValueError, match="eval_set: y must not be negative"):
        model().fit(X, y[known], nodes=known, graph=graph, eval_set=([350], [-1.0]))
    with pytest.raises(ValueError, match="y must not be 0 at every labelled node"):
        model().fit(X, 0.0 * y, graph=graph)


def test_exposures_in_another_order_and_names_of_columns_are_rejected():
    pandas = pytest.importorskip("pandas")
    X, y, exposure, graph = counts()
    table = pandas.DataFrame(X)
    shuffled = pandas.Series(exposure, index=table.index[::-1])
    with pytest.raises(ValueError, match=r"index of exposure .* exposure.loc\[X.index\]"):
        model().fit(table, y, graph=graph, exposure=shuffled)
    with pytest.raises(ValueError, match=r"got the text 'people': pass X.pop\('people'\)"):
        model().fit(table.assign(people=exposure), y, graph=graph, exposure="people")


def test_cross_validation_of_counts_has_d2_and_deviance():
    X, y, exposure, graph = counts()
    arguments = {"cv": 2, "random_state": 0, "fit_parameters": {"exposure": exposure}}
    by_default = eb.cross_validate(model(), X, y, graph, **arguments)
    assert [name for name in by_default if name.startswith("test_")] == [
        "test_d2",
        "test_neg_deviance",
    ]
    one = eb.cross_validate(model(), X, y, graph, scoring="d2", **arguments)
    np.testing.assert_array_equal(one["test_score"], by_default["test_d2"])
    both = eb.cross_validate(model(), X, y, graph, scoring=["r2", "neg_deviance"], **arguments)
    train = np.setdiff1d(np.arange(400), test := np.arange(0, 400, 2))
    arguments["cv"] = [(train, test)]
    scores = eb.cross_validate(model(), X, y, graph, scoring=["d2", "neg_deviance"], **arguments)
    fitted = model().fit(X, y[train], nodes=train, graph=graph, exposure=exposure)
    deviance = fitted.score(None, y, nodes=test, metric="deviance")
    np.testing.assert_allclose(scores["test_neg_deviance"], -deviance)
    assert both["test_neg_deviance"].shape == both["test_r2"].shape == (2,)
    with pytest.raises(ValueError, match="Duplicate"):
        eb.cross_validate(model(), X, y, graph, scoring=["d2", "d2"], **arguments)
