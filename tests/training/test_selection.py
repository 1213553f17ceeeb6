"""Model selection: which candidates are compared, and which is selected."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics import mean_squared_error

import ebboost as eb
from ebboost.boosting.callbacks import RoundInfo
from ebboost.boosting.iterate import Iterate
from ebboost.data.labels import Labels
from ebboost.model.candidate import Candidate
from ebboost.training import defaults
from ebboost.training.selection import label_correlation, successive_halving
from tests.problems import homophilous
from tests.strategies import random_graph


def auto(kind=eb.EBBSRegressor, **changes):
    return kind(**({"n_estimators": 150, "random_state": 0, "n_jobs": 1} | changes))


def test_an_informative_graph_is_used():
    X, y, graph = homophilous(900)
    m = auto().fit(X, y[:600], nodes=np.arange(600), graph=graph)
    assert m.best_candidate_ == "graph"
    assert set(m.selection_) == {"none", "graph"}
    assert m.selection_["graph"] < m.selection_["none"]
    plain = auto().fit(X, y[:600], nodes=np.arange(600))
    rest = np.arange(600, 900)
    assert m.score(None, y, nodes=rest) > plain.score(X[rest], y[rest]) + 0.4


@pytest.mark.parametrize("seed", range(3))
def test_an_uninformative_graph_is_not_used(seed):
    X, y, _ = homophilous(900, seed)
    rest = np.arange(600, 900)
    m = auto().fit(X, y[:600], nodes=np.arange(600), graph=random_graph(900, 3000, seed))
    plain = auto().fit(X, y[:600], nodes=np.arange(600))
    error, reference = (
        mean_squared_error(y[rest], p[rest]) for p in (m.predict(), plain.predict(X))
    )
    assert m.best_candidate_ == "none"
    assert error <= 1.02 * reference


def test_candidates_share_bins_only_with_the_same_columns_and_settings():
    one = Candidate("a", eb.Laplacian(), low_rank=8)
    assert one.shares_features(Candidate("b", labels=eb.LatentField(), low_rank=8))
    assert not one.shares_features(
        Candidate("c", low_rank=8)
    )  # nothing of it uses the graph: other settings
    assert not one.shares_features(Candidate("d", eb.Laplacian(), low_rank=9))
    assert not one.shares_features(Candidate("e", eb.Laplacian(), eb.MaskedLabels(), low_rank=8))
    assert not one.shares_features(
        Candidate("f", eb.Laplacian(), low_rank=8, feature_smoothing=eb.Laplacian())
    )


def test_fixed_parts_are_not_compared():
    X, y, graph = homophilous()
    m = auto(smoothing=eb.Laplacian(2.0, 5), labels="none").fit(X, y, graph=graph)
    assert m.best_candidate_ == "as given"
    assert m.selection_ == {}
    assert m.state_.pipeline.neighbor_features is None
    assert m.state_.pipeline.feature_smoothing is None


def test_fixed_parts_are_the_same_in_every_candidate():
    X, y, graph = homophilous()
    m = auto(smoothing=eb.Laplacian(3.0, 1), neighbor_features=None).fit(X, y, graph=graph)
    assert m.smoothing_.lam == 3.0
    assert m.state_.pipeline.neighbor_features is None
    m = auto(labels="none").fit(X, y, graph=graph)
    assert m.labels_ is None


def test_few_labels_select_by_neighbour_correlation():
    X, y, graph = homophilous()
    few = np.arange(0, 600, 15)
    assert few.size < 50
    m = auto(n_estimators=20).fit(X, y[few], nodes=few, graph=graph)
    assert m.selection_ == {}
    assert m.best_candidate_ in ("graph", "none")
    alone = auto(n_estimators=20).fit(X, y[few], nodes=few, graph=random_graph(600, 800))
    assert alone.best_candidate_ == "none"


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
    assert m.best_candidate_ == "graph"
    # directions of the words for classes; words, their means over neighbours and degrees for
    # numbers
    assert m.ensemble_.booster.num_feature() == (
        128 if kind is eb.EBBSClassifier else 300 + 300 + 2
    )
    assert m.score(None, y, nodes=np.setdiff1d(np.arange(400), train)) > 0.8
    assert m.feature_importances_.shape == (300,)
    assert m.feature_importances_.sum() == pytest.approx(1.0)
    m.save(tmp_path / "m.ebb")
    again = eb.load(tmp_path / "m.ebb")
    X = sparse.csr_array(words.astype(float))
    np.testing.assert_array_equal(again.predict(), m.predict())
    np.testing.assert_array_equal(again.predict(X, graph=graph), m.predict(X, graph=graph))


def test_label_correlation_by_hand():
    graph = eb.Graph.from_edges(np.arange(19), np.arange(1, 20))
    ramp = np.arange(20.0)[:, None]
    labels = Labels(np.arange(20), ramp, np.ones(20))
    means = np.array([ramp[[j for j in (i - 1, i + 1) if 0 <= j < 20]].mean() for i in range(20)])
    centred = ramp[:, 0] - ramp.mean()
    around = means - ramp.mean()
    expected = (centred * around).sum() / np.sqrt((centred**2).sum() * (around**2).sum())
    assert label_correlation(graph, labels) == pytest.approx(expected)
    assert label_correlation(eb.Graph.from_edges([0], [1], n_nodes=20), labels) == 0.0


def test_summary_says_what_was_chosen_and_which_labels_are_used():
    X, y, graph = homophilous()
    text = auto().fit(X, y, graph=graph).summary()
    assert "validation loss of each candidate" in text
    assert "labels passed to fit" in text
    assert "intervals" in text
    assert "none given" in auto().fit(X, y).summary()
    classes = auto(eb.EBBSClassifier, n_estimators=20).fit(X, y > 0, graph=graph).summary()
    assert "calibration" in classes


def test_unknown_presets_and_parts_are_refused():
    with pytest.raises(ValueError, match="must be 'paper'"):
        eb.EBBSRegressor.from_preset("fast")
    X, y, graph = homophilous()
    for name in ("smoothing", "neighbor_features", "feature_smoothing"):
        with pytest.raises(ValueError, match=f"'{name}' parameter"):
            auto(**{name: 3}).fit(X, y, graph=graph)


def test_paper_preset_fits_and_can_be_changed():
    X, y, graph = homophilous()
    m = eb.EBBSRegressor.from_preset("paper", n_estimators=15, n_jobs=1, random_state=0)
    m.fit(X, y[:400], nodes=np.arange(400), graph=graph)
    assert m.labels_.share == 0.5
    assert m.smoothing_.lam == 2.0
    assert m.score(None, y, nodes=np.arange(400, 600)) > 0.5
    c = eb.EBBSClassifier.from_preset("paper", n_estimators=5, n_jobs=1).fit(X, y > 0, graph=graph)
    assert c.predict_proba().shape == (600, 2)


class FakeRun:
    """The objective and rounds of a candidate whose loss at the validation nodes is known.

    ``losses`` are those of the nodes, or a function of the round.
    """

    def __init__(self, losses, weight=None, on_round=lambda info: None):
        self.losses = losses
        n_nodes = 50 if callable(losses) else losses.size
        weight = np.ones(n_nodes) if weight is None else weight
        self.validation = Labels(np.arange(n_nodes), np.zeros((n_nodes, 1)), weight)
        self.loss = SimpleNamespace(value=lambda scores, target: scores[:, 0])
        self.objective = self
        self.boosting = self.rounds(on_round) if callable(losses) else iter(())

    def rounds(self, on_round):
        for t in range(100):
            model = Iterate(np.full((4, 1), t), np.zeros((4, 1)), (1.0,) * (t + 1))
            info = RoundInfo(t, 100, 0.0, self.losses(t), model, 1.0, 1.0)
            on_round(info)
            yield info

    def start(self):
        return None

    def validation_value(self, model):
        return float(self.predict(model).mean())

    def predict(self, model):
        if callable(self.losses):
            return np.full((50, 1), self.losses(int(model.scores[0, 0])))
        return self.losses[:, None]


class FakePool:
    """A pool of such runs that records when they are built and discarded."""

    def __init__(self, runs):
        self.runs = runs
        self.names = list(runs)
        self.events = []

    def run(self, name):
        self.events.append(f"{name} built")
        return self.runs[name]

    def discard(self, name):
        self.events.append(f"{name} discarded")


@pytest.mark.parametrize(("gain", "best"), [(0.003, "none"), (0.02, "graph"), (-0.5, "none")])
def test_the_first_candidate_is_selected_unless_beaten_by_half_a_percent(gain, best):
    pool = FakePool({"none": FakeRun(np.ones(50)), "graph": FakeRun(np.full(50, 1.0 - gain))})
    assert successive_halving(pool, [5]).best == best


def test_a_gain_within_its_standard_error_does_not_count():
    noise = np.random.default_rng(0).normal(size=50)
    noisy = FakeRun(9.9 + 5 * noise - 5 * noise.mean())
    pool = FakePool({"none": FakeRun(np.full(50, 10.0)), "graph": noisy})
    assert successive_halving(pool, [5]).best == "none"


@pytest.mark.parametrize(
    ("stages", "best", "n_rounds"),
    [([5], "none", 5), ([5, 25], "graph", 25), ([25, 60], "graph", 25)],
)
def test_a_candidate_that_starts_slowly_can_be_selected_at_a_later_stage(stages, best, n_rounds):
    pool = FakePool({"none": FakeRun(lambda t: 1.0), "graph": FakeRun(lambda t: 1.5 - 0.03 * t)})
    result = successive_halving(pool, stages)
    assert (result.best, len(result.rounds)) == (best, n_rounds)


def test_a_candidate_is_built_at_its_turn_and_discarded_when_it_cannot_be_selected():
    losses = {"none": 1.0, "worse": 1.2, "better": 0.8, "best": 0.5, "good": 0.7}
    pool = FakePool({name: FakeRun(lambda t, loss=loss: loss) for name, loss in losses.items()})
    result = successive_halving(pool, [5])
    assert (result.best, len(result.rounds), result.losses) == ("best", 5, pytest.approx(losses))
    assert pool.events == [
        "none built",
        "worse built",
        "worse discarded",
        "better built",
        "none discarded",
        "best built",
        "better discarded",
        "good built",
        "good discarded",
    ]


def test_no_candidate_is_discarded_before_the_last_stage():
    pool = FakePool(
        {
            "none": FakeRun(lambda t: 1.0),
            "late": FakeRun(lambda t: 1.5 - 0.03 * t),
            "never": FakeRun(lambda t: 2.0),
        }
    )
    assert successive_halving(pool, [5, 25]).best == "late"
    built = ["none built", "late built", "never built"]
    assert pool.events == [*built, "none discarded", "never discarded"]


@pytest.mark.parametrize(
    ("n_before_stop", "best", "n_rounds"), [(3, "none", 3), (10, "none", 10), (13, "quick", 3)]
)
def test_an_interrupted_selection_compares_the_rounds_run_by_all(n_before_stop, best, n_rounds):
    """The third candidate is not built; after three rounds the second leads, though not later."""
    rounds = []
    pool = FakePool(
        {
            "none": FakeRun(lambda t: 1.0, on_round=rounds.append),
            "quick": FakeRun(lambda t: 0.5 + 0.1 * t, on_round=rounds.append),
            "third": FakeRun(lambda t: 0.0, on_round=rounds.append),
        }
    )
    result = successive_halving(pool, [10], lambda: len(rounds) >= n_before_stop)
    assert (result.best, len(result.rounds)) == (best, n_rounds)
    assert "third built" not in pool.events


@pytest.mark.parametrize("n_iter_no_change", [3, 50])
def test_selection_stores_only_models_that_early_stopping_would_restore(n_iter_no_change):
    """Best in the fifth round, and better still in the last, after 3 rounds without improvement."""
    losses = [9.0, 8.0, 7.0, 6.0, 5.0, 5.5, 5.6, 5.7, 5.8, 1.0]

    def rounds_with(make_stopping):
        pool = FakePool({"none": FakeRun(lambda t: losses[t])})
        return successive_halving(pool, [10], make_stopping=make_stopping).rounds

    everything = rounds_with(None)
    thinned = rounds_with(lambda: eb.EarlyStopping(n_iter_no_change))
    stored = [info.round for info in thinned if info.model.scores.size]
    assert stored == ([4, 9] if n_iter_no_change == 3 else [9])
    assert [p.model.weights for p in thinned] == [p.model.weights for p in everything]
    best = []
    for rounds in (everything, thinned):
        stopping = eb.EarlyStopping(n_iter_no_change)
        stopping.before_training(100)
        any(stopping.after_round(info) for info in rounds)
        best.append(stopping.after_training(None).scores)
    np.testing.assert_array_equal(*best)


def test_a_callback_sees_the_models_of_all_rounds_those_of_selection_included():
    X, y, graph = homophilous(600)
    shapes = []

    class Shapes(eb.Callback):
        def after_round(self, progress):
            shapes.append(progress.model.smoothed.shape)

    m = auto(n_estimators=35).fit(X, y, graph=graph, callbacks=[Shapes()])
    assert m.selection_ and len(shapes) >= 30 and {shape[0] for shape in shapes} == {600}
    plain = auto(n_estimators=35).fit(X, y, graph=graph)
    np.testing.assert_array_equal(m.predict(), plain.predict())


def test_selection_weights_the_validation_nodes():
    weight = np.repeat([1.0, 0.0], 25)
    losses = np.repeat([2.0, 0.0], 25)  # worse at the nodes that count
    pool = FakePool({"none": FakeRun(np.full(50, 1.5), weight), "graph": FakeRun(losses, weight)})
    result = successive_halving(pool, [5])
    assert result.best == "none"
    assert result.losses == {"none": pytest.approx(1.5), "graph": pytest.approx(2.0)}


def test_without_validation_nodes_the_neighbour_correlation_decides():
    X, y, _ = homophilous(600)
    few = np.random.default_rng(0).choice(600, 45, replace=False)
    dense = eb.Graph.build_knn(np.column_stack([y, y]), k=40)  # neighbours by the label itself
    shuffled = np.random.default_rng(1).permutation(y)
    for labels, best in ((y, "graph"), (shuffled, "none")):
        m = auto(n_estimators=10).fit(X, labels[few], nodes=few, graph=dense)
        assert m.best_candidate_ == best


@pytest.mark.parametrize(("n_labels", "n_residuals"), [(9, 0), (10, 10), (49, 49)])
def test_few_labels_are_cross_fitted(n_labels, n_residuals):
    X, y, graph = homophilous(100)
    m = auto(n_estimators=5).fit(X, y[:n_labels], nodes=np.arange(n_labels), graph=graph)
    assert m.conformity_scores_.size == n_residuals


def test_stages_that_would_fill_the_memory_are_left_out():
    assert defaults.selection_stages(True, 1000, 20_000) == [5, 25, 60]
    assert defaults.selection_stages(True, 1000, 1_000_000) == [5, 25]
    assert defaults.selection_stages(True, 1000, 100_000_000) == [5]
    assert defaults.selection_stages(False, 1000, 100_000_000) == [30]
