"""Parts of a graph with few edges between them, by a streaming partitioner on the workers.

Linear deterministic greedy (Stanton and Kliot, 2012): nodes come one batch after another, and each
goes to the part with most of its neighbours, times the share of that part that is still free.
Further passes move nodes on (Nishimura and Ugander, 2013).
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebboost.backends.dask.cluster import Cluster, Membership
from ebboost.backends.dask.edges import read_graph
from ebboost.backends.dask.halo import ShardGraph
from ebboost.backends.dask.sharding import join_parts
from ebboost.backends.dask.worker import communicator
from ebboost.data.parameters import check_number
from ebboost.data.types import TableLike
from ebboost.graph import ParquetGraph

#: By how much a part may be larger than the mean.
SLACK = 1.05
PASSES = 6
#: Batches of nodes in a pass; nodes of a batch do not see each other.
BATCHES = 64


def partition_nodes(X: TableLike, graph: ParquetGraph, n_parts: int) -> Any:
    """Divide the nodes of a graph into parts of about one size with few edges between them.

    Neighbours whose rows are in one worker need no messages: sort the rows of a table by their part
    once, and store it. Nothing of the size of the graph is on the client.

    Parameters
    ----------
    X : Dask dataframe or array
        The nodes; only the number of rows in each block is used.
    graph : ParquetGraph
        The edges.
    n_parts : int
        Number of parts: the number of workers, or a multiple of it.

    Returns
    -------
    Dask array of int, shape (n_nodes,)
        The part of each row, 0 … n_parts-1, in the blocks of ``X``.

    Examples
    --------
    >>> import ebboost as eb
    >>> part = eb.partition_nodes(nodes, eb.ParquetGraph("edges/"), 16)  # doctest: +SKIP
    >>> nodes.assign(part=part).sort_values("part").to_parquet("sorted/")  # doctest: +SKIP
    """
    check_number("n_parts", n_parts, low=1, integer=True)
    cluster = Cluster(X)
    columns = {"ids": cluster.split("ids", graph.ids)}
    tasks = [(graph.without_ids(), n_parts)] * len(cluster.blocks)
    futures = cluster.run(_assign_in_worker, tasks, columns, {})
    return cluster.stack(futures, None, 1)[:, 0].astype(np.int64)


def _assign_in_worker(
    task: tuple[ParquetGraph, int], blocks: Any, columns: dict[str, Any], membership: Membership
) -> NDArray[np.float64]:
    edges, n_parts = task
    partition = membership.partition
    with communicator(membership) as workers:
        ids = join_parts("ids", columns["ids"], partition.lengths[workers.rank])
        graph = read_graph(edges, ids, partition, workers)
        return assign_parts(graph, n_parts)[:, None].astype(np.float64)


def assign_parts(graph: ShardGraph, n_parts: int) -> NDArray[np.int64]:
    """Return the part of each of a worker's nodes."""
    workers = graph.halo.collective
    n_nodes = int(workers.allreduce(np.array([float(graph.n_nodes)]))[0])
    capacity = SLACK * n_nodes / n_parts
    part = np.full(graph.n_nodes, -1)
    sizes = np.zeros(n_parts)
    # Workers begin with different parts.
    preference = np.roll(np.linspace(1.0, 0.0, n_parts), workers.rank * n_parts // workers.count)
    for _ in range(PASSES):
        for batch in np.array_split(np.arange(graph.n_nodes), BATCHES):
            known = graph.halo.extend(part)
            counts = _neighbors_in_parts(graph.adjacency[batch], known, n_parts)
            free = np.maximum(1.0 - sizes / capacity, 0.0)
            chosen = np.argmax((counts + 1e-3 + 1e-6 * preference) * free, axis=1)
            moves = np.bincount(chosen, minlength=n_parts).astype(np.float64)
            before = part[batch]
            moves -= np.bincount(before[before >= 0], minlength=n_parts)
            part[batch] = chosen
            sizes = sizes + workers.allreduce(moves)
    return part


def _neighbors_in_parts(rows: Any, part: NDArray[np.int64], n_parts: int) -> NDArray[np.float64]:
    """Weight of the neighbours of each row in each part."""
    row = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
    of_neighbor = part[rows.indices]
    known = of_neighbor >= 0
    slot = row[known] * n_parts + of_neighbor[known]
    sums = np.bincount(slot, np.abs(rows.data[known]), rows.shape[0] * n_parts)
    return sums.reshape(rows.shape[0], n_parts).astype(np.float64, copy=False)
