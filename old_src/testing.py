"""Hypothesis strategies for graphs, tables, labels and estimators, for property tests.

A strategy draws a few choices (a shape, a size, a seed) and numpy the numbers, so that failing
examples shrink to simple ones. Needs hypothesis: ``pip install hypothesis``.
"""

from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy import sparse
from sklearn.linear_model import Ridge
from sklearn.tree import DecisionTreeRegressor

import ebboost as eb

try:
    from hypothesis import strategies as st
except ImportError:
    raise ImportError("ebboost.testing needs hypothesis: pip install hypothesis.") from None

__all__ = ["Case", "cases", "classes", "estimators", "graphs", "numbers"]
__all__ += ["random_graph", "relations", "signed_graphs", "tables"]

Estimator = eb.EBBSRegressor | eb.EBBSClassifier
Graphs = eb.Graph | dict[str, eb.Graph] | None
generators = st.integers(0, 2**32 - 1).map(np.random.default_rng)
EDGES = {
    "random": lambda rng, rows, columns: rng.random(rows.size) < rng.choice([0.1, 0.3, 0.7]),
    "empty": lambda rng, rows, columns: np.zeros(rows.size, dtype=bool),
    "path": lambda rng, rows, columns: columns == rows + 1,
    "hub": lambda rng, rows, columns: rows == 0,
    "complete": lambda rng, rows, columns: np.ones(rows.size, dtype=bool),
    "parts": lambda rng, rows, columns: rows % 3 == columns % 3,
}


@st.composite
def graphs(draw: st.DrawFn, min_nodes: int = 1, max_nodes: int = 12) -> eb.Graph:
    """Graphs: random, empty, paths, hubs, complete, of several components; weighted or not.

    Parameters
    ----------
    min_nodes, max_nodes : int
        Bounds of the number of nodes.

    Examples
    --------
    >>> from hypothesis import given, settings
    >>> from ebboost.testing import graphs
    >>> @settings(max_examples=5)
    ... @given(graphs())
    ... def test_adjacency_is_symmetric(graph):
    ...     assert abs(graph.adjacency - graph.adjacency.T).sum() == 0
    >>> test_adjacency_is_symmetric()
    """
    n_nodes = draw(st.integers(min_nodes, max_nodes))
    is_edge = EDGES[draw(st.sampled_from(list(EDGES)))]
    is_weighted = draw(st.booleans())
    rng = draw(generators)
    rows, columns = np.triu_indices(n_nodes, 1)
    chosen = is_edge(rng, rows, columns)
    weight = rng.lognormal(sigma=1.5, size=chosen.sum()) if is_weighted else None
    return eb.Graph.from_edges(rows[chosen], columns[chosen], weight, n_nodes=n_nodes)


@st.composite
def signed_graphs(draw: st.DrawFn, min_nodes: int = 1, max_nodes: int = 12) -> eb.Graph:
    """Graphs with negative weights: a homophilous relation minus a heterophilous one.

    Parameters
    ----------
    min_nodes, max_nodes : int
        Bounds of the number of nodes.
    """
    n_nodes = draw(st.integers(min_nodes, max_nodes))
    relations = {name: draw(graphs(n_nodes, n_nodes)) for name in ("like", "unlike")}
    return eb.Graph.mix(relations, {"like": 1.0, "unlike": draw(st.floats(-3.0, -0.1))})


def relations(n_nodes: int) -> st.SearchStrategy[dict[str, eb.Graph]]:
    """One to three graphs of the same nodes, by name.

    Parameters
    ----------
    n_nodes : int
        Number of nodes of each graph.
    """
    names = st.sampled_from(["friend", "city", "größe"])
    return st.dictionaries(names, graphs(n_nodes, n_nodes), min_size=1, max_size=3)


def random_graph(n: int, n_edges: int, seed: int = 0) -> eb.Graph:
    """Return a random graph, without hypothesis.

    Parameters
    ----------
    n : int
        Number of nodes.
    n_edges : int
        Number of pairs drawn; loops and repeated pairs are merged.
    seed : int, default=0
        Fixes the graph.

    Returns
    -------
    Graph
    """
    rng = np.random.default_rng(seed)
    ends = np.sort(rng.integers(0, n, (n_edges, 2)), axis=1)
    return eb.Graph.from_edges(ends[:, 0], ends[:, 1], n_nodes=n)


COLUMNS = {
    "normal": lambda rng, n: rng.normal(size=n),
    "integer": lambda rng, n: rng.integers(-3, 4, n).astype(np.float64),
    "constant": lambda rng, n: np.full(n, 3.0),
    "missing": lambda rng, n: np.full(n, np.nan),
    "gaps": lambda rng, n: np.where(rng.random(n) < 0.5, np.nan, rng.normal(size=n)),
    "repeated": lambda rng, n: np.linspace(0.0, 1.0, n),  # the same column each time
    "skewed": lambda rng, n: np.exp(5.0 * rng.normal(size=n)),
}
CONTAINERS = ["array", "list", "sparse", *(["pandas"] if find_spec("pandas") else [])]


