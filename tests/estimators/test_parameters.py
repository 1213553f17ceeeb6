"""Constructor parameters are checked at fit: the message has the name and the value."""

import numpy as np
import pytest

import ebboost as eb

X = np.arange(24.0).reshape(12, 2)
Y = np.arange(12.0)
GRAPH = eb.Graph.from_edges(np.arange(11), np.arange(1, 12))


@pytest.mark.parametrize("kind", [eb.EBBSRegressor, eb.EBBSClassifier])
@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("n_estimators", [0, -1, 2.5, "many", None]),
        ("learning_rate", [0.0, -0.1, 1.5, np.nan, np.inf, "fast"]),
        ("penalty", [-1e-9, np.nan, 1e31, "much"]),
        ("validation_fraction", [0.0, 1.0, -0.5, None]),
        ("n_iter_no_change", [0, 1.5, "long"]),
        ("momentum", ["yes", 1, None, 0.2]),
        ("early_stopping", ["yes", 0, None]),
        ("relations", [3, "all"]),
        ("device", ["gpu", None]),
        ("n_jobs", [0, -2, 1.5, "all"]),
        ("learner", ["adaboost", 3, None]),
        ("loss", ["hinge", 3]),
        ("random_state", ["lucky"]),
        ("categorical_features", ["some", None, ["u"]]),
        ("smoothing", ["smooth", 2.0]),
        ("feature_smoothing", ["smooth", 2.0]),
    ],
)
def test_invalid_parameters_raise_an_error_with_name_and_value(kind, name, values):
    y = Y if kind is eb.EBBSRegressor else np.where(Y > 5, "a", "b")
    for value in values:
        with pytest.raises(ValueError) as caught:
            kind(**{"n_estimators": 2, "n_jobs": 1} | {name: value}).fit(X, y, graph=GRAPH)
        message = str(caught.value)
        assert name in message
        assert repr(value[0] if isinstance(value, list) else value) in message
