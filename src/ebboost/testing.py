"""Hypothesis strategies for all that an estimator can be handed: for your own property tests, and for ours.

A strategy draws a few choices (what kind, how many, a seed) and numpy the numbers, so that failing cases shrink to a plain
kind and drawing is quick. By default what is drawn is ordinary; ``extreme=True`` adds what goes wrong elsewhere: weights
from 1e-300 to 1e300, huge and tiny labels, infinite and mixed columns, parameters that must be refused.
Needs hypothesis: ``pip install 'ebboost[testing]'``.
"""

from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.linear_model import Ridge
from sklearn.tree import DecisionTreeRegressor

import ebboost as eb

try:
    from hypothesis import strategies as st
except ImportError:
    raise ImportError("ebboost.testing needs hypothesis: pip install 'ebboost[testing]'.") from None

__all__ = [
    "Case",
    "cases",
    "classes",
    "estimators",
    "graphs",
    "numbers",
    "random_graph",
    "relations",
    "signed_graphs",
    "tables",
]

SHAPES = ("random", "empty", "path", "hub", "complete", "parts")
seeds = st.integers(0, 2**32 - 1)


# ---------------------------------------------------------------------- graphs


@st.composite
def graphs(
    draw: st.DrawFn, min_nodes: int = 1, max_nodes: int = 12, extreme: bool = False
) -> eb.Graph:
    """Graphs without edges, paths, hubs, complete ones, several parts, isolated nodes; with weights or without.

    Parameters
    ----------
    min_nodes, max_nodes : int
    extreme : bool
        Whether weights may lie anywhere between 1e-300 and 1e300.

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
    n = draw(st.integers(min_nodes, max_nodes))
    shape = draw(st.sampled_from(SHAPES))
    density = draw(st.sampled_from([0.1, 0.3, 0.7])) if shape == "random" else 1.0
    kind = draw(
        st.sampled_from(["plain", "weighted", *(["extreme", "tiny", "huge"] if extreme else [])])
    )
    rng = np.random.default_rng(draw(seeds))
    rows, columns = np.triu_indices(n, 1)
    keep = {
        "random": rng.random(rows.size) < density,
        "empty": np.zeros(rows.size, dtype=bool),
        "path": columns == rows + 1,
        "hub": rows == 0,
        "complete": np.ones(rows.size, dtype=bool),
        "parts": rows % 3 == columns % 3,
    }[shape]
    rows, columns = rows[keep], columns[keep]
    weight = {
        "plain": lambda size: np.ones(size),
        "weighted": lambda size: rng.lognormal(sigma=1.5, size=size),
        "extreme": lambda size: 10.0 ** rng.uniform(-300, 300, size),
        "tiny": lambda size: np.full(size, 1e-300),
        "huge": lambda size: np.full(size, 1e300),
    }[kind](rows.size)
    return eb.Graph.from_edges(rows, columns, weight, n_nodes=n)


@st.composite
def signed_graphs(draw: st.DrawFn, min_nodes: int = 1, max_nodes: int = 12) -> eb.Graph:
    """Mixtures of a relation between like and one between unlike nodes."""
    n = draw(st.integers(min_nodes, max_nodes))
    like, unlike = draw(graphs(n, n)), draw(graphs(n, n))
    return eb.Graph.mix(
        {"like": like, "unlike": unlike}, {"like": 1.0, "unlike": draw(st.floats(-3.0, -0.1))}
    )


def relations(n_nodes: int, extreme: bool = False) -> st.SearchStrategy[dict[str, eb.Graph]]:
    """One to three graphs of the same nodes, by name."""
    return st.dictionaries(
        st.sampled_from(["friend", "city", "größe"]),
        graphs(n_nodes, n_nodes, extreme),
        min_size=1,
        max_size=3,
    )


def random_graph(n: int, n_edges: int, seed: int = 0) -> eb.Graph:
    """A graph of a given size, without drawing."""
    rng = np.random.default_rng(seed)
    ends = np.sort(rng.integers(0, n, (n_edges, 2)), axis=1)
    return eb.Graph.from_edges(ends[:, 0], ends[:, 1], n_nodes=n)


# ---------------------------------------------------------------------- tables

_WORDS = np.array(["a", "b", "größe", "", "NaN", "1"], dtype=object)
_ARRAYS = [
    "float64",
    "float32",
    "int64",
    "bool",
    "big-endian",
    "read-only",
    "strided",
    "fortran",
    "list",
    "objects",
]
_SPARSE = ["csr", "csc", "coo"]
_DATAFRAMES = [library for library in ("pandas", "polars", "pyarrow") if find_spec(library)]
_PLAIN = ("normal", "whole", "constant", "missing", "holes", "twins", "skewed")
_EXTREME = ("infinite", "largest", "smallest")


def _column(kind: str, n: int, rng: np.random.Generator) -> NDArray[np.float64]:
    values: NDArray[np.float64] = rng.normal(size=n)
    if kind == "whole":
        return rng.integers(-3, 4, n).astype(np.float64)
    if kind == "twins":
        return np.linspace(0.0, 1.0, n)  # the same column each time it is drawn
    if kind == "constant":
        return np.full(n, 3.0)
    if kind == "missing":
        return np.full(n, np.nan)
    if kind == "holes":
        values[rng.random(n) < 0.5] = np.nan
    if kind == "skewed":
        values = np.exp(5.0 * values)
    if kind == "infinite":
        values[rng.integers(n)] = rng.choice([np.inf, -np.inf])
    if kind == "largest":
        return rng.choice([-1e308, 1e308], n)
    if kind == "smallest":
        return np.asarray(rng.integers(0, 3, n) * 5e-324, dtype=np.float64)
    return values


@st.composite
def tables(draw: st.DrawFn, n_rows: int, extreme: bool = False) -> Any:
    """Tables of a given length, in everything that a fit takes: arrays of any layout, sparse matrices, dataframes.

    Columns may be constant, missing throughout, with holes, the same twice; those of dataframes may hold text, categories,
    booleans and pandas' extension types. With ``extreme``: infinite entries, the largest and smallest floats, objects that
    mix types, dates.
    """
    kinds = draw(
        st.lists(st.sampled_from([*_PLAIN, *(_EXTREME if extreme else ())]), min_size=1, max_size=4)
    )
    rng = np.random.default_rng(draw(seeds))
    values = np.column_stack([_column(kind, n_rows, rng) for kind in kinds])
    container = draw(
        st.one_of(
            *(st.sampled_from(family) for family in (_ARRAYS, _SPARSE, _DATAFRAMES) if family)
        )
    )
    whole = np.nan_to_num(values, nan=0.0, posinf=9.0, neginf=-9.0).clip(-9, 9).round()
    if container in ("float64", "float32", "big-endian"):
        with np.errstate(over="ignore", under="ignore"):
            return values.astype({"big-endian": ">f8"}.get(container, container))
    if container in ("int64", "bool"):
        return whole.astype(container)
    if container == "read-only":
        values.flags.writeable = False
        return values
    if container == "strided":
        return np.repeat(values, 2, axis=0)[::2]
    if container == "fortran":
        return np.asfortranarray(values)
    if container == "list":
        return values.tolist()
    if container == "objects":
        objects = values.astype(object)
        objects[np.isnan(values)] = None
        if extreme and draw(st.booleans()):
            objects[rng.integers(n_rows), 0] = draw(
                st.sampled_from(["text", (1, 2), b"bytes", 1 + 2j, object, 10**400])
            )
        return objects
    if container in _SPARSE:
        return sparse.coo_array(np.where(np.abs(values) < 0.5, 0.0, values)).asformat(container)
    return _frame(draw, container, values, whole, rng, extreme)


def _frame(
    draw: st.DrawFn,
    library: str,
    values: NDArray[Any],
    whole: NDArray[Any],
    rng: np.random.Generator,
    extreme: bool,
) -> Any:
    """The columns as a dataframe of a library, and one more of a type that arrays lack."""
    n = len(values)
    words = _WORDS[rng.integers(0, len(_WORDS), n)]
    named = {f"c{i}": values[:, i] for i in range(values.shape[1])}
    text = words.tolist()
    flags = (whole[:, 0] > 0).tolist()
    text[0] = flags[-1] = None
    if library != "pandas":
        named |= {"text": text, "flags": flags}
        if library == "polars":
            import polars as pl

            return pl.DataFrame(named)
        import pyarrow as pa

        return pa.table(named)
    import pandas as pd

    index = draw(st.sampled_from([None, "text", "gaps"]))
    frame = pd.DataFrame(
        named,
        index={None: None, "text": [f"n{i}" for i in range(n)], "gaps": 3 * np.arange(n)}[index],
    )
    integers = whole[:, 0].astype(np.int64)
    extra: dict[str, Any] = {
        "text": pd.array(text, dtype="string"),
        "objects": np.asarray(text, dtype=object),
        "category": pd.Categorical(text),
        "numbers as category": pd.Categorical(integers),
        "Int64": pd.array([None, *integers[1:].tolist()], dtype="Int64"),
        "boolean": pd.array(flags, dtype="boolean"),
        "Float32": pd.array(values[:, 0].clip(-9, 9), dtype="Float32"),
        "sparse": pd.arrays.SparseArray(whole[:, 0]),
    }
    if extreme:
        extra |= {
            "dates": pd.date_range("2024-01-01", periods=n, tz="Europe/Berlin"),
            "mixed": np.asarray([1, "two", None, 3.5] * n, dtype=object)[:n],
            "tuples": pd.Series([(1, 2)] * n).to_numpy(),
            "complex": values[:, 0] + 1j,
        }
    kind = draw(st.sampled_from(list(extra)))
    frame["extra"] = extra[kind]
    return frame


# ---------------------------------------------------------------------- labels


@st.composite
def numbers(draw: st.DrawFn, n_rows: int, extreme: bool = False) -> NDArray[np.float64]:
    """Labels of a regression, NaN where unknown; at least one is known."""
    rng = np.random.default_rng(draw(seeds))
    y = rng.normal(size=n_rows)
    kind = draw(
        st.sampled_from(
            [
                "normal",
                "constant",
                "counts",
                *(["huge", "tiny", "mixed", "infinite"] if extreme else []),
            ]
        )
    )
    if kind == "constant":
        y[:] = 7.0
    if kind == "counts":
        y = rng.poisson(2.0, n_rows).astype(np.float64)
    if kind in ("huge", "tiny"):
        y *= 10.0 ** rng.uniform(20, 308) if kind == "huge" else 10.0 ** -rng.uniform(20, 320)
    if kind == "mixed":
        y *= 10.0 ** rng.uniform(-300, 300, n_rows)
    if kind == "infinite":
        y[rng.integers(n_rows)] = np.inf
    return _hidden(draw, y, np.nan, rng)


@st.composite
def classes(draw: st.DrawFn, n_rows: int, extreme: bool = False) -> NDArray[Any]:
    """Labels of a classification, as text, whole numbers, booleans or objects, None where unknown.

    With ``extreme`` there may be one class alone, or one for each node.
    """
    rng = np.random.default_rng(draw(seeds))
    fewest, most = (1, max(n_rows, 1)) if extreme else (2, 4)
    count = draw(st.sampled_from([fewest, 2, 3, most]))
    codes = rng.integers(0, count, n_rows)
    codes[: min(count, n_rows)] = np.arange(count)[:n_rows]
    kind = draw(st.sampled_from(["text", "whole", "float", "bool"]))
    if kind == "bool":
        return _hidden(draw, (codes % 2 == 0).astype(object), None, rng, keep=2)
    if kind == "float":
        return _hidden(draw, codes.astype(np.float64), np.nan, rng, keep=count)
    names = np.array(
        [f"class {code}" if kind == "text" else code * 10**15 for code in range(count)],
        dtype=object,
    )
    return _hidden(draw, names[codes], None, rng, keep=count)


def _hidden(
    draw: st.DrawFn, y: NDArray[Any], unknown: Any, rng: np.random.Generator, keep: int = 1
) -> NDArray[Any]:
    """Hide labels of all nodes but the first few: none, some, or every one."""
    share = draw(st.sampled_from([0.0, 0.5, 1.0]))
    hidden = rng.random(y.size) < share
    hidden[:keep] = False
    y[hidden] = unknown
    return y


# ---------------------------------------------------------------------- parameters


def _smoothers(extreme: bool) -> st.SearchStrategy[Any]:
    strengths = st.sampled_from(
        [0.0, 0.3, 2.0, *([1e-300, 1e12, 1e300, -1.0, float("nan")] if extreme else [])]
    )
    steps = st.sampled_from([0, 1, 5])
    return st.one_of(
        st.builds(
            eb.Laplacian,
            strengths,
            st.sampled_from([0, 1, 5, "auto"]),
            normalized=st.booleans(),
            method=st.sampled_from(["gradient", "jacobi", "chebyshev", "exact"]),
        ),
        st.builds(
            eb.Kernel,
            st.sampled_from(
                ["laplacian", "regularized", "diffusion", "random-walk", "inverse-cosine"]
            ),
            strengths,
            method=st.sampled_from(["chebyshev", "gradient"]),
            n_steps=steps,
            degree=st.sampled_from([None, 0, 8]),
        ),
        st.builds(
            eb.Robust,
            strengths,
            steps,
            penalty=st.sampled_from(["log", "sqrt", "geman-mcclure", "truncated", 0.5, 2.0]),
            normalized=st.booleans(),
        ),
    )


def _fields(extreme: bool) -> st.SearchStrategy[Any]:
    return st.builds(
        eb.LatentField,
        st.sampled_from([0.0, 2.0, *([1e300, -1.0] if extreme else [])]),
        st.sampled_from([0.05, *([1e-12, 1e300, 0.0] if extreme else [])]),
        leave_one_out=st.booleans(),
        unlabelled=st.sampled_from([0.0, 1.0]),
        normalized=st.booleans(),
        similarity=st.booleans(),
    )


def _learners() -> st.SearchStrategy[Any]:
    return st.one_of(
        st.just("lightgbm"),
        st.builds(
            eb.LightGBM,
            st.sampled_from([2, 31]),
            min_child_samples=st.sampled_from([1, 20]),
            subsample=st.sampled_from([0.5, 1.0]),
        ),
        st.builds(
            eb.XGBoost, st.sampled_from([1, 6]), colsample_bytree=st.sampled_from([0.5, 1.0])
        ),
        st.builds(
            eb.CatBoost, st.sampled_from([1, 4]), newton=st.booleans(), from_average=st.booleans()
        ),
        st.sampled_from([Ridge(), DecisionTreeRegressor(max_depth=3)]).map(eb.ScikitLearn),
        st.just([Ridge(), DecisionTreeRegressor(max_depth=2)]),
    )


def estimators(classifier: bool, extreme: bool = False) -> st.SearchStrategy[Any]:
    """Unfitted estimators of a few rounds, any of their parameters changed; with ``extreme``, out of bounds too."""

    def among(*good: Any, bad: tuple[Any, ...] = ()) -> st.SearchStrategy[Any]:
        return st.sampled_from([*good, *(bad if extreme else ())])

    not_a_number = float("nan")
    smoothing = st.one_of(among("auto", None), _smoothers(extreme))
    losses = (
        among("auto", "log_loss", bad=("squared_error", 3))
        if classifier
        else among(
            "auto",
            "squared_error",
            "huber",
            "quantile",
            "poisson",
            eb.Huber(0.5),
            eb.Quantile(0.9),
            bad=("mse", 3),
        )
    )
    parameters: dict[str, st.SearchStrategy[Any]] = {
        "learning_rate": among(None, 0.1, 1.0, bad=(0.0, 2.0, not_a_number, "fast")),
        "smoothing": smoothing,
        "labels": st.one_of(
            among("auto", "none", "field", "leave-one-out", "masked", bad=("all", None)),
            _fields(extreme),
        ),
        "neighbor_features": st.one_of(
            among("auto", None, bad=(True,)), st.builds(eb.NeighborFeatures, degree=st.booleans())
        ),
        "feature_smoothing": st.one_of(among("auto", None), _smoothers(False)),
        "learner": _learners(),
        "loss": losses,
        "momentum": among(
            False, True, "simple", "corrected", eb.CorrectedMomentum(0.1), bad=("fast", 2)
        ),
        "penalty": among(0.0, 0.1, bad=(-1.0, 1e300, not_a_number)),
        "early_stopping": st.booleans(),
        "validation_fraction": among(0.1, 0.3, bad=(0.0, 1.0)),
        "n_iter_no_change": among(None, 1, 5, bad=(0, 1.5)),
        "categorical_features": among("auto", [0], bad=([99], ["no such"], "c0", [True])),
        "n_jobs": among(None, 1, bad=(0, -2, "all")),
        "random_state": among(None, 0, 2**31),
    }
    if classifier:
        parameters["class_weight"] = among(None, "balanced", bad=("heavy",))
    kind = eb.EBBSClassifier if classifier else eb.EBBSRegressor
    changes = st.fixed_dictionaries({"n_estimators": among(1, 3)}, optional=parameters)
    return changes.map(lambda drawn: kind(**drawn))


# ---------------------------------------------------------------------- all of it


@dataclass
class Case:
    """Everything that a fit and a prediction need."""

    estimator: Any
    X: Any
    y: Any
    graph: Any
    new_graph: Any
    fit: dict[str, Any] = field(default_factory=dict)


@st.composite
def cases(draw: st.DrawFn, extreme: bool = False, max_nodes: int = 70) -> Case:
    """An estimator, a table, labels, a graph or relations or neither, and another graph of the same rows.

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
    kind = draw(st.sampled_from(["one", "relations", "none"]))
    # One part or two at a time: a case that is wrong in every way is refused for the first of them.
    parts = st.sampled_from(["graph", "graph", "table", "labels", "weight", "parameters"])
    wild = draw(st.sets(parts, max_size=2)) if extreme else set()
    drawn = (classes if classifier else numbers)(n, "labels" in wild)
    one_graph: Any = (
        relations(n, "graph" in wild) if kind == "relations" else graphs(n, n, "graph" in wild)
    )
    graph: Any = None if kind == "none" else draw(one_graph)
    new_graph: Any = None if kind == "none" else draw(one_graph)
    if kind == "relations":  # the same names
        new_graph = {name: new_graph.get(name, other) for name, other in graph.items()}
    weight = draw(
        st.sampled_from(
            [None, "random", *(["extreme", "zero", "negative"] if "weight" in wild else [])]
        )
    )
    rng = np.random.default_rng(draw(seeds))
    weights = {
        "random": rng.random(n),
        "extreme": 10.0 ** rng.uniform(-300, 300, n),
        "zero": np.zeros(n),
        "negative": -np.ones(n),
    }
    fit = {} if weight is None else {"sample_weight": weights[weight]}
    estimator = draw(estimators(classifier, "parameters" in wild))
    return Case(estimator, draw(tables(n, "table" in wild)), draw(drawn), graph, new_graph, fit)
