"""The panels of the report: each a function from the context to HTML."""

from collections.abc import Callable
from dataclasses import asdict
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ebboost.inspection import diagnostics, plots
from ebboost.inspection.diagnostics import TITLES, Validation
from ebboost.inspection.formatting import count, figure, number, percent, shorten
from ebboost.inspection.graph_gain import estimate_of
from ebboost.inspection.label_groups import label_groups
from ebboost.inspection.report._context import NO_TABLE, NO_VALIDATION, Context
from ebboost.inspection.report._findings import check_text, findings, harm
from ebboost.inspection.report._html import (
    Html,
    folded,
    missing,
    paragraph,
    plot,
    render,
    table,
    two_way_bar,
)

Draw = Callable[..., object]
Size = tuple[float, float]
MAX_COLUMNS = 12
MAX_ROWS = 50
MAX_CLASSES = 12
THRESHOLDS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
DIGITS = 3
Rows = list[list[str]]


def _metric(name: str, value: float) -> str:
    if name == "accuracy":
        return percent(value, 1)
    if name in ("r2", "d2"):
        return "–" if np.isnan(value) else f"{value:.3f}".replace("-0.000", "0.000")
    return figure(value, DIGITS)


def chart(draw: Draw, context: Context, label: str, rows: Rows, size: Size = (5.2, 3.4)) -> Html:
    """A plot of the model, and its numbers as a table; the first of the rows is its heading."""
    numbers = folded(table(label, rows[0], rows[1:]))
    return Html(plot(partial(draw, context.model), label, size) + numbers)


def overview(context: Context) -> Html:
    """A paragraph on the model and its main figures."""
    state = context.state
    n_classes = None if context.classes is None else context.classes.size
    target = "a number" if n_classes is None else f"one of {n_classes} classes"
    graph = ""
    if state.uses_graph and state.graph is not None:
        graph = f" and a graph with {count(state.graph.n_edges, 'edge')}"
    columns = count(state.n_features, "column")
    nodes = f"each of {state.n_nodes:,} nodes"
    sentences = [finding.problem for finding in harm(context)]
    sentences.append(f"The model predicts {target} for {nodes} from {columns}{graph}.")
    estimate = estimate_of(state)
    if state.graph is None:
        sentences.append("It was fitted without a graph.")
    elif not state.uses_graph:
        sentences.append("It does not use its graph: plain boosting is as good.")
    elif estimate is not None and estimate.gain < 0:
        sentences.append(estimate.verdict)
    if context.held_out is not None:
        sentences += _quality_sentences(context)
    ranked = [shorten(name) for name, share in diagnostics.importances(context.model) if share > 0]
    if ranked:
        sentences.append(f"The most important columns are {', '.join(ranked[:3])}.")
    keys = ("name", "value", "note")
    tiles = [render("tile.html", **dict(zip(keys, tile, strict=True))) for tile in _tiles(context)]
    return render("overview.html", text=" ".join(sentences), tiles=Html("".join(tiles)))


def _quality_sentences(context: Context) -> list[str]:
    """How good the predictions are, and what the graph changes."""
    held_out = context.held_out
    assert held_out is not None
    quality = held_out.metrics
    where = f"On {count(held_out.nodes.size, 'held-out label')}"
    if held_out.probabilities is not None:
        order = f" and its AUC {quality['roc_auc']:.3f}" if "roc_auc" in quality else ""
        sentences = [f"{where} its accuracy is {percent(quality['accuracy'], 1)}{order}."]
    else:
        text = f"{where} half of the predictions are within {number(quality['median'], DIGITS)}"
        name = "d2" if "d2" in quality else "r2"
        explained = (
            "" if np.isnan(quality[name]) else f", and {TITLES[name]} is {quality[name]:.3f}"
        )
        sentences = [f"{text} of the label{explained}."]
    if context.plain is not None and context.compared is not None:
        difference = context.graph_gain
        assert difference is not None
        if abs(difference.gain) <= 2.0 * difference.standard_error:
            within = "the difference is less than two standard errors"
            sentences.append(f"Plain boosting without the graph is as good: {within}.")
        elif not difference.is_harm:
            effect = "reduces" if difference.gain > 0 else "increases"
            amount = f"the {held_out.loss_name} by {percent(abs(difference.relative), 0)}"
            compared = "Compared with plain boosting without the graph"
            sentences.append(f"{compared}, the model {effect} {amount}.")
    return sentences


