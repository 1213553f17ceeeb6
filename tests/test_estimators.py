"""The estimators as scikit-learn knows them, and 40 wrong uses with clear messages."""

import copy
import pickle

import joblib
import lightgbm
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import ebboost as eb
from tests.strategies import fixed, homophilous, quick

N = 160
X, Y, GRAPH = homophilous(N)
NAN = np.where(np.arange(N) < 120, Y, np.nan)
CLASSES = np.digitize(Y, [-0.7, 0.7])
NEW = {"attach": ([0, 1], [3, 4])}

# LightGBM counts the rows of a leaf by their share of the curvature, and labels are held out at
# random: a row of weight 2 is not two rows.
WEIGHTS = "rows of a leaf are counted, not weighed"


@parametrize_with_checks(
    [eb.EBBSRegressor(5, n_jobs=1), eb.EBBSClassifier(5, n_jobs=1)],
    expected_failed_checks=lambda _: {
        "check_sample_weight_equivalence_on_dense_data": WEIGHTS,
        "check_sample_weight_equivalence_on_sparse_data": WEIGHTS,
    },
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.DataConversionWarning")
@pytest.mark.filterwarnings("ignore:X (does not have valid|has) feature names:UserWarning")
def test_scikit_learn_accepts_the_estimators(estimator, check):
    check(estimator)


def test_parameters_are_stored_cloned_and_nested():
    model = eb.EBBSRegressor(smoothing=eb.Laplacian(3.0), learner=eb.LightGBM(num_leaves=9))
    assert len(model.get_params(deep=False)) <= 18
    model.set_params(smoothing__lam=7.0, learner__num_leaves=5, n_folds=2)
    again = clone(model)
    assert again.smoothing is not model.smoothing
    assert again.get_params()["smoothing__lam"] == 7.0 and again.learner.num_leaves == 5
    assert is_regressor(model) and is_classifier(eb.EBBSClassifier())
    with pytest.raises(ValueError, match="Invalid parameter 'depth'"):
        model.set_params(depth=3)
    assert eb.EBBSRegressor.from_preset("fast", n_jobs=1).get_params()["n_folds"] == 1
    with pytest.raises(ValueError, match="name must be 'fast' or 'paper', got 'best'"):
        eb.EBBSRegressor.from_preset("best")


@pytest.mark.parametrize("kind", [eb.EBBSRegressor, eb.EBBSClassifier])
def test_copies_of_a_fitted_model_predict_explain_and_train_nothing(kind, monkeypatch, tmp_path):
    y = NAN if kind is eb.EBBSRegressor else CLASSES
    model = quick(kind, n_estimators=4).fit(X, y, graph=GRAPH)
    joblib.dump(model, tmp_path / "m.joblib")
    copies = [copy.copy(model), copy.deepcopy(model), pickle.loads(pickle.dumps(model))]
    copies += [joblib.load(tmp_path / "m.joblib"), pickle.loads(pickle.dumps(copies[-1]))]

    def refuse(*args, **options):
        raise AssertionError("something is trained")

    for owner, name in ((lightgbm, "train"), (lightgbm.Booster, "update")):
        monkeypatch.setattr(owner, name, refuse)
    expected = model.predict(interval=0.9)
    for one in copies:
        for values, own in zip(expected, one.predict(interval=0.9), strict=True):
            np.testing.assert_array_equal(own, values)
        np.testing.assert_array_equal(
            one.predict(X[:2] + 0.1, **NEW), model.predict(X[:2] + 0.1, **NEW)
        )
        assert one.summary() == model.summary() and str(one.explanations([5])[0])
        assert one.get_params().keys() == model.get_params().keys()
    with pytest.raises(NotFittedError, match="not fitted yet"):
        clone(model).predict()
    with pytest.raises(AssertionError, match="something is trained"):
        clone(model).fit(X, y, graph=GRAPH)


def test_a_fit_that_fails_leaves_the_model_as_it_was():
    class Fail(eb.Callback):
        def after_round(self, info):
            raise MemoryError

    model = quick().fit(X, NAN, graph=GRAPH)
    before = model.predict().copy()
    for bad in ({"graph": 3}, {"y": ["a"] * N}, {"callbacks": [Fail()]}):
        with pytest.raises((TypeError, ValueError, MemoryError)):
            model.fit(**{"X": X, "y": NAN, "graph": GRAPH} | bad)
        np.testing.assert_array_equal(model.predict(), before)
    again = model.fit(X[:100], Y[:100])
    assert again is model and model.graph_ is None and model.predict().shape == (100,)


def test_parameters_changed_after_the_fit_do_not_change_the_model():
    model = quick().fit(X, NAN, graph=GRAPH)
    before = model.predict(X[:2] + 0.1, **NEW)
    model.set_params(n_jobs=2, loss="poisson", labels="none", n_estimators=3)
    np.testing.assert_array_equal(model.predict(X[:2] + 0.1, **NEW), before)
    assert isinstance(model.loss_, eb.SquaredError) and model.model_.parameters["n_jobs"] == 2


def test_learned_attributes_describe_the_fit():
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = quick().fit(frame, NAN, graph=GRAPH)
    assert model.n_features_in_ == 3 and model.feature_names_in_.tolist() == ["a", "b", "c"]
    assert model.feature_importances_.sum() == pytest.approx(1.0)
    assert model.feature_importances_.argmax() == 0
    assert len(model.rounds_) == 2 * len(model.model_.components)
    assert model.gain_.metric == "RMSE" and model.gain_.with_graph < model.gain_.without
    assert list(model.selection_.columns)[:2] == ["member", "loss"]
    assert model.history_["training"][-1] < model.history_["training"][0]
    assert "RMSE" in model.summary() and "90 % within" in model.summary()
    assert model.summary() in model._repr_html_() or "90 % within" in model._repr_html_()
    with pytest.raises(AttributeError, match="no column names"):
        _ = quick().fit(X, NAN).feature_names_in_


@pytest.mark.parametrize(
    "labels", [["no", "yes"], ["x", "y", "z"], [3, 7], [False, True], ["größe", ""]], ids=repr
)
def test_classes_may_be_anything_that_sorts(labels):
    codes = np.digitize(Y, np.quantile(Y, np.linspace(0, 1, len(labels) + 1)[1:-1]))
    truth = np.array(labels, dtype=object if isinstance(labels[0], str) else None)[codes]
    hidden = truth.astype(object)
    hidden[::4] = None
    model = quick(eb.EBBSClassifier, n_estimators=6).fit(X, hidden, graph=GRAPH)
    assert model.classes_.tolist() == sorted(labels)
    assert model.predict().dtype.kind == model.classes_.dtype.kind
    assert model.score(None, truth) > 0.6
    np.testing.assert_array_equal(model.classes_[model.predict_proba().argmax(1)], model.predict())


def test_class_weights_move_the_prior():
    y = np.repeat(["a", "b"], [80, 20])
    shares = [
        fixed(eb.EBBSClassifier, class_weight=weight).fit(np.zeros((100, 1)), y).predict_proba()[0]
        for weight in (None, "balanced", {"a": 1.0, "b": 4.0})
    ]
    np.testing.assert_allclose(shares, [[0.8, 0.2], [0.5, 0.5], [0.5, 0.5]], atol=1e-6)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame, pa.table])
