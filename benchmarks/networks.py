"""Graph neural networks, tuned by validation error: the rival for graphs with many labels.

What has won in comparisons elsewhere: labels of other nodes as inputs, which are hidden at random
in training, so that no label explains itself; smooth and periodic functions of the columns;
positions in the graph and degrees; and more than one hop. Three kinds: residual layers that see the
columns and labels of one and two hops ("wide"), GraphSAGE ("sage") and GCN ("gcn"), both with
residuals. On a CPU three configurations are compared, on a GPU 24 drawn at random; the prediction
is the mean of the best ones by validation error.

It needs numpy and torch alone: ``python -m benchmarks.networks FOLDER`` runs on a machine with a
GPU what ``python -m benchmarks export FOLDER`` has written, and writes predictions beside.
"""

import argparse
import time
import warnings
from itertools import product
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

Arrays = dict[str, np.ndarray]
EPOCHS = 1_000
EVERY, PATIENCE = 5, 20  # epochs between looks at the validation error, and looks
HIDDEN = 128
SHOWN = 0.5  # share of the training labels that are inputs in an epoch
MOST_EMBEDDED = 64  # columns
MOST_COLUMNS = 512  # more are replaced by as many principal directions
FREQUENCIES = 8  # of a periodic embedding of each column
# Kind, layers, dropout, whether positions are inputs, whether columns are embedded.
SMALL = [
    ("wide", 2, 0.2, True, False),
    ("sage", 2, 0.2, True, False),
    ("wide", 3, 0.0, False, False),
]
EVERYTHING = list(
    product(("wide", "sage", "gcn"), (2, 4), (0.0, 0.3), (True, False), (True, False))
)
N_CONFIGURATIONS = 24
N_AVERAGED = {"cpu": 2, "cuda": 5}


class Problem:
    """The arrays of a task on a device."""

    def __init__(self, arrays: Arrays, device: str) -> None:
        def on(values: np.ndarray, kind: torch.dtype) -> Tensor:
            return torch.as_tensor(values, dtype=kind, device=device)

        self.train, self.validation, self.test = (
            on(arrays[name], torch.long) for name in ("train", "validation", "test")
        )
        self.X = on(columns(arrays["X"]), torch.float32)
        self.position = on(standardized(arrays["position"]), torch.float32)
        n = len(arrays["y"])
        edges, weight = on(arrays["edges"], torch.long), on(arrays["weight"], torch.float32)
        total = torch.zeros(n, device=device).index_add(0, edges[0], weight)
        loops = torch.arange(n, device=device).repeat(2, 1)
        root = (total + 1.0).rsqrt()
        own = torch.cat([edges, loops], dim=1)
        pair = root[own[0]] * torch.cat([weight, torch.ones(n, device=device)]) * root[own[1]]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # sparse matrices call themselves beta
            mean = torch.sparse_coo_tensor(edges, weight / total[edges[0]], (n, n))
            symmetric = torch.sparse_coo_tensor(own, pair, (n, n))
            self.mean = mean.coalesce().to_sparse_csr()
            self.symmetric = symmetric.coalesce().to_sparse_csr()
        degree = np.bincount(arrays["edges"][0], minlength=n)[:, None]
        self.X = torch.cat([self.X, on(standardized(np.log1p(degree)), torch.float32)], dim=1)
        self.n_classes = int(arrays["n_classes"])
        known = np.concatenate([arrays["train"], arrays["validation"]])
        if self.n_classes:
            self.center, self.scale = 0.0, 1.0
            self.target = on(arrays["y"], torch.long)
            self.labels = nn.functional.one_hot(self.target, self.n_classes).float()
        else:
            y = arrays["y"].astype(float)
            self.center, self.scale = float(y[known].mean()), float(y[known].std())
            self.target = on((y - self.center) / self.scale, torch.float32)
            self.labels = self.target[:, None]

    def inputs(self, shown: Tensor, use_position: bool) -> Tensor:
        """Return columns, positions, labels of the shown nodes, and which these are."""
        is_shown = torch.zeros(len(self.X), 1, device=self.X.device)
        is_shown[shown] = 1.0
        parts = [self.X, *([self.position] if use_position else [])]
        return torch.cat([*parts, is_shown * self.labels, is_shown], dim=1)

    def loss(self, outputs: Tensor, nodes: Tensor) -> Tensor:
        """Return the mean loss at some nodes."""
        if self.n_classes:
            return nn.functional.cross_entropy(outputs[nodes], self.target[nodes])
        return nn.functional.mse_loss(outputs[nodes, 0], self.target[nodes])


def standardized(values: np.ndarray) -> np.ndarray:
    """Return columns with mean 0 and variance 1."""
    return (values - values.mean(axis=0)) / np.maximum(values.std(axis=0), 1e-9)


