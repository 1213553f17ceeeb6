"""Coordinates and groups: house sales at points, and insurance policies in postcodes.

    python -m benchmarks.inputs [kchouse lucas bemtpl] [--splits 0 1 …] [--write FILE]

House sales (King County, five random splits; Lucas County, sales of 1997 and 1998): RMSE of the
logarithm of the price. ``coordinates=`` are columns of the trees of both methods. Policies (Belgian
motor insurance): mean Poisson deviance of claim counts with exposure, on random rows and on
postcodes without a policy among the training rows; ``groups=`` are postcodes, connected to their
six nearest. All methods are trained on the training rows and stop on the validation rows, which are
``eval_set``; of Lucas County these are the latest tenth, and with ``time=`` all known rows are
trained on.
"""

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import lightgbm
import numpy as np
import pandas as pd
from numpy.typing import NDArray

import ebboost as eb
from benchmarks.data import home

Array = NDArray[np.float64]
Rows = NDArray[np.int64]
PARAMETERS = {"learning_rate": 0.05, "num_leaves": 31, "verbose": -1, "seed": 0}
MAX_ROUNDS = 3000
PATIENCE = 50


class Split(NamedTuple):
    """Rows of three parts."""

    train: Rows
    validation: Rows
    test: Rows

    @property
    def known(self) -> Rows:
        """All labelled rows."""
        return np.concatenate([self.train, self.validation])


def masks(name: str) -> list[Split]:
    """Return the splits of a folder."""
    parts = json.loads((home() / name / "masks.json").read_text()).values()
    return [Split(*(np.asarray(part[key]) for key in ("train", "val", "test"))) for part in parts]


def boosted(
    X: pd.DataFrame, y: Array, split: Split, objective: str, offset: Array | None = None
) -> tuple[Array, float]:
    """Return raw scores of LightGBM for the test rows, and seconds."""
    start = time.perf_counter()
    X = X.astype(dict.fromkeys(X.select_dtypes(exclude="number"), "category"))
    options = PARAMETERS | {"objective": objective}

    def data(rows: Rows, reference: lightgbm.Dataset | None = None) -> lightgbm.Dataset:
        initial = None if offset is None else offset[rows]
        return lightgbm.Dataset(X.iloc[rows], y[rows], init_score=initial, reference=reference)

    train = data(split.train)
    stopping = [lightgbm.early_stopping(PATIENCE, verbose=False)]
    validation = [data(split.validation, train)]
    model = lightgbm.train(options, train, MAX_ROUNDS, validation, callbacks=stopping)
    scores = np.asarray(model.predict(X.iloc[split.test], raw_score=True))
    if offset is not None:
        scores += offset[split.test]
    return scores, time.perf_counter() - start


class Sales(NamedTuple):
    """House sales: table, log prices, splits, columns of the coordinates."""

    X: pd.DataFrame
    y: Array
    splits: list[Split]
    coordinates: list[str]

    @property
    def numbers(self) -> pd.DataFrame:
        """The table with dates as numbers."""
        dates = self.X.select_dtypes("datetime")
        return self.X.assign(**{name: self.X[name].astype("int64") for name in dates})


def sales(name: str) -> Sales:
    """Return the sales of kchouse or lucas."""
    if name == "kchouse":
        X = pd.read_csv(home() / "kchouse" / "nodes.csv.gz")
        y = np.log(X.pop("price").to_numpy(dtype=float))
        X = X.drop(columns="id", errors="ignore").assign(date=pd.to_datetime(X["date"]))
        return Sales(X, y, masks(name), ["long", "lat"])
    X, y, _, official = eb.datasets.load_lucas(coordinates=True)
    known = official[0]["train"][np.argsort(X["sdate"].to_numpy()[official[0]["train"]])]
    cut = known.size - known.size // 10
    return Sales(X, y, [Split(known[:cut], known[cut:], official[0]["test"])], ["x", "y"])


