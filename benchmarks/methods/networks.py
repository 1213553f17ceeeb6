"""MLP, GCN, GAT, AGNN and APPNP, trained as in Boost then Convolve (Ivanov et al., 2021).

Two layers of 64 units, Adam, at most 1000 epochs, stopped after 100 without a better validation
score; columns scaled to [0, 1] on the training nodes, missing values one below, categories as
ordered target statistics; the loss is the RMSE.
"""

import copy
import warnings
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch_geometric.nn import APPNP, AGNNConv, GATConv, GCNConv
from torch_geometric.utils import add_self_loops

from benchmarks.problem import Outcome, Problem, quality

EPOCHS, PATIENCE = 1000, 100
HEADS = 8


def network(
    problem: Problem,
    network: str,
    learning_rate: float,
    dropout: float,
    hidden: int = 64,
    layers: int = 2,
) -> Outcome:
    """Train a network on the columns of the nodes."""
    return trained(problem, encoded(problem), network, learning_rate, dropout, hidden, layers)


def trained(
    problem: Problem,
    features: np.ndarray,
    name: str,
    learning_rate: float,
    dropout: float,
    hidden: int,
    layers: int = 2,
) -> Outcome:
    """Train a network on given features and keep the epoch with the best validation score."""
    learner = Learner(problem, features.shape[1], name, dropout, hidden, layers)
    X = torch.as_tensor(features, dtype=torch.float32, device=learner.device)
    optimizer = torch.optim.Adam(learner.model.parameters(), lr=learning_rate)
    best, curve = Best(problem, PATIENCE), {"training": list[float](), "validation": list[float]()}
    for _ in range(EPOCHS):
        curve["training"].append(learner.step(X, optimizer))
        if best.see(learner.predict(X)):
            break
        curve["validation"].append(best.last)
    return Outcome(best.predicted, None, curve, learner.notes(best), learner.device)


class Best:
    """Early stopping: the predictions of the epoch with the best validation score."""

    def __init__(self, problem: Problem, n_iter_no_change: int) -> None:
        self._problem, self._patience = problem, n_iter_no_change
        self.predicted, self.best, self.best_epoch, self.epoch = np.zeros(0), -np.inf, -1, -1
        self.last = np.nan

    def see(self, predicted: np.ndarray) -> bool:
        """Look at an epoch's predictions; return whether to stop."""
        held, self.epoch = self._problem.val, self.epoch + 1
        classes = bool(self._problem.n_classes)
        self.last = quality(classes, predicted[held], self._problem.y[held])
        score = self.last if classes else -self.last
        if score > self.best and np.isfinite(predicted).all():
            self.predicted, self.best, self.best_epoch = predicted, score, self.epoch
        return self.epoch - self.best_epoch > self._patience


class Learner:
    """A network with its graph on a device: one step of gradient descent, and predictions."""

    def __init__(
        self, problem: Problem, width: int, name: str, dropout: float, hidden: int, layers: int = 2
    ) -> None:
        torch.manual_seed(problem.seed)
        torch.set_num_threads(problem.threads)
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self._classes = bool(problem.n_classes)
        self._edges = edges(problem, normalized=name in ("gcn", "appnp")).to(self.device)
        kinds = {
            "mlp": Perceptron,
            "gcn": Convolution,
            "gat": Attention,
            "agnn": Similarity,
            "appnp": Teleport,
        }
        self.model = kinds[name](width, hidden, problem.n_classes or 1, dropout, layers).to(
            self.device
        )
        self._train = torch.as_tensor(problem.train, device=self.device)
        dtype = torch.long if self._classes else torch.float32
        self._truth = torch.as_tensor(problem.y[problem.train], dtype=dtype, device=self.device)

    def step(self, X: Tensor, optimizer: torch.optim.Optimizer) -> float:
        """Take one step on the training loss and return it."""
        self.model.train()
        optimizer.zero_grad()
        scores = self.model(X, self._edges)[self._train]
        if self._classes:
            loss = nn.functional.cross_entropy(scores, self._truth)
        else:
            loss = torch.sqrt(nn.functional.mse_loss(scores.squeeze(1), self._truth))
        loss.backward()
        optimizer.step()
        return float(loss.detach())

    def notes(self, best: Best) -> dict[str, Any]:
        """Return the best epoch and, on a GPU, its peak memory in megabytes."""
        on_gpu = (
            {"gpu_mb": torch.cuda.max_memory_allocated() / 2**20} if self.device == "cuda" else {}
        )
        return {"epochs": best.best_epoch + 1, **on_gpu}

    def predict(self, X: Tensor) -> np.ndarray:
        """Return scores of every node."""
        self.model.eval()
        with torch.no_grad():
            scores = self.model(X, self._edges)
        return (scores if self._classes else scores.squeeze(1)).double().cpu().numpy()


# ---------------------------------------------------------------------- networks


class Perceptron(nn.Module):
    """Linear layers without the graph."""

    def __init__(self, width: int, hidden: int, out: int, dropout: float, layers: int) -> None:
        super().__init__()
        sizes, parts = [width] + [hidden] * (layers - 1), list[nn.Module]()
        for size, following in zip(sizes, [*sizes[1:], out], strict=True):
            parts += [nn.Dropout(dropout), nn.Linear(size, following), nn.ReLU()]
        self.stack = nn.Sequential(*parts[:-1])

    def forward(self, X: Tensor, edges: Tensor) -> Tensor:
        """Score the nodes."""
        return self.stack(X)


