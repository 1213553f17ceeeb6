import gc
import multiprocessing
import os
import pickle
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import ebboost as eb
from ebboost._native import COMPILED, threads
from ebboost.propagation import GraphMatrix, _compiled, sweep_on
from ebboost.propagation._compiled import CompiledSweep
from ebboost.propagation._ordering import row_order, shared_order
from ebboost.propagation._sweep import ScipySweep, Steps, Sweep
from tests.strategies import graphs, random_graph

compiled = pytest.mark.skipif(COMPILED is None, reason="no compiler")
LOOPS = ["scipy", pytest.param("compiled", marks=compiled), pytest.param("shared", marks=compiled)]
DOUBLE = np.dtype(np.float64)


def sweep_by(loops: str, adjacency: sparse.csr_array) -> Sweep:
    """The sweep by some loops; "shared" reads sums of pairs and fours whether that pays or not."""
    if loops == "scipy":
        return ScipySweep(adjacency)
    if loops == "compiled" or not (adjacency.data == 1.0).all():
        return CompiledSweep(adjacency)
    nodes = np.arange(adjacency.shape[0], dtype=np.int32)
    return CompiledSweep(adjacency, shared_order(adjacency, nodes))


@pytest.mark.parametrize("loops", LOOPS)
@given(
    graph=graphs(),
    width=st.sampled_from([None, 1, 2, 5, 9, 20]),
    given_terms=st.integers(0, 7),
    short=st.booleans(),
)
def test_a_sweep_equals_its_closed_form(loops, graph, width, given_terms, short):
    rng, n = np.random.default_rng(0), graph.n_nodes
    dtype = np.float32 if short else np.float64
    v, source = rng.normal(size=(2, n) if width is None else (2, n, width)).astype(dtype)
    scale, keep = rng.normal(size=(2, n)).astype(dtype)
    terms = {"scale": scale, "keep": keep, "source": source}
    terms = {name: term for bit, (name, term) in enumerate(terms.items()) if given_terms >> bit & 1}
    found = sweep_by(loops, graph.adjacency)(v, **terms)

    def columnwise(name, default):
        vector = terms.get(name, np.full(n, default)).astype(np.float64)
        return vector if width is None else vector[:, None]

    dense = graph.adjacency.toarray()
    expected = (
        columnwise("scale", 1.0) * (dense @ v)
        + columnwise("keep", 0.0) * v
        + terms.get("source", 0.0)
    )
    size = np.abs(dense).sum() + 1.0
    assert found.dtype == dtype and found.shape == v.shape
    np.testing.assert_allclose(
        found, expected, atol=size * (1e-5 if short else 1e-13), rtol=1e-5 if short else 1e-12
    )


