"""A fitted model is complete: nothing that reads it trains anything."""

import copy
import pickle

import numpy as np
import pytest

import ebboost as eb
from tests.safety.problems import CHEAP, FIELD, GRAPH, POINTS, TABLE, TEST, TRUTH, labels

KNOWN = np.isfinite(labels())
COUNTS = np.where(KNOWN, np.random.default_rng(0).poisson(np.exp(FIELD / 3)), np.nan)
FITS = {
    "numbers": lambda one: eb.EBBSRegressor(learner=one, **CHEAP).fit(TABLE, labels(), graph=GRAPH),
    "no graph": lambda one: eb.EBBSRegressor(learner=one, **CHEAP).fit(TABLE, labels()),
    "counts": lambda one: eb.EBBSRegressor(learner=one, loss="poisson", **CHEAP).fit(
        TABLE, COUNTS, graph=GRAPH
    ),
    "classes": lambda one: eb.EBBSClassifier(learner=one, **CHEAP).fit(
        TABLE, np.where(KNOWN, (TRUTH > 0).astype(object), None), graph=GRAPH
    ),
    "coordinates": lambda one: eb.EBBSRegressor(learner=one, **CHEAP).fit(
        TABLE, labels(), coordinates=POINTS
    ),
    "time": lambda one: eb.EBBSRegressor(learner=one, **CHEAP).fit(
        TABLE, labels(), graph=GRAPH, time=np.arange(len(TABLE))
    ),
}
USES = {
    "pickle": pickle.dumps,
    "copy": copy.deepcopy,
    "summary": lambda model: model.summary(),
    "html": lambda model: model._repr_html_(),
    "interval": lambda model: model.predict(interval=0.9),
    "distribution": lambda model: model.predict_distribution(),
    "interval of some": lambda model: model.predict(nodes=TEST[:3], interval=0.5),
    "predictor": lambda model: model.predictor().predict([3], interval=0.9),
    "score": lambda model: model.score(None, abs(TRUTH), nodes=TEST, metric="deviance"),
}


@pytest.fixture
def boosters(monkeypatch):
    """The rounds of LightGBM that are trained, and the networks that are fitted."""
    lightgbm = pytest.importorskip("lightgbm")
    rounds = []
    update = lightgbm.Booster.update

    def counted(self, *arguments, **options):
        rounds.append(1)
        return update(self, *arguments, **options)

    monkeypatch.setattr(lightgbm.Booster, "update", counted)
    return rounds


@pytest.mark.parametrize("kind", FITS)
def test_rounds_are_trained_by_fit_alone(kind, boosters, tmp_path):
    model = FITS[kind]("lightgbm")
    n_trained = len(boosters)
    assert n_trained > 0
    before = model.summary()
    for name, use in USES.items():
        if kind == "classes" and name in ("distribution", "score"):
            continue
        use(model)
        assert len(boosters) == n_trained, name
    model.save(tmp_path / "m.ebb")
    loaded = eb.load(tmp_path / "m.ebb")
    assert loaded.summary() == before
    assert len(boosters) == n_trained
    one, other = (each.predict(interval=0.9) for each in (model, loaded))
    for ours, theirs in zip(one, other, strict=True):
        np.testing.assert_array_equal(ours, theirs)
