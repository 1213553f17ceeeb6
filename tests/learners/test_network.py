"""Random networks: ridge regression on units, Shapley values, inputs, files."""

from dataclasses import replace
from itertools import permutations

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import ebboost as eb
from ebboost.data.reader import TableReader
from ebboost.data.sharded import shard
from ebboost.learners import units as units_module
from ebboost.learners.network import NetworkEnsemble, regression_gains
from ebboost.learners.units import Scaling, Units
from tests.backends.dask.threads import in_threads
from tests.learners.helpers import fitted, problem, start
from tests.problems import homophilous


def network(n_rounds=3, n_outputs=2):
    """A trained network and its table, with a category and missing values."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(120, 2))
    values[::5, 1] = np.nan
    kinds = pd.Categorical(rng.choice(["a", "b", "c"], 120))
    table = TableReader().fit(pd.DataFrame(values, columns=["one", "two"]).assign(kind=kinds))
    grower = start(eb.RandomNetwork(8), table, n_outputs)
    for _ in range(n_rounds):
        grower.grow(rng.normal(size=(120, n_outputs)), rng.random((120, 1)) + 0.1)
    return grower.compile([0.5] * n_rounds), table


def test_weights_of_a_round_solve_the_ridge_regression():
    rng = np.random.default_rng(0)
    table = TableReader().fit(rng.normal(size=(200, 3)))
    gradient = rng.normal(size=(200, 1))
    curvature = rng.random((200, 1))
    curvature[::3] = 0.0  # rows without a label
    grower = start(eb.RandomNetwork(10, ridge=0.01), table)
    values = grower.grow(gradient, curvature)
    ensemble = grower.compile([1.0])
    units = ensemble.units
    rows = ensemble.scaling.transform(table.values)
    hidden = np.ones((200, 11))
    for number in range(10):
        own = rows[:, units.inputs[number]] @ units.coefficients[number]
        hidden[:, number] = np.maximum(own + units.biases[number], 0.0)
    weight = curvature[:, 0]
    gram = hidden.T @ (weight[:, None] * hidden)
    gram += 0.01 * np.trace(gram) / 11 * np.eye(11)
    target = np.where(weight > 0.0, -gradient[:, 0], 0.0)
    expected = hidden @ np.linalg.solve(gram, hidden.T @ target)
    np.testing.assert_allclose(values[:, 0], expected, atol=1e-5)


def test_gains_are_those_of_weighted_regressions_on_single_units(monkeypatch):
    rng = np.random.default_rng(0)
    columns = rng.normal(size=(5, 60)).astype(np.float32)[:, :50]  # a part of a larger array
    inputs = rng.integers(5, size=(4, 3))
    coefficients = rng.normal(size=(4, 3)).astype(np.float32)
    coefficients[1, 2] = coefficients[2, 1:] = coefficients[3] = 0.0
    biases = rng.normal(size=4).astype(np.float32)
    biases[3] = 2.0  # a constant explains nothing beside the bias
    units = Units(inputs, coefficients, biases, np.zeros((0, 2), dtype=np.float32))
    hidden = np.array(
        [c @ columns[i] + b for i, c, b in zip(inputs, coefficients, biases, strict=True)]
    ).clip(0)
    hidden = hidden.T.astype(np.float64)
    target = rng.normal(size=(50, 2))
    weight = rng.random(50)

    def error(columns):
        root = np.sqrt(weight)[:, None]
        fit = np.linalg.lstsq(root * columns, root * target, rcond=None)[0]
        return float((weight[:, None] * (target - columns @ fit) ** 2).sum())

    ones = np.ones((50, 1))
    expected = [error(ones) - error(np.column_stack([ones, hidden[:, k]])) for k in range(4)]
    gains = regression_gains(units, columns, target, weight, ones)
    np.testing.assert_allclose(gains, expected, atol=1e-5)
    monkeypatch.setattr(units_module, "COMPILED", None)
    without_compiler = regression_gains(units, columns, target, weight, ones)
    np.testing.assert_allclose(gains, without_compiler, atol=1e-12)


def test_values_times_factors_are_the_same_without_a_compiler(monkeypatch):
    rng = np.random.default_rng(0)
    columns = rng.normal(size=(4, 3000)).astype(np.float32)
    coefficients = rng.normal(size=(7, 3)).astype(np.float32)
    coefficients[:3, 1] = 0.0
    biases = rng.normal(size=7).astype(np.float32)
    units = Units(rng.integers(4, size=(7, 3)), coefficients, biases, np.zeros((0, 1), np.float32))
    factors = rng.random(2000).astype(np.float32)
    compiled = units.times(columns[:, 500:2500], factors)
    np.testing.assert_array_equal(compiled[-1], factors)
    assert (compiled[:-1] >= 0.0).all() and compiled[:-1].any(axis=1).all()
    monkeypatch.setattr(units_module, "COMPILED", None)
    np.testing.assert_allclose(compiled, units.times(columns[:, 500:2500], factors), atol=1e-5)


def test_units_of_informative_columns_are_kept_and_drawn_more_often():
    rng = np.random.default_rng(0)
    table = TableReader().fit(rng.normal(size=(3000, 20)))
    grower = start(eb.RandomNetwork(32), table)
    scores = np.zeros((3000, 1))
    target = np.abs(table.values[:, [3]])
    for _ in range(10):
        scores += 0.3 * grower.grow(scores - target, np.ones((3000, 1)))
    units = grower.compile([0.3] * 10).units
    is_informative = ((units.inputs == 3) & (units.coefficients != 0.0)).any(axis=1)
    first, later = is_informative[:32].mean(), is_informative[32:].mean()
    assert first > 0.2 and later > first  # one of ten units, if they were drawn at random
    again = start(eb.RandomNetwork(32), table)
    again.restore(grower.state())
    gradient = scores - target
    ones = np.ones((3000, 1))
    np.testing.assert_array_equal(again.grow(gradient, ones), grower.grow(gradient, ones))


def test_values_that_are_equal_but_for_rounding_have_the_same_input():
    rng = np.random.default_rng(0)
    degrees = np.sqrt(rng.integers(1, 6, size=300)) * (1.0 + 1e-8 * rng.normal(size=300))
    degrees -= np.sqrt(3.0)  # noise around zero, too
    table = TableReader().fit(degrees[:, None])
    inputs = Scaling.fit(table).transform(table.values)[:, 0]
    for level in np.unique(degrees.round(4)):
        assert np.ptp(inputs[degrees.round(4) == level]) < 1e-4
    assert np.unique(inputs.round(3)).size == 5


def test_inputs_are_constant_beyond_the_rows_with_labels():
    rng = np.random.default_rng(0)
    values = np.column_stack([np.arange(200.0), rng.random(200)])
    table = TableReader().fit(values)
    curvature = np.where(np.arange(200) < 120, 1.0, 0.0)[:, None]  # the last rows are later

    def grow(grower):
        return grower.grow(-values[:, :1] * curvature, curvature)

    grower = start(eb.RandomNetwork(16), table)
    scores = grow(grower)
    state = grower.state()
    ensemble = grower.compile([1.0])
    np.testing.assert_allclose(ensemble.predict(table), scores, atol=1e-9)
    later = TableReader().fit(np.column_stack([np.linspace(119.0, 900.0, 200), values[:, 1]]))
    last = TableReader().fit(np.column_stack([np.full(200, 119.0), values[:, 1]]))
    np.testing.assert_allclose(ensemble.predict(later), ensemble.predict(last), atol=1e-9)
    assert np.ptp(ensemble.scaling.scores[1]) > 5.0  # the other column is as it was
    again = start(eb.RandomNetwork(16), table)
    again.restore(state)
    np.testing.assert_array_equal(grow(again), grow(grower))


def test_growers_that_share_inputs_have_the_limits_of_their_own_labels():
    values = np.arange(200.0)[:, None]
    table = TableReader().fit(values)
    is_early = (np.arange(200) < 100)[:, None]

    def predict(grower, is_known):
        grower.grow(-values * is_known, 1.0 * is_known)
        return grower.compile([1.0]).predict(table)

    first = start(eb.RandomNetwork(16), table)
    predict(first, is_early)
    one = predict(first.clone_with_shared_bins(1), ~is_early)
    other = predict(start(eb.RandomNetwork(16), table).clone_with_shared_bins(1), ~is_early)
    np.testing.assert_array_equal(one, other)
    assert np.ptp(one[:100]) == 0.0 < np.ptp(one[100:])


@pytest.mark.parametrize(("n_rows", "n_outputs"), [(1, 1), (1500, 1), (1500, 3)])
def test_scores_of_units_are_their_definition(monkeypatch, n_rows, n_outputs):
    rng = np.random.default_rng(0)
    inputs = rng.integers(5, size=(7, 3))
    coefficients = rng.normal(size=(7, 3)).astype(np.float32)
    coefficients[2:4, 1:] = 0.0
    biases = rng.normal(size=7).astype(np.float32)
    outputs = rng.normal(size=(8, n_outputs)).astype(np.float32)
    units = Units(inputs, coefficients, biases, outputs)
    rows = rng.normal(size=(n_rows, 5))
    hidden = np.maximum((rows[:, inputs] * coefficients).sum(axis=2) + biases, 0.0)
    expected = np.column_stack([hidden, np.ones(n_rows)]) @ outputs
    np.testing.assert_allclose(units.scores(rows), expected, atol=1e-12)
    np.testing.assert_array_equal(units.scores(rows[-1:]), units.scores(rows)[-1:])
    monkeypatch.setattr("ebboost.learners.units.COMPILED", None)
    np.testing.assert_allclose(units.scores(rows), expected, atol=1e-12)


def test_contributions_are_shapley_values():
    """Against their definition: the mean over all orders in which inputs are revealed."""
    ensemble, table = network(n_rounds=1, n_outputs=1)
    contributions = ensemble.contributions(table)[:, 0]
    rows = ensemble.scaling.transform(table.values)
    n_inputs = rows.shape[1]

    def predict(known):
        units = ensemble.units
        masked = np.where(np.isin(np.arange(rows.shape[1]), known), rows, 0.0)
        return 0.5 * units.scores(masked)[:, 0]

    expected = np.zeros((120, 4))
    expected[:, -1] = predict([])
    orders = list(permutations(range(n_inputs)))
    for order in orders:
        for position, one in enumerate(order):
            gain = predict(order[: position + 1]) - predict(order[:position])
            expected[:, ensemble.scaling.source[one]] += gain / len(orders)
    np.testing.assert_allclose(contributions, expected, atol=1e-6)


def test_contributions_add_up_to_predictions():
    ensemble, table = network()
    total = ensemble.contributions(table).sum(axis=2)
    np.testing.assert_allclose(total, ensemble.predict(table), atol=1e-10)


def test_inputs_are_normal_scores_and_indicators():
    ensemble, table = network()
    rows = ensemble.scaling.transform(table.values)
    assert ensemble.scaling.source.tolist() == [0, 1, 1, 2, 2, 2]
    order = np.argsort(table.values[:, 0])
    assert (np.diff(rows[order, 0]) >= 0.0).all()
    assert abs(rows[:, 0].mean()) < 0.05 and rows[:, 0].std() == pytest.approx(1.0, abs=0.1)
    np.testing.assert_array_equal(rows[:, 2], np.isnan(table.values[:, 1]))
    np.testing.assert_array_equal(rows[:, 3:].sum(axis=1), 1.0)


def test_constant_columns_have_no_input():
    table = TableReader().fit(np.ones((50, 2)))
    grower = start(eb.RandomNetwork(), table)
    assert grower.grow(np.ones((50, 1)), np.ones((50, 1))) is None


def test_wrong_parameters_and_sparse_tables_are_rejected():
    X, y, graph = problem()
    for wrong in (0, "8", None):
        with pytest.raises(ValueError, match="n_units must be"):
            fitted(eb.RandomNetwork(wrong), X, y, graph)
    for wrong in (-1.0, "a", None):
        with pytest.raises(ValueError, match="ridge must be"):
            fitted(eb.RandomNetwork(8, wrong), X, y, graph)
    assert fitted(eb.RandomNetwork(np.int64(8)), X, y, graph).score(None, y) > 0.5
    wide = sparse.csr_array(np.hstack([X, np.zeros((len(X), 130))]))
    with pytest.raises(ValueError, match="not sparse"):
        fitted(eb.RandomNetwork(), wide, y, graph)


def test_arrays_of_a_file_are_checked():
    ensemble, _ = network()
    ensemble.check(3, 2, {2: 3})

    def changed(**changes):
        parts = vars(ensemble.scaling) | vars(ensemble.units) | {"weights": ensemble.weights}
        parts |= changes
        scaling = Scaling(*(parts[name] for name in vars(ensemble.scaling)))
        units = Units(*(parts[name] for name in vars(ensemble.units)))
        return NetworkEnsemble(scaling, units, parts["weights"], ensemble.importance)

    scaling = ensemble.scaling
    units = ensemble.units
    wrong = [
        {"source": scaling.source + 1},
        {"level": np.where(scaling.level >= 0, 7, scaling.level)},
        {"level": np.full_like(scaling.level, -3)},
        {"knots": scaling.knots[:, ::-1].copy()},
        {"scores": np.full_like(scaling.scores, np.nan)},
        {"inputs": units.inputs + 6},
        {"inputs": units.inputs.astype(np.float64)},
        {"biases": units.biases[1:]},
        {"outputs": units.outputs[:, :1]},
        {"weights": ensemble.weights[1:]},
        {"coefficients": np.full_like(units.coefficients, np.inf)},
    ]
    for changes in wrong:
        with pytest.raises(ValueError, match="network"):
            changed(**changes).check(3, 2, {2: 3})
    with pytest.raises(ValueError, match="network"):
        ensemble.check(4, 2, {2: 3})


def test_the_default_uses_networks_where_labels_are_smooth(tmp_path):
    rng = np.random.default_rng(0)
    points = rng.random((500, 2))
    X = rng.normal(size=(500, 3))
    y = X[:, 0] + np.sin(X[:, 1]) + np.sin(3 * points[:, 0]) + 0.05 * rng.normal(size=500)
    graph = eb.Graph.build_knn(points, 6)
    known = np.arange(300)
    model = eb.EBBSRegressor(n_folds=4, random_state=0)
    model.fit(X, y[known], nodes=known, graph=graph)
    assert model.best_candidate_.endswith("network")
    path = tmp_path / "model.ebb"
    model.save(path, table=True)
    loaded = eb.load(path)
    np.testing.assert_allclose(loaded.predict(), model.predict(), rtol=1e-12)
    new = loaded.predict(X[:5], attach=(np.arange(5), np.arange(5)))
    np.testing.assert_allclose(new, model.predict(X[:5], attach=(np.arange(5), np.arange(5))))
    for explanation in loaded.explanations([0, 400]):
        assert explanation.total == pytest.approx(model.predict()[explanation.node], abs=1e-5)
    with pytest.raises(ValueError, match="init_model has no trees"):
        eb.EBBSRegressor(early_stopping=False).fit(
            X, y[known], nodes=known, graph=graph, init_model=model
        )
    trees = eb.EBBSRegressor(n_folds=4, learner=eb.LightGBM(15), random_state=0)
    trees.fit(X, y[known], nodes=known, graph=graph)
    assert model.score(X, y) > trees.score(X, y)


@pytest.mark.parametrize(("is_sparse", "amplitude"), [(False, 1.0), (True, 6.0)])
def test_the_default_compares_networks_for_classes(is_sparse, amplitude, tmp_path):
    rng = np.random.default_rng(0)
    points = rng.random((300, 2))
    X = rng.normal(size=(300, 300 if is_sparse else 6))
    slope = X[:, :6].sum(axis=1) + amplitude * np.sin(4 * points[:, 0])
    y = np.digitize(slope, np.quantile(slope, [1 / 3, 2 / 3]) if is_sparse else [-1.0, 1.0])
    if is_sparse:
        X[:, 6:] *= 0.02
        X = sparse.csr_array(X)
    graph = eb.Graph.build_knn(points, 6)
    known = np.arange(250)
    model = eb.EBBSClassifier(n_folds=2, random_state=0, n_jobs=1)
    model.fit(X, y[known], nodes=known, graph=graph)
    names = [one.candidate.name for one in model.state_.candidates]
    assert any(name.endswith("network") for name in names)
    assert model.feature_importances_.sum() == pytest.approx(1.0)
    model.save(tmp_path / "model.ebb", table=True)
    loaded = eb.load(tmp_path / "model.ebb")
    np.testing.assert_allclose(loaded.predict_proba(), model.predict_proba(), rtol=1e-12)
    for explanation in loaded.explanations([0, 280]):
        highest = model.raw_predictions_[explanation.node].max()
        assert explanation.total == pytest.approx(highest, abs=1e-5)


def test_a_resumed_fit_with_networks_is_the_same(tmp_path):
    X, y, graph = homophilous(200)
    checkpoint = eb.Checkpoint(tmp_path, every=7)
    options = {"learner": "network", "smoothing": None, "labels": "field", "random_state": 0}
    whole = eb.EBBSRegressor(30, 0.3, **options).fit(X, y, graph=graph)

    class Stop(eb.Callback):
        def after_round(self, info):
            return info.round == 14

    part = eb.EBBSRegressor(30, 0.3, **options)
    part.fit(X, y, graph=graph, checkpoint=checkpoint, callbacks=[Stop()])
    resumed = eb.EBBSRegressor(30, 0.3, **options)
    resumed.fit(X, y, graph=graph, checkpoint=checkpoint, resume=True)
    np.testing.assert_array_equal(resumed.predict(), whole.predict())


def test_a_network_has_no_booster_and_says_what_explains_it():
    ensemble, _ = network()
    with pytest.raises(AttributeError, match=r"no booster.*explain\(nodes\)"):
        _ = ensemble.booster


@pytest.mark.parametrize("ends", [(0, 90, 240), (0, 0, 240), (0, 30, 31, 240)])
def test_workers_draw_and_weight_the_units_of_one_process(ends):
    rng = np.random.default_rng(0)
    values = rng.normal(size=(240, 2))
    values[::7, 1] = np.nan
    frame = pd.DataFrame(values, columns=["one", "two"])
    frame["few"] = rng.integers(0, 5, 240)
    table = TableReader().fit(frame.assign(kind=pd.Categorical(rng.choice(["a", "b"], 240))))
    curvature = rng.random((240, 1))
    curvature[values[:, 0] > 0.5] = 0.0  # labels are elsewhere: inputs have limits
    gradients = curvature * rng.normal(size=(3, 240, 2))

    def grow(rows, convert):
        own = replace(table, values=convert(table.values[rows]))
        grower = start(eb.RandomNetwork(8), own, n_outputs=2)
        parts = [grower.grow(convert(one[rows]), convert(curvature[rows])) for one in gradients]
        return np.asarray(sum(parts)), grower.compile([0.5] * 3), grower.state()["limits"]

    def work(workers):
        rows = slice(ends[workers.rank], ends[workers.rank + 1])
        return grow(rows, lambda values: shard(values, workers))

    scores, expected, limits = grow(slice(None), np.asarray)
    assert np.isfinite(limits).any()
    parts = in_threads(len(ends) - 1, work)
    np.testing.assert_allclose(np.concatenate([one for one, _, _ in parts]), scores, atol=1e-4)
    files = [ensemble.files() for _, ensemble, _ in parts]
    assert all(one == files[0] for one in files)
    for _, ensemble, own_limits in parts:
        assert ensemble.scaling.equals(expected.scaling)
        np.testing.assert_array_equal(ensemble.units.inputs, expected.units.inputs)
        np.testing.assert_array_equal(ensemble.units.biases, expected.units.biases)
        np.testing.assert_allclose(ensemble.units.outputs, expected.units.outputs, atol=1e-3)
        np.testing.assert_allclose(ensemble.importance, expected.importance, atol=1e-4)
        np.testing.assert_array_equal(own_limits, limits)
