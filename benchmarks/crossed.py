"""Crossed groups of Zipf sizes: error against the simulated truth and seconds, beside GPBoost.

    pip install gpboost==1.8.0
    python -m benchmarks.crossed [rows] [splits]

y = f(x) + shop + product + noise; a tenth as many new rows of the same groups are predicted.
GPBoost has its default tree (31 leaves), learning rate 0.1, and stops on a tenth of the rows.
"""

import sys
import time
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

import ebboost as eb

Array = NDArray[Any]
LEVELS = {"shop": 5_000, "product": 1_000}
VARIANCES = {"shop": 1.0, "product": 0.5}
NOISE = 1.0


def simulate(n_rows: int, seed: int) -> tuple[Array, dict[str, Array], Array, Array]:
    """Return columns, groups, labels and their expected values."""
    random = np.random.default_rng(seed)
    X = random.uniform(size=(n_rows, 10))
    truth = 2.0 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 4.0 * (X[:, 2] - 0.5) ** 2
    truth += 2.0 * X[:, 3] + X[:, 4] - 2.0 * (X[:, 5] > 0.7) * X[:, 3]
    groups = {}
    for name, count in LEVELS.items():
        share = 1.0 / np.arange(1, count + 1)
        groups[name] = random.choice(count, n_rows, p=share / share.sum())
        truth += random.normal(0.0, np.sqrt(VARIANCES[name]), count)[groups[name]]
    return X, groups, truth + random.normal(0.0, NOISE, n_rows), truth


def ebboost(preset: str, train: Any, X: Array, groups: dict[str, Array]) -> tuple[Array, str]:
    """Fit ebboost, and predict new rows."""
    settings: dict[str, Any] = {"random_state": 0, "n_jobs": 1, "verbose": -1}
    model = eb.EBBSRegressor(**settings)
    if preset == "fast":
        model = eb.EBBSRegressor.from_preset("fast", **settings)
    model.fit(train[0], train[2], groups=train[1])
    line = next(one for one in model.summary().splitlines() if one.startswith("groups"))
    return model.predict(X, groups=groups), line


def gpboost(train: Any, X: Array, groups: dict[str, Array], seed: int) -> tuple[Array, str]:
    """Fit GPBoost with early stopping, and predict new rows."""
    import gpboost as gpb

    every = np.column_stack(list(train[1].values()))
    held = np.random.default_rng(seed).random(len(every)) < 0.1
    model = gpb.GPModel(group_data=every[~held], likelihood="gaussian", num_parallel_threads=1)
    model.set_prediction_data(group_data_pred=every[held])
    parts = [gpb.Dataset(train[0][own], train[2][own]) for own in (~held, held)]
    booster = gpb.train(
        params={"learning_rate": 0.1, "verbose": -1, "num_threads": 1},
        train_set=parts[0],
        gp_model=model,
        num_boost_round=1_000,
        valid_sets=parts[1],
        early_stopping_rounds=20,
        verbose_eval=False,
    )
    new = np.column_stack(list(groups.values()))
    result = booster.predict(data=X, group_data_pred=new, predict_var=False, pred_latent=False)
    return result["response_mean"], str(model.get_cov_pars().round(3).to_numpy().ravel())


def main(n_rows: int = 100_000, n_splits: int = 1) -> None:
    """Print error and seconds of each method."""
    warnings.simplefilter("ignore")
    for seed in range(n_splits):
        X, groups, y, truth = simulate(n_rows + n_rows // 10, seed)
        train = (X[:n_rows], {name: own[:n_rows] for name, own in groups.items()}, y[:n_rows])
        new = (X[n_rows:], {name: own[n_rows:] for name, own in groups.items()})
        methods = {
            "fast": lambda train=train, new=new: ebboost("fast", train, *new),
            "default": lambda train=train, new=new: ebboost("default", train, *new),
            "GPBoost": lambda train=train, new=new, seed=seed: gpboost(train, *new, seed),
        }
        for name, predict in methods.items():
            start, clock = time.process_time(), time.perf_counter()
            predictions, variances = predict()
            seconds = time.process_time() - start
            error = float(np.sqrt(np.mean((predictions - truth[n_rows:]) ** 2)))
            elapsed = time.perf_counter() - clock
            print(f"{seed} {name:<9}{error:.4f} {seconds:6.1f} s ({elapsed:.1f})  {variances}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
