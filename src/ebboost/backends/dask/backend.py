"""The backend of one worker of a cluster."""

from ebboost.backends.cpu import Backend
from ebboost.backends.dask.collectives import Collective, Rank0Objective
from ebboost.backends.dask.learner import DistributedXGBoost
from ebboost.boosting.objective import Objective
from ebboost.learners import Learner


class WorkerBackend(Backend):
    """Trains on the CPU of a worker, trees and decisions shared with the others."""

    def __init__(self, collective: Collective) -> None:
        self._collective = collective

    def learner(self, learner: Learner) -> Learner:
        """Return the learner whose trees all workers grow together."""
        return DistributedXGBoost(learner, self._collective)

    def objective(self, objective: Objective) -> Objective:
        """Return the objective with the losses of the first worker, on which all workers decide."""
        return Rank0Objective(objective, self._collective)  # type: ignore[return-value]
