"""Where a fit trains: nothing of a round leaves the device, and what is missing for one is said."""

import re
import sys

import numpy as np
import pytest

import ebboost as eb
from ebboost.backends import Backend, cpu, cuda
from ebboost.learners.xgboost import XGBoostGrower
from ebboost.propagation import SparseSolver
from ebboost.propagation._cg import column_sums
from ebboost.training import trainer
from tests.backends.problems import SETTINGS, problem, resume_after_crash
from tests.elsewhere import EdgesElsewhere, Elsewhere, ElsewhereBackend
from tests.strategies import random_graph


def pair(monkeypatch, model, X, y, graph):
    """The same fit here and elsewhere, with trees that are grown here."""
    monkeypatch.setattr(
        SparseSolver, "direct_up_to", 0
    )  # conjugate gradients, which are all there is elsewhere
    here = model.fit(X, y, graph=graph)
    told = here.predict_proba() if hasattr(here, "classes_") else here.predict()
    history = dict(here.history_)
    grow = XGBoostGrower.grow

    def grow_here(self, gradient, curvature):
        tree = grow(self, gradient.held, curvature.held)
        return None if tree is None else Elsewhere(tree)

    monkeypatch.setattr(XGBoostGrower, "grow", grow_here)
    monkeypatch.setattr(trainer, "as_backend", lambda name: ElsewhereBackend())
    there = model.fit(X, y, graph=graph)
    return (
        told,
        there.predict_proba() if hasattr(there, "classes_") else there.predict(),
        history,
        there,
    )


@pytest.mark.parametrize("name", SETTINGS)
def test_rounds_stay_on_the_device_of_the_labels(name, monkeypatch):
    model = eb.EBBSRegressor(5, 0.3, learner=eb.XGBoost(3), random_state=0, **SETTINGS[name])
    here, there, history, fitted = pair(monkeypatch, model, *problem())
    np.testing.assert_allclose(there, here, rtol=1e-4)
    # Dispersions are estimated from responses of the field, which are solved to 1e-3.
    np.testing.assert_allclose(fitted.history_["training"], history["training"], rtol=1e-3)
    assert (
        type(fitted.scores_)
        is type(fitted.propagated_scores_)
        is type(fitted.init_score_)
        is np.ndarray
    )


def test_a_round_synchronises_eleven_times(monkeypatch):
    waited, after = [], []
    for name in ("__float__", "__bool__", "__int__"):
        asked = getattr(Elsewhere, name)
        monkeypatch.setattr(
            Elsewhere, name, lambda self, asked=asked: waited.append(1) or asked(self)
        )

    class Watch(eb.Callback):
        def after_round(self, progress):
            after.append(len(waited))

    monkeypatch.setattr(trainer, "as_backend", lambda name: ElsewhereBackend())
    grow = XGBoostGrower.grow
    monkeypatch.setattr(
        XGBoostGrower, "grow", lambda self, *given: Elsewhere(grow(self, *(x.held for x in given)))
    )
    model = eb.EBBSRegressor(
        6, learner=eb.XGBoost(3), early_stopping=False, **SETTINGS["smoothing"]
    )
    X, y, graph = problem(12_000, 6_000)  # more than are trained on in full precision
    model.fit(X, y, graph=graph, callbacks=[Watch()])
    # Is the gradient finite, and is it when pulled back; the tree; the parabola's two; the loss,
    # twice; the cosine's four.
    assert set(np.diff(after)) == {11}


def test_the_field_of_predictions_is_solved_on_the_device(monkeypatch):
    mode, asked = cpu.posterior_mode, []

    def noted(field, loss, scores, target):
        asked.append(scores)
        return mode(field, loss, scores, target)

    monkeypatch.setattr(cpu, "posterior_mode", noted)
    model = eb.EBBSRegressor(8, learner=eb.XGBoost(3), random_state=0, **SETTINGS["field"])
    here, there, _, fitted = pair(monkeypatch, model, *problem())
    np.testing.assert_allclose(there, here, rtol=1e-4)
    assert [type(scores) for scores in asked] == [np.ndarray, Elsewhere]
    assert type(fitted.raw_predictions_) is np.ndarray
    known = np.arange(150, 200), np.ones(50)
    assert (
        fitted.predict(new_labels=known).shape == (300,) and type(asked[-1]) is np.ndarray
    )  # a fitted model is no device's


