"""The scikit-learn interface: parameters, their documentation, and the meaning of y.

Everything that a fit learns is one :class:`~ebboost.model.state.FittedState`.
"""

import os
from collections.abc import Iterable
from typing import Any

from ebboost.estimators.base import BaseEBBS
from ebboost.estimators.classifier import EBBSClassifier
from ebboost.estimators.regressor import EBBSRegressor
from ebboost.model import serialization

__all__ = ["EBBSClassifier", "EBBSRegressor", "load"]


def load(path: str | os.PathLike[str], classes: Iterable[type] = ()) -> Any:
    """Read a model that :meth:`EBBSRegressor.save` wrote.

    Nothing in a file is run, and everything is checked: a file is rejected, or it predicts.

    Parameters
    ----------
    path : path
    classes : iterable of types, optional
        Your own :class:`Loss`, :class:`Smoother`, :class:`Learner` or estimator classes, if the
        model was fitted with one. They are called with the parameters in the file.

    Returns
    -------
    EBBSRegressor or EBBSClassifier

    Raises
    ------
    ModelFileError
        If the file is not a model file, is damaged, comes from a newer version, or its parts do not
        fit each other.
    """
    classes = tuple(classes) if isinstance(classes, Iterable) else (classes,)
    for kind in classes:
        if not isinstance(kind, type):
            raise TypeError(f"classes must be a list of classes, got {kind!r}.")
    estimators: dict[str, type[BaseEBBS]] = {
        "EBBSRegressor": EBBSRegressor,
        "EBBSClassifier": EBBSClassifier,
    }
    estimators |= {kind.__name__: kind for kind in classes if issubclass(kind, BaseEBBS)}
    state = serialization.load_state(path, classes, estimators)
    return estimators[state.estimator].from_state(state)
