import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics import mean_squared_error

import ebboost as eb
from ebboost.boosting.callbacks import RoundInfo
from ebboost.boosting.iterate import Iterate
from ebboost.data.labels import Labels
from ebboost.training.selection import Candidate, label_correlation, race
from tests.problems import homophilous
from tests.strategies import random_graph


def auto(kind=eb.EBBSRegressor, **changes):
    return kind(**({"n_estimators": 150, "random_state": 0, "n_jobs": 1} | changes))


def test_a_graph_that_knows_something_is_used():
    X, y, graph = homophilous(900)
    m = auto().fit(X, y[:600], nodes=np.arange(600), graph=graph)
    assert m.best_candidate_ == "graph"
    assert set(m.selection_) == {"none", "graph"}
    assert m.selection_["graph"] < m.selection_["none"]
    plain = auto().fit(X, y[:600], nodes=np.arange(600))
    rest = np.arange(600, 900)
    assert m.score(None, y, nodes=rest) > plain.score(X[rest], y[rest]) + 0.4


@pytest.mark.parametrize("seed", range(3))
def test_a_graph_that_knows_nothing_is_left_alone(seed):
    X, y, _ = homophilous(900, seed)
    rest = np.arange(600, 900)
    m = auto().fit(X, y[:600], nodes=np.arange(600), graph=random_graph(900, 3000, seed))
    plain = auto().fit(X, y[:600], nodes=np.arange(600))
    error, reference = (
        mean_squared_error(y[rest], p[rest]) for p in (m.predict(), plain.predict(X))
    )
    assert m.best_candidate_ == "none"
    assert error <= 1.02 * reference


def test_entrants_share_bins_only_where_trees_see_the_same_columns_by_the_same_settings():
    one = Candidate("a", eb.Laplacian(), low_rank=8)
    assert one.prepares_like(Candidate("b", labels=eb.LatentField(), low_rank=8))
    assert not one.prepares_like(
        Candidate("c", low_rank=8)
    )  # nothing of it uses the graph: other settings
    assert not one.prepares_like(Candidate("d", eb.Laplacian(), low_rank=9))
    assert not one.prepares_like(Candidate("e", eb.Laplacian(), eb.MaskedLabels(), low_rank=8))
    assert not one.prepares_like(
        Candidate("f", eb.Laplacian(), low_rank=8, feature_smoothing=eb.Laplacian())
    )


def test_given_parts_are_not_raced():
    X, y, graph = homophilous()
    m = auto(smoothing=eb.Laplacian(2.0, 5), labels="none").fit(X, y, graph=graph)
    assert m.best_candidate_ == "as given"
    assert m.selection_ == {}
    assert m._preparation.neighbor_features is None
    assert m._preparation.feature_smoothing is None


def test_what_the_user_fixed_is_the_same_for_every_entrant():
    X, y, graph = homophilous()
    m = auto(smoothing=eb.Laplacian(3.0, 1), neighbor_features=None).fit(X, y, graph=graph)
    assert m.smoothing_.lam == 3.0
    assert m._preparation.neighbor_features is None
    m = auto(labels="none").fit(X, y, graph=graph)
    assert m.labels_ is None


def test_few_labels_choose_by_how_alike_neighbours_are():
    X, y, graph = homophilous()
    few = np.arange(0, 600, 15)
    assert few.size < 50
    m = auto(n_estimators=20).fit(X, y[few], nodes=few, graph=graph)
    assert m.selection_ == {}
    assert m.best_candidate_ in ("graph", "none")
    alone = auto(n_estimators=20).fit(X, y[few], nodes=few, graph=random_graph(600, 800))
    assert alone.best_candidate_ == "none"


@pytest.mark.parametrize("kind", [eb.EBBSRegressor, eb.EBBSClassifier])
def test_sparse_tables_are_raced_too(kind, tmp_path):
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
    # directions of the words for classes; words, their means over neighbours and degrees for numbers
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
    assert "chosen by   validation loss" in text
    assert "labels given to fit" in text
    assert "intervals" in text
    assert "none given" in auto().fit(X, y).summary()
    classes = auto(eb.EBBSClassifier, n_estimators=20).fit(X, y > 0, graph=graph).summary()
    assert "calibration" in classes


def test_unknown_presets_and_parts_are_refused():
    with pytest.raises(ValueError, match="no preset 'fast'"):
        eb.EBBSRegressor.from_preset("fast")
    X, y, graph = homophilous()
    for name in ("smoothing", "neighbor_features", "feature_smoothing"):
        with pytest.raises(ValueError, match=f"{name} must be"):
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


