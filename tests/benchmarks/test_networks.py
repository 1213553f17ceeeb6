"""Networks, Res-GNN and BGNN on a small graph; needs torch (``make test-gnn``)."""

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("torch_geometric")

import torch

from benchmarks import data
from benchmarks.methods import METHODS, NETWORKS, boosted, networks
from benchmarks.problem import Problem, quality

pytestmark = pytest.mark.filterwarnings("default")  # torch warns of itself


@pytest.fixture(autouse=True)
def short(monkeypatch):
    """Fewer epochs."""
    monkeypatch.setattr(networks, "EPOCHS", 150)
    monkeypatch.setattr(boosted, "EPOCHS", 8)


def score(outcome, loaded, part="test"):
    nodes = loaded.splits[0][part]
    return quality(loaded.classes, outcome.predicted[nodes], loaded.y[nodes])


@pytest.mark.parametrize(
    "name", ["MLP", "GCN", "GAT", "AGNN", "APPNP", "Res-GNN", "BGNN", "BGNN, one step"]
)
@pytest.mark.parametrize("dataset", ["county", "slap"])
def test_a_network_learns_and_is_reproducible(home, name, dataset):
    loaded = data.load(dataset)
    problem, method = Problem.of(loaded, 0, seed=0), METHODS[name]
    settings = method.configurations(dataset)[0] | {"learning_rate": 0.05}
    first, second = (method(problem, **settings) for _ in range(2))
    if first.device == "cpu":  # sums over edges come in any order on a GPU
        np.testing.assert_array_equal(first.predicted, second.predicted)
    assert first.predicted.shape == ((80, 2) if loaded.classes else (80,))
    assert first.device == ("cuda" if torch.cuda.is_available() else "cpu")
    train = loaded.splits[0]["train"]
    if loaded.classes:
        assert score(first, loaded, "train") > 100 * np.bincount(loaded.y[train]).max() / len(train)
    else:
        assert score(first, loaded, "train") < 0.9 * loaded.y[train].std()
    assert first.curve["training"][-1] < first.curve["training"][0]


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_depends_on_neighbours_only(home, name):
    problem = Problem.of(data.load("county"), 0, seed=0)
    learner = networks.Learner(problem, 3, name, dropout=0.0, hidden=16)
    X = torch.rand(80, 3, device=learner.device)
    before = learner.predict(X)
    X[0] += 1.0
    moved = np.abs(learner.predict(X) - before) > 1e-7
    assert moved[:3].all() and (
        name == "appnp" or not moved[5:].any()
    )  # two layers, ties to the next two nodes


def test_columns_are_scaled_on_training_nodes_and_missing_values_are_minus_one(home):
    loaded = data.load("county")
    problem = Problem.of(loaded, 0, seed=0)
    X = networks.encoded(problem)
    assert X[problem.train].min() == -1.0 and X[problem.train].max() == 1.0
    np.testing.assert_array_equal(X[:, 1] == -1.0, loaded.X["b"].isna())


def test_target_statistics_use_only_the_training_labels_before_a_node(home):
    problem = Problem.of(data.load("county"), 0, seed=0)
    codes = problem.X["kind"].cat.codes.to_numpy()
    statistics, y = networks.target_statistics(codes, problem), problem.y
    prior = y[problem.train].mean()
    for rank, node in enumerate(problem.train[:20]):
        earlier = [y[other] for other in problem.train[:rank] if codes[other] == codes[node]]
        assert statistics[node] == pytest.approx((sum(earlier) + prior) / (len(earlier) + 1))
    node = problem.val[0]
    same = y[problem.train[codes[problem.train] == codes[node]]]
    assert statistics[node] == pytest.approx((same.sum() + prior) / (same.size + 1))


def test_the_graph_matrix_is_the_normalised_one_of_the_paper(home):
    problem = Problem.of(data.load("county"), 0, seed=0)
    dense = problem.graph.adjacency.toarray() + np.eye(80)
    scale = 1 / np.sqrt(dense.sum(axis=1))
    np.testing.assert_allclose(
        networks.edges(problem, True).to_dense().numpy(), dense * scale * scale[:, None], atol=1e-6
    )


def test_bgnn_takes_the_requested_steps_and_fits_trees_to_the_inputs(home, monkeypatch):
    problem = Problem.of(data.load("county"), 0, seed=0)
    targets = []
    grow = boosted.Ensemble.grow
    monkeypatch.setattr(
        boosted.Ensemble,
        "grow",
        lambda self, target: (targets.append(target), grow(self, target))[1],
    )
    settings = {"network": "gcn", "learning_rate": 0.01, "dropout": 0.0, "replace": True}
    outcome = boosted.bgnn(problem, steps=5, **settings)
    rounds = len(outcome.curve["validation"])
    assert len(outcome.curve["training"]) == 5 * rounds and len(targets) == rounds
    assert targets[0] is None and targets[1].shape == (problem.train.size, 1)
    # Adam moves an input by about its rate in a step: five steps, a rate of 0.01
    assert 0.0 < np.abs(targets[1]).max() <= 5 * 0.01 * 1.5