def test_tables_of_every_library_give_the_same_model(frame):
    columns = {"a": X[:, 0], "kind": np.array(list("uvw"))[np.arange(N) % 3].tolist()}
    expected = quick().fit(pd.DataFrame(columns), NAN, graph=GRAPH)
    model = quick().fit(frame(columns), NAN, graph=GRAPH)
    np.testing.assert_array_equal(model.predict(), expected.predict())
    strange = frame({"kind": ["unseen", None], "a": [0.5, None]})
    np.testing.assert_array_equal(model.predict(strange, **NEW), expected.predict(strange, **NEW))
    for y in (pd.Series(NAN), pl.Series(NAN), pa.array(NAN), NAN.tolist()):
        same = quick().fit(frame(columns), y, graph=GRAPH)
        np.testing.assert_array_equal(same.predict(), expected.predict())


@pytest.mark.parametrize(
    "layout",
    [
        lambda X: np.repeat(X, 2, axis=0)[::2],
        np.asfortranarray,
        lambda X: X.astype(">f8"),
        lambda X: np.frombuffer(X.tobytes()).reshape(X.shape),
        lambda X: X.astype(object),
        lambda X: pd.DataFrame(X).astype("Float64"),
        lambda X: pd.DataFrame(X, dtype="float64[pyarrow]"),
        sparse.coo_array,
    ],
    ids=["strided", "fortran", "big-endian", "read-only", "objects", "Float64", "arrow", "sparse"],
)
def test_memory_layout_and_dtype_of_the_table_do_not_matter(layout):
    expected = quick(n_estimators=3).fit(X, NAN, graph=GRAPH).predict()
    np.testing.assert_array_equal(
        quick(n_estimators=3).fit(layout(X), NAN, graph=GRAPH).predict(), expected
    )