class Entrant:
    """What a race needs of an objective: a loss at each held-out node."""

    def __init__(self, errors, weight):
        self.validation = Labels(np.arange(errors.size), errors[:, None], weight)
        self.loss = self
        self.errors = errors

    def start(self):
        return None

    def validation_value(self, model):
        return float(self.errors.mean())

    def predict(self, model):
        return self.errors[:, None]

    def value(self, scores, target):
        return scores[:, 0]


@pytest.mark.parametrize(("gain", "winner"), [(0.003, "none"), (0.02, "graph"), (-0.5, "none")])
def test_the_first_entrant_wins_unless_beaten_by_enough(gain, winner):
    weight = np.ones(50)
    entrants = {
        "none": Entrant(np.ones(50), weight),
        "graph": Entrant(np.full(50, 1.0 - gain), weight),
    }
    assert race({name: (entrant, iter(())) for name, entrant in entrants.items()}, [5])[0] == winner


def test_a_gain_within_its_standard_error_does_not_count():
    noise = np.random.default_rng(0).normal(size=50)
    entrants = {
        "none": Entrant(np.full(50, 10.0), np.ones(50)),
        "graph": Entrant(9.9 + 5 * noise - 5 * noise.mean(), np.ones(50)),
    }
    assert race({name: (entrant, iter(())) for name, entrant in entrants.items()}, [5])[0] == "none"


class Slow(Entrant):
    """Behind at first, ahead in the end."""

    def __init__(self, by_round):
        super().__init__(np.ones(50), np.ones(50))
        self.by_round = by_round

    def boosting(self):
        return (
            RoundInfo(t, 100, 0.0, None, Iterate(np.full(1, t), np.zeros(1)), 1.0, 1.0)
            for t in range(100)
        )

    def validation_value(self, model):
        return self.by_round(int(model.scores[0]))

    def predict(self, model):
        return np.full((50, 1), self.validation_value(model))


@pytest.mark.parametrize(
    ("stages", "winner", "rounds"),
    [([5], "none", 5), ([5, 25], "graph", 25), ([25, 60], "graph", 25)],
)
def test_a_slow_starter_gets_a_longer_race(stages, winner, rounds):
    entrants = {"none": Slow(lambda t: 1.0), "graph": Slow(lambda t: 1.5 - 0.03 * t)}
    found, done, _ = race(
        {name: (entrant, entrant.boosting()) for name, entrant in entrants.items()}, stages
    )
    assert (found, len(done)) == (winner, rounds)


class Turns(dict):
    """Entrants of a race that note when they are looked up."""

    def __init__(self, entrants):
        super().__init__(entrants)
        self.told = []

    def __getitem__(self, name):
        self.told.append(f"{name} begins")
        return super().__getitem__(name)

    def lost(self, name):
        self.told.append(f"{name} lost")


def test_an_entrant_comes_when_it_is_its_turn_and_leaves_when_it_cannot_win():
    losses = {"none": 1.0, "worse": 1.2, "better": 0.8, "best": 0.5, "good": 0.7}
    entrants = {name: Slow(lambda t, loss=loss: loss) for name, loss in losses.items()}
    turns = Turns({name: (entrant, entrant.boosting()) for name, entrant in entrants.items()})
    winner, done, reached = race(turns, [5], lost=turns.lost)
    assert (winner, len(done), reached) == ("best", 5, pytest.approx(losses))
    assert turns.told == [
        "none begins",
        "worse begins",
        "worse lost",
        "better begins",
        "none lost",
        "best begins",
        "better lost",
        "good begins",
        "good lost",
    ]


def test_nobody_leaves_before_the_last_stage():
    entrants = {
        "none": Slow(lambda t: 1.0),
        "late": Slow(lambda t: 1.5 - 0.03 * t),
        "never": Slow(lambda t: 2.0),
    }
    turns = Turns({name: (entrant, entrant.boosting()) for name, entrant in entrants.items()})
    assert race(turns, [5, 25], lost=turns.lost)[0] == "late"
    assert turns.told == ["none begins", "late begins", "never begins", "none lost", "never lost"]


