"""The graph of a table's rows, and conversions from other libraries."""

from ebboost.graph.graph import Graph

__all__ = ["Graph"]
