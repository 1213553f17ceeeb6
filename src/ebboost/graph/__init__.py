"""One public class, :class:`Graph`; how each kind of input becomes one lives in the private files."""

from ebboost.graph._relations import check_relations, check_strengths
from ebboost.graph.base import Graph, Graphs

__all__ = ["Graph", "Graphs", "check_relations", "check_strengths"]