class Convolution(nn.Module):
    """GCN (Kipf & Welling, 2017), with an ELU after every layer, as in those experiments."""

    def __init__(self, width: int, hidden: int, out: int, dropout: float, layers: int) -> None:
        super().__init__()
        sizes = [width] + [hidden] * (layers - 1) + [out]
        self.convolutions = nn.ModuleList(
            GCNConv(size, following, normalize=False) for size, following in pairwise(sizes)
        )
        self.dropout = nn.Dropout(dropout)

    def forward(self, X: Tensor, edges: Tensor) -> Tensor:
        """Score the nodes."""
        X = self.dropout(X)
        for convolution in self.convolutions:
            X = nn.functional.elu(convolution(X, edges))
        return X


class Attention(nn.Module):
    """GAT (Veličković et al., 2018): eight heads, and a last layer that adds its input."""

    def __init__(self, width: int, hidden: int, out: int, dropout: float, layers: int) -> None:
        super().__init__()
        sizes = [width] + [hidden] * (layers - 1)
        self.attentions = nn.ModuleList(
            GATConv(size, hidden // HEADS, HEADS, dropout=dropout, add_self_loops=False)
            for size in sizes[:-1]
        )
        self.last = GATConv(sizes[-1], out, 1, dropout=dropout, residual=True, add_self_loops=False)
        self.dropout = nn.Dropout(dropout)

    def forward(self, X: Tensor, edges: Tensor) -> Tensor:
        """Score the nodes."""
        for attention in self.attentions:
            X = nn.functional.elu(attention(self.dropout(X), edges))
        return self.last(self.dropout(X), edges)


class Similarity(nn.Module):
    """AGNN (Thekumparampil et al., 2018): cosine attention with learned temperature."""

    def __init__(self, width: int, hidden: int, out: int, dropout: float, layers: int) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Dropout(dropout), nn.Linear(width, hidden), nn.ELU())
        self.attentions = nn.ModuleList(
            AGNNConv(requires_grad=layer > 0, add_self_loops=False) for layer in range(layers)
        )
        self.last = nn.Sequential(nn.Dropout(dropout), nn.Linear(hidden, out), nn.ELU())

    def forward(self, X: Tensor, edges: Tensor) -> Tensor:
        """Score the nodes."""
        X = self.first(X)
        for attention in self.attentions:
            X = attention(X, edges)
        return self.last(X)


class Teleport(nn.Module):
    """APPNP (Gasteiger et al., 2019): ten steps of personalised PageRank, α = 0.1."""

    def __init__(self, width: int, hidden: int, out: int, dropout: float, layers: int) -> None:
        super().__init__()
        self.scores = Perceptron(width, hidden, out, dropout, layers)
        self.propagate = APPNP(K=10, alpha=0.1, normalize=False)

    def forward(self, X: Tensor, edges: Tensor) -> Tensor:
        """Score the nodes."""
        return self.propagate(self.scores(X, edges), edges)


# ---------------------------------------------------------------------- what networks see


def edges(problem: Problem, normalized: bool) -> Any:
    """Return the edges with self-loops: as pairs, or as D̃^{-1/2}(A+I)D̃^{-1/2}."""
    adjacency, n = problem.graph.adjacency, len(problem.y)
    pairs = torch.as_tensor(np.stack(adjacency.nonzero()), dtype=torch.long)
    pairs = add_self_loops(pairs[:, pairs[0] != pairs[1]], num_nodes=n)[0]
    if not normalized:
        return pairs
    scale = torch.bincount(pairs[0], minlength=n).to(torch.float32).rsqrt()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # sparse tensors call themselves beta
        matrix = torch.sparse_coo_tensor(pairs, scale[pairs[0]] * scale[pairs[1]], (n, n))
        return matrix.coalesce().to_sparse_csr()


def encoded(problem: Problem, extra: np.ndarray | None = None) -> np.ndarray:
    """Return X (and columns beside it) as numbers in [0, 1] with -1 where missing."""
    if problem.is_table:
        table = copy.copy(problem.X)
        for name in problem.categorical:
            table[name] = target_statistics(problem.X[name].cat.codes.to_numpy(), problem)
        X = table.to_numpy(dtype=np.float64)
    else:
        X = (
            problem.X.toarray()
            if hasattr(problem.X, "toarray")
            else np.asarray(problem.X, dtype=np.float64)
        )
    return scaled(X if extra is None else np.hstack([X, extra]), problem)


def scaled(X: np.ndarray, problem: Problem) -> np.ndarray:
    """Return columns scaled to [0, 1] on the training nodes, with -1 where missing."""
    low, high = np.nanmin(X[problem.train], axis=0), np.nanmax(X[problem.train], axis=0)
    return np.nan_to_num((X - low) / np.where(high > low, high - low, 1.0), nan=-1.0).astype(
        np.float32
    )


def target_statistics(codes: np.ndarray, problem: Problem) -> np.ndarray:
    """Return ordered target statistics of the categories; others use all training nodes."""
    labels, groups = problem.y[problem.train].astype(np.float64), codes[problem.train] + 1
    prior, n_groups = labels.mean(), int(codes.max()) + 2
    sums, counts = (np.bincount(groups, weights, minlength=n_groups) for weights in (labels, None))
    encoded_values = ((sums + prior) / (counts + 1.0))[codes + 1]
    order = np.argsort(groups, kind="stable")
    running = np.concatenate([[0.0], np.cumsum(labels[order])])
    first = np.searchsorted(groups[order], groups[order])
    position = np.arange(len(order))
    encoded_values[problem.train[order]] = (running[position] - running[first] + prior) / (
        position - first + 1.0
    )
    return encoded_values
