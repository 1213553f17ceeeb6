"""One process, two or three workers of Dask, actors of Ray and a fit on one machine agree."""

import os
import signal
from threading import Timer

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import ebboost as eb
import ebboost.cluster as cluster
from tests.cluster.problems import distance, fast

FIXED = {"labels": eb.LatentField(1.0, 0.1), "smoothing": eb.Laplacian(1.0, 2)}
FIXED |= {"early_stopping": False, "neighbor_features": None}


def both(client, estimator, prepared, **options):
    """The fit in this process, and that of three workers."""
    return [
        cluster.fit(clone(estimator), prepared, target="y", engine=engine, **options)
        for engine in (None, client)
    ]


@pytest.mark.parametrize("rounds", [1, 50])
def test_workers_and_one_machine_agree_at_twenty_thousand_nodes(client, large, rounds, tmp_path):
    settings = {**FIXED, "n_estimators": rounds}
    parts = {workers: large.write(tmp_path / str(workers), workers) for workers in (2, 3)}
    alone = cluster.fit(fast(**settings), parts[3], target="y").predict()
    for prepared in parts.values():
        divided = cluster.fit(fast(**settings), prepared, target="y", engine=client)
        assert distance(divided.predict(), alone) < 1e-6
    whole = fast(**settings).fit(large.X, large.frame["y"], graph=large.graph)
    assert distance(alone, whole.predict()) < (1e-6 if rounds == 1 else 1e-5)


def test_the_preset_finds_the_same_model_on_workers_and_on_one_machine(client, large, tmp_path):
    alone, divided = both(client, fast(), large.write(tmp_path))
    whole = fast().fit(large.X, large.frame["y"], graph=large.graph)
    assert divided.rounds_ == alone.rounds_ == whole.rounds_
    fields = [[one.field for one in each.model_.components] for each in (alone, divided, whole)]
    assert repr(fields[0]) == repr(fields[1]) == repr(fields[2])
    assert distance(divided.predict(), alone.predict()) < 1e-6
    assert distance(alone.predict(), whole.predict()) < 1e-3  # of a field with a weak tau
    np.testing.assert_array_equal(alone.model_.unseen.rows, whole.model_.unseen.rows)
    one, other = alone.predict(interval=0.9), whole.predict(interval=0.9)
    np.testing.assert_allclose(one.upper - one.lower, other.upper - other.lower, rtol=0.1)


def test_classes_with_text_ids_categories_and_weights(client, small, tmp_path):
    random = np.random.default_rng(1)
    frame = small.frame.copy()
    names = np.array([f"node {i}" for i in random.permutation(len(frame))])
    levels = np.where(frame["a"] < 50, "low", np.where(frame["a"] < 51, "rare", "high"))
    frame["a"] = np.where(frame["b"] < 7, None, levels)
    kind = np.where(frame["y"] > 2.2, "dear", np.where(frame["y"] > 1.2, "fair", "cheap"))
    frame["y"] = np.where(frame["y"].isna(), None, kind)
    frame = frame.assign(id=names, w=random.integers(1, 4, len(frame)).astype(float))
    problem = type(small)(frame, small.edges.apply(lambda one: names[one]), small.graph)
    prepared = problem.write(tmp_path, 3, id="id")
    settings = {"n_estimators": 30, "labels": eb.LatentField(1.0, 0.1)}
    alone, divided = both(client, fast(eb.EBBSClassifier, **settings), prepared, sample_weight="w")
    np.testing.assert_allclose(divided.predict_proba(), alone.predict_proba(), atol=1e-6)
    assert alone.classes_.tolist() == ["cheap", "dear", "fair"]
    assert alone.graph_.node_ids.tolist() == names.tolist()
    whole = fast(eb.EBBSClassifier, **settings)
    graph = eb.Graph.from_dataframe(problem.edges, nodes=names)
    whole.fit(problem.X, frame["y"], frame["w"], graph=graph)
    assert alone.rounds_ == whole.rounds_
    np.testing.assert_allclose(alone.predict_proba(), whole.predict_proba(), atol=0.02)


