"""What the workers of one fit say to each other: XGBoost's collective, through which its trees speak too."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebboost.boosting.iterate import Iterate

# Entries for each worker that one call hands on. A ring of workers passes pieces of this size; larger ones fill the
# sockets' buffers, and on one machine took up to 15 times as long.
PIECE = 500_000


class Collective:
    """The workers that train one model together; made inside XGBoost's ``CommunicatorContext``."""

    def __init__(self) -> None:
        from xgboost import collective

        self._collective: Any = collective
        self.rank, self.count = int(collective.get_rank()), int(collective.get_world_size())
        #: Bytes handed to the collective so far, and in how many calls.
        self.sent, self.calls = 0, 0

    def total(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the sum over all workers, the same bits in each.

        Where only one of the workers has an entry and the others have 0 there, this is an all-gather. XGBoost's ring sends
        2 − 1/w times the bytes of the array from each of w workers; an all-gather of its own, which its Python package does
        not offer, would send half of that.
        """
        flat, sum_up = values.ravel(), self._collective.Op.SUM
        found, step = np.empty_like(flat), PIECE * self.count
        for start in range(0, max(flat.size, 1), step):
            found[start : start + step] = self._collective.allreduce(
                flat[start : start + step], sum_up
            )
            self.calls += 1
        self.sent += flat.nbytes
        return found.reshape(values.shape)

    def agreed(self, number: float) -> float:
        """Return the first worker's number: other processors may round otherwise, and then decide otherwise."""
        return float(self.total(np.array([number if self.rank == 0 else 0.0]))[0])

    def allgather_objects(self, value: Any) -> list[Any]:
        """Return what each worker brings, in their order."""
        # The collective takes no None.
        return [self._collective.broadcast([value], rank)[0] for rank in range(self.count)]

    def rank0_objective(self, objective: Any) -> Any:
        """Return the objective, with losses on which all workers agree."""
        return Agreed(objective, self)


class Agreed:
    """An objective whose losses are the first worker's.

    Every decision of the loop, how far to step, when to start anew or to stop, compares losses. All workers compute them,
    and on processors of one kind they get the same bits. Of two kinds, a last bit could make one worker stop and leave the
    others waiting for it.
    """

    def __init__(self, objective: Any, peers: Collective) -> None:
        self._objective, self._peers = objective, peers

    def __getattr__(self, name: str) -> Any:
        return getattr(self._objective, name)

    def value(self, point: Iterate) -> float:
        """Return the first worker's training loss."""
        return float(
            point.cached("agreed", lambda: self._peers.agreed(self._objective.value(point)))
        )

    def validation_value(self, point: Iterate) -> float | None:
        """Return the first worker's validation loss."""
        own = self._objective.validation_value(point)
        return None if own is None else self._peers.agreed(own)
