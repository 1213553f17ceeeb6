"""Interfaces between the boosting loop, model files and a library of weak learners."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from types import MappingProxyType
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator

from ebboost.data.table import Table
from ebboost.data.types import Array, IntArray
from ebboost.propagation import allowed_threads

FEW_ROWS = 200  # predicted sooner by one thread than by several


@dataclass(frozen=True)
class Pickled:
    """Part of a grower's state that checkpoints write only if pickle is allowed."""

    content: object


#: Parameters of the estimator, and the names of libraries for what they set.
OF_THE_ESTIMATOR = {
    "loss": ("objective", "objective_type", "application", "app", "loss", "loss_function"),
    "eval_metric": ("metric", "metrics", "metric_types", "eval_metric"),
    "learning_rate": ("learning_rate", "shrinkage_rate", "eta"),
    "n_estimators": (
        *("num_iterations", "num_iteration", "n_iter", "num_tree", "num_trees", "num_round"),
        *("num_rounds", "nrounds", "num_boost_round", "n_estimators", "max_iter", "iterations"),
    ),
    "n_iter_no_change": (
        *("early_stopping_round", "early_stopping_rounds", "early_stopping", "n_iter_no_change"),
        *("od_wait", "od_type"),
    ),
}


class Learner(BaseEstimator, ABC):
    """Parameters of a weak learner; subclass it to boost with a library of your own.

    A subclass stores its parameters in ``__init__``, as scikit-learn estimators do, sets ``name``
    and implements :meth:`start` and :meth:`load`.

    Attributes
    ----------
    name : str
        Name by which model files and messages refer to the learner.
    devices : tuple of str
        Devices on which it grows trees.
    takes_categories : bool
        Whether it splits on category codes; otherwise categorical columns are target-encoded.
    takes_blocks : bool
        Whether it bins a table that is read from files block by block.
    same_from_blocks : bool
        Whether bins found from blocks equal those found from the table in memory.
    is_concurrent : bool
        Whether threads may grow trees on the same bins at once.
    unsupported : dict
        Values of library parameters under which a model is not a weighted sum of trees.
    """

    name: str
    devices: tuple[str, ...] = ("cpu",)
    takes_categories = True
    takes_blocks = False
    same_from_blocks = False
    is_concurrent = False
    unsupported: ClassVar[Mapping[str, Sequence[object]]] = {}
    params: dict[str, Any] | None = None

    @abstractmethod
    def start(
        self, table: Table, *, n_outputs: int, seed: int, n_jobs: int, device: str
    ) -> "TreeGrower":
        """Bin a table and return a grower without trees.

        Parameters
        ----------
        table : Table
        n_outputs : int
            Number of scores per node: 1 for regression, the number of classes otherwise.
        seed : int
        n_jobs : int
            Number of threads.
        device : {"cpu", "cuda"}

        Returns
        -------
        TreeGrower

        Raises
        ------
        ValueError
            If the learner does not support the device or one of its parameters.
        """

    @classmethod
    @abstractmethod
    def load(cls, files: dict[str, bytes]) -> "Ensemble":
        """Return the ensemble that :meth:`Ensemble.files` wrote.

        Parameters
        ----------
        files : dict of bytes
            All entries of the model file by name. They are not trusted: read nothing here that
            :meth:`Ensemble.check` has to check first.

        Returns
        -------
        Ensemble
        """

    def check(self, device: str) -> None:
        """Check that the device and ``params`` are supported.

        Parameters
        ----------
        device : {"cpu", "cuda"}

        Raises
        ------
        ValueError
            If the device or one of ``params`` is not supported.
        """
        check_device(device, self.devices, self.name)
        for key, value in (self.params or {}).items():
            for parameter, names in OF_THE_ESTIMATOR.items():
                if key in names:
                    text = f"learner={self.name!r}: params={{{key!r}: {value!r}}} is not supported"
                    raise ValueError(f"{text}: pass {parameter}= to the estimator.")
            if value in self.unsupported.get(key, ()):
                raise ValueError(
                    f"learner={self.name!r}: params={{{key!r}: {value!r}}} is not supported. Trees "
                    "must have one number in each leaf and stay unchanged once grown: remove it."
                )


