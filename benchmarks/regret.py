"""What the default gives away: its error over that of the best fixed configuration.

    python -m benchmarks.regret [--tables regret few spatial] [--datasets county ...] [--splits 0 1]
        [--without best]

*Regret*: eight fixed configurations (with and without propagation, latent field and neighbour
columns; learning rate 0.05, patience 50) are fitted on the training labels and stopped on the
validation nodes, as are the default, its presets and LightGBM. The best of the eight is chosen by
its test error: an oracle. *Rewired*: the same with edges shuffled, over LightGBM. *Few labels*:
100, 300 and 1 000 labels of Lucas. *Spatial*: a simulated field on points of the unit square.
"""

import argparse
import time
import warnings
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import ebboost as eb
from benchmarks.data import Data, home, load, rewired

RESULT = Path(__file__).parent / "results" / "regret.md"
DATASETS = ("county", "avazu", "house", "lucas", "elect80", "kchouse", "twitch_de")
Split = dict[str, np.ndarray]


def read(name: str) -> Data:
    """Return a data set; those that are tables with coordinates or edges are read here."""
    if name not in ("elect80", "kchouse", "twitch_de"):
        return load(name)
    import json

    import pandas

    folder = home() / name
    files = list(folder.glob("nodes.csv*"))
    if not files:
        raise FileNotFoundError(f"{folder} has no nodes.csv: set EBBOOST_DATA.")
    table = pandas.read_csv(files[0])
    masks = folder / "masks.json"
    splits = [_random_split(len(table), seed) for seed in range(5)]
    if masks.is_file():
        stored = json.loads(masks.read_text())
        splits = [
            {part: np.asarray(rows) for part, rows in stored[key].items()}
            for key in sorted(stored, key=int)
        ]
    if name == "kchouse":
        y = np.log(table.pop("price").to_numpy(dtype=float))
        date = pandas.to_datetime(table.pop("date"))
        table["days"] = (date - date.min()).dt.days
        scale = [np.cos(np.radians(47.5)), 1.0]
        graph = eb.Graph.build_knn(table[["long", "lat"]].to_numpy() * scale, k=5)
        return Data(name, table.drop(columns="id"), y, graph, splits, False)
    if name == "twitch_de":
        table = table.sort_values("id", ignore_index=True)
    edges = pandas.read_csv(folder / "edges.csv").to_numpy()
    graph = eb.Graph.from_edges(edges[:, 0], edges[:, 1], n_nodes=len(table))
    target = {"elect80": "pc_turnout", "twitch_de": "views"}[name]
    y = table.pop(target).to_numpy(dtype=float)
    y = np.log1p(y) if name == "twitch_de" else y
    X = table.drop(columns=[column for column in ("FIPS", "id") if column in table])
    return Data(name, X.astype(float), y, graph, splits, False)


def _random_split(n_nodes: int, seed: int) -> Split:
    order = np.random.default_rng(seed).permutation(n_nodes)
    first, second = int(0.6 * n_nodes), int(0.8 * n_nodes)
    return {"train": order[:first], "val": order[first:second], "test": order[second:]}


def configurations() -> Iterator[tuple[str, dict[str, Any]]]:
    """The eight fixed configurations by name."""
    for propagation, field, columns in product((False, True), repeat=3):
        name = "".join(
            letter if used else "-"
            for letter, used in zip("PFC", (propagation, field, columns), strict=True)
        )
        yield (
            name,
            {
                "smoothing": eb.Laplacian(1.0, 2) if propagation else None,
                "labels": "field" if field else "none",
                "neighbor_features": eb.NeighborFeatures() if columns else None,
                "learning_rate": 0.05,
                "n_iter_no_change": 50,
            },
        )


def fit_ours(data: Data, split: Split, model: eb.EBBSRegressor) -> float:
    """Return the test RMSE of a model stopped on the validation nodes."""
    validation = (split["val"], data.y[split["val"]])
    labels = data.y[split["train"]]
    model.fit(data.X, labels, graph=data.graph, nodes=split["train"], eval_set=validation)
    return _rmse(model.predict(nodes=split["test"]), data.y[split["test"]])


