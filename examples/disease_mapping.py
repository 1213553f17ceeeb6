"""
Disease mapping with exposure
=============================

Rare events in areas of very different size: homicides in three years around 1990 in 3 085 US
counties. Crude rates of small counties are mostly chance. A negative binomial likelihood with the
population as exposure and a latent field over shared borders gives smoothed rates. The counts of a
fifth of the counties are hidden.
"""

import numpy as np
from matplotlib import pyplot as plt

import ebboost as eb

X, homicides, graph, splits = eb.datasets.load_ncovr(coordinates=True)
person_years = X.pop("population").to_numpy()
position = X[["lon", "lat"]].to_numpy()
covariates = X.drop(columns=["lon", "lat"])
test = splits[0]["test"]
known = np.setdiff1d(np.arange(len(X)), test)

# %%
# ``exposure`` is what counts are proportional to: its logarithm is added to the score of every
# county. θ of the negative binomial, the strengths of the field, and whether the graph is used at
# all are estimated from labels that were held out.
settings = {"loss": "negative_binomial", "random_state": 0, "n_jobs": 1, "n_folds": 4}
model = eb.EBBSRegressor(**settings)
model.fit(covariates, homicides[known], nodes=known, graph=graph, exposure=person_years)
plain = eb.EBBSRegressor(**settings)
plain.fit(covariates, homicides[known], nodes=known, exposure=person_years)
print(model.summary())

# %%
# Compared at the hidden counties by the mean deviance, under one distribution.
for name, one in {"with the graph": model, "without": plain}.items():
    deviance = model.loss_.deviance(one.raw_predictions_, homicides[:, None])[test].mean()
    print(f"{name:20}mean deviance at hidden counties {deviance:.3f}")

# %%
# Predictions divided by the exposure are rates. A county whose own count is known is predicted with
# it: small counties borrow from neighbours and covariates, large ones hardly.
crude = 1e5 * homicides / person_years
smoothed = 1e5 * model.predict() / person_years
small = person_years < 3e4
print(f"small counties without a homicide {np.mean(crude[small] == 0):.0%}, ", end="")
print(
    f"their smoothed rates from {smoothed[small].min():.1f} to {smoothed[small].max():.1f}"
)

# %%
figure, axes = plt.subplots(1, 2, figsize=(11, 3.6), layout="constrained")
for axis, rates, title in zip(axes, (crude, smoothed), ("crude", "smoothed"), strict=True):
    colours = {"c": np.clip(rates, 0.3, 40), "norm": "log", "cmap": "viridis", "s": 4}
    points = axis.scatter(*position.T, **colours)
    axis.set_title(f"{title} rates")
    axis.set_axis_off()
figure.colorbar(points, ax=axes, label="homicides per 100 000 and year", shrink=0.8)
plt.show()
