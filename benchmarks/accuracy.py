"""Test error of the default over the official splits, beside plain LightGBM; validation nodes are only stopped on.

python benchmarks/accuracy.py [names …] [--splits 0 1 2 3 4] [--preset default|paper|smoothing] [--rewired]
"""

import argparse
import time
import warnings
from typing import Any

import lightgbm
import numpy as np
from data import Data, available, load, rewired
from scipy import sparse

import ebbflow as eb


def plain(data: Data, split: dict[str, np.ndarray], threads: int) -> tuple[float, float]:
    """LightGBM's own early-stopped fit without the graph: error (or accuracy) and seconds."""
    X = data.X if not sparse.issparse(data.X) else sparse.csr_matrix(data.X)
    rows = {part: X[nodes] if sparse.issparse(X) else (X.iloc[nodes] if hasattr(X, "iloc") else X[nodes])
            for part, nodes in split.items()}  # fmt: skip
    start = time.perf_counter()
    kind: dict[str, Any] = {"objective": "regression"}
    if data.classes:
        kind = {"objective": "multiclass", "num_class": int(data.y.max()) + 1}
    train = lightgbm.Dataset(rows["train"], data.y[split["train"]])
    held = lightgbm.Dataset(rows["val"], data.y[split["val"]], reference=train)
    settings = {**kind, "num_threads": threads, "verbose": -1}
    stop = [lightgbm.early_stopping(20 if data.classes else 50, verbose=False)]
    model = lightgbm.train(settings, train, 2000, [held], callbacks=stop)
    seconds = time.perf_counter() - start
    predicted = model.predict(rows["test"])
    return quality(data, split["test"], predicted.argmax(1) if data.classes else predicted), seconds


def quality(data: Data, nodes: np.ndarray, predicted: np.ndarray) -> float:
    """Accuracy in percent, or root mean squared error."""
    if data.classes:
        return 100 * float(np.mean(predicted == data.y[nodes]))
    return float(np.sqrt(np.mean((predicted - data.y[nodes]) ** 2)))


def make(preset: str, data: Data, seed: int, threads: int) -> Any:
    """Return the estimator of a preset."""
    kind = eb.EBBSClassifier if data.classes else eb.EBBSRegressor
    common = {"random_state": seed, "n_jobs": threads}
    if preset == "default":
        return kind(**common)
    if preset == "paper":
        rate = {"avazu": 0.1, "vk": 0.05}.get(data.name)
        changes = {"learner": eb.CatBoost(6, shrinkage=rate)} if rate else {}
        return kind.from_preset("paper", **changes, **common)
    smoothing = {"smoothing": eb.Laplacian(2.0, 5), "labels": "none"}
    if data.classes:
        learner = eb.LightGBM(15, colsample_bytree=0.5)
        return kind(150, 0.5, **smoothing, momentum=True, learner=learner, patience=20, **common)
    return kind(
        **smoothing, feature_smoothing=eb.Laplacian(20.0, 5), learner=eb.LightGBM(), learning_rate=0.1, **common
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=[])
    parser.add_argument("--splits", nargs="*", type=int, default=[0, 1, 2, 3, 4])
    parser.add_argument("--preset", choices=["default", "paper", "smoothing"], default="default")
    parser.add_argument("--rewired", action="store_true", help="shuffle the edges: the graph then knows nothing")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--no-plain", action="store_true", help="leave out plain LightGBM")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in asked.names or available():
        data = load(name)
        if asked.rewired:
            data = rewired(data)
        ours, theirs, cover, spent, chosen = [], [], [], [], []
        for number, split in enumerate(data.splits):
            if number not in asked.splits:
                continue
            start = time.perf_counter()
            model = make(asked.preset, data, number, asked.threads)
            held = (split["val"], data.y[split["val"]])
            model.fit(data.X, data.y[split["train"]], nodes=split["train"], graph=data.graph, eval_set=held)
            spent.append(time.perf_counter() - start)
            predicted = model.predict(nodes=split["test"])
            ours.append(quality(data, split["test"], predicted))
            chosen.append(f"{model.choice_}/{model.n_iter_}")
            if not data.classes:
                inside = model.predict(interval=0.9, nodes=split["test"])
                truth = data.y[split["test"]]
                cover.append(float(np.mean((inside.lower <= truth) & (truth <= inside.upper))))
            else:
                cover.append(float(model.calibration_error_))
            if not asked.no_plain:
                theirs.append(plain(data, split, asked.threads))
        values = " ".join(f"{value:.5g}" for value in ours)
        line = f"{name:13}{asked.preset:10} mean {np.mean(ours):.5g} ± {np.std(ours):.2g}  [{values}]"
        line += f"  {np.mean(spent):.2f} s"
        if name == "lucas":
            truth = data.y[data.splits[0]["test"]]
            line += f"  R² {1 - np.mean(ours) ** 2 / truth.var():.4f}"
        if theirs:
            line += f"  | plain {np.mean([t[0] for t in theirs]):.5g}  {np.mean([t[1] for t in theirs]):.2f} s"
        print(
            line + f"  | {'ECE' if data.classes else 'coverage'} {np.mean(cover):.3f}  {' '.join(chosen)}", flush=True
        )


if __name__ == "__main__":
    main()
