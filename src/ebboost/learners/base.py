"""Interfaces between the boosting loop, model files and a library of weak learners."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from importlib import import_module
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator

from ebboost._common import Array, IntArray
from ebboost.data.table import Table
from ebboost.threads import allowed_threads

FEW_ROWS = 200  # predicted sooner by one thread than by several
#: Parameters of the estimator, and the names of libraries for what they set.
OF_THE_ESTIMATOR = {
    "loss": ("objective", "objective_type", "application", "app", "loss", "loss_function"),
    "learning_rate": ("learning_rate", "shrinkage_rate", "eta"),
    "n_estimators": (
        *("num_iterations", "num_iteration", "n_iter", "num_tree", "num_trees", "num_round"),
        *("num_rounds", "nrounds", "num_boost_round", "n_estimators", "max_iter", "iterations"),
    ),
    "early_stopping": (
        *("early_stopping_round", "early_stopping_rounds", "early_stopping", "n_iter_no_change"),
        *("od_wait", "od_type", "metric", "metrics", "metric_types", "eval_metric"),
    ),
}


class Learner(BaseEstimator, ABC):
    """Parameters of a weak learner; subclass it to boost with a library of your own.

    A subclass stores its parameters in ``__init__``, as scikit-learn estimators do, sets ``name``
    and implements :meth:`bin` and :meth:`load`.

    Attributes
    ----------
    name : str
        Name by which model files and messages refer to the learner.
    devices : tuple of str
        Devices on which it grows trees.
    takes_categories : bool
        Whether it splits on category codes; otherwise they are numbers to it.
    is_concurrent : bool
        Whether threads may grow trees on the same bins at once.
    unsupported : dict
        Values of library parameters under which a model is not a weighted sum of trees.
    """

    name: str
    devices: tuple[str, ...] = ("cpu",)
    takes_categories = True
    is_concurrent = False
    unsupported: ClassVar[Mapping[str, Sequence[object]]] = {}
    params: dict[str, Any] | None = None

    @abstractmethod
    def bin(
        self, table: Table, rows: IntArray, *, n_outputs: int, n_jobs: int, device: str
    ) -> Binned:
        """Bin some rows of a table, once for the models of all folds.

        Parameters
        ----------
        table : Table
            All rows.
        rows : ndarray of int
            Those that are trained on or predicted in training.
        n_outputs : int
            Number of scores per row: 1 for regression, the number of classes otherwise.
        n_jobs : int
            Number of threads.
        device : {"cpu", "cuda"}

        Returns
        -------
        Binned

        Raises
        ------
        ValueError
            If the learner does not support the device or one of its parameters.
        """

    @classmethod
    @abstractmethod
    def load(cls, files: dict[str, bytes]) -> Ensemble:
        """Return the ensemble that :meth:`Ensemble.files` wrote.

        Parameters
        ----------
        files : dict of bytes
            They are not trusted: read nothing here that :meth:`Ensemble.check` has to check first.

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
        if device not in self.devices:
            raise ValueError(
                f"device={device!r} is not available with learner={self.name!r}, which runs on "
                f"{', '.join(self.devices)}: leave learner out, or pass device='cpu'."
            )
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


class Binned(ABC):
    """A binned table."""

    @abstractmethod
    def grower(self, seed: int) -> Grower:
        """Return a grower without trees."""


class Grower(ABC):
    """The trees of one model so far."""

    @abstractmethod
    def grow(self, gradient: Array, curvature: Array) -> Array | None:
        """Grow one tree per output and return its values at the rows that were binned.

        Parameters
        ----------
        gradient : ndarray of shape (n, c)
        curvature : ndarray of shape (n, 1) or (n, c)
            The tree fits −gradient/curvature by least squares, each row weighted by its curvature;
            a constant curvature gives equation (11).

        Returns
        -------
        ndarray of shape (n, c) or None
            None if no split improves the fit; the round then has no weight in :meth:`compile`.
        """

    @abstractmethod
    def compile(self, weights: Sequence[float]) -> Ensemble:
        """Return Σ_t weights[t] · tree_t as one model; trees beyond the weights are dropped.

        Parameters
        ----------
        weights : sequence of float
            One for each call of :meth:`grow` that returned values.
        """


class Ensemble(ABC):
    """A trained sum of weak learners.

    Attributes
    ----------
    learner : str
        Name of the :class:`Learner` whose ``load`` reads what :meth:`files` returns.
    """

    learner: str

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
        """Return Shapley values of shape (n, c, d + 1), the mean last; None if unsupported."""
        return None

    @classmethod
    def mean(cls, ensembles: Sequence[Self]) -> Ensemble:
        """Return the mean of the models of all folds."""
        return ensembles[0] if len(ensembles) == 1 else MeanEnsemble(ensembles)

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


class MeanEnsemble(Ensemble):
    """The mean of ensembles on the same columns."""

    def __init__(self, ensembles: Sequence[Ensemble]) -> None:
        self.ensembles = list(ensembles)

    def predict(self, table: Table) -> Array:
        """Return the mean of the scores; see :meth:`Ensemble.predict`."""
        return np.mean([one.predict(table) for one in self.ensembles], axis=0)

    def importances(self) -> Array:
        """Return the mean of the importances; see :meth:`Ensemble.importances`."""
        return np.mean([one.importances() for one in self.ensembles], axis=0)

    def contributions(self, table: Table) -> Array | None:
        """Return the mean of the Shapley values; see :meth:`Ensemble.contributions`."""
        parts = [one.contributions(table) for one in self.ensembles]
        known = [part for part in parts if part is not None]
        return np.mean(known, axis=0) if len(known) == len(parts) else None

    def files(self) -> dict[str, bytes]:
        """Return the files of all ensembles, each with its number before the name."""
        return {
            f"{number}-{name}": content
            for number, one in enumerate(self.ensembles)
            for name, content in one.files().items()
        }

    def check(self, n_columns: int, n_outputs: int, categories: Mapping[int, int]) -> None:
        """Check each ensemble; see :meth:`Ensemble.check`."""
        for one in self.ensembles:
            one.check(n_columns, n_outputs, categories)


def as_matrix(table: Table) -> Any:
    """Return the values as tree libraries accept them: scipy sparse matrices, not sparse arrays."""
    return sparse.csr_matrix(table.values) if table.is_sparse else table.values


def newton_target(gradient: Array, curvature: Array) -> tuple[Array, Array]:
    """Return targets −gradient/curvature and weights, for learners that fit labels.

    Both are 0 where the curvature is negligible.
    """
    is_used = curvature > 1e-12 * curvature.max()
    target = np.where(is_used, -gradient / np.where(is_used, curvature, 1.0), 0.0)
    return target, np.where(is_used, curvature, 0.0)


def import_library(name: str, option: str, packages: str) -> Any:
    """Import an optional library or name the packages that an option needs."""
    try:
        return import_module(name)
    except ImportError:
        raise ImportError(f"{option} needs {name}: pip install {packages}") from None


def threads_to_predict(table: Table) -> int:
    """Return with how many of the allowed threads the rows of a table are predicted."""
    return 1 if table.n_rows <= FEW_ROWS else allowed_threads()