def _tiles(context: Context) -> list[tuple[str, str, str]]:
    """Name, value and note of the figures at the top."""
    state = context.state
    tiles = []
    if context.held_out is not None:
        quality = context.held_out.metrics
        plain = context.plain
        compared = context.compared
        names = ("accuracy", "log_loss", "roc_auc", "r2", "d2", "rmse")
        for name in (name for name in names if name in quality):
            note = ""
            if plain is not None and compared is not None:
                note = f"{_metric(name, plain.metrics[name])} without the graph"
                if plain.nodes.size < context.held_out.nodes.size:
                    with_graph = _metric(name, compared.metrics[name])
                    note += f", {with_graph} with it, on {count(plain.nodes.size, 'label')}"
            title = TITLES[name]
            tiles.append((title[0].upper() + title[1:], _metric(name, quality[name]), note))
    tiles.append(("Nodes", f"{state.n_nodes:,}", f"{state.labels.nodes.size:,} of them labelled"))
    if state.graph is not None:
        components = count(state.graph.n_components, "connected component")
        tiles.append(("Edges", f"{state.graph.n_edges:,}", f"in {components}"))
    models = f"mean of {len(state.rounds)} models; " if len(state.rounds) > 1 else ""
    tiles.append(("Rounds", f"{state.n_iter:,}", f"{models}{state.stop_reason}"))
    return tiles


def warnings(context: Context) -> Html:
    """Problems in the data and in the fit."""
    items = [render("finding.html", **asdict(finding)) for finding in findings(context)]
    if not items:
        return paragraph("No problems were found in the data or the fit.")
    return Html(f'<ul class="warnings">{"".join(items)}</ul>')


def quality(context: Context) -> Html:
    """Metrics at held-out labels, with and without the graph, and of a constant."""
    state = context.state
    held_out = context.held_out
    if held_out is None:
        return missing(NO_VALIDATION)
    models = {"This model": held_out}
    if context.classes is None:
        constant = np.full(held_out.nodes.size, state.training_labels.target.mean())
        models["The mean of the labels"] = Validation(held_out.nodes, held_out.truth, constant)
    if context.plain is not None and context.compared is not None:
        plain = "Plain boosting without the graph"
        if context.plain.nodes.size < held_out.nodes.size:
            where = f", on {count(context.plain.nodes.size, 'label')}"
            plain += where
            models[f"This model{where}"] = context.compared
        models[plain] = context.plain
    values = {title: result.metrics for title, result in models.items()}
    if context.classes is not None:
        most_frequent = np.bincount(context.labels.astype(int)).argmax()
        share = float((held_out.truth == most_frequent).mean())
        values["The most frequent class"] = {"accuracy": share}
    names = list(values["This model"])
    rows = [
        [title, *(_metric(name, own[name]) if name in own else "–" for name in names)]
        for title, own in values.items()
    ]
    head = ["", *(TITLES[name] for name in names)]
    metrics = table("Metrics at held-out labels", head, rows)
    averaging = ""
    if len(state.rounds) > 1:
        averaging = f"; the mean of {len(state.rounds)} models is usually better than the single"
        averaging += " ones measured here"
    n = f"{held_out.nodes.size:,}"
    return render("quality.html", table=metrics, n=n, averaging=averaging)


def losses(context: Context) -> Html:
    """Loss by round."""
    history = context.state.history
    training = history.get("training", [])
    validation = history.get("validation", [])
    if not training:
        return missing("This fit has no losses: it had no rounds.")
    rounds_text = count(len(training), "round")
    label = f"Training loss over {rounds_text}, {figure(training[-1])} at the end."
    if validation:
        label += f" Validation loss, {figure(min(validation))} at round {context.state.rounds[0]}."
    rounds = np.unique(np.linspace(1, len(training), 10).astype(int)).tolist()
    columns = [training, [*validation, *[np.nan] * (len(training) - len(validation))]]
    rows = [["round", "training", "validation"]]
    rows += [[str(r), *(figure(losses[r - 1]) for losses in columns)] for r in rounds]
    drawn = chart(plots.losses, context, label, rows)
    if (n := len(context.state.rounds)) > 1:
        drawn = Html(paragraph(f"The losses of the first of {n} models.") + drawn)
    return drawn


