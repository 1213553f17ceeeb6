"""One candidate by rules, where none are compared: what labels and columns of neighbours say.

The field is used if labels of neighbours are correlated, and means of the neighbours' columns if a
few trees on a sample of the labels gain from them. Scores are not propagated where a field can be
used: trees take more rounds, and lose where labels depend on a node's own columns. With a field and
means of neighbours, without and with propagation, at validation nodes: RMSE of Lucas .270 and .305,
King County .159 and .160, House .447 and .442, elect80 .0568 and .0573, County 1.155 and 1.154 (two
splits); log-loss of price classes of King County .350 and .369, House .745 and .729, walls of Lucas
.971 and .995, in a quarter to a half of the time. Few labels gain from propagation, and it is
compared: test log-loss of 1 500 or 2 000 labels, three folds, means of four draws, without and with
that comparison: prices of Lucas above the median .299, .280, of County .399, .380, elect80 .389,
.385, fifths of House .910, .887, of elect80 1.139, 1.141, tenths of County 1.846, 1.810, walls of
Lucas 1.005, 1.007, in two to five times the time.
"""

from dataclasses import replace

import numpy as np

from ebboost.boosting.label_use import objective_for
from ebboost.boosting.latent_field import LatentField
from ebboost.boosting.loop import Boosting, boost
from ebboost.boosting.losses import Loss
from ebboost.data.features import NeighborFeatures
from ebboost.data.labels import Labels
from ebboost.data.neighbor_correlation import neighbor_correlation
from ebboost.data.sharded import standard_error
from ebboost.data.types import Array, IntArray
from ebboost.graph import Graph
from ebboost.model.candidate import Candidate
from ebboost.propagation import IdentityOperator
from ebboost.training import defaults
from ebboost.training.default_field import group_effects, with_loss
from ebboost.training.parts import Parts, named
from ebboost.training.problem import Problem


def parts_by_rules(problem: Problem, parts: Parts) -> Parts:
    """Return one candidate; for few labels, propagation and another loss are compared with it."""
    candidate = _candidate_by_rules(problem, parts)
    is_few = problem.n_labels < defaults.MANY_LABELS_FROM
    if not is_few or problem.labels.validation(0) is None:
        return Parts(candidate)
    names = [*(["smoothing"] if isinstance(candidate.labels, LatentField) else []), "loss"]
    compared = {name: parts.optional[name] for name in names if name in parts.optional}
    return Parts(candidate, compared, tuple((name,) for name in compared))


def _candidate_by_rules(problem: Problem, parts: Parts) -> Candidate:
    """Return the field if labels of neighbours are correlated, and columns that are informative.

    Scores are propagated if the user excluded the field, and for classes of a wide sparse table,
    whose singular vectors are used.
    """
    graph = problem.graph
    assert graph is not None
    optional = parts.optional
    candidate = parts.plain
    if _labels_are_correlated(problem, graph):
        names = ["labels"] if "labels" in optional else ["smoothing"]
        if "low_rank" in optional:
            names += ["smoothing", "low_rank"]
        chosen = {name: optional[name] for name in names if name in optional}
        field = chosen.get("labels")
        if isinstance(field, LatentField) and graph.groups is None and not problem.classes:
            chosen["labels"] = replace(field, tau=defaults.SHARE_OF_TAU * field.tau)
        candidate = replace(candidate, **chosen)  # type: ignore[arg-type]
    if "neighbor_features" in optional:
        means = replace(candidate, neighbor_features=NeighborFeatures(["mean"]))
        if _is_better(problem, graph, candidate, means):
            candidate = means
    loss = optional.get("loss")
    if isinstance(loss, Loss):
        other = with_loss(problem, candidate, loss)
        if _is_better(problem, graph, candidate, other):
            candidate = other
    return named(candidate)


def _labels_are_correlated(problem: Problem, graph: Graph) -> bool:
    """Whether labels of neighbours or, with groups, of one group are correlated."""
    labels = problem.labels.labels
    if graph.groups is not None:
        standard_errors = group_effects(problem, graph.groups).standard_errors
    else:
        correlation = neighbor_correlation(graph, labels.nodes, labels.target)
        standard_errors = correlation * np.sqrt(problem.n_labels)
    return bool(standard_errors > defaults.CORRELATION_STANDARD_ERRORS)


def _is_better(problem: Problem, graph: Graph, candidate: Candidate, other: Candidate) -> bool:
    """Whether a few trees on a sample of the labels predict others better by another candidate."""
    if problem.table.on_disk or not isinstance(graph, Graph):
        return candidate.uses_graph  # rows of such tables are not drawn
    n_labels = problem.n_labels
    if n_labels < defaults.MIN_LABELS_TO_HOLD_OUT:
        return False
    order = np.random.default_rng(problem.seed).permutation(n_labels)
    order = order[: 2 * defaults.QUICK_LABELS]
    try:
        pair = [_quick_losses(problem, one, order) for one in (candidate, other)]
    except ValueError:  # of a loss that is not finite: the fit itself says at which node
        return False
    gain = pair[0] - pair[1]
    return bool(gain.mean() > defaults.QUICK_STANDARD_ERRORS * standard_error(gain))


def _quick_losses(problem: Problem, candidate: Candidate, order: IntArray) -> Array:
    """Losses at the second half of some labels after a few trees on the first, without a field."""
    known = problem.labels.labels
    learner = defaults.learner(problem.settings.learner, problem.task, candidate)
    columns = candidate.pipeline().fit_transform(
        problem.table, problem.graph, known, learner.takes_categories, problem.seed
    )
    nodes = known.nodes[order]
    table = columns.subset(nodes)
    halves = np.array_split(np.arange(order.size), 2)
    train, held_out = (Labels(half, *_rows_of(known, order[half])) for half in halves)
    offset = None if problem.offset is None else problem.offset[nodes]
    use = (None, None, IdentityOperator(order.size), problem.loss_of(candidate))
    objective = objective_for(*use, train, None, 0.0, problem.seed, offset)
    n_outputs = known.target.shape[1]
    grower = learner.start(table, n_outputs=n_outputs, seed=problem.seed, n_jobs=1, device="cpu")
    boosting = Boosting(
        objective, grower, n_rounds=defaults.QUICK_ROUNDS, learning_rate=defaults.QUICK_RATE
    )
    raw = candidate.to_raw(objective.predict(boost(boosting).best)[held_out.nodes])
    return held_out.weighted(problem.output.loss.deviance(raw, held_out.target))


def _rows_of(labels: Labels, rows: IntArray) -> tuple[Array, Array]:
    """Targets and weights of some labels."""
    return labels.target[rows], labels.weight[rows]
