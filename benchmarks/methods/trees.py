"""LightGBM, CatBoost and XGBoost, without and with neighbour features."""

from typing import Any

import numpy as np

import ebboost as eb
from benchmarks.problem import Outcome, Problem

ROUNDS, PATIENCE = 1000, 100


def lightgbm(
    problem: Problem, learning_rate: float, num_leaves: int, neighbours: bool = False
) -> Outcome:
    """LightGBM on the columns of a node, or on those of its neighbours too."""
    import lightgbm

    X = (
        eb.NeighborFeatures().fit_transform(problem.X, graph=problem.graph)
        if neighbours
        else problem.X
    )
    settings: dict[str, Any] = {
        "objective": "regression",
        "learning_rate": learning_rate,
        "num_leaves": num_leaves,
    }
    if problem.n_classes:
        settings |= {"objective": "multiclass", "num_class": problem.n_classes}
    settings |= {"num_threads": problem.threads, "seed": problem.seed, "verbose": -1}
    train = lightgbm.Dataset(problem.rows(problem.train, X), problem.y[problem.train])
    held = lightgbm.Dataset(problem.rows(problem.val, X), problem.y[problem.val], reference=train)
    stop = lightgbm.early_stopping(PATIENCE, verbose=False)
    model = lightgbm.train(settings, train, ROUNDS, [held], callbacks=[stop])
    predicted = model.predict(problem.rows(np.arange(len(problem.y)), X))
    return Outcome(np.asarray(predicted), notes={"rounds": model.best_iteration})


def xgboost(problem: Problem, learning_rate: float, max_depth: int) -> Outcome:
    """XGBoost on the columns of a node."""
    import xgboost

    settings: dict[str, Any] = {
        "learning_rate": learning_rate,
        "max_depth": max_depth,
        "seed": problem.seed,
    }
    settings |= {"nthread": problem.threads, "objective": "reg:squarederror"}
    if problem.n_classes:
        settings |= {"objective": "multi:softprob", "num_class": problem.n_classes}

    def matrix(nodes: np.ndarray, labelled: bool = True) -> Any:
        labels = problem.y[nodes] if labelled else None
        return xgboost.DMatrix(problem.rows(nodes), labels, enable_categorical=True)

    held = [(matrix(problem.val), "val")]
    model = xgboost.train(
        settings,
        matrix(problem.train),
        ROUNDS,
        evals=held,
        early_stopping_rounds=PATIENCE,
        verbose_eval=False,
    )
    all_nodes = matrix(np.arange(len(problem.y)), labelled=False)
    predicted = model.predict(all_nodes, iteration_range=(0, model.best_iteration + 1))
    return Outcome(
        np.asarray(predicted, dtype=np.float64), notes={"rounds": model.best_iteration + 1}
    )


def catboost(problem: Problem, learning_rate: float, depth: int, graph: bool = False) -> Outcome:
    """CatBoost, also with its own mean, minimum and maximum over neighbours."""
    import catboost

    kind = catboost.CatBoostClassifier if problem.n_classes else catboost.CatBoostRegressor
    model = kind(
        iterations=ROUNDS,
        learning_rate=learning_rate,
        depth=depth,
        random_seed=problem.seed,
        loss_function="MultiClass" if problem.n_classes else "RMSE",
        early_stopping_rounds=PATIENCE,
        thread_count=problem.threads,
        verbose=False,
        allow_writing_files=False,
    )
    parts = graph_pools(problem) if graph else pools(problem)
    model.fit(parts["train"], eval_set=parts["val"])
    return Outcome(
        catboost_scores(model, parts["all"], problem), notes={"rounds": model.tree_count_}
    )


def catboost_scores(model: Any, pool: Any, problem: Problem) -> np.ndarray:
    """Return predictions, or probabilities of classes, 0 for one without training nodes."""
    if not hasattr(model, "predict_proba"):
        return np.asarray(model.predict(pool))
    scores = np.zeros((len(problem.y), problem.n_classes))
    scores[:, np.asarray(model.classes_, dtype=int)] = model.predict_proba(pool)
    return scores


def pools(problem: Problem) -> dict[str, Any]:
    """Return CatBoost's tables of the training nodes, the validation nodes and all nodes."""
    import catboost

    X, names = as_text(problem), problem.categorical
    return {
        "train": catboost.Pool(problem.rows(problem.train, X), problem.y[problem.train], names),
        "val": catboost.Pool(problem.rows(problem.val, X), problem.y[problem.val], names),
        "all": catboost.Pool(problem.rows(np.arange(len(problem.y)), X), cat_features=names),
    }


def graph_pools(problem: Problem) -> dict[str, Any]:
    """Return the same tables with the edges.

    CatBoost wants edges to stay inside a group and rows that lie one after another in memory, so
    every table is an array of all nodes as one group, and a weight of 0 takes out those that do not
    belong. It has no neighbour statistics for category columns.
    """
    import catboost

    n = len(problem.y)
    if problem.is_table:
        X = np.ascontiguousarray(
            as_text(problem).to_numpy(dtype=object if problem.categorical else np.float32)
        )
    else:
        X = np.ascontiguousarray(
            problem.X.toarray() if hasattr(problem.X, "toarray") else problem.X, dtype=np.float32
        )
    categorical = [problem.X.columns.get_loc(name) for name in problem.categorical]
    edges = np.column_stack(problem.graph.adjacency.nonzero())
    pools = {}
    for part, nodes in {"train": problem.train, "val": problem.val, "all": np.arange(n)}.items():
        labels, weight = np.zeros(n, dtype=problem.y.dtype), np.zeros(n)
        labels[nodes], weight[nodes] = (
            np.where(problem.y[nodes] == problem.y[nodes], problem.y[nodes], 0),
            1.0,
        )
        pools[part] = catboost.Pool(
            X, labels, categorical, graph=edges, group_id=np.zeros(n, dtype=int), weight=weight
        )
    return pools


def as_text(problem: Problem) -> Any:
    """Return X with categories as text, which is how CatBoost takes them."""
    if not problem.categorical:
        return problem.X
    X = problem.X.copy()
    for name in problem.categorical:
        X[name] = X[name].astype(object).astype(str)
    return X
