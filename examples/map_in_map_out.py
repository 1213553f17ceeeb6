"""
A map in, a map out
===================

The Lucas houses as a map of squares: polygons in a GeoDataFrame, contiguity from libpysal, and predictions with their
intervals as new columns of the same map. Half of the squares keep their price hidden.
"""

import geopandas
import libpysal
import numpy as np
from matplotlib import pyplot as plt
from shapely.geometry import box

import ebboost as eb

X, y, _, _ = eb.datasets.load_lucas(coordinates=True)
X["square"] = [f"{x // 700} {y // 700}" for x, y in zip(X["x"], X["y"], strict=True)]
X["price"] = y
means = X.groupby("square").mean(numeric_only=True)
corners = [tuple(700.0 * int(part) for part in name.split()) for name in means.index]
cells = geopandas.GeoDataFrame(
    means[["yrbuilt", "TLA", "beds", "baths", "lotsize", "price"]],
    geometry=[box(x, y, x + 700, y + 700) for x, y in corners],
)

# %%
# Squares that touch are neighbours. The ids of the map's index become those of the graph.
graph = eb.Graph.from_libpysal(libpysal.graph.Graph.build_contiguity(cells, rook=False))
print(graph.summary())

# %%
# Labels as a column with gaps; one prediction for every square.
hidden = np.random.default_rng(0).random(len(cells)) < 0.5
columns = cells.drop(columns=["geometry", "price"])
known = cells["price"].where(~hidden)
model = eb.EBBSRegressor(random_state=0, n_jobs=1).fit(columns, known, graph=graph)
cells["predicted"], cells["low"], cells["high"] = model.predict(interval=0.9)
plain = eb.EBBSRegressor(random_state=0, n_jobs=1).fit(columns, known)
guesses = {"through the graph": cells["predicted"], "without it": plain.predict()}
for name, guess in guesses.items():
    error = np.sqrt(np.mean((guess - cells["price"])[hidden] ** 2))
    print(f"{name:20}RMSE of the log price at hidden squares {error:.3f}")

# %%
figure, axes = plt.subplots(1, 2, figsize=(10, 4.6), layout="constrained")
colours = {"vmin": 9.5, "vmax": 12.5, "cmap": "viridis"}
bar = {"legend": True, "legend_kwds": {"label": "log price", "shrink": 0.7}}
cells.assign(known=known).plot(
    "known", ax=axes[0], missing_kwds={"color": "#ddd"}, **colours
)
cells.plot("predicted", ax=axes[1], **bar, **colours)
for axis, title in zip(axes, ("known", "predicted"), strict=True):
    axis.set_title(title)
    axis.set_axis_off()
plt.show()
