"""
A new graph with few labels
===========================

A model is fitted on three quarters of the county. The fourth is a new town with its own table and
graph. As labels of the new town become known, ``predict(new_labels=...)`` uses them without a new
fit.
"""

import numpy as np
from matplotlib import pyplot as plt

import ebboost as eb

X, y, graph, _ = eb.datasets.load_lucas()
here, there = next(iter(eb.GraphBlockFold(4, random_state=0).split(graph)))


def subset(nodes):
    """Return the table, labels and graph of some nodes."""
    return X.iloc[nodes], y[nodes], eb.Graph.from_scipy(graph.adjacency[nodes][:, nodes])


columns, prices, subgraph = subset(here)
models = {
    labels: eb.EBBSRegressor(
        random_state=0, n_jobs=1, smoothing=eb.Laplacian(1.0, 2), labels=labels
    )
    for labels in ("field", "none")
}
for model in models.values():
    model.fit(columns, prices, graph=subgraph)

# %%
# The same 2 000 houses of the new town are predicted from an increasing number of labels of the
# others.
columns, prices, subgraph = subset(there)
order = np.random.default_rng(0).permutation(len(there))
evaluated, others = order[:2000], order[2000:]
counts = [0, 50, 200, 500, 1000, 2000, len(others)]
errors = {name: [] for name in models}
for count in counts:
    for name, model in models.items():
        known = others[:count]
        new_labels = (known, prices[known]) if name == "field" else ([], [])
        predictions = model.predict(columns, graph=subgraph, new_labels=new_labels)
        errors[name].append(
            np.sqrt(np.mean((predictions[evaluated] - prices[evaluated]) ** 2))
        )
    print(f"{count:5} labels: RMSE {errors['field'][-1]:.3f}")

# %%
figure, axes = plt.subplots(figsize=(7.5, 3.8), layout="constrained")
for (name, values), style in zip(errors.items(), ("o-", "--"), strict=True):
    axes.plot(counts, values, style, label=f"labels='{name}'")
axes.set(xlabel="known labels of the new town", ylabel="RMSE of the log price")
axes.legend()
plt.show()