@pytest.mark.parametrize("width", [1, 2])
def test_columns_without_information_leave_the_field(width):
    for table in (np.ones((N, width)), np.full((N, width), np.nan)):
        model = quick(n_estimators=20).fit(table, NAN, graph=GRAPH)
        assert model.score(None, Y, nodes=np.arange(120, N)) > 0.3
        np.testing.assert_array_equal(model.feature_importances_, model.feature_importances_)
        assert np.isfinite(model.predict(table[:2], **NEW)).all() and model.explanations([130])


def test_pipelines_and_searches_pass_the_graph_on():
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(
        kind=np.where(X[:, 2] > 0, "up", "down")
    )
    columns = ColumnTransformer(
        [("n", StandardScaler(), ["a", "b"]), ("k", OneHotEncoder(), ["kind"])]
    )
    pipe = make_pipeline(columns, fixed(labels=eb.LatentField()))
    pipe.fit(frame, Y, ebbsregressor__graph=GRAPH)
    direct = fixed(labels=eb.LatentField()).fit(columns.fit_transform(frame), Y, graph=GRAPH)
    np.testing.assert_array_equal(pipe.predict(frame), direct.predict())
    search = GridSearchCV(fixed(), {"learner__num_leaves": [2, 7]}, cv=2)
    assert search.fit(X, Y).best_params_["learner__num_leaves"] in (2, 7)


def test_scores_are_those_of_scikit_learn_at_known_labels():
    model = quick().fit(X, NAN, graph=GRAPH)
    residual = Y - model.predict()
    expected = 1.0 - residual.var() / Y.var()
    assert model.score(None, Y) == pytest.approx(expected, abs=0.01)
    gaps = np.where(np.arange(N) < 50, Y, np.nan)
    assert model.score(None, gaps) == model.score(None, Y[:50], nodes=np.arange(50))
    assert model.score(None, Y, nodes=np.arange(50)) == model.score(None, gaps)
    weighted = model.score(None, Y, np.where(np.arange(N) < 50, 1.0, 0.0))
    assert weighted == pytest.approx(model.score(None, gaps))


# ---------------------------------------------------------------------- wrong uses

