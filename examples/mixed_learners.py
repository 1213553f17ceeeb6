"""
A mixture of learners
=====================

Boosting a mixed list: each round draws its weak learner from lines, shallow trees and random trees.

A list of regressors is a learner of its own. The graph part does not change: whatever is drawn is fitted to the residual on
every node. Run with ``python examples/mixed_learners.py``; it takes some seconds and prints errors on sales later than those
learned from, for each kind alone and for the mixture.
"""

import numpy as np
from sklearn.linear_model import Ridge
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor, ExtraTreeRegressor

import ebboost as eb


def main() -> None:
    """Compare each kind of learner with the mixture, without the graph and through it."""
    X, y, _, _ = eb.datasets.load_lucas(coordinates=True)
    some = np.random.default_rng(0).permutation(len(y))[:3_000]
    X, y = X.iloc[some], y[some]
    # Edges only: no learner sees the coordinates.
    graph = eb.Graph.build_knn(X[["x", "y"]].to_numpy(dtype=float), k=5)
    train, test = (np.flatnonzero(part) for part in (X["syear"] <= 1996, X["syear"] > 1996))
    columns = X.drop(columns=["x", "y"]).select_dtypes("number")
    standard = StandardScaler().fit(columns.iloc[train]).transform(columns)  # for the lines

    line, random = Ridge(10.0), ExtraTreeRegressor(max_depth=8)
    shallow = DecisionTreeRegressor(max_depth=3)
    kinds = {"lines": line, "shallow trees": shallow, "random trees": random}
    kinds["a mixture"] = list(kinds.values())
    through = {"smoothing": eb.Laplacian(1.0, 2), "labels": "field"}
    print(f"{len(train)} sales to 1996, {len(test)} later ones to predict; RMSE, log price")
    print(f"{'boosted':<18}{'without graph':>15}{'through it':>12}")
    for name, learner in kinds.items():
        errors = []
        for given in ({"smoothing": None, "labels": "none"}, through):
            model = eb.EBBSRegressor(
                150, 0.2, learner=learner, random_state=0, n_jobs=1, **given
            )
            model.fit(standard, y[train], nodes=train, graph=graph)
            errors.append(np.sqrt(np.mean((model.predict(nodes=test) - y[test]) ** 2)))
        print(f"{name:<18}{errors[0]:>15.3f}{errors[1]:>12.3f}")


if __name__ == "__main__":
    main()
