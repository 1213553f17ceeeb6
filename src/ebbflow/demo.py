"""What a graph is worth, on data that ships with the package: ``python -m ebbflow.demo``."""

import sys
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import r2_score

from ebbflow.datasets import load_lucas
from ebbflow.estimators import EBBSRegressor
from ebbflow.smoothing import Laplacian


def main() -> None:
    """Fit with and without the graph and print the difference."""
    X, y, graph, splits = load_lucas()
    train, test = splits[0]["train"], splits[0]["test"]
    print("House sales in Lucas County, Ohio: learn from sales up to 1996, predict the log prices of 1997 and 1998.")
    print(f"{len(X):,} houses, {X.shape[1]} columns, {graph.n_edges:,} pairs of neighbours; {len(test):,} to predict.")
    print("The columns do not include the coordinates: with them, trees recover much of what the graph knows.\n")
    settings: dict[str, Any] = {"random_state": 0, "verbose": int(sys.stderr.isatty())}
    plain, without = _fitted(EBBSRegressor(smoothing=None, **settings), X, y, train, test, None)
    seen, with_graph = _fitted(
        EBBSRegressor(feature_smoothing=Laplacian(20.0, 5), **settings), X, y, train, test, graph
    )
    print(f"{'':32}{'R²':>8}{'typical error':>16}{'rounds':>8}{'seconds':>9}")
    for name, row in (("LightGBM trees, no graph", without), ("the same trees through the graph", with_graph)):
        print(f"{name:32}{row[0]:8.3f}{row[1]:15.1%} {row[2]:7d}{row[3]:9.1f}")
    _where(X, y, test, graph.degrees, plain, seen)


def _fitted(
    model: EBBSRegressor,
    X: Any,
    y: NDArray[np.float64],
    train: NDArray[np.int64],
    test: NDArray[np.int64],
    graph: Any,
) -> tuple[NDArray[np.float64], tuple[float, float, int, float]]:
    start = time.perf_counter()
    model.fit(X, y[train], nodes=train, graph=graph)
    seconds = time.perf_counter() - start
    predicted = model.predict() if graph is not None else model.predict(X)
    error = float(np.median(np.abs(np.expm1(predicted[test] - y[test]))))
    return predicted, (r2_score(y[test], predicted[test]), error, model.n_iter_, seconds)


def _where(
    X: Any, y: NDArray[np.float64], test: NDArray[np.int64], degrees: NDArray[np.float64], *both: NDArray[np.float64]
) -> None:
    """Mean squared error with and without the graph, by group of houses."""
    built = np.asarray(X["yrbuilt"])[test]
    groups = {
        "no neighbour in the data": degrees[test] == 0,
        "1 to 3 neighbours": (degrees[test] >= 1) & (degrees[test] <= 3),
        "4 neighbours or more": degrees[test] >= 4,
        "built before 1920": built < 1920,
        "built 1920 to 1959": (built >= 1920) & (built < 1960),
        "built since 1960": built >= 1960,
    }
    print("\nWhere the graph helped most (squared error, less is better):")
    rows = []
    for name, group in groups.items():
        if group.sum() >= 30:
            errors = [float(np.mean((p[test][group] - y[test][group]) ** 2)) for p in both]
            rows.append((errors[1] / errors[0] - 1.0, name, int(group.sum()), errors))
    for change, name, size, errors in sorted(rows):
        print(f"  {name:28}{size:7,} houses   {errors[0]:.3f} → {errors[1]:.3f}   {change:+.0%}")


if __name__ == "__main__":
    main()
