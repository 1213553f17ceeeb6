"""A streaming partitioner: few edges between parts of about one size."""

import numpy as np
import pytest

import ebboost as eb
from ebboost.backends.dask.partitioning import assign_parts
from ebboost.backends.dask.sharding import shard_graph
from tests.backends.dask.threads import in_threads, random_partition

SIDE = 40


@pytest.mark.parametrize(("is_shuffled", "most"), [(False, 0.1), (True, 0.3)])
def test_a_grid_is_cut_into_regions(is_shuffled, most):
    n = SIDE**2
    node = np.arange(n).reshape(SIDE, SIDE)
    order = np.random.default_rng(0).permutation(n) if is_shuffled else np.arange(n)
    source = order[np.concatenate([node[:, :-1].ravel(), node[:-1].ravel()])]
    target = order[np.concatenate([node[:, 1:].ravel(), node[1:].ravel()])]
    graph = eb.Graph.from_edges(source, target, n_nodes=n)
    partition = random_partition(n, 2, 0, n_cuts=0)

    def work(workers):
        rows = partition.select(workers.rank, graph.adjacency)
        return assign_parts(shard_graph(rows, partition, workers), 4)

    part = partition.join(in_threads(2, work))
    assert np.bincount(part, minlength=4).max() <= 1.1 * n / 4
    assert np.mean(part[source] != part[target]) < most  # 0.75 between random parts
