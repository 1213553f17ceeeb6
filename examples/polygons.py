"""
Polygons with geopandas and libpysal
====================================

The Lucas houses aggregated to squares: polygons in a GeoDataFrame, contiguity from libpysal,
predictions and intervals as new columns. The price of half of the squares is hidden.
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
# Squares that touch are neighbours. The index of the GeoDataFrame becomes the node ids of the
# graph.
graph = eb.Graph.from_libpysal(libpysal.graph.Graph.build_contiguity(cells, rook=False))
print(graph.summary())

# %%
# Labels are a column with missing values; every square is predicted.
hidden = np.random.default_rng(0).random(len(cells)) < 0.5
columns = cells.drop(columns=["geometry", "price"])
known = cells["price"].where(~hidden)
model = eb.EBBSRegressor(random_state=0, n_jobs=1).fit(columns, known, graph=graph)
cells["predicted"], cells["low"], cells["high"] = model.predict(interval=0.9)
plain = eb.EBBSRegressor(random_state=0, n_jobs=1).fit(columns, known)
compared = {"with the graph": cells["predicted"], "without": plain.predict()}
for name, predictions in compared.items():
    error = np.sqrt(np.mean((predictions - cells["price"])[hidden] ** 2))
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
