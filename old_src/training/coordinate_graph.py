"""Which graph of the coordinates: nearest rows and weights, compared at held-out labels.

Residuals of plain boosting out of fold are predicted from each other by a latent field on each
graph. No tree is grown for it.
"""

import logging
from dataclasses import replace
from typing import NamedTuple

from ebboost.boosting.field_estimation import hidden_deviances
from ebboost.data.coordinates import Coordinates
from ebboost.data.labels import Labels
from ebboost.data.sharded import standard_error
from ebboost.data.types import Array
from ebboost.graph import Graph
from ebboost.training import defaults
from ebboost.training.problem import Problem

logger = logging.getLogger(__name__)


class GraphDeviances(NamedTuple):
    """A graph of coordinates, and the deviance of each label with a field on it."""

    coordinates: Coordinates
    graph: Graph
    values: Array

    def is_better(self, other: "GraphDeviances") -> bool:
        """Whether the mean deviance is less than that of another graph, beyond chance."""
        gains = other.values - self.values
        chance = defaults.COMPARED_NEIGHBORS_ERRORS * standard_error(gains)
        least = defaults.COMPARED_NEIGHBORS_GAIN * abs(other.values.mean())
        return bool(gains.mean() > max(chance, least))


def choose_graph(problem: Problem, labels: Labels, scores: Array) -> Problem:
    """Return the problem with the graph whose field predicts labels best from out-of-fold scores.

    Other numbers of neighbours, if the user left them open, and then equal weights replace those
    of the problem's graph if they are better beyond chance.
    """
    compared: list[tuple[int, bool, float]] = []

    def deviances(coordinates: Coordinates, graph: Graph) -> GraphDeviances:
        arguments = (graph, labels, scores, problem.output.loss)
        values = hidden_deviances(*arguments, seed=problem.seed)
        compared.append((coordinates.neighbors, coordinates.weighted, float(values.mean())))
        return GraphDeviances(coordinates, graph, values)

    assert problem.coordinates is not None and problem.graph is not None
    best = deviances(problem.coordinates, problem.graph)
    numbers = defaults.COMPARED_NEIGHBORS if problem.settings.neighbors == "auto" else ()
    for number in numbers:
        other = deviances(*best.coordinates.with_graph(number, weighted=True))
        best = other if other.is_better(best) else best
    neighbors = best.coordinates.neighbors
    other = deviances(*best.coordinates.with_graph(neighbors, weighted=False))
    best = other if other.is_better(best) else best
    logger.info("graph of the coordinates: %s", compared)
    coordinates = replace(best.coordinates, compared=tuple(compared))
    return replace(problem, coordinates=coordinates, graph=best.graph.with_time(problem.graph.time))
