"""Panels on how sure predictions are: coverage, calibration, and the rows to predict."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ebboost.boosting.losses import Quantile
from ebboost.inspection import diagnostics, plots
from ebboost.inspection.diagnostics import Validation
from ebboost.inspection.formatting import count, figure, number, percent, shorten
from ebboost.inspection.label_groups import MIN_GROUP, coverage_by_group
from ebboost.inspection.report._context import NO_VALIDATION, Context
from ebboost.inspection.report._findings import check_text
from ebboost.inspection.report._html import Html, missing, paragraph, render, table
from ebboost.inspection.report._nodes import UNKNOWN, node_name, node_roles
from ebboost.inspection.report._panels import DIGITS, Rows, chart
from ebboost.model.intervals import fitted_intervals
from ebboost.model.spread import variance_columns

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LEAST_SURE = 8


def uncertainty(context: Context) -> Html:
    """Coverage of intervals or sets, all and by group; of classes also their calibration."""
    held_out = context.held_out
    if held_out is None:
        return missing(NO_VALIDATION)
    if held_out.nodes.size < MIN_GROUP:
        return missing(f"Coverage needs at least {MIN_GROUP} held-out labels.")
    if context.classes is not None:
        text, drawn = _calibration(context, held_out)
        covered, size = diagnostics.set_coverage(context.state)
        kind = f"sets, with {size.mean():.3g} classes in the mean,"
        note = "Sets contain at least the most probable class: where the accuracy is higher than "
        note += "90%, they cover more."
    else:
        text, drawn, covered = _coverage(context)
        kind, note = "intervals", ""
    rows: Rows = [["", "nodes", "coverage of 90%", "range by chance"]]
    groups = coverage_by_group(context.model, context.table, held_out, covered)
    for name, n_labels, *shares in groups:
        share, low, high = map(percent, shares)
        rows.append([name, f"{n_labels:,}", share, f"{low} to {high}"])
    by_group = f"90% {kind} cover {percent(float(covered.mean()))} of the held-out labels. Bars "
    by_group += "are where 19 of 20 groups of that size are if 90% holds for them. "
    name = "90% prediction sets" if context.classes is not None else "90% intervals"

    def draw(_: object, ax: "Axes") -> object:
        return plots.draw_coverage(groups, name, ax)

    label = "Coverage by group, and its range by chance"
    size_of_chart = (5.8, 1.3 + 0.3 * len(groups))
    return render(
        "uncertainty.html",
        text=text,
        chart=drawn,
        by_group=by_group + note,
        groups=chart(draw, context, label, rows, size_of_chart),
    )


def _coverage(context: Context) -> tuple[str, Html, NDArray[np.bool_]]:
    """Text and plot of the coverage of intervals by level, and what 90% intervals cover."""
    observed = diagnostics.coverage(context.state)
    shares = dict(zip(observed.levels, observed.share.tolist(), strict=True))
    rows: Rows = [["nominal", "observed", "median half-width"]]
    for (level, share), width in zip(shares.items(), observed.width.tolist(), strict=True):
        rows.append([percent(level), percent(share), f"± {figure(width, DIGITS)}"])
    text = "predict(interval=0.9) returns conformal intervals of local width. Here they are "
    text += "calibrated on one half of the labels that were not trained on and counted in the "
    text += "other."
    if isinstance(context.state.loss, Quantile):
        text += " The model predicts a quantile, so that most labels may lie on one side of it."
    label = f"Nominal against observed coverage: 90% intervals cover {percent(shares[0.9])}."
    return text, chart(plots.coverage, context, label, rows), observed.covered


def _calibration(context: Context, held_out: Validation) -> tuple[str, Html]:
    """Text and plot of the calibration of probabilities."""
    stated, accuracy, n_nodes = diagnostics.calibration(held_out)
    check = context.calibration_check
    note = "" if check is None else f"The expected calibration error is {check_text(check, 3)}. "
    rows: Rows = [["predicted", "accuracy", "nodes"]]
    for s, a, n in zip(stated.tolist(), accuracy.tolist(), n_nodes.tolist(), strict=True):
        rows.append([percent(s), percent(a), f"{n:,}"])
    text = "Accuracy of the predicted class against its predicted probability at held-out labels. "
    text += note + "The calibration of the scores was fitted on the same labels, "
    text += "so the error on new nodes is slightly larger."
    label = f"Predicted probability against accuracy. {note}"
    return text, chart(plots.calibration, context, label, rows)


def to_predict(context: Context) -> Html:
    """The rows without a label: how many, what is predicted, and the least sure ones."""
    state = context.state
    nodes = np.flatnonzero(node_roles(state) == UNKNOWN)
    if not nodes.size:
        return missing("Every node has a label: there are no rows to predict.")
    have = "row has" if nodes.size == 1 else "rows have"
    sentences = [f"{nodes.size:,} of {state.n_nodes:,} {have} no label."]
    if state.graph is not None and state.graph.groups is None:
        labelled = np.zeros(state.graph.n_nodes)
        labelled[state.labels.nodes] = 1.0
        n_near = (state.graph.unsigned.adjacency != 0).astype(float) @ labelled
        far = percent(float((n_near[nodes] == 0).mean()))
        sentences.append(f"{far} of them have no labelled neighbour.")
    panel = _numbers if context.classes is None else _classes
    return Html(paragraph(" ".join(sentences)) + panel(context, nodes))


def _numbers(context: Context, nodes: NDArray[np.int64]) -> Html:
    """Predictions of rows without a label, and those with the largest standard deviations."""
    state = context.state
    predicted = state.output.decode(state.raw_predictions[nodes])
    rows = [_quantile_row("Predictions", predicted)]
    if context.held_out is not None:
        rows.append(_quantile_row("Predictions at held-out labels", context.held_out.prediction))
    head = ["", "10%", "median", "90%"]
    if state.spread is None:
        return table("Predictions of rows without a label", head, rows, "figures even")
    columns = variance_columns(state, nodes)
    deviation = np.sqrt(columns["variance"])
    rows.append(_quantile_row("Standard deviations", deviation))
    ends = fitted_intervals(state, 0.9)
    least = np.argsort(-deviation, kind="stable")[:LEAST_SURE]
    unsure = [
        [
            node_name(state, int(node)),
            figure(float(value), DIGITS),
            figure(float(size), DIGITS),
            " to ".join(number(float(end[node]), DIGITS) for end in ends[1:]),
        ]
        for node, value, size in zip(nodes[least], predicted[least], deviation[least], strict=True)
    ]
    quantiles = table("Predictions of rows without a label", head, rows, "figures even")
    caption = f"The {count(len(unsure), 'row')} with the largest standard deviations"
    head = ["least sure", "prediction", "standard deviation", "90% interval"]
    return Html(quantiles + table(caption, head, unsure, "figures even"))


def _quantile_row(name: str, values: NDArray[np.float64]) -> list[str]:
    return [name, *(figure(float(end), DIGITS) for end in np.quantile(values, [0.1, 0.5, 0.9]))]


def _classes(context: Context, nodes: NDArray[np.int64]) -> Html:
    """Predicted classes of rows without a label, and those with the least probable ones."""
    state = context.state
    assert context.classes is not None
    names = [shorten(name) for name in context.classes.tolist()]
    probabilities = state.output.apply_link(state.raw_predictions[nodes])
    top = probabilities.max(axis=1)
    predicted = probabilities.argmax(axis=1)
    n_labels = np.bincount(context.labels.astype(int), minlength=len(names))
    rows = []
    for code in np.argsort(-n_labels, kind="stable")[:LEAST_SURE]:
        own = predicted == code
        stated = percent(float(top[own].mean())) if own.any() else "–"
        shares = [percent(float(own.mean())), percent(n_labels[code] / n_labels.sum())]
        rows.append([names[code], f"{own.sum():,}", *shares, stated])
    head = ["predicted class", "rows", "share", "share of labels", "mean probability"]
    by_class = table("Predicted classes of rows without a label", head, rows, "figures even")
    least = np.argsort(top, kind="stable")[:LEAST_SURE]
    unsure = [
        [node_name(state, int(nodes[row])), names[predicted[row]], percent(float(top[row]))]
        for row in least
    ]
    caption = f"The {count(len(unsure), 'row')} whose class is least probable"
    head = ["least sure", "predicted class", "probability"]
    return Html(by_class + table(caption, head, unsure, "figures even"))
