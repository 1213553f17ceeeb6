"""Problems in the data and in the fit, for the report."""

import numpy as np

from ebboost.inspection.data_audit import Finding, audit_graph, audit_table, listed
from ebboost.inspection.formatting import count, percent, shorten
from ebboost.inspection.report._context import NO_TABLE, NO_VALIDATION, Context

FEW_LABELS = 200
FEW_LABELLED = 0.01  # share of the nodes
FEW_VALIDATION_NODES = 100
RARE_CLASS = 10
CORRELATED = 0.2  # residuals of neighbours
MISCALIBRATED = 0.05


def findings(context: Context) -> list[Finding]:
    """Problems of the graph, the labels, the table and the fit."""
    state = context.state
    audited = (state.labels.nodes, context.labels, state.is_classifier)
    result = [] if state.graph is None else audit_graph(state.graph, *audited)
    if context.table is not None:
        result += audit_table(context.table, *audited)
    problems = _label_problems(context) + _fit_problems(context)
    return result + [Finding(problem, advice) for holds, problem, advice in problems if holds]


def _label_problems(context: Context) -> list[tuple[bool, str, str]]:
    """Whether a problem of the labels exists, the problem, and advice."""
    n_labels = context.state.labels.nodes.size
    n_nodes = context.state.n_nodes
    n_validation = context.state.validation.nodes.size
    rare = []
    if context.classes is not None:
        n_per_class = np.bincount(context.labels.astype(int), minlength=context.classes.size)
        rare = [repr(shorten(context.classes[c])) for c in np.flatnonzero(n_per_class < RARE_CLASS)]
    return [
        (
            n_labels < max(FEW_LABELS, FEW_LABELLED * n_nodes),
            f"Only {n_labels:,} of {n_nodes:,} nodes are labelled.",
            "All figures here would differ noticeably with another sample of labels.",
        ),
        (n_validation == 0, "There are no validation nodes.", NO_VALIDATION.split(". ", 1)[1]),
        (
            0 < n_validation < FEW_VALIDATION_NODES,
            f"Only {count(n_validation, 'validation node')}.",
            "The metrics are rough; eval_set=(nodes, y) can add nodes.",
        ),
        (
            bool(rare),
            f"Classes with fewer than {RARE_CLASS} labels: {listed(rare)}.",
            "They are seldom predicted; merge them, or set class_weight.",
        ),
        (context.table is None, "The table is not in this model.", NO_TABLE.split(". ", 1)[1]),
    ]


def _fit_problems(context: Context) -> list[tuple[bool, str, str]]:
    """As :func:`_label_problems`, for the fit."""
    state = context.state
    n_rounds = len(state.history.get("validation", ()))
    correlation = context.error_correlation or 0.0
    remedy = "stronger smoothing, or edges of another kind"
    if state.candidate.labels is None:
        remedy = "labels='field'"
    error = state.calibration_error or 0.0
    return [
        (
            context.model.early_stopping and n_rounds >= context.model.n_estimators > 0,
            f"Training used all {count(n_rounds, 'round')}.",
            "The validation loss may still be falling: increase n_estimators.",
        ),
        (
            correlation > CORRELATED,
            f"Residuals are correlated between neighbours ({correlation:.2f}).",
            f"The graph holds more information than the model uses: try {remedy}.",
        ),
        (
            error > MISCALIBRATED,
            f"The expected calibration error is {percent(error, 1)}.",
            "Compare predicted probabilities with the accuracy below before you use them.",
        ),
    ]
