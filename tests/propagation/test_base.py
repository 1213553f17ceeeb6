"""What all smoothers and operators have in common."""

import pytest

import ebboost as eb
from ebboost.propagation import IdentityOperator, PropagationOperator
from tests.problems import documented_defaults, own_defaults


@pytest.mark.parametrize("kind", [eb.Laplacian, eb.Kernel, eb.Robust])
def test_defaults_are_those_of_the_documentation(kind):
    assert documented_defaults(kind) == own_defaults(kind)


@pytest.mark.parametrize("kind", [eb.Laplacian, eb.Kernel, eb.Robust])
def test_smoothers_print_what_differs_from_the_defaults_and_are_keys_of_dicts(kind):
    smoother = kind()
    assert repr(smoother) == f"{kind.__name__}()"
    assert repr(kind(lam=3.0)) == f"{kind.__name__}(lam=3.0)"
    assert {smoother: 1, kind(): 2}[smoother] == 1


@pytest.mark.parametrize("missing", ["apply", "adjoint"])
def test_an_operator_of_ones_own_needs_both_products(missing):
    parts = {name: getattr(IdentityOperator, name) for name in ("apply", "adjoint")}
    type("Mine", (PropagationOperator,), parts)(3)
    del parts[missing]
    with pytest.raises(TypeError, match=missing):
        type("Mine", (PropagationOperator,), parts)(3)


def test_a_smoother_of_ones_own_needs_an_operator_and_is_linear_with_any_reach():
    with pytest.raises(TypeError, match="operator"):
        type("Mine", (eb.Smoother,), {})()
    smoother = type("Mine", (eb.Smoother,), {"operator": lambda self, graph: None})()
    assert smoother.linear and smoother.hops(None) is None
    assert smoother.prepared(lambda: 1.0) is smoother
