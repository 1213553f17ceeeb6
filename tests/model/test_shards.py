"""Fitted nodes that stay on workers: intervals, explanations, predictions in files."""

import numpy as np
import pandas as pd
import pytest

import ebboost as eb
from tests.sharded import COLUMNS, SETTINGS


@pytest.fixture(scope="module")
def models(sharded_nodes):
    """One model fitted in this process and on two workers."""
    unknown = np.flatnonzero(sharded_nodes.frame["y"].isna())[:120]  # all on the first worker
    settings = SETTINGS | {"early_stopping": True}
    held_out = {"eval_set": (unknown, sharded_nodes.truth[unknown])}
    fits = (sharded_nodes.fit_here, sharded_nodes.fit)
    return [fit(eb.EBBSRegressor(10, **settings), **held_out) for fit in fits]


def test_intervals_are_those_of_one_process(models):
    here, there = (model.predict(interval=0.9) for model in models)
    np.testing.assert_allclose(there.lower.compute(), here.lower, atol=1e-4)
    np.testing.assert_allclose(there.upper.compute(), here.upper, atol=1e-4)
    some = models[1].predict(nodes=[5, 500], interval=0.9)
    np.testing.assert_allclose(some.lower.compute(), here.lower[[5, 500]], atol=1e-4)


@pytest.mark.parametrize("nodes", [[3], [3, 500]])
def test_explanations_are_those_of_one_process(models, nodes):
    here, there = (model.explanations(nodes) for model in models)
    for one, other in zip(here, there, strict=True):
        assert one.node == other.node
        assert one.total == pytest.approx(other.total, abs=1e-5)
        assert one.score == pytest.approx(other.score, abs=1e-5)
        for part in ("own", "neighbors", "labels"):
            assert getattr(other, part) == pytest.approx(getattr(one, part), abs=1e-5)


def test_predictions_are_a_column_of_the_table_in_parquet_files(models, sharded_nodes, tmp_path):
    nodes, _ = sharded_nodes.lazy
    predicted = nodes.assign(prediction=models[1].predict())
    predicted.to_parquet(tmp_path / "predictions", write_index=False)
    written = pd.read_parquet(tmp_path / "predictions")
    np.testing.assert_allclose(written["prediction"], models[0].predict(), atol=1e-5)
    assert written["id"].tolist() == sharded_nodes.frame["id"].tolist()


def test_what_needs_all_nodes_says_so(models):
    with pytest.raises(ValueError, match="on the workers of a cluster"):
        models[1].predict_distribution()
    with pytest.raises(ValueError, match="need a model on one machine"):
        models[1].predict(new_labels=([0], [1.0]))


def test_a_saved_folder_is_the_model_of_one_machine(models, sharded_nodes, tmp_path):
    model = models[1]
    model.save(tmp_path / "model")
    loaded = eb.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(), model.predict().compute())
    here, there = loaded.predict(interval=0.9), model.predict(interval=0.9)
    np.testing.assert_allclose(here.lower, there.lower.compute())
    assert (loaded.graph_.adjacency != sharded_nodes.graph.adjacency).nnz == 0
    explained = (loaded.explanations([3], X=sharded_nodes.frame[COLUMNS]), model.explanations([3]))
    assert explained[0][0].total == pytest.approx(explained[1][0].total)
    with pytest.raises(FileExistsError, match="holds a model"):
        model.save(tmp_path / "model")
