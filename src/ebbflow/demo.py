"""What a graph is worth, on data that ships with the package: ``python -m ebbflow.demo``."""

import sys
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import r2_score

from ebbflow.datasets import load_lucas
from ebbflow.estimators import EBBSRegressor

Array = NDArray[np.float64]


def main() -> None:
    """Fit with and without the graph and print the difference."""
    X, y, graph, splits = load_lucas()
    train, test = splits[0]["train"], splits[0]["test"]
    print("House sales in Lucas County, Ohio: learn from sales up to 1996, predict the log prices of 1997 and 1998.")
    print(f"{len(X):,} houses, {X.shape[1]} columns, {graph.n_edges:,} pairs of neighbours; {len(test):,} to predict.")
    print("The columns do not include the coordinates: with them, trees recover much of what the graph knows.\n")
    rows, predictions = [], []
    for name, edges in (("LightGBM trees, no graph", None), ("the same trees through the graph", graph)):
        model = EBBSRegressor(random_state=0, verbose=int(sys.stderr.isatty()))
        start = time.perf_counter()
        model.fit(X, y[train], nodes=train, graph=edges)
        seconds = time.perf_counter() - start
        predicted = model.predict()
        error = float(np.median(np.abs(np.expm1(predicted[test] - y[test]))))
        rows.append(f"{name:34}{r2_score(y[test], predicted[test]):7.3f}{error:15.1%}{model.n_iter_:9}{seconds:10.1f}")
        predictions.append(predicted)
    print(f"{'':34}{'R²':>7}{'typical error':>15}{'rounds':>9}{'seconds':>10}")
    print("\n".join(rows))
    print("\nWhere the graph helped most (mean squared error of the log price):")
    for line in _by_group(X, y, test, graph.degrees, predictions):
        print(f"  {line}")
    print(f"\n{model.summary()}")


def _by_group(X: Any, y: Array, test: NDArray[np.int64], degrees: Array, predictions: list[Array]) -> list[str]:
    """Error without and with the graph, by group of houses, the largest gain first."""
    built, ties = np.asarray(X["yrbuilt"])[test], degrees[test]
    groups = {
        "1 or 2 neighbours": (ties >= 1) & (ties <= 2),
        "3 neighbours": ties == 3,
        "4 neighbours or more": ties >= 4,
        "built before 1920": built < 1920,
        "built 1920 to 1959": (built >= 1920) & (built < 1960),
        "built since 1960": built >= 1960,
    }
    lines = []
    for name, group in groups.items():
        before, after = (float(np.mean((p[test][group] - y[test][group]) ** 2)) for p in predictions)
        change = after / before - 1.0
        lines.append((change, f"{name:24}{int(group.sum()):6,} houses   {before:.3f} → {after:.3f}   {change:+.0%}"))
    return [line for _, line in sorted(lines)]


if __name__ == "__main__":
    main()
