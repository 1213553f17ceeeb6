"""Sweeps, operators and fits on a GPU agree with the CPU; skipped without a GPU."""

import numpy as np
import pytest

import ebboost as eb
from ebboost.backends.cuda import CudaBackend
from ebboost.propagation import sweep_on
from tests.backends.problems import SETTINGS, problem, resume_after_crash
from tests.propagation.closed_forms import SMOOTHERS, describe_parameters

cupy = pytest.importorskip("cupy")
if not cupy.cuda.is_available():
    pytest.skip("no GPU", allow_module_level=True)

from ebboost.backends import _cuda_graph  # noqa: E402
from ebboost.backends._cuda_graph import CudaGraph, CudaSweep  # noqa: E402


def graph_with_hubs(weighted: bool) -> eb.Graph:
    """Isolates, leaves and two hubs of more neighbours than a warp may keep to itself."""
    rng = np.random.default_rng(0)
    ends = np.sort(rng.integers(0, 9_000, (20_000, 2)), axis=1)
    stars = [
        (hub, leaf)
        for hub, many in ((17, _cuda_graph.HUB + 1), (4_000, 3_999))
        for leaf in range(hub + 1, hub + many)
    ]
    source, target = np.vstack([ends, stars]).T
    pairs = np.unique(np.column_stack([source, target])[source != target], axis=0)
    weight = rng.random(len(pairs)) + 0.1 if weighted else None
    return eb.Graph.from_edges(pairs[:, 0], pairs[:, 1], weight=weight, n_nodes=9_100)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("short", [False, True])
@pytest.mark.parametrize("width", [None, 1, 2, 5, 16, 33, 70])
def test_a_sweep_is_the_sweep_of_the_cpu(width, short, weighted):
    graph, rng = graph_with_hubs(weighted), np.random.default_rng(1)
    n, kind = graph.n_nodes, np.float32 if short else np.float64
    v, source = rng.normal(size=(2, n) if width is None else (2, n, width)).astype(kind)
    scale, keep = rng.normal(size=(2, n)).astype(kind)
    edges, sweep = CudaSweep(graph.adjacency), sweep_on(graph.adjacency)
    for terms in (
        {},
        {"scale": scale},
        {"keep": keep, "source": source},
        {"scale": scale, "source": source},
    ):
        there = {name: cupy.asarray(term) for name, term in terms.items()}
        out = cupy.full_like(cupy.asarray(v), np.nan)
        found = edges(cupy.asarray(v), **there, out=out)
        assert found is out and found.dtype == kind
        wide = {name: term.astype(np.float64) for name, term in terms.items()}
        expected = sweep(v.astype(np.float64), **wide)
        size = np.abs(expected).max()
        np.testing.assert_allclose(
            found.get(), expected, rtol=0, atol=size * (1e-6 if short else 1e-14)
        )


@pytest.mark.parametrize("lanes", [2, 4, 8, 16, 32])
def test_any_number_of_threads_may_share_a_row(lanes):
    graph = graph_with_hubs(True)
    v = np.random.default_rng(0).normal(size=(graph.n_nodes, 2))
    edges = CudaSweep(graph.adjacency)
    edges.lanes = lanes
    np.testing.assert_allclose(
        (edges @ cupy.asarray(v)).get(), graph.adjacency @ v, rtol=0, atol=1e-10
    )


def test_a_sweep_is_the_same_each_time():
    graph = graph_with_hubs(True)
    v, edges = cupy.random.default_rng(0).random((graph.n_nodes, 3)), CudaSweep(graph.adjacency)
    assert (edges(v) == edges(v)).all()


def test_scores_of_another_length_are_refused():
    with pytest.raises(ValueError, match="a row for each of the 9100 nodes"):
        CudaSweep(graph_with_hubs(False).adjacency)(cupy.ones(5))


@pytest.fixture
def tiles_at_once(monkeypatch):
    """Edges in tiles however few there are."""
    monkeypatch.setattr(_cuda_graph, "worthwhile", lambda *sizes: True)


