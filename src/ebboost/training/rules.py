"""One candidate by rules, where none are compared: what labels and columns of neighbours say."""

from dataclasses import replace

import numpy as np
from scipy.linalg import solve
from scipy.stats import rankdata

from ebboost.boosting.losses.base import initial_scores
from ebboost.data.features import NeighborFeatures
from ebboost.data.neighbor_correlation import neighbor_correlation
from ebboost.data.table import Table
from ebboost.data.types import Array, IntArray
from ebboost.graph import Graph
from ebboost.model.candidate import Candidate
from ebboost.training import defaults
from ebboost.training.default_field import group_effects
from ebboost.training.parts import Parts, named
from ebboost.training.problem import Problem

# Penalty of the linear regressions, in units of the variance of a column, and their folds. Not
# tuned: they tell columns that matter from others.
RIDGE = 1e-3
FOLDS = 5
# Columns up to which linear regressions take less time than a few trees.
MAX_COLUMNS = 300


def candidate_by_rules(problem: Problem, parts: Parts) -> Candidate:
    """Return all parts if labels of neighbours are correlated, else columns that are informative.

    Columns of neighbours alone are used if a linear regression on them is better than one on the
    node's own, at held-out labels.
    """
    graph = problem.graph
    if graph is None or _labels_are_correlated(problem, graph):
        return parts.by_rules
    columns = parts.optional.get("neighbor_features")
    if isinstance(columns, NeighborFeatures) and isinstance(graph, Graph):
        candidate = named(replace(parts.plain, neighbor_features=columns))
        if _columns_are_informative(problem, graph, candidate):
            return candidate
    return parts.plain


def _labels_are_correlated(problem: Problem, graph: Graph) -> bool:
    """Whether labels of neighbours or, with groups, of one group are correlated."""
    labels = problem.labels.labels
    if graph.groups is not None:
        standard_errors = group_effects(problem, graph.groups).standard_errors
    else:
        correlation = neighbor_correlation(graph, labels.nodes, labels.target)
        standard_errors = correlation * np.sqrt(problem.n_labels)
    return bool(standard_errors > defaults.CORRELATION_STANDARD_ERRORS)


def _columns_are_informative(problem: Problem, graph: Graph, candidate: Candidate) -> bool:
    """Whether columns of neighbours lower the error of a linear regression by more than chance."""
    table = problem.table
    n_labels = problem.n_labels
    is_small = len(table.names) <= MAX_COLUMNS and not (table.is_sparse or table.on_disk)
    if not is_small or graph.groups is not None or n_labels < defaults.MIN_LABELS_TO_HOLD_OUT:
        return False
    labels = problem.labels.labels
    loss = problem.output.loss
    offset = None if problem.offset is None else problem.offset[labels.nodes]
    start = initial_scores(loss, labels.target, labels.weight, offset)
    target = -loss.gradient(start, labels.target) * labels.weight[:, None]
    pipeline = candidate.pipeline()
    transformed = pipeline.fit_transform(table, graph, labels, True, problem.seed)
    if len(transformed.names) > MAX_COLUMNS:
        return False
    fold = np.random.default_rng(problem.seed).permutation(n_labels) % FOLDS
    own = _held_out_errors(_ranks(table, labels.nodes), target, fold)
    with_neighbors = _held_out_errors(_ranks(transformed, labels.nodes), target, fold)
    gain = own - with_neighbors
    standard_error = float(gain.std()) / np.sqrt(n_labels)
    return bool(gain.mean() > defaults.CORRELATION_STANDARD_ERRORS * standard_error)


def _ranks(table: Table, nodes: IntArray) -> Array:
    """Ranks of the numbers at some nodes from −1 to 1, 0 where missing, and a column of ones."""
    values = np.asarray(table.materialize().values, dtype=np.float64)[nodes]
    numbers = [column for column in range(values.shape[1]) if column not in table.categorical]
    ranks = np.ones((nodes.size, len(numbers) + 1))
    for position, column in enumerate(numbers):
        own = rankdata(values[:, column], nan_policy="omit")
        ranks[:, position] = np.nan_to_num(2.0 * own / nodes.size - 1.0)
    return ranks


def _held_out_errors(columns: Array, target: Array, fold: IntArray) -> Array:
    """Squared errors of a ridge regression at the labels of each fold."""
    errors = np.empty(len(target))
    for number in range(FOLDS):
        is_held_out = fold == number
        rows = columns[~is_held_out]
        gram = rows.T @ rows
        gram[np.diag_indices_from(gram)] += RIDGE * len(rows)
        weights = solve(gram, rows.T @ target[~is_held_out], assume_a="pos")
        residual = target[is_held_out] - columns[is_held_out] @ weights
        errors[is_held_out] = (residual**2).sum(axis=1)
    return errors
