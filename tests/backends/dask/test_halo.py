"""Sweeps, propagation, field, gradient and columns in shards are those of one process."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ebboost as eb
from ebboost.backends.dask.sharding import shard_graph
from ebboost.boosting import field_mode, latent_field
from ebboost.boosting.label_use import objective_for
from ebboost.boosting.latent_field import LatentField
from ebboost.boosting.losses import LogLoss, Poisson, Softmax, SquaredError
from ebboost.data.graph_columns import frequent_levels, neighbor_columns, smoothed_columns
from ebboost.data.labels import Labels
from ebboost.data.sharded import shard
from ebboost.data.table import Table
from ebboost.propagation import SparseSolver, _compiled, sweep_on
from ebboost.testing import graphs
from tests.backends.dask.threads import in_threads, random_partition

SMOOTHERS = [
    eb.Laplacian(1.5, 3),
    eb.Laplacian(1.5, 3, method="jacobi"),
    eb.Laplacian(1.0, method="exact"),
]


@pytest.fixture(scope="module", autouse=True)
def exact():
    """Solves to rounding, so that results may be compared."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(latent_field, "TRAINING_TOLERANCE", 1e-13)
        patch.setattr(field_mode, "RESPONSE_TOLERANCE", 1e-13)
        patch.setattr(SparseSolver, "direct_up_to", 0)  # as in shards
        yield


def sharded(graph, count, seed):
    """A random partition, and a function that builds the graph of a worker."""
    partition = random_partition(graph.n_nodes, count, seed)

    def build(workers):
        return shard_graph(partition.select(workers.rank, graph.adjacency), partition, workers)

    return partition, build


@settings(max_examples=15, deadline=None)
@given(graphs(min_nodes=8, max_nodes=40), st.integers(1, 4), st.integers(0, 99))
def test_operators_and_degrees_are_those_of_one_process(graph, count, seed):
    partition, build = sharded(graph, count, seed)
    scores = np.random.default_rng(seed).normal(size=(graph.n_nodes, 2))

    def work(workers):
        own = build(workers)
        local = shard(partition.select(workers.rank, scores), workers)
        images = [np.asarray(s.operator(own).apply(local)) for s in SMOOTHERS]
        return np.asarray(own.degrees), own.n_edges, *images

    parts = in_threads(count, work)
    degrees, n_edges, *images = zip(*parts, strict=True)
    np.testing.assert_allclose(partition.join(degrees), graph.degrees, rtol=1e-12)
    assert set(n_edges) == {graph.n_edges}
    for smoother, image in zip(SMOOTHERS, images, strict=True):
        expected = smoother.operator(graph).apply(scores)
        np.testing.assert_allclose(partition.join(image), expected, atol=1e-9)