@compiled
@pytest.mark.parametrize("bits", [16, 32])
@pytest.mark.parametrize("kind", ["unit", "weighted", "shared"])
@pytest.mark.parametrize("n_nodes", [1, 3, 4, 5, 203])
def test_rows_of_any_length_are_summed(bits, kind, n_nodes, monkeypatch):
    monkeypatch.setattr(_compiled, "SHORT_LENGTH", 1 << 16 if bits == 16 else 0)
    weighted, loops = kind == "weighted", "shared" if kind == "shared" else "compiled"
    rng = np.random.default_rng(n_nodes)
    dense = rng.normal(size=(n_nodes, n_nodes)) if weighted else np.ones((n_nodes, n_nodes))
    kept = rng.random(dense.shape) < rng.random((n_nodes, 1)) ** 4  # rows from empty to full
    kept[:: n_nodes // 4 + 1] = True
    sweep = sweep_by(loops, sparse.csr_array(np.where(kept, dense, 0.0)))
    v, right = rng.normal(size=(2, n_nodes))
    np.testing.assert_allclose(sweep(v), np.where(kept, dense, 0.0) @ v, atol=1e-12)
    diagonal = 3.0 * n_nodes + rng.random(n_nodes)
    symmetric = sweep_by(
        loops, sparse.csr_array(np.where(kept & kept.T, (dense + dense.T) / 2, 0.0))
    )
    assert sweep.layout(DOUBLE).bits == bits
    z, _ = symmetric.conjugate_gradients(
        right, (diagonal, 1 / diagonal, np.ones(n_nodes)), 1e-12, 100
    )
    np.testing.assert_allclose(diagonal * z - symmetric(z), right, atol=1e-10)


@pytest.mark.parametrize("loops", LOOPS)
@given(
    graph=graphs(),
    short=st.booleans(),
    count=st.integers(0, 4),
    width=st.sampled_from([None, 1, 3, 9]),
)
def test_steps_are_sweeps_between_two_scalings(loops, graph, short, count, width):
    rng, n, dtype = np.random.default_rng(0), graph.n_nodes, np.float32 if short else np.float64
    scores = rng.normal(size=n if width is None else (n, width)).astype(dtype)
    root, scale, keep = (rng.random((3, n)) + 0.1).astype(dtype)
    sweep = sweep_by(loops, graph.adjacency)
    at_root = root if width is None else root[:, None]
    expected = v = at_root * scores
    for _ in range(count):
        expected = sweep(expected, scale, keep, dtype(0.3) * v)
    for _ in range(2):  # the second time in memory that was written to
        found = sweep.steps(root, scale, keep, 0.3, count)(scores)
        np.testing.assert_allclose(
            found, expected / at_root, rtol=1e-4 if short else 1e-12, atol=1e-5 if short else 1e-12
        )
        assert found.dtype == dtype and found.shape == scores.shape


def test_one_adjacency_is_laid_out_once():
    graph = eb.Graph.from_edges([0, 1], [1, 2])
    one, two = eb.Laplacian(1.0).operator(graph), eb.Laplacian(2.0).operator(graph)
    assert one._matrix.sweep is two._matrix.sweep
    assert sweep_on(graph.adjacency.copy()) is not one._matrix.sweep


@pytest.mark.parametrize("kind", ["unit", "weighted", pytest.param("shared", marks=compiled)])
@pytest.mark.parametrize("width", [1, 3])
def test_results_do_not_depend_on_the_number_of_threads(kind, width, monkeypatch):
    monkeypatch.setattr(_compiled, "WORTH_A_THREAD", 100)
    rng, n = np.random.default_rng(0), 20_000
    if kind == "shared":
        adjacency = eb.Graph.build_knn(rng.random((n, 2)), k=12).adjacency
    else:
        ends = np.sort(rng.integers(0, n, (40_000, 2)), axis=1)
        weight = rng.random(40_000) if kind == "weighted" else None
        adjacency = eb.Graph.from_edges(ends[:, 0], ends[:, 1], weight=weight, n_nodes=n).adjacency
    sweep, v = sweep_on(adjacency), rng.normal(size=(n, width))
    root, scale, keep = rng.random((3, n)) + 0.5
    alone, steps = sweep(v, source=v), sweep.steps(root, scale, keep, 0.3, 3)(v)
    with threads(3):
        together, steps_together = sweep(v, source=v), sweep.steps(root, scale, keep, 0.3, 3)(v)
    if COMPILED is not None:
        assert (sweep.order.rows is not None) == (kind == "shared")
        assert len(set(sweep.order.ranges.split(3))) == 4
    np.testing.assert_array_equal(alone, together)
    np.testing.assert_array_equal(steps, steps_together)
    np.testing.assert_allclose(alone, adjacency @ v + v, atol=1e-12)


@compiled
def test_threads_read_equal_shares_of_the_rows(monkeypatch):
    """Rows with sums are divided at windows, of which a small graph has one; others anywhere."""
    monkeypatch.setattr(_compiled, "WORTH_A_THREAD", 100)
    adjacency = eb.Graph.build_knn(np.random.default_rng(0).random((4000, 2)), k=12).adjacency
    sweep, degrees = sweep_on(adjacency), np.diff(adjacency.indptr)
    with threads(3):
        assert sweep.order.rows is not None and sweep.layout(DOUBLE).n_threads == 1
        monkeypatch.setattr(_compiled, "WINDOW", 2000)
        assert sweep.layout(DOUBLE).n_threads == 2
        monkeypatch.setattr(_compiled, "WINDOW", 500)
        assert sweep.layout(DOUBLE).n_threads == 3
    read = np.add.reduceat(degrees[sweep.order.wide_nodes], sweep.order.wide_ranges.split(3)[:-1])
    np.testing.assert_allclose(read, degrees.sum() / 3, rtol=0.01)


@compiled
def test_several_columns_are_summed_in_the_order_of_a_graph_without_sums():
    """They read no sums, and rows sorted by length are a quarter faster."""
    adjacency = eb.Graph.build_knn(np.random.default_rng(0).random((6000, 2)), k=12).adjacency
    order = sweep_on(adjacency).order
    assert order.rows is not None
    np.testing.assert_array_equal(order.wide_nodes, row_order(adjacency).nodes)


def _sweep_in_child(size: int) -> float:
    adjacency = eb.Graph.from_edges(np.arange(size - 1), np.arange(1, size), n_nodes=size).adjacency
    with threads(2):
        return float(sweep_on(adjacency)(np.ones(size)).sum())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_process_starts_its_own_threads(monkeypatch):
    monkeypatch.setattr(_compiled, "WORTH_A_THREAD", 100)
    expected = _sweep_in_child(1000)  # the parent's threads are running now
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.apply_async(_sweep_in_child, (1000,)).get(timeout=30) == expected == 1998.0


@pytest.mark.parametrize("loops", LOOPS)
@given(graph=graphs(), strength=st.floats(0.1, 10.0))
def test_a_graph_matrix_is_its_closed_form(loops, graph, strength):
    rng, n = np.random.default_rng(1), graph.n_nodes
    diagonal, root = rng.normal(size=n), rng.random(n) + 0.1
    matrix = GraphMatrix(graph.adjacency, diagonal, strength, root)
    matrix.sweep = sweep_by(loops, graph.adjacency)
    dense = np.diag(diagonal) - strength * root[:, None] * graph.adjacency.toarray() * root[None, :]
    np.testing.assert_allclose(matrix.csr.toarray(), dense, atol=1e-12)
    for v in (rng.normal(size=n), rng.normal(size=(n, 3))):
        np.testing.assert_allclose(matrix @ v, dense @ v, atol=1e-9)
        np.testing.assert_allclose(matrix.T @ v, dense @ v, atol=1e-9)


@compiled
@given(graph=graphs())
def test_compiled_conjugate_gradients_solve_the_system(graph):
    n = graph.n_nodes
    diagonal = graph.degrees + np.linspace(0.1, 2.0, n)
    right, size = np.cos(np.arange(n)), np.linspace(0.5, 2.0, n)
    z, reached = sweep_on(graph.adjacency).conjugate_gradients(
        right, (diagonal, 1 / diagonal, size), 1e-10, 1000
    )
    dense = np.diag(diagonal) - graph.adjacency.toarray()
    left = np.linalg.norm(size * (right - dense @ z))
    assert reached <= 1e-10 and left <= 1e-9
    np.testing.assert_allclose(z, np.linalg.solve(dense, right), atol=1e-7)


@compiled
def test_conjugate_gradients_stop_after_max_iterations():
    adjacency = eb.Graph.from_edges(np.arange(99), np.arange(1, 100), n_nodes=100).adjacency
    diagonal = np.asarray(adjacency.sum(axis=1)).ravel() + 1e-3
    _, reached = sweep_on(adjacency).conjugate_gradients(
        np.ones(100), (diagonal, 1 / diagonal, np.ones(100)), 1e-12, 3
    )
    assert reached > 1e-3


def test_scipy_replaces_a_missing_library(monkeypatch):
    monkeypatch.setattr(_compiled, "COMPILED", None)
    rng = np.random.default_rng(0)
    X, ends = rng.normal(size=(1500, 3)), np.sort(rng.integers(0, 1500, (4000, 2)), axis=1)
    graph = eb.Graph.from_edges(ends[:, 0], ends[:, 1], n_nodes=1500)
    model = eb.EBBSRegressor(20, random_state=0).fit(X, X[:, 0], graph=graph)
    monkeypatch.undo()
    again = eb.EBBSRegressor(20, random_state=0).fit(X, X[:, 0], graph=graph)
    np.testing.assert_allclose(model.predict(), again.predict(), atol=1e-4)


def within_records(v: np.ndarray) -> np.ndarray:
    """A view of records of a byte and a row: rows are no multiple of their entries apart."""
    records = np.zeros(len(v), dtype=[("flag", np.int8), ("row", v.dtype, v.shape[1:])])
    records["row"] = v
    return records["row"]


LAYOUTS = {
    "by columns": np.asfortranarray,
    "every other column": lambda v: np.repeat(v, 2, axis=1)[:, ::2],
    "every other row": lambda v: np.repeat(v, 2, axis=0)[::2],
    "backwards": lambda v: v[::-1].copy()[::-1],
    "within records": within_records,
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "smoother",
    [
        eb.Laplacian(),
        *(eb.Laplacian(method=m) for m in ("jacobi", "chebyshev", "exact")),
        eb.Kernel(),
        eb.Robust(scale=1.0),
    ],
    ids=str,
)
def test_results_do_not_depend_on_the_memory_layout_of_scores(smoother, dtype, layout):
    operator = smoother.operator(eb.Graph.build_knn(np.random.default_rng(0).random((60, 2)), k=4))
    scores = np.random.default_rng(1).normal(size=(60, 5)).astype(dtype)
    for method in (operator.linearize(scores).apply, operator.linearize(scores).adjoint):
        np.testing.assert_allclose(
            method(LAYOUTS[layout](scores)), method(scores), rtol=1e-5, atol=1e-6
        )


@pytest.mark.parametrize("loops", LOOPS)
def test_terms_of_another_float_type_are_converted(loops):
    sweep, v = sweep_by(loops, eb.Graph.from_edges([0, 1], [1, 2]).adjacency), np.arange(3.0)
    expected = sweep(v, scale=v, source=v)
    for dtype in (np.int64, np.float32, np.longdouble):
        np.testing.assert_allclose(
            sweep(v, scale=v.astype(dtype), source=v.astype(dtype)), expected
        )
    np.testing.assert_allclose(sweep(np.arange(3), scale=v, source=v), expected)


@pytest.mark.parametrize("loops", LOOPS)
def test_arrays_of_the_wrong_shape_are_refused(loops):
    sweep = sweep_by(loops, eb.Graph.from_edges([0, 1], [1, 2]).adjacency)
    with pytest.raises(ValueError, match="a row for each of the 3 nodes"):
        sweep(np.ones(2))


@pytest.mark.parametrize(
    "smoother", [eb.Laplacian(), eb.Laplacian(method="chebyshev"), eb.Kernel()], ids=str
)
def test_an_operator_can_be_pickled(smoother):
    operator = smoother.operator(eb.Graph.from_edges([0, 1], [1, 2], weight=[1.0, 2.0]))
    np.testing.assert_array_equal(
        pickle.loads(pickle.dumps(operator)).apply(np.arange(3.0)), operator.apply(np.arange(3.0))
    )


@pytest.mark.parametrize("n_nodes", [65_536, 65_537, 70_001])
def test_more_nodes_than_16_bits_can_number(n_nodes):
    ring = eb.Graph.from_edges(
        np.arange(n_nodes), (np.arange(n_nodes) + 1) % n_nodes, n_nodes=n_nodes
    ).adjacency
    v = np.random.default_rng(0).normal(size=n_nodes)
    np.testing.assert_allclose(sweep_on(ring)(v), np.roll(v, 1) + np.roll(v, -1), atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_steps_by_several_threads_are_those_of_one(dtype, monkeypatch):
    monkeypatch.setattr(_compiled, "WORTH_A_THREAD", 100)
    rng = np.random.default_rng(0)
    ends = np.sort(rng.integers(0, 3000, (20_000, 2)), axis=1)
    sweep = sweep_on(eb.Graph.from_edges(ends[:, 0], ends[:, 1], n_nodes=3000).adjacency)
    scores, root, scale, keep = (rng.random((4, 3000)) + 0.1).astype(dtype)
    alone = sweep.steps(root, 0.01 * scale, keep, 0.3, 4)(scores)
    with threads(3):
        together = sweep.steps(root, 0.01 * scale, keep, 0.3, 4)(scores)
    np.testing.assert_array_equal(alone, together)


def test_a_sweep_is_freed_with_its_last_operator():
    graph = eb.Graph.from_edges([0, 1], [1, 2])
    operator = eb.Laplacian(1.0, 2).operator(graph)
    operator.apply(np.arange(3.0))
    gone = weakref.ref(operator._matrix.sweep)
    gc.disable()  # at once, not when the collector comes by: layouts of large graphs are large
    try:
        del operator
        assert gone() is None
    finally:
        gc.enable()


@compiled
def test_concurrent_first_steps_build_one_layout(monkeypatch):
    built, n = [], 300

    def slowly(name, build):
        def build_slowly(*arguments, **named):
            built.append(name)
            time.sleep(0.02)  # so that all threads arrive before anything is built
            return build(*arguments, **named)

        return build_slowly

    monkeypatch.setattr(_compiled, "row_order", slowly("order", row_order))
    monkeypatch.setattr(_compiled, "Layout", slowly("layout", _compiled.Layout))
    rng = np.random.default_rng(0)
    graph = eb.Graph.from_edges(np.arange(n - 1), np.arange(1, n), weight=rng.random(n - 1))
    sweep, start = sweep_on(graph.adjacency), threading.Barrier(3)
    scores, root, scale, keep = (rng.random((4, n)) + 0.1).astype(np.float32)

    steps = sweep.steps(root, scale, keep, 0.3, 4)

    def first(_):
        start.wait()
        return steps(scores)

    with ThreadPoolExecutor(3) as pool:
        results = list(pool.map(first, range(3)))
    assert built == ["order", "layout"]
    for result in results:
        np.testing.assert_array_equal(result, steps(scores))


@compiled
@pytest.mark.parametrize("what", ["sweep", "solve"])
def test_concurrent_first_sweeps_search_one_order(what, monkeypatch):
    built = []

    def slowly(*arguments, **named):
        built.append(what)
        time.sleep(0.02)  # so that all threads arrive before the order is
        return row_order(*arguments, **named)

    monkeypatch.setattr(_compiled, "row_order", slowly)
    adjacency = eb.Graph.build_knn(np.random.default_rng(0).random((300, 2)), k=14).adjacency
    sweep, start, ones = sweep_on(adjacency), threading.Barrier(3), np.ones(300)
    diagonal = adjacency.sum(axis=1) + 1.0

    def first(_):
        start.wait()
        if what == "sweep":
            return sweep(ones)
        return sweep.conjugate_gradients(ones, (diagonal, 1 / diagonal, ones), 1e-10, 100)[0]

    with ThreadPoolExecutor(3) as pool:
        results = list(pool.map(first, range(3)))
    assert built == [what]
    for one in results:
        np.testing.assert_allclose(one, diagonal - 1.0 if what == "sweep" else 1.0, rtol=1e-9)


@compiled
def test_concurrent_steps_do_not_share_their_work_arrays():
    rng, n = np.random.default_rng(0), 20_000
    sweep = sweep_on(eb.Graph.build_knn(rng.random((n, 2)), k=6).adjacency)
    steps = sweep.steps(*(rng.random((3, n)) + 0.1), 0.3, 5)
    problems = rng.normal(size=(40, n))
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(steps, problems))
    for scores, result in zip(problems, results, strict=True):
        np.testing.assert_array_equal(result, steps(scores))


@compiled
@pytest.mark.parametrize("n_nodes", [7, 8, 9])
def test_an_overflow_does_not_affect_the_next_solve(n_nodes):
    adjacency = eb.Graph.from_edges(np.arange(n_nodes - 1), np.arange(1, n_nodes)).adjacency
    sweep, diagonal, right = sweep_on(adjacency), np.full(n_nodes, 3.0), np.ones(n_nodes)
    given = (diagonal, 1 / diagonal, np.ones(n_nodes)), 1e-12, 100
    expected, _ = sweep.conjugate_gradients(right, *given)
    _, reached = sweep.conjugate_gradients(1e200 * right, *given)
    assert not np.isfinite(reached)
    again, _ = sweep.conjugate_gradients(right, *given)
    np.testing.assert_array_equal(again, expected)


@pytest.mark.parametrize("layout", ["plain", *LAYOUTS])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("width", [5, 9])
def test_steps_of_several_columns_are_sweeps_one_after_the_other(width, dtype, layout):
    rng = np.random.default_rng(0)
    sweep = sweep_on(eb.Graph.build_knn(rng.random((60, 2)), k=4).adjacency)
    scores = rng.normal(size=(60, width)).astype(dtype)
    root, scale, keep = (rng.random((3, 60)) + 0.1).astype(dtype)
    expected = Steps(sweep, (root, scale, keep), 0.3, 3)(scores)
    laid_out = LAYOUTS.get(layout, np.asarray)(scores)
    np.testing.assert_array_equal(sweep.steps(root, scale, keep, 0.3, 3)(laid_out), expected)
    np.testing.assert_array_equal(laid_out, scores)  # left as it was


def literal(adjacency, values, rows, nothing):
    """Mean, least and largest over the known neighbours of each row, one entry at a time."""
    found = np.full((3, len(rows), values.shape[1]), nothing)
    dense = adjacency.toarray()
    for place, row in enumerate(rows):
        for column in range(values.shape[1]):
            around = [i for i in np.flatnonzero(dense[row]) if not np.isnan(values[i, column])]
            if around:
                near = values[around, column].astype(float)
                found[:, place, column] = (
                    np.average(near, weights=dense[row, around]),
                    near.min(),
                    near.max(),
                )
    return found


@pytest.mark.parametrize("loops", LOOPS)
@given(
    graph=graphs(),
    width=st.sampled_from([1, 2, 5, 9, 20]),
    missing=st.booleans(),
    short=st.booleans(),
    asked=st.integers(1, 7),
)
def test_neighbor_statistics_equal_a_literal_loop(loops, graph, width, missing, short, asked):
    rng, n = np.random.default_rng(width), graph.n_nodes
    values = rng.normal(size=(n, width)).astype(np.float32 if short else np.float64)
    if missing:
        values[rng.random(values.shape) < 0.4] = np.nan
    rows = rng.integers(0, n, rng.integers(1, 2 * n))
    table = np.full((rows.size, 3 * width + 1), 7.0)
    out = [table[:, i * width : (i + 1) * width] if asked >> i & 1 else None for i in range(3)]
    sweep_by(loops, graph.adjacency).neighbor_statistics(
        values, rows, None if missing else graph.degrees, out, -1.0
    )
    for part, expected in zip(out, literal(graph.adjacency, values, rows, -1.0), strict=True):
        if part is not None:
            np.testing.assert_allclose(part, expected, rtol=1e-12)
    assert (table[:, -1] == 7.0).all()


@pytest.mark.parametrize("loops", LOOPS)
def test_infinite_neighbours_are_the_least_and_the_largest(loops):
    path, out = eb.Graph.from_edges([0, 1], [1, 2]).adjacency, np.empty((3, 2))
    values = np.array([[np.inf], [1.0], [-np.inf]])
    extremes = [None, out[:, :1], out[:, 1:]]
    sweep_by(loops, path).neighbor_statistics(values, np.arange(3), None, extremes, np.nan)
    assert out.tolist() == [[1.0, 1.0], [-np.inf, np.inf], [1.0, 1.0]]


@compiled
def test_neighbor_statistics_need_no_row_order(monkeypatch):
    """To find one takes longer than to look."""
    monkeypatch.setattr(_compiled, "row_order", None)
    adjacency, out = eb.Graph.from_edges([0, 1], [1, 2]).adjacency, np.empty((3, 1))
    sweep_on(adjacency).neighbor_statistics(
        np.array([[1.0], [2.0], [3.0]]), np.arange(3), None, [out, None, None], 0.0
    )
    assert out.ravel().tolist() == [2.0, 2.0, 2.0]


@compiled
@pytest.mark.parametrize("weighted", [False, True])
def test_neighbor_statistics_are_the_same_bits_by_threads_and_by_numpy(weighted, monkeypatch):
    """Threads, scipy's product and the compiled loop add up in the same order: the same bits."""
    monkeypatch.setattr(_compiled, "WORTH_A_THREAD", 100)
    rng = np.random.default_rng(0)
    ends = np.sort(rng.integers(0, 3000, (20_000, 2)), axis=1)
    weight = rng.random(20_000) if weighted else None
    adjacency = eb.Graph.from_edges(ends[:, 0], ends[:, 1], weight=weight, n_nodes=3000).adjacency
    values, rows = rng.normal(size=(3000, 9)), np.arange(3000)
    found = {}
    for who in ("alone", "together", "numpy"):
        found[who] = np.empty((3000, 27))
        with threads(3 if who == "together" else 1):
            parts = np.split(found[who], 3, axis=1)
            sweep_by("scipy" if who == "numpy" else "compiled", adjacency).neighbor_statistics(
                values, rows, None, parts, np.nan
            )
    np.testing.assert_array_equal(found["alone"], found["together"])
    np.testing.assert_array_equal(found["alone"], found["numpy"])


@pytest.mark.parametrize("loops", LOOPS)
def test_steps_refuse_scores_without_a_row_for_each_node(loops):
    sweep, ones = sweep_by(loops, eb.Graph.from_edges([0, 1], [1, 2]).adjacency), np.ones(3)
    with pytest.raises(ValueError, match="a row for each of the 3 nodes"):
        sweep.steps(ones, ones, ones, 0.5, 1)(np.ones((1, 3)))


@pytest.mark.parametrize("loops", LOOPS)
def test_arranged_vectors_have_the_sums_and_steps_of_plain_ones(loops):
    arranged = sweep_by(loops, random_graph(60, 200).adjacency).arranged(DOUBLE)
    plain = np.random.default_rng(0).normal(size=(8, 60))
    rows = arranged.work(8, DOUBLE)
    for vector, row in zip(plain, rows, strict=True):
        arranged.arrange(vector, row)
    size, inverse, newest, scaled, direction, image, z, residual = plain
    sums = arranged.sums(rows[7], rows[3], rows[5], rows[0])
    expected = [residual @ scaled, scaled @ image, ((size * residual) ** 2).sum()]
    np.testing.assert_allclose(sums, expected)
    arranged.advance(0.3, 0.7, *rows[1:])
    direction = 0.3 * direction + scaled
    image = 0.3 * image + newest
    residual = residual - 0.7 * image
    moved = [inverse * residual, direction, image, z + 0.7 * direction, residual]
    for row, vector in zip(rows[3:], moved, strict=True):
        np.testing.assert_allclose(arranged.restore(row), vector)
