"""How workers talk to each other: sums, and arrays from one worker to another.

Trees are grown through XGBoost's own collective, which has no messages between two workers. Sums
of a few numbers and values of neighbours go through sockets that each worker has to each other: a
round with a field needs dozens of them, and they take .1 ms each.
"""

import pickle
import socket
import struct
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from threading import Thread
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebboost.sums import added_by

SILENCE_SECONDS = 300.0  # after which a worker counts as lost
BUFFERED = 1 << 15  # bytes that a socket takes without a receiver
HEADER = struct.Struct("<8s7q")  # type, number of dimensions, shape
AnyRows = NDArray[Any]


class Communicator(ABC):
    """The workers of a job; all of them call the same methods in the same order."""

    rank = 0  # the number of this worker
    size = 1  # how many there are
    n_threads = 1  # that this worker may use

    @abstractmethod
    def exchange(self, messages: Mapping[int, AnyRows], senders: Sequence[int]) -> list[AnyRows]:
        """Send arrays to some ranks; return those of the senders, in their order."""

    def alltoall(self, messages: Sequence[AnyRows]) -> list[AnyRows]:
        """Send an array to each worker, by rank; return those of all workers."""
        others = [rank for rank in range(self.size) if rank != self.rank]
        received = self.exchange({rank: messages[rank] for rank in others}, others)
        received.insert(self.rank, messages[self.rank])
        return received

    def allreduce(self, values: AnyRows) -> AnyRows:
        """Return the sum over all workers, the same bits in each."""
        parts = self.alltoall([values] * self.size)
        return np.sum(parts, axis=0, dtype=values.dtype)

    def gather(self, value: Any) -> list[Any]:
        """Return the objects of all workers, by rank."""
        content = np.frombuffer(pickle.dumps(value, protocol=5), dtype=np.uint8)
        parts = self.alltoall([content] * self.size)
        return [pickle.loads(part.tobytes()) for part in parts]

    def join(self, values: AnyRows) -> AnyRows:
        """Return the rows of all workers, rank after rank."""
        return np.concatenate(self.alltoall([values] * self.size))


class Alone(Communicator):
    """One worker, which has all rows."""

    def __init__(self, n_threads: int = 1) -> None:
        self.n_threads = n_threads

    def exchange(self, messages: Mapping[int, AnyRows], senders: Sequence[int]) -> list[AnyRows]:
        """Return nothing: there are no others."""
        return []


class Sockets(Communicator):
    """Workers with a connection to each other; made inside XGBoost's ``CommunicatorContext``.

    Messages are not encrypted. A connection begins with the secret of the job.
    """

    def __init__(self, rank: int, size: int, host: str, secret: bytes, n_threads: int) -> None:
        from xgboost import collective

        self.rank, self.size, self.n_threads = rank, size, n_threads
        self._sockets: dict[int, socket.socket] = {}
        self._sender = ThreadPoolExecutor(1, "ebboost-send")
        with socket.create_server((host, 0), backlog=size) as listener:
            listener.settimeout(SILENCE_SECONDS)
            own = list(listener.getsockname()[:2])
            addresses = [collective.broadcast(own, other) for other in range(size)]
            for other in range(rank):  # the one of higher rank opens the connection
                opened = socket.create_connection(tuple(addresses[other]), SILENCE_SECONDS)
                opened.sendall(secret + struct.pack("<q", rank))
                self._sockets[other] = opened
            while len(self._sockets) < size - 1:
                accepted = listener.accept()[0]
                accepted.settimeout(SILENCE_SECONDS)
                greeting = _read(accepted, len(secret) + 8).tobytes()
                if greeting.startswith(secret):
                    self._sockets[struct.unpack("<q", greeting[-8:])[0]] = accepted
        for one in self._sockets.values():
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def exchange(self, messages: Mapping[int, AnyRows], senders: Sequence[int]) -> list[AnyRows]:
        """Send and receive arrays, all at the same time; see :meth:`Communicator.exchange`."""
        is_large = any(array.nbytes > BUFFERED for array in messages.values())
        sending = self._sender.submit(self._send, messages) if is_large else None
        if sending is None:
            self._send(messages)
        received = [self._receive(rank) for rank in senders]
        if sending is not None:
            sending.result()
        return received

    def _send(self, messages: Mapping[int, AnyRows]) -> None:
        for rank, array in messages.items():
            content = np.ascontiguousarray(array)
            shape = (array.ndim, *array.shape, *(0,) * (6 - array.ndim))
            header = HEADER.pack(array.dtype.str.encode(), *shape)
            if content.nbytes <= BUFFERED:
                self._sockets[rank].sendall(header + content.tobytes())
            else:
                self._sockets[rank].sendall(header)
                self._sockets[rank].sendall(content.reshape(-1).view(np.uint8).data)

    def _receive(self, rank: int) -> AnyRows:
        kind, n_dimensions, *shape = HEADER.unpack(_read(self._sockets[rank], HEADER.size).data)
        dtype = np.dtype(kind.rstrip(b"\0").decode())
        lengths = shape[:n_dimensions]
        content = _read(self._sockets[rank], int(np.prod(lengths)) * dtype.itemsize)
        return content.view(dtype).reshape(lengths)

    def close(self) -> None:
        """Close the connections, at which the others notice that this worker has failed."""
        self._sender.shutdown(wait=False, cancel_futures=True)
        for one in self._sockets.values():
            one.close()


def _read(connection: socket.socket, n_bytes: int) -> NDArray[np.uint8]:
    content = np.empty(n_bytes, dtype=np.uint8)
    view = content.data
    while view:
        n_read = connection.recv_into(view)
        if not n_read:
            raise ConnectionError("another worker has closed its connection")
        view = view[n_read:]
    return content


@dataclass(frozen=True)
class Membership:
    """What a worker needs to find the others."""

    rank: int
    size: int
    tracker: Mapping[str, Any]  # arguments of XGBoost's collective
    secret: bytes = field(repr=False)

    @contextmanager
    def join(self, host: str, n_threads: int) -> Iterator[Communicator]:
        """Join the other workers: sums over rows are those of all within the block."""
        from xgboost.collective import CommunicatorContext

        # Ranks go by the order of these names.
        task = f"{self.rank:09d}"
        with CommunicatorContext(**self.tracker, dmlc_task_id=task, dmlc_retry=1):
            workers = Sockets(self.rank, self.size, host, self.secret, n_threads)
            try:
                with added_by(workers.allreduce):
                    yield workers
            finally:
                workers.close()


def start_tracker(size: int, host: str) -> dict[str, Any]:
    """Start XGBoost's tracker in this process, where workers find each other."""
    from xgboost.tracker import RabitTracker

    tracker = RabitTracker(size, host, sortby="task")
    tracker.start()

    def wait() -> None:
        with suppress(Exception):  # that a worker was lost is noticed elsewhere
            tracker.wait_for()

    Thread(target=wait, daemon=True).start()
    return tracker.worker_args()
