import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ebboost as eb
from ebboost._native import COMPILED, threads
from ebboost.graph import _similarity as _twins
from tests.strategies import graphs

BY = [_twins._by_scipy]
if COMPILED is not None:
    BY.append(lambda *parts: _twins._by_loops(COMPILED, *parts))


@pytest.mark.parametrize("by", BY)
@given(graph=graphs(), k=st.integers(1, 4))
def test_the_best_of_each_row_are_those_with_the_largest_cosines(by, graph, k):
    dense, degrees = graph.adjacency.toarray(), np.where(graph.degrees > 0, graph.degrees, 1.0)
    rows = dense / np.sqrt(degrees)
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-300)
    cosines = rows @ rows.T
    found = list(by(graph.adjacency, 1.0 / np.sqrt(degrees), k))
    row, other, cosine = (np.concatenate(parts) for parts in zip(*found, strict=True))
    np.testing.assert_allclose(cosine, cosines[row, other], atol=1e-12)
    for node in range(graph.n_nodes):
        alike, mine = np.sort(np.delete(cosines[node], node))[::-1][:k], cosine[row == node]
        sure = alike[alike > _twins.LEAST_COSINE + 1e-9]  # on the edge, rounding decides
        assert mine.size <= k and (mine >= _twins.LEAST_COSINE).all()
        np.testing.assert_allclose(mine[: sure.size], sure, atol=1e-12)


@pytest.mark.skipif(COMPILED is None, reason="no compiler")
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("k", [1, 10])
def test_who_compares_does_not_matter(weighted, k, monkeypatch):
    monkeypatch.setattr(_twins, "ROWS", 64)
    rng = np.random.default_rng(0)
    ends = np.sort(rng.integers(0, 700, (2500, 2)), axis=1)
    weight = rng.random(2500) if weighted else None
    adjacency = eb.Graph.from_edges(ends[:, 0], ends[:, 1], weight=weight, n_nodes=700).adjacency
    found = [_twins.twin_weights(adjacency, k)]
    with threads(3):
        found.append(_twins.twin_weights(adjacency, k))
    monkeypatch.setattr(_twins, "COMPILED", None)
    found.append(_twins.twin_weights(adjacency, k))
    for other in found[1:]:
        for name in ("data", "indices", "indptr"):
            np.testing.assert_array_equal(getattr(found[0], name), getattr(other, name))


def test_of_equals_the_first_are_taken():
    star = eb.Graph.from_edges(np.zeros(30, dtype=int), np.arange(1, 31))
    assert star.twins(k=2).neighbors(30).tolist() == [1, 2]


def test_hubs_with_too_many_neighbours_are_refused(monkeypatch):
    monkeypatch.setattr(_twins, "MOST_COMPARISONS", 5)
    with pytest.raises(ValueError, match="hubs"):
        eb.Graph.from_edges([0, 0, 0], [1, 2, 3]).twins()
