"""Constructor parameters are checked at fit: the message has the name and the value."""

import numpy as np
import pytest

import ebboost as eb

X = np.arange(24.0).reshape(12, 2)
Y = np.arange(12.0)
GRAPH = eb.Graph.from_edges(np.arange(11), np.arange(1, 12))


@pytest.mark.parametrize("kind", [eb.EBBSRegressor, eb.EBBSClassifier])
@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("n_estimators", [0, -1, 2.5, "many", None]),
        ("learning_rate", [0.0, -0.1, 1.5, np.nan, np.inf, "fast"]),
        ("penalty", [-1e-9, np.nan, 1e31, "much"]),
        ("validation_fraction", [0.0, 1.0, -0.5, None]),
        ("n_iter_no_change", [0, 1.5, "long"]),
        ("momentum", ["yes", 1, None, 0.2]),
        ("early_stopping", ["yes", 0, None]),
        ("relations", [3, "all"]),
        ("device", ["gpu", None]),
        ("n_jobs", [0, -2, 1.5, "all"]),
        ("learner", ["adaboost", 3, None]),
        ("loss", ["hinge", 3]),
        ("random_state", ["lucky"]),
        ("categorical_features", ["some", None, ["u"]]),
        ("smoothing", ["smooth", 2.0]),
        ("feature_smoothing", ["smooth", 2.0]),
    ],
)
def test_invalid_parameters_raise_an_error_with_name_and_value(kind, name, values):
    y = Y if kind is eb.EBBSRegressor else np.where(Y > 5, "a", "b")
    for value in values:
        with pytest.raises(ValueError) as caught:
            kind(**{"n_estimators": 2, "n_jobs": 1} | {name: value}).fit(X, y, graph=GRAPH)
        message = str(caught.value)
        assert name in message
        assert repr(value[0] if isinstance(value, list) else value) in message


class StumpRegressor(eb.EBBSRegressor):
    """A subclass that fixes most settings and adds a parameter of its own."""

    def __init__(self, n_estimators=5, note="none"):
        stumps = eb.LightGBM(num_leaves=2)
        fixed = {"smoothing": None, "labels": "none", "n_jobs": 1, "random_state": 0}
        super().__init__(n_estimators, learner=stumps, **fixed)
        self.note = note


def test_a_subclass_may_fix_settings_and_add_parameters(tmp_path):
    model = StumpRegressor(note="own").fit(X, Y, graph=GRAPH)
    fixed = eb.EBBSRegressor(
        5,
        learner=eb.LightGBM(num_leaves=2),
        smoothing=None,
        labels="none",
        n_jobs=1,
        random_state=0,
    )
    np.testing.assert_array_equal(model.predict(), fixed.fit(X, Y, graph=GRAPH).predict())
    model.save(tmp_path / "model.ebb")
    loaded = eb.load(tmp_path / "model.ebb", classes=[StumpRegressor])
    assert loaded.get_params() == {"n_estimators": 5, "note": "own"}
    np.testing.assert_array_equal(loaded.predict(X, graph=GRAPH), model.predict(X, graph=GRAPH))


@pytest.mark.parametrize("kind", [eb.EBBSRegressor, eb.EBBSClassifier])
def test_changes_of_one_preset_do_not_change_the_next(kind):
    kind.from_preset("paper").set_params(smoothing__lam=99.0)
    assert kind.from_preset("paper").smoothing.lam == 2.0


@pytest.mark.parametrize("kind", [eb.EBBSRegressor, eb.EBBSClassifier])
def test_presets_set_folds_and_selection_and_unknown_names_are_listed(kind):
    fast = kind.from_preset("fast", n_estimators=7)
    assert (fast.selection, fast.n_folds, fast.n_estimators) == ("rules", 1, 7)
    assert kind.from_preset("best").selection == "thorough"
    with pytest.raises(ValueError, match="must be one of fast, best, paper, got 'slow'"):
        kind.from_preset("slow")


def test_parameters_set_after_the_fit_leave_predictions_unchanged():
    model = eb.EBBSRegressor(5, smoothing=eb.Laplacian(2.0, 3), labels="field", random_state=0)
    before = model.fit(X, Y, graph=GRAPH).predict(X, graph=GRAPH)
    model.set_params(smoothing__lam=50.0, learning_rate=1.0)
    np.testing.assert_array_equal(model.predict(X, graph=GRAPH), before)


def test_n_jobs_set_after_the_fit_is_used_and_saved(tmp_path):
    model = eb.EBBSRegressor(5, n_jobs=2, random_state=0).fit(X, Y)
    model.set_params(n_jobs=1)
    assert model.state_.n_jobs == 1
    model.save(tmp_path / "model.ebb")
    assert eb.load(tmp_path / "model.ebb").n_jobs == 1
