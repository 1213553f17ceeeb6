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
