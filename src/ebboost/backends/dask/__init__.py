"""Training on a cluster: the loop of `boosting.py` runs unchanged in every worker, and all of them decide alike.

Each worker has its rows of the table and, of a large graph, its rows of the adjacency; scores and labels, a few numbers for
each node, it has of all nodes. Two things are done together: a sweep over the graph, of which each worker does its rows, and
a tree, for which XGBoost adds up the histograms of all. Everything else is the same arithmetic on the same numbers
everywhere, so there is nothing else to send.
"""

from ebboost.backends.dask.client import Cluster, gathered, is_dask, scores_of

__all__ = ["Cluster", "gathered", "is_dask", "scores_of"]
