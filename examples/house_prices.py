"""
What a graph is worth: house prices
===================================

Houses in Lucas County, Ohio, are tied to those next to them. Prices up to 1996 are known, those of 1997 and 1998 are to be
predicted. Each line below lets the trees see more than the one before: nothing of the neighbours, the neighbours' columns,
and the graph in the training itself. The maps show where the errors of the first and of the last lie.
"""

import numpy as np
from matplotlib import pyplot as plt
from sklearn.metrics import r2_score

import ebboost as eb

X, y, graph, splits = eb.datasets.load_lucas(coordinates=True)
place = X[["x", "y"]].to_numpy(dtype=float) / 1000.0
X = X.drop(columns=["x", "y"])  # with them, trees find out much of what the graph knows
train, test = splits[0]["train"], splits[0]["test"]

# %%
# ``smoothing=None, labels="none"`` leaves the graph to the columns: LightGBM with neighbour features.
nothing = {"smoothing": None, "labels": "none"}
ways = {
    "no graph": nothing,
    "neighbours' columns": nothing | {"neighbor_features": eb.NeighborFeatures()},
    "through the graph": {},
}
predicted = {}
for name, parts in ways.items():
    model = eb.EBBSRegressor(random_state=0, n_jobs=1, **parts)
    predicted[name] = model.fit(X, y[train], nodes=train, graph=graph).predict()
    score = r2_score(y[test], predicted[name][test])
    print(f"{name:22}R² on later sales {score:.3f}   {model.n_iter_} rounds")
print(model.summary())

# %%
# Errors on the map, as means over squares of a kilometre: without the graph whole quarters are too cheap or too dear.
figure, axes = plt.subplots(1, 2, figsize=(10, 4.4), layout="constrained", sharey=True)
for axis, name in zip(axes, ("no graph", "through the graph"), strict=True):
    square = np.round(place[test]).astype(int)
    corners, where = np.unique(square, axis=0, return_inverse=True)
    total = np.bincount(where.ravel(), (predicted[name] - y)[test])
    mean = total / np.bincount(where.ravel())
    colours = {"cmap": "RdBu_r", "vmin": -0.5, "vmax": 0.5}
    dots = axis.scatter(*corners.T, c=mean, marker="s", s=22, **colours)
    axis.set(title=name, xlabel="km", aspect="equal")
figure.colorbar(dots, ax=axes, label="mean error of the log price", shrink=0.8)
plt.show()
