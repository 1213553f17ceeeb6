"""Averages of ensembles: predictions, importances, contributions, and files."""

import numpy as np
import pytest

import ebboost as eb
from ebboost.data.reader import TableReader
from ebboost.learners.averaged import AveragedEnsemble, average, load_ensemble


def ensembles(learner, n=3):
    """Ensembles of three trees each, grown on different gradients, and their table."""
    rng = np.random.default_rng(0)
    table = TableReader().fit(rng.normal(size=(80, 4)))
    options = {"n_outputs": 1, "seed": 0, "n_jobs": 1, "device": "cpu"}
    first = learner.start(table, **options)
    growers = [
        first.clone_with_shared_bins(seed) or learner.start(table, **options) for seed in range(n)
    ]
    for grower in growers:
        for _ in range(3):
            assert grower.grow(rng.normal(size=(80, 1)), np.ones((80, 1))) is not None
    weights = [[0.5, 0.25, 0.1], [1.0, 0.5], [0.2, 0.2, 0.2]]
    return [grower.compile(own) for grower, own in zip(growers, weights, strict=True)], table


LEARNERS = [eb.LightGBM(7, min_child_samples=5), eb.XGBoost(3), eb.CatBoost(3), eb.RandomNetwork(8)]


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda learner: learner.name)
def test_the_average_is_the_mean_of_predictions_and_survives_a_file(learner):
    if isinstance(learner, eb.CatBoost):
        pytest.importorskip("catboost")
    parts, table = ensembles(learner)
    expected = np.mean([part.predict(table) for part in parts], axis=0)
    mean = average(parts)
    np.testing.assert_allclose(mean.predict(table), expected, rtol=1e-6, atol=1e-12)
    loaded = load_ensemble(learner, mean.files())
    loaded.check(4, 1, {})
    np.testing.assert_array_equal(loaded.predict(table), mean.predict(table))
    assert mean.importances().shape == (4,)
    contributions = mean.contributions(table)
    if contributions is not None:
        np.testing.assert_allclose(contributions.sum(axis=2), expected, rtol=1e-5, atol=1e-6)


def test_lightgbm_models_become_one_booster():
    parts, _ = ensembles(LEARNERS[0])
    assert average(parts).booster.num_trees() == 3 + 2 + 3
    assert average(parts[:1]) is parts[0]
    assert isinstance(average([parts[0], AveragedEnsemble(parts[1:])]), AveragedEnsemble)