R, C = eb.EBBSRegressor, eb.EBBSClassifier


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"n_estimators": 0}, "'n_estimators' parameter .* must be an int in the range"),
        ({"n_estimators": "many"}, "'n_estimators' parameter"),
        ({"learning_rate": 0.0}, "'learning_rate' parameter"),
        ({"learning_rate": 1.5}, "'learning_rate' parameter"),
        ({"early_stopping": 0.5}, "'early_stopping' parameter"),
        ({"early_stopping": -3}, "'early_stopping' parameter"),
        ({"n_folds": 0}, "'n_folds' parameter"),
        ({"n_folds": "many"}, "'n_folds' parameter"),
        ({"n_folds": 200}, "n_folds=200 needs at least 200 labels, got 120"),
        ({"max_seconds": 0}, "'max_seconds' parameter"),
        ({"smoothing": 3.0}, "'smoothing' parameter"),
        ({"smoothing": eb.Laplacian(-1.0)}, "lam must be a number >= 0"),
        ({"labels": "all"}, "labels must be 'auto', 'none', 'field'"),
        ({"labels": None}, "labels must be"),
        ({"labels": eb.LatentField(-1.0)}, "LatentField: lam must be"),
        ({"neighbor_features": True}, "'neighbor_features' parameter"),
        ({"neighbor_features": eb.NeighborFeatures(["median"])}, "statistics must be"),
        ({"spectral_features": 5}, "'spectral_features' parameter"),
        ({"spectral_features": eb.SpectralFeatures(0)}, "n_components must be"),
        ({"learner": "forest"}, "learner must be"),
        ({"loss": "absolute"}, "loss must be one of"),
        ({"loss": 3}, "'loss' parameter"),
        ({"loss": eb.Huber(-1.0)}, "Huber: delta must be"),
        ({"categorical_features": [99]}, "99 is not one of its 3 columns"),
        ({"device": "tpu"}, "'device' parameter"),
        ({"n_jobs": 0}, "'n_jobs' parameter"),
        ({"n_jobs": -2}, "'n_jobs' parameter"),
        ({"random_state": "seed"}, "'random_state' parameter"),
        ({"verbose": "loud"}, "'verbose' parameter"),
    ],
)
def test_wrong_parameters_are_named_in_fit(parameters, words):
    with pytest.raises((ValueError, TypeError), match=words):
        R(**{"n_estimators": 2, "n_jobs": 1} | parameters).fit(X, NAN, graph=GRAPH)


@pytest.mark.parametrize(
    ("kind", "arguments", "words"),
    [
        (R, {"coordinates": X[:, :2]}, "graph and coordinates exclude each other"),
        (R, {"groups": np.arange(N), "coordinates": X[:, :2]}, "no coordinates"),
        (R, {"groups": [1] * 5}, "groups has 5 entries, X has 160 rows"),
        (R, {"groups": "place"}, "groups='place' is not a column of X"),
        (R, {"time": np.ones(N)}, "time is the same for all labels"),
        (R, {"time": np.full(N, np.nan)}, "a number or a date in every row, row 0 has none"),
        (R, {"time": np.ones(3)}, "time must have 160 entries, got 3"),
        (R, {"time": ["noon"] * N}, "time must be a number or a date"),
        (R, {"time": "when"}, "time='when' is not a column"),
        (R, {"offset": np.ones(3)}, r"a number for each of 160 rows, got \(3,\)"),
        (R, {"offset": np.full(N, np.nan)}, "offset must be finite in every row, row 0 is nan"),
        (R, {"offset": np.full(N, 1e20)}, "far beyond the labels"),
        (R, {"offset": "pop"}, r"got the text 'pop': pass X.pop\('pop'\)"),
        (R, {"offset": np.ones(N), "exposure": np.ones(N)}, "not both"),
        (R, {"exposure": np.ones(N)}, "exposure needs a loss of counts"),
        (C, {"y": CLASSES, "offset": np.ones(N)}, "y has more than two classes"),
        (C, {"y": NAN}, "Unknown label type: continuous"),
        (C, {"y": np.ones(N)}, "only one class"),
        (C, {"y": np.arange(1001)}, "y has 1001 labels"),
        (R, {"y": CLASSES + 1j}, "complex numbers"),
        (R, {"sample_weight": -np.ones(N)}, "sample_weight must be finite and not negative"),
        (R, {"eval_set": (X[:5], Y[:5])}, r"eval_set must be \(nodes, labels\)"),
        (R, {"callbacks": 5}, r"callbacks must be a list of eb\.Callback, got 5"),
        (R, {"callbacks": [print]}, r"callbacks\[0\] must be an eb\.Callback"),
        (R, {"X": X[:, :0]}, r"0 feature\(s\)"),
        (R, {"X": X[:, 0]}, "Expected 2D array, got 1D array"),
        (R, {"X": np.where(X[3, 1] == X, np.inf, X)}, "infinity.*row 3, column 1"),
        (R, {"X": 1e38 * X}, "single precision"),
    ],
)
def test_wrong_arguments_of_fit_are_met_by_a_message(kind, arguments, words):
    with pytest.raises((ValueError, TypeError), match=words):
        kind(2, n_jobs=1).fit(**{"X": X, "y": NAN, "graph": GRAPH} | arguments)