@st.composite
def tables(draw: st.DrawFn, n_rows: int) -> Any:
    """Tables: arrays, lists, sparse matrices and, with a text column, pandas dataframes.

    Columns may be constant, repeated, skewed, missing or with gaps.

    Parameters
    ----------
    n_rows : int
        Number of rows.
    """
    kinds = draw(st.lists(st.sampled_from(list(COLUMNS)), min_size=1, max_size=4))
    container = draw(st.sampled_from(CONTAINERS))
    rng = draw(generators)
    values = np.column_stack([COLUMNS[kind](rng, n_rows) for kind in kinds])
    if container == "list":
        return values.tolist()
    if container == "sparse":
        return sparse.csr_array(np.where(np.abs(values) < 0.5, 0.0, values))
    if container == "pandas":
        import pandas as pd

        frame = pd.DataFrame(values, columns=[f"c{i}" for i in range(len(kinds))])
        return frame.assign(text=rng.choice(["a", "b", "größe", ""], n_rows))
    return values


@st.composite
def numbers(draw: st.DrawFn, n_rows: int) -> NDArray[np.float64]:
    """Labels of a regression, NaN where unknown; at least one is known.

    Parameters
    ----------
    n_rows : int
        Number of labels.
    """
    kind = draw(st.sampled_from(["normal", "constant", "counts"]))
    rng = draw(generators)
    y = np.full(n_rows, 7.0) if kind == "constant" else rng.normal(size=n_rows)
    if kind == "counts":
        y = rng.poisson(2.0, n_rows).astype(np.float64)
    return np.where(_is_hidden(draw, rng, n_rows, n_known=1), np.nan, y)


@st.composite
def classes(draw: st.DrawFn, n_rows: int) -> NDArray[Any]:
    """Labels of a classification: text, integers, floats or booleans; None or NaN where unknown.

    Parameters
    ----------
    n_rows : int
        Number of labels.
    """
    n_classes = draw(st.integers(2, 4))
    kind = draw(st.sampled_from(["text", "integer", "float", "bool"]))
    rng = draw(generators)
    codes = rng.integers(0, n_classes, n_rows)
    codes[:n_classes] = np.arange(n_classes)[:n_rows]
    y = {
        "text": np.array([f"class {code}" for code in codes], dtype=object),
        "integer": codes.astype(object) * 10**15,
        "float": codes.astype(np.float64),
        "bool": (codes % 2 == 0).astype(object),
    }[kind]
    y[_is_hidden(draw, rng, n_rows, n_known=n_classes)] = np.nan if kind == "float" else None
    return y


def _is_hidden(draw: st.DrawFn, rng: Generator, n_rows: int, n_known: int) -> NDArray[np.bool_]:
    """Which labels are unknown: none, half or all but the first few."""
    hidden = rng.random(n_rows) < draw(st.sampled_from([0.0, 0.5, 1.0]))
    hidden[:n_known] = False
    return hidden


