"""What the boosting loop, the estimators and the model file know of a tree library."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator

from ebboost.data.table import Table

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Pickled:
    """Something of a learner's state that has no plain format: a checkpoint keeps it only if it may pickle."""

    content: Any


class Learner(BaseEstimator, ABC):
    """A recipe for weak learners: parameters and nothing else."""

    #: Whether columns of category codes can be handed over as they are; otherwise they are target-encoded first.
    takes_categories = True
    #: Whether it bins a table that is read a block at a time.
    takes_blocks = False
    #: Whether it then finds the same bins: a table that is in memory is handed over in blocks only to such a learner.
    same_from_blocks = False
    #: The name under which the model file finds the class again.
    name: str
    #: Where it can grow trees.
    devices: tuple[str, ...] = ("cpu",)

    @abstractmethod
    def start(
        self, table: Table, *, n_outputs: int, seed: int, n_jobs: int, device: str
    ) -> "TreeGrower":
        """Bin the table and get ready to grow."""

    @classmethod
    @abstractmethod
    def load(cls, files: dict[str, bytes]) -> "Ensemble":
        """Read back what :meth:`Ensemble.files` wrote."""


class TreeGrower(ABC):
    """An ensemble under construction, holding the binned table."""

    @abstractmethod
    def grow(self, gradient: Array, curvature: Array) -> Array | None:
        """Grow one tree per output and return its values on all nodes, unscaled.

        None if there is no split left: no weight is then handed to :meth:`compile` for this round.

        Parameters
        ----------
        gradient : ndarray of shape (n, c)
        curvature : ndarray of shape (n, 1) or (n, c)
            The tree fits −gradient/curvature, each node weighted by its curvature: a constant curvature is (11).
        """

    def clone_with_shared_bins(self) -> "TreeGrower | None":
        """Return another ensemble that begins from nothing on the same bins; None if that saves nothing."""
        return None

    def free(self) -> None:  # noqa: B027
        """Drop what was grown, of which nothing will be asked any more, but for what :meth:`beside` shares."""

    @abstractmethod
    def compile(self, weights: Sequence[float]) -> "Ensemble":
        """Return Σ_t weights[t] · tree_t as one ordinary model; trees beyond the weights are dropped."""

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint must keep: plain values, text, bytes, arrays, or :class:`Pickled`.

        What is grown after :meth:`restore`, on the same table with the same seed, must be what would have been grown
        here, bit for bit.
        """
        raise ValueError(
            f"checkpoint: {type(self).__name__} has no state() that could be kept; fit without it."
        )

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from what :meth:`state` returned, on an ensemble that has grown nothing yet: needed where that is."""
        raise ValueError(
            f"checkpoint: {type(self).__name__} has no restore() that could go on from one."
        )


class Ensemble(ABC):
    """A finished sum of trees."""

    @abstractmethod
    def predict(self, table: Table) -> Array:
        """Scores f(X), shape (n, c)."""

    @abstractmethod
    def importances(self) -> Array:
        """How much each column of the table was used, not normalised."""

    def contributions(self, table: Table) -> Array | None:
        """TreeSHAP values, shape (n, c, d + 1), the last being the mean; None if the learner has none to give."""
        return None

    @abstractmethod
    def files(self) -> dict[str, bytes]:
        """The model in the library's own plain format."""

    def check(self, n_columns: int, n_outputs: int, categories: Mapping[int, int]) -> None:  # noqa: B027
        """Refuse trees from a file that are not sound, or not for this table, with a ``ValueError``.

        Called before anything is predicted with them. A learner whose library checks what it reads needs none.

        Parameters
        ----------
        n_columns, n_outputs : int
            Of the table that the trees see, and of their scores.
        categories : dict
            How many categories each column of codes has.
        """


def plain_values(table: Table) -> Any:
    """The table as the tree libraries know it: their sparse readers take scipy's matrices, not its arrays."""
    return sparse.csr_matrix(table.values) if table.is_sparse else table.values


def check_params(
    params: Mapping[str, Any] | None, refused: Mapping[str, Sequence[Any]], name: str
) -> None:
    """Refuse settings of a library under which its model is no sum of its trees, each times a number of its own."""
    for key, value in (params or {}).items():
        if value in refused.get(key, ()):
            raise ValueError(
                f"learner={name!r}: params={{{key!r}: {value!r}}} cannot be used here. The loop gives each tree a weight of "
                "its own, which needs one number in each leaf and trees that stay as they were grown: leave it out."
            )


def check_device(device: str, supported: tuple[str, ...], name: str) -> None:
    """Refuse a device that this learner cannot run on."""
    if device not in supported:
        remedy = "pass learner='xgboost' (pip install 'ebboost[cuda]'), or device='cpu'"
        raise ValueError(
            f"device={device!r} is not available with learner={name!r}, which runs on {', '.join(supported)}: {remedy}."
        )
