"""
Several learners in one ensemble
================================

Each round draws its weak learner from linear models, shallow trees and random trees.

A list of scikit-learn regressors is a learner. Each is fitted to the gradient on every node, so the
graph part does not change. ``python examples/mixed_learners.py`` takes some seconds and prints
errors on later sales for each kind and for the mixture.
"""

import numpy as np
from sklearn.linear_model import Ridge
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor, ExtraTreeRegressor

import ebboost as eb


def main() -> None:
    """Compare each kind of learner with the mixture, without and with the graph."""
    X, y, _, _ = eb.datasets.load_lucas(coordinates=True)
    some = np.random.default_rng(0).permutation(len(y))[:3_000]
    X, y = X.iloc[some], y[some]
    # Coordinates define the edges only.
    graph = eb.Graph.build_knn(X[["x", "y"]].to_numpy(dtype=float), k=5)
    train, test = (np.flatnonzero(part) for part in (X["syear"] <= 1996, X["syear"] > 1996))
    columns = X.drop(columns=["x", "y"]).select_dtypes("number")
    standard = (
        StandardScaler().fit(columns.iloc[train]).transform(columns)
    )  # for linear models

    line, random = Ridge(10.0), ExtraTreeRegressor(max_depth=8)
    shallow = DecisionTreeRegressor(max_depth=3)
    kinds = {"linear": line, "shallow trees": shallow, "random trees": random}
    kinds["mixture"] = list(kinds.values())
    with_graph = {"smoothing": eb.Laplacian(1.0, 2), "labels": "field"}
    print(f"{len(train)} sales to 1996, {len(test)} later ones; RMSE of the log price")
    print(f"{'boosted':<18}{'without graph':>15}{'with graph':>12}")
    for name, learner in kinds.items():
        errors = []
        for parameters in ({"smoothing": None, "labels": "none"}, with_graph):
            model = eb.EBBSRegressor(
                150, 0.2, learner=learner, random_state=0, n_jobs=1, **parameters
            )
            model.fit(standard, y[train], nodes=train, graph=graph)
            errors.append(np.sqrt(np.mean((model.predict(nodes=test) - y[test]) ** 2)))
        print(f"{name:<18}{errors[0]:>15.3f}{errors[1]:>12.3f}")


if __name__ == "__main__":
    main()
