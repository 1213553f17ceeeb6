"""Robust compared with quadratic smoothing: heterophily, clean graphs, spurious edges.

    python -m benchmarks.robust [names …] [--penalty log] [--splits 0 1 …] [--write FILE]

Both smoothers have λ = 2 and 5 steps, the same trees and learning rate, labels="none", and stop on
the validation nodes; the errors are those of the test nodes. "+30 %" adds that share of edges
between random nodes. The last column says how well low edge weights tell the added edges from the
others (area under the ROC curve; 0.5 is chance).
"""

import argparse
import time
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

import ebboost as eb
from benchmarks.data import Data, load, with_random_edges
from benchmarks.problem import scored

COLUMNS = ("no smoothing", "quadratic", "robust")


@dataclass
class Row:
    """What was measured on one graph: by smoother, a value per split."""

    name: str
    classes: bool
    validation: dict[str, list[float]] = field(
        default_factory=lambda: {name: [] for name in COLUMNS}
    )
    test: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in COLUMNS})
    seconds: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in COLUMNS})
    edge_auc: list[float] = field(default_factory=list)

    def markdown(self) -> str:
        """One line of the table."""
        means = [float(np.mean(self.test[name])) for name in COLUMNS]
        gain = (means[2] / means[1] - 1.0) * (100 if self.classes else -100)
        held = " → ".join(f"{np.mean(self.validation[name]):.5g}" for name in COLUMNS[1:])
        each = ", ".join(
            f"{b:.5g} → {c:.5g}"
            for b, c in zip(*(self.test[name] for name in COLUMNS[1:]), strict=True)
        )
        cells = [
            self.name,
            "accuracy %" if self.classes else "RMSE",
            *(f"{mean:.5g}" for mean in means),
        ]
        cells += [
            f"{gain:+.1f} %",
            held,
            each,
            f"{np.mean(self.edge_auc):.2f}" if self.edge_auc else "–",
        ]
        cells += [f"{np.mean(self.seconds['robust']) / np.mean(self.seconds['quadratic']):.1f}"]
        return f"| {' | '.join(cells)} |"


def estimator(data: Data, smoothing: Any, seed: int) -> Any:
    """The same settings for every smoother."""
    common: dict[str, Any] = {
        "labels": "none",
        "smoothing": smoothing,
        "random_state": seed,
        "n_jobs": 1,
    }
    common |= {"neighbor_features": None, "feature_smoothing": None}
    if data.classes:
        return eb.EBBSClassifier(
            100,
            0.5,
            momentum=True,
            n_iter_no_change=15,
            learner=eb.LightGBM(15, colsample_bytree=0.3),
            **common,
        )
    learner = (
        eb.LightGBM(15, colsample_bytree=0.3, max_bin=63) if data.name == "wiki" else eb.LightGBM()
    )
    return eb.EBBSRegressor(600, 0.1, n_iter_no_change=30, learner=learner, **common)


def measured(
    name: str, data: Data, added: np.ndarray | None, splits: list[int], penalty: Any
) -> Row:
    """Fit and score every split of one graph."""
    row = Row(name, data.classes)
    smoothers = (None, eb.Laplacian(2.0, 5), eb.Robust(2.0, 5, penalty=penalty))
    for number in splits:
        split = data.splits[number]
        for column, smoothing in zip(COLUMNS, smoothers, strict=True):
            start = time.perf_counter()
            model = estimator(data, smoothing, number)
            held = (split["val"], data.y[split["val"]])
            model.fit(
                data.X,
                data.y[split["train"]],
                nodes=split["train"],
                graph=data.graph,
                eval_set=held,
            )
            row.seconds[column].append(time.perf_counter() - start)
            for values, part in ((row.validation, "val"), (row.test, "test")):
                values[column].append(scored(model, data, split[part]))
        if added is not None:
            row.edge_auc.append(float(roc_auc_score(added, -model.edge_weights().weight)))
        print(
            name,
            number,
            {column: round(values[-1], 5) for column, values in row.test.items()},
            flush=True,
        )
    return row


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", default=[])
    parser.add_argument("--splits", nargs="*", type=int, default=[0, 1, 2, 3, 4])
    parser.add_argument("--penalty", default="log", help="ρ by name")
    parser.add_argument("--write", type=Path, help="write the table to this file")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    names = options.names or ["wiki", "county", "house"]
    head = (
        "| data | measure | no smoothing | quadratic | robust | gain | validation "
        "| each split, quadratic → robust "
        "| added edges found | time, × quadratic |"
    )
    lines = [head, "|" + "---|" * 10]
    for name in names:
        data = load(name)
        lines.append(measured(name, data, None, options.splits, options.penalty).markdown())
        if name != "wiki":
            lines.append(
                measured(
                    f"{name} +30 %", *with_random_edges(data), options.splits, options.penalty
                ).markdown()
            )
    print("\n".join(lines))
    if options.write:
        some = (
            ""
            if options.splits == [0, 1, 2, 3, 4]
            else f" --splits {' '.join(map(str, options.splits))}"
        )
        command = f"python -m benchmarks.robust {' '.join(names)}{some} --penalty {options.penalty}"
        options.write.write_text(f"Made by `{command}`.\n\n" + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
