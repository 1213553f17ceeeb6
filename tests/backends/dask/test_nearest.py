"""Graphs of nearest rows that workers find together are those of one process."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.sparse.csgraph import connected_components

import ebboost as eb
from ebboost.backends.dask.nearest import NearestRows, nearest_rows
from tests.backends.dask.threads import in_threads, random_partition


def found_by_workers(points, count, seed=0):
    """The adjacency that some workers find, each of them some ranges of the points."""
    partition = random_partition(len(points), count, seed)

    def work(workers):
        return nearest_rows(partition.select(workers.rank, points), partition, workers)

    rows = in_threads(count, work)
    order = np.concatenate([partition.positions(rank) for rank in range(count)])
    return sparse.csr_array(sparse.vstack(rows, format="csr")[np.argsort(order)])


@settings(max_examples=15, deadline=None)
@given(st.integers(5, 80), st.integers(1, 4), st.booleans(), st.integers(2, 3))
def test_workers_find_the_graph_of_one_process(n, count, is_sorted, n_dimensions):
    points = np.random.default_rng(n).normal(size=(n, n_dimensions))
    points = points[np.argsort(points[:, 0])] if is_sorted else points
    expected = eb.Graph.build_knn(points, min(8, n - 1), weight="distance").adjacency
    found = found_by_workers(points, count, n + count)
    np.testing.assert_allclose(found.toarray(), expected.toarray(), atol=1e-12)


@pytest.mark.parametrize("count", [1, 3])
def test_crowded_points_have_edges_to_other_points(count):
    random = np.random.default_rng(0)
    points = random.normal(size=(12, 2))[random.integers(0, 12, 300)]
    found = found_by_workers(points, count)
    assert (found != found.T).nnz == 0 and (found.diagonal() == 0).all()
    of_one = eb.Graph.build_knn(points, 8, weight="distance").adjacency
    parts = [connected_components(one, return_labels=False) for one in (found, of_one)]
    assert parts[0] <= parts[1]


def test_rows_at_one_point_have_equal_weights():
    found = found_by_workers(np.ones((20, 2)), 2)
    assert set(found.data) == {1.0} and (np.diff(found.indptr) >= 8).all()


def test_degrees_are_points_on_the_sphere():
    latitude, longitude = np.array([[0.0, 60.0, 60.0], [0.0, 0.0, 90.0]])
    rows = NearestRows((1, 0), degrees=True)
    points = rows.points(np.column_stack([longitude, latitude]), None)
    assert points.shape == (3, 3)
    np.testing.assert_allclose(np.linalg.norm(points, axis=1), 1.0)
    np.testing.assert_allclose(points[2], [0.0, 0.5, np.sqrt(0.75)], atol=1e-12)
