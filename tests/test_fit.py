"""The fit: members, folds, weights, parts that the user sets, groups, time, invariances."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import minimize, nnls

import ebboost as eb
from ebboost.data.labels import Labels, split_at_random
from ebboost.defaults import PORTFOLIO
from ebboost.fit import combine, nested
from tests import dense
from tests.strategies import (
    LOSSES,
    adjacency_of_copies,
    fixed,
    homophilous,
    loss_data,
    quick,
    random_graph,
)

X, Y, GRAPH = homophilous(240)
KNOWN = np.arange(160)
NAN = np.where(np.arange(240) < 160, Y, np.nan)
CLASSES = np.digitize(Y, [-0.7, 0.7])
NAMES = [member.name for member in PORTFOLIO]


def members(model):
    return model.selection_["member"].tolist()


# ---------------------------------------------------------------------- members


@pytest.mark.parametrize(
    ("options", "arguments", "expected"),
    [
        ({}, {"graph": GRAPH}, set(NAMES)),
        ({}, {}, {"trees", "network"}),
        ({"learner": eb.LightGBM(7)}, {"graph": GRAPH}, {n for n in NAMES if "network" not in n}),
        ({"learner": eb.LightGBM(7)}, {}, {"trees"}),
        ({}, {"graph": eb.Graph.from_edges([], [], n_nodes=240)}, {"trees", "network"}),
        ({"n_folds": 1}, {"graph": GRAPH}, {"trees", "trees + field + neighbours"}),
        ({"n_folds": 1}, {}, {"trees"}),
        ({"early_stopping": False}, {"graph": GRAPH}, {"trees + default field"}),
        ({"early_stopping": False}, {}, {"trees"}),
    ],
)
def test_which_members_are_trained(options, arguments, expected):
    model = quick(n_estimators=3, **options).fit(X, NAN, **arguments)
    assert set(members(model)) <= expected
    if len(expected) < 3 or len(set(members(model))) == len(expected):
        assert set(members(model)) == expected
    else:  # those that are the same are trained once, such as all without a field that helps
        assert {"trees + default field", "trees"} <= set(members(model))


def test_members_that_the_users_parts_make_equal_are_trained_once():
    parts = {"labels": "none", "smoothing": None, "neighbor_features": None}
    model = quick(**parts, spectral_features=None).fit(X, NAN, graph=GRAPH)
    assert len(members(model)) == 2  # trees and networks
    assert not model.model_.uses_graph and model.gain_ is None


def test_parts_that_the_user_sets_are_those_of_every_member():
    parts = {
        "smoothing": eb.Laplacian(3.0, 1),
        "labels": eb.LatentField(0.7, 0.3),
        "neighbor_features": eb.NeighborFeatures(["max"]),
        "feature_smoothing": eb.Laplacian(5.0, 2),
        "spectral_features": eb.SpectralFeatures(3),
    }
    model = quick(**parts).fit(X, NAN, graph=GRAPH).model_
    for one in model.components:
        assert one.smoothing is parts["smoothing"] and one.field is parts["labels"]
        assert one.features.neighbors is parts["neighbor_features"]
        assert one.features.smoothing is parts["feature_smoothing"]
        names = [f"x{i}" for i in range(3)] + [f"max(x{i})" for i in range(3)]
        names += ["degree", "mean(degree)"] + [f"smoothed(x{i})" for i in range(3)]
        assert one.columns == (*names, "spectral0", "spectral1", "spectral2")


@pytest.mark.parametrize("kind", [eb.EBBSRegressor, eb.EBBSClassifier])
@pytest.mark.parametrize("n_labels", [2, 3, 5, 9, 10, 12])
@pytest.mark.parametrize("n_folds", ["auto", 1])
def test_few_labels_inform_their_neighbours(kind, n_labels, n_folds):
    target = Y if kind is eb.EBBSRegressor else np.arange(240) % 2
    nodes = np.arange(n_labels)
    model = kind(5, n_folds=n_folds, random_state=0, n_jobs=1)
    model.fit(X, target[nodes], nodes=nodes, graph=GRAPH)
    predicted = model.predict() if kind is eb.EBBSRegressor else model.predict_proba()[:, 1]
    assert np.isfinite(predicted).all()
    low, high = target[nodes].min(), target[nodes].max()
    assert ((predicted >= low - 2.0) & (predicted <= high + 2.0)).all()
    if n_labels < 10 or n_folds == 1:
        assert np.ptp(predicted) > 0.0
    assert model.summary()


def test_one_model_and_fits_without_early_stopping_use_the_graph():
    plain = quick(n_folds=1, n_estimators=60).fit(X, NAN).score(X[160:], Y[160:])
    for options in ({"n_folds": 1}, {"early_stopping": False}):
        model = quick(n_estimators=60, **options).fit(X, NAN, graph=GRAPH)
        assert model.score(None, Y, nodes=np.arange(160, 240)) > plain + 0.3
    model = quick(n_folds=1).fit(X, NAN, graph=GRAPH, eval_set=(np.arange(160, 200), Y[160:200]))
    assert model.model_.labels.size == 160 and model.predict(interval=0.9).upper.size == 240


def test_skewed_numbers_train_networks_with_the_poisson_loss():
    def losses(y, **arguments):
        options = arguments.pop("options", {})
        model = quick(**options).fit(X, y, graph=GRAPH, **arguments).model_
        return {type(one.loss) for one in model.components if "network" in one.member.name}

    skewed = np.exp(2.0 * Y)
    assert losses(skewed) == {eb.Poisson}
    for other in ({"options": {"loss": "squared_error"}}, {"offset": np.zeros(240)}):
        assert losses(skewed, **other) <= {type(None)}
    assert losses(skewed - 1.0) <= {type(None)} and losses(10.0 + Y) <= {type(None)}


def test_of_a_wide_sparse_table_members_have_directions_or_columns_of_the_graph():
    wide = sparse.random(240, 300, 0.05, format="csr", random_state=0)
    model = quick().fit(wide, NAN, graph=GRAPH)
    by_name = {one.member.name: one.features.own for one in model.model_.components}
    assert set(by_name.values()) <= {"vectors", "none"} and "vectors" in by_name.values()
    assert model.feature_importances_.shape == (300,)
    none = quick(neighbor_features=None, spectral_features=None).fit(wide, NAN, graph=GRAPH)
    assert {one.features.own for one in none.model_.components} == {"vectors"}


# ---------------------------------------------------------------------- weights


def member_scores(loss, seed, m=80, n_members=3):
    """Noisy copies of a signal, as raw predictions of members."""
    rng = np.random.default_rng(seed)
    truth, target = loss_data(loss, seed, m)
    signal = 0.3 * np.sign(target - target.mean()) if loss.log_link else target
    noise = rng.uniform(0.2, 1.5, n_members)[:, None, None] * rng.normal(
        size=(n_members, *truth.shape)
    )
    raw = signal + (0.3 * noise if loss.log_link else noise)
    return raw, Labels(np.arange(m), target, rng.random(m) + 0.1)


@given(seed=st.integers(0, 10_000), n_members=st.integers(1, 6), offset=st.booleans())
@settings(max_examples=40, deadline=None)
def test_weights_of_squared_error_are_those_of_nnls_beside_an_intercept(seed, n_members, offset):
    raw, labels = member_scores(eb.SquaredError(), seed, n_members=n_members)
    raw = 3.0 + raw
    own = np.random.default_rng(seed).normal(size=(80, 1)) if offset else None
    weights, intercept = combine(raw, labels, eb.SquaredError(), own)
    fixed_scores = np.zeros((80, 1)) if own is None else own
    root = np.sqrt(labels.weight)[:, None]
    columns = np.column_stack([*(raw - fixed_scores)[:, :, 0], np.ones(80), -np.ones(80)])
    expected, _ = nnls(root * columns, (root * (labels.target - fixed_scores))[:, 0])
    np.testing.assert_allclose(weights, expected[:-2], atol=1e-6)
    assert intercept[0] == pytest.approx(expected[-2] - expected[-1], abs=1e-6)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@given(seed=st.integers(0, 10_000), offset=st.booleans())
@settings(max_examples=6, deadline=None)
def test_weights_have_the_least_loss_of_all_that_are_not_negative(loss, seed, offset):
    raw, labels = member_scores(loss, seed)
    has_offset = offset and raw.shape[2] == 1
    own = 0.3 * np.random.default_rng(seed).normal(size=(80, 1)) if has_offset else 0.0
    weights, intercept = combine(raw, labels, loss, own if has_offset else None)
    assert (weights >= 0.0).all()

    def value(parameters):
        scores = own + parameters[3:].sum() + np.tensordot(parameters[:3], raw - own, 1)
        with np.errstate(all="ignore"):
            total = labels.mean(loss.value(scores, labels.target))
        return total if np.isfinite(total) else 1e10

    has_intercept = int(raw.shape[2] == 1 and loss.curvature_has_units)
    found = np.append(weights, intercept) if has_intercept else weights
    bounds = [(0.0, None)] * 3 + [(None, None)] * has_intercept
    for start in (found, np.append(np.full(3, 1 / 3), np.zeros(has_intercept))):
        other = minimize(value, start, method="SLSQP", bounds=bounds, options={"ftol": 1e-13})
        assert value(found) <= other.fun + 1e-4 * abs(other.fun) + 1e-5


def test_nested_predictions_have_weights_of_the_other_folds():
    raw, labels = member_scores(eb.SquaredError(), 0)
    evaluation = Labels(np.arange(80, 90), labels.target[:10] + 1.0, np.ones(10))
    folds = split_at_random(labels, 3, 0, False, evaluation)
    unseen = folds.unseen
    both = np.concatenate([raw[:, np.concatenate(folds.held_out)], raw[:, :10]], axis=1)
    result = nested(both, folds, eb.SquaredError(), None)
    part = np.repeat(np.arange(4), [*(held.size for held in folds.held_out), 10])
    for number in range(4):
        others = part != number
        weights, intercept = combine(
            both[:, others], unseen.subset(others), eb.SquaredError(), None
        )
        expected = intercept + np.tensordot(weights, both[:, part == number], 1)
        np.testing.assert_allclose(result[part == number], expected)


def test_components_are_the_members_of_positive_weight_and_add_up_to_predictions():
    model = quick().fit(X, NAN, graph=GRAPH)
    weights = dict(zip(members(model), model.selection_["weight"], strict=True))
    own = {one.member.name: one.weight for one in model.model_.components}
    assert own == {name: weight for name, weight in weights.items() if weight > 0.0}
    total = model.model_.intercept[0] + np.zeros(240)
    for one, smoothed, z in zip(
        model.model_.components, model.model_.smoothed, model.model_.fields, strict=True
    ):
        scores = smoothed + (0.0 if z is None else z)
        total = total + one.weight * one.to_raw(scores)[:, 0]
    np.testing.assert_allclose(model.predict(), total, rtol=1e-9)


# ---------------------------------------------------------------------- folds


def test_every_label_is_predicted_once_by_models_not_trained_on_it():
    parts = {"labels": eb.LatentField(), "n_folds": 3, "early_stopping": True, "n_estimators": 1}
    one = fixed(**parts).fit(X, NAN, graph=GRAPH).model_.unseen
    assert np.sort(one.rows).tolist() == KNOWN.tolist()
    np.testing.assert_array_equal(one.target[:, 0], Y[one.rows])
    for row in (0, 77):
        changed = NAN.copy()
        changed[row] += 100.0
        other = fixed(**parts).fit(X, changed, graph=GRAPH).model_.unseen
        same = np.flatnonzero(one.rows == row)
        np.testing.assert_allclose(other.raw[same], one.raw[same], rtol=1e-9)
        assert np.abs(other.raw - one.raw).max() > 1.0


def test_labels_of_eval_set_are_held_out_and_weigh_with_the_others():
    extra = (np.arange(160, 200), Y[160:200])
    model = quick().fit(X, NAN, graph=GRAPH, eval_set=extra).model_
    assert model.labels.rows.tolist() == KNOWN.tolist()
    assert model.unseen.rows[-40:].tolist() == extra[0].tolist()
    few = quick().fit(X, NAN, graph=GRAPH, eval_set=([170], [1.0]))
    assert few.model_.unseen.rows.size == 161 and few.summary()


@pytest.mark.parametrize("extra", [None, (np.arange(160, 200), Y[160:200])])
@pytest.mark.parametrize("n_folds", ["auto", 1])
def test_in_time_labels_are_predicted_from_earlier_ones(extra, n_folds):
    time = np.random.default_rng(0).permutation(240).astype(float)
    model = quick(n_folds=n_folds).fit(X, NAN, graph=GRAPH, time=time, eval_set=extra).model_
    rows = model.unseen.rows[: 16 if n_folds == 1 else 32]
    assert set(rows) == set(KNOWN[np.argsort(time[:160])[-rows.size :]])
    assert model.unseen.rows.size == rows.size + (0 if extra is None else 40)
    assert model.labels.size == 160 and np.isfinite(model.raw).all()


def test_time_may_have_ties_and_be_a_column_or_dates():
    pd = pytest.importorskip("pandas")
    days = np.arange(240) // 30
    frame = pd.DataFrame(X).assign(when=pd.Timestamp("2024-01-01") + pd.to_timedelta(days, "D"))
    frame.columns = frame.columns.astype(str)
    by_name = quick().fit(frame, NAN, graph=GRAPH, time="when")
    by_dates = quick().fit(frame, NAN, graph=GRAPH, time=frame["when"])
    by_number = quick().fit(frame, NAN, graph=GRAPH, time=days)
    np.testing.assert_array_equal(by_name.predict(), by_number.predict())
    np.testing.assert_array_equal(by_dates.predict(), by_number.predict())
    one = eb.EBBSRegressor(5, random_state=0).fit(X, NAN, graph=GRAPH, time=days > 3)
    assert np.isfinite(one.predict()).all()


def test_classes_and_counts_may_be_missing_from_some_folds():
    rare = CLASSES.copy()
    rare[0] = 9
    model = quick(eb.EBBSClassifier, n_estimators=4).fit(X, rare, graph=GRAPH)
    assert model.classes_.tolist() == [0, 1, 2, 9]
    np.testing.assert_allclose(model.predict_proba().sum(axis=1), 1.0)
    late = np.where(CLASSES == 2, 10.0, 0.0) + np.arange(240) / 240
    model = quick(eb.EBBSClassifier, n_estimators=4).fit(X, CLASSES, graph=GRAPH, time=late)
    assert np.isfinite(model.predict_proba()).all()
    counts = np.zeros(240)
    counts[::30] = 3.0
    for loss in ("poisson", "negative_binomial", "tweedie"):
        model = quick(loss=loss, n_estimators=6).fit(X, counts, graph=GRAPH)
        assert np.isfinite(model.predict(interval=0.9).upper).all()
        model = quick(loss=loss, n_estimators=6).fit(
            X, counts, graph=GRAPH, time=counts + np.arange(240) / 240
        )
        assert np.isfinite(model.predict()).all() and model.predict().max() < 100.0


def test_fifty_classes_and_one_label_each():
    model = quick(eb.EBBSClassifier, n_estimators=2).fit(X, np.arange(240) % 50, graph=GRAPH)
    assert model.predict_proba().shape == (240, 50)
    model = quick(eb.EBBSClassifier, n_estimators=2).fit(X[:40], np.arange(40))
    np.testing.assert_allclose(model.predict_proba().sum(axis=1), 1.0)


# ---------------------------------------------------------------------- groups


@pytest.mark.parametrize("between", [None, random_graph(12, 30)])
@pytest.mark.parametrize("loss", ["squared_error", "poisson"])
def test_rows_of_a_group_share_the_mode_of_its_field(between, loss):
    rng = np.random.default_rng(0)
    groups = rng.integers(0, 12, 240)
    y = Y if loss == "squared_error" else rng.poisson(np.exp(0.5 * Y)).astype(float)
    y = np.where(np.arange(240) < 160, y, np.nan)
    field = eb.LatentField(1.5, 0.2)
    model = fixed(labels=field, loss=loss).fit(X, y, groups=groups, graph=between)
    graph = between if between is not None else eb.Graph.from_edges([], [], n_nodes=12)
    node = groups if between is not None else model.model_.places.node_of_row
    one = model.model_.components[0]
    base = one.init_score + one.scores
    labels = Labels(KNOWN, y[KNOWN, None], np.ones(160))
    Q = dense.precision(graph, field)
    z = dense.mode(model.loss_, base[KNOWN], labels, node[KNOWN], Q)
    expected = model.loss_.inverse_link(base + z[node])[:, 0]
    np.testing.assert_allclose(model.predict(), expected, rtol=1e-4, atol=1e-4)
    effect = model.predict() - model.loss_.inverse_link(base)[:, 0]
    if loss == "squared_error":
        for group in range(12):
            assert np.ptp(effect[groups == group]) < 1e-9


def test_a_group_for_each_row_is_a_fit_on_the_graph():
    order = np.random.default_rng(0).permutation(240)
    shuffled = eb.Graph.from_scipy(GRAPH.adjacency[order][:, order])
    parts = {"labels": eb.LatentField(), "neighbor_features": eb.NeighborFeatures()}
    rows = fixed(**parts).fit(X, NAN, graph=GRAPH)
    same = fixed(**parts).fit(X, NAN, groups=np.arange(240), graph=GRAPH)
    np.testing.assert_allclose(same.predict(), rows.predict(), rtol=1e-9)
    other = fixed(labels=eb.LatentField()).fit(X, NAN, groups=np.argsort(order), graph=shuffled)
    one = fixed(labels=eb.LatentField()).fit(X, NAN, graph=GRAPH)
    np.testing.assert_allclose(other.predict(), one.predict(), rtol=1e-9, atol=1e-9)


def test_group_effects_are_found_and_unknown_groups_are_nodes_without_edges():
    rng = np.random.default_rng(1)
    groups = np.array([f"g{k}" for k in rng.integers(0, 20, 240)], dtype=object)
    effect = dict(zip(sorted(set(groups)), rng.normal(size=20), strict=True))
    y = X[:, 0] + np.array([effect[g] for g in groups]) + 0.1 * rng.normal(size=240)
    known = np.where(np.arange(240) < 160, y, np.nan)
    model = quick(n_estimators=40).fit(X, known, groups=groups)
    assert model.score(None, y, nodes=np.arange(160, 240)) > 0.8
    assert model.gain_.relative > 0.3
    pd = pytest.importorskip("pandas")
    edges = pd.DataFrame({"a": ["g0", "g1"], "b": ["g1", "g2"]})
    graph = eb.Graph.from_dataframe(edges)
    model = quick().fit(X, known, groups=groups, graph=graph)
    assert model.graph_.n_nodes == 20 and model.graph_.n_edges == 2 and graph.n_nodes == 3
    with pytest.warns(UserWarning, match="No group is a node of graph"):
        quick(n_estimators=2).fit(X, known, groups=np.arange(240) % 7, graph=graph)


# ---------------------------------------------------------------------- invariances

DEFAULT = {"n_estimators": 8, "n_folds": 2}
PARTS = {
    "smoothing": eb.Laplacian(1.0, 3),
    "labels": eb.LatentField(),
    "neighbor_features": eb.NeighborFeatures(),
}


def predictions(X=X, y=NAN, weight=None, graph=GRAPH, **options):
    return quick(**DEFAULT | options).fit(X, y, weight, graph=graph).predict()


def of_parts(X=X, y=NAN, weight=None, graph=GRAPH, leaf=3.5, **options):
    """One member whose leaves are limited by their curvature, not by their number of rows."""
    params = {"min_data_in_bin": 1, "min_sum_hessian_in_leaf": leaf}
    learner = eb.LightGBM(min_child_samples=0, params=params)
    model = fixed(**{"n_estimators": 8, "learner": learner} | PARTS | options)
    return model.fit(X, y, weight, graph=graph).predict()


def difference(result, expected):
    """The largest difference in standard deviations."""
    return np.abs(result - expected).max() / expected.std()


@pytest.mark.parametrize(("factor", "shift"), [(1e-6, 0.0), (1e9, 0.0), (3.0, 700.0), (1e-29, 0.0)])
def test_predictions_scale_and_shift_with_the_labels(factor, shift):
    result = predictions(y=factor * NAN + shift)
    assert difference((result - shift) / factor, predictions()) < 1e-5


def test_the_unit_of_weights_threads_and_other_containers_do_not_matter():
    expected = predictions()
    assert np.array_equal(predictions(weight=np.full(240, 4.0)), expected)
    assert np.array_equal(predictions(n_jobs=2), expected)
    assert np.array_equal(predictions(y=NAN.tolist()), expected)
    assert np.array_equal(predictions(X=X.tolist()), expected)
    assert np.array_equal(predictions(X=sparse.csr_array(X)), expected)
    assert difference(predictions(X=X.astype(np.float32)), expected) < 1e-2


def test_the_same_seed_gives_the_same_predictions_and_another_one_others():
    for kind, y in ((eb.EBBSRegressor, NAN), (eb.EBBSClassifier, CLASSES)):
        one, same, other = (
            quick(kind, n_estimators=4, random_state=seed).fit(X, y, graph=GRAPH).model_.raw
            for seed in (0, 0, 1)
        )
        np.testing.assert_array_equal(one, same)
        assert not np.array_equal(one, other)


def test_permuted_nodes_have_permuted_predictions():
    order = np.random.default_rng(0).permutation(240)
    graph = eb.Graph.from_scipy(GRAPH.adjacency[order][:, order])
    assert difference(of_parts(X[order], NAN[order], graph=graph), of_parts()[order]) < 1e-9


def test_a_disconnected_copy_changes_no_prediction():
    graph = adjacency_of_copies(GRAPH)
    twice = of_parts(np.vstack([X, X]), np.tile(NAN, 2), graph=graph, leaf=7.0)
    assert difference(twice, np.tile(of_parts(), 2)) < 1e-9


def test_isolated_rows_without_labels_change_no_prediction():
    more = sparse.block_diag([GRAPH.adjacency, sparse.csr_array((20, 20))]).tocsr()
    y = np.append(NAN, np.full(20, np.nan))
    result = of_parts(np.vstack([X, X[:20]]), y, graph=eb.Graph.from_scipy(more))
    assert difference(result[:240], of_parts()) < 1e-9


def test_rows_of_weight_zero_count_as_unlabelled_and_halved_copies_change_nothing():
    weight = (np.arange(240) < 160).astype(float)
    np.testing.assert_array_equal(of_parts(y=Y, weight=weight), of_parts())
    plain = {"smoothing": None, "labels": "none", "neighbor_features": None, "graph": None}
    twice = of_parts(np.vstack([X, X]), np.tile(Y, 2), np.full(480, 0.5), leaf=7.0, **plain)
    assert difference(twice[:240], of_parts(y=Y, **plain)) < 1e-9


def test_an_offset_is_what_labels_are_less_before_it_is_added_again():
    offset = 3.0 * X[:, 1]
    options = {"n_estimators": 8, "n_folds": 2, "random_state": 0, "n_jobs": 1}
    zero = eb.EBBSRegressor(**options).fit(X, NAN - offset, graph=GRAPH, offset=np.zeros(240))
    own = eb.EBBSRegressor(**options).fit(X, NAN, graph=GRAPH, offset=offset)
    np.testing.assert_allclose(own.predict(), zero.predict() + offset, atol=1e-9)


@pytest.mark.parametrize("loss", ["poisson", "negative_binomial", "gamma", "tweedie"])
def test_exposure_is_the_exponential_of_an_offset(loss):
    rng = np.random.default_rng(0)
    exposure = rng.uniform(0.5, 20.0, 240)
    y = exposure * rng.gamma(3.0, np.exp(0.5 * Y) / 3.0)
    model = quick(loss=loss).fit(X, y.round() + 1.0, graph=GRAPH, exposure=exposure)
    other = quick(loss=loss)
    other.fit(X, y.round() + 1.0, graph=GRAPH, offset=np.log(exposure))
    np.testing.assert_allclose(model.predict(), other.predict(), rtol=1e-9)
    rate = model.predict() / exposure
    assert np.corrcoef(np.log(rate), 0.5 * Y)[0, 1] > 0.6


# ---------------------------------------------------------------------- limits and callbacks


def test_max_seconds_ends_a_fit_with_what_is_complete():
    for seconds in (1e-9, 0.02):
        model = eb.EBBSRegressor(max_seconds=seconds, random_state=0).fit(X, NAN, graph=GRAPH)
        assert np.isfinite(model.predict()).all() and model.stop_reason_.startswith("max_seconds")
    model = quick(max_seconds=600.0).fit(X, NAN, graph=GRAPH)
    np.testing.assert_array_equal(model.predict(), quick().fit(X, NAN, graph=GRAPH).predict())


def test_callbacks_see_every_round_of_every_model():
    seen = []

    class Note(eb.Callback):
        def after_round(self, info):
            seen.append((info.member, info.fold, info.round))
            assert info.model.scores.shape[0] >= 160 and info.validation_loss is not None

    model = quick(n_estimators=3, n_jobs=2).fit(X, NAN, graph=GRAPH, callbacks=[Note()])
    expected = product(members(model), range(2), range(3))
    assert sorted(seen) == sorted(expected)


def test_a_callback_may_stop_training_and_early_stopping_keeps_the_best_round():
    class StopAfter(eb.Callback):
        reason = "enough"

        def after_round(self, info):
            return info.round == 1

    model = quick().fit(X, NAN, graph=GRAPH, callbacks=StopAfter())
    assert set(model.rounds_) <= {0, 1, 2} and model.stop_reason_ == "enough"
    model = fixed(n_folds=2, n_estimators=400, early_stopping=3).fit(X, NAN, graph=GRAPH)
    history = model.history_["validation"]
    assert model.rounds_[0] == int(np.argmin(history)) + 1 == len(history) - 3
