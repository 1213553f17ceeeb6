"""Kernels of equation (13) compared with the Laplacian of equation (2).

    python -m benchmarks.kernels [names …] [--splits 0 1 …] [--write FILE]

Smoothing alone (``labels="none"``), everything but the smoother as in the preset ``smoothing`` of
``accuracy.py``. A kernel's parameters are those of least validation error: the mean over the splits
for regression, the first split for the coauthor graphs, on which a fit takes half a minute. Test
nodes are only reported.
"""

import argparse
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import ebboost as eb
from benchmarks.data import Data, load
from benchmarks.methods.ebbs import smoothing_alone
from benchmarks.problem import scored

LAPLACIAN = "Laplacian"


def grids(classes: bool) -> dict[str, list[eb.Smoother]]:
    """Candidates by kernel: as many for each that has two parameters, fewer for long fits."""
    steps = (2.0, 10.0) if classes else (1.0, 2.0, 4.0)
    return {
        LAPLACIAN: [eb.Laplacian(lam, 5) for lam in steps]
        + [eb.Kernel("laplacian", lam) for lam in steps[: 1 if classes else 3]],
        "diffusion": [
            eb.Kernel("diffusion", lam, sigma=sigma)
            for lam, sigma in (
                [(2.0, 2.0), (20.0, 1.5), (2.0, 3.0)]
                if classes
                else [(lam, sigma) for lam in (2.0, 10.0) for sigma in (1.5, 1.75, 2.0)]
            )
        ],
        "random walk": [  # r(0) = a^-p: lam is given in units of a^p
            eb.Kernel("random-walk", lam * a**p, a=a, p=p)
            for lam, a, p in (
                [(2.0, 2.0, 2), (2.0, 2.0, 4), (2.0, 2.0, 8)]
                if classes
                else [(lam, a, p) for lam in (2.0, 20.0) for a, p in ((2.0, 1), (2.0, 2), (3.0, 4))]
            )
        ],
        "inverse cosine": [
            eb.Kernel("inverse-cosine", lam)
            for lam in ((2.0, 20.0) if classes else (0.5, 2.0, 20.0))
        ],
    }


@dataclass(frozen=True)
class Fit:
    """One fit: error or accuracy on validation and test nodes."""

    validation: float
    test: float
    rounds: int


def fit(data: Data, number: int, smoother: eb.Smoother, threads: int) -> Fit:
    split = data.splits[number]
    kind = eb.EBBSClassifier if data.classes else eb.EBBSRegressor
    model = kind(
        **smoothing_alone(data.classes) | {"smoothing": smoother},
        random_state=number,
        n_jobs=threads,
    )
    held = (split["val"], data.y[split["val"]])
    model.fit(data.X, data.y[split["train"]], nodes=split["train"], graph=data.graph, eval_set=held)
    validation, test = (scored(model, data, split[part]) for part in ("val", "test"))
    return Fit(validation, test, model.n_iter_)


def measured(data: Data, splits: list[int], threads: int) -> list[str]:
    """Choose each kernel's parameters and return the lines of its table."""
    lines, reference = [], np.zeros(0)
    sign = 1.0 if data.classes else -1.0
    for name, candidates in grids(data.classes).items():
        chosen_on = splits[:1] if data.classes else splits
        tried = [
            [fit(data, number, smoother, threads) for number in chosen_on]
            for smoother in candidates
        ]
        scores = [sign * np.mean([one.validation for one in fits]) for fits in tried]
        best = int(np.argmax(scores))
        fits = tried[best] + [
            fit(data, number, candidates[best], threads) for number in splits[len(chosen_on) :]
        ]
        tests = np.array([one.test for one in fits])
        reference = tests if name == LAPLACIAN else reference
        gain = sign * (tests - reference)
        error = np.std(gain, ddof=1) / np.sqrt(len(gain)) if len(gain) > 1 else np.nan
        operator = candidates[best].operator(data.graph)
        cells = [
            data.name,
            "accuracy %" if data.classes else "RMSE",
            name,
            f"`{' '.join(str(candidates[best]).split())}`",
            f"{np.mean([one.validation for one in fits]):.5g}",
            f"**{tests.mean():.5g}**",
            "–" if name == LAPLACIAN else f"{gain.mean():+.2g} ± {error:.1g}",
            ", ".join(f"{test:.5g}" for test in tests),
            f"{np.mean([one.rounds for one in fits]):.0f}",
            str(getattr(operator, "degree", getattr(operator, "n_steps", "–"))),
        ]
        lines.append(f"| {' | '.join(cells)} |")
        print(lines[-1], flush=True)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "names", nargs="*", default=["county", "house", "coauthor_cs", "coauthor_phy"]
    )
    parser.add_argument("--splits", nargs="*", type=int, default=[0, 1, 2, 3, 4])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument(
        "--write", type=Path, help="write a Markdown table to this file, or add to it"
    )
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    head = (
        "| data | measure | kernel | chosen | validation | test "
        "| better than the Laplacian by | each split | rounds | "
    )
    head += "products per P |"
    for name in options.names:
        lines = measured(load(name), options.splits, options.threads)
        if options.write:
            splits = " ".join(map(str, options.splits))
            command = f"benchmarks.kernels {name} --splits {splits} --threads {options.threads}"
            note = f"Made by `python -m {command}`."
            with options.write.open("a") as file:
                file.write("\n".join([note, "", head, "|" + "---|" * 10, *lines, "", ""]))


if __name__ == "__main__":
    main()