def graph_of_several_tiles(n=150_000):
    """Several ranges of rows, several tiles of columns, isolates, and a hub."""
    rng = np.random.default_rng(0)
    ends = np.vstack(
        [rng.integers(0, n - 100, (4 * n, 2)), [(7, leaf) for leaf in range(1_000, 1_400)]]
    )
    pairs = np.unique(np.sort(ends[ends[:, 0] != ends[:, 1]], axis=1), axis=0)
    return eb.Graph.from_edges(pairs[:, 0], pairs[:, 1], n_nodes=n)


def scores_to_sweep(n):
    normal = np.random.default_rng(1).normal(size=n)
    outlying = np.where(np.arange(n) % 1_000 == 0, 1e7, 1.0) * normal
    return {
        "normal": normal,
        "outlying": outlying,
        "few": normal * (np.arange(n) % 5_000 == 1),
        "large": 1e36 * normal,
        "small": 1e-36 * normal,
    }


@pytest.mark.parametrize("name", scores_to_sweep(1))
def test_a_sweep_by_tiles_is_as_exact_as_float32(name, tiles_at_once):
    graph = graph_of_several_tiles()
    n, rng, edges = graph.n_nodes, np.random.default_rng(2), CudaSweep(graph.adjacency)
    v = scores_to_sweep(n)[name].astype(np.float32)
    scale, keep = rng.normal(size=(2, n)).astype(np.float32)
    source = (float(np.abs(v).max()) * rng.normal(size=n)).astype(np.float32)
    sweep, size = sweep_on(graph.adjacency), np.abs(v).max().astype(np.float64)
    neighbours = np.diff(graph.adjacency.indptr)
    for terms in (
        {},
        {"scale": scale},
        {"keep": keep, "source": source},
        {"scale": scale, "source": source},
    ):
        out = cupy.full(n, np.nan, dtype=np.float32)
        found = edges(
            cupy.asarray(v), **{name: cupy.asarray(term) for name, term in terms.items()}, out=out
        )
        assert found is out
        wide = {name: term.astype(np.float64) for name, term in terms.items()}
        expected = sweep(v.astype(np.float64), **wide)
        sizes = sweep(
            np.abs(v).astype(np.float64), **{name: np.abs(term) for name, term in wide.items()}
        )
        by = np.abs(wide.get("scale", 1.0))
        least = 2.0**-126  # what is smaller, CuPy's kernels take for none
        allowed = 4 * 2.0**-24 * sizes + by * neighbours * (2.0**-44 * size + least) + 8 * least
        assert (np.abs(found.get() - expected) <= allowed).all()


def test_a_sweep_by_tiles_is_the_same_each_time(tiles_at_once):
    graph = graph_of_several_tiles()
    edges, v = (
        CudaSweep(graph.adjacency),
        cupy.random.default_rng(0).random(graph.n_nodes, dtype=np.float32),
    )
    assert (edges(v) == edges(v)).all()
    np.testing.assert_array_equal(edges(v[:, None])[:, 0].get(), edges(v).get())


def test_nan_stays_nan_in_tiles(tiles_at_once):
    graph = graph_of_several_tiles()
    edges, v = CudaSweep(graph.adjacency), cupy.zeros(graph.n_nodes, dtype=np.float32)
    assert (edges(v) == 0).all()
    for wrong in (np.inf, -np.inf, np.nan):
        v[5] = wrong
        assert np.isfinite(edges(v)).sum() <= 1  # the hub's may be: it is not in a tile


def test_tiles_are_for_one_column_of_float32(tiles_at_once, monkeypatch):
    monkeypatch.setattr(_cuda_graph.Tiles, "__call__", lambda *_: pytest.fail("tiles were used"))
    graph = graph_with_hubs(False)
    rng = cupy.random.default_rng(0)
    CudaSweep(graph.adjacency)(rng.random(graph.n_nodes))
    CudaSweep(graph.adjacency)(rng.random((graph.n_nodes, 2), dtype=np.float32))
    CudaSweep(graph_with_hubs(True).adjacency)(rng.random(graph.n_nodes, dtype=np.float32))


