"""Any scikit-learn regressor as a weak learner."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import clone, is_regressor
from sklearn.utils.validation import has_fit_parameter

from ebboost._common import Array, IntArray
from ebboost.data.table import Table
from ebboost.learners.base import Binned, Ensemble, Grower, Learner, as_matrix, newton_target


class ScikitLearn(Learner):
    """Clones of a scikit-learn regressor. Such a model cannot be saved.

    Missing values are replaced by column means. Categories are numbers to it.

    Parameters
    ----------
    regressor : regressor
        One that takes weights is fitted to −gradient/curvature with the curvature as weight,
        another to the negative gradient.

    Examples
    --------
    >>> import ebboost as eb
    >>> from sklearn.tree import ExtraTreeRegressor
    >>> model = eb.EBBSRegressor(learner=eb.ScikitLearn(ExtraTreeRegressor(max_depth=4)))
    """

    name = "scikit-learn"
    takes_categories = False

    def __init__(self, regressor: Any) -> None:
        self.regressor = regressor

    def bin(
        self, table: Table, rows: IntArray, *, n_outputs: int, n_jobs: int, device: str
    ) -> Binned:
        """Learn what missing values are replaced by; see :meth:`Learner.bin`."""
        self.check(device)
        if isinstance(self.regressor, type) or not is_regressor(self.regressor):
            raise TypeError(f"regressor must be one such as Ridge(), got {self.regressor!r}.")
        from sklearn.impute import SimpleImputer  # slow to import

        imputer = SimpleImputer(keep_empty_features=True).fit(as_matrix(table))
        empty = ScikitLearnEnsemble([], imputer, len(table.names), n_outputs)
        table = table.subset(rows) if rows.size < table.n_rows else table
        return ScikitLearnGrower(self.regressor, imputer.transform(as_matrix(table)), empty)

    @classmethod
    def load(cls, files: dict[str, bytes]) -> Ensemble:
        """Raise ``ValueError``: such models are not written."""
        raise ValueError("A model file cannot hold scikit-learn regressors.")


@dataclass(eq=False)
class ScikitLearnEnsemble(Ensemble):
    """Rounds of a weight and a regressor for each output."""

    learner = "ScikitLearn"
    rounds: list[tuple[float, list[Any]]]
    imputer: Any
    n_columns: int
    n_outputs: int

    def predict(self, table: Table) -> Array:
        """Return scores; see :meth:`Ensemble.predict`."""
        values = self.imputer.transform(as_matrix(table))
        zero = np.zeros((table.n_rows, self.n_outputs))
        return sum((weight * _predict(fitted, values) for weight, fitted in self.rounds), zero)

    def importances(self) -> Array:
        """Return the weighted sum of importances, or of absolute coefficients."""
        total = np.zeros(self.n_columns)
        for weight, one in ((weight, one) for weight, fitted in self.rounds for one in fitted):
            own = getattr(one, "feature_importances_", getattr(one, "coef_", 0.0))
            total += np.abs(weight * np.ravel(own))
        return total

    def files(self) -> dict[str, bytes]:
        """Raise ``ValueError``: scikit-learn has no format but pickle."""
        raise ValueError(
            "A model of scikit-learn regressors can only be saved as a pickle, which may run code "
            "when it is read: joblib.dump(model, path). Or use learner='lightgbm' or 'xgboost'."
        )


@dataclass(eq=False)
class ScikitLearnGrower(Binned, Grower):
    """Values without gaps, and the regressors fitted to them so far."""

    regressor: Any
    values: Any
    grown: ScikitLearnEnsemble
    random: Any = None

    def grower(self, seed: int) -> Grower:
        """Return a grower without regressors; see :meth:`Binned.grower`."""
        return replace(
            self, grown=replace(self.grown, rounds=[]), random=np.random.default_rng(seed)
        )

    def grow(self, gradient: Array, curvature: Array) -> Array | None:
        """Fit a regressor for each output; see :meth:`Grower.grow`."""
        if not gradient.any():
            return None
        fitted = []
        for own, weight in zip(
            gradient.T, np.broadcast_to(curvature, gradient.shape).T, strict=True
        ):
            one = clone(self.regressor)
            for name, value in one.get_params().items():
                if name.endswith("random_state") and value is None:
                    one.set_params(**{name: int(self.random.integers(2**31 - 1))})
            target, weight = newton_target(own, weight)
            if has_fit_parameter(one, "sample_weight"):
                fitted.append(one.fit(self.values, target, sample_weight=weight))
            else:
                fitted.append(one.fit(self.values, -own))
        self.grown.rounds.append((1.0, fitted))
        return _predict(fitted, self.values)

    def compile(self, weights: Sequence[float]) -> Ensemble:
        """Return the weighted sum of the regressors; see :meth:`Grower.compile`."""
        pairs = zip(weights, self.grown.rounds, strict=False)
        return replace(self.grown, rounds=[(weight, fitted) for weight, (_, fitted) in pairs])


def _predict(fitted: Sequence[Any], values: Any) -> Array:
    return np.column_stack([np.ravel(one.predict(values)) for one in fitted])
