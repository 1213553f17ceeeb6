"""Write small model files of this version, and their predictions, to tests/golden/VERSION.

    python tools/make_golden.py

Later versions must read the files of released ones: existing files are not overwritten. For each
``name.ebb``, ``name.json`` has rows to predict, their edges, and the predictions.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

import ebboost as eb
from ebboost.training import defaults

FOLDER = Path(__file__).parents[1] / "tests" / "golden" / eb.__version__
N = 80
NEW = 6  # rows to predict
RANDOM = np.random.default_rng(7)
POSITION = RANDOM.normal(size=(N, 2))
GRAPH = eb.Graph.build_knn(POSITION, 4)
NUMBERS = pd.DataFrame(
    {
        "east": POSITION[:, 0],
        "north": POSITION[:, 1],
        "age": RANDOM.integers(0, 90, N).astype(float),
    }
)
NUMBERS.loc[RANDOM.random(N) < 0.1, "age"] = np.nan
MIXED = NUMBERS.assign(
    town=RANDOM.choice(["Bonn", "Kiel", "Ulm"], N), zone=pd.Categorical(RANDOM.choice([3, 7], N))
)
COUNTS = sparse.random_array((N, 40), density=0.1, rng=RANDOM, format="csr")
EFFECT = np.where(MIXED["town"] == "Ulm", 1.0, 0.0)
PRICE = np.where(
    np.arange(N) % 5 == 0, np.nan, np.sin(POSITION[:, 0]) + EFFECT + RANDOM.normal(0, 0.1, N)
)
KIND = np.where(
    np.isnan(PRICE),
    None,
    np.array(["low", "mid", "high"], dtype=object)[np.digitize(PRICE, [0.0, 0.7])],
)
EDGES = [[0, 1, 2, 3], [1, 2, 3, 4]]  # of the rows to predict: a path and an isolated node


def named(graph: eb.Graph) -> eb.Graph:
    """The same graph with text for ids."""
    edges = graph.adjacency.tocoo()
    ids = [f"Weg {i}" for i in range(graph.n_nodes)]
    upper = edges.coords[0] < edges.coords[1]
    ends = ([ids[i] for i in axis[upper]] for axis in edges.coords)
    return eb.Graph.from_dataframe(
        pd.DataFrame(dict(zip(("from", "to"), ends, strict=True))), nodes=ids
    )


def models() -> dict[str, tuple[Any, Any, Any, bool]]:
    """Estimator, table, graph and whether the table is stored, by file name."""
    few = {"n_estimators": 8, "n_jobs": 1, "random_state": 0}
    relations = {"friend": GRAPH, "rival": eb.Graph.build_knn(POSITION[:, ::-1] * [1.0, 3.0], 3)}
    laplacian = eb.Laplacian(1.5, 4)
    strengths = {"friend": 1.0, "rival": -0.25}
    return {
        "regressor": (
            eb.EBBSRegressor(**few, smoothing=laplacian, labels="field"),
            NUMBERS,
            named(GRAPH),
            False,
        ),
        "classifier": (
            eb.EBBSClassifier(**few, smoothing=laplacian, labels="field"),
            NUMBERS,
            GRAPH,
            False,
        ),
        "categories": (
            eb.EBBSRegressor(**few, smoothing="auto", neighbor_features=eb.NeighborFeatures()),
            MIXED,
            GRAPH,
            True,
        ),
        "relations": (
            eb.EBBSRegressor(**few, relations=strengths, smoothing=laplacian),
            NUMBERS,
            relations,
            False,
        ),
        "masked": (
            eb.EBBSRegressor(
                **few, smoothing=laplacian, labels="masked", feature_smoothing=eb.Laplacian(20.0, 5)
            ),
            NUMBERS,
            GRAPH,
            False,
        ),
        "kernel": (
            eb.EBBSRegressor(**few, loss="quantile", smoothing=eb.Kernel("diffusion")),
            NUMBERS,
            GRAPH,
            False,
        ),
        "robust": (
            eb.EBBSRegressor(**few, smoothing=eb.Robust(), labels="none", momentum=True),
            NUMBERS,
            GRAPH,
            False,
        ),
        "sparse": (eb.EBBSClassifier(**few), COUNTS, GRAPH, True),
        "plain": (eb.EBBSClassifier(**few), MIXED, None, False),
        "xgboost": (
            eb.EBBSRegressor(**few, learner=eb.XGBoost(max_depth=3), smoothing=laplacian),
            MIXED,
            GRAPH,
            False,
        ),
        "xgboost-classes": (
            eb.EBBSClassifier(**few, learner=eb.XGBoost(max_depth=2), smoothing=laplacian),
            NUMBERS,
            GRAPH,
            False,
        ),
        "network": (
            eb.EBBSRegressor(**few, learner="network", smoothing=laplacian, labels="field"),
            MIXED,
            GRAPH,
            True,
        ),
        "catboost": (
            eb.EBBSRegressor(
                **few,
                learner=eb.CatBoost(depth=3),
                smoothing=laplacian,
                neighbor_features=eb.NeighborFeatures(),
            ),
            MIXED,
            GRAPH,
            True,
        ),
        "catboost-branches": (
            eb.EBBSClassifier(
                **few, learner=eb.CatBoost(depth=2, params={"grow_policy": "Lossguide"})
            ),
            NUMBERS,
            GRAPH,
            False,
        ),
    }


def models_of_arguments() -> dict[str, tuple[Any, Any, Any, dict[str, Any]]]:
    """Estimator, table, labels and further arguments of fit, by file name."""
    few: dict[str, Any] = {"n_estimators": 4, "n_jobs": 1, "random_state": 0}
    rules = few | {"selection": "rules"}
    n_many = 260  # enough labels for trees of the spread
    many = RANDOM.normal(size=(n_many, 2))
    many_y = many[:, 0] + RANDOM.normal(size=n_many) * np.exp(many[:, 1])
    many_y[np.arange(n_many) > 240] = np.nan
    counts = np.where(np.isnan(PRICE), np.nan, np.round(np.exp(PRICE)))
    directed = eb.Graph.from_edges(np.arange(N), (np.arange(N) * 7 + 1) % N, directed=True)
    time = np.arange(N) / 2.0
    field = eb.EBBSRegressor(**few, labels="field", neighbor_features=eb.NeighborFeatures())
    return {
        "average": (eb.EBBSRegressor(**few), MIXED, PRICE, {"graph": GRAPH}),
        "coordinates": (eb.EBBSRegressor(**rules), NUMBERS, PRICE, {"coordinates": POSITION}),
        "exposure": (
            eb.EBBSRegressor(**rules, loss="poisson"),
            NUMBERS,
            counts,
            {"graph": GRAPH, "exposure": np.arange(N) + 1.0},
        ),
        "directed": (field, NUMBERS, PRICE, {"graph": directed}),
        "causal": (
            eb.EBBSRegressor(**rules),
            NUMBERS,
            PRICE,
            {"graph": GRAPH, "time": time, "causal": True},
        ),
        "groups": (field, MIXED, PRICE, {"groups": np.arange(N) % 9}),
        "forecast": (
            eb.EBBSRegressor(**rules),
            many,
            many_y,
            {"graph": eb.Graph.build_knn(many, 3), "time": np.arange(n_many)},
        ),
        "spread": (eb.EBBSRegressor(**rules), many, many_y, {}),
        "low-rank": (eb.EBBSClassifier(**rules), COUNTS, KIND, {"graph": GRAPH}),
    }


def predictions(model: Any, X: Any, graph: Any) -> dict[str, Any]:
    """What a file must predict: for the fitted nodes, and for new rows on a graph of their own."""
    new = X[:NEW] if sparse.issparse(X) else X.iloc[:NEW].reset_index(drop=True)
    path = None if graph is None else eb.Graph.from_edges(*EDGES, n_nodes=NEW)
    path = dict.fromkeys(graph, path) if isinstance(graph, dict) else path
    call = model.predict_proba if hasattr(model, "predict_proba") else model.predict
    arguments = {"graph": path}
    if model.labels_ is not None:
        arguments["new_labels"] = ([], [])
    predicted = {"fitted": call().tolist(), "new": call(new, **arguments).tolist()}
    if call == model.predict:
        predicted["lower"] = model.predict(interval=0.8).lower.tolist()
    if sparse.issparse(X):
        rows: dict[str, Any] = {"counts": new.toarray().tolist()}
    else:  # NaN is not JSON
        rows = {
            name: [None if value != value else value for value in column.tolist()]
            for name, column in new.items()
        }
    return {
        "rows": rows,
        "edges": EDGES,
        "relations": list(graph) if isinstance(graph, dict) else None,
    } | predicted


def main() -> None:
    """Fit, save and note the predictions of every model that has no file yet."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, (model, X, graph, table) in models().items():
        path = FOLDER / f"{name}.ebb"
        if path.exists():
            print(f"{path} exists and is not overwritten")
            continue
        model.fit(X, KIND if isinstance(model, eb.EBBSClassifier) else PRICE, graph=graph)
        model.save(path, table=table)
        path.with_suffix(".json").write_text(json.dumps(predictions(model, X, graph)) + "\n")
        print(f"{path}: {path.stat().st_size:,} bytes, {model.best_candidate_}")
    defaults.LOW_RANK = 4  # else only tables of more than 256 columns are projected
    for name, (model, X, y, arguments) in models_of_arguments().items():
        path = FOLDER / f"{name}.ebb"
        if not path.exists():
            model.fit(X, y, **arguments).save(path, table=True)
            expected = {"fitted": getattr(model, "predict_proba", model.predict)().tolist()}
            if not model.state_.is_classifier:
                expected["lower"] = model.predict(interval=0.8).lower.tolist()
            path.with_suffix(".json").write_text(json.dumps(expected) + "\n")
            print(f"{path}: {path.stat().st_size:,} bytes, {model.best_candidate_}")


if __name__ == "__main__":
    main()
