"""Divided graphs and tables, with threads as workers."""

from concurrent.futures import ThreadPoolExecutor
from queue import Queue

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import ebboost as eb
from ebboost.cluster.communicator import Communicator
from ebboost.cluster.tables import Directory, ParquetPart, Parts, divided
from ebboost.data.labels import Labels
from ebboost.data.neighbors import Places
from ebboost.field import FieldEnergy, Posterior
from ebboost.strengths import estimate_strengths
from ebboost.sums import added_by, total


class Threads(Communicator):
    """Workers that are threads, with a queue from each to each."""

    def __init__(self, rank, queues):
        self.rank, self.size, self.queues = rank, len(queues), queues

    def exchange(self, messages, senders):
        for rank, array in messages.items():
            self.queues[rank][self.rank].put(np.array(array))
        return [self.queues[self.rank][rank].get(timeout=20.0) for rank in senders]


def by_workers(size, function):
    """What a function of a communicator returns in each of so many workers."""
    queues = [[Queue() for _ in range(size)] for _ in range(size)]

    def work(rank):
        workers = Threads(rank, queues)
        with added_by(workers.allreduce):
            return function(workers)

    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(work, range(size)))


def shard(graph, ends, workers):
    first, last = ends[workers.rank : workers.rank + 2]
    return divided(sparse.csr_array(graph.adjacency[first:last]), np.array(ends), workers)


@st.composite
def divisions(draw):
    n_nodes = draw(st.integers(4, 30))
    random = np.random.default_rng(draw(st.integers(0, 999)))
    source, target = random.integers(0, n_nodes, (2, 3 * n_nodes))
    graph = eb.Graph.from_edges(source, target, random.uniform(0.1, 2.0, source.size), n_nodes)
    cuts = draw(st.sets(st.integers(1, n_nodes - 1), max_size=3))
    return graph, [0, *sorted(cuts), n_nodes]


@given(divisions())
@settings(max_examples=25, deadline=None)
def test_operators_and_fields_of_shards_are_those_of_the_graph(division):
    graph, ends = division
    random = np.random.default_rng(0)
    v = random.normal(size=(graph.n_nodes, 2))
    rows = np.arange(0, graph.n_nodes, 2)
    labels = Labels(rows, np.abs(v[rows, :1]), random.uniform(0.5, 2.0, rows.size))
    field, loss = eb.LatentField(2.0, 0.5), eb.Poisson()

    def mode(graph, labels):
        energy = FieldEnergy(Posterior(field.prior(graph), labels.rows), loss, labels)
        return energy.mode(np.zeros((labels.size, 1)), 1e-12)

    def work(workers):
        own = shard(graph, ends, workers)
        first, last = ends[workers.rank : workers.rank + 2]
        inside = (rows >= first) & (rows < last)
        part = labels.subset(inside)
        steps = own.operator(eb.Laplacian(1.5, 3)).apply(v[first:last])
        exact = own.operator(eb.Laplacian(1.5, method="exact")).apply(v[first:last])
        z = mode(own, Labels(part.rows - first, part.target, part.weight))
        return np.hstack([steps, exact, z, own.degrees[:, None]]), own.n_edges, total(part.weight)

    parts, n_edges, weights = zip(*by_workers(len(ends) - 1, work), strict=True)
    expected = [eb.Laplacian(1.5, 3).operator(graph).apply(v)]
    expected += [eb.Laplacian(1.5, method="exact").operator(graph).apply(v), mode(graph, labels)]
    found = np.vstack(parts)
    np.testing.assert_allclose(found[:, :5], np.hstack(expected), rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(found[:, 5], graph.degrees)
    assert set(n_edges) == {graph.n_edges}
    np.testing.assert_allclose(weights, labels.weight.sum())
    assert len(set(weights)) == 1


def test_strengths_of_shards_are_those_of_the_graph():
    random = np.random.default_rng(3)
    points = random.uniform(size=(400, 2))
    graph = eb.Graph.build_knn(points, k=6)
    target = np.sin(6 * points[:, :1]) + 0.3 * random.normal(size=(400, 1))
    loss, scores, ends = eb.SquaredError(), np.zeros((400, 1)), [0, 150, 400]
    labels = Labels(np.arange(400), target, np.ones(400))
    fold = np.random.default_rng(0).permutation(400) % 5
    whole = estimate_strengths(Places.of_rows(graph), labels, scores, loss, 0)

    def work(workers):
        first, last = ends[workers.rank : workers.rank + 2]
        size = last - first
        own = Labels(np.arange(size), target[first:last], np.ones(size))
        places = Places(shard(graph, ends, workers), np.arange(size))
        return estimate_strengths(places, own, scores[first:last], loss, 0, fold[first:last])

    for found in by_workers(2, work):
        assert repr(found.field) == repr(whole.field)
        assert found.deviance == pytest.approx(whole.deviance, rel=1e-5)


@pytest.mark.parametrize("ids", [np.array([7, 3, 90, -4, 5]), np.array(["b", "a", "", "ä", "z"])])
def test_ids_are_found_in_any_worker(ids):
    ends = [0, 2, 5]

    def work(workers):
        first, last = ends[workers.rank : workers.rank + 2]
        find = Directory(ids[first:last], first, workers)
        unknown = ids.dtype.type(99 if ids.dtype.kind == "i" else "?")
        wanted = np.append(ids[::-1], unknown) if workers.rank else ids[:0]
        return find(wanted, "edges").tolist()

    assert by_workers(2, work) == [[], [4, 3, 2, 1, 0, -1]]


@given(st.lists(st.integers(0, 50), min_size=1, max_size=12), st.integers(1, 6))
def test_every_part_is_read_once_and_in_order(lengths, size):
    parts = tuple(ParquetPart("", number) for number in range(len(lengths)))
    shares = Parts("nodes", (), parts, tuple(lengths)).shares(size)
    assert [one for share in shares for one in share] == list(range(len(lengths)))
    assert len(shares) <= size
