"""The methods that are compared. Each gets a task and returns predictions of its test rows.

All know the same labels: those of the validation rows are used to stop or to choose, and then as
labels like any others, where a method can. LightGBM and CatBoost are trained again on all labels
for as many rounds as validation asked for. "Neighbours" are columns that a user can make by hand:
statistics of the neighbours' columns. "Labels" are the mean label of the neighbours, and of other
rows of the same node, each without the row's own.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

import ebboost as eb
from benchmarks.tasks import Array, Task, fit_and_predict

ROUNDS, PATIENCE = 5_000, 50
RATE = 0.05
MANY_LABELS = 2_500
FEWEST_COLUMNS = 16  # of a tree; in wide tables half of the columns
VALIDATION_SHARE = 1 / 6
N_NEIGHBORS = 8  # of rows that have coordinates and no graph
N_POSITIONS = 16  # columns of the spectral embedding, for networks


def training_rows(task: Task) -> tuple[Array, Array, Array]:
    """Return rows to train on, rows to validate with, and both."""
    if task.eval_set is not None:
        return task.known, task.eval_set, np.concatenate([task.known, task.eval_set])
    order = np.random.default_rng(0).permutation(task.known)
    n_validation = int(VALIDATION_SHARE * order.size)
    return order[n_validation:], order[:n_validation], task.known


def graph_of(task: Task) -> eb.Graph:
    """Return the graph of the task, or that of the nearest rows."""
    if task.graph is not None:
        return task.graph
    return eb.Graph.build_knn(task.coordinates, N_NEIGHBORS)


def take(X: Any, rows: Array) -> Any:
    """Return rows of a table."""
    return X.iloc[rows] if hasattr(X, "iloc") else sparse.csr_matrix(X)[rows]


def with_categories(X: Any) -> Any:
    """Return the table with text as categories, as LightGBM wants it."""
    if not hasattr(X, "iloc"):
        return X.astype(np.float64)
    text = [name for name in X if not pd.api.types.is_numeric_dtype(X[name])]
    return X.astype(dict.fromkeys(text, "category"))


def neighbor_columns(task: Task, graph: eb.Graph, node: Array) -> Any:
    """Return the table with statistics of the columns of the neighbours."""
    X = with_categories(task.X)
    if sparse.issparse(X):
        return sparse.csr_array(eb.NeighborFeatures().fit_transform(X, graph=graph))
    if node.size == graph.n_nodes:
        more = eb.NeighborFeatures().fit_transform(X, graph=graph)[:, X.shape[1] :]
    else:  # several rows of a node: the means of its rows
        means = X.select_dtypes("number").groupby(node).mean().reindex(range(graph.n_nodes))
        more = eb.NeighborFeatures().fit_transform(means.to_numpy(), graph=graph)[node]
    names = [f"neighbours {number}" for number in range(more.shape[1])]
    return pd.concat([X, pd.DataFrame(more, X.index, names)], axis=1)


def label_columns(task: Task, graph: eb.Graph, node: Array, known: Array) -> Array:
    """Return mean labels and their number: of neighbours, and of other rows of the same node."""
    values = np.eye(task.n_classes)[task.y] if task.n_classes else task.y[:, None]
    weight = task.arguments.get("exposure", np.ones(len(task.y)))[:, None]
    is_known = np.zeros((len(task.y), 1))
    is_known[known] = 1.0
    own = np.hstack([is_known * values, is_known * weight])
    adjacency = sparse.csr_array(graph.adjacency)
    adjacency = adjacency - sparse.diags_array(adjacency.diagonal())
    rows_of = sparse.csr_array((np.ones(node.size), (node, np.arange(node.size))))
    rows_of.resize(graph.n_nodes, node.size)
    on_nodes = rows_of @ own
    columns = []
    for sums in ((adjacency @ on_nodes)[node], on_nodes[node] - own):
        total = sums[:, -1:]
        some = total > 1e-9
        columns += [np.where(some, sums[:, :-1] / np.where(some, total, 1.0), np.nan), total]
    return np.hstack(columns)


def lightgbm(task: Task, neighbors: bool = False, labels: bool = False) -> Array:
    """Train LightGBM on the columns of a row, of its neighbours, and of their labels."""
    import lightgbm as lgb

    train, validation, known = training_rows(task)
    graph = graph_of(task) if neighbors or labels else None
    groups = task.arguments.get("groups")
    node = np.arange(len(task.y)) if groups is None or graph is None else graph.index_of(groups)
    X = with_categories(task.X) if graph is None else neighbor_columns(task, graph, node)
    exposure = task.arguments.get("exposure")
    offset = None if exposure is None else np.log(exposure)
    objective = "poisson" if task.is_count else "multiclass" if task.n_classes else "regression"
    settings: dict[str, Any] = {"objective": objective, "learning_rate": RATE, "seed": 0}
    settings |= {"num_leaves": 31 if train.size > MANY_LABELS else 15}
    settings |= {"feature_fraction": min(max(0.5, FEWEST_COLUMNS / X.shape[1]), 1.0)}
    settings |= {"num_threads": 1, "verbose": -1}
    if task.n_classes:
        settings["num_class"] = task.n_classes

    def columns(known: Array) -> Any:
        if not labels or graph is None:
            return X
        more = label_columns(task, graph, node, known)
        if sparse.issparse(X):
            return sparse.csr_matrix(sparse.hstack([X, np.nan_to_num(more)]))
        names = [f"labels {number}" for number in range(more.shape[1])]
        return pd.concat([X, pd.DataFrame(more, X.index, names)], axis=1)

    def dataset(table: Any, rows: Array) -> Any:
        start = None if offset is None else offset[rows]
        return lgb.Dataset(take(table, rows), task.y[rows], init_score=start)

    table = columns(train)
    stop = lgb.early_stopping(PATIENCE, verbose=False)
    held_out = dataset(table, validation)
    first = lgb.train(settings, dataset(table, train), ROUNDS, [held_out], callbacks=[stop])
    table = columns(known)
    last = lgb.train(settings, dataset(table, known), max(first.best_iteration, 1))
    raw = last.predict(take(table, task.test), raw_score=task.is_count)
    if not task.is_count:
        return np.asarray(raw)
    return np.exp(raw if offset is None else raw + offset[task.test])


def catboost(task: Task) -> Array:
    """Train CatBoost on the columns of a row."""
    import catboost as cb

    train, validation, known = training_rows(task)
    X = with_categories(task.X)
    categorical = []
    if hasattr(X, "iloc"):
        categorical = list(X.select_dtypes("category"))
        X = X.assign(**{name: X[name].astype(str) for name in categorical})
    kind = cb.CatBoostClassifier if task.n_classes else cb.CatBoostRegressor
    settings = {"random_seed": 0, "thread_count": 1, "verbose": False}
    settings |= {"learning_rate": RATE, "allow_writing_files": False}
    if task.n_classes:
        settings |= {"loss_function": "MultiClass", "classes_count": task.n_classes}

    def pool(rows: Array) -> Any:
        return cb.Pool(take(X, rows), task.y[rows], categorical)

    first = kind(iterations=ROUNDS, early_stopping_rounds=PATIENCE, **settings)
    first.fit(pool(train), eval_set=pool(validation))
    last = kind(iterations=max(first.tree_count_, 1), **settings).fit(pool(known))
    predict = last.predict_proba if task.n_classes else last.predict
    return np.asarray(predict(pool(task.test)))


def gpboost(task: Task) -> Array:
    """Train GPBoost: trees, and a Gaussian process of the coordinates."""
    import gpboost as gpb

    train, validation, known = training_rows(task)
    X = with_categories(task.X)
    codes = {name: X[name].cat.codes for name in X.select_dtypes("category")}
    values = X.assign(**codes).to_numpy(dtype=np.float64)
    # With gradient steps in the leaves, as is its default, the error grows from the first rounds.
    settings = {"learning_rate": 0.1, "num_leaves": 31, "leaves_newton_update": True}
    settings |= {"num_threads": 1, "metric": "rmse", "seed": 0, "verbose": -1}

    def process(rows: Array) -> Any:
        return gpb.GPModel(
            gp_coords=task.coordinates[rows],
            cov_function="exponential",
            gp_approx="vecchia",
            seed=0,
            num_parallel_threads=1,
        )

    model = process(train)
    model.set_prediction_data(gp_coords_pred=task.coordinates[validation])
    data = gpb.Dataset(values[train], task.y[train])
    first = gpb.train(
        settings,
        data,
        ROUNDS,
        gp_model=model,
        valid_sets=gpb.Dataset(values[validation], task.y[validation], reference=data),
        early_stopping_rounds=PATIENCE // 5,
        verbose_eval=False,
        use_gp_model_for_validation=True,
    )
    data = gpb.Dataset(values[known], task.y[known])
    last = gpb.train(settings, data, max(first.best_iteration, 1), gp_model=process(known))
    response = last.predict(
        data=values[task.test],
        gp_coords_pred=task.coordinates[task.test],
        predict_var=False,
        pred_latent=False,
    )
    return np.asarray(response["response_mean"])


def gnn(task: Task, device: str = "cpu") -> Array:
    """Train graph neural networks, and take the best by validation."""
    from benchmarks.networks import search

    return search(arrays(task), device)


def arrays(task: Task) -> dict[str, Array]:
    """Return a task as arrays, which is all that the networks need."""
    train, validation, _ = training_rows(task)
    graph = graph_of(task)
    X = with_categories(task.X)
    if hasattr(X, "iloc"):
        X = pd.get_dummies(X, dummy_na=False).to_numpy(dtype=np.float64)
    X = X.toarray() if sparse.issparse(X) else X
    adjacency = graph.adjacency.tocoo()
    spectral = eb.SpectralFeatures(N_POSITIONS, random_state=0)
    position = spectral.fit_transform(np.zeros((graph.n_nodes, 1)), graph=graph)[:, 1:]
    hidden = task.y.copy()  # the test labels are for the error alone
    hidden[task.test] = 0
    return {
        "X": X.astype(np.float32),
        "position": position.astype(np.float32),
        "y": hidden,
        "edges": np.stack(adjacency.coords),
        "weight": adjacency.data.astype(np.float32),
        "train": train,
        "validation": validation,
        "test": task.test,
        "n_classes": np.array(task.n_classes),
    }


def ebboost(task: Task, **parameters: Any) -> Array:
    """Fit ebboost."""
    return fit_and_predict(task, **parameters)[1]


@dataclass(frozen=True)
class Method:
    """A method, the package that it needs, and the tasks that it can do."""

    predict: Callable[..., Array]
    package: str
    can: Callable[[Task], bool] = lambda task: True

    @property
    def is_installed(self) -> bool:
        """Whether its package can be imported."""
        return find_spec(self.package) is not None


def has_places(task: Task) -> bool:
    """Whether numbers are predicted at known coordinates."""
    return task.coordinates is not None and not task.n_classes and not task.is_count


METHODS = {
    "LightGBM": Method(lightgbm, "lightgbm"),
    "+ neighbours": Method(partial(lightgbm, neighbors=True), "lightgbm"),
    "+ labels": Method(partial(lightgbm, neighbors=True, labels=True), "lightgbm"),
    "CatBoost": Method(catboost, "catboost", lambda task: not task.is_count),
    "GPBoost": Method(gpboost, "gpboost", has_places),
    "GNN": Method(gnn, "torch", lambda task: not task.is_count),
    "ebboost fast": Method(partial(ebboost, n_folds=1), "ebboost"),
    "ebboost": Method(ebboost, "ebboost"),
}