@pytest.mark.parametrize(
    ("rounds", "winner", "n_done"), [(3, "none", 3), (10, "none", 10), (13, "quick", 3)]
)
def test_a_race_that_is_stopped_compares_what_was_run(rounds, winner, n_done):
    """The third entrant never begins; after three rounds the second is ahead, though not in the end."""
    asked = []

    class Counted(Slow):
        def boosting(self):
            for progress in super().boosting():
                asked.append(progress)
                yield progress

    entrants = {
        "none": Counted(lambda t: 1.0),
        "quick": Counted(lambda t: 0.5 + 0.1 * t),
        "third": Counted(lambda t: 0.0),
    }
    turns = Turns({name: (entrant, entrant.boosting()) for name, entrant in entrants.items()})
    found, done, _ = race(turns, [10], lambda: len(asked) >= rounds)
    assert (found, len(done)) == (winner, n_done) and "third begins" not in turns.told


@pytest.mark.parametrize("n_iter_no_change", [3, 50])
def test_only_models_that_early_stopping_would_keep_are_kept(n_iter_no_change):
    """Best in the fifth round, and better still in the last, after n_iter_no_change of 3 has run out."""
    losses = [9.0, 8.0, 7.0, 6.0, 5.0, 5.5, 5.6, 5.7, 5.8, 1.0]

    class Told(Slow):
        def boosting(self):
            for t, loss in enumerate(losses):
                yield RoundInfo(
                    t,
                    100,
                    0.0,
                    loss,
                    Iterate(np.full((4, 1), t), np.zeros((4, 1)), (1.0,) * (t + 1)),
                    1.0,
                    1.0,
                )

        def validation_value(self, model):
            return losses[int(model.scores[0, 0])]

    def raced(stopping):
        entrant = Told(None)
        return race({"none": (entrant, entrant.boosting())}, [10], stopping=stopping)[1]

    everything, thinned = raced(None), raced(lambda: eb.EarlyStopping(n_iter_no_change))
    kept = [progress.round for progress in thinned if progress.model.scores.size]
    assert kept == ([4, 9] if n_iter_no_change == 3 else [9])
    assert [p.model.weights for p in thinned] == [p.model.weights for p in everything]
    best = []
    for rounds in (everything, thinned):
        stopping = eb.EarlyStopping(n_iter_no_change)
        stopping.before_training(100)
        any(stopping.after_round(progress) for progress in rounds)
        best.append(stopping.after_training(None).scores)
    np.testing.assert_array_equal(*best)


def test_a_callback_sees_the_models_of_all_rounds_the_race_included():
    X, y, graph = homophilous(600)
    seen = []

    class Look(eb.Callback):
        def after_round(self, progress):
            seen.append(progress.model.smoothed.shape)

    m = auto(n_estimators=35).fit(X, y, graph=graph, callbacks=[Look()])
    assert m.selection_ and len(seen) >= 30 and {shape[0] for shape in seen} == {600}
    plain = auto(n_estimators=35).fit(X, y, graph=graph)
    np.testing.assert_array_equal(m.predict(), plain.predict())


def test_the_race_weighs_the_held_out_nodes():
    weight = np.repeat([1.0, 0.0], 25)
    errors = np.repeat([2.0, 0.0], 25)  # worse where it counts
    entrants = {"none": Entrant(np.full(50, 1.5), weight), "graph": Entrant(errors, weight)}
    winner, _, reached = race(
        {name: (entrant, iter(())) for name, entrant in entrants.items()}, [5]
    )
    assert winner == "none"
    assert reached == {"none": pytest.approx(1.5), "graph": pytest.approx(2.0)}


def test_few_labels_see_whether_neighbours_are_alike():
    X, y, _ = homophilous(600)
    few = np.random.default_rng(0).choice(600, 45, replace=False)
    dense = eb.Graph.build_knn(np.column_stack([y, y]), k=40)  # neighbours by the label itself
    assert auto(n_estimators=10).fit(X, y[few], nodes=few, graph=dense).best_candidate_ == "graph"
    shuffled = np.random.default_rng(1).permutation(y)
    assert (
        auto(n_estimators=10).fit(X, shuffled[few], nodes=few, graph=dense).best_candidate_
        == "none"
    )


@pytest.mark.parametrize(("known", "held_out"), [(9, 0), (10, 10), (49, 49)])
def test_few_labels_are_left_out_once_each(known, held_out):
    X, y, graph = homophilous(100)
    assert (
        auto(n_estimators=5)
        .fit(X, y[:known], nodes=np.arange(known), graph=graph)
        .conformity_scores_.size
        == held_out
    )


def test_a_race_that_would_fill_the_memory_stays_short():
    from ebboost.training.selection import sized_stages

    assert sized_stages(True, 1000, 20_000) == [5, 25, 60]
    assert sized_stages(True, 1000, 1_000_000) == [5, 25]
    assert sized_stages(True, 1000, 100_000_000) == [5]
    assert sized_stages(False, 1000, 100_000_000) == [30]
