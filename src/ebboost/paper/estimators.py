"""Estimators of the paper, and the settings of its experiments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

from numpy.typing import ArrayLike
from sklearn.utils._param_validation import Interval, Options

from ebboost._common import TableLike
from ebboost.data.features import NeighborFeatures, SpectralFeatures
from ebboost.estimators import BaseEBBS, EBBSClassifier, EBBSRegressor
from ebboost.explain import Explanation
from ebboost.field import LatentField
from ebboost.model import Model
from ebboost.paper.catboost import CatBoost
from ebboost.paper.encoding import EncodedFeatures
from ebboost.paper.fit import fit
from ebboost.paper.masked import MaskedLabels, ShownLabels
from ebboost.paper.momentum import CorrectedMomentum
from ebboost.paper.robust import EdgeWeights, Robust
from ebboost.smoothing import Laplacian, Smoother

PARAMETERS = """Parameters
    ----------
    momentum : bool, "simple", "corrected" or CorrectedMomentum, default=False
        Nesterov's acceleration: with the tree of each round (True, ``"simple"``), or as in Theorem
        1 with a second tree in each round.
    penalty : float, default=0.0
        ε of Corollary 1: adds ½ε‖f‖² to the sum of the losses.
    smoothing : Smoother, "auto" or None, default="auto"
        Any smoother, :class:`Robust` too; ``"auto"``: ``eb.Laplacian(2.0, 5)``.
    labels : "none", "masked", "field", MaskedLabels or LatentField, default="none"
        ``"masked"``: error smoothing (15) as published, for numbers with squared error.
    learner : str or Learner, default="auto"
        With the learner's own defaults. :class:`CatBoost` is that of the paper.
    n_folds : 1
        One model. Where ``early_stopping`` is on, a tenth of the labels or ``eval_set`` ends it.
    **parameters
        All others are those of :class:`ebboost.EBBSRegressor` and :class:`ebboost.EBBSClassifier`;
        no columns are added by default."""


@dataclass(eq=False, repr=False)
class PaperEBBS(BaseEBBS):
    """What :class:`PaperRegressor` and :class:`PaperClassifier` share."""

    _fit: ClassVar[Callable[..., Model]] = staticmethod(fit)
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **EBBSClassifier._parameter_constraints,
        "learning_rate": [Interval(Real, 0, 1, closed="right")],
        "n_folds": [Options(Integral, {1})],
        "momentum": "no_validation",
        "penalty": [Interval(Real, 0, None, closed="left")],
    }

    n_estimators: int = 1000
    learning_rate: float = 0.1
    _: KW_ONLY
    n_folds: int | str = 1
    smoothing: Smoother | str | None = "auto"
    labels: LatentField | MaskedLabels | str = "none"
    neighbor_features: NeighborFeatures | str | None = None
    feature_smoothing: Smoother | str | None = None
    spectral_features: SpectralFeatures | str | None = None
    momentum: CorrectedMomentum | bool | str = False
    penalty: float = 0.0

    def edge_weights(self) -> EdgeWeights:
        """Return the weights that :class:`Robust` smoothing gave to the edges.

        Returns
        -------
        EdgeWeights
        """
        one, graph = self.model_.components[0], self.model_.graph
        if not isinstance(one.smoothing, Robust) or graph is None:
            raise ValueError(f"edge_weights needs smoothing=Robust(), has {one.smoothing!r}.")
        return one.smoothing.operator(graph).edge_weights(one.scores)

    def explanations(self, nodes: ArrayLike, X: TableLike = None) -> list[Explanation]:
        """Return explanations where P is linear; see :meth:`EBBSRegressor.explanations`."""
        one = self.model_.components[0]
        if isinstance(one.smoothing, (Robust, ShownLabels)):
            part = "smoothing=Robust()" if isinstance(one.smoothing, Robust) else "labels='masked'"
            raise ValueError(f"Scores with {part} are no sum of contributions of rows.")
        if isinstance(one.features, EncodedFeatures):
            raise ValueError("Rows are not explained where categories are encoded by labels.")
        return super().explanations(nodes, X)


@dataclass(eq=False, repr=False)
class PaperRegressor(PaperEBBS, EBBSRegressor):
    """Algorithm 1 of the paper for numbers: one model, whose parts are set.

    %(parameters)s

    Examples
    --------
    >>> import ebboost as eb, numpy as np
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> graph = eb.Graph.build_knn(X, k=4)
    >>> model = eb.paper.PaperRegressor(30, smoothing=eb.paper.Kernel(), momentum="corrected")
    >>> model.fit(X, X[:, 0], graph=graph).predict().shape
    (200,)
    """


@dataclass(eq=False, repr=False)
class PaperClassifier(PaperEBBS, EBBSClassifier):
    """Algorithm 1 of the paper for classes: one model, whose parts are set.

    %(parameters)s

    Examples
    --------
    >>> import ebboost as eb, numpy as np
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> graph = eb.Graph.build_knn(X, k=4)
    >>> model = eb.paper.PaperClassifier(30, smoothing=eb.paper.Robust(), random_state=0)
    >>> model.fit(X, X[:, 0] > 0, graph=graph).predict_proba().shape
    (200, 2)
    """


for _kind in (PaperRegressor, PaperClassifier):
    _kind.__doc__ = (_kind.__doc__ or "").replace("%(parameters)s", PARAMETERS)


def preset(cls: type[BaseEBBS], changes: Mapping[str, Any]) -> PaperEBBS:
    """Return an estimator with the settings of the published experiments.

    Regression: labels and errors are smoothed, 1 000 rounds, patience 100. Classes: 200 rounds,
    patience 20. The published learning rates are those of CatBoost.

    Parameters
    ----------
    cls : type
        EBBSRegressor or EBBSClassifier.
    changes : dict
        Parameters that differ.

    Returns
    -------
    PaperRegressor or PaperClassifier
    """
    parameters: dict[str, Any] = {"learning_rate": 1.0, "smoothing": Laplacian(2.0, 5)}
    if cls._classes:
        parameters |= {"n_estimators": 200, "early_stopping": 20, "learner": CatBoost(6)}
        return PaperClassifier(**(parameters | dict(changes)))
    parameters |= {"early_stopping": 100, "learner": CatBoost(6, shrinkage=0.2)}
    parameters |= {"labels": MaskedLabels(from_zero=True)}
    parameters |= {"feature_smoothing": Laplacian(20.0, 5)}
    return PaperRegressor(**(parameters | dict(changes)))
