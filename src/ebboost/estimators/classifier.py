"""The classifier."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin
from sklearn.utils._param_validation import StrOptions

from ebboost.data.types import Array, LabelledNodes, TableLike
from ebboost.estimators._parameters import CLASS_LOSSES, CLASS_WEIGHT, fill_docstring
from ebboost.estimators.base import BaseEBBS
from ebboost.graph import Graphs
from ebboost.learners import CatBoost
from ebboost.model.attach import Attachment
from ebboost.model.attributes import learned
from ebboost.model.output import ClassOutput, ClassWeight
from ebboost.model.predict import Offset, RowArguments, in_order, predict_rows
from ebboost.model.predict_shards import link_shards, raw_shards
from ebboost.propagation import Laplacian


@fill_docstring(loss=CLASS_LOSSES, extra=CLASS_WEIGHT)
@dataclass(eq=False, repr=False)
class EBBSClassifier(ClassifierMixin, BaseEBBS):
    """Gradient boosting through a graph, for classes.

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
    >>> X = np.arange(100.0)[:, None]
    >>> y = np.array(["low"] * 50 + ["high"] * 50, dtype=object)
    >>> y[::3] = None  # unknown
    >>> g = eb.Graph.build_knn(X, k=2)
    >>> m = eb.EBBSClassifier(n_estimators=20, random_state=0).fit(X, y, graph=g)
    >>> m.predict(nodes=[0, 99]).tolist()
    ['low', 'high']
    """

    _output_type = ClassOutput
    _paper_parameters: ClassVar[Mapping[str, Any]] = {
        "n_estimators": 200,
        "learning_rate": 1.0,
        "n_iter_no_change": 20,
        "smoothing": Laplacian(2.0, 5),
        "labels": "none",
        "neighbor_features": None,
        "feature_smoothing": None,
        "spectral_features": None,
        "learner": CatBoost(6),
    }
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **BaseEBBS._parameter_constraints,
        "class_weight": [Mapping, StrOptions({"balanced"}), None],
    }

    _: KW_ONLY
    class_weight: ClassWeight = None

    def predict_proba(
        self,
        X: TableLike = None,
        *,
        graph: Graphs | None = None,
        nodes: ArrayLike | None = None,
        new_labels: LabelledNodes | None = None,
        attach: Attachment | None = None,
        coordinates: ArrayLike | None = None,
        offset: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        time: ArrayLike | None = None,
    ) -> Array:
        """Return the probability of every class, in the order of ``classes_``.

        Parameters
        ----------
        X, graph, nodes, new_labels, attach, coordinates, offset, groups, time
            As in :meth:`predict`.

        Returns
        -------
        ndarray of shape (n, n_classes)

        Examples
        --------
        >>> import ebboost as eb, numpy as np
        >>> X = np.arange(100.0)[:, None]
        >>> model = eb.EBBSClassifier(20, random_state=0).fit(X, X[:, 0] > 50.0)
        >>> bool(np.allclose(model.predict_proba(X).sum(axis=1), 1.0))
        True
        """
        edges = (graph, nodes, new_labels, attach, coordinates)
        arguments = RowArguments(X, *edges, Offset(offset), groups, time)
        arguments = in_order(self.state_, arguments)
        shards = raw_shards(self.state_, arguments)
        if shards is not None:
            return link_shards(self.state_.output, shards)
        return self.state_.output.apply_link(predict_rows(self.state_, arguments).raw)

    score = BaseEBBS.score  # that of the mixin takes no graph
    classes_ = learned("classes", "The classes, sorted.")
    calibration_ = learned(
        "output.calibration", "Temperature, exponent and damping, see docs/classification.md."
    )
    calibration_error_ = learned(
        "calibration_error", "Expected calibration error on the validation nodes."
    )
