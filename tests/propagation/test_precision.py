"""Operators in float32 against float64."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ebboost as eb
from tests.strategies import graphs

SMOOTHERS = [
    eb.Laplacian(2.0, 5),
    eb.Laplacian(2.0, 5, normalized=False),
    eb.Laplacian(2.0, 5, method="jacobi"),
    eb.Laplacian(2.0, 5, method="chebyshev"),
    eb.Laplacian(2.0, method="exact"),
    eb.Kernel("diffusion"),
    eb.Kernel("random-walk", p=3, lam=10.0),
    eb.Robust(2.0, 5, scale=1.0),
]


@pytest.mark.parametrize("smoother", SMOOTHERS, ids=repr)
@settings(max_examples=10, deadline=None)
@given(graphs(), st.integers(0, 10**6))
def test_float32_agrees_with_float64_to_one_part_in_a_hundred_thousand(smoother, graph, seed):
    """The tolerance stated in docs/testing.md: 1e-5 of the largest score."""
    scores = np.random.default_rng(seed).normal(size=(graph.n_nodes, 2))
    operator = smoother.operator(graph)
    full, short = operator.apply(scores), operator.apply(scores.astype(np.float32))
    assert short.dtype == np.float32
    np.testing.assert_allclose(short, full, rtol=0, atol=1e-5 * np.abs(scores).max())
