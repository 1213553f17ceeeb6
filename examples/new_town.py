"""
A new town
==========

Three quarters of the county are known, the fourth is a town of its own, with its own table and its own graph. The model is
fitted once. Then labels of the new town come in, and ``predict(new_labels=...)`` uses them without a new fit.
"""

import numpy as np
from matplotlib import pyplot as plt

import ebboost as eb

X, y, graph, _ = eb.datasets.load_lucas()
here, there = next(iter(eb.GraphBlockFold(4, random_state=0).split(graph)))


def part(nodes):
    """The table, labels and graph of some nodes alone."""
    return X.iloc[nodes], y[nodes], eb.Graph.from_scipy(graph.adjacency[nodes][:, nodes])


columns, prices, streets = part(here)
models = {
    use: eb.EBBSRegressor(
        random_state=0, n_jobs=1, smoothing=eb.Laplacian(1.0, 2), labels=use
    )
    for use in ("field", "none")
}
for model in models.values():
    model.fit(columns, prices, graph=streets)

# %%
# The same 2 000 houses of the new town are predicted each time, from more and more labels of the others.
columns, prices, streets = part(there)
order = np.random.default_rng(0).permutation(len(there))
judged, arriving = order[:2000], order[2000:]
counts = [0, 50, 200, 500, 1000, 2000, len(arriving)]
errors = {name: [] for name in models}
for count in counts:
    for name, model in models.items():
        known = arriving[:count]
        told = {"new_labels": (known, prices[known])} if count and name == "field" else {}
        guess = model.predict(columns, graph=streets, **told)
        errors[name].append(np.sqrt(np.mean((guess[judged] - prices[judged]) ** 2)))
    print(f"{count:5} labels known: RMSE {errors['field'][-1]:.3f}")

# %%
figure, axes = plt.subplots(figsize=(7.5, 3.8), layout="constrained")
for (name, values), style in zip(errors.items(), ("o-", "--"), strict=True):
    axes.plot(counts, values, style, label=f"labels='{name}'")
axes.set(xlabel="labels of the new town that are known", ylabel="RMSE of the log price")
axes.legend()
plt.show()
