"""One public class, :class:`Graph`; how each kind of input becomes one lives in the private files."""

from ebbflow.graph._graph import Graph

__all__ = ["Graph"]