def fit_lightgbm(data: Data, split: Split) -> float:
    """Return the test RMSE of LightGBM trained to convergence, without the graph."""
    model = eb.EBBSRegressor(
        learner=eb.LightGBM(), learning_rate=0.05, n_iter_no_change=50, n_folds=1, random_state=0
    )
    validation = (split["val"], data.y[split["val"]])
    model.fit(data.X, data.y[split["train"]], nodes=split["train"], eval_set=validation)
    return _rmse(model.predict(nodes=split["test"]), data.y[split["test"]])


def _rmse(predictions: np.ndarray, truth: np.ndarray) -> float:
    return float(np.sqrt(np.mean((predictions - truth) ** 2)))


def regret(names: list[str], n_splits: list[int] | None, without: list[str]) -> list[str]:
    """Return the rows of the table of regrets; columns ``without`` are not measured."""
    lines = [
        "| | splits | LightGBM | best of eight | default | ± | regret | fast | best | rewired | "
        "time default | time fast |",
        "|" + "---|" * 12,
    ]
    for name in names:
        data = read(name)
        shuffled = rewired(data)
        errors: dict[str, list[float]] = {}
        seconds: dict[str, list[float]] = {}
        for number, split in enumerate(data.splits):
            if n_splits is not None and number not in n_splits:
                continue
            models: dict[str, tuple[Data, eb.EBBSRegressor | None]] = {
                "LightGBM": (data, None),
                "default": (data, eb.EBBSRegressor(random_state=0)),
                "fast": (data, eb.EBBSRegressor.from_preset("fast", random_state=0)),
                "best": (data, eb.EBBSRegressor.from_preset("best", random_state=0)),
                "rewired": (shuffled, eb.EBBSRegressor(random_state=0)),
            }
            for key, settings in configurations():
                models[key] = (data, eb.EBBSRegressor(random_state=0, **settings))
            for key, (problem, model) in models.items():
                if key in without:
                    continue
                start = time.perf_counter()
                if model is None:
                    error = fit_lightgbm(problem, split)
                else:
                    error = fit_ours(problem, split, model)
                errors.setdefault(key, []).append(error)
                seconds.setdefault(key, []).append(time.perf_counter() - start)
        mean = {key: float(np.mean(values)) for key, values in errors.items()}
        fixed = {key: mean[key] for key, _ in configurations()}
        best = min(fixed, key=lambda key: fixed[key])
        spread = np.std(errors["default"]) / np.sqrt(len(errors["default"]))

        def ratio(values: dict[str, float], key: str, base: str, digits: int = 3) -> str:
            return f"{values[key] / values[base]:.{digits}f}" if key in values else "–"

        times = {key: sum(values) for key, values in seconds.items()}
        cells = [
            name,
            str(len(errors["default"])),
            f"{mean['LightGBM']:.4g}",
            f"{fixed[best]:.4g} ({best})",
            f"{mean['default']:.4g}",
            f"{spread:.2g}",
            ratio(mean, "default", best),
            ratio(mean, "fast", "default"),
            ratio(mean, "best", "default"),
            ratio(mean, "rewired", "LightGBM"),
            ratio(times, "default", "LightGBM", 1),
            ratio(times, "fast", "LightGBM", 1),
        ]
        lines.append("| " + " | ".join(cells) + " |")
        print(lines[-1], flush=True)
    return lines


def few_labels(seeds: int) -> list[str]:
    """Return the rows of the table of few labels on Lucas."""
    data = load("lucas")
    known = np.concatenate([data.splits[0]["train"], data.splits[0]["val"]])
    test = data.splits[0]["test"]
    models = {
        "default": lambda: eb.EBBSRegressor(random_state=0),
        "P, field": lambda: eb.EBBSRegressor(
            smoothing=eb.Laplacian(1.0, 2), labels="field", random_state=0
        ),
        "no graph": lambda: eb.EBBSRegressor(smoothing=None, labels="none", random_state=0),
    }
    lines = ["| labels | " + " | ".join(models) + " |", "|" + "---|" * (len(models) + 1)]
    for n_labels in (1_000, 300, 100):
        cells = []
        for make in models.values():
            errors = []
            for seed in range(seeds):
                nodes = np.random.default_rng(seed).choice(np.sort(known), n_labels, replace=False)
                model = make().fit(data.X, data.y[nodes], graph=data.graph, nodes=nodes)
                errors.append(_rmse(model.predict(nodes=test), data.y[test]))
            cells.append(f"{np.mean(errors):.4f} ± {np.std(errors) / np.sqrt(seeds):.4f}")
        lines.append(f"| {n_labels} | " + " | ".join(cells) + " |")
        print(lines[-1], flush=True)
    return lines