class TreeGrower(ABC):
    """A binned table and the trees grown on it so far."""

    @abstractmethod
    def grow(self, gradient: Array, curvature: Array) -> Array | None:
        """Grow one tree per output and return its values at all nodes.

        Parameters
        ----------
        gradient : ndarray of shape (n, c)
        curvature : ndarray of shape (n, 1) or (n, c)
            The tree fits −gradient/curvature by least squares, each node weighted by its
            curvature; a constant curvature gives equation (11).

        Returns
        -------
        ndarray of shape (n, c) or None
            None if no split improves the fit; the round then has no weight in :meth:`compile`.
        """

    @abstractmethod
    def compile(self, weights: Sequence[float]) -> "Ensemble":
        """Return Σ_t weights[t] · tree_t as one model; trees beyond the weights are dropped.

        Parameters
        ----------
        weights : sequence of float
            One for each call of :meth:`grow` that returned values.
        """

    def clone_with_shared_bins(
        self, seed: int, changes: Mapping[str, object] = MappingProxyType({})
    ) -> "TreeGrower | None":
        """Return a grower without trees on the same binned table, or None if unsupported.

        ``changes`` are parameters of the library that differ, None for those to remove.
        """
        return None

    def on_rows(self, rows: IntArray) -> "TreeGrower | None":
        """Return a grower without trees on some rows of the same bins, or None if unsupported.

        Gradients and values of its trees are those of ``rows``, sorted positions. It clones into
        growers on all rows.
        """
        return None

    def state(self) -> dict[str, Any]:
        """Return the content of a checkpoint: numbers, text, bytes, arrays or :class:`Pickled`.

        A grower with the same table, parameters and seed continues from it, after
        :meth:`restore`, bit for bit as this one would.
        """
        raise ValueError(f"checkpoint: {type(self).__name__} has no state(); fit without one.")

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from what :meth:`state` returned; called before any :meth:`grow`."""
        raise ValueError(f"checkpoint: {type(self).__name__} has no restore(); fit without one.")


class PartialGrower(TreeGrower):
    """Trees whose values are computed at the rows needed in training, and are 0 at all others.

    Parameters
    ----------
    own : TreeGrower
        On these rows, from :meth:`TreeGrower.on_rows`.
    rows : ndarray of int
        Positions of the rows, sorted.
    """

    def __init__(self, own: TreeGrower, rows: IntArray) -> None:
        self._own = own
        self._rows = rows

    @classmethod
    def of(cls, grower: TreeGrower, rows: IntArray) -> TreeGrower:
        """Return a grower of such trees, or ``grower`` itself if it does not support rows."""
        own = grower.on_rows(rows)
        return grower if own is None else cls(own, rows)

    def grow(self, gradient: Array, curvature: Array) -> Array | None:
        """Grow on the rows; see :meth:`TreeGrower.grow`."""
        values = self._own.grow(gradient[self._rows], curvature[self._rows])
        if values is None:
            return None
        tree = np.zeros_like(gradient)
        tree[self._rows] = values
        return tree

    def mark_missing(self, scores: Array) -> Array:
        """Return scores of all rows with NaN at those that were not computed."""
        known = np.full_like(scores, np.nan)
        known[self._rows] = scores[self._rows]
        return known

    def compile(self, weights: Sequence[float]) -> "Ensemble":
        """Return the weighted sum; see :meth:`TreeGrower.compile`."""
        return self._own.compile(weights)

    def clone_with_shared_bins(
        self, seed: int, changes: Mapping[str, object] = MappingProxyType({})
    ) -> TreeGrower | None:
        """Return a grower on all rows; see :meth:`TreeGrower.clone_with_shared_bins`."""
        return self._own.clone_with_shared_bins(seed, changes)

    def state(self) -> dict[str, Any]:
        """Return the content of a checkpoint; see :meth:`TreeGrower.state`."""
        return self._own.state()

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a checkpoint; see :meth:`TreeGrower.restore`."""
        self._own.restore(state)


