"""The strategies that the package ships, and a short run of the fuzzer that they feed."""

import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import ebboost as eb
from ebboost import testing

TOOL = runpy.run_path(str(Path(__file__).parents[2] / "tools" / "fuzz_fits.py"))


# The same ones each time: what chance finds is for `make fuzz` to find, not for whoever changes something else.
@settings(max_examples=20, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(testing.cases(extreme=True, max_nodes=55))
def test_whatever_is_drawn_is_fitted_with_finite_predictions_or_refused_in_our_words(
    tmp_path_factory, case
):
    assert TOOL["run"](case, str(tmp_path_factory.getbasetemp()))


def drawn(strategy, examples=150):
    found = []

    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def draw(value):
        found.append(value)

    draw()
    return found


def test_graphs_of_every_shape_are_drawn():
    found = drawn(testing.graphs(4))
    assert any(g.n_edges == 0 for g in found)
    assert any(g.n_edges == g.n_nodes * (g.n_nodes - 1) // 2 for g in found)
    assert any(g.n_components > 1 and g.n_edges > 0 for g in found)
    assert any(g.degrees.max() == g.n_nodes - 1 > g.degrees.min() == 1.0 for g in found)
    assert any(
        g.n_edges and g.adjacency.data.max() == 1e300
        for g in drawn(testing.graphs(3, extreme=True), 60)
    )
    assert {len(r) for r in drawn(testing.relations(4), 100)} == {1, 2, 3}


def test_tables_of_every_kind_are_drawn():
    found = drawn(testing.tables(4, extreme=True), 300)
    assert {type(X).__module__.split(".")[0] for X in found} >= {
        "numpy",
        "scipy",
        "pandas",
        "polars",
        "pyarrow",
        "builtins",
    }
    arrays = [X for X in found if isinstance(X, np.ndarray)]
    assert {X.dtype.kind for X in arrays} == {"f", "i", "b", "O"}
    assert any(not X.flags.writeable for X in arrays) and any(not X.dtype.isnative for X in arrays)
    types = {str(X.dtypes["extra"]) for X in found if "pandas" in type(X).__module__}
    assert len(types) >= 3


def test_labels_of_every_kind_are_drawn():
    found = drawn(testing.numbers(6, extreme=True))
    assert any(np.isnan(y).sum() == 5 for y in found) and any(np.isinf(y).any() for y in found)
    assert any((y == 7.0).all() for y in found) and any(np.nanmax(np.abs(y)) > 1e100 for y in found)
    kinds = {
        type(value)
        for y in drawn(testing.classes(6), 60)
        for value in y.tolist()
        if value is not None
    }
    assert kinds == {str, int, float, bool}


@pytest.mark.parametrize("classifier", [False, True])
def test_every_parameter_of_an_estimator_is_drawn(classifier):
    kind = eb.EBBSClassifier if classifier else eb.EBBSRegressor
    found, plain = drawn(testing.estimators(classifier)), kind().get_params(deep=False)
    seen = {
        name for name in plain for model in found if repr(getattr(model, name)) != repr(plain[name])
    }
    assert set(plain) - seen <= {"device", "relations", "verbose"}
    assert {type(model.smoothing).__name__ for model in found} >= {
        "Laplacian",
        "Kernel",
        "Robust",
        "NoneType",
        "str",
    }
    assert {type(model.learner).__name__ for model in found} >= {
        "LightGBM",
        "XGBoost",
        "CatBoost",
        "ScikitLearn",
        "list",
    }


def test_ordinary_cases_are_fitted_not_refused():
    outcomes = []

    @settings(
        max_examples=15, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
    )
    @given(st.data())
    def fit(data):
        X, y, graph = (
            data.draw(testing.tables(20)),
            data.draw(testing.numbers(20)),
            data.draw(testing.graphs(20, 20)),
        )
        outcomes.append(eb.EBBSRegressor(2, n_jobs=1).fit(X, y, graph=graph).predict())

    fit()
    assert len(outcomes) >= 15 and all(np.isfinite(predicted).all() for predicted in outcomes)


def test_a_mistake_is_told_from_an_error_of_ours():
    def case(**changes):
        parts = {
            "estimator": eb.EBBSRegressor(1),
            "X": np.zeros((3, 1)),
            "y": np.zeros(3),
            "graph": None,
            "new_graph": None,
        }
        return testing.Case(**parts | changes)

    class Careless(eb.SquaredError):
        def gradient(self, scores, target):
            return np.linalg.inv(np.zeros((2, 2)))

    class Silent(eb.EBBSRegressor):
        def predict(self, *arguments, **named):
            return np.full(3, np.nan)

    run, mistake = TOOL["run"], TOOL["Mistake"]
    assert run(case(y=np.array([0.0, np.inf, 0.0])), "").startswith(
        "fit refused: ValueError in validation.py"
    )
    with pytest.raises(mistake, match="finite numbers"):
        run(case(estimator=Silent(1)), "")
    with pytest.raises(mistake, match=r"an error from .*numpy.*LinAlgError"):
        run(case(estimator=eb.EBBSRegressor(1, loss=Careless())), "")


def test_without_hypothesis_the_remedy_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "hypothesis", None)
    monkeypatch.delitem(sys.modules, "ebboost.testing")
    with pytest.raises(ImportError, match=r"pip install 'ebboost\[testing\]'"):
        import ebboost.testing  # noqa: F401