def predicted(context: Context) -> Html:
    """Predictions against labels, or the confusion matrix."""
    held_out = context.held_out
    if held_out is None:
        return missing(NO_VALIDATION)
    if context.classes is not None:
        return _confusion(context, held_out, context.classes)
    rows = [["predicted", "nodes", "mean label", "mean residual", "RMSE"]]
    order = np.argsort(held_out.prediction, kind="stable")
    for part in np.array_split(order, min(5, order.size)):
        low, high = (number(held_out.prediction[node], DIGITS) for node in part[[0, -1]])
        residual = held_out.residual[part]
        rmse = np.sqrt((residual**2).mean())
        values = (held_out.truth[part].mean(), residual.mean(), rmse)
        row = [f"{low} to {high}", f"{part.size:,}"]
        rows.append(row + [figure(float(value), DIGITS) for value in values])
    r2 = _metric("r2", held_out.metrics["r2"])
    label = f"Held-out labels against predictions; R² {r2}."
    return chart(plots.predicted_vs_true, context, label, rows, (5.2, 5.2))


def _confusion(context: Context, held_out: Validation, names: NDArray[np.generic]) -> Html:
    """The confusion matrix as a plot and as a table."""
    classes, counts = diagnostics.confusion(held_out, names.size, MAX_CLASSES)
    shown = [shorten(names[c]) for c in classes]
    rows = [["true \\ predicted", *shown]]
    rows += [[name, *(f"{int(n):,}" for n in row)] for name, row in zip(shown, counts, strict=True)]
    which = "all" if classes.size == names.size else f"the {classes.size} most frequent"
    note = "Percentage of each true class (row) that is predicted as each class (column), of "
    draw = partial(plots.predicted_vs_true, most=MAX_CLASSES)
    label = "Confusion matrix: number of held-out labels"
    side = max(4.2, 3.4 + 0.22 * len(shown))
    drawn = chart(draw, context, label, rows, (side, side))
    thresholds = _thresholds(held_out, shown[1]) if names.size == 2 else Html("")
    return Html(paragraph(f"{note}{which} classes.") + drawn + thresholds)


def _thresholds(held_out: Validation, name: str) -> Html:
    """What is predicted of two classes if the second one needs another probability than 0.5."""
    assert held_out.probabilities is not None
    is_true = held_out.truth == 1
    rows = []
    for threshold in THRESHOLDS:
        predicted = held_out.probabilities[:, 1] >= threshold
        n_right = int((predicted & is_true).sum())
        numbers = [int(part.sum()) for part in (predicted, is_true)]
        shares = [percent(n_right / number, 0) if number else "–" for number in numbers]
        rows.append([f"from {threshold:g}", f"{numbers[0]:,}", *shares])
    head = [f"probability of {name}", "predicted", "precision", "recall"]
    return table(f"Held-out labels predicted as {name}, by threshold", head, rows, "figures even")