def test_counts_with_exposure_and_weighted_edges(client, small, tmp_path):
    random = np.random.default_rng(2)
    exposure = random.uniform(0.5, 2.0, len(small.frame))
    counts = random.poisson(exposure * np.exp(small.frame["y"].fillna(0.0).clip(-2.0, 2.0)))
    frame = small.frame.assign(y=np.where(small.frame["y"].isna(), np.nan, counts), t=exposure)
    weight = random.uniform(0.1, 1.0, len(small.edges))
    edges = pd.concat([small.edges.assign(s=weight), small.edges[:50].assign(s=0.5)])
    problem = type(small)(frame, edges, small.graph)
    prepared = problem.write(tmp_path, 3, weight="s")
    settings = {"loss": "poisson", "n_estimators": 30, "labels": eb.LatentField(1.0, 0.1)}
    alone, divided = both(client, fast(**settings), prepared, exposure="t")
    np.testing.assert_allclose(divided.predict(), alone.predict(), rtol=1e-6)
    graph = eb.Graph.from_edges(edges["source"], edges["target"], edges["s"], len(frame))
    assert abs(alone.graph_.adjacency - graph.adjacency).max() < 1e-15
    whole = fast(**settings).fit(problem.X, frame["y"], graph=graph, exposure=exposure)
    # Where curvatures change, one machine solves to 1e-3, with another preconditioner.
    assert distance(alone.predict(), whole.predict()) < 0.05


def test_a_dask_dataframe_is_read_where_its_partitions_are(client, small, tmp_path):
    dd = pytest.importorskip("dask.dataframe")
    tables = [dd.from_pandas(one, npartitions=4) for one in (small.frame, small.edges)]
    settings = {**FIXED, "n_estimators": 5}
    divided = cluster.fit(fast(**settings), cluster.prepare(*tables), target="y", engine=client)
    alone = cluster.fit(fast(**settings), small.write(tmp_path), target="y")
    assert distance(divided.predict(), alone.predict()) < 1e-6


def test_a_worker_without_labels_takes_part(client, small, tmp_path):
    frame = small.frame.copy()
    frame.loc[: len(frame) // 2, "y"] = np.nan
    prepared = type(small)(frame, small.edges, small.graph).write(tmp_path)
    for changes in ({}, FIXED):
        settings = {"n_estimators": 10, **changes}
        alone, divided = both(client, fast(**settings), prepared)
        assert distance(divided.predict(), alone.predict()) < 1e-6


class Killing(cluster.Ray):
    """Kills its last actor in training."""

    timer = None

    def _look(self, ray, references, names):
        if self.timer is None:
            process = int(names[-1].rsplit(" ", 1)[1])
            self.timer = Timer(1.5, os.kill, (process, signal.SIGKILL))
            self.timer.start()
        return super()._look(ray, references, names)


def test_actors_of_ray_agree_with_one_process(large, tmp_path):
    ray = pytest.importorskip("ray")
    prepared = large.write(tmp_path)
    settings = {**FIXED, "n_estimators": 20}
    alone = cluster.fit(fast(**settings), prepared, target="y").predict()
    options = {"include_dashboard": False, "log_to_driver": False, "logging_level": "error"}
    ray.init(num_cpus=3, **options)
    try:
        divided = cluster.fit(fast(**settings), prepared, target="y", engine=cluster.Ray(2))
        assert distance(divided.predict(), alone) < 1e-6
        many = {**settings, "n_estimators": 2000}
        with pytest.raises(RuntimeError, match=r"Lost the worker .*, process \d+: it ended"):
            cluster.fit(fast(**many), prepared, target="y", engine=Killing(2))
        with pytest.raises(ValueError, match="Ray has 3 processors, too few for 3 workers with 2"):
            cluster.fit(fast(), prepared, target="y", engine=cluster.Ray(3, 2))
    finally:
        ray.shutdown()
