"""What in the data or in the fit deserves a second look, each with what to do about it."""

from html import escape

import numpy as np

from ebboost.data.labels import one_hot
from ebboost.inspection import diagnostics as diagnosis
from ebboost.inspection.report._charts import clipped, percent
from ebboost.inspection.report._context import NO_HELD_OUT, Known, paragraph
from ebboost.training.selection import label_correlation


def warnings(known: Known) -> str:
    """What in the data or the fit deserves a second look."""
    found = _of_graph(known) + _of_labels(known) + _of_table(known) + _of_fit(known)
    if not found:
        return paragraph("Nothing that deserves a second look was found.")
    items = "".join(
        f"<li><strong>{escape(what)}</strong> {escape(remedy)}</li>" for what, remedy in found
    )
    return f'<ul class="warnings">{items}</ul>'


def _of_graph(known: Known) -> list[tuple[str, str]]:
    graph, found = known.model.graph_, []
    if graph is None:
        return []
    if isolates := graph.isolates.size:
        what = f"{isolates:,} of {graph.n_nodes:,} nodes have no edge."
        found.append((what, "They are predicted from their own columns alone."))
    labelled = np.zeros(graph.n_components, dtype=bool)
    labelled[graph.component_labels[known.model.state_.labels.nodes]] = True
    size = np.bincount(graph.component_labels)
    cut_off = int(size[~labelled & (size > 1)].sum())
    if cut_off:
        found.append(
            (
                f"{cut_off:,} nodes are tied only to nodes without labels.",
                "No known label reaches them.",
            )
        )
    if graph.n_edges and not known.classes:
        alike = label_correlation(graph, known.model.state_.labels)
        if alike < 0.1:
            what = f"Labels of neighbours are hardly alike (correlation {alike:.2f})."
            found.append(
                (what, "Check that the edges join the rows you mean, in the order of the table.")
            )
    return found


def _of_labels(known: Known) -> list[tuple[str, str]]:
    model, found = known.model, []
    labels, n_nodes = model.state_.labels, len(model.scores_)
    if labels.nodes.size < 200 or labels.nodes.size < 0.01 * n_nodes:
        what = f"Only {labels.nodes.size:,} of {n_nodes:,} nodes are labelled."
        found.append(
            (what, "Every figure here moves a good deal from one sample of labels to the next.")
        )
    if known.held is None:
        found.append(("No nodes were held out.", NO_HELD_OUT.split(". ", 1)[1]))
    elif known.held.nodes.size < 100:
        what = f"Only {known.held.nodes.size} nodes were held out."
        found.append(
            (what, "Take the quality below as a rough guide; eval_set=(nodes, y) can give more.")
        )
    if known.classes:
        count = one_hot(labels.target).sum(axis=0)
        rare = [clipped(model.classes_[c]) for c in np.flatnonzero(count < 10)]
        if rare:
            what = f"Fewer than 10 labels each: {', '.join(rare[:5])}{' and others' if len(rare) > 5 else ''}."
            found.append(
                (what, "Such classes are seldom predicted; join them, or see class_weight.")
            )
    return found


def _of_table(known: Known) -> list[tuple[str, str]]:
    seen, found = known.table, []
    if seen is None:
        what = "The table is not in this model."
        return [
            (
                what,
                "Save it with model.save(path, table=True), or pass X to write_report, for all panels.",
            )
        ]
    if seen.is_sparse:
        return []
    missing = np.isnan(seen.values).mean(axis=0)
    holes = [
        f"{clipped(seen.names[c])} ({percent(missing[c])})"
        for c in np.argsort(-missing)
        if 0.2 <= missing[c] < 1
    ]
    if holes:
        what = f"Often missing: {', '.join(holes[:5])}{' and others' if len(holes) > 5 else ''}."
        found.append(
            (
                what,
                "Trees take missing values as they are; check that they are missing for a reason.",
            )
        )
    with np.errstate(all="ignore"):
        known_values = [column[~np.isnan(column)] for column in seen.values.T]
        constant = [
            clipped(seen.names[c])
            for c, column in enumerate(known_values)
            if not column.size or np.ptp(column) == 0
        ]
    if constant:
        what = f"The same in every row, or empty: {', '.join(constant[:5])}{' and others' if len(constant) > 5 else ''}."
        found.append((what, "Nothing can be learned from such a column."))
    many = [
        clipped(seen.names[c])
        for c in seen.categorical
        if len(known.model.state_.reader.categories.get(c, ())) > 0.5 * seen.n_rows
    ]
    if many:
        found.append(
            (
                f"Nearly a category for each row: {', '.join(many[:5])}.",
                "This looks like an id: leave it out.",
            )
        )
    return found


def _of_fit(known: Known) -> list[tuple[str, str]]:
    model, found = known.model, []
    if len(model.history_.get("validation", ())) >= model.n_estimators > 0 and model.early_stopping:
        what = f"Training went to the last of {model.n_estimators:,} rounds."
        found.append((what, "It might still have improved: raise n_estimators."))
    if known.held is not None:
        alike = diagnosis.errors_alike(model, known.held)
        if alike is not None and alike > 0.2:
            what = f"Errors of neighbours are still alike (correlation {alike:.2f})."
            remedy = (
                "labels='field'"
                if model.labels_ is None
                else "stronger smoothing, or edges of other kinds"
            )
            found.append((what, f"There is more in the graph than the model takes: try {remedy}."))
    error = getattr(model, "calibration_error_", None)
    if error is not None and error > 0.05:
        what = f"Probabilities are off by {percent(error)} on average."
        found.append((what, "Compare stated with observed shares below before you act on them."))
    return found