def graph_effect(context: Context) -> Html:
    """Change of the error by the graph, by groups of held-out labels."""
    held_out = context.compared
    plain = context.plain
    if context.state.graph is None:
        return missing("This model was fitted without a graph: pass graph= to fit.")
    if not context.state.uses_graph:
        reason = "the candidates that do have no lower loss at held-out labels."
        return missing(f"The model does not use its graph: {reason}")
    if context.held_out is None:
        return missing(NO_VALIDATION)
    if held_out is None or plain is None:
        return missing(f"The comparison fits plain boosting without the graph. {NO_TABLE}")
    gain = np.abs(plain.residual) - np.abs(held_out.residual)
    measure = held_out.loss_name
    figures = percent if context.classes is not None else partial(figure, digits=DIGITS)
    groups = label_groups(context.model, context.table, held_out)
    before = [float(plain.loss[mask].mean()) for _, mask in groups]
    after = [float(held_out.loss[mask].mean()) for _, mask in groups]
    changes = [b / a - 1 if a > 0 else 0.0 for a, b in zip(before, after, strict=True)]
    largest = max(0.1, *map(abs, changes))
    rows = [
        [name, f"{mask.sum():,}", figures(a), figures(b), f"{c:+.0%}", two_way_bar(c / largest)]
        for (name, mask), a, b, c in zip(groups, before, after, changes, strict=True)
    ]
    head = ["", "nodes", "without", "with graph", "change", "better ◂ ▸ worse"]
    effects = table(f"Change of the {measure} by group", head, rows, "figures effect")
    better = percent(float((gain > 0).mean()))
    worse = percent(float((gain < 0).mean()))
    n = f"{plain.nodes.size:,}"
    return render("graph.html", better=better, worse=worse, n=n, measure=measure, table=effects)


def map_note(context: Context, source: str | None, n_shown: int) -> Html:
    """What the map shows, and whether residuals are correlated between neighbours."""
    drawn = "The table has no coordinates, so a layout of the graph places the nodes: close nodes "
    drawn += "are few edges apart."
    sentences = [drawn if source is None else f"Nodes are drawn at the columns {source}."]
    n_nodes = context.state.n_nodes
    if n_shown < n_nodes:
        sentences.append(f"{n_shown:,} of {n_nodes:,} nodes are shown.")
    if (check := context.residual_check) is not None:
        correlation = "The correlation of signed residuals between neighbours is"
        sentences.append(f"{correlation} {check_text(check, 2)}.")
    return paragraph(" ".join(sentences))


def columns(context: Context) -> Html:
    """The most important columns."""
    ranked = diagnostics.importances(context.model)
    if not ranked or ranked[0][1] <= 0:
        return missing("The trees have no splits, or this learner has no importances.")
    names = list(context.state.reader.names)
    parts = np.column_stack([context.model.own_importances_, context.model.neighbor_importances_])
    rows = [["column", "share", "own", "of neighbours"]]
    for name, share in ranked[:MAX_ROWS]:
        own = parts[names.index(name)].tolist()
        rows.append([shorten(name), *(percent(value) for value in (share, *own))])
    if rest := ranked[MAX_ROWS:]:
        total = sum(share for _, share in rest)
        rows.append([count(len(rest), "more column"), percent(total), "", ""])
    draw = partial(plots.importances, most=MAX_COLUMNS)
    size = (5.2, 1 + 0.26 * min(len(ranked), MAX_COLUMNS))
    return render("columns.html", chart=chart(draw, context, "Importance of columns", rows, size))


def selection(context: Context) -> Html:
    """The candidates of the model selection, and the parameters."""
    state = context.state
    drawn = missing(plots.NO_SELECTION)
    candidates = diagnostics.selection_rows(state)
    if len(candidates) > 1:
        rows = [["candidate", "loss", "standard error", "folds", "rounds"]]
        for row in candidates:
            selected = " (selected)" if row.selected else ""
            numbers = [figure(row.loss), figure(row.error, 2), row.folds, f"{row.rounds:.0f}"]
            rows.append([row.name + selected, *numbers])
        label = f"Loss of {count(len(candidates), 'candidate')} at held-out labels."
        n_lines = sum(1 + row.name.count(" + ") for row in candidates)
        size = (5.2, 1 + 0.3 * n_lines)
        drawn = chart(plots.candidates, context, label, rows, size)
        drawn = render("selection.html", chart=drawn)
    defaults = type(context.model)().get_params(deep=False)
    changed = [
        [name, repr(value), repr(defaults.get(name))]
        for name, value in context.model.get_params(deep=False).items()
        if repr(value) != repr(defaults.get(name))
    ]
    title = "Parameters that differ from their defaults"
    parameters = Html("")
    if changed:
        parameters = folded(table(title, ["parameter", "value", "default"], changed, ""), title)
    summary = context.model.summary()
    return render("settings.html", selection=drawn, summary=summary, parameters=parameters)