_LAMBDAS = st.sampled_from([0.0, 0.3, 2.0])
_STEPS = st.sampled_from([0, 1, 5])
_METHODS = st.sampled_from(["gradient", "jacobi", "chebyshev", "exact"])
_NAMES = ["laplacian", "regularized", "diffusion", "random-walk", "inverse-cosine"]
_KERNELS = st.sampled_from(_NAMES)
_PENALTIES = st.sampled_from(["log", "sqrt", "geman-mcclure", "truncated", 0.5, 2.0])
_SHARES = st.sampled_from([0.5, 1.0])
SMOOTHERS = st.one_of(
    st.builds(eb.Laplacian, _LAMBDAS, _STEPS, normalized=st.booleans(), method=_METHODS),
    st.builds(eb.Kernel, _KERNELS, _LAMBDAS, degree=st.sampled_from([None, 0, 8])),
    st.builds(eb.Kernel, _KERNELS, _LAMBDAS, method=st.just("gradient"), n_steps=_STEPS),
    st.builds(eb.Robust, _LAMBDAS, _STEPS, penalty=_PENALTIES, normalized=st.booleans()),
)
_SWITCHES = dict.fromkeys(["leave_one_out", "normalized", "similarity"], st.booleans())
_UNLABELLED = st.sampled_from([0.0, 1.0])
FIELDS = st.builds(eb.LatentField, st.sampled_from([0.0, 2.0]), unlabelled=_UNLABELLED, **_SWITCHES)
LEARNERS = st.one_of(
    st.just("lightgbm"),
    st.builds(eb.LightGBM, st.sampled_from([2, 31]), subsample=_SHARES),
    st.builds(eb.XGBoost, st.sampled_from([1, 6]), colsample_bytree=_SHARES),
    st.builds(eb.CatBoost, st.sampled_from([1, 4]), newton=st.booleans()),
    st.sampled_from([Ridge(), DecisionTreeRegressor(max_depth=3)]).map(eb.ScikitLearn),
    st.just([Ridge(), DecisionTreeRegressor(max_depth=2)]),
)
LABELS = st.sampled_from(["auto", "none", "field", "leave-one-out", "masked"])
LOSSES = ["squared_error", "huber", "quantile", "poisson", eb.Huber(0.5)]
PARAMETERS: dict[str, st.SearchStrategy[Any]] = {
    "learning_rate": st.sampled_from([None, 0.1, 1.0]),
    "smoothing": st.sampled_from(["auto", None]) | SMOOTHERS,
    "labels": LABELS | FIELDS,
    "neighbor_features": st.sampled_from(["auto", None])
    | st.builds(eb.NeighborFeatures, degree=st.booleans()),
    "feature_smoothing": st.sampled_from(["auto", None]) | SMOOTHERS,
    "spectral_features": st.sampled_from(["auto", None])
    | st.builds(eb.SpectralFeatures, st.integers(1, 5)),
    "learner": LEARNERS,
    "momentum": st.sampled_from([False, True, "simple", eb.CorrectedMomentum(0.1)]),
    "penalty": st.sampled_from([0.0, 0.1]),
    "early_stopping": st.booleans(),
    "eval_metric": st.sampled_from(["loss", "deviance"]),
    "selection": st.sampled_from(["search", "rules", "thorough"]),
    "n_folds": st.sampled_from(["auto", 1, 2]),
    "validation_fraction": st.sampled_from([0.1, 0.3]),
    "n_iter_no_change": st.sampled_from([None, 1, 5]),
    "categorical_features": st.sampled_from(["auto", [0]]),
    "n_jobs": st.sampled_from([None, 1]),
    "random_state": st.sampled_from([None, 0, 2**31]),
}


def estimators(classifier: bool) -> st.SearchStrategy[Estimator]:
    """Unfitted estimators of a few rounds, with any of their parameters changed.

    Some combinations, such as ``labels="field"`` with a Huber loss, raise an error in ``fit``.

    Parameters
    ----------
    classifier : bool
        Whether to draw classifiers rather than regressors.
    """
    estimator = eb.EBBSClassifier if classifier else eb.EBBSRegressor
    optional = PARAMETERS | {"loss": st.sampled_from(["log_loss"] if classifier else LOSSES)}
    if classifier:
        optional["class_weight"] = st.sampled_from([None, "balanced"])
    rounds = {"n_estimators": st.sampled_from([1, 3])}
    changes = st.fixed_dictionaries(rounds, optional=optional)
    return changes.map(lambda parameters: estimator().set_params(**parameters))


@dataclass
class Case:
    """What a fit and a prediction on another graph need.

    Attributes
    ----------
    estimator : EBBSRegressor or EBBSClassifier
        Not fitted.
    X, y : table and array
        Rows and labels.
    graph, new_graph : Graph, dict of Graph or None
        Two graphs of the rows, or two sets of relations with the same names.
    fit : dict
        More arguments of ``fit``.
    """

    estimator: Estimator
    X: Any
    y: NDArray[Any]
    graph: Graphs
    new_graph: Graphs
    fit: dict[str, Any] = field(default_factory=dict)


@st.composite
def cases(draw: st.DrawFn, max_nodes: int = 70) -> Case:
    """Estimators with a table, labels, and graphs, relations or no graph.

    Parameters
    ----------
    max_nodes : int, default=70
        Largest number of rows.

    Examples
    --------
    >>> from hypothesis import given, settings
    >>> from ebboost.testing import cases
    >>> @settings(max_examples=1, deadline=None)
    ... @given(cases())
    ... def test_my_wrapper(case):
    ...     case.estimator.fit(case.X, case.y, graph=case.graph)
    """
    classifier = draw(st.booleans())
    n = draw(st.sampled_from([1, 2, 5, 12, 30, max_nodes]))
    kind = draw(st.sampled_from(["graph", "relations", "none"]))
    pair: tuple[Graphs, Graphs] = (None, None)
    if kind == "graph":
        pair = draw(st.tuples(graphs(n, n), graphs(n, n)))
    elif kind == "relations":
        named = draw(relations(n))
        pair = (named, {name: draw(graphs(n, n)) for name in named})
    y = draw(classes(n) if classifier else numbers(n))
    weight = draw(st.none() | generators.map(lambda rng: {"sample_weight": rng.random(n)}))
    return Case(draw(estimators(classifier)), draw(tables(n)), y, *pair, weight or {})
