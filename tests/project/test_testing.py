"""The strategies of ebboost.testing and tests/strategies.py, and a short run of the fuzzer."""

import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import ebboost as eb
from ebboost import testing
from tests import strategies

TOOL = runpy.run_path(str(Path(__file__).parents[2] / "tools" / "fuzz_fits.py"))


# The same cases each time: new ones are drawn by `make fuzz`.
@settings(max_examples=20, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(strategies.hard_cases(max_nodes=55))
def test_hard_cases_end_in_finite_predictions_or_an_error_of_ebboost(tmp_path_factory, case):
    assert TOOL["run"](case, str(tmp_path_factory.getbasetemp()))


def drawn(strategy, n_examples=150):
    examples = []

    @settings(
        max_examples=n_examples,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def draw(value):
        examples.append(value)

    draw()
    return examples


def test_graphs_of_every_shape_are_drawn():
    examples = drawn(testing.graphs(4))
    assert any(g.n_edges == 0 for g in examples)
    assert any(g.n_edges == g.n_nodes * (g.n_nodes - 1) // 2 for g in examples)
    assert any(g.n_components > 1 and g.n_edges > 0 for g in examples)
    assert any(g.degrees.max() == g.n_nodes - 1 > g.degrees.min() == 1.0 for g in examples)
    assert any(
        g.n_edges and g.adjacency.data.max() == 1e300 for g in drawn(strategies.any_graphs(3), 60)
    )
    assert {len(r) for r in drawn(testing.relations(4), 100)} == {1, 2, 3}


def test_tables_of_every_kind_are_drawn():
    examples = drawn(testing.tables(4), 100) + drawn(strategies.any_tables(4), 300)
    assert {type(X).__module__.split(".")[0] for X in examples} >= {
        "numpy",
        "scipy",
        "pandas",
        "polars",
        "pyarrow",
        "builtins",
    }
    arrays = [X for X in examples if isinstance(X, np.ndarray)]
    assert {X.dtype.kind for X in arrays} == {"f", "i", "b", "O"}
    assert any(not X.flags.writeable for X in arrays) and any(not X.dtype.isnative for X in arrays)
    types = {
        str(X.dtypes["extra"]) for X in examples if hasattr(X, "columns") and "extra" in X.columns
    }
    assert len(types) >= 3


def test_labels_of_every_kind_are_drawn():
    examples = drawn(testing.numbers(6)) + drawn(strategies.any_numbers(6))
    assert any(np.isnan(y).sum() == 5 for y in examples) and any(
        np.isinf(y).any() for y in examples
    )
    assert any((y == 7.0).all() for y in examples) and any(
        np.nanmax(np.abs(y)) > 1e100 for y in examples
    )
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
    examples, plain = drawn(testing.estimators(classifier), 300), kind().get_params(deep=False)
    seen = {
        name
        for name in plain
        for model in examples
        if repr(getattr(model, name)) != repr(plain[name])
    }
    assert set(plain) - seen <= {"device", "neighbors", "relations", "verbose"}
    assert {type(model.smoothing).__name__ for model in examples} >= {
        "Laplacian",
        "Kernel",
        "Robust",
        "NoneType",
        "str",
    }
    assert {type(model.learner).__name__ for model in examples} >= {
        "LightGBM",
        "XGBoost",
        "CatBoost",
        "ScikitLearn",
        "list",
    }


def test_ordinary_tables_labels_and_graphs_are_fitted():
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
        model = eb.EBBSRegressor(2, selection="rules", n_jobs=1)
        outcomes.append(model.fit(X, y, graph=graph).predict())

    fit()
    assert len(outcomes) >= 15 and all(np.isfinite(predicted).all() for predicted in outcomes)


def test_the_fuzzer_tells_failures_from_errors_of_ebboost():
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

    run, failure = TOOL["run"], TOOL["Failure"]
    assert run(case(y=np.array([0.0, np.inf, 0.0])), "").startswith(
        "fit rejected: ValueError in validation.py"
    )
    with pytest.raises(failure, match="finite numbers"):
        run(case(estimator=Silent(1)), "")
    with pytest.raises(failure, match=r"an error from .*numpy.*LinAlgError"):
        run(case(estimator=eb.EBBSRegressor(1, loss=Careless())), "")


def test_without_hypothesis_the_error_names_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "hypothesis", None)
    monkeypatch.delitem(sys.modules, "ebboost.testing")
    with pytest.raises(ImportError, match="pip install hypothesis"):
        import ebboost.testing  # noqa: F401
