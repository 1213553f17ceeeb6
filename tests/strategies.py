"""The strategies of ebboost.testing, and inputs beyond them: extreme weights and labels, every
kind of table, parameters out of bounds."""

from dataclasses import replace
from importlib.util import find_spec

import numpy as np
from hypothesis import strategies as st
from scipy import sparse

import ebboost as eb
from ebboost.testing import cases, generators, graphs, numbers, random_graph, signed_graphs

__all__ = [
    "any_classes",
    "any_graphs",
    "any_numbers",
    "any_tables",
    "graphs",
    "hard_cases",
    "random_graph",
    "signed_graphs",
]

WORDS = np.array(["a", "b", "größe", "", "NaN", "1"], dtype=object)
COLUMNS = {
    "normal": lambda rng, n: rng.normal(size=n),
    "gaps": lambda rng, n: np.where(rng.random(n) < 0.5, np.nan, rng.normal(size=n)),
    "infinite": lambda rng, n: np.where(np.arange(n) == rng.integers(n), np.inf, 0.5),
    "largest": lambda rng, n: rng.choice([-1e308, 1e308], n),
    "smallest": lambda rng, n: rng.integers(0, 3, n) * 5e-324,
}
ARRAYS = ["float32", "big-endian", "int64", "bool", "read-only", "strided", "fortran", "objects"]
SPARSE = ["csc", "coo"]
DATAFRAMES = [library for library in ("pandas", "polars", "pyarrow") if find_spec(library)]
NAN = float("nan")
# Each must raise a ValueError or TypeError in fit, or be fitted.
PARAMETERS = [
    *(("learning_rate", value) for value in (0.0, 2.0, NAN, "fast")),
    *(("smoothing", eb.Laplacian(lam, 3)) for lam in (1e-300, 1e12, 1e300, -1.0, NAN)),
    *(("smoothing", eb.Kernel("diffusion", lam)) for lam in (1e12, -1.0)),
    *(("smoothing", eb.Robust(lam)) for lam in (1e300, NAN)),
    *(("labels", value) for value in ("all", None, eb.LatentField(1e300), eb.LatentField(-1.0))),
    *(("labels", eb.LatentField(2.0, tau)) for tau in (1e-12, 1e300, 0.0)),
    ("neighbor_features", True),
    *(("loss", value) for value in ("mse", "squared_error", 3)),
    *(("momentum", value) for value in ("fast", 2)),
    *(("penalty", value) for value in (-1.0, 1e300, NAN)),
    *(("validation_fraction", value) for value in (0.0, 1.0)),
    *(("n_iter_no_change", value) for value in (0, 1.5)),
    *(("categorical_features", value) for value in ([99], ["no such"], "c0", [True])),
    *(("n_jobs", value) for value in (0, -2, "all")),
    ("class_weight", "heavy"),
]


@st.composite
def any_graphs(draw, n_nodes):
    """Graphs whose weights may be tiny, huge, or both."""
    graph = draw(graphs(n_nodes, n_nodes))
    kind = draw(st.sampled_from(["mixed", "tiny", "huge"]))
    rng = draw(generators)
    edges = sparse.triu(graph.adjacency, format="coo")
    weight = {
        "mixed": 10.0 ** rng.uniform(-300, 300, edges.nnz),
        "tiny": np.full(edges.nnz, 1e-300),
        "huge": np.full(edges.nnz, 1e300),
    }[kind]
    return eb.Graph.from_edges(*edges.coords, weight, n_nodes=n_nodes)


@st.composite
def any_tables(draw, n_rows):
    """Tables in every container that a fit takes, with infinite, huge, tiny and mixed columns."""
    kinds = draw(st.lists(st.sampled_from(list(COLUMNS)), min_size=1, max_size=4))
    families = [family for family in (ARRAYS, SPARSE, DATAFRAMES) if family]
    container = draw(st.one_of(*(st.sampled_from(family) for family in families)))
    rng = draw(generators)
    values = np.column_stack([COLUMNS[kind](rng, n_rows) for kind in kinds])
    integers = np.nan_to_num(values, nan=0.0, posinf=9.0, neginf=-9.0).clip(-9, 9).round()
    if container in DATAFRAMES:
        return _frame(draw, container, values, integers, rng)
    if container in SPARSE:
        return sparse.coo_array(np.where(np.abs(values) < 0.5, 0.0, values)).asformat(container)
    if container == "objects":
        objects = values.astype(object)
        objects[np.isnan(values)] = None
        stray = [None, "text", (1, 2), b"bytes", 1 + 2j, object, 10**400]
        objects[rng.integers(n_rows), 0] = draw(st.sampled_from(stray))
        return objects
    if container == "read-only":
        values.flags.writeable = False
        return values
    with np.errstate(over="ignore", under="ignore"):
        return {
            "float32": lambda: values.astype(np.float32),
            "big-endian": lambda: values.astype(">f8"),
            "int64": lambda: integers.astype(np.int64),
            "bool": lambda: integers.astype(bool),
            "strided": lambda: np.repeat(values, 2, axis=0)[::2],
            "fortran": lambda: np.asfortranarray(values),
        }[container]()


