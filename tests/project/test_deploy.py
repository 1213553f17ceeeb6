"""The service and the MLflow model in deploy/ predict what the model predicts."""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import ebboost as eb

DEPLOY = Path(__file__).parents[2] / "deploy"


@pytest.fixture(scope="module")
def model():
    random = np.random.default_rng(0)
    points = random.random((120, 2))
    X = pd.DataFrame({"size": random.normal(size=120), "kind": random.choice(["a", "b"], 120)})
    y = np.sin(5 * points[:, 0]) + X["size"]
    graph = eb.Graph.build_knn(points, k=4)
    return eb.EBBSRegressor(5, selection="rules", random_state=0).fit(X, y, graph=graph)


@pytest.fixture
def module(monkeypatch):
    monkeypatch.syspath_prepend(str(DEPLOY))
    yield
    for name in ("service", "mlflow_model"):
        sys.modules.pop(name, None)


NEW = pd.DataFrame({"size": [0.5, -1.0], "kind": ["b", None]})


@pytest.mark.filterwarnings("ignore")
def test_the_service_looks_up_updates_and_predicts(model, module, tmp_path):
    testclient = pytest.importorskip("fastapi.testclient", reason="make test-deploy installs it")
    import service

    model.save(tmp_path / "m.ebb", table=True)
    client = testclient.TestClient(service.create_app(tmp_path / "m.ebb"))
    assert client.get("/health").json()["nodes"] == 120
    looked_up = client.get("/predictions", params={"node": [3, 7]}).json()["prediction"]
    assert looked_up == model.predict(nodes=[3, 7]).tolist()
    intervals = client.get("/predictions", params={"node": [3], "interval": 0.9}).json()
    assert intervals["lower"][0] < intervals["prediction"][0] < intervals["upper"][0]
    edges = [(0, 3, 1.0), (0, 4, 2.0), (1, 9, 1.0)]
    rows = [{"size": 0.5, "kind": "b"}, {"size": -1.0}]
    answer = client.post("/predictions", json={"rows": rows, "edges": edges}).json()
    attach = ([0, 0, 1], [3, 4, 9], [1.0, 2.0, 1.0])
    np.testing.assert_allclose(answer["prediction"], model.predict(NEW, attach=attach))
    changed = {"nodes": [3], "rows": [{"size": 9.0, "kind": "a"}]}
    assert client.put("/rows", json=changed).json()["prediction"][0] > looked_up[0]
    alone = client.post("/predictions", json={"rows": rows, "edges": []}).json()
    np.testing.assert_allclose(alone["prediction"], model.predict(NEW, attach=([], [])))
    wrong = client.put("/rows", json={"nodes": [300], "rows": rows[:1]})
    assert wrong.status_code == 422 and "no node 300" in wrong.json()["detail"]
    wrong = client.post("/predictions", json={"rows": [{"sise": 0.5}], "edges": []})
    assert wrong.status_code == 422 and "sise" in wrong.json()["detail"]


@pytest.mark.filterwarnings("ignore")
def test_the_service_names_nodes_by_their_ids(model, module, tmp_path):
    testclient = pytest.importorskip("fastapi.testclient", reason="make test-deploy installs it")
    import service

    edges = pd.DataFrame(np.argwhere(model.graph_.adjacency.toarray()), columns=["a", "b"])
    named = eb.Graph.from_dataframe("n" + edges.astype(str), [f"n{i}" for i in range(120)])
    again = eb.EBBSRegressor(5, selection="rules", random_state=0)
    X = pd.DataFrame(model.state_.table.values, columns=["size", "kind"])
    again.fit(X, np.arange(120.0), graph=named).save(tmp_path / "m.ebb", table=True)
    client = testclient.TestClient(service.create_app(tmp_path / "m.ebb"))
    answer = client.get("/predictions", params={"node": ["n7"]}).json()
    assert answer["prediction"] == again.predict(nodes=[7]).tolist()
    new = {"rows": [{"size": 0.5}], "edges": [[0, "n3", 2.0]]}
    answer = client.post("/predictions", json=new).json()
    row = pd.DataFrame({"size": [0.5], "kind": [np.nan]})
    expected = again.predict(row, attach=([0], ["n3"], [2.0]))
    np.testing.assert_allclose(answer["prediction"], expected)


@pytest.fixture(scope="module")
def trees(tmp_path_factory):
    """Rows, their scores f, and the path of a file in LightGBM's format."""
    X = np.random.default_rng(0).normal(size=(80, 3)).astype(np.float32).astype(float)
    parts = {"smoothing": eb.Laplacian(), "labels": "field", "early_stopping": False}
    model = eb.EBBSRegressor(20, random_state=0, **parts)
    model.fit(X, X[:, 0] + np.sin(3.0 * X[:, 1]), graph=eb.Graph.build_knn(X, k=4))
    path = tmp_path_factory.mktemp("trees") / "trees.txt"
    model.ensemble_.booster.save_model(path)
    return X, model.scores_[:, 0], path


def test_treelite_scores_rows_like_the_model(trees):
    treelite = pytest.importorskip("treelite", reason="make test-deploy installs it")
    X, scores, path = trees
    loaded = treelite.frontend.load_lightgbm_model(path)
    np.testing.assert_allclose(treelite.gtil.predict(loaded, X).ravel(), scores, atol=1e-12)


@pytest.mark.filterwarnings("ignore")
def test_an_onnx_graph_scores_rows_like_the_model(trees):
    onnxmltools = pytest.importorskip("onnxmltools", reason="make test-deploy installs it")
    import lightgbm
    import onnxruntime
    from onnxmltools.convert.common.data_types import FloatTensorType

    X, scores, path = trees
    text = path.read_text().replace("feature_names=", "objective=regression\nfeature_names=", 1)
    booster = lightgbm.Booster(model_str=text)
    booster.params["objective"] = "regression"
    types = [("X", FloatTensorType([None, 3]))]
    onnx = onnxmltools.convert_lightgbm(booster, initial_types=types).SerializeToString()
    session = onnxruntime.InferenceSession(onnx, providers=["CPUExecutionProvider"])
    exported = session.run(None, {"X": X.astype(np.float32)})[0].ravel()
    np.testing.assert_allclose(exported, scores, rtol=0, atol=1e-6)


@pytest.mark.filterwarnings("ignore")
def test_a_logged_model_predicts_new_rows_by_their_edges(model, module, tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow", reason="make test-deploy installs it")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri((tmp_path / "runs").as_uri())
    import mlflow_model

    with mlflow.start_run():
        uri = mlflow_model.log_model(model).model_uri
    loaded = mlflow.pyfunc.load_model(uri)
    predictions = loaded.predict(NEW.assign(neighbors=[[3, 4], [9]]))
    attach = ([0, 0, 1], [3, 4, 9])
    np.testing.assert_allclose(predictions, model.predict(NEW, attach=attach))
    weighted = loaded.predict(NEW.assign(neighbors=[[3, 4], []], weights=[[1.0, 2.0], []]))
    attach = ([0, 0], [3, 4], [1.0, 2.0])
    np.testing.assert_allclose(weighted, model.predict(NEW, attach=attach))
    with pytest.raises(Exception, match="'neighbors' is missing"):
        loaded.predict(NEW)
