"""Training on a Dask cluster.

Each worker has the rows of its own nodes: of the table, the graph, and every vector. Three things
are computed jointly: sums of a few numbers, a sweep over the graph, for which workers exchange the
values of neighbouring nodes, and a tree, for which XGBoost sums the histograms.
"""

from ebboost.backends.dask.collections import gathered, is_dask, scores_of

__all__ = ["gathered", "is_dask", "scores_of"]
