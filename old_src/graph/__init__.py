"""Graphs: one public class, :class:`Graph`, and a private module for each kind of input."""

from ebboost.graph._edges import (
    DISTANCE_NAMES,
    WEIGHT_NAMES,
    distance_weights,
    merge_directions,
    node_positions,
)
from ebboost.graph._neighbors import as_points
from ebboost.graph._relations import check_relations, check_strengths, mixed_adjacency
from ebboost.graph._structure import Groups, Neighborhood
from ebboost.graph._subgraph import earlier_neighbors
from ebboost.graph.base import Graph, Graphs
from ebboost.graph.parquet_graph import ParquetGraph, as_parquet_relations

__all__ = ["DISTANCE_NAMES", "WEIGHT_NAMES", "Graph", "Graphs", "Groups", "Neighborhood"]
__all__ += ["ParquetGraph", "as_parquet_relations", "as_points", "check_relations"]
__all__ += ["check_strengths", "distance_weights", "earlier_neighbors", "merge_directions"]
__all__ += ["mixed_adjacency", "node_positions"]
