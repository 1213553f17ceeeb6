"""Predictions far from labels: errors, coverage by distance, scores of distributions, seconds.

    python -m benchmarks.far modis
    python -m benchmarks.far simulated [draws]
    python -m benchmarks.far blocks

Labels are never near the rows to predict. Errors are also those of LightGBM with the coordinates as
columns; coverage is that of 90 % intervals, over all rows and in four bands of distance.
"""

import sys
import time
import warnings
from collections.abc import Iterator

import lightgbm
import numpy as np
import pandas as pd
from scipy.spatial import cKDTree

import ebboost as eb
from benchmarks.tasks import home

LEVEL = 0.9
Task = tuple[pd.DataFrame, np.ndarray, list[str], np.ndarray, np.ndarray]


def modis() -> Iterator[tuple[str, Task]]:
    """Surface temperatures by satellite; the cells to predict are under clouds."""
    cells = pd.read_csv(home() / "modis" / "cells.csv.gz")
    known = (cells["split"] == "train").to_numpy()
    places = cells[["lat", "lon"]]
    yield "modis", (places, cells["temp"].to_numpy(), ["lat", "lon"], known, ~known)


def field(points: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A smooth random field of two scales, by random waves, of standard deviation one."""
    total = np.zeros(len(points))
    for length, share in ((0.3, 0.7), (0.08, 0.3)):
        waves = rng.normal(size=(300, 2)) / length
        phases = rng.uniform(0.0, 2.0 * np.pi, 300)
        total += np.sqrt(share * 2.0 / 300) * np.cos(points @ waves.T + phases).sum(axis=1)
    return total


def simulated(draws: int) -> Iterator[tuple[str, Task]]:
    """Four columns and a field; labels in clusters, in the left half, and but for one block."""
    n_rows = 6_000
    for seed in range(draws):
        rng = np.random.default_rng(seed)
        points = rng.random((n_rows, 2))
        X = pd.DataFrame(rng.normal(size=(n_rows, 4)), columns=list("abcd"))
        y = X["a"] + 0.5 * X["b"] * X["c"] + field(points, rng) + 0.4 * rng.normal(size=n_rows)
        X["x"], X["y"] = points.T
        from_center = cKDTree(rng.random((12, 2))).query(points)[0]
        corner = 0.7 * rng.random(2)
        in_block = ((points > corner) & (points < corner + 0.3)).all(axis=1)
        known = {
            "clusters": from_center < np.quantile(from_center, 0.35),
            "left half": points[:, 0] < 0.5,
            "block": ~in_block & (rng.random(n_rows) < 0.5),
        }
        for name, own in known.items():
            held = in_block if name == "block" else ~own
            yield f"{name} {seed}", (X, y.to_numpy(), ["x", "y"], own, held)


def blocks() -> Iterator[tuple[str, Task]]:
    """Every other block of a 5 × 5 grid of real tables, in both directions."""
    X, y, _, _ = eb.datasets.load_lucas(coordinates=True)
    houses = pd.read_csv(home() / "kchouse" / "nodes.csv.gz")
    price = np.log(houses.pop("price").to_numpy())
    houses = houses.drop(columns=["id", "date", "zipcode"])
    counties = pd.read_csv(home() / "elect80" / "nodes.csv", dtype={"FIPS": str})
    places = pd.read_csv(home() / "ncovr" / "nodes.csv", dtype={"FIPS": str})
    counties = counties.merge(places[["FIPS", "lat", "lon"]], on="FIPS").drop(columns="FIPS")
    turnout = counties.pop("pc_turnout").to_numpy()
    tables = {"lucas": (X, y, ["x", "y"]), "kchouse": (houses, price, ["lat", "long"])}
    tables["elect80"] = (counties, turnout, ["lat", "lon"])
    for name, (table, target, where) in tables.items():
        points = table[where].to_numpy(dtype=float)
        ranks = points.argsort(axis=0).argsort(axis=0) / len(points)
        cell = (5 * ranks).astype(int)
        for number, start in enumerate([(1, 1), (0, 1), (1, 0)]):
            held = (cell % 2 == start).all(axis=1)
            yield f"{name} {number}", (table, target, where, ~held, held)


def measure(task: Task) -> dict[str, float]:
    """Fit and predict; return the figures of a task."""
    X, y, where, known, held = task
    rows, far = np.flatnonzero(known), np.flatnonzero(held)
    start, cpu = time.perf_counter(), time.process_time()
    model = eb.EBBSRegressor(random_state=0, n_jobs=2)
    model.fit(X, y[rows], nodes=rows, coordinates=where)
    prediction, lower, upper = model.predict(nodes=far, interval=LEVEL)
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    truth = y[far]
    trees = lightgbm.LGBMRegressor(verbosity=-1, n_jobs=2, random_state=0)
    plain = trees.fit(X.iloc[rows], y[rows]).predict(X.iloc[far])
    rmse, by_trees = (np.sqrt(np.mean((one - truth) ** 2)) for one in (prediction, plain))
    inside = (lower <= truth) & (truth <= upper)
    points = X[where].to_numpy(dtype=float)
    distance = cKDTree(points[rows]).query(points[far])[0]
    bands = [inside[own].mean() for own in np.array_split(np.argsort(distance), 4)]
    result = {"rmse": rmse, "relative": rmse / by_trees, "coverage": inside.mean()}
    result |= {f"band {number}": share for number, share in enumerate(bands, 1)}
    distribution = model.predict_distribution(nodes=far)
    result |= {"crps": crps(distribution, truth), "interval score": winkler(model, far, truth)}
    return result | {"seconds": seconds, "cpu": cpu}


def crps(distribution: object, truth: np.ndarray) -> float:
    """The mean continuous ranked probability score, twice the mean of quantile losses."""
    levels = (np.arange(99) + 1.0) / 100.0
    ends = np.array([distribution.ppf(level) for level in levels])
    below = truth < ends
    return float(2.0 * np.mean((below - levels[:, None]) * (ends - truth)))


def winkler(model: eb.EBBSRegressor, rows: np.ndarray, truth: np.ndarray) -> float:
    """The mean score of 95 % intervals: their width, and 40 times by how far labels are outside."""
    _, lower, upper = model.predict(nodes=rows, interval=0.95)
    outside = np.maximum(lower - truth, 0.0) + np.maximum(truth - upper, 0.0)
    return float(np.mean(upper - lower + 40.0 * outside))


def main(name: str, draws: int = 8) -> None:
    """Print the figures of each task, and means by kind."""
    tasks = {"modis": modis, "simulated": lambda: simulated(draws), "blocks": blocks}[name]()
    table = {}
    for title, task in tasks:
        table[title] = measure(task)
        print(f"{title:14}", " ".join(f"{k} {v:.3f}" for k, v in table[title].items()), flush=True)
    frame = pd.DataFrame(table).T
    kind = [title.rsplit(" ", 1)[0] for title in frame.index]
    print(frame.groupby(kind).mean().round(3).T.to_string())


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    main(sys.argv[1], *map(int, sys.argv[2:]))
