"""Strengths of the relations of several graphs, estimated from the labels."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ebboost.data.labels import Labels
from ebboost.data.neighbor_correlation import neighbor_means
from ebboost.data.sharded import inner_products, total_rows
from ebboost.graph import Graph, Graphs, check_strengths


def choose_strengths(
    relations: Mapping[str, float] | str, graph: Graphs | None, labels: Labels
) -> dict[str, float] | None:
    """What the weights of each relation are multiplied by; None for a single graph."""
    check_relation_strengths(relations, graph)
    if not isinstance(graph, Mapping):
        return None
    if isinstance(relations, str):
        return relation_strengths(graph, labels)
    return {name: float(relations[name]) for name in graph}


def check_relation_strengths(relations: Mapping[str, float] | str, graph: Any) -> None:
    """Raise ValueError unless ``relations`` has a strength for each relation, or is ``"auto"``."""
    if relations == "auto":
        return
    if not isinstance(graph, Mapping):
        raise ValueError(
            f"relations={relations!r} gives strengths, but graph is not a dict of relations: "
            'pass graph={"name": graph, …}.'
        )
    if not isinstance(relations, str):
        check_strengths(relations, graph)


def relation_strengths(relations: Mapping[str, Graph], labels: Labels) -> dict[str, float]:
    """Return a strength for each relation, estimated from the labels.

    The coefficients of a regression of labels on the means over each relation's neighbours, all
    relations at once, so that a redundant one gets nothing. A coefficient within two standard
    errors of 0 is 0; a negative one stays negative. Each is divided by the relation's mean degree,
    as weights add up, and the largest becomes 1.
    """
    graphs = relations.values()
    means = [neighbor_means(graph, labels.nodes, labels.target)[0].ravel() for graph in graphs]
    columns = np.column_stack(means)
    own = (labels.target - labels.target.mean(axis=0)).ravel()
    unit = float(np.abs(columns).max(initial=0.0))
    if unit == 0.0:  # no label has a labelled neighbour, or all labels are the same
        return dict.fromkeys(relations, 1.0)
    columns = columns / unit  # squares stay in range, whatever the unit of the labels
    own = own / unit
    gram = inner_products(columns, columns)
    gram += 1e-9 * np.trace(gram) * np.eye(len(relations))
    inverse = np.linalg.inv(gram)
    coefficients = inverse @ inner_products(columns, own)
    residual = own - np.asarray(columns) @ coefficients
    noise = float((residual**2).sum()) / max(total_rows(own) - len(relations), 1)
    standard_errors = np.sqrt(noise * np.diag(inverse))
    coefficients[np.abs(coefficients) < 2.0 * standard_errors] = 0.0
    sums = [(graph.degrees.sum(), max((graph.degrees > 0).sum(), 1)) for graph in graphs]
    degrees = np.array([float(total / n_nodes) for total, n_nodes in sums])
    strengths = coefficients / np.where(degrees > 0, degrees, 1.0)
    largest = np.abs(strengths).max()
    if largest == 0.0:  # none is informative: whether to use the graph at all is decided elsewhere
        return dict.fromkeys(relations, 1.0)
    return {name: float(value / largest) for name, value in zip(relations, strengths, strict=True)}
