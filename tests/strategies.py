"""The strategies that the package ships: :mod:`ebboost.testing` is their home."""

from ebboost.testing import graphs, random_graph, signed_graphs

__all__ = ["graphs", "random_graph", "signed_graphs"]
