"""Model selection: which parts are tried, how candidates are compared, and what is averaged."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse

import ebboost as eb
from ebboost.backends import Backend
from ebboost.boosting.callbacks import Interrupt
from ebboost.boosting.field_estimation import FieldEstimate
from ebboost.model.candidate import Candidate
from ebboost.training import defaults, estimated_field, trainer
from ebboost.training.finish import average_models
from ebboost.training.fold_model import out_of_fold
from ebboost.training.parts import Parts, named, parts_of
from ebboost.training.runs import Runner
from ebboost.training.selection import Search
from tests.problems import homophilous
from tests.strategies import random_graph
from tests.training.problems import auto, fold_model, problem_of


def test_an_informative_graph_is_used():
    X, y, graph = homophilous(900)
    m = auto().fit(X, y[:600], nodes=np.arange(600), graph=graph)
    table = m.selection_
    assert m.best_candidate_ != "none" and {"none", m.best_candidate_} <= set(table["candidate"])
    assert table["loss"] == sorted(table["loss"]) and min(table["standard_error"]) > 0
    assert set(map(len, table.values())) == {len(table["candidate"])}
    plain = auto().fit(X, y[:600], nodes=np.arange(600))
    rest = np.arange(600, 900)
    assert m.score(None, y, nodes=rest) > plain.score(X[rest], y[rest]) + 0.4
    gain = m.state_.gain
    assert gain.metric == "RMSE" and gain.gain > 5 * gain.standard_error > 0


@pytest.mark.parametrize("seed", range(2))
def test_an_uninformative_graph_is_not_used(seed):
    X, y, _ = homophilous(450, seed)
    known = np.arange(300)
    m = auto().fit(X, y[known], nodes=known, graph=random_graph(450, 1500, seed))
    plain = auto().fit(X, y[known], nodes=known)
    assert m.best_candidate_ == "none"
    assert (m.predict() == plain.predict()).all()


def test_candidates_share_bins_only_with_the_same_columns_and_settings():
    settings = Candidate("a", eb.Laplacian(), low_rank=8).tree_settings
    assert Candidate("b", labels=eb.LatentField(), low_rank=8).tree_settings == settings
    others = (
        Candidate("c", low_rank=8),  # nothing of it uses the graph: other settings
        Candidate("d", eb.Laplacian(), low_rank=9),
        Candidate("e", eb.Laplacian(), eb.MaskedLabels(), low_rank=8),
        Candidate("f", eb.Laplacian(), low_rank=8, feature_smoothing=eb.Laplacian()),
    )
    assert all(other.tree_settings != settings for other in others)


def test_fixed_parts_are_not_compared():
    X, y, graph = homophilous()
    m = auto(smoothing=eb.Laplacian(2.0, 5), labels="none").fit(X, y, graph=graph)
    assert m.best_candidate_ == "as given"
    assert m.selection_["candidate"] == ["as given"]
    assert m.state_.pipeline.neighbor_features is None
    assert m.state_.pipeline.feature_smoothing is None


def test_fixed_parts_are_the_same_in_every_candidate():
    X, y, graph = homophilous()
    m = auto(smoothing=eb.Laplacian(3.0, 1), neighbor_features=None).fit(X, y, graph=graph)
    assert m.smoothing_.lam == 3.0
    assert m.state_.pipeline.neighbor_features is None
    m = auto(labels="none").fit(X, y, graph=graph)
    assert m.labels_ is None


@pytest.mark.parametrize("kind", [eb.EBBSRegressor, eb.EBBSClassifier])
def test_candidates_are_compared_on_sparse_tables_too(kind, tmp_path):
    rng = np.random.default_rng(0)
    topic = np.repeat(np.arange(4), 100)
    words = rng.random((400, 300)) < 0.02 + 0.06 * (np.arange(300)[None, :] // 75 == topic[:, None])
    graph = eb.Graph.from_edges(np.arange(399), np.arange(1, 400))
    y = topic if kind is eb.EBBSClassifier else topic + 0.1 * rng.normal(size=400)
    train = rng.permutation(400)[:250]
    m = auto(kind, n_estimators=30).fit(
        sparse.csr_array(words.astype(float)), y[train], nodes=train, graph=graph
    )
    assert m.best_candidate_ != "none"
    assert m.score(None, y, nodes=np.setdiff1d(np.arange(400), train)) > 0.8
    assert m.feature_importances_.shape == (300,)
    used = [one for one in m.state_.candidates if one.candidate.own_columns is not False]
    has_trees = any(one.ensemble.importances().any() for one in used)
    assert m.feature_importances_.sum() == pytest.approx(float(has_trees))
    m.save(tmp_path / "m.ebb")
    again = eb.load(tmp_path / "m.ebb")
    X = sparse.csr_array(words.astype(float))
    np.testing.assert_array_equal(again.predict(), m.predict())
    np.testing.assert_array_equal(again.predict(X, graph=graph), m.predict(X, graph=graph))


def test_columns_of_a_wide_sparse_table_that_say_nothing_are_left_out(tmp_path):
    rng = np.random.default_rng(0)
    hidden = rng.random((400, 2))
    X = sparse.csr_array((rng.random((400, 300)) < 0.1).astype(float))
    y = np.sin(6.0 * hidden[:, 0]) + np.cos(5.0 * hidden[:, 1]) + 0.1 * rng.normal(size=400)
    graph = eb.Graph.build_knn(hidden, k=6)
    nodes = np.arange(300)
    m = auto(n_folds=2).fit(X, y[nodes], nodes=nodes, graph=graph)
    chosen = [one.candidate for one in m.state_.candidates]
    assert chosen[0].own_columns is False and "without own columns" in chosen[0].name
    assert m.score(None, y, nodes=np.arange(300, 400)) > 0.8
    assert m.own_importances_.sum() == 0.0 or any(one.own_columns is None for one in chosen)
    m.save(tmp_path / "m.ebb", table=True)
    stored = eb.load(tmp_path / "m.ebb")
    np.testing.assert_array_equal(stored.predict(), m.predict())
    np.testing.assert_allclose(stored.predict(X, graph=graph), m.predict(), rtol=1e-9)
    np.testing.assert_allclose(m.predict(X, graph=graph, nodes=[350]), m.predict(nodes=[350]))
    one = m.explanations([350])[0]
    assert one.total == pytest.approx(m.predict(nodes=[350])[0])


def test_columns_of_a_wide_sparse_table_that_matter_are_used():
    rng = np.random.default_rng(0)
    X = sparse.csr_array((rng.random((400, 300)) < 0.3).astype(float))
    y = X[:, [0]].toarray()[:, 0] + 0.1 * rng.normal(size=400)
    m = auto(n_folds=2).fit(X, y, graph=random_graph(400, 1200, 0))
    assert any("without own columns" in name for name in m.selection_["candidate"])
    assert m.state_.candidate.own_columns is None and m.score(X, y) > 0.8


def test_networks_of_sparse_tables_have_singular_vectors_and_those_of_neighbors(tmp_path):
    rng = np.random.default_rng(0)
    hidden = rng.normal(size=(400, 2))
    chance = 0.3 / (1.0 + np.exp(-2.0 * hidden @ rng.normal(size=(2, 300))))
    X = sparse.csr_array((rng.random((400, 300)) < chance).astype(float))
    y = np.sin(2.0 * hidden[:, 0]) + 0.1 * rng.normal(size=400)
    graph = eb.Graph.build_knn(hidden, k=5)
    nodes = np.arange(250)
    m = auto(n_estimators=60, smoothing=None, neighbor_features=eb.NeighborFeatures())
    m.fit(X, y[nodes], nodes=nodes, graph=graph)
    networks = [one for one in m.state_.candidates if one.candidate.network]
    assert networks
    for one in networks:
        assert one.candidate.low_rank == one.pipeline.low_rank.directions.shape[1] == 128
        assert len(one.column_origin) > 128 * 4
    assert m.feature_importances_.sum() == pytest.approx(1.0)
    assert 0.0 < m.own_importances_.sum() < 1.0
    m.save(tmp_path / "m.ebb")
    np.testing.assert_array_equal(eb.load(tmp_path / "m.ebb").predict(), m.predict())
    near = m.predict(X, graph=graph, nodes=[300])
    np.testing.assert_allclose(near, m.predict(nodes=[300]), rtol=1e-6)


def test_paper_preset_fits_and_can_be_changed():
    X, y, graph = homophilous()
    m = eb.EBBSRegressor.from_preset("paper", n_estimators=15, n_jobs=1, random_state=0)
    m.fit(X, y[:400], nodes=np.arange(400), graph=graph)
    assert m.labels_.share == 0.5
    assert m.smoothing_.lam == 2.0
    assert m.score(None, y, nodes=np.arange(400, 600)) > 0.5
    c = eb.EBBSClassifier.from_preset("paper", n_estimators=5, n_jobs=1).fit(X, y > 0, graph=graph)
    assert c.predict_proba().shape == (600, 2)


class Scripted(Runner):
    """A runner whose models have given errors, by name of the candidate."""

    def _train(self, run, fold, rival, abandoned):
        target = self.problem.labels.held_out(fold).target[:, 0]
        noise = np.random.default_rng(fold).normal(size=target.size)
        error = self.errors[run.features.candidate.name]
        return fold_model(target + (error(noise) if callable(error) else error * noise))


def search(errors, steps, optional, network_steps=None, **changes):
    X, y, graph = homophilous(400)
    problem = problem_of(auto(n_folds=4, **changes), X, y, graph)
    runner = type("", (Scripted,), {"errors": errors})(problem, Backend(), [], None, Interrupt())
    parts = Parts(named(Candidate("")), optional, steps, network_steps=network_steps)
    result = Search(problem, runner, parts)
    result.run()
    return result


PARTS = {"smoothing": eb.Laplacian(1.0, 2), "neighbor_features": eb.NeighborFeatures()}


def test_parts_are_added_one_by_one_and_removed_where_they_do_not_help():
    errors = {
        "none": 1.0,
        "propagation": 0.8,
        "propagation + neighbour columns": 0.5,
        "neighbour columns": 0.5,
    }
    steps = (("smoothing",), ("neighbor_features",), ("smoothing",))
    result = search(errors, steps, PARTS)
    assert list(result.tried) == list(errors)
    assert result.selected.name == "neighbour columns"  # as good, and simpler
    assert len(result.models(result.selected)) == 4


def test_ways_of_growing_trees_are_compared_with_a_graph_only():
    errors = {
        "none": 1.0,
        "propagation": 0.8,
        "propagation + random splits": 0.5,
        "none + random splits": 0.9,
    }
    steps = (("random_splits",), ("smoothing",), ("random_splits",))
    result = search(errors, steps, PARTS | {"random_splits": True})
    assert list(result.tried) == list(errors)
    assert result.selected.name == "propagation + random splits"
    assert result.plain.name == "none + random splits"  # the gain is that of the graph alone
    assert set(result.models(result.plain)) == set(result.models(result.selected))


def test_trees_are_compared_where_labels_are_few_and_their_settings_are_the_default(monkeypatch):
    def offered(**changes):
        parts = parts_of(problem_of(auto(**changes), *homophilous(60)))
        return {"random_splits", "smaller_trees"} & set(parts.optional)

    assert offered() == {"random_splits", "smaller_trees"}
    assert offered(learner="xgboost") == {"smaller_trees"}  # it has no splits at random
    assert not offered(learner=eb.XGBoost())
    assert not offered(learner="catboost")
    monkeypatch.setattr(defaults, "COMPARE_TREES_UP_TO", 59)
    assert not offered()
    assert offered(selection="thorough")


def test_smaller_trees_of_xgboost_have_half_as_many_leaves():
    task = defaults.Task(classes=False, n_labels=60, is_sparse=False)
    depths = [
        defaults.learner("xgboost", task, Candidate("", smaller_trees=smaller)).max_depth
        for smaller in (None, True)
    ]
    assert depths == [6, 5]
    smaller = defaults.learner("xgboost", task, Candidate("", smaller_trees=True))
    assert defaults.tree_changes(smaller) == {"max_depth": 5}


def test_the_first_part_must_gain_more_than_its_standard_error():
    def worse_on_average(noise):
        return np.sign(np.arange(noise.size) % 2 - 0.5) * 0.9999 + 0.001 * noise

    errors = {"none": lambda noise: np.ones_like(noise), "propagation": worse_on_average}
    assert search(errors, (("smoothing",),), PARTS).selected.name == "none"


def test_candidates_that_lower_the_loss_together_are_averaged():
    errors = {
        "none": 1.0,
        "propagation": lambda noise: 0.5 * noise,
        "propagation + neighbour columns": lambda noise: 0.5 * noise[::-1],
    }
    result = search(errors, (("smoothing",), ("neighbor_features",)), PARTS)
    names = [one.name for one in result.averaged]
    assert names == ["propagation", "propagation + neighbour columns"]


def test_networks_replace_trees_where_they_are_clearly_better():
    errors = {
        "none": 1.0,
        "propagation": 0.5,
        "none + network": 0.4,
        "neighbour columns + network": 0.2,
    }
    result = search(errors, (("smoothing",),), PARTS, (("neighbor_features",),))
    assert list(result.tried) == list(errors)
    assert result.selected.name == "neighbour columns + network"
    assert result.plain.name == "none + network"  # the gain is that of the graph alone
    assert len(result.final_models(result.selected)) == 4


def test_networks_are_averaged_with_trees_that_are_as_good():
    errors = {
        "none": 1.0,
        "propagation": lambda noise: 0.5 * noise,
        "none + network": 0.6,
        "neighbour columns + network": lambda noise: 0.5 * noise[::-1],
    }
    result = search(errors, (("smoothing",),), PARTS, (("neighbor_features",),))
    names = [one.name for one in result.averaged]
    assert names == ["propagation", "neighbour columns + network"]


def test_networks_are_offered_for_tables_in_memory(monkeypatch):
    def offers(X, y, graph, **changes):
        return parts_of(problem_of(auto(**changes), X, y, graph)).network_steps is not None

    X, y, graph = homophilous(60)
    assert offers(X, y, graph)
    assert offers(X, y, graph, learner="xgboost")
    assert not offers(X, y, graph, learner="xgboost", device="cuda")
    assert not offers(X, y, graph, learner=eb.XGBoost())
    assert not offers(X, y, graph, learner=eb.LightGBM())
    assert not offers(sparse.csr_array(X), y, graph)
    wide = sparse.csr_array(np.tile(X, (1, 1 + 256 // X.shape[1])))
    assert offers(wide, y, graph)
    assert offers(wide, y, graph, neighbor_features=eb.NeighborFeatures())
    monkeypatch.setattr(defaults, "NETWORKS_UP_TO", 59)
    assert not offers(X, y, graph)


def test_a_clearly_better_candidate_is_compared_on_fewer_folds(monkeypatch):
    monkeypatch.setattr(defaults, "ENOUGH_IF_CLEAR", 200)  # two of four folds
    errors = {
        "none": 1.0,
        "propagation": 0.5,
        "propagation + neighbour columns": lambda noise: 0.49 * noise[::-1],
    }
    steps = (("smoothing",), ("neighbor_features",))
    result = search(errors, steps, PARTS, learning_rate=0.1)
    n_folds = {one.name: len(result.compared(one)) for one in result.tried.values()}
    assert list(n_folds.values()) == [2, 4, 4]  # the last two differ by chance
    assert [len(result.models(one)) for one in result.averaged] == [4, 4]


def test_candidates_are_compared_at_a_higher_learning_rate_than_the_final_one():
    X, y, graph = homophilous(300)
    seen = []

    class Limits(eb.Callback):
        def after_round(self, info):
            seen.append((info.candidate, info.n_rounds))

    m = auto(learning_rate=0.1, n_estimators=100).fit(X, y, graph=graph, callbacks=[Limits()])
    trees = [
        " + " + name for name in ("smaller trees", "random splits") if name in m.best_candidate_
    ]
    final = {m.best_candidate_, "none" + "".join(trees)}
    assert {limit for _, limit in seen} == {34, 100}  # a third at three times the rate
    assert {name for name, limit in seen if limit == 100} == final
    assert {name for name, limit in seen if limit == 34} == set(m.selection_["candidate"])
    rounds = dict(zip(m.selection_["candidate"], m.selection_["rounds"], strict=True))
    assert rounds[m.best_candidate_] < np.mean(m.state_.rounds[:3])


def test_with_very_many_labels_the_gain_is_that_of_the_compared_models(monkeypatch):
    monkeypatch.setattr(defaults, "MOST_LABELS_FROM", 200)
    estimates = []

    def estimate(*_, **options):
        estimates.append(options)
        return FieldEstimate(None, *[0] * 4)

    monkeypatch.setattr(estimated_field, "estimate_field", estimate)
    X, y, graph = homophilous(300)
    m = auto(n_estimators=30, learning_rate=0.1, n_folds=2).fit(X, y, graph=graph)
    assert any("field(λ=2," in name for name in m.selection_["candidate"])  # the default one
    assert len(estimates) == 1  # its strengths are not estimated again
    losses = dict(zip(m.selection_["candidate"], m.selection_["loss"], strict=True))
    assert m.gain_.without == pytest.approx(np.sqrt(2.0 * losses["none"]))
    assert m.gain_.with_graph == pytest.approx(np.sqrt(2.0 * losses[m.best_candidate_]))


def test_a_low_learning_rate_is_raised_by_the_ratio_of_the_defaults():
    X, y, graph = homophilous(300)
    problem = problem_of(auto(learning_rate=0.01, n_iter_no_change=25), X, y, graph)
    settings = Runner(problem, Backend(), [], None, Interrupt()).comparing().problem.settings
    assert settings.learning_rate == pytest.approx(0.03)
    assert settings.n_iter_no_change == 9  # not a patience of one round


def test_a_thorough_search_is_the_mean_of_searches_with_other_folds(monkeypatch):
    X, y, graph = homophilous(200)
    known = np.arange(150)
    evaluation = (np.arange(150, 180), y[150:180])
    monkeypatch.setattr(defaults, "SEARCHES", 2)
    searches = []
    monkeypatch.setattr(
        trainer, "average_models", lambda *args: searches.extend(args[2]) or average_models(*args)
    )
    m = auto(selection="thorough", n_estimators=10)
    m.fit(X, y[known], nodes=known, graph=graph, eval_set=evaluation)
    folds = [one.problem.labels.fold for one in searches]
    assert len(folds) == 2 and (folds[0] != folds[1]).any()
    names = [one.name for each in searches for one in each.averaged]
    assert m.state_.candidate_names == list(dict.fromkeys(names))
    # The mean over candidates of the mean of their predictions by all searches, node by node.
    predictions = {}
    for each in searches:
        for one in each.averaged:
            models = each.models(one)
            labels, values = out_of_fold(each.problem, models, "held_out")
            values = np.append(values, np.mean([one.evaluation for one in models.values()], axis=0))
            nodes = np.append(labels.nodes, evaluation[0])
            predictions.setdefault(one.name, []).append(values[np.argsort(nodes)])
    expected = np.mean([np.mean(one, axis=0) for one in predictions.values()], axis=0)
    order = np.argsort(m.validation_nodes_)
    assert m.validation_prediction_[order, 0] == pytest.approx(expected)
    assert m.validation_nodes_[-30:].tolist() == evaluation[0].tolist()
    assert len(m.state_.rounds) == 3 * len(names)
    m.summary()
    assert np.isfinite(m.predict(interval=0.9)).all()


def test_averaged_candidates_predict_explain_and_survive_a_file(tmp_path, monkeypatch):
    monkeypatch.setattr(defaults, "MIN_GAIN", -1.0)  # average whatever was tried
    X, y, graph = homophilous(200)
    known = np.arange(120)
    m = auto(n_estimators=10).fit(X, y[known], nodes=known, graph=graph)
    members = m.state_.members
    assert len(members) > 1 and len(m.state_.rounds) == 3 * len(members)
    expected = np.mean([one.raw_predictions[:, 0] for one in members], axis=0)
    np.testing.assert_array_equal(m.predict(), expected)
    assert m.explanations([150])[0].total == pytest.approx(m.predict()[150], abs=1e-7)
    m.save(tmp_path / "m.ebb", table=True)
    again = eb.load(tmp_path / "m.ebb")
    np.testing.assert_array_equal(again.predict(), m.predict())
    assert again.explanations([150])[0].total == pytest.approx(m.predict()[150], abs=1e-7)
    changed = X.copy()
    changed[7] += 1.0
    predictor = again.predictor()
    predictor.update([7], changed[[7]])
    labels = (known, y[known])
    expected = m.predict(changed, graph=graph, new_labels=labels)
    np.testing.assert_allclose(predictor.predict(), expected, atol=1e-7)


def test_a_callback_sees_the_rounds_of_all_models():
    X, y, graph = homophilous(200)
    shapes = []
    starts = []

    class Shapes(eb.Callback):
        def before_training(self, n_rounds):
            starts.append(n_rounds)

        def after_round(self, info):
            shapes.append(info.model.smoothed.shape[0])

    m = auto(n_estimators=9).fit(X, y, graph=graph, callbacks=[Shapes()])
    assert len(starts) == sum(m.selection_["folds"]) and set(shapes) == {200}
    plain = auto(n_estimators=9).fit(X, y, graph=graph)
    np.testing.assert_array_equal(m.predict(), plain.predict())


@pytest.mark.parametrize(("n_labels", "n_residuals"), [(9, 0), (10, 10), (49, 49)])
def test_few_labels_are_cross_fitted(n_labels, n_residuals):
    X, y, graph = homophilous(100)
    m = auto(n_estimators=5, n_folds="auto").fit(
        X, y[:n_labels], nodes=np.arange(n_labels), graph=graph
    )
    assert m.validation_nodes_.size == n_residuals


def test_rules_use_the_graph_where_neighbours_have_similar_labels():
    X, y, graph = homophilous(300)
    shuffled = np.random.default_rng(1).permutation(y)
    for labels, is_used in ((y, True), (shuffled, False)):
        m = auto(selection="rules", n_folds=1).fit(X, labels, graph=graph)
        assert m.state_.uses_graph == is_used
        assert len(m.selection_["candidate"]) == (2 if is_used else 1)  # with propagation


def test_the_field_connects_similar_nodes_where_neighbours_differ(tmp_path):
    """Buyers of the same shops agree; shops have labels of their own."""
    rng = np.random.default_rng(0)
    kind = np.repeat(np.arange(80), 5)
    shops = np.array([rng.choice(40, 4, replace=False) for _ in range(80)])[kind]
    buyer = np.arange(400) + 40
    graph = eb.Graph.from_edges(shops.ravel(), np.repeat(buyer, 4))
    y = np.r_[5 * rng.normal(size=40), rng.normal(size=80)[kind] + 0.1 * rng.normal(size=400)]
    X = rng.normal(size=(y.size, 2))
    known = np.flatnonzero(rng.random(y.size) < 0.6)
    rest = np.setdiff1d(buyer, known)
    fixed = {"neighbor_features": None, "spectral_features": None}
    m = auto(**fixed).fit(X, y[known], nodes=known, graph=graph)
    assert "similarity field" in m.best_candidate_
    assert m.score(X, y, nodes=rest) > 0.7
    m.save(tmp_path / "m.ebb", table=True)
    np.testing.assert_array_equal(eb.load(tmp_path / "m.ebb").predict(), m.predict())
    X, y, graph = homophilous(200)
    names = auto(n_estimators=5, **fixed).fit(X, y, graph=graph).selection_["candidate"]
    assert not any("similarity" in name for name in names)


def test_every_labelled_node_has_an_out_of_fold_prediction():
    X, y, graph = homophilous(200)
    known = np.arange(0, 200, 2)
    m = auto().fit(X, y[known], nodes=known, graph=graph)
    assert sorted(m.validation_nodes_) == known.tolist()
    assert len(m.state_.rounds) % 3 == 0
    order = np.argsort(m.validation_nodes_)
    held_out = m.validation_prediction_[order, 0]
    assert np.abs(held_out - y[known]).mean() > np.abs(m.predict()[known] - y[known]).mean()


def test_categories_that_are_encoded_with_labels_are_trained_once():
    pandas = pytest.importorskip("pandas")
    X, y, graph = homophilous(200)
    table = pandas.DataFrame({"number": X[:, 0], "text": np.where(X[:, 1] > 0, "a", "b")})
    m = auto(learner="catboost", n_folds="auto", n_estimators=3).fit(table, y, graph=graph)
    assert len(m.state_.rounds) == 1
    with pytest.raises(ValueError, match="n_folds must be 1 or 'auto' with learner='catboost'"):
        auto(learner="catboost", n_folds=2).fit(table, y, graph=graph)


def test_few_labels_to_hold_out_limit_the_rounds():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    learner = eb.LightGBM(2, min_child_samples=1, max_bin=15)
    m = eb.EBBSRegressor(learner=learner, random_state=0).fit(X, X[:8, 0], nodes=np.arange(8))
    assert 0 < m.n_iter_ <= defaults.ROUNDS_WITHOUT_VALIDATION


def test_parts_follow_what_was_requested():
    X, y, graph = homophilous(60)
    parts = parts_of(problem_of(auto(labels="none"), X, y, graph))
    assert ("labels",) not in parts.steps and ("strengths",) not in parts.steps
    parts = parts_of(problem_of(auto(smoothing=None, labels="none"), X, y, graph))
    assert parts.steps == () and parts.plain.name == "none"
    assert parts_of(problem_of(auto(), X, y, None)).steps == ()
    huber = parts_of(problem_of(auto(loss="huber"), X, y, graph))
    assert ("smoothing",) in huber.steps


def test_too_many_folds_for_the_labels_are_rejected():
    X, y, graph = homophilous(60)
    with pytest.raises(ValueError, match="n_folds=40 needs at least 80 labels, got 60"):
        auto(n_folds=40).fit(X, y, graph=graph)


def test_strengths_are_estimated_on_eval_set_where_nothing_else_is_held_out(monkeypatch):
    X, y, graph = homophilous(300)
    nodes = np.arange(300)
    seen = []

    def estimate(graph, labels, scores, loss, **_):
        seen.append((labels.nodes, scores))
        field = eb.LatentField(7.0, 0.5)
        return SimpleNamespace(field=field, deviance=0.5, deviance_without=1.0)

    monkeypatch.setattr(estimated_field, "estimate_field", estimate)
    classes = np.where(y > np.median(y), "high", "low")
    held_out = (nodes[200:], classes[200:])
    model = eb.EBBSClassifier(5, n_folds=1, random_state=0)
    model.fit(X, classes[:200], nodes=nodes[:200], graph=graph, eval_set=held_out)
    assert any("field(λ=7, τ=0.5)" in name for name in model.selection_["candidate"])
    labelled, scores = seen[0]
    assert (labelled == nodes[200:]).all() and scores.shape == (100, 1) and np.ptp(scores) > 0
