"""Training on a Dask cluster.

Each worker has its rows of the table and, of a large graph, its rows of the adjacency; it has the
scores and labels of all nodes. Two things are computed jointly: a sweep over the graph, of which
each worker computes its rows, and a tree, for which XGBoost sums the histograms. Everything else is
the same arithmetic on the same numbers in every worker.
"""

from ebboost.backends.dask.collections import gathered, is_dask, scores_of

__all__ = ["gathered", "is_dask", "scores_of"]