class BoosterGrower(TreeGrower):
    """A grower around a booster in training, which another one may share its bins with."""

    _params: Mapping[str, Any]

    @abstractmethod
    def _start(self) -> None:
        """Begin a booster without trees."""

    def clone_with_shared_bins(
        self, seed: int, changes: Mapping[str, object] = MappingProxyType({})
    ) -> Self:
        """Return a new booster on the same bins, which take as long to find as many trees."""
        other = copy(self)
        params = {**self._params, **changes, "seed": seed}
        other._params = {name: value for name, value in params.items() if value is not None}
        other._start()
        return other


class Ensemble(ABC):
    """A trained sum of weak learners."""

    def __getstate__(self) -> dict[str, Any]:
        kinds = {name: getattr(type(self), name, None) for name in vars(self)}
        cached = {name for name, kind in kinds.items() if isinstance(kind, cached_property)}
        return {name: value for name, value in vars(self).items() if name not in cached}

    @abstractmethod
    def predict(self, table: Table) -> Array:
        """Return scores f(X), an array of shape (n, c)."""

    @abstractmethod
    def importances(self) -> Array:
        """Return the importance of each column of the table, not normalised."""

    @abstractmethod
    def files(self) -> dict[str, bytes]:
        """Return the model in the library's own text format, by file name."""

    def contributions(self, table: Table) -> Array | None:
        """Return TreeSHAP values of shape (n, c, d + 1), the mean last; None if unsupported."""
        return None

    @property
    def booster(self) -> Any:
        """The model of LightGBM or XGBoost that holds all trees."""
        raise AttributeError(
            "This model has no booster: its functions are not the trees of one model of LightGBM "
            "or XGBoost. Use explain(nodes), or fit with selection='rules' and learner='lightgbm'."
        )

    def check(  # noqa: B027
        self, n_columns: int, n_outputs: int, categories: Mapping[int, int]
    ) -> None:
        """Raise ``ValueError`` if trees from a file are malformed or made for another table.

        Called once after :meth:`Learner.load`, before any other method.

        Parameters
        ----------
        n_columns : int
            Columns of the table that the trees split.
        n_outputs : int
        categories : dict
            Number of categories of each column of category codes.
        """


def as_matrix(table: Table) -> Any:
    """The values as tree libraries accept them: scipy sparse matrices, not sparse arrays."""
    return sparse.csr_matrix(table.values) if table.is_sparse else table.values


def newton_target(gradient: Array, curvature: Array) -> tuple[Array, Array]:
    """Targets −gradient/curvature and weights for learners that fit labels.

    Both are 0 where the curvature is negligible.
    """
    is_used = curvature > 1e-12 * curvature.max()
    target = np.divide(-gradient, curvature, out=np.zeros_like(gradient), where=is_used)
    return target, np.where(is_used, curvature, 0.0)


def import_library(name: str, option: str, packages: str) -> Any:
    """Import an optional library or name the packages that an option needs."""
    try:
        return import_module(name)
    except ImportError:
        raise ImportError(f"{option} needs {name}: pip install {packages}") from None


def check_device(device: str, supported: tuple[str, ...], name: str) -> None:
    """Raise ``ValueError`` for a device that a learner does not support."""
    if device not in supported:
        raise ValueError(
            f"device={device!r} is not available with learner={name!r}, which runs on "
            f"{', '.join(supported)}: pass learner='xgboost' (pip install cupy-cuda12x xgboost), "
            "or device='cpu'."
        )


def threads_to_predict(table: Table) -> int:
    """Return with how many of the allowed threads the rows of a table are predicted."""
    return 1 if table.n_rows <= FEW_ROWS else allowed_threads()
