"""Any scikit-learn regressor as a weak learner, or several of which each round draws one."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import get_tags
from sklearn.utils.validation import has_fit_parameter

from ebboost.data.table import Table
from ebboost.learners.base import (
    Array,
    Ensemble,
    Learner,
    Pickled,
    TreeGrower,
    as_matrix,
    newton_target,
)


class ScikitLearn(Learner):
    """Clones of scikit-learn regressors.

    Parameters
    ----------
    regressor : regressor or list of regressors
        From a list, one is drawn at random each round. Regressors with ``sample_weight`` are fitted
        to −gradient/curvature with the curvature as weight, others to the negative gradient of
        (11). Missing values are replaced by column means for regressors that do not accept them.

    Examples
    --------
    >>> import ebboost as eb
    >>> from sklearn.linear_model import Ridge
    >>> from sklearn.tree import ExtraTreeRegressor
    >>> learner = eb.ScikitLearn([Ridge(), ExtraTreeRegressor(max_depth=4)])
    """

    name = "scikit-learn"
    takes_categories = False

    def __init__(self, regressor: Any) -> None:
        self.regressor = regressor

    def start(
        self, table: Table, *, n_outputs: int, seed: int, n_jobs: int, device: str
    ) -> "ScikitLearnGrower":
        """Check the regressors; see :meth:`Learner.start`."""
        self.check(device)
        regressors = (
            self.regressor if isinstance(self.regressor, list | tuple) else [self.regressor]
        )
        if not regressors:
            raise ValueError("learner must have at least one regressor, got an empty list.")
        for position, regressor in enumerate(regressors):
            if not hasattr(regressor, "fit") or not hasattr(regressor, "predict"):
                raise TypeError(
                    f"learner[{position}] must be a scikit-learn regressor, got {regressor!r}."
                )
        return ScikitLearnGrower(table, regressors, n_outputs, np.random.default_rng(seed))

    @classmethod
    def load(cls, files: dict[str, bytes]) -> Ensemble:
        """Raise ``ValueError``: such models are not written."""
        raise ValueError("A model file cannot hold scikit-learn regressors.")


class ScikitLearnGrower(TreeGrower):
    """A table and the regressors fitted to it, one list of outputs per round."""

    def __init__(
        self, table: Table, regressors: Sequence[Any], n_outputs: int, random: np.random.Generator
    ) -> None:
        self._table = table
        self._column_means = _column_means(table)
        self._regressors = regressors
        self._random = random
        self._shape = (table.n_rows, n_outputs)
        self._rounds: list[list[Any]] = []

    def grow(self, gradient: Array, curvature: Array) -> Array | None:
        """Fit one regressor per output; see :meth:`TreeGrower.grow`."""
        if not gradient.any():
            return None
        curvature = np.broadcast_to(curvature, self._shape)
        template = self._regressors[int(self._random.integers(len(self._regressors)))]
        X = _impute(self._table, self._column_means, template)
        values = np.empty(self._shape)
        fitted = []
        for output in range(self._shape[1]):
            regressor = clone(template)
            if regressor.get_params().get("random_state", 0) is None:
                regressor.set_params(random_state=int(self._random.integers(2**31 - 1)))
            if has_fit_parameter(regressor, "sample_weight"):
                target, weight = newton_target(gradient[:, output], curvature[:, output])
                regressor.fit(X, target, sample_weight=weight)
            else:
                regressor.fit(X, -gradient[:, output])
            fitted.append(regressor)
            values[:, output] = np.asarray(regressor.predict(X)).ravel()
        self._rounds.append(fitted)
        return values

    def state(self) -> dict[str, Any]:
        """Return the regressors and the state of the random generator."""
        return {"rounds": Pickled(self._rounds), "random": self._random.bit_generator.state}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a checkpoint; see :meth:`TreeGrower.restore`."""
        self._rounds = state["rounds"]
        self._random.bit_generator.state = state["random"]

    def compile(self, weights: Sequence[float]) -> "ScikitLearnEnsemble":
        """Return the weighted sum of the regressors; see :meth:`TreeGrower.compile`."""
        pairs = zip(weights, self._rounds, strict=False)
        rounds = [(weight, fitted) for weight, fitted in pairs if weight != 0.0]
        n_columns = len(self._table.names)
        return ScikitLearnEnsemble(rounds, self._column_means, self._shape[1], n_columns)


@dataclass(eq=False)
class ScikitLearnEnsemble(Ensemble):
    """A weighted sum of regressors."""

    rounds: list[tuple[float, list[Any]]]
    column_means: Array
    n_outputs: int
    n_columns: int

    def predict(self, table: Table) -> Array:
        """Return scores; see :meth:`Ensemble.predict`."""
        scores = np.zeros((table.n_rows, self.n_outputs))
        for weight, fitted in self.rounds:
            for output, regressor in enumerate(fitted):
                X = _impute(table, self.column_means, regressor)
                scores[:, output] += weight * np.asarray(regressor.predict(X)).ravel()
        return scores

    def importances(self) -> Array:
        """Return the weighted sum of importances, or of absolute coefficients."""
        total = np.zeros(self.n_columns)
        for weight, fitted in self.rounds:
            for regressor in fitted:
                coefficients = getattr(regressor, "coef_", np.zeros(self.n_columns))
                importances = getattr(regressor, "feature_importances_", np.abs(coefficients))
                total += abs(weight) * np.asarray(importances).ravel()
        return total

    def files(self) -> dict[str, bytes]:
        """Raise ``ValueError``: scikit-learn has no format but pickle."""
        raise ValueError(
            "A model of scikit-learn regressors cannot be saved without pickle, which could run "
            "code when loaded. Use learner='lightgbm', 'xgboost' or 'catboost', or "
            "joblib.dump(model, path) if whoever loads it trusts you."
        )


def _column_means(table: Table) -> Array:
    """Means of the known values of each column; 0 if no value is missing."""
    values = table.values
    missing = np.isnan(values.data if table.is_sparse else values)
    if not missing.any():
        return np.zeros(len(table.names))
    if not table.is_sparse:
        n_known = np.maximum((~missing).sum(axis=0), 1)
        return np.asarray(np.where(missing, 0.0, values).sum(axis=0) / n_known)
    n_columns = values.shape[1]
    total = np.bincount(values.indices, np.where(missing, 0.0, values.data), n_columns)
    n_missing = np.bincount(values.indices[missing], minlength=n_columns)
    return np.asarray(total / np.maximum(table.n_rows - n_missing, 1))


def _impute(table: Table, means: Array, regressor: Any) -> Any:
    """The values of a table, missing ones replaced if the regressor does not accept them."""
    if table.is_sparse:  # trees of scikit-learn take 32-bit indices and no missing sparse values
        values = as_matrix(table)
        values.indices = values.indices.astype(np.int32)
        values.indptr = values.indptr.astype(np.int32)
        missing = np.isnan(values.data)
        if missing.any():
            values.data = np.where(missing, means[values.indices], values.data)
        return values
    missing = np.isnan(table.values)
    if get_tags(regressor).input_tags.allow_nan or not missing.any():
        return table.values
    return np.where(missing, means, table.values)
