"""
House prices with and without the graph
=======================================

Houses in Lucas County, Ohio, are connected to adjacent ones. Sales up to 1996 are labelled, those
of 1997 and 1998 are predicted. Three models are compared: no graph, neighbour features only, and
the default, which also smooths scores and uses labels of neighbours. Maps show the errors of the
first and the last.
"""

import numpy as np
from matplotlib import pyplot as plt
from sklearn.metrics import r2_score

import ebboost as eb

X, y, graph, splits = eb.datasets.load_lucas(coordinates=True)
coordinates = X[["x", "y"]].to_numpy(dtype=float) / 1000.0
X = X.drop(columns=["x", "y"])  # with them, trees recover much of the graph
train, test = splits[0]["train"], splits[0]["test"]

# %%
# ``smoothing=None, labels="none"`` with neighbour features is LightGBM on a wider table.
no_graph = {"smoothing": None, "labels": "none"}
configurations = {
    "no graph": no_graph,
    "neighbour features": no_graph | {"neighbor_features": eb.NeighborFeatures()},
    "default": {},
}
predictions = {}
for name, parameters in configurations.items():
    model = eb.EBBSRegressor(random_state=0, n_jobs=1, **parameters)
    predictions[name] = model.fit(X, y[train], nodes=train, graph=graph).predict()
    score = r2_score(y[test], predictions[name][test])
    print(f"{name:22}R² on later sales {score:.3f}   {model.n_iter_} rounds")
print(model.summary())

# %%
# Mean error in squares of one kilometre: without the graph, errors of whole quarters have the same
# sign.
figure, axes = plt.subplots(1, 2, figsize=(10, 4.4), layout="constrained", sharey=True)
for axis, name in zip(axes, ("no graph", "default"), strict=True):
    square = np.round(coordinates[test]).astype(int)
    corners, index = np.unique(square, axis=0, return_inverse=True)
    total = np.bincount(index.ravel(), (predictions[name] - y)[test])
    mean = total / np.bincount(index.ravel())
    colours = {"cmap": "RdBu_r", "vmin": -0.5, "vmax": 0.5}
    dots = axis.scatter(*corners.T, c=mean, marker="s", s=22, **colours)
    axis.set(title=name, xlabel="km", aspect="equal")
figure.colorbar(dots, ax=axes, label="mean error of the log price", shrink=0.8)
plt.show()
