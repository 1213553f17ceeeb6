"""Several rows per node: the field of groups in fit and predict."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import ebboost as eb

N = 600
M = 40
RNG = np.random.default_rng(0)
POINTS = RNG.uniform(size=(M, 2))
BETWEEN = eb.Graph.build_knn(POINTS, 4)
EFFECT = np.sin(6 * POINTS[:, 0]) + np.cos(5 * POINTS[:, 1])
GROUPS = RNG.integers(0, M - 4, N)
X = pd.DataFrame(RNG.normal(size=(N, 2)), columns=["a", "b"])
Y = X["a"].to_numpy() + EFFECT[GROUPS] + 0.3 * RNG.normal(size=N)
OLD = slice(0, 400)
NEW = slice(400, N)
PARTS = {"smoothing": None, "labels": "field", "neighbor_features": None}


def regressor(**options):
    return eb.EBBSRegressor(40, random_state=0, n_jobs=1, **PARTS | options)


def error(predicted):
    return np.sqrt(np.mean((predicted - Y[NEW]) ** 2))


@pytest.mark.parametrize(
    ("graph", "features"), [(BETWEEN, None), (None, None), (BETWEEN, eb.NeighborFeatures())]
)
def test_new_rows_of_known_groups_have_the_effect_of_their_group(graph, features, tmp_path):
    model = regressor(neighbor_features=features)
    model.fit(X[OLD], Y[OLD], groups=GROUPS[OLD], graph=graph)
    predicted = model.predict(X[NEW], groups=GROUPS[NEW])
    plain = eb.EBBSRegressor(40, random_state=0, n_jobs=1).fit(X[OLD], Y[OLD])
    assert error(predicted) < (0.6 if features is None else 0.95) * error(plain.predict(X[NEW]))
    model.save(tmp_path / "m.ebb", table=True)
    loaded = eb.load(tmp_path / "m.ebb")
    np.testing.assert_allclose(loaded.predict(), model.predict())
    np.testing.assert_allclose(loaded.predict(X[NEW], groups=GROUPS[NEW]), predicted)


def test_sparse_tables_have_means_of_groups_too():
    known = X.where(np.abs(X) > 0.5, 0.0).to_numpy()
    tables = (known, sparse.csr_array(known))
    groups = np.arange(N) % M
    means = eb.NeighborFeatures(["mean"])
    dense, others = [
        regressor(neighbor_features=means).fit(table, Y, groups=groups, graph=BETWEEN)
        for table in tables
    ]
    columns = dense.tree_features()
    assert list(others.tree_features()) == list(columns) and "group_mean(x0)" in columns
    np.testing.assert_allclose(others.tree_features(), columns)
    default = eb.EBBSRegressor(10, random_state=0, n_jobs=1, n_folds=2)
    default.fit(tables[1][OLD], Y[OLD], groups=GROUPS[OLD], graph=BETWEEN)
    assert np.isfinite(default.predict(tables[1][NEW], groups=GROUPS[NEW])).all()


def test_rows_without_a_label_are_those_of_a_joined_fit():
    y = np.where(np.arange(N) < 400, Y, np.nan)
    joined = regressor().fit(X, y, groups=GROUPS, graph=BETWEEN)
    apart = regressor().fit(X[OLD], Y[OLD], groups=GROUPS[OLD], graph=BETWEEN)
    one, other = joined.predict()[NEW], apart.predict(X[NEW], groups=GROUPS[NEW])
    assert error(one) == pytest.approx(error(other), rel=0.05)
    assert np.corrcoef(one, other)[0, 1] > 0.98


def test_a_group_without_rows_is_informed_by_its_neighbours():
    model = regressor().fit(X, Y, groups=GROUPS, graph=BETWEEN)
    unseen = np.arange(M - 4, M)
    zeros = pd.DataFrame(np.zeros((4, 2)), columns=["a", "b"])
    predicted = model.predict(zeros, groups=unseen)
    unknown = model.predict(zeros, groups=np.arange(M, M + 4))
    assert np.ptp(unknown) == 0.0  # groups without edges: the trees alone
    assert np.abs(predicted - EFFECT[unseen]).mean() < np.abs(unknown - EFFECT[unseen]).mean()


def test_groups_may_be_a_column_of_any_dataframe():
    frame = X.assign(place=[f"p{g}" for g in GROUPS])
    by_name = regressor().fit(frame, Y, groups="place")
    by_array = regressor().fit(frame, Y, groups=frame["place"])
    assert np.array_equal(by_name.predict(), by_array.predict())
    assert by_name.predict(frame[:5], groups="place").shape == (5,)


@pytest.mark.parametrize("loss", ["poisson", "huber"])
def test_other_likelihoods_take_groups(loss):
    y = RNG.poisson(np.exp(EFFECT[GROUPS])) if loss == "poisson" else Y
    model = regressor(loss=loss).fit(X[OLD], y[OLD], groups=GROUPS[OLD], graph=BETWEEN)
    predicted = model.predict(X[NEW], groups=GROUPS[NEW])
    assert np.corrcoef(predicted, y[NEW])[0, 1] > 0.4


def test_classes_take_groups():
    model = eb.EBBSClassifier(20, random_state=0, n_jobs=1, **PARTS)
    model.fit(X[OLD], Y[OLD] > 0, groups=GROUPS[OLD], graph=BETWEEN)
    probabilities = model.predict_proba(X[NEW], groups=GROUPS[NEW])
    assert np.mean(probabilities.argmax(axis=1) == (Y[NEW] > 0)) > 0.8


def test_columns_of_groups_are_means_over_their_rows():
    features = eb.NeighborFeatures(["mean"], degree=False)
    rows = eb.Graph.from_groups(GROUPS, BETWEEN)
    values = features.fit_transform(X, graph=rows)
    means = X.groupby(GROUPS)["a"].mean().reindex(range(M))
    np.testing.assert_allclose(values[:, 2], means[GROUPS])
    near = [means[BETWEEN.neighbors(group)].mean() for group in range(M)]
    np.testing.assert_allclose(values[:, 4], np.array(near)[GROUPS])
    assert features.get_feature_names_out().tolist()[2:] == [
        "group_mean(a)",
        "group_mean(b)",
        "mean(a)",
        "mean(b)",
    ]


def test_misuse_of_groups_is_named():
    with pytest.raises(ValueError, match="groups='place' is not a column of X"):
        regressor().fit(X, Y, groups="place")
    with pytest.raises(ValueError, match="groups has 5 entries, X has 600 rows"):
        regressor().fit(X, Y, groups=GROUPS[:5])
    with pytest.raises(ValueError, match="no coordinates or relations"):
        regressor().fit(X, Y, groups=GROUPS, graph={"a": BETWEEN})
    model = regressor().fit(X, Y, groups=GROUPS)
    with pytest.raises(ValueError, match="This model was fitted with groups"):
        model.predict(X[:5])
    plain = regressor().fit(X, Y, graph=eb.Graph.build_knn(X.to_numpy(), 3))
    with pytest.raises(ValueError, match="fitted without groups"):
        plain.predict(X[:5], groups=GROUPS[:5])


def test_propagation_is_the_identity_with_groups():
    smooth = {"smoothing": eb.Laplacian(), "feature_smoothing": eb.Laplacian(20.0, 5)}
    model = regressor(**smooth).fit(X, Y, groups=GROUPS, graph=BETWEEN)
    assert np.array_equal(
        model.predict(), regressor().fit(X, Y, groups=GROUPS, graph=BETWEEN).predict()
    )
    assert np.array_equal(model.propagated_scores_, model.scores_)
    predictor = model.predictor()
    predictor.update([3], X[3:4] + 1.0)
    assert predictor.predict([3]) != model.predict(nodes=[3])


def test_the_default_averages_models_with_groups(tmp_path):
    model = eb.EBBSRegressor(30, random_state=0, n_jobs=1)
    model.fit(X[OLD], Y[OLD], groups=GROUPS[OLD], graph=BETWEEN)
    assert len(model.state_.rounds) > 1 and isinstance(model.labels_, eb.LatentField)
    predicted = model.predict(X[NEW], groups=GROUPS[NEW])
    plain = eb.EBBSRegressor(30, random_state=0, n_jobs=1).fit(X[OLD], Y[OLD])
    assert error(predicted) < 0.6 * error(plain.predict(X[NEW]))
    model.save(tmp_path / "m.ebb", table=True)
    loaded = eb.load(tmp_path / "m.ebb")
    np.testing.assert_allclose(loaded.predict(X[NEW], groups=GROUPS[NEW]), predicted)


@pytest.mark.parametrize("loss", ["squared_error", "poisson"])
def test_rules_read_the_variance_of_group_effects_off_the_labels(loss):
    rng = np.random.default_rng(1)
    group = rng.integers(0, 200, 8_000)
    effect = 0.5 * rng.normal(size=200)
    features = rng.normal(size=(8_000, 1))
    noise = rng.normal(size=8_000)
    y = effect[group] + noise if loss == "squared_error" else rng.poisson(np.exp(effect[group]))
    model = eb.EBBSRegressor.from_preset("fast", n_estimators=5, loss=loss, random_state=0)
    field = model.fit(features, y, groups=group).labels_
    expected = effect.var() / (1.0 if loss == "poisson" else y.var())
    assert 1.0 / field.lam == pytest.approx(expected, rel=0.4)
    unrelated = noise if loss == "squared_error" else rng.poisson(1.0, 8_000)
    alone = model.fit(features, unrelated, groups=group)
    assert alone.labels_ is None


def test_groups_that_are_no_nodes_of_the_graph_give_a_warning():
    X = np.arange(40.0)[:, None]
    model = eb.EBBSRegressor(2, labels="field", smoothing=None)
    near = eb.Graph.from_edges([0, 1], [1, 2])
    with pytest.warns(UserWarning, match="groups hold '1', graph has 0. Its edges are not used"):
        model.fit(X, X[:, 0], groups=["1", "2"] * 20, graph=near)
