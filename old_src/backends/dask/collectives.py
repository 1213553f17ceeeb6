"""Communication between the workers of a fit.

Trees are grown through XGBoost's collective, which has no messages between two workers. Arrays of
neighbouring nodes, and sums of a few numbers, go through sockets between the workers, encrypted if
Dask's are. Dask's own calls from worker to worker take 2.7 ms for a small array on one machine,
XGBoost's sums 0.4 ms, these 0.1 ms, and a round with a field makes dozens.
"""

import socket
import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

AnyRows = NDArray[Any]
#: Entries for each worker and call. Larger messages fill the sockets' buffers: up to 15 times
#: slower between four workers on one machine.
CHUNK = 500_000
#: Seconds without a message after which a worker counts as lost.
SILENCE_SECONDS = 300.0
#: Bytes that a socket takes without a receiver.
BUFFERED = 1 << 15
HEADER = struct.Struct("<8s7q")  # type, number of dimensions, shape


class Collective(ABC):
    """The workers of a fit; all of them call the same methods in the same order."""

    rank: int
    count: int

    def __init__(self) -> None:
        #: Calls so far, and bytes of sums and of halos that this worker has sent.
        self.calls = 0
        self.sent = 0
        self.halo_sent = 0

    @abstractmethod
    def allreduce(self, values: AnyRows) -> AnyRows:
        """Return the sum over all workers, the same bits in each."""

    @abstractmethod
    def exchange(self, messages: Mapping[int, AnyRows], senders: Sequence[int]) -> list[AnyRows]:
        """Send an array to each of some ranks; return those of the senders, in their order."""

    @abstractmethod
    def allgather_objects(self, value: object) -> list[Any]:
        """Return the objects of all workers, by rank."""

    def allgather(self, values: AnyRows) -> list[AnyRows]:
        """Return the arrays of all workers, by rank; their lengths may differ."""
        return self.alltoall([values] * self.count)

    def alltoall(self, messages: Sequence[AnyRows]) -> list[AnyRows]:
        """Send an array to each worker, by rank; return those of all workers."""
        others = [rank for rank in range(self.count) if rank != self.rank]
        received = self.exchange({rank: messages[rank] for rank in others}, others)
        received.insert(self.rank, messages[self.rank])
        return received

    def from_rank0(self, number: float) -> float:
        """Return the first worker's number."""
        return float(self.allreduce(np.array([number if self.rank == 0 else 0.0]))[0])


class SingleProcess(Collective):
    """One process with all nodes: what is read or computed in shards is read or computed here."""

    rank = 0
    count = 1

    def allreduce(self, values: AnyRows) -> AnyRows:
        """Return the values."""
        return values

    def exchange(self, messages: Mapping[int, AnyRows], senders: Sequence[int]) -> list[AnyRows]:
        """Return nothing: there are no others."""
        return []

    def allgather_objects(self, value: object) -> list[Any]:
        """Return the object."""
        return [value]


class DaskCollective(Collective):
    """The workers of a fit on a Dask cluster; made inside XGBoost's ``CommunicatorContext``."""

    def __init__(self, fit: str) -> None:
        from distributed import get_worker
        from distributed.comm import get_address_host
        from xgboost import collective

        super().__init__()
        self._collective: Any = collective
        self.rank = int(collective.get_rank())
        self.count = int(collective.get_world_size())
        worker = get_worker()
        security = worker.security
        options = (security.get_connection_args("worker"), security.get_listen_args("worker"))
        #: Contexts of connections that this worker opens, and of those that it accepts.
        self._tls = [one.get("ssl_context") for one in options]
        listener = socket.create_server((get_address_host(worker.address), 0), backlog=self.count)
        listener.settimeout(SILENCE_SECONDS)
        with listener:
            addresses = self.allgather_objects(listener.getsockname()[:2])
            self.open(self._connect(fit.encode(), listener, addresses))

    def open(self, sockets: dict[int, Any]) -> None:
        """Use these connections, by rank."""
        self._sockets = sockets
        # A small message is read by one call of the system.
        self._readers = {rank: one.makefile("rb", BUFFERED) for rank, one in sockets.items()}
        self._sender = ThreadPoolExecutor(1, "ebboost-send")

    def _connect(
        self, fit: bytes, listener: socket.socket, addresses: Sequence[Any]
    ) -> dict[int, Any]:
        """A connection with each other worker; the one of higher rank opens it."""
        sockets: dict[int, Any] = {}
        for rank in range(self.rank):
            sockets[rank] = self._secure(socket.create_connection(addresses[rank]), False)
            sockets[rank].sendall(fit + struct.pack("<q", self.rank))
        while len(sockets) < self.count - 1:
            accepted = self._secure(listener.accept()[0], True)
            greeting = bytes(self._read(accepted.recv_into, len(fit) + 8))
            if greeting.startswith(fit):  # somebody else's connection otherwise
                sockets[struct.unpack("<q", greeting[-8:])[0]] = accepted
        return sockets

    def _secure(self, connection: socket.socket, is_accepted: bool) -> socket.socket:
        connection.settimeout(SILENCE_SECONDS)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        context = self._tls[is_accepted]
        if context is None:
            return connection
        return context.wrap_socket(connection, server_side=is_accepted)

    def allreduce(self, values: AnyRows) -> AnyRows:
        """Return the sum: of few numbers over the sockets, of many over XGBoost's ring."""
        if values.nbytes * self.count <= BUFFERED:
            self.sent += values.nbytes
            parts = self.alltoall([values] * self.count)
            return np.sum(parts, axis=0, dtype=values.dtype)
        flat = values.ravel()
        operation = self._collective.Op.SUM
        sums = np.empty_like(flat)
        step = CHUNK * self.count
        for start in range(0, max(flat.size, 1), step):
            chunk = flat[start : start + step]
            sums[start : start + step] = self._collective.allreduce(chunk, operation)
            self.calls += 1
        self.sent += flat.nbytes
        return sums.reshape(values.shape)

    def allgather_objects(self, value: object) -> list[Any]:
        """Return the objects of all workers, by rank."""
        # The collective takes no None.
        return [self._collective.broadcast([value], rank)[0] for rank in range(self.count)]

    def exchange(self, messages: Mapping[int, AnyRows], senders: Sequence[int]) -> list[AnyRows]:
        """Send and receive arrays, all at the same time."""
        self.calls += 1
        sending = None
        if any(array.nbytes > BUFFERED for array in messages.values()):
            sending = self._sender.submit(self._send, messages)
        else:
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
                self._sockets[rank].sendall(content.data.cast("B"))

    def _receive(self, rank: int) -> AnyRows:
        header = self._read(self._readers[rank].readinto, HEADER.size)
        kind, n_dimensions, *shape = HEADER.unpack(header.data)
        dtype = np.dtype(kind.rstrip(b"\0").decode())
        lengths = shape[:n_dimensions]
        n_bytes = int(np.prod(lengths)) * dtype.itemsize
        content = self._read(self._readers[rank].readinto, n_bytes)
        return content.view(dtype).reshape(lengths)

    def _read(self, read_into: Callable[..., int], n_bytes: int) -> NDArray[np.uint8]:
        content = np.empty(n_bytes, dtype=np.uint8)
        view = content.data
        while view:
            n_read = read_into(view)
            if not n_read:
                raise ConnectionError("a worker has closed its connection")
            view = view[n_read:]
        return content

    def close(self) -> None:
        """Close the connections."""
        self._sender.shutdown(wait=False, cancel_futures=True)
        for connection in (*self._readers.values(), *self._sockets.values()):
            connection.close()