def columns(X: np.ndarray) -> np.ndarray:
    """Return smooth columns: ranks as normal scores, principal directions of many, what misses."""
    missing = np.isnan(X)
    X = np.where(missing, np.nanmedian(X, axis=0), X) if missing.any() else X
    if X.shape[1] > MOST_COLUMNS:
        torch.manual_seed(0)
        U, S, _ = torch.svd_lowrank(torch.as_tensor(np.log1p(X)), MOST_COLUMNS // 2)
        return standardized((U * S).numpy())
    scores = []
    for column in X.T:
        values, code = np.unique(column, return_inverse=True)
        rank = np.cumsum(np.bincount(code))[code] / column.size
        normal = np.sqrt(2) * torch.erfinv(torch.as_tensor(2 * rank.clip(0.001, 0.999) - 1)).numpy()
        scores += [normal] if len(values) > 2 else [column]
    flags = missing[:, missing.any(axis=0)]
    return standardized(np.column_stack([X, *scores, flags]).astype(np.float32))


class Network(nn.Module):
    """Residual layers on the inputs of one and two hops, or of the neighbours in every layer."""

    def __init__(
        self, kind: str, columns: int, width: int, n_outputs: int, layers: int, dropout: float
    ) -> None:
        super().__init__()
        self.kind, self.dropout, self.columns = kind, nn.Dropout(dropout), columns
        self.frequency = nn.Parameter(torch.randn(columns, FREQUENCIES))
        width += 2 * FREQUENCIES * columns
        self.first = nn.Linear(width * (3 if kind == "wide" else 1), HIDDEN)
        each = HIDDEN * (2 if kind == "sage" else 1)
        self.layers = nn.ModuleList(
            nn.Sequential(
                nn.LayerNorm(each), nn.Linear(each, HIDDEN), nn.ReLU(), nn.Dropout(dropout)
            )
            for _ in range(layers)
        )
        self.last = nn.Linear(HIDDEN, n_outputs)

    def forward(self, inputs: Tensor, mean: Tensor) -> Tensor:
        """Return the outputs of every node."""
        if self.columns:
            angle = (inputs[:, : self.columns, None] * self.frequency).flatten(1)
            inputs = torch.cat([inputs, angle.sin(), angle.cos()], dim=1)
        if self.kind == "wide":
            once = mean @ inputs
            inputs = torch.cat([inputs, once, mean @ once], dim=1)
        h = self.first(self.dropout(inputs))
        for layer in self.layers:
            near = h if self.kind == "wide" else mean @ h
            h = h + layer(torch.cat([h, near], dim=1) if self.kind == "sage" else near)
        return self.last(h)


def fit(
    problem: Problem, kind: str, layers: int, dropout: float, position: bool, periodic: bool
) -> tuple[float, Tensor]:
    """Train a network; return its best validation loss, and its outputs with all labels shown."""
    torch.manual_seed(0)
    width = problem.inputs(problem.train, position).shape[1]
    columns = problem.X.shape[1] if periodic and problem.X.shape[1] <= MOST_EMBEDDED else 0
    network = Network(kind, columns, width, problem.n_classes or 1, layers, dropout)
    network = network.to(problem.X.device)
    near = problem.symmetric if kind == "gcn" else problem.mean
    optimizer = torch.optim.AdamW(network.parameters(), lr=3e-3, weight_decay=1e-3)
    known = torch.cat([problem.train, problem.validation])
    best, outputs, looks = np.inf, torch.empty(0), 0
    for epoch in range(EPOCHS):
        network.train()
        is_input = torch.rand(problem.train.numel(), device=known.device) < SHOWN
        shown, hidden = problem.train[is_input], problem.train[~is_input]
        optimizer.zero_grad()
        problem.loss(network(problem.inputs(shown, position), near), hidden).backward()
        optimizer.step()
        if epoch % EVERY:
            continue
        network.eval()
        with torch.no_grad():
            held_out = network(problem.inputs(problem.train, position), near)
            loss = float(problem.loss(held_out, problem.validation))
            looks += 1
            if loss < best:
                best, looks = loss, 0
                outputs = network(problem.inputs(known, position), near)
        if looks > PATIENCE:
            break
    return best, outputs


def search(arrays: Arrays, device: str = "cpu") -> np.ndarray:
    """Return predictions of the test nodes by the configurations of least validation loss."""
    torch.set_num_threads(1)
    problem = Problem(arrays, device)
    drawn = np.random.default_rng(0).permutation(len(EVERYTHING))[:N_CONFIGURATIONS]
    configurations = SMALL if device == "cpu" else [EVERYTHING[one] for one in drawn]
    fits = [fit(problem, *one) for one in configurations]
    fits.sort(key=lambda one: one[0])
    outputs = [one[problem.test] for _, one in fits[: N_AVERAGED[device]]]
    if problem.n_classes:
        outputs = [one.softmax(dim=1) for one in outputs]
    mean = torch.stack(outputs).mean(dim=0).double().cpu().numpy()
    return mean if problem.n_classes else problem.center + problem.scale * mean[:, 0]


def main() -> None:
    """Predict every exported task that has no predictions yet."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, help="default: the same folder")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--part", default="0/1", help="the first of four parts is 0/4")
    options = parser.parse_args()
    out = options.out or options.folder
    out.mkdir(parents=True, exist_ok=True)
    part, parts = map(int, options.part.split("/"))
    paths = [path for path in options.folder.glob("*~*.npz") if not path.stem.endswith(".gnn")]
    paths.sort(key=lambda path: (path.stat().st_size, path.name))
    for path in paths[part::parts]:
        target = out / f"{path.stem}.gnn.npz"
        if target.exists():
            continue
        start = time.perf_counter()
        predictions = search(dict(np.load(path)), options.device)
        seconds = time.perf_counter() - start
        name = torch.cuda.get_device_name() if options.device == "cuda" else "CPU"
        facts = {"seconds": seconds, "machine": name, "version": f"torch {torch.__version__}"}
        np.savez(target, predictions=predictions, **facts)
        print(f"{path.stem}: {seconds:.0f} s", flush=True)


if __name__ == "__main__":
    main()