def test_systems_of_low_tolerance_are_solved_in_float32():
    kinds = []

    class Noted(EdgesElsewhere):
        def __call__(self, v, *rest, **terms):
            kinds.append(v.dtype)
            return super().__call__(v, *rest, **terms)

    graph = random_graph(2_000, 10_000)
    right, diagonal = (
        np.random.default_rng(0).normal(size=2_000),
        1.0 + np.diff(graph.adjacency.indptr),
    )
    first, *system = (Elsewhere(part) for part in (right, diagonal, 1.0 / diagonal, np.ones(2_000)))
    for tolerance, kind in ((0.02, np.float32), (1e-8, np.float64)):
        kinds.clear()
        target = tolerance * np.linalg.norm(right)
        z, reached = Noted(graph.adjacency).conjugate_gradients(first, system, target, 1_000)
        assert set(kinds) == {np.dtype(kind)} and z.dtype == np.float64
        left = right - diagonal * z.held + graph.adjacency @ z.held
        assert reached <= target and np.linalg.norm(left) == pytest.approx(reached, rel=1e-3)


@pytest.mark.parametrize("n", [0, 3, 256, 1_000])
def test_columns_are_summed_in_pieces(n):
    columns = np.random.default_rng(0).integers(-9, 9, (n, 3)).astype(np.float64)
    np.testing.assert_array_equal(column_sums(Elsewhere(columns)).held, columns.sum(axis=0))
    np.testing.assert_array_equal(column_sums(columns), columns.sum(axis=0))


def test_a_system_beyond_float32_is_solved_in_full_precision():
    graph = random_graph(200, 800)
    diagonal, right = 1.0 + np.diff(graph.adjacency.indptr), np.full(200, 1e60)
    first, *system = (Elsewhere(part) for part in (right, diagonal, 1.0 / diagonal, np.ones(200)))
    with np.errstate(all="ignore"):
        z, reached = EdgesElsewhere(graph.adjacency).conjugate_gradients(
            first, system, 0.01 * np.linalg.norm(right), 1_000
        )
    assert reached <= 0.01 * np.linalg.norm(right)
    np.testing.assert_allclose(z.held, 1e60, rtol=0.1)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_classification_stays_on_the_device(n_classes, monkeypatch):
    X, y, graph = problem()
    classes = np.array([None] * y.size, dtype=object)
    known = ~np.isnan(y)
    classes[known] = np.digitize(y[known], [1.0, 1.5][: n_classes - 1])
    model = eb.EBBSClassifier(
        8, learner=eb.XGBoost(3), random_state=0, smoothing=eb.Laplacian(2.0, 3), labels="field"
    )
    here, there, _, _ = pair(monkeypatch, model, X, classes, graph)
    np.testing.assert_allclose(there, here, rtol=5e-3)


def test_signed_relations_stay_on_the_device(monkeypatch):
    X, y, graph = problem()
    relations = {"like": graph, "unlike": random_graph(300, 500, seed=1)}
    strengths = {"like": 1.0, "unlike": -0.3}
    smoothing = eb.Laplacian(1.0, 2, method="jacobi")
    model = eb.EBBSRegressor(
        5,
        learner=eb.XGBoost(3),
        random_state=0,
        relations=strengths,
        smoothing=smoothing,
        labels="field",
    )
    here, there, _, _ = pair(monkeypatch, model, X, y, relations)
    np.testing.assert_allclose(there, here, rtol=1e-4)


def test_cross_fitting_stays_on_the_device(monkeypatch):
    model = eb.EBBSRegressor(20, learner=eb.XGBoost(2), random_state=0, **SETTINGS["smoothing"])
    here, there, _, fitted = pair(monkeypatch, model, *problem(n_labelled=30))
    np.testing.assert_allclose(there, here, rtol=1e-4)
    assert fitted.validation_nodes_.size == 30