@pytest.mark.parametrize("smoother", SMOOTHERS, ids=describe_parameters)
def test_operators_give_what_they_give_on_the_cpu(smoother):
    graph, rng = problem()[2], np.random.default_rng(0)
    here, there = smoother.operator(graph), smoother.operator(CudaGraph(graph))
    assert there.norm_bound == pytest.approx(here.norm_bound, rel=1e-9)
    assert there.nonnegative == here.nonnegative
    for scores in (rng.normal(size=graph.n_nodes), rng.normal(size=(graph.n_nodes, 3))):
        for method in ("apply", "adjoint"):
            found = getattr(there, method)(cupy.asarray(scores))
            np.testing.assert_allclose(
                found.get(), getattr(here, method)(scores), rtol=0, atol=1e-8
            )


def coarse(n=2_000):
    """A problem whose columns hold few values, so that bins are the same wherever they are made."""
    X, y, graph = problem(n, n // 2)
    return np.round(X * 8.0) / 8.0, y, graph


# With the same bins, gradients and curvatures, XGBoost splits otherwise on a GPU where
# min_child_weight forbids some splits.
LEARNER = eb.XGBoost(4, min_child_weight=0.0, reg_lambda=1.0)


def both(model, X, y, graph):
    here = model.set_params(device="cpu").fit(X, y, graph=graph)
    told = here.predict_proba() if hasattr(here, "classes_") else here.predict()
    history = {name: list(values) for name, values in here.history_.items()}
    there = model.set_params(device="cuda").fit(X, y, graph=graph)
    return (
        told,
        there.predict_proba() if hasattr(there, "classes_") else there.predict(),
        history,
        there,
    )


@pytest.mark.parametrize("name", SETTINGS)
def test_a_fit_is_the_fit_of_the_cpu(name):
    model = eb.EBBSRegressor(30, 0.3, learner=LEARNER, random_state=0, **SETTINGS[name])
    here, there, history, fitted = both(model, *coarse())
    rounds = min(len(history["training"]), len(fitted.history_["training"]))
    np.testing.assert_allclose(
        fitted.history_["training"][:rounds], history["training"][:rounds], rtol=1e-3
    )
    # A search may average other candidates, whose losses differ by rounding.
    share = 0.05 if name == "search" else 0.02
    assert np.sqrt(np.mean((there - here) ** 2)) < share * here.std()
    assert (
        type(fitted.scores_)
        is type(fitted.propagated_scores_)
        is type(fitted.init_score_)
        is np.ndarray
    )


@pytest.mark.parametrize("n_classes", [2, 4])
def test_classes_are_those_of_the_cpu(n_classes):
    X, y, graph = coarse()
    classes, known = np.array([None] * y.size, dtype=object), ~np.isnan(y)
    classes[known] = np.digitize(y[known], [1.0, 1.5, 2.0][: n_classes - 1])
    model = eb.EBBSClassifier(
        20, learner=LEARNER, random_state=0, smoothing=eb.Laplacian(2.0, 3), labels="field"
    )
    here, there, _, _ = both(model, X, classes, graph)
    assert np.abs(there - here).mean() < 1e-3


def test_sparse_tables_and_categories_train_too():
    from scipy import sparse

    X, y, graph = coarse()
    cut = sparse.csr_array(np.where(np.abs(X) > 1.0, X, 0.0))
    model = eb.EBBSRegressor(10, learner=LEARNER, random_state=0, **SETTINGS["smoothing"])
    here, there, _, _ = both(model, cut, y, graph)
    assert np.sqrt(np.mean((there - here) ** 2)) < 0.01 * here.std()
    X[:, 3] = np.random.default_rng(0).integers(0, 12, len(X))
    model.set_params(categorical_features=[3])
    here, there, _, _ = both(model, X, y, graph)
    assert np.sqrt(np.mean((there - here) ** 2)) < 0.01 * here.std()


@pytest.mark.parametrize("name", ["smoothing", "field", "leave-one-out", "momentum"])
def test_a_fit_by_tiles_is_the_fit_without(name, monkeypatch):
    X, y, graph = coarse(12_000)  # more than are trained on in full precision
    model = eb.EBBSRegressor(
        15, 0.3, learner=LEARNER, random_state=0, device="cuda", **SETTINGS[name]
    )
    without = model.fit(X, y, graph=graph).predict()
    history = list(model.history_["training"])
    monkeypatch.setattr(_cuda_graph, "worthwhile", lambda *sizes: True)
    predicted = model.fit(X, y, graph=graph).predict()
    np.testing.assert_allclose(model.history_["training"], history, rtol=1e-3)
    assert np.sqrt(np.mean((predicted - without) ** 2)) < 0.01 * without.std()


@pytest.mark.parametrize("subsample", [1.0, 0.7])
def test_a_fit_goes_on_from_its_checkpoint(subsample, tmp_path):
    X, y, graph = problem(2_000, 1_000)
    learner = eb.XGBoost(3, subsample=subsample)
    model = eb.EBBSRegressor(8, learner=learner, random_state=0, device="cuda", **SETTINGS["field"])
    whole = model.fit(X, y, graph=graph).predict()
    np.testing.assert_array_equal(resume_after_crash(model, X, y, graph, tmp_path).predict(), whole)


def test_another_table_and_labels_known_since_are_predicted_as_on_the_cpu():
    X, y, graph = coarse()
    model = eb.EBBSRegressor(10, learner=LEARNER, random_state=0, **SETTINGS["field"])
    since = np.flatnonzero(np.isnan(y))[:50]
    told = {}
    for device in ("cpu", "cuda"):
        model.set_params(device=device).fit(X, y, graph=graph)
        told[device] = model.predict(X, graph=graph), model.predict(new_labels=(since, np.ones(50)))
    for here, there in zip(*told.values(), strict=True):
        assert np.sqrt(np.mean((there - here) ** 2)) < 0.01 * here.std()


def test_rounds_hand_over_what_lies_on_the_gpu():
    seen = []

    class Watch(eb.Callback):
        def after_round(self, progress):
            seen.append(progress.model.scores)

    X, y, graph = problem()
    eb.EBBSRegressor(3, learner="xgboost", device="cuda", **SETTINGS["field"]).fit(
        X, y, graph=graph, callbacks=[Watch()]
    )
    assert len(seen) == 3 and all(isinstance(scores, cupy.ndarray) for scores in seen)


def test_the_same_fit_twice_is_the_same_model():
    X, y, graph = problem()
    model = eb.EBBSRegressor(
        10, learner="xgboost", device="cuda", random_state=0, **SETTINGS["smoothing"]
    )
    first = model.fit(X, y, graph=graph).predict()
    assert (model.fit(X, y, graph=graph).predict() == first).all()


def test_a_saved_model_needs_no_gpu(tmp_path):
    X, y, graph = problem()
    model = eb.EBBSRegressor(
        10, learner="xgboost", device="cuda", random_state=0, **SETTINGS["field"]
    )
    predicted = model.fit(X, y, graph=graph).predict()
    model.save(tmp_path / "m.ebb")
    loaded = eb.load(tmp_path / "m.ebb")
    np.testing.assert_array_equal(loaded.predict(), predicted)
    np.testing.assert_allclose(loaded.predict(X, graph=graph), model.predict(X, graph=graph))
    np.testing.assert_allclose(
        loaded.ensemble_.predict(
            loaded.state_.pipeline.transform(loaded.state_.reader.read(X), graph)
        ),
        model.scores_,
        rtol=1e-4,
        atol=1e-5,
    )


def test_the_memory_error_names_sizes_that_fit():
    X, y, graph = problem(20_000, 10_000)
    pool = cupy.get_default_memory_pool()
    before = pool.get_limit()
    pool.free_all_blocks()
    pool.set_limit(size=400_000)
    try:
        with pytest.raises(
            MemoryError,
            match=r"20,000 rows × 4 columns .* were free .* columns would fit, or .* rows",
        ):
            eb.EBBSRegressor(3, learner="xgboost", device="cuda", **SETTINGS["smoothing"]).fit(
                X, y, graph=graph
            )
    finally:
        pool.set_limit(size=before)


def test_memory_is_freed_after_a_fit():
    X, y, graph = problem(20_000, 10_000)
    model = eb.EBBSRegressor(3, learner="xgboost", device="cuda", **SETTINGS["smoothing"])
    model.fit(X, y, graph=graph)
    assert cupy.get_default_memory_pool().total_bytes() < 10_000_000


def test_a_graph_is_moved_once():
    graph = problem()[2]
    with CudaBackend() as device:
        assert device.graph(graph) is device.graph(graph)
