"""Rows with a time: the latest labels are held out, and only earlier neighbours are used."""

import numpy as np
import pandas as pd
import pytest

import ebboost as eb

N = 400
RNG = np.random.default_rng(0)
TIME = 2.0 * RNG.integers(0, 20, N)
POINTS = RNG.uniform(size=(N, 2))
X = pd.DataFrame(RNG.normal(size=(N, 2)), columns=["a", "b"]).assign(sold_on=TIME)
Y = X["a"].to_numpy() + 2.0 * np.sin(6.0 * POINTS[:, 0]) + 0.1 * RNG.normal(size=N)
GRAPH = eb.Graph.build_knn(POINTS, 6)
STREETS = (20 * POINTS[:, 0]).astype(int)
FIELD = {"labels": "field", "neighbor_features": eb.NeighborFeatures(["mean"])}


def regressor(**options):
    return eb.EBBSRegressor(10, random_state=0, n_jobs=1, **options)


def test_the_latest_labels_are_held_out_in_blocks_and_then_trained_on():
    model = regressor(n_folds=3).fit(X, Y, graph=GRAPH, time="sold_on")
    held_out = model.validation_nodes_
    share = np.sort(np.delete(TIME, held_out))
    assert TIME[held_out].min() > share.max()
    assert 0.15 * N < held_out.size <= 0.25 * N
    n_candidates = len(model.state_.candidates)
    assert len(model.rounds_) == -(-3 // n_candidates) * n_candidates  # as many of each
    one = regressor(n_folds=1, labels="none", smoothing=None).fit(X, Y, graph=GRAPH, time=TIME)
    all_labels = regressor(early_stopping=False, labels="none", smoothing=None)
    all_labels.set_params(n_estimators=one.rounds_[0], random_state=0).fit(X, Y, graph=GRAPH)
    assert np.corrcoef(one.predict(), all_labels.predict())[0, 1] > 0.99


def test_with_time_the_labels_of_eval_set_alone_are_held_out():
    is_late = TIME > 30
    early, late = np.flatnonzero(~is_late), np.flatnonzero(is_late)
    model = regressor(selection="rules")
    model.fit(X, Y[early], nodes=early, eval_set=(late, Y[late]), graph=GRAPH, time=TIME)
    assert np.sort(model.validation_nodes_).tolist() == late.tolist() and len(model.rounds_) == 1


def test_a_date_orders_rows_as_its_number_does():
    dates = pd.Timestamp("2020-01-01") + pd.to_timedelta(TIME, unit="D")
    numbers = regressor(selection="rules").fit(X, Y, graph=GRAPH, time=TIME)
    for time in (dates, list(dates.date), dates.strftime("%Y-%m-%d").to_numpy()):
        model = regressor(selection="rules").fit(X, Y, graph=GRAPH, time=time)
        assert np.array_equal(model.predict(), numbers.predict())


def causal_model(**options):
    y = np.where(TIME <= 30, Y, np.nan)
    return regressor(**options.pop("parts", FIELD)).fit(
        X, y, time="sold_on", causal=True, **options
    )


@pytest.mark.parametrize(
    "options", [{"graph": GRAPH}, {"groups": STREETS, "parts": {"labels": "field"}}]
)
def test_causal_predictions_do_not_depend_on_later_labels(options, tmp_path):
    model = causal_model(**options)
    before = model.predict()
    late = np.flatnonzero((TIME > 30) & (TIME <= 35))
    after = model.predict(new_labels=(late, Y[late] + 9.0))
    np.testing.assert_allclose(after[TIME <= 32], before[TIME <= 32], atol=1e-8)
    assert np.abs(after - before)[TIME > 35].max() > 0.5
    model.save(tmp_path / "m.ebb", table=True)
    np.testing.assert_allclose(eb.load(tmp_path / "m.ebb").predict(), before)


def test_causal_predictions_do_not_depend_on_later_columns():
    model = causal_model(graph=GRAPH)
    arguments = {"graph": GRAPH, "time": "sold_on", "new_labels": ([], [])}
    before = model.predict(X, **arguments)
    after = model.predict(X.mask((TIME > 35)[:, None] & (X.columns != "sold_on"), 9.0), **arguments)
    np.testing.assert_allclose(after[TIME <= 35], before[TIME <= 35], atol=1e-8)
    assert np.abs(after - before)[TIME > 35].max() > 0.1


def test_new_rows_join_a_causal_model_with_their_time():
    old = TIME <= 30
    new = ~old
    model = regressor(**FIELD)
    model.fit(X[old], Y[old], coordinates=POINTS[old], time=TIME[old], causal=True)
    with pytest.raises(ValueError, match="time="):
        model.predict(X[new], coordinates=POINTS[new])
    predicted = model.predict(X[new], coordinates=POINTS[new], time=TIME[new])
    trees = regressor(labels="none", smoothing=None).fit(X[old], Y[old]).predict(X[new])
    assert np.mean((predicted - Y[new]) ** 2) < 0.7 * np.mean((trees - Y[new]) ** 2)
    early = model.predict(X[new], coordinates=POINTS[new], time=np.full(new.sum(), -1.0))
    assert np.abs(early - predicted).max() > 0.1  # no label is earlier


@pytest.mark.parametrize(
    ("options", "arguments", "message"),
    [
        ({}, {"causal": True}, "needs time"),
        ({}, {"time": "date"}, "not a column of X"),
        ({}, {"time": np.zeros(N)}, "times that differ"),
        ({}, {"time": np.where(TIME < 3, np.nan, TIME)}, "row .* has none"),
        ({}, {"time": ["soon"] * N}, "a number or a date"),
        ({}, {"time": TIME[:5]}, f"must have {N} entries"),
        ({"smoothing": eb.Laplacian()}, {"time": TIME, "causal": True}, "smoothing must be None"),
        ({"labels": "masked"}, {"time": TIME, "causal": True}, "use labels='field'"),
        ({}, {"time": TIME, "causal": True, "eval_set": ([0], [1.0])}, "eval_set must be later"),
    ],
)
def test_wrong_times_are_rejected(options, arguments, message):
    y = np.where(np.arange(N) == 0, np.nan, Y)
    with pytest.raises(ValueError, match=message):
        regressor(**options).fit(X, y, graph=GRAPH, **arguments)


def test_what_a_causal_model_cannot_do_is_said():
    model = regressor(labels="field").fit(X, Y, graph=GRAPH, time=TIME, causal=True)
    with pytest.raises(ValueError, match="causal=True"):
        model.explanations([0])
    with pytest.raises(ValueError, match="causal=True"):
        model.predictor()
    with pytest.raises(ValueError, match="not fitted with causal"):
        regressor(selection="rules").fit(X, Y).predict(X, time=TIME)


def test_intervals_of_later_rows_follow_a_drift_that_labels_show(tmp_path):
    known = np.flatnonzero(TIME <= 24)
    y = Y + 0.05 * TIME
    options = {"smoothing": None, "labels": "none", "n_folds": 2, "learning_rate": 0.3}
    features = X.assign(x=POINTS[:, 0])
    model = regressor(**options).fit(features, y[known], nodes=known, time=TIME)
    later = np.flatnonzero(TIME > 24)
    low, high = model.predict(interval=0.9)[1:]
    is_covered = (low <= y) & (y <= high)
    assert is_covered[later].mean() > 0.8
    without = regressor(**options).fit(features, y[known], nodes=known).predict(interval=0.9)
    assert is_covered[later].mean() > ((without.lower <= y) & (y <= without.upper))[later].mean()
    assert (high - model.predict())[later].mean() > 1.3 * (model.predict() - low)[later].mean()
    late = model.predict_distribution(nodes=later)
    assert late.mean.mean() == pytest.approx(0.5 * (low + high)[later].mean(), abs=0.15)
    assert late.cdf(y[later]).mean() == pytest.approx(0.5, abs=0.15)
    parts = model.uncertainty(later)
    np.testing.assert_allclose(parts[["noise", "field", "features"]].sum(axis=1), late.variance)
    model.save(tmp_path / "model.ebb")
    for one in (model, eb.load(tmp_path / "model.ebb")):
        groups = one.predict(interval=0.9, nodes=later, interval_groups=np.zeros(N))
        np.testing.assert_array_equal(groups.lower, low[later])


def test_the_field_is_less_sure_at_later_rows_where_it_was_at_the_forecasts():
    known = np.flatnonzero(TIME <= 24)
    later = np.flatnonzero(TIME > 24)
    options = {"smoothing": None, "labels": eb.LatentField(1.0, 0.05), "n_folds": 2}
    model = regressor(**options).fit(X, Y[known], nodes=known, graph=GRAPH, time=TIME)
    state = model.state_
    before = state.labels.subset(~np.isin(state.labels.nodes, state.forecast.nodes))

    def variances(labels, nodes):
        posterior = model.labels_.operator(GRAPH, labels.nodes, labels.weight)
        return posterior.variances(posterior.weight, nodes).values

    of_forecasts = variances(before, state.forecast.nodes)
    own = variances(state.labels, later)
    assert own.mean() < 0.9 * of_forecasts.mean()  # more labels are known
    expected = own * np.sqrt(of_forecasts.mean() / own.mean())
    np.testing.assert_allclose(state.spread.field_variance[later], expected, rtol=1e-6)


def test_distributions_of_later_counts_follow_a_drift_that_labels_show():
    known = np.flatnonzero(TIME <= 24)
    later = np.flatnonzero(TIME > 24)
    y = np.random.default_rng(0).poisson(np.exp(1.0 + 0.05 * TIME)).astype(float)
    options = {"loss": "poisson", "n_folds": 2, "learning_rate": 0.3}
    model = regressor(**options).fit(X[["a"]], y[known], nodes=known, time=TIME)
    late = model.predict_distribution(nodes=later)
    assert model.predict()[later].mean() < 0.7 * y[later].mean()
    assert late.mean.mean() == pytest.approx(y[later].mean(), rel=0.2)
    assert (late.quantile(0.05) <= y[later]).mean() > 0.9
