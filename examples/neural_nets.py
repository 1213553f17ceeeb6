"""
Boosting small neural nets
==========================

Boosting small neural nets through a graph: any scikit-learn regressor is a weak learner.

Each round fits a net of eight hidden units to the residual on every node and adds it to the sum, as a tree would be. Run
with ``python examples/neural_nets.py``; it takes some seconds and prints errors on sales later than those learned from.
What to expect: the graph helps the nets as it helps trees, and on a table like this one trees remain the better learner.
"""

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPRegressor
from sklearn.preprocessing import StandardScaler

import ebboost as eb


def main() -> None:
    """Compare boosted nets and boosted trees, without the graph and through it."""
    X, y, _, _ = eb.datasets.load_lucas(coordinates=True)
    some = np.random.default_rng(0).permutation(len(y))[:2_000]
    X, y = X.iloc[some], y[some]
    # Edges only: no learner sees the coordinates.
    graph = eb.Graph.build_knn(X[["x", "y"]].to_numpy(dtype=float), k=5)
    train, test = (np.flatnonzero(part) for part in (X["syear"] <= 1996, X["syear"] > 1996))
    columns = X.drop(columns=["x", "y"]).select_dtypes("number")
    scaler = StandardScaler().fit(columns.iloc[train])  # nets know no units
    standard = scaler.transform(columns)

    net = MLPRegressor(hidden_layer_sizes=(8,), learning_rate_init=0.02, max_iter=15)
    through = {"smoothing": eb.Laplacian(1.0, 2), "labels": "field"}
    print(f"{len(train)} sales to 1996, {len(test)} later ones to predict; RMSE, log price")
    print(f"{'boosted':<18}{'without graph':>15}{'through it':>12}")
    for name, learner, rounds in (("nets of 8 units", net, 25), ("trees", "lightgbm", 300)):
        errors = []
        for given in ({"smoothing": None, "labels": "none"}, through):
            model = eb.EBBSRegressor(
                rounds, 0.3, learner=learner, random_state=0, n_jobs=1, **given
            )
            with warnings.catch_warnings():
                # A weak learner need not converge.
                warnings.simplefilter("ignore", ConvergenceWarning)
                model.fit(standard, y[train], nodes=train, graph=graph)
            errors.append(np.sqrt(np.mean((model.predict(nodes=test) - y[test]) ** 2)))
        print(f"{name:<18}{errors[0]:>15.3f}{errors[1]:>12.3f}")


if __name__ == "__main__":
    main()
