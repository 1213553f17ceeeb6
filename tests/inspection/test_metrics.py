import numpy as np
import pytest
from sklearn import metrics as reference

from ebboost.inspection import metrics


def test_metrics_of_numbers_equal_those_of_scikit_learn():
    truth, prediction = np.random.default_rng(0).normal(size=(2, 50))
    residuals = truth - prediction
    assert metrics.rmse(residuals) == pytest.approx(
        reference.root_mean_squared_error(truth, prediction)
    )
    assert metrics.mae(residuals) == pytest.approx(reference.mean_absolute_error(truth, prediction))
    assert metrics.median_absolute_error(residuals) == pytest.approx(
        reference.median_absolute_error(truth, prediction)
    )
    assert metrics.r2(truth, prediction) == pytest.approx(reference.r2_score(truth, prediction))
    assert np.isnan(metrics.r2(np.ones(5), np.zeros(5)))


def test_metrics_of_classes_equal_those_of_scikit_learn():
    rng = np.random.default_rng(0)
    probabilities = rng.dirichlet(np.ones(3), size=60)
    truth = rng.integers(0, 3, 60)
    assert metrics.log_loss(truth, probabilities) == pytest.approx(
        reference.log_loss(truth, probabilities)
    )
    predicted = probabilities.argmax(axis=1)
    assert metrics.accuracy(truth, predicted) == reference.accuracy_score(truth, predicted)
