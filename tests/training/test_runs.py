"""The models of a fit: folds, early stopping, and what a checkpoint stores of them."""

import signal
import threading
from types import SimpleNamespace

import numpy as np
import pytest

import ebboost as eb
from ebboost.boosting import field_mode
from ebboost.boosting.field_mode import posterior_mode
from ebboost.data.labels import Labels
from ebboost.training.defaults import Task
from ebboost.training.problem import LabelFolds
from ebboost.training.runs import Runner, early_stopping
from tests.problems import homophilous


@pytest.mark.parametrize(
    ("n_labels", "requested", "expected"), [(10_000, None, 25), (1_000, None, 50), (10_000, 7, 7)]
)
def test_patience_fits_the_learning_rate(n_labels, requested, expected):
    settings = SimpleNamespace(n_iter_no_change=requested)
    task = Task(classes=False, n_labels=n_labels, is_sparse=False)
    problem = SimpleNamespace(settings=settings, task=task)
    stopping = early_stopping(problem)
    assert stopping.n_iter_no_change == expected and stopping.min_improvement == 0.0


def test_each_label_is_held_out_once_and_trained_on_by_all_other_models():
    labels = Labels(np.arange(10), np.arange(10.0)[:, None], np.full(10, 2.0))
    folds = LabelFolds(labels, np.ones(10), np.arange(10) % 3, Labels(*_evaluation()))
    assert folds.n_folds == 3
    held_out = np.concatenate([folds.held_out(fold).nodes for fold in range(3)])
    assert sorted(held_out) == list(range(10))
    assert np.intersect1d(folds.training(1).nodes, folds.held_out(1).nodes).size == 0
    assert folds.training(1).weight.tolist() == [2.0] * 7
    validation = folds.validation(0)
    assert validation.nodes.tolist() == [0, 3, 6, 9, 20, 21] and (validation.weight == 1.0).all()


def _evaluation():
    return np.array([20, 21]), np.zeros((2, 1)), np.ones(2)


def test_members_have_seeds_of_their_own():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 6))
    y = X[:, 0] + rng.normal(size=200)
    learner = eb.LightGBM(7, colsample_bytree=0.3)
    m = eb.EBBSRegressor(5, learner=learner, n_folds=2, random_state=0).fit(X, y)
    trees = m.ensemble_.booster.dump_model()["tree_info"]
    assert len(trees) == sum(m.state_.rounds)
    splits = [tree["tree_structure"].get("split_feature") for tree in trees]
    assert splits[: m.state_.rounds[0]] != splits[m.state_.rounds[0] :]


