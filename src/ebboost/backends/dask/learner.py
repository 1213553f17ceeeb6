"""XGBoost trees grown by all workers together."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebboost.backends.dask.collectives import Collective
from ebboost.backends.dask.sharding import Rows, Shard
from ebboost.data.table import Table
from ebboost.learners import Ensemble, Learner, TreeGrower, XGBoost

Array = NDArray[np.float64]


class DistributedXGBoost(Learner):
    """XGBoost's trees, grown jointly by all workers; its collective sums the histograms."""

    name = "xgboost"

    def __init__(self, learner: Learner, collective: Collective) -> None:
        self.learner = learner
        self.collective = collective

    def start(
        self, table: Table, *, n_outputs: int, seed: int, n_jobs: int, device: str
    ) -> "DistributedGrower":
        """Bin this worker's rows; the bins are the same in all workers."""
        assert isinstance(table, Shard)
        options: dict[str, Any] = {"seed": seed, "n_jobs": n_jobs, "device": device}
        grower = self.learner.start(table.local, n_outputs=n_outputs, **options)
        return DistributedGrower(grower, table.rows, self.collective, n_outputs)

    @classmethod
    def load(cls, files: dict[str, bytes]) -> Ensemble:
        """Read the trees, which are XGBoost's as any."""
        return XGBoost.load(files)


class DistributedGrower(TreeGrower):
    """Grows trees on this worker's rows and gathers their values on all nodes."""

    def __init__(
        self, grower: TreeGrower, rows: Rows, collective: Collective, n_outputs: int
    ) -> None:
        self._grower = grower
        self._rows = rows
        self._collective = collective
        self._n_outputs = n_outputs

    def grow(self, gradient: Array, curvature: Array) -> Array | None:
        """Grow one tree per output; leaves are float32 numbers, and are sent as such."""
        own = self._grower.grow(self._rows.select(gradient), self._rows.select(curvature))
        if own is None:
            own = np.zeros((self._rows.count, self._n_outputs))
        single = self._collective.allreduce(self._rows.expand(own.astype(np.float32)))
        return single.astype(np.float64) if single.any() else None

    def free(self) -> None:
        """Drop what this worker has grown."""
        self._grower.free()

    def compile(self, weights: Sequence[float]) -> Ensemble:
        """Every worker holds the same trees."""
        return self._grower.compile(weights)

    def state(self) -> dict[str, Any]:
        """Return the trees: those of one worker are those of all."""
        return self._grower.state()

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from them, in every worker."""
        self._grower.restore(state)
