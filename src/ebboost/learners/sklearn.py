"""Any scikit-learn regressor as a weak learner, or a list of them of which one is drawn each round."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
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
    check_device,
    plain_values,
)


class ScikitLearn(Learner):
    """Weak learners made by cloning scikit-learn regressors.

    Parameters
    ----------
    regressor : regressor or list of regressors
        Of a list, one is drawn at random each round. Regressors that take ``sample_weight`` are fitted to
        −gradient/curvature with the curvature as weight; others to the plain residual of (11). Missing values are
        replaced by column means for regressors that do not take them.

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
        """Keep the table."""
        check_device(device, self.devices, self.name)
        drawn_from = (
            list(self.regressor) if isinstance(self.regressor, (list, tuple)) else [self.regressor]
        )
        if not drawn_from:
            raise ValueError("learner is an empty list: name at least one regressor.")
        for position, candidate in enumerate(drawn_from):
            if not hasattr(candidate, "fit") or not hasattr(candidate, "predict"):
                raise TypeError(
                    f"learner[{position}] must be a scikit-learn regressor, got {candidate!r}."
                )
        return ScikitLearnGrower(table, drawn_from, n_outputs, np.random.default_rng(seed))

    @classmethod
    def load(cls, files: dict[str, bytes]) -> Ensemble:
        """Never reached: such models are not written."""
        raise ValueError("A model file cannot hold scikit-learn regressors.")


class ScikitLearnGrower(TreeGrower):
    """The table and the regressors fitted so far, one list of outputs per round."""

    def __init__(
        self, table: Table, drawn_from: list[Any], n_outputs: int, random: np.random.Generator
    ) -> None:
        self._fill = _column_means(table)
        self._table, self._drawn_from, self._random = table, drawn_from, random
        self._shape = (table.n_rows, n_outputs)
        self._rounds: list[list[Any]] = []

    def grow(self, gradient: Array, curvature: Array) -> Array | None:
        """Fit one regressor per output."""
        if not gradient.any():
            return None
        curvature = np.broadcast_to(curvature, self._shape)
        template = self._drawn_from[self._random.integers(len(self._drawn_from))]
        fitted, values = [], np.empty(self._shape)
        X = _filled(self._table, self._fill, template)
        for output in range(self._shape[1]):
            regressor = clone(template)
            if (
                "random_state" in regressor.get_params()
                and regressor.get_params()["random_state"] is None
            ):
                regressor.set_params(random_state=int(self._random.integers(2**31 - 1)))
            residual, weight = -gradient[:, output], curvature[:, output]
            if has_fit_parameter(regressor, "sample_weight"):
                heard = weight > 1e-12 * weight.max()
                target = np.divide(residual, weight, out=np.zeros_like(residual), where=heard)
                regressor.fit(X, target, sample_weight=np.where(heard, weight, 0.0))
            else:
                regressor.fit(X, residual)
            fitted.append(regressor)
            values[:, output] = np.asarray(regressor.predict(X)).ravel()
        self._rounds.append(fitted)
        return values

    def state(self) -> dict[str, Any]:
        """Return the regressors and where chance stands."""
        return {"rounds": Pickled(self._rounds), "random": self._random.bit_generator.state}

    def restore(self, state: dict[str, Any]) -> None:
        """Take both up again."""
        self._rounds, self._random.bit_generator.state = state["rounds"], state["random"]

    def compile(self, weights: Sequence[float]) -> "ScikitLearnEnsemble":
        """Keep the regressors whose weight is not 0."""
        kept = [(w, fitted) for w, fitted in zip(weights, self._rounds, strict=False) if w != 0.0]
        return ScikitLearnEnsemble(kept, self._fill, self._shape[1], len(self._table.names))


class ScikitLearnEnsemble(Ensemble):
    """A weighted list of regressors."""

    def __init__(
        self,
        rounds: list[tuple[float, list[Any]]],
        fill: NDArray[np.float64] | None,
        n_outputs: int,
        n_columns: int,
    ) -> None:
        self.rounds = rounds
        self._fill, self._n_outputs, self._n_columns = fill, n_outputs, n_columns

    def predict(self, table: Table) -> Array:
        """Sum the regressors."""
        scores = np.zeros((table.n_rows, self._n_outputs))
        for weight, fitted in self.rounds:
            for output, regressor in enumerate(fitted):
                X = _filled(table, self._fill, regressor)
                scores[:, output] += weight * np.asarray(regressor.predict(X)).ravel()
        return scores

    def importances(self) -> Array:
        """Sum the regressors' own importances, or the sizes of their coefficients, times their weights."""
        total = np.zeros(self._n_columns)
        for weight, fitted in self.rounds:
            for regressor in fitted:
                own = getattr(regressor, "feature_importances_", None)
                if own is None:
                    own = np.abs(
                        np.asarray(getattr(regressor, "coef_", np.zeros(self._n_columns)))
                    ).ravel()
                total += abs(weight) * np.asarray(own)
        return total

    def files(self) -> dict[str, bytes]:
        """Refuse: scikit-learn has no format but pickle."""
        raise ValueError(
            "A model built from scikit-learn regressors cannot be saved without pickle, which could run code when "
            "loaded. Use learner='lightgbm', 'xgboost' or 'catboost', or joblib.dump(model, path) if whoever loads it "
            "trusts you."
        )


def _column_means(table: Table) -> NDArray[np.float64] | None:
    """Means of the known values of each column, if any value is missing."""
    values = table.values
    missing = np.isnan(values.data if table.is_sparse else values)
    if not missing.any():
        return None
    if table.is_sparse:
        column, width = values.indices, values.shape[1]
        total = np.bincount(column, np.where(missing, 0.0, values.data), width)
        return np.asarray(
            total / np.maximum(table.n_rows - np.bincount(column[missing], minlength=width), 1)
        )
    return np.where(missing, 0.0, values).sum(axis=0) / np.maximum((~missing).sum(axis=0), 1)


def _filled(table: Table, fill: NDArray[np.float64] | None, regressor: Any) -> Any:
    fill = np.zeros(len(table.names)) if fill is None else fill
    if (
        table.is_sparse
    ):  # trees of scikit-learn know only short indices, and no missing value among sparse ones
        values = plain_values(table)
        values.indices, values.indptr = (
            values.indices.astype(np.int32),
            values.indptr.astype(np.int32),
        )
        missing = np.isnan(values.data)
        if missing.any():
            values.data = np.where(missing, fill[values.indices], values.data)
        return values
    missing = np.isnan(table.values)
    if get_tags(regressor).input_tags.allow_nan or not missing.any():
        return table.values
    return np.where(missing, fill, table.values)