@pytest.mark.parametrize(
    "fixed",
    [
        {"labels": "field"},
        {"labels": "none"},
        {"labels": "field", "neighbor_features": eb.NeighborFeatures()},
        {"labels": "field", "learner": eb.RandomNetwork(8), "learning_rate": 0.3},
    ],
)
def test_models_of_few_labels_score_all_other_nodes(fixed):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    y = X[:, 0] + 0.1 * rng.normal(size=400)
    graph = eb.Graph.build_knn(X, k=4)
    nodes = rng.choice(400, 60, replace=False)
    settings = {"smoothing": None, "random_state": 0, "n_folds": 2} | fixed
    m = eb.EBBSRegressor(20, **settings).fit(X, y[nodes], nodes=nodes, graph=graph)
    scores = m.state_.scores
    table = m.state_.pipeline.transform(m.state_.table, graph)
    np.testing.assert_allclose(m.ensemble_.predict(table), scores, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(m.predict(X, graph=graph), m.predict(), rtol=1e-6, atol=1e-8)
    others = np.setdiff1d(np.arange(400), nodes)
    assert m.score(X, y, nodes=others) > 0.5


@pytest.mark.parametrize("penalty", [0.0, 0.1])
def test_all_rows_are_trained_on_where_all_scores_matter(penalty, monkeypatch):
    needed = []
    monkeypatch.setattr(eb.learners.lightgbm.LightGBMGrower, "on_rows", needed.append)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    graph = eb.Graph.build_knn(X, k=4)
    fixed = {"penalty": penalty, "n_folds": 2, "random_state": 0, "learner": eb.LightGBM()}
    smoothing = None if penalty else eb.Laplacian(1.0, 2)
    m = eb.EBBSRegressor(3, smoothing=smoothing, labels="none", **fixed)
    m.fit(X, X[:50, 0], nodes=np.arange(50), graph=graph)
    assert not needed


@pytest.mark.parametrize("selection", ["search", "thorough"])
def test_candidates_share_the_first_mode_of_their_field(selection, monkeypatch):
    X, y, graph = homophilous(200)
    counts = np.random.default_rng(0).poisson(np.exp(0.5 * (y - y.mean())))
    settings = {"loss": "poisson", "selection": selection, "n_folds": 2, "random_state": 0}

    def fit():
        calls = []

        def counted(*arguments):
            calls.append(arguments)
            return posterior_mode(*arguments)

        monkeypatch.setattr(field_mode, "posterior_mode", counted)
        return eb.EBBSRegressor(5, **settings).fit(X, counts, graph=graph), len(calls)

    shared, n_shared = fit()
    build = Runner._build

    def forget(self, *arguments):
        self.first_modes.clear()
        return build(self, *arguments)

    monkeypatch.setattr(Runner, "_build", forget)
    separate, n_separate = fit()
    np.testing.assert_array_equal(shared.predict(), separate.predict())
    assert n_shared < n_separate


class Watcher(eb.Callback):
    """The threads that call it, and for each model the rounds that it has seen."""

    is_concurrent = True

    def __init__(self):
        self.threads = set()
        self.rounds = []

    def after_round(self, info):
        self.threads.add(threading.current_thread().name)
        self.rounds.append((info.candidate, info.fold, info.round))


def spatial_problem():
    rng = np.random.default_rng(0)
    points = rng.uniform(size=(150, 2))
    y = np.sin(6.0 * points[:, 0]) + 0.1 * rng.normal(size=150)
    return rng.normal(size=(150, 2)), y, eb.Graph.build_knn(points, k=4)


def test_models_trained_at_once_are_those_trained_one_after_another():
    X, y, graph = spatial_problem()
    watchers = [Watcher(), Watcher()]
    models = [
        eb.EBBSRegressor(6, n_folds=3, n_jobs=n_jobs, random_state=0).fit(
            X, y, graph=graph, callbacks=[watcher]
        )
        for n_jobs, watcher in zip((1, 2), watchers, strict=True)
    ]
    assert watchers[0].threads == {"MainThread"} and len(watchers[1].threads) > 1
    assert (models[0].predict() == models[1].predict()).all()
    tables = [model.selection_ for model in models]
    assert tables[0]["loss"] == tables[1]["loss"] and models[0].rounds_ == models[1].rounds_


def test_callbacks_that_are_not_concurrent_see_one_model_after_another():
    X, y, graph = spatial_problem()
    watcher = Watcher()
    watcher.is_concurrent = False
    model = eb.EBBSRegressor(4, n_folds=3, n_jobs=2, random_state=0)
    model.fit(X, y, graph=graph, callbacks=[watcher])
    assert watcher.threads == {"MainThread"}
    starts = [position for position, (*_, number) in enumerate(watcher.rounds) if number == 0]
    models = [
        {one[:2] for one in watcher.rounds[first:last]}
        for first, last in zip(starts, [*starts[1:], None], strict=True)
    ]
    assert all(len(one) == 1 for one in models)


class CtrlC(Watcher):
    def after_round(self, info):
        super().after_round(info)
        if len(self.rounds) == 3:
            signal.raise_signal(signal.SIGINT)


def test_ctrl_c_stops_all_models_that_are_trained_at_once():
    X, y, graph = spatial_problem()
    n_rounds = 100_000  # far more than are run before the main thread handles the signal
    model = eb.EBBSRegressor(n_rounds, n_folds=3, n_jobs=2, n_iter_no_change=n_rounds)
    watcher = CtrlC()
    with pytest.warns(UserWarning, match="interrupted"):
        model.fit(X, y, graph=graph, callbacks=[watcher])
    assert "MainThread" not in watcher.threads
    assert model.stop_reason_ == "it was interrupted" and max(model.rounds_) < n_rounds
    assert np.isfinite(model.predict()).all()
