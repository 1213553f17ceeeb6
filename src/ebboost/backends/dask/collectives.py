"""Collective communication between the workers of a fit, by ``xgboost.collective``."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebboost.boosting.iterate import Iterate

#: Entries for each worker and call. Larger messages fill the sockets' buffers: up to 15 times
#: slower between four workers on one machine.
CHUNK = 500_000


class Collective:
    """The workers of a fit; made inside XGBoost's ``CommunicatorContext``."""

    def __init__(self) -> None:
        from xgboost import collective

        self._collective: Any = collective
        self.rank = int(collective.get_rank())
        self.count = int(collective.get_world_size())
        #: Bytes sent so far, and calls.
        self.sent = 0
        self.calls = 0

    def allreduce(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the sum over all workers, the same bits in each.

        Where the other workers have 0 this is an allgather. The ring sends 2 − 1/w times the bytes
        of the array from each of w workers.
        """
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

    def from_rank0(self, number: float) -> float:
        """Return the first worker's number; other processors may round differently."""
        return float(self.allreduce(np.array([number if self.rank == 0 else 0.0]))[0])

    def allgather_objects(self, value: Any) -> list[Any]:
        """Return the objects of all workers, by rank."""
        # The collective takes no None.
        return [self._collective.broadcast([value], rank)[0] for rank in range(self.count)]


class Rank0Objective:
    """An objective whose losses are the first worker's.

    Every decision of the loop compares losses. On processors of two kinds a last bit could make one
    worker stop and leave the others waiting for it.
    """

    def __init__(self, objective: Any, collective: Collective) -> None:
        self._objective = objective
        self._collective = collective

    def __getattr__(self, name: str) -> Any:
        return getattr(self._objective, name)

    def value(self, point: Iterate) -> float:
        """Return the first worker's training loss."""
        from_rank0 = self._collective.from_rank0
        return point.cached("agreed", lambda: from_rank0(self._objective.value(point)))

    def validation_value(self, point: Iterate) -> float | None:
        """Return the first worker's validation loss."""
        own = self._objective.validation_value(point)
        return None if own is None else self._collective.from_rank0(own)