def _frame(draw, library, values, integers, rng):
    """The columns as a dataframe of a library, and one more of a type that arrays lack."""
    n = len(values)
    named = {f"c{i}": values[:, i] for i in range(values.shape[1])}
    text = WORDS[rng.integers(0, len(WORDS), n)].tolist()
    flags = (integers[:, 0] > 0).tolist()
    text[0] = None
    flags[-1] = None
    if library == "polars":
        import polars as pl

        return pl.DataFrame(named | {"text": text, "flags": flags})
    if library == "pyarrow":
        import pyarrow as pa

        return pa.table(named | {"text": text, "flags": flags})
    import pandas as pd

    first = integers[:, 0].astype(np.int64)
    extra = {
        "text": pd.array(text, dtype="string"),
        "objects": np.asarray(text, dtype=object),
        "category": pd.Categorical(text),
        "numbers as category": pd.Categorical(first),
        "Int64": pd.array([None, *first[1:].tolist()], dtype="Int64"),
        "boolean": pd.array(flags, dtype="boolean"),
        "Float32": pd.array(values[:, 0].clip(-9, 9), dtype="Float32"),
        "sparse": pd.arrays.SparseArray(integers[:, 0]),
        "dates": pd.date_range("2024-01-01", periods=n, tz="Europe/Berlin"),
        "mixed": np.asarray([1, "two", None, 3.5] * n, dtype=object)[:n],
        "tuples": pd.Series([(1, 2)] * n).to_numpy(),
        "complex": values[:, 0] + 1j,
    }
    indexes = {None: None, "text": [f"n{i}" for i in range(n)], "gaps": 3 * np.arange(n)}
    frame = pd.DataFrame(named, index=indexes[draw(st.sampled_from(list(indexes)))])
    frame["extra"] = extra[draw(st.sampled_from(list(extra)))]
    return frame


@st.composite
def any_numbers(draw, n_rows):
    """Labels of a regression that are huge, tiny, of every magnitude, or infinite."""
    y = draw(numbers(n_rows))
    kind = draw(st.sampled_from(["huge", "tiny", "mixed", "infinite"]))
    rng = draw(generators)
    if kind == "infinite":
        y[rng.integers(n_rows)] = np.inf
        return y
    exponent = {
        "huge": rng.uniform(20, 308),
        "tiny": -rng.uniform(20, 320),
        "mixed": rng.uniform(-300, 300, n_rows),
    }[kind]
    with np.errstate(over="ignore", under="ignore"):
        return y * 10.0**exponent


def any_classes(n_rows):
    """Labels of a classification: a single class, or one for each node."""
    single = np.full(n_rows, "single", dtype=object)
    return st.sampled_from([single, np.arange(n_rows).astype(object)]).map(np.copy)


@st.composite
def hard_cases(draw, max_nodes=70):
    """Cases of which one or two parts are extreme or invalid.

    Were all of them, every case would raise an error for the first.
    """
    case = draw(cases(max_nodes))
    n = len(case.y)
    is_classifier = isinstance(case.estimator, eb.EBBSClassifier)
    parts = st.sampled_from(["graph", "table", "labels", "weight", "parameters"])
    hard = draw(st.sets(parts, max_size=2))
    if "graph" in hard and case.graph is not None:
        case = replace(case, graph=draw(any_graphs(n)), new_graph=draw(any_graphs(n)))
    if "table" in hard:
        case = replace(case, X=draw(any_tables(n)))
    if "labels" in hard:
        case = replace(case, y=draw(any_classes(n) if is_classifier else any_numbers(n)))
    if "weight" in hard:
        rng = draw(generators)
        weights = [10.0 ** rng.uniform(-300, 300, n), np.zeros(n), -np.ones(n)]
        case = replace(case, fit={"sample_weight": draw(st.sampled_from(weights))})
    if "parameters" in hard:
        known = case.estimator.get_params(deep=False)
        changes = st.sampled_from([change for change in PARAMETERS if change[0] in known])
        case.estimator.set_params(**dict([draw(changes)]))
    return case