@pytest.mark.parametrize("n_labelled", [150, 30])
def test_a_fit_on_a_device_resumes_from_its_checkpoint(n_labelled, monkeypatch, tmp_path):
    X, y, graph = problem(n_labelled=n_labelled)
    model = eb.EBBSRegressor(8, learner=eb.XGBoost(3), random_state=0, **SETTINGS["smoothing"])
    _, whole, _, _ = pair(monkeypatch, model, X, y, graph)
    np.testing.assert_array_equal(resume_after_crash(model, X, y, graph, tmp_path).predict(), whole)


def test_robust_smoothing_is_refused_on_a_device(monkeypatch):
    monkeypatch.setattr(trainer, "as_backend", lambda name: ElsewhereBackend())
    model = eb.EBBSRegressor(5, learner="xgboost", smoothing=eb.Robust(), labels="none")
    X, y, graph = problem()
    with pytest.raises(ValueError, match=r"eb\.Robust .* use device='cpu', or eb\.Laplacian"):
        model.fit(X, y, graph=graph)


# ------------------------------------------------------------------ what is missing


def fit_on_cuda(**settings):
    X, y, graph = problem()
    return eb.EBBSRegressor(5, device="cuda", **{"learner": "xgboost"} | settings).fit(
        X, y, graph=graph
    )


@pytest.mark.parametrize("learner", ["lightgbm", "catboost"])
def test_a_learner_without_a_gpu_names_the_one_with(learner):
    with pytest.raises(ValueError, match=f"learner='{learner}'.* pass learner='xgboost'"):
        fit_on_cuda(learner=learner)


def test_a_missing_cupy_names_the_packages_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(ImportError, match=r"needs CuPy: pip install cupy-cuda12x"):
        fit_on_cuda()


def test_a_missing_gpu_raises():
    module = pytest.importorskip("cupy")
    if module.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(RuntimeError, match=r"no NVIDIA GPU .* use device='cpu'"):
        fit_on_cuda()


def test_xgboost_without_cuda_names_the_package_to_install(monkeypatch):
    xgboost = pytest.importorskip("xgboost")
    monkeypatch.setattr(xgboost, "build_info", lambda: {"USE_CUDA": False})
    monkeypatch.setattr(trainer, "as_backend", lambda name: ElsewhereBackend())
    with pytest.raises(ImportError, match=r"full wheel.*pip uninstall xgboost-cpu"):
        fit_on_cuda()


def test_cupy_is_not_imported_on_the_cpu():
    X, y, graph = problem()
    before = "cupy" in sys.modules
    eb.EBBSRegressor(3, learner="xgboost", **SETTINGS["smoothing"]).fit(X, y, graph=graph)
    assert ("cupy" in sys.modules) == before


def test_the_memory_message_names_sizes_that_fit():
    free, edges, shape = 8 * 10**9, 10**9, (2_000_000, 900, 1)
    said = cuda.memory_message([shape], edges, free)
    numbers = [float(number.replace(",", "")) for number in re.findall(r"\d[\d,.]*\b", said)]
    needed, rows, columns, _, given, fewer_columns, fewer_rows = numbers
    assert (rows, columns, given) == (2e6, 900, 8)
    assert needed > given

    def takes(rows, columns):
        return edges + rows * (cuda.BYTES * columns + 8 * cuda.VECTORS)

    assert needed == pytest.approx(takes(rows, columns) / 1e9, rel=1e-2)
    assert 0.99 * free < takes(fewer_rows, columns) <= free
    assert 0.99 * free < takes(rows, fewer_columns) <= free
    assert "3 candidates" in cuda.memory_message([shape] * 3, edges, free)


def test_edge_bytes_count_indices_weights_and_tiles(monkeypatch):
    graph = problem()[2]
    n_edges = graph.adjacency.nnz
    assert cuda.edge_bytes(graph) == 4 * n_edges
    monkeypatch.setattr(cuda, "worthwhile", lambda *sizes: True)
    assert cuda.edge_bytes(graph) == 8 * n_edges  # a second time, in tiles
    weighted = eb.Graph.from_scipy(2.0 * graph.adjacency)
    assert cuda.edge_bytes(weighted) == 16 * n_edges  # in either float type, never in tiles


def test_other_errors_pass_through_a_backend():
    with pytest.raises(ValueError, match="something else"), Backend():
        raise ValueError("something else")
