"""The strategies that the package ships: :mod:`ebbflow.testing` is their home."""

from ebbflow.testing import graphs, random_graph, signed_graphs

__all__ = ["graphs", "random_graph", "signed_graphs"]