def spatial(seeds: int) -> list[str]:
    """Return the rows of the table of simulated fields."""
    base: dict[str, Any] = {"n": 4_000, "labelled": 0.4, "noise": 0.1, "amplitude": 1.2}
    variants = [
        {**base, "n": 40_000},
        base,
        *({**base, "n": n} for n in (30, 200, 1_000)),
        *({**base, "labelled": share} for share in (0.02, 0.1, 0.8)),
        *({**base, "noise": noise} for noise in (0.5, 2.0)),
        *({**base, "amplitude": amplitude} for amplitude in (0.0, 0.3, 3.0)),
        {**base, "radius": True},
    ]
    lines = ["| problem | R² | best fixed | regret |", "|" + "---|" * 4]
    for variant in variants:
        ratios, scores, names = [], [], []
        for seed in range(seeds if variant["n"] < 10_000 else 1):
            data, split = _square(seed, **variant)
            error = fit_known(data, split, eb.EBBSRegressor(random_state=0))
            scores.append(1.0 - error**2 / np.var(data.y[split["test"]]))
            fixed = {
                key: fit_known(data, split, eb.EBBSRegressor(random_state=0, **settings))
                for key, settings in configurations()
            }
            names.append(min(fixed, key=lambda key: fixed[key]))
            ratios.append(error / fixed[names[-1]])
        text = ", ".join(f"{key} {value}" for key, value in variant.items())
        cells = [text, f"{np.mean(scores):.3f}", "/".join(names), f"{np.mean(ratios):.3f}"]
        lines.append("| " + " | ".join(cells) + " |")
        print(lines[-1], flush=True)
    return lines


def fit_known(data: Data, split: Split, model: eb.EBBSRegressor) -> float:
    """Return the test RMSE of a model without validation nodes of its own."""
    model.fit(data.X, data.y[split["train"]], graph=data.graph, nodes=split["train"])
    return _rmse(model.predict(nodes=split["test"]), data.y[split["test"]])


def _square(
    seed: int, n: int, labelled: float, noise: float, amplitude: float, radius: bool = False
) -> tuple[Data, Split]:
    random = np.random.default_rng(seed)
    points = random.random((n, 2))
    X = random.normal(size=(n, 3))
    field = amplitude * np.sin(20 * points[:, 0]) * np.cos(17 * points[:, 1])
    y = X[:, 0] + 0.5 * X[:, 1] * X[:, 2] + field + noise * random.normal(size=n)
    graph = eb.Graph.build_knn(points, k=min(6, n - 1))
    if radius:
        graph = eb.Graph.build_radius(points, float(np.sqrt(6.0 / (np.pi * n))))
    order = random.permutation(n)
    cut = max(int(labelled * n), 2)
    split = {"train": order[:cut], "test": order[cut:]}
    return Data("square", X, y, graph, [split], False), split


def main() -> None:
    """Write the tables to ``results/regret.md``."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tables", nargs="*", default=["regret", "few", "spatial"])
    parser.add_argument("--datasets", nargs="*", default=list(DATASETS))
    parser.add_argument("--splits", nargs="*", type=int)
    parser.add_argument("--without", nargs="*", default=[], choices=["fast", "best", "rewired"])
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    sections = ["# The default against fixed configurations\n"]
    if "regret" in options.tables:
        rows = regret(options.datasets, options.splits, options.without)
        sections.append("## Regret (RMSE at the test nodes)\n\n" + "\n".join(rows) + "\n")
    if "few" in options.tables:
        rows = few_labels(options.seeds)
        sections.append(
            "## Few labels (Lucas, RMSE of sales in 1997–98)\n\n" + "\n".join(rows) + "\n"
        )
    if "spatial" in options.tables:
        rows = spatial(options.seeds)
        sections.append("## A simulated field\n\n" + "\n".join(rows) + "\n")
    RESULT.write_text("\n".join(sections))
    print(f"written to {RESULT}")


if __name__ == "__main__":
    main()
