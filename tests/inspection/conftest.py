"""Small fitted models; names of columns, categories and rows look like markup."""

import numpy as np
import pandas as pd
import pytest

import ebboost as eb

N = 240
RANDOM = np.random.default_rng(0)
POINTS = RANDOM.random((N, 2))
IDS = np.array([f"<n{i}>" for i in range(N)], dtype=object)
GRAPH = eb.Graph(eb.Graph.build_knn(POINTS, k=5).adjacency, IDS)
TABLE = pd.DataFrame(RANDOM.normal(size=(N, 2)), columns=["<b>bold</b>", "two"], index=IDS)
TABLE["kind"] = np.where(RANDOM.random(N) > 0.5, "<script>alert(1)</script>", "a & b")
TABLE["x"], TABLE["y"] = POINTS.T
FIELD = 2 * np.sin(6 * POINTS[:, 0]) + 2 * np.cos(5 * POINTS[:, 1])
TRUTH = FIELD + TABLE["<b>bold</b>"].to_numpy() + 0.3 * RANDOM.normal(size=N)
KNOWN = RANDOM.random(N) < 0.7
LABELS = np.where(KNOWN, TRUTH, np.nan)
CLASSES = np.array(["<low>", "mid", "high"], dtype=object)[np.digitize(TRUTH, [-1.0, 1.0])]
CHEAP = {"n_estimators": 25, "n_folds": 3, "random_state": 0, "n_jobs": 1}


@pytest.fixture(scope="session", autouse=True)
def _no_window():
    pytest.importorskip("matplotlib").use("agg")


@pytest.fixture(scope="session")
def numbers():
    return eb.EBBSRegressor(**CHEAP).fit(TABLE, LABELS, graph=GRAPH)


@pytest.fixture(scope="session")
def classes():
    y = np.where(KNOWN, CLASSES, None)
    return eb.EBBSClassifier(**CHEAP).fit(TABLE, y, graph=GRAPH)


@pytest.fixture(scope="session")
def pairs():
    y = np.where(KNOWN, (TRUTH > 0).astype(object), None)
    return eb.EBBSClassifier(**CHEAP).fit(TABLE, y, graph=GRAPH)


@pytest.fixture(scope="session")
def counts():
    y = np.where(KNOWN, np.random.default_rng(1).poisson(np.exp(FIELD / 3)), np.nan)
    model = eb.EBBSRegressor(loss="poisson", **CHEAP)
    return model.fit(TABLE, y, graph=GRAPH, exposure=np.full(N, 2.0))


@pytest.fixture(scope="session")
def plain():
    return eb.EBBSRegressor(**CHEAP).fit(TABLE[["two", "kind"]], LABELS)
