"""Losses by which candidates are compared, for metrics of one and of several labels."""

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

import ebboost as eb
from ebboost.data.labels import Labels
from ebboost.training.evaluation import compared_losses
from tests.problems import homophilous


def test_a_mean_over_labels_is_compared_by_the_means_of_its_groups():
    random = np.random.default_rng(0)
    scores, target = random.normal(size=(2, 60, 1))
    settings = SimpleNamespace(eval_metric="mae")
    output = SimpleNamespace(loss=eb.SquaredError())
    problem = SimpleNamespace(settings=settings, classes=False, output=output, offset=None)
    losses = compared_losses(problem, Labels(np.arange(60), target, np.ones(60)), scores)
    errors = np.abs(scores - target).reshape(3, 20)  # groups are columns
    assert losses == pytest.approx(errors.mean(axis=0))


def test_candidates_are_compared_by_the_metric():
    X, y, graph = homophilous(300)
    model = eb.EBBSClassifier(20, n_folds=2, eval_metric="roc_auc", random_state=0, n_jobs=1)
    model.fit(X, y > 1.0, graph=graph)
    auc = roc_auc_score(model.validation_target_[:, 0], model.validation_prediction_[:, 0])
    assert len(model.selection_["loss"]) > 1
    assert min(model.selection_["loss"]) == pytest.approx(1.0 - auc, abs=0.02)
    assert model.gain_.n_labels == 300