@pytest.mark.parametrize(
    "loss", [SquaredError(), LogLoss(), Poisson(), Softmax()], ids=lambda one: type(one).__name__
)
@settings(max_examples=10, deadline=None)
@given(graph=graphs(min_nodes=8, max_nodes=30), count=st.integers(1, 3), seed=st.integers(0, 99))
def test_objective_and_field_are_those_of_one_process(loss, graph, count, seed):
    random = np.random.default_rng(seed)
    n = graph.n_nodes
    partition, build = sharded(graph, count, seed)
    nodes = np.sort(random.choice(n, n // 2 + 1, replace=False))
    target = random.integers(0, 2, (nodes.size, 1)).astype(float)
    if isinstance(loss, Softmax):
        target = np.eye(3)[random.integers(0, 3, nodes.size)]
    weight = random.uniform(0.5, 2.0, nodes.size)
    tree = random.normal(size=(n, target.shape[1]))
    field = LatentField(0.7, 0.3)

    def results(graph, labels, tree):
        parts = (field, graph, eb.Laplacian(1.0, 2).operator(graph), loss, labels)
        objective = objective_for(*parts, None, 0.1, 0)
        point = objective.start()
        step = objective.newton_step(point, tree, objective.propagate(tree, point))
        point = point.take_step(0.5 * step, tree, objective.propagate(tree, point))
        arrays = (objective.gradient(point), objective.curvature(point), objective.predict(point))
        return [objective.value(point), step], [np.asarray(array) for array in arrays]

    def work(workers):
        rank, position = partition.locate(nodes)
        own = rank == workers.rank
        local = [shard(values[own], workers) for values in (target, weight)]
        labels = Labels(position[own], *local)
        return results(build(workers), labels, shard(partition.select(workers.rank, tree), workers))

    expected_numbers, expected = results(graph, Labels(nodes, target, weight), tree)
    parts = in_threads(count, work)
    # The mode of other losses ends where a step lowers the energy by less than 1e-12 of it.
    atol = 1e-9 if type(loss) is SquaredError else 1e-7
    for numbers, _ in parts:
        np.testing.assert_allclose(numbers, expected_numbers, rtol=0, atol=atol)
    for i, array in enumerate(expected):
        np.testing.assert_allclose(partition.join([own[i] for _, own in parts]), array, atol=atol)


@settings(max_examples=10, deadline=None)
@given(graphs(min_nodes=8, max_nodes=30), st.integers(1, 3), st.integers(0, 99))
def test_columns_of_neighbours_are_those_of_one_process(graph, count, seed):
    random = np.random.default_rng(seed)
    partition, build = sharded(graph, count, seed)
    X = random.normal(size=(graph.n_nodes, 3))
    X[random.random(X.shape) < 0.1] = np.nan
    X[:, 2] = random.integers(0, 12, graph.n_nodes)
    levels = [f"level {i}" for i in range(12)]

    def columns(values, graph):
        table = Table(values, tuple("abc"), (2,), (0, 1, 2), categories={2: levels})
        wanted = (("mean", "min", "max"), True, frequent_levels(table))
        added = table.with_columns(*neighbor_columns(table, graph, *wanted))
        smoothed = smoothed_columns(table, lambda: eb.Laplacian().operator(graph))
        return np.asarray(added.with_columns(*smoothed).materialize().values)

    def work(workers):
        return columns(shard(partition.select(workers.rank, X), workers), build(workers))

    np.testing.assert_allclose(
        partition.join(in_threads(count, work)), columns(X, graph), atol=1e-9
    )


@pytest.mark.parametrize("compiled", [True, False])
def test_one_column_of_a_dense_graph_is_swept_and_solved_as_in_one_process(compiled, monkeypatch):
    if not compiled:
        monkeypatch.setattr(_compiled, "COMPILED", None)
    random = np.random.default_rng(0)
    points = np.sort(random.random(12_000))[:, None] + 0.001 * random.random((12_000, 2))
    graph = eb.Graph.build_knn(points, k=10)
    assert not compiled or sweep_on(graph.adjacency).order.rows is not None  # sums are shared
    partition, build = sharded(graph, 2, 0)
    vectors = random.normal(size=(2, graph.n_nodes))
    diagonal = graph.degrees + 0.5
    system = (diagonal, 1.0 / diagonal, np.ones_like(diagonal))
    smoother = eb.Laplacian(1.0, 3)

    def work(workers):
        own = build(workers)
        local = [partition.select(workers.rank, vector) for vector in (*vectors, *system)]
        operator = smoother.operator(own)
        part = tuple(local[2:])
        solutions = [own.adjacency.conjugate_gradients(one, part, 1e-9, 500) for one in local[:2]]
        smoothed = [operator.apply(local[0].astype(kind)) for kind in (np.float32, np.float64)]
        return [np.asarray(one) for one in (*(z for z, _ in solutions), *smoothed)]

    results = [partition.join(parts) for parts in zip(*in_threads(2, work), strict=True)]
    sweep = sweep_on(graph.adjacency)
    for vector, solution in zip(vectors, results, strict=False):
        residual = diagonal * solution - sweep(solution) - vector
        assert np.linalg.norm(residual) < 1e-8
    expected = smoother.operator(graph).apply(vectors[0])
    np.testing.assert_allclose(results[2], expected, atol=1e-5)
    np.testing.assert_allclose(results[3], expected, atol=1e-12)
