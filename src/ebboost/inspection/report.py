"""A report on a fitted model: one HTML file that works offline and runs no script."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from importlib import resources
from string import Template
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ebboost._common import IntArray, TableLike
from ebboost.applicability import applicability_of
from ebboost.data.checks import node_positions
from ebboost.files.archive import replace_file
from ebboost.formatting import count, figure, listed, number, percent, shorten
from ebboost.inspection import diagnostics, plots
from ebboost.inspection.audit import Finding, graph_findings, table_findings
from ebboost.inspection.diagnostics import NO_LABELS, TITLES, Context, Held
from ebboost.inspection.explained import explained_rows
from ebboost.inspection.graph_check import labels_of_nodes, verdict
from ebboost.inspection.html import (
    Html,
    Rows,
    bar,
    folded,
    joined,
    markup,
    missing,
    paragraph,
    plot,
    table,
    tag,
)
from ebboost.intervals import half_widths
from ebboost.model import metric_of
from ebboost.summary import distance_text, gain_text, is_harm

FEW_LABELS = 200
FEW_LABELLED = 0.01  # share of the rows
FEW_HELD_OUT = 100
RARE_CLASS = 10
MIN_CALIBRATION_ERROR = 0.02
SIGNIFICANT = 3.0  # standard deviations
MAX_COLUMNS = 12
MAX_ROWS = 50
MAX_CLASSES = 12
LEAST_SURE = 8
THRESHOLDS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
DIGITS = 3
NO_TABLE = (
    "The table is not in this model: save it with model.save(path, table=True), or pass X to "
    "write_report."
)


def write_report(
    model: Any,
    path: str | os.PathLike[str],
    *,
    X: TableLike = None,
    title: str | None = None,
    nodes: ArrayLike | None = None,
) -> None:
    """Write a report on a fitted model: one HTML file that loads nothing else.

    Parameters
    ----------
    model : EBBSRegressor or EBBSClassifier
        Fitted, or loaded from a file.
    path : path
        The file to write.
    X : table, optional
        The table fitted on, for a model that was loaded without it. Of a GeoDataFrame the maps
        show its areas.
    title : str, optional
        The heading.
    nodes : array-like of int, optional
        Rows to explain besides those that the report chooses.

    Examples
    --------
    >>> import ebboost as eb, numpy as np, pathlib, tempfile
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> m = eb.EBBSRegressor(20, random_state=0).fit(X, X[:, 0], graph=eb.Graph.build_knn(X, k=4))
    >>> path = pathlib.Path(tempfile.mkdtemp(), "report.html")
    >>> eb.write_report(m, path, title="First steps")
    >>> path.read_text(encoding="utf-8")[:15]
    '<!DOCTYPE html>'
    """
    if os.path.isdir(path):
        raise IsADirectoryError(f"{os.fspath(path)} is a folder: name a file.")
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise ImportError("Writing a report needs matplotlib: pip install matplotlib.") from None
    from ebboost import __version__

    context = Context.of(model, X)
    wanted = node_positions([] if nodes is None else nodes, context.model.n_rows, repeats=True)
    values: dict[str, object] = {name: panel(context) for name, panel in PANELS.items()}
    values["rows"] = explained_rows(context, wanted)
    values |= {"title": title or f"Report on an {type(model).__name__}", "version": __version__}
    values["style"] = Html(_template("page.css"))
    filled = {name: markup(value) for name, value in values.items()}
    page = Template(_template("page.html")).substitute(filled)
    replace_file(os.fspath(path), page.encode("utf-8", "backslashreplace"))


def _template(name: str) -> str:
    folder = resources.files("ebboost.inspection") / "templates"
    return (folder / name).read_text(encoding="utf-8")


def chart(draw: Callable[..., object], label: str, rows: Rows, size: Any = (5.2, 3.4)) -> Html:
    """Return a plot, and its numbers as a table; the first of the rows is its heading."""
    return joined(plot(draw, label, size), folded(table(label, rows[0], rows[1:])))


def _metric(name: str, value: float) -> str:
    if name == "accuracy":
        return percent(value, 1)
    if name in ("r2", "d2"):
        return "–" if np.isnan(value) else f"{value:.3f}".replace("-0.000", "0.000")
    return figure(value, DIGITS)


# ---------------------------------------------------------------------- overview and warnings


def overview(context: Context) -> Html:
    """A paragraph on the model, and its main figures."""
    model, held, gain = context.model, context.held, context.model.gain
    classes = model.output.classes
    target = "a number" if classes is None else f"one of {classes.size} classes"
    edges = ""
    if model.graph is not None and model.uses_graph:
        edges = f" and a graph with {count(model.graph.n_edges, 'edge')}"
        if not model.graph.n_edges:
            edges = f" and {count(model.graph.n_nodes, 'group')} without edges"
    columns = count(model.n_features, "column")
    text = [f"The model predicts {target} for {model.n_rows:,} rows from {columns}{edges}."]
    if model.graph is None:
        text.append("It was fitted without a graph.")
    elif not model.uses_graph:
        text.append("It does not use its graph: members without it are as good.")
    if held is not None:
        metrics = held.metrics
        where = f"At {count(held.rows.size, 'label')} that were not trained on"
        if held.is_classes:
            auc = f" and the AUC {metrics['roc_auc']:.3f}" if "roc_auc" in metrics else ""
            text.append(f"{where} the accuracy is {percent(metrics['accuracy'], 1)}{auc}.")
        else:
            name = "d2" if "d2" in metrics else "r2"
            share = f", and {TITLES[name]} is {metrics[name]:.3f}"
            share = "" if np.isnan(metrics[name]) else share
            half = f"half of the predictions are within {number(metrics['median'], DIGITS)}"
            text.append(f"{where} {half} of the label{share}.")
    if gain is not None and model.uses_graph:
        text.insert(0 if is_harm(gain) else len(text), verdict(gain, True))
    if (distance := distance_text(model)) is not None:
        text.append(f"{distance[0].upper()}{distance[1:]}.")
    names = [shorten(one.name) for one in diagnostics.importances(model)[:3] if one.share > 0]
    text += [f"The most important columns are {', '.join(names)}."] if names else []
    tiles = [
        joined(tag("dt", name), tag("dd", joined(tag("strong", value), tag("span", note))))
        for name, value, note in _tiles(context)
    ]
    boxes = joined(*(tag("div", tile) for tile in tiles))
    return joined(tag("p", " ".join(text), "lead"), tag("dl", boxes, "tiles"))


def _tiles(context: Context) -> Iterator[tuple[str, str, str]]:
    """Name, value and note of the figures at the top."""
    model = context.model
    for name in ("accuracy", "log_loss", "roc_auc", "r2", "d2", "rmse"):
        if context.held is not None and name in context.held.metrics:
            note = ""
            if context.plain is not None:
                note = f"{_metric(name, context.plain.metrics[name])} without the graph"
            title = TITLES[name][0].upper() + TITLES[name][1:]
            yield title, _metric(name, context.held.metrics[name]), note
    yield "Rows", f"{model.n_rows:,}", f"{model.labels.size:,} of them labelled"
    if model.places is not None and not model.places.are_rows and not model.places.graph.n_edges:
        yield "Groups", f"{model.places.graph.n_nodes:,}", "without edges"
    elif model.graph is not None:
        parts = f"in {count(model.graph.n_components, 'connected component')}"
        yield "Edges", f"{model.graph.n_edges:,}", parts
    rounds = f"{min(model.rounds):,} to {max(model.rounds):,} rounds"
    yield "Models", f"{len(model.rounds):,}", f"{rounds}; {model.stop_reason}"


def warnings(context: Context) -> Html:
    """Problems in the data and in the fit."""
    items = [
        tag("li", joined(tag("strong", one.problem), " ", one.advice)) for one in findings(context)
    ]
    if not items:
        return paragraph("No problems were found in the data or the fit.")
    return tag("ul", joined(*items), "warnings")


def findings(context: Context) -> Iterator[Finding]:
    """Yield problems of the graph, the labels, the table and the fit."""
    model, held = context.model, context.held
    classes, n_labels = model.output.classes, model.labels.size
    labels = model.labels.target[:, 0]
    if classes is not None:
        labels = diagnostics.class_codes(model).astype(float)
    if model.gain is not None and model.uses_graph and is_harm(model.gain):
        problem = f"The graph does harm: {gain_text(model.gain)}."
        yield Finding(problem, "Fit without the graph, and check its edges.")
    places = None if model.places is None else model.places.in_one_group()
    if places is not None and (places.are_rows or places.graph.n_edges):
        nodes = labels_of_nodes(places, model.labels.rows, labels, classes is not None)
        yield from graph_findings(places.graph, *nodes, classes is not None, model.separation)
    if context.table is None:
        yield Finding("The table is not in this model.", NO_TABLE)
    else:
        yield from table_findings(context.table, model.labels.rows, labels, classes is not None)
    if n_labels < max(FEW_LABELS, FEW_LABELLED * model.n_rows):
        problem = f"Only {n_labels:,} of {model.n_rows:,} rows are labelled."
        yield Finding(problem, "All figures here would differ with another sample of labels.")
    if held is None:
        yield Finding("Every label was trained on.", NO_LABELS)
    elif held.rows.size < FEW_HELD_OUT:
        problem = f"Only {count(held.rows.size, 'label')} that were not trained on."
        yield Finding(problem, "The metrics are rough; eval_set=(nodes, y) can add labels.")
    if classes is not None:
        n_each = np.bincount(labels.astype(int), minlength=classes.size)
        if rare := [repr(shorten(classes[c])) for c in np.flatnonzero(n_each < RARE_CLASS)]:
            problem = f"Classes with fewer than {RARE_CLASS} labels: {listed(rare)}."
            yield Finding(problem, "They are seldom predicted; merge them, or set class_weight.")
    n_rounds = int(model.parameters.get("n_estimators", 0))
    complete = sum(rounds >= n_rounds for rounds in model.rounds)
    if held is not None and model.parameters.get("early_stopping") and complete:
        problem = (
            f"{count(complete, 'model')} had the least error in the last of {n_rounds:,} rounds."
        )
        yield Finding(problem, "It may still be falling: increase n_estimators.")
    if held is not None and held.is_classes:
        check = diagnostics.calibration_error(held)
        excess = check.value - check.expected
        if excess > max(SIGNIFICANT * check.deviation, MIN_CALIBRATION_ERROR):
            problem = f"Probabilities are off by {_calibration_text(check)}."
            yield Finding(problem, "Compare them with the accuracy below before you use them.")


def _calibration_text(check: diagnostics.CalibrationError) -> str:
    chance = f"{check.expected:.3f} ± {check.deviation:.3f}"
    return f"{check.value:.3f} in the mean, where {chance} is expected by chance"


# ---------------------------------------------------------------------- quality


def quality(context: Context) -> Html:
    """Metrics at labels not trained on, with and without the graph, and of a constant."""
    model, held = context.model, context.held
    if held is None:
        return missing(NO_LABELS)
    values = {"This model": held.metrics}
    if context.plain is not None:
        values["Without the graph"] = context.plain.metrics
    if held.is_classes:
        commonest = int(np.bincount(diagnostics.class_codes(model)).argmax())
        share = float((held.truth == commonest).mean())
        values["The most frequent class"] = {"accuracy": share}
    else:
        mean = float(np.average(model.labels.target[:, 0], weights=model.labels.weight))
        errors = held.truth - mean
        values["The mean of the labels"] = {
            "rmse": float(np.sqrt((errors**2).mean())),
            "mae": float(np.abs(errors).mean()),
            "median": float(np.median(np.abs(errors))),
        }
    names = list(values["This model"])
    rows = [
        [title, *(_metric(name, own[name]) if name in own else "–" for name in names)]
        for title, own in values.items()
    ]
    head = ["", *(TITLES[name] for name in names)]
    text = f"At {held.rows.size:,} labels: each is predicted by models that were not trained on "
    text += "it, with weights that other labels chose. Early stopping used these labels, so expect "
    text += "slightly larger errors at new rows."
    return joined(table("Metrics at labels not trained on", head, rows), paragraph(text))


def losses(context: Context) -> Html:
    """Loss by round."""
    first = context.model.components[0]
    if not context.model.history["training"]:
        return missing("This fit had no rounds.")
    note = f"The first of {len(context.model.rounds)} models, of {first.member.name}."
    if first.field is not None:
        note += " Where it is trained, the loss includes the penalty of the latent field."
    drawn = plot(partial(plots.losses, context.estimator), "Loss by round")
    return joined(drawn, paragraph(note))


def predicted(context: Context) -> Html:
    """Predictions against labels, or the confusion matrix."""
    held = context.held
    if held is None:
        return missing(NO_LABELS)
    if context.model.output.classes is not None:
        return _confusion(context, held, context.model.output.classes)
    rows: list[list[object]] = [["predicted", "rows", "mean label", "mean residual", "RMSE"]]
    order = np.argsort(held.prediction, kind="stable")
    for part in np.array_split(order, min(5, order.size)):
        low, high = (number(held.prediction[row], DIGITS) for row in part[[0, -1]])
        own = held.residual[part]
        values = (held.truth[part].mean(), own.mean(), np.sqrt((own**2).mean()))
        figures = (figure(float(value), DIGITS) for value in values)
        rows.append([f"{low} to {high}", f"{part.size:,}", *figures])
    label = f"Labels against predictions; R² {_metric('r2', held.metrics['r2'])}"
    return chart(partial(plots.predicted_vs_true, context.estimator), label, rows, (5.2, 5.2))


def _confusion(context: Context, held: Held, classes: Any) -> Html:
    """The confusion matrix as a plot and as a table."""
    chosen, counts = diagnostics.confusion(held, MAX_CLASSES)
    shown = [shorten(classes[c]) for c in chosen]
    rows = [["true \\ predicted", *shown]]
    rows += [[name, *(f"{int(n):,}" for n in row)] for name, row in zip(shown, counts, strict=True)]
    which = "all" if chosen.size == classes.size else f"the {chosen.size} most frequent"
    note = f"Percentage of each true class (row) that is predicted as each class, of {which}."
    draw = partial(plots.predicted_vs_true, context.estimator, most=MAX_CLASSES)
    side = max(4.2, 3.4 + 0.22 * len(shown))
    drawn = chart(draw, "Confusion matrix of labels not trained on", rows, (side, side))
    if classes.size > 2:
        return joined(paragraph(note), drawn)
    is_true = held.truth == 1
    thresholds = []
    for threshold in THRESHOLDS:
        positive = held.scored.predictions[:, 1] >= threshold
        right = int((positive & is_true).sum())
        sizes = (int(positive.sum()), int(is_true.sum()))
        shares = [percent(right / size, 0) if size else "–" for size in sizes]
        thresholds.append([f"from {threshold:g}", f"{sizes[0]:,}", *shares])
    head = [f"probability of {shown[1]}", "predicted", "precision", "recall"]
    caption = f"Labels predicted as {shown[1]}, by threshold"
    return joined(paragraph(note), drawn, table(caption, head, thresholds, "figures even"))


# ---------------------------------------------------------------------- the graph


def effect(context: Context) -> Html:
    """Change of the error by the graph, by groups of labels."""
    model, held, plain = context.model, context.held, context.plain
    if model.graph is None:
        return missing("This model was fitted without a graph: pass graph= to fit.")
    if not model.uses_graph:
        return missing("The model does not use its graph: members without it are as good.")
    if held is None or plain is None:
        return missing("Errors without and with the graph were not compared. " + NO_LABELS)
    better = np.abs(plain.residual) - np.abs(held.residual)
    name = metric_of(model.output.loss)
    groups = diagnostics.label_groups(model, context.table, held)
    pairs = [(plain.error(own), held.error(own)) for _, own in groups]
    changes = [b / a - 1 if a > 0 else 0.0 for a, b in pairs]
    largest = max(0.1, *map(abs, changes))
    rows = []
    for (group, own), (a, b), change in zip(groups, pairs, changes, strict=True):
        mark = bar(change / largest, ("good", "bad"))
        cells = (f"{own.sum():,}", figure(a, DIGITS), figure(b, DIGITS), f"{change:+.0%}", mark)
        rows.append([group, *cells])
    head = ["", "labels", "without", "with graph", "change", "better ◂ ▸ worse"]
    text = "Members with and without the graph were trained on the same labels. With it, the "
    text += f"prediction is closer to the label at {percent(float((better > 0).mean()))} of "
    text += f"{held.rows.size:,} labels and further away at {percent(float((better < 0).mean()))}. "
    text += f"The {name} by group:"
    return joined(paragraph(text), table(f"{name} by group", head, rows, "figures effect"))


def maps(context: Context) -> Html:
    """Predictions, residuals and uncertainty on maps."""
    place = diagnostics.places(context.model, context.X)
    if place is None:
        return missing(plots.NO_MAP)
    shown = {"Predictions": "prediction"}
    if context.held is not None:
        shown |= {"Residuals": "residual", "Uncertainty": "uncertainty"}
    if context.model.separation is not None:
        shown["Distance to labels"] = "distance"
    drawn = []
    for name, values in shown.items():
        draw = partial(plots.map, context.estimator, values=values, X=context.X)
        picture = plot(draw, name, (4.6, 3.7))
        drawn.append(tag("div", joined(tag("h3", name), picture)))
    note = f"Rows are drawn at {place.source}."
    if context.held is not None:
        note += " Residuals are those of labels that were not trained on; other rows are grey."
    return joined(paragraph(note), tag("div", joined(*drawn), "thirds"))


def columns(context: Context) -> Html:
    """The most important columns."""
    ranked = diagnostics.importances(context.model)
    if not ranked or ranked[0].share <= 0:
        return missing("The trees have no splits, or this learner has no importances.")
    rows = [["column", "share", "own", "of neighbours"]]
    for one in ranked[:MAX_ROWS]:
        shares = (percent(value) for value in (one.share, one.own, one.of_neighbors))
        rows.append([shorten(one.name), *shares])
    if rest := ranked[MAX_ROWS:]:
        total = percent(sum(one.share for one in rest))
        rows.append([count(len(rest), "more column"), total, "", ""])
    draw = partial(plots.importances, context.estimator, most=MAX_COLUMNS)
    size = (5.2, 1 + 0.26 * min(len(ranked), MAX_COLUMNS))
    text = "Share of each column in what the members have learned: its value in the row itself, "
    text += "and in the neighbours of the row. “Place in the graph” are columns of the graph alone."
    return joined(paragraph(text), chart(draw, "Importance of columns", rows, size))


# ---------------------------------------------------------------------- uncertainty


def to_predict(context: Context) -> Html:
    """The rows without a label: how many, what is predicted, and the least sure ones."""
    model = context.model
    is_known = np.zeros(model.n_rows, dtype=bool)
    is_known[np.concatenate([model.labels.rows, model.unseen.rows])] = True
    rows = np.flatnonzero(~is_known)
    if not rows.size:
        return missing("Every row has a label: there are no rows to predict.")
    have = "row has" if rows.size == 1 else "rows have"
    text = f"{rows.size:,} of {model.n_rows:,} {have} no label."
    if model.places is not None and model.places.are_rows:
        near = (model.places.graph.adjacency != 0).astype(float) @ is_known.astype(float)
        far = percent(float((near[rows] == 0).mean()))
        text += f" {far} of them have no labelled neighbour."
    if model.separation is not None:
        outside = applicability_of(model, diagnostics.at_rows(model, rows)).outside
        text += f" {percent(float(outside.mean()))} are farther from labels, or more unlike "
        text += "labelled rows, than where errors were measured: trust these less "
        text += "(model.applicability())."
    panel = _numbers if model.output.classes is None else _classes
    return joined(paragraph(text), panel(context, rows))


def _numbers(context: Context, rows: IntArray) -> Html:
    """Predictions of rows without a label, and those with the largest standard deviations."""
    model = context.model
    values = {"Predictions": model.output.decode(model.raw[rows])}
    if context.held is not None:
        values["Predictions at labels"] = context.held.prediction
    if model.spread is not None:
        values["Standard deviations"] = deviation = diagnostics.deviations(model)[rows]
    quantiles = [
        [name, *(figure(float(end), DIGITS) for end in np.quantile(own, [0.1, 0.5, 0.9]))]
        for name, own in values.items()
    ]
    caption = "Predictions of rows without a label"
    result = table(caption, ["", "10%", "median", "90%"], quantiles, "figures even")
    if model.spread is None:
        return result
    least = rows[np.argsort(-deviation, kind="stable")[:LEAST_SURE]]
    prediction, lower, upper = context.estimator.predict(nodes=least, interval=0.9)
    unsure = [
        [
            context.name(int(row)),
            figure(one, DIGITS),
            f"{number(low, DIGITS)} to {number(high, DIGITS)}",
        ]
        for row, one, low, high in zip(least, prediction, lower, upper, strict=True)
    ]
    head = ["least sure", "prediction", "90% interval"]
    caption = f"The {count(len(unsure), 'row')} with the largest standard deviations"
    return joined(result, table(caption, head, unsure, "figures even"))


def _classes(context: Context, rows: IntArray) -> Html:
    """Predicted classes of rows without a label, and those with the least probable ones."""
    model = context.model
    names = [shorten(name) for name in np.asarray(model.output.classes).tolist()]
    probabilities = model.output.apply_link(model.raw[rows])
    top, predicted = probabilities.max(axis=1), probabilities.argmax(axis=1)
    n_labels = np.bincount(diagnostics.class_codes(model), minlength=len(names))
    by_class = []
    for code in np.argsort(-n_labels, kind="stable")[:LEAST_SURE]:
        own = predicted == code
        stated = percent(float(top[own].mean())) if own.any() else "–"
        shares = [percent(float(own.mean())), percent(n_labels[code] / n_labels.sum())]
        by_class.append([names[code], f"{own.sum():,}", *shares, stated])
    head = ["predicted class", "rows", "share", "share of labels", "mean probability"]
    first = table("Predicted classes of rows without a label", head, by_class, "figures even")
    least = np.argsort(top, kind="stable")[:LEAST_SURE]
    unsure = [
        [context.name(int(rows[one])), names[predicted[one]], percent(float(top[one]))]
        for one in least
    ]
    caption = f"The {count(len(unsure), 'row')} whose class is least probable"
    head = ["least sure", "predicted class", "probability"]
    return joined(first, table(caption, head, unsure, "figures even"))


def uncertainty(context: Context) -> Html:
    """Coverage of intervals or sets, all and by group; of classes also their calibration."""
    held = context.held
    if held is None:
        return missing(NO_LABELS)
    if held.rows.size < diagnostics.MIN_GROUP:
        return missing(f"Coverage needs at least {diagnostics.MIN_GROUP} labels not trained on.")
    first = _calibration(context, held) if held.is_classes else _coverage(context)
    groups = diagnostics.coverage_by_group(context.model, context.table, held)
    kind = "90% intervals"
    if held.is_classes:
        size = diagnostics.set_coverage(held)[1].mean()
        kind = f"90% prediction sets, of {size:.3g} classes in the mean,"
    text = f"{kind} cover {percent(groups[0].share)} of the labels. Bars are where 19 of 20 groups "
    text += "of that size are if 90% holds for them."
    if held.is_classes:
        text += " Sets contain at least the most probable class, so they may cover more."
    draw = partial(plots.coverage_by_group, context.estimator, X=context.X)
    chart_size = (5.8, 1.3 + 0.3 * len(groups))
    second = plot(draw, "Coverage by group, and its range by chance", chart_size)
    halves = (tag("div", first), tag("div", joined(paragraph(text), second)))
    return tag("div", joined(*halves), "halves")


def _coverage(context: Context) -> Html:
    """Text and plot of the coverage of intervals by level."""
    model = context.model
    observed = diagnostics.coverage(model)
    rows: list[list[object]] = [["stated", "covered", "half width"]]
    for level, share in zip(observed.levels, observed.share.tolist(), strict=True):
        widths, where = half_widths(model, level)
        width = figure(float(np.median(widths)), DIGITS)
        rows.append([percent(level), percent(share), f"± {width}"])
    text = "predict(interval=0.9) returns intervals. Here they are calibrated on one half of the "
    text += "labels that were not trained on, and counted in the other. Half widths are medians "
    text += f"over {where}."
    label = "Stated and observed coverage of intervals"
    return joined(paragraph(text), chart(partial(plots.coverage, context.estimator), label, rows))


def _calibration(context: Context, held: Held) -> Html:
    """Text and plot of the calibration of probabilities."""
    rows: list[list[object]] = [["probability", "accuracy", "labels"]]
    for stated, right, n in zip(
        *(part.tolist() for part in diagnostics.calibration(held)), strict=True
    ):
        rows.append([percent(stated), percent(right), f"{n:,}"])
    text = "How often the predicted class is right, by its probability, at labels that were not "
    text += "trained on. Probabilities are off by "
    text += f"{_calibration_text(diagnostics.calibration_error(held))}."
    label = "Predicted probability against accuracy"
    return joined(
        paragraph(text), chart(partial(plots.calibration, context.estimator), label, rows)
    )


# ---------------------------------------------------------------------- members and settings


def settings(context: Context) -> Html:
    """The members of the model, its summary and parameters."""
    model = context.model
    members = diagnostics.member_rows(model)
    parts: list[Html] = []
    if len(members) > 1:
        rows: list[list[object]] = [
            ["member", "weight", metric_of(model.output.loss), "rounds", "seconds"]
        ]
        for row in members:
            numbers = (figure(row.error), f"{row.rounds:.0f}", figure(row.seconds, 2))
            rows.append([row.name, f"{row.weight:.3f}", *numbers])
        text = "Every member was trained on all folds of the labels. The prediction is their "
        text += "weighted sum; weights of 0 or more minimise its error at labels that were not "
        text += "trained on."
        parts += [paragraph(text), table("Members of the model", rows[0], rows[1:], "figures even")]
    parts += [tag("h3", "Summary of the model"), tag("pre", context.estimator.summary())]
    defaults = type(context.estimator)().get_params(deep=False)
    changed = [
        [name, repr(value), repr(defaults.get(name))]
        for name, value in context.estimator.get_params(deep=False).items()
        if repr(value) != repr(defaults.get(name))
    ]
    if changed:
        title = "Parameters that differ from their defaults"
        parts.append(folded(table(title, ["parameter", "value", "default"], changed, ""), title))
    return joined(*parts)


PANELS: dict[str, Callable[[Context], Html]] = {
    "overview": overview,
    "warnings": warnings,
    "quality": quality,
    "losses": losses,
    "predicted": predicted,
    "effect": effect,
    "maps": maps,
    "columns": columns,
    "to_predict": to_predict,
    "uncertainty": uncertainty,
    "settings": settings,
}
