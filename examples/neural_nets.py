"""
Boosting small neural networks
==============================

Any scikit-learn regressor can be a weak learner, here networks with eight hidden units.

Each round fits a network to the gradient on every node, as it would fit a tree. ``python
examples/neural_nets.py`` takes some seconds and prints errors on later sales. The graph helps
networks as it helps trees; on this table trees are better.
"""

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPRegressor
from sklearn.preprocessing import StandardScaler

import ebboost as eb


def main() -> None:
    """Compare boosted networks and boosted trees, without and with the graph."""
    X, y, _, _ = eb.datasets.load_lucas(coordinates=True)
    some = np.random.default_rng(0).permutation(len(y))[:2_000]
    X, y = X.iloc[some], y[some]
    # Coordinates define the edges only.
    graph = eb.Graph.build_knn(X[["x", "y"]].to_numpy(dtype=float), k=5)
    train, test = (np.flatnonzero(part) for part in (X["syear"] <= 1996, X["syear"] > 1996))
    columns = X.drop(columns=["x", "y"]).select_dtypes("number")
    scaler = StandardScaler().fit(columns.iloc[train])  # networks need scaled columns
    standard = scaler.transform(columns)

    net = MLPRegressor(hidden_layer_sizes=(8,), learning_rate_init=0.02, max_iter=15)
    with_graph = {"smoothing": eb.Laplacian(1.0, 2), "labels": "field"}
    print(f"{len(train)} sales to 1996, {len(test)} later ones; RMSE of the log price")
    print(f"{'boosted':<18}{'without graph':>15}{'with graph':>12}")
    for name, learner, rounds in (("networks", net, 25), ("trees", "lightgbm", 300)):
        errors = []
        for parameters in ({"smoothing": None, "labels": "none"}, with_graph):
            model = eb.EBBSRegressor(
                rounds, 0.3, learner=learner, random_state=0, n_jobs=1, **parameters
            )
            with warnings.catch_warnings():
                # A weak learner need not converge.
                warnings.simplefilter("ignore", ConvergenceWarning)
                model.fit(standard, y[train], nodes=train, graph=graph)
            errors.append(np.sqrt(np.mean((model.predict(nodes=test) - y[test]) ** 2)))
        print(f"{name:<18}{errors[0]:>15.3f}{errors[1]:>12.3f}")


if __name__ == "__main__":
    main()