def test_unknown_parameters_are_named_with_where_they_belong():
    with pytest.raises(TypeError, match=r"eb.LightGBM\(num_leaves=3\)"):
        R(num_leaves=3)
    with pytest.raises(TypeError, match="Did you mean 'num_leaves'"):
        R(num_leafs=3)
    with pytest.raises(TypeError, match="It is early_stopping=10 here"):
        R(early_stopping_rounds=10)
    with pytest.raises(ValueError, match=r"the text 'w': pass X.pop\('w'\)"):
        R(5).fit(X, Y, sample_weight="w")
    with pytest.raises(TypeError, match=r"no parameter 'foo'. See help\(EBBSClassifier\)"):
        C(foo=3)
    with pytest.raises(ValueError, match=r"class_weight names 'z'"):
        C(class_weight={"z": 2.0}).fit(X, CLASSES)
    with pytest.raises(ValueError, match="is a loss for numbers"):
        C(loss=eb.SquaredError()).fit(X, CLASSES)


class Misshapen(eb.Loss):
    """A loss whose parts have the wrong shape, or the wrong sign."""

    def __init__(self, part="value", by=None):
        self.part, self.by = part, by

    def _or(self, part, right):
        return right if part != self.part else self.by(right)

    def value(self, scores, target):
        return self._or("value", ((scores - target) ** 2).sum(axis=1))

    def gradient(self, scores, target):
        return self._or("gradient", 2.0 * (scores - target))

    def curvature(self, scores, target):
        return self._or("curvature", np.full_like(scores, 2.0))


@pytest.mark.parametrize(
    ("part", "by", "words"),
    [
        (
            "value",
            lambda v: v[:, None],
            r"value of .* must have shape \(120,\) here, got \(120, 1\)",
        ),
        ("gradient", lambda v: v[:, 0], r"gradient of .* must have shape \(120, 1\)"),
        ("curvature", lambda v: v[:7, 0], r"curvature of .* must have shape \(120, 1\)"),
        ("curvature", lambda v: -v, "curvature of .* must be finite and not negative"),
        ("gradient", lambda v: v * np.nan, "gradient of .* must be finite"),
        ("value", lambda v: v + np.inf, "training loss is infinite"),
    ],
)
def test_a_loss_of_ones_own_is_checked_before_anything_is_trained(part, by, words):
    with pytest.raises(ValueError, match=words):
        quick(loss=Misshapen(part, by)).fit(X, NAN, graph=GRAPH)


def test_a_loss_of_ones_own_fits_with_and_without_curvature():
    for curvature in (lambda v: v, lambda v: 2.0, lambda v: v[:, :1], lambda v: 0.0 * v):
        model = quick(loss=Misshapen("curvature", curvature)).fit(X, NAN, graph=GRAPH)
        assert np.isfinite(model.predict()).all()


def test_outliers_hardly_move_huber_and_the_median():
    wild = NAN.copy()
    wild[:6] += 1e4
    for loss in ("huber", "quantile"):
        model = quick(loss=loss, n_estimators=30).fit(X, wild, graph=GRAPH)
        assert model.score(None, Y, nodes=np.arange(120, N)) > 0.5
