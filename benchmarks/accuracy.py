"""Test error over the official splits, beside plain LightGBM; validation nodes are only chosen and stopped on.

    python benchmarks/accuracy.py [names …] [--preset default|paper|smoothing] [--rewired] [--write FILE]

Presets: ``default`` is EBBSRegressor() or EBBSClassifier() as they come; ``paper`` the published settings; ``smoothing``
smoothing alone, no label used at prediction. ``--rewired`` shuffles the far ends of all edges: a graph that knows
nothing. ``--write`` makes a Markdown table with the value of every split.
"""

import argparse
import time
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
from data import Data, available, load, rewired
from scipy import sparse

import ebbflow as eb


@dataclass
class Row:
    """What was measured on one data set, a value per split."""

    name: str
    preset: str
    classes: bool
    ours: list[float] = field(default_factory=list)
    plain: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    plain_seconds: list[float] = field(default_factory=list)
    cover: list[float] = field(default_factory=list)
    chosen: list[str] = field(default_factory=list)
    note: str = ""

    def __str__(self) -> str:
        ours, each = np.mean(self.ours), " ".join(f"{value:.5g}" for value in self.ours)
        text = f"{self.name:13}{self.preset:10} {ours:.5g} ± {np.std(self.ours):.2g} [{each}] {np.mean(self.seconds):.2f} s"
        if self.plain:
            text += f" | plain {np.mean(self.plain):.5g} {np.mean(self.plain_seconds):.2f} s"
        text += f" | {'ECE' if self.classes else 'coverage'} {np.mean(self.cover):.3f}"
        return f"{text} | {' '.join(self.chosen)}{self.note}"

    def markdown(self) -> str:
        """One line of the table."""
        each = ", ".join(f"{value:.5g}" for value in self.ours)
        plain = f"{np.mean(self.plain):.5g}" if self.plain else "–"
        ratio = f"{np.mean(self.seconds) / np.mean(self.plain_seconds):.1f}" if self.plain else "–"
        cells = [
            self.name,
            "accuracy %" if self.classes else "RMSE",
            plain,
            f"**{np.mean(self.ours):.5g}**{self.note}",
            each,
        ]
        cells += [f"{np.mean(self.cover):.3f}", f"{np.mean(self.seconds):.2f}", ratio]
        return f"| {' | '.join(cells)} |"


def plain(data: Data, split: dict[str, np.ndarray], threads: int) -> tuple[float, float]:
    """LightGBM's own early-stopped fit without the graph: error (or accuracy) and seconds."""
    X = sparse.csr_matrix(data.X) if sparse.issparse(data.X) else data.X
    rows = {part: X.iloc[nodes] if hasattr(X, "iloc") else X[nodes] for part, nodes in split.items()}
    start = time.perf_counter()
    settings: dict[str, Any] = {"objective": "regression", "num_threads": threads, "verbose": -1}
    if data.classes:
        settings |= {"objective": "multiclass", "num_class": int(data.y.max()) + 1}
    train = lightgbm.Dataset(rows["train"], data.y[split["train"]])
    held = lightgbm.Dataset(rows["val"], data.y[split["val"]], reference=train)
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
    if preset == "paper":  # its table of hyperparameters: the rate of CatBoost differs by data set
        changes = {"learner": eb.CatBoost(6, shrinkage=0.1)} if data.name == "avazu" else {}
        return kind.from_preset("paper", **changes, **common)
    smoothing = {"smoothing": eb.Laplacian(2.0, 5), "labels": "none"}
    if data.classes:
        learner = eb.LightGBM(15, colsample_bytree=0.5)
        return kind(150, 0.5, **smoothing, momentum=True, learner=learner, patience=20, **common)
    return kind(
        **smoothing, feature_smoothing=eb.Laplacian(20.0, 5), learner=eb.LightGBM(), learning_rate=0.1, **common
    )


def measured(data: Data, asked: argparse.Namespace) -> Row:
    """Fit and score every split of one data set."""
    row = Row(data.name, asked.preset, data.classes)
    for number, split in enumerate(data.splits):
        if number not in asked.splits:
            continue
        start = time.perf_counter()
        model = make(asked.preset, data, number, asked.threads)
        held = (split["val"], data.y[split["val"]])
        model.fit(data.X, data.y[split["train"]], nodes=split["train"], graph=data.graph, eval_set=held)
        row.seconds.append(time.perf_counter() - start)
        row.ours.append(quality(data, split["test"], model.predict(nodes=split["test"])))
        row.chosen.append(f"{model.choice_}/{model.n_iter_}")
        if data.classes:
            row.cover.append(float(model.calibration_error_))
        else:
            truth, inside = data.y[split["test"]], model.predict(interval=0.9, nodes=split["test"])
            row.cover.append(float(np.mean((inside.lower <= truth) & (truth <= inside.upper))))
        if not asked.no_plain:
            error, seconds = plain(data, split, asked.threads)
            row.plain.append(error)
            row.plain_seconds.append(seconds)
    if data.name == "lucas":
        row.note = f" (R² {1 - np.mean(row.ours) ** 2 / data.y[data.splits[0]['test']].var():.3f})"
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=[])
    parser.add_argument("--splits", nargs="*", type=int, default=[0, 1, 2, 3, 4])
    parser.add_argument("--preset", choices=["default", "paper", "smoothing"], default="default")
    parser.add_argument("--rewired", action="store_true", help="shuffle the edges: the graph then knows nothing")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--no-plain", action="store_true", help="leave out plain LightGBM")
    parser.add_argument("--write", type=Path, help="write a Markdown table to this file")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = []
    for name in asked.names or available():
        data = load(name)
        rows.append(measured(rewired(data) if asked.rewired else data, asked))
        print(rows[-1], flush=True)
    if asked.write:
        head = "| data | measure | plain LightGBM | ebbflow | each split | coverage or ECE | seconds | over plain |"
        lines = [head, "|" + "---|" * 8, *(row.markdown() for row in rows)]
        command = (
            f"python benchmarks/accuracy.py {' '.join(asked.names)} --preset {asked.preset} --threads {asked.threads}"
        )
        asked.write.write_text(
            f"Made by `{' '.join(command.split())}{' --rewired' * asked.rewired}`.\n\n" + "\n".join(lines) + "\n"
        )


if __name__ == "__main__":
    main()
