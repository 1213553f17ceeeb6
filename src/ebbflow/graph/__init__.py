"""One public class, :class:`Graph`; how each kind of input becomes one lives in the private files."""

from ebbflow.graph._graph import Graph, Graphs
from ebbflow.graph._relations import check_relations, check_strengths

__all__ = ["Graph", "Graphs", "check_relations", "check_strengths"]
