"""Workers as threads of one process, for tests without a cluster."""

import itertools
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from ebboost.backends.dask.collectives import Collective
from ebboost.backends.dask.sharding import Partition

SECONDS = 60.0


class ThreadCollective(Collective):
    """A worker that exchanges arrays with other threads through one list."""

    def __init__(self, rank, count, barrier, board):
        super().__init__()
        self.rank, self.count = rank, count
        self._barrier, self._board = barrier, board

    def allgather_objects(self, value):
        self._board[self.rank] = value
        self._barrier.wait(SECONDS)
        values = list(self._board)
        self._barrier.wait(SECONDS)
        return values

    def allreduce(self, values):
        return np.sum(self.allgather_objects(np.array(values)), axis=0, dtype=values.dtype)

    def exchange(self, messages, senders):
        messages = {rank: np.array(array) for rank, array in messages.items()}
        of_all = self.allgather_objects(messages)
        return [of_all[rank][self.rank] for rank in senders]


def in_threads(count, function):
    """Return what ``function(collective)`` returns in each of some workers."""
    barrier, board = threading.Barrier(count), [None] * count

    def work(rank):
        try:
            return function(ThreadCollective(rank, count, barrier, board))
        except BaseException:
            barrier.abort()
            raise

    with ThreadPoolExecutor(count) as pool:
        jobs = [pool.submit(work, rank) for rank in range(count)]
    errors = [job.exception() for job in jobs]
    for error in errors:
        if error is not None and not isinstance(error, threading.BrokenBarrierError):
            raise error
    return [job.result() for job in jobs]


def random_partition(n_nodes, count, seed, n_cuts=3):
    """Ranges of nodes, dealt to workers at random; every worker has nodes."""
    random = np.random.default_rng(seed)
    cuts = random.choice(np.arange(1, n_nodes), min(count + n_cuts, n_nodes) - 1, replace=False)
    ends = [0, *sorted(cuts.tolist()), n_nodes]
    blocks = list(itertools.pairwise(ends))
    ranks = [*range(count), *random.integers(0, count, len(blocks) - count).tolist()]
    random.shuffle(ranks)
    owned = [[] for _ in range(count)]
    for block, rank in zip(blocks, ranks, strict=True):
        owned[rank].append(block)
    return Partition(tuple(map(tuple, owned)))
