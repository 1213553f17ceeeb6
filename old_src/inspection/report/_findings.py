"""Problems in the data and in the fit, for the report."""

from collections.abc import Iterator

import numpy as np

from ebboost.inspection.data_audit import Finding, audit_graph, audit_table, listed
from ebboost.inspection.formatting import count, percent, shorten
from ebboost.inspection.model_checks import MIN_CALIBRATION_ERROR, MIN_CORRELATION, Check
from ebboost.inspection.report._context import NO_TABLE, NO_VALIDATION, Context

FEW_LABELS = 200
FEW_LABELLED = 0.01  # share of the nodes
FEW_HELD_OUT = 100
RARE_CLASS = 10


def findings(context: Context) -> list[Finding]:
    """Problems of the graph, the labels, the table and the fit."""
    state = context.state
    audited = (state.labels.nodes, context.labels, state.is_classifier)
    result = [] if state.graph is None else list(audit_graph(state.graph, *audited))
    if context.table is not None:
        result += audit_table(context.table, *audited)
    return [*harm(context), *result, *_label_problems(context), *_fit_problems(context)]


def _label_problems(context: Context) -> Iterator[Finding]:
    n_labels = context.state.labels.nodes.size
    n_nodes = context.state.n_nodes
    n_validation = context.state.validation.nodes.size
    if n_labels < max(FEW_LABELS, FEW_LABELLED * n_nodes):
        advice = "All figures here would differ noticeably with another sample of labels."
        of_nodes = f"{n_labels:,} of {n_nodes:,} nodes are labelled"
        problem = f"Only {n_labels:,} labels" if n_labels == n_nodes else f"Only {of_nodes}"
        yield Finding(f"{problem}.", advice)
    if n_validation == 0:
        yield Finding("Every label was trained on.", NO_VALIDATION.split(". ", 1)[1])
    elif n_validation < FEW_HELD_OUT:
        advice = "The metrics are rough; eval_set=(nodes, y) can add nodes."
        yield Finding(f"Only {count(n_validation, 'held-out label')}.", advice)
    if context.classes is not None:
        n_per_class = np.bincount(context.labels.astype(int), minlength=context.classes.size)
        rare = [repr(shorten(context.classes[c])) for c in np.flatnonzero(n_per_class < RARE_CLASS)]
        if rare:
            problem = f"Classes with fewer than {RARE_CLASS} labels: {listed(rare)}."
            yield Finding(problem, "They are seldom predicted; merge them, or set class_weight.")
    if context.table is None:
        yield Finding("The table is not in this model.", NO_TABLE.split(". ", 1)[1])


def _fit_problems(context: Context) -> Iterator[Finding]:
    state = context.state
    n_rounds = context.model.n_estimators
    n_complete = sum(rounds >= n_rounds for rounds in state.rounds)
    if state.history.get("validation") and context.model.early_stopping and n_complete:
        of_models = f" of {n_complete:,} of {len(state.rounds):,} models" * (len(state.rounds) > 1)
        problem = f"The validation loss{of_models} was least in the last of {n_rounds:,} rounds."
        yield Finding(problem, "It may still be falling: increase n_estimators.")
    check = context.residual_check
    if check is not None and check.exceeds(MIN_CORRELATION):
        problem = "Residuals of neighbours are correlated more than the model explains:"
        remedy = "stronger smoothing, or edges of another kind"
        if state.candidate.labels is None:
            remedy = "labels='field'"
        advice = f"The graph holds more information than the model uses: try {remedy}."
        yield Finding(f"{problem} {check_text(check, 2)}.", advice)
    check = context.calibration_check
    if check is not None and check.exceeds(MIN_CALIBRATION_ERROR):
        advice = "Compare predicted probabilities with the accuracy below before you use them."
        yield Finding(f"The expected calibration error is {check_text(check, 3)}.", advice)


def check_text(check: Check, digits: int) -> str:
    """Return a value, and what it is where the model is right."""
    value, expected, deviation = (f"{part:.{digits}f}" for part in check)
    return f"{value}, where {expected} ± {deviation} is expected by chance"


def harm(context: Context) -> Iterator[Finding]:
    """Whether the graph does harm, which comes first."""
    difference = context.graph_gain
    if difference is not None and difference.is_harm:
        error = abs(difference.relative * difference.standard_error / difference.gain)
        change = f"{percent(-difference.relative)} ± {percent(error)}"
        assert context.compared is not None
        measure = f"the {context.compared.loss_name} at held-out labels"
        problem = f"The graph does harm: {measure} is {change} larger with it."
        yield Finding(problem, "Fit without the graph, or leave smoothing and labels at 'auto'.")
