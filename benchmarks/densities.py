"""Log predictive density and CRPS of house prices at coordinates, against GPBoost.

    python -m benchmarks.densities [kchouse lucas] [--methods …] [--rows N] [--write FILE]

First split of King County (random) and of Lucas County (the test sales are later than all known
ones). All methods get the same rows and columns, coordinates among them. GPBoost adds a Gaussian
process of the coordinates (Matérn 3/2, Vecchia approximation with 20 neighbours); its noise has one
variance or, heteroscedastic, one of trees. Its rounds are chosen on the validation rows, which it
is then trained on, too. ebboost is trained on all known rows and holds out its own; sales of Lucas
have ``time``. ``--rows`` is a random subset of rows for all methods. Mean over the test rows: log
density of the log price (more is better), CRPS and RMSE (less is better), and the share of labels
in the central 90 %.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

import ebboost as eb
from benchmarks.inputs import Sales, Split, sales

Array = NDArray[np.float64]
ROUNDS = 400
PATIENCE = 15
NEIGHBORS = 20
PARAMETERS = {"num_leaves": 31, "verbose": -1, "seed": 0}
# GPBoost 1.8 diverges with steps of 0.1 where the variance of the noise is much below 1, unless
# leaves have Newton steps, which exist for one variance alone.
STEPS = {
    "gaussian": {"learning_rate": 0.1, "leaves_newton_update": True},
    "gaussian_heteroscedastic": {"learning_rate": 0.05},
}
HEAD = ("data", "method", "test rows", "log density", "CRPS", "RMSE", "in 90 %", "seconds")


def subset(data: Sales, n_rows: int | None) -> Sales:
    """Return random rows of the data."""
    if n_rows is None or n_rows >= len(data.y):
        return data
    chosen = np.zeros(len(data.y), dtype=bool)
    chosen[np.random.default_rng(0).choice(len(data.y), n_rows, replace=False)] = True
    position = np.cumsum(chosen) - 1
    splits = [Split(*(position[part[chosen[part]]] for part in split)) for split in data.splits]
    return Sales(data.X[chosen].reset_index(drop=True), data.y[chosen], splits, data.coordinates)


def gpboost(data: Sales, split: Split, likelihood: str) -> dict[str, Array]:
    """Return mean, log density and CRPS of GPBoost's normal distributions."""
    import gpboost as gpb

    X = data.numbers
    for name in X.select_dtypes(exclude="number"):
        X[name] = X[name].astype("category").cat.codes
    values = X.to_numpy(dtype=np.float64)
    points = X[data.coordinates].to_numpy(dtype=np.float64)

    def train(rows: NDArray[np.int64], n_rounds: int, **options: Any) -> Any:
        process = gpb.GPModel(
            gp_coords=points[rows],
            cov_function="matern",
            cov_fct_shape=1.5,
            gp_approx="vecchia",
            num_neighbors=NEIGHBORS,
            likelihood=likelihood,
            matrix_inversion_method="cholesky",
        )
        table = gpb.Dataset(values[rows], data.y[rows])
        if options:
            process.set_prediction_data(gp_coords_pred=points[split.validation])
            held = gpb.Dataset(values[split.validation], data.y[split.validation], reference=table)
            options |= {"valid_sets": held, "use_gp_model_for_validation": True}
        settings = {"gp_model": process, "verbose_eval": False, **options}
        return gpb.train(PARAMETERS | STEPS[likelihood], table, n_rounds, **settings)

    first = train(split.train, ROUNDS, early_stopping_rounds=PATIENCE)
    model = train(split.known, first.best_iteration)
    where = {"gp_coords_pred": points[split.test], "predict_var": True, "pred_latent": False}
    result = model.predict(data=values[split.test], **where)
    y = data.y[split.test]
    mean = np.asarray(result["response_mean"])
    deviation = np.sqrt(result["response_var"])
    score = (y - mean) / deviation
    normal = stats.norm
    crps = score * (2.0 * normal.cdf(score) - 1.0) + 2.0 * normal.pdf(score) - 1.0 / np.sqrt(np.pi)
    return {
        "mean": mean,
        "log density": normal.logpdf(y, mean, deviation),
        "CRPS": deviation * crps,
        "covered": np.abs(score) <= normal.ppf(0.95),
    }


def ours(data: Sales, split: Split, **parameters: Any) -> dict[str, Array]:
    """Return the same of ``predict_distribution``."""
    model = eb.EBBSRegressor(random_state=0, **parameters)
    options = {"time": "sdate"} if "sdate" in data.X else {}
    known = split.known
    model.fit(data.X, data.y[known], nodes=known, coordinates=data.coordinates, **options)
    distribution = model.predict_distribution(nodes=split.test)
    y = data.y[split.test]
    lower, upper = distribution.quantile([0.05, 0.95]).T
    return {
        "mean": model.predict(nodes=split.test),
        "log density": distribution.log_density(y),
        "CRPS": distribution.crps(y),
        "covered": (lower <= y) & (y <= upper),
    }


METHODS: dict[str, Callable[[Sales, Split], dict[str, Array]]] = {
    "ebboost": ours,
    "GPBoost": lambda data, split: gpboost(data, split, "gaussian"),
    "GPBoost, heteroscedastic": lambda data, split: gpboost(
        data, split, "gaussian_heteroscedastic"
    ),
}


def measure(name: str, method: str, n_rows: int | None) -> list[str]:
    """Return the row of a method."""
    data = subset(sales(name), n_rows)
    split = data.splits[0]
    start = time.perf_counter()
    result = METHODS[method](data, split)
    seconds = time.perf_counter() - start
    error = np.sqrt(np.mean((data.y[split.test] - result["mean"]) ** 2))
    means = [f"{result[key].mean():.4f}" for key in ("log density", "CRPS")]
    covered = f"{100 * result['covered'].mean():.1f}"
    size = f"{split.test.size:,}"
    return [name, method, size, *means, f"{error:.4f}", covered, f"{seconds:.0f}"]


def main() -> None:
    """Print or write the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("datasets", nargs="*", default=["kchouse", "lucas"])
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--rows", type=int)
    parser.add_argument("--write", type=Path)
    arguments = parser.parse_args()
    lines = [f"| {' | '.join(HEAD)} |", "|" + "---|" * len(HEAD)]
    print(*lines, sep="\n")
    for name in arguments.datasets:
        for method in arguments.methods:
            lines.append(f"| {' | '.join(measure(name, method, arguments.rows))} |")
            print(lines[-1], flush=True)
    if arguments.write is not None:
        arguments.write.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
