"""Explanations in the format of SHAP, whose plots take them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ebboost._common import TableLike
from ebboost.inspection.diagnostics import fitted_model, fitted_table


def shap_values(model: Any, nodes: ArrayLike, X: TableLike = None) -> Any:
    """Return exact contributions of fitted rows as a ``shap.Explanation``, for the plots of SHAP.

    Contributions are those of :meth:`EBBSRegressor.explain`: of the columns of X and of neighbours,
    and, each as one column, of other rows through the propagation, of known labels through the
    latent field, of several groups, and of the offset. With the base value they add up to the
    score. Needs shap.

    Parameters
    ----------
    model : EBBSRegressor or EBBSClassifier
        Fitted.
    nodes : array-like
        Rows to explain.
    X : table, optional
        The table fitted on; needed if the model was saved without it.

    Returns
    -------
    shap.Explanation
        For each row and column; of classes for the score of the class that is predicted.
    """
    try:
        from shap import Explanation
    except ImportError:
        raise ImportError("shap_values needs shap: pip install shap.") from None
    fitted = fitted_model(model)
    rows = model.explanations(nodes, X)
    names = list(dict.fromkeys([*fitted.reader.names, *(name for one in rows for name in one.own)]))
    values = np.array([[one.own.get(name, 0.0) for name in names] for one in rows])
    table = fitted_table(fitted, X)
    data = np.full(values.shape, np.nan)
    if table is not None:
        own = table.values[[one.node for one in rows]]
        data[:, : len(fitted.reader.names)] = own.toarray() if table.is_sparse else own
    more = {
        "columns of other rows": [sum(one.neighbors.values()) for one in rows],
        "labels of other rows": [sum(one.labels.values()) for one in rows],
        "groups": [sum(one.groups.values()) for one in rows],
        "offset": [one.offset for one in rows],
    }
    for name, sums in more.items():
        if any(sums):
            names.append(name)
            values = np.column_stack([values, sums])
            data = np.column_stack([data, np.full(len(rows), np.nan)])
    base = np.array([one.base for one in rows])
    return Explanation(values=values, base_values=base, data=data, feature_names=names)
