"""The projection on a tree against its definition, compiled and in numpy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebboost.boosting import projection as module
from ebboost.boosting.projection import directional_sums, project_on_tree


@given(
    seed=st.integers(0, 1000),
    outputs=st.integers(1, 3),
    quiet=st.booleans(),
    unit=st.sampled_from([1.0, 1e-40, 1e40]),
)
@settings(max_examples=30, deadline=None)
def test_projection_is_orthogonal_in_the_norm_of_the_curvature(seed, outputs, quiet, unit):
    rng = np.random.default_rng(seed)
    curvature, tree = unit * (rng.random((20, 1)) + 0.1), rng.normal(size=(20, outputs))
    residual = rng.normal(size=(20, outputs))
    if quiet:  # nodes out of reach of every label
        curvature[:5] = 0.0
    projection = project_on_tree(-curvature * residual, curvature, tree)
    missing = residual - projection.length * tree
    assert np.sum(curvature * missing * tree) == pytest.approx(0.0, abs=1e-9 * unit)
    norms = [np.sqrt(np.sum(curvature * v**2)) for v in (residual, tree)]
    assert projection.cosine == pytest.approx(np.sum(curvature * residual * tree) / np.prod(norms))
    assert (
        project_on_tree(0.0 * residual, curvature, tree)
        == project_on_tree(-curvature * residual, curvature, 0.0 * tree)
        == (0, 0)
    )


def test_nodes_whose_curvature_is_rounding_do_not_count():
    rng = np.random.default_rng(0)
    gradient, tree = rng.normal(size=(2, 20, 1))
    curvature = np.ones((20, 1))
    curvature[:5] = 1e-20
    gradient[:5] = 1e-10
    expected = project_on_tree(gradient[5:], curvature[5:], tree[5:])
    assert project_on_tree(gradient, curvature, tree) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("floor", [0.0, 0.5])
def test_compiled_and_numpy_sums_agree(floor, monkeypatch):
    rng = np.random.default_rng(0)
    gradient = rng.normal(size=(1000, 1))
    curvature = rng.random((1000, 1))
    direction = rng.normal(size=(1000, 1))
    compiled = directional_sums(gradient, curvature, direction, floor)
    monkeypatch.setattr(module, "COMPILED", None)
    expected = directional_sums(gradient, curvature, direction, floor)
    assert compiled == pytest.approx(expected)
    assert (expected[2] > 0) == (floor > 0)