def houses(name: str, splits: list[int]) -> Iterator[tuple[str, str, float, float]]:
    """Yield the rows (split, method, RMSE, seconds) of sales at points."""
    data = sales(name)
    X, y, parts, columns = data
    for number in (number for number in splits if number < len(parts)):
        split = parts[number]
        truth = y[split.test]
        scores, seconds = boosted(data.numbers, y, split, "regression")
        yield f"{name} {number}", "LightGBM", _rmse(scores, truth), seconds
        evaluation = (split.validation, y[split.validation])
        fits: dict[str, tuple[Rows, dict[str, Any]]] = {}
        fits["ebboost"] = (split.train, {"eval_set": evaluation})
        if name == "lucas":
            fits["ebboost, time"] = (split.known, {"time": "sdate"})
        for method, (rows, options) in fits.items():
            start = time.perf_counter()
            model = eb.EBBSRegressor(random_state=number)
            model.fit(X, y[rows], nodes=rows, coordinates=columns, **options)
            seconds = time.perf_counter() - start
            yield f"{name} {number}", method, _rmse(model.predict(nodes=split.test), truth), seconds


def _rmse(predictions: Array, truth: Array) -> float:
    return float(np.sqrt(np.mean((predictions - truth) ** 2)))


def policies(splits: list[int]) -> Iterator[tuple[str, str, float, float]]:
    """Yield the rows (split, method, mean Poisson deviance, seconds) of claim counts."""
    folder = home() / "bemtpl"
    table = pd.read_csv(folder / "policies.csv.gz")
    places = pd.read_csv(folder / "postcodes.csv").set_index("postcode")
    nearest = eb.Graph.build_knn(places[["lat", "long"]].to_numpy(), 6, "haversine")
    postcodes = eb.Graph(nearest.adjacency, places.index.to_numpy())
    exposure = table.pop("expo").to_numpy(dtype=float)
    y = table.pop("nclaims").to_numpy(dtype=float)
    code = table.pop("postcode").to_numpy()
    X = table.drop(columns=["id", "amount"])
    where = places.loc[code].reset_index(drop=True)
    unseen = json.loads((folder / "unseen_postcodes.json").read_text())
    for number in splits:
        order = np.random.default_rng(number).permutation(len(X))
        cuts = [int(0.6 * len(X)), int(0.8 * len(X))]
        parts = unseen[str(number)].values()
        kinds = {
            "random rows": Split(*np.split(order, cuts)),
            "unseen postcodes": Split(*(np.flatnonzero(np.isin(code, part)) for part in parts)),
        }
        for kind, split in kinds.items():
            test = split.test
            train = split.train
            offset = np.log(y[train].sum() / exposure[train].sum() * exposure)
            for method in ("LightGBM", "LightGBM, coordinates", "ebboost"):
                if method == "ebboost":
                    scores, seconds = _grouped(X, y, exposure, code, postcodes, split)
                else:
                    columns = X if method == "LightGBM" else X.join(where)
                    scores, seconds = boosted(columns, y, split, "poisson", offset)
                deviance = _deviance(np.exp(scores), y[test])
                yield f"bemtpl, {kind} {number}", method, deviance, seconds


def _grouped(
    X: pd.DataFrame, y: Array, exposure: Array, code: Any, postcodes: eb.Graph, split: Split
) -> tuple[Array, float]:
    start = time.perf_counter()
    known = split.known
    test = split.test
    train, validation = np.split(np.arange(known.size), [split.train.size])
    model = eb.EBBSRegressor(loss="poisson", random_state=0)
    model.fit(
        X.iloc[known],
        y[split.train],
        nodes=train,
        eval_set=(validation, y[split.validation]),
        groups=code[known],
        graph=postcodes,
        exposure=exposure[known],
    )
    seconds = time.perf_counter() - start
    predicted = model.predict(X.iloc[test], groups=code[test], exposure=exposure[test])
    return np.log(predicted), seconds


def _deviance(mean: Array, truth: Array) -> float:
    log_ratio = np.log(np.where(truth > 0, truth, 1.0) / mean) * (truth > 0)
    return float(np.mean(2.0 * (truth * log_ratio - truth + mean)))


def main() -> None:
    """Print a row for each split and method."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("datasets", nargs="*", default=["kchouse", "lucas", "bemtpl"])
    parser.add_argument("--splits", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--write", type=Path)
    arguments = parser.parse_args()
    lines = ["| data, split | method | error | seconds |", "|---|---|---|---|"]
    print(*lines, sep="\n")
    for name in arguments.datasets:
        run = policies(arguments.splits) if name == "bemtpl" else houses(name, arguments.splits)
        for where, method, error, seconds in run:
            lines.append(f"| {where} | {method} | {error:.5f} | {seconds:.1f} |")
            print(lines[-1], flush=True)
    if arguments.write is not None:
        arguments.write.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
