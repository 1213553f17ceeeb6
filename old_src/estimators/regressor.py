"""The regressor."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from sklearn.base import RegressorMixin

from ebboost.boosting.masked_labels import MaskedLabels
from ebboost.estimators._parameters import LOSSES, fill_docstring
from ebboost.estimators.base import BaseEBBS
from ebboost.learners import CatBoost
from ebboost.model.output import Output
from ebboost.propagation import Laplacian


@fill_docstring(loss=LOSSES, extra="")
@dataclass(eq=False, repr=False)
class EBBSRegressor(RegressorMixin, BaseEBBS):
    """Gradient boosting through a graph, for numbers.

    Parameters
    ----------
    %(parameters)s

    Attributes
    ----------
    state_ : FittedState
        Everything that the fit has learned; the other attributes are documented properties of it.

    Examples
    --------
    >>> import ebboost as eb, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 3))
    >>> g = eb.Graph.build_knn(X[:, :1], k=5)
    >>> y = X[:, 0] + 0.1 * rng.normal(size=300)
    >>> y[100:] = np.nan  # known for a third of the nodes
    >>> m = eb.EBBSRegressor(n_estimators=50, random_state=0).fit(X, y, graph=g)
    >>> m.predict().shape
    (300,)
    >>> bool(m.score(None, X[:, 0], nodes=np.arange(100, 300)) > 0.8)
    True
    """

    _output_type = Output
    _paper_parameters: ClassVar[Mapping[str, Any]] = {
        "learning_rate": 1.0,  # the published rate is CatBoost's own
        "n_iter_no_change": 100,
        "smoothing": Laplacian(2.0, 5),
        "labels": MaskedLabels(from_zero=True),
        "neighbor_features": None,
        "feature_smoothing": Laplacian(20.0, 5),
        "spectral_features": None,
        "learner": CatBoost(6, shrinkage=0.2),
    }

    score = BaseEBBS.score  # that of the mixin takes no graph
