"""The panels of the report, each a function from what is known of a model to HTML; whatever a user named is escaped."""

from html import escape
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebboost.boosting.losses import Quantile
from ebboost.data.labels import one_hot
from ebboost.inspection import diagnostics as diagnosis
from ebboost.inspection.diagnostics import HeldOut
from ebboost.inspection.report._charts import (
    Axis,
    bar,
    chart,
    clipped,
    dots,
    figure,
    folded,
    line,
    number,
    percent,
    round_ticks,
    table,
    two_way_bar,
)
from ebboost.inspection.report._context import NO_HELD_OUT, Known, paragraph, told

Array = NDArray[np.float64]
MOST_DOTS = 2500
MOST_COLUMNS = 12
MOST_CLASSES = 12
LEAST_IN_A_GROUP = 20


# ---------------------------------------------------------------------- what was learned


def learned(known: Known) -> str:
    """Sentences that a colleague understands."""
    model, q, p = known.model, known.quality, known.plain_quality
    graph, n_nodes, n_columns = model.graph_, len(model.scores_), model.n_features_in_
    what = f"one of {len(model.classes_)} classes" if known.classes else "a number"
    ties = f" and from {graph.n_edges:,} ties between rows" if diagnosis.uses_graph(model) else ""
    first = (
        f"For each of {n_nodes:,} rows the model predicts {what}, from {n_columns:,} columns{ties}."
    )
    sentences = [first]
    if known.held is not None:
        m = known.held.nodes.size
        if known.classes:
            right = percent(q["accuracy"], 1)
            sentences.append(
                f"At {m:,} rows it had not learned from, it names the right class for {right}."
            )
            if p:
                change = (1 - q["accuracy"]) / max(1 - p["accuracy"], 1e-12) - 1
                sentences.append(
                    f"The same trees without the graph: {percent(p['accuracy'], 1)}; {_mistakes(change)}."
                )
        else:
            share = (
                ""
                if np.isnan(q["r2"])
                else f", and it explains {percent(max(q['r2'], 0.0))} of the differences (R²)"
            )
            near = f"half of its predictions are within {number(q['median'])} of the truth"
            sentences.append(f"At {m:,} rows it had not learned from, {near}{share}.")
            if p:
                change = (q["rmse"] / p["rmse"]) ** 2 - 1 if p["rmse"] > 0 else 0.0
                verb = "cuts" if change < 0 else "raises"
                sentences.append(
                    f"Compared with the same trees without the graph, the graph {verb} the mean squared error by "
                    f"{percent(abs(change))}."
                    if abs(change) >= 0.005
                    else "The same trees without the graph do as well."
                )
    if graph is not None and not diagnosis.uses_graph(model):
        sentences.append(
            "The graph was found to be of no use here, and the model works without it."
        )
    elif graph is None:
        sentences.append("It was fitted without a graph.")
    top = [clipped(name) for name, share in diagnosis.importances(model)[:3] if share > 0]
    if top:
        sentences.append(f"What it looks at most: {', '.join(top)}.")
    return f'<p class="lead">{escape(" ".join(sentences))}</p>'


def _mistakes(change: float) -> str:
    if abs(change) < 0.005:
        return "the graph makes no difference"
    return f"the graph {'avoids' if change < 0 else 'adds'} {percent(abs(change))} of the mistakes"


def _signed_percent(share: float) -> str:
    return ("+" if share > 0 else "") + percent(share, 0)


def tiles(known: Known) -> str:
    """The few numbers to remember."""
    model, q, p = known.model, known.quality, known.plain_quality
    items: list[tuple[str, str, str]] = []
    if known.held is not None and known.classes:
        items.append(
            (
                "Accuracy",
                percent(q["accuracy"], 1),
                f"{percent(p['accuracy'], 1)} without the graph" if p else "",
            )
        )
        items.append(
            (
                "Log-loss",
                figure(q["log_loss"]),
                f"{figure(p['log_loss'])} without the graph" if p else "",
            )
        )
    elif known.held is not None:
        items.append(
            (
                "R²",
                _three_digits(q["r2"]),
                f"{_three_digits(p['r2'])} without the graph" if p else "",
            )
        )
        items.append(
            ("RMSE", figure(q["rmse"]), f"{figure(p['rmse'])} without the graph" if p else "")
        )
    n_nodes, n_labels = len(model.scores_), model.state_.labels.nodes.size
    items.append(("Rows", f"{n_nodes:,}", f"{n_labels:,} of them labelled"))
    if model.graph_ is not None:
        pieces = model.graph_.n_components
        items.append(
            (
                "Edges",
                f"{model.graph_.n_edges:,}",
                f"in {pieces:,} connected piece{'s' * (pieces != 1)}",
            )
        )
    items.append(("Rounds", f"{model.n_iter_:,}", str(model.stop_reason_)))
    body = "".join(
        f"<div><dt>{escape(name)}</dt><dd><strong>{escape(value)}</strong><span>{escape(note)}</span></dd></div>"
        for name, value, note in items
    )
    return f'<dl class="tiles">{body}</dl>'


# ---------------------------------------------------------------------- quality


def quality(known: Known) -> str:
    """Measures at held-out nodes, with and without the graph, beside a constant."""
    model, held, q, p = known.model, known.held, known.quality, known.plain_quality
    if held is None:
        errors = getattr(model, "conformity_scores_", np.zeros(0))
        if not errors.size:
            return told(NO_HELD_OUT)
        return paragraph(
            f"No node was held out for good, but each of {errors.size} labels was predicted once without it: half of the "
            f"predictions are within {number(float(np.median(errors)))} of the truth, nine tenths within "
            f"{number(float(np.quantile(errors, 0.9)))}."
        )
    if known.classes:
        head = ["", "accuracy", "log-loss"]
        rows = [["This model", percent(q["accuracy"], 1), figure(q["log_loss"])]]
        if p:
            rows.append(
                ["The same trees, no graph", percent(p["accuracy"], 1), figure(p["log_loss"])]
            )
        usual = float(one_hot(diagnosis.training_labels(model).target).sum(axis=0).argmax())
        rows.append(
            ["Always the commonest class", percent(float((held.truth == usual).mean()), 1), "–"]
        )
    else:
        head = ["", "RMSE", "mean |error|", "median |error|", "R²"]
        rows = [["This model", *_errors(q)]]
        if p:
            rows.append(["The same trees, no graph", *_errors(p)])
        level = np.full(held.nodes.size, diagnosis.training_labels(model).target.mean())
        rows.append(
            ["Always the mean", *_errors(diagnosis.quality(HeldOut(held.nodes, held.truth, level)))]
        )
    note = (
        f"Measured at {held.nodes.size:,} nodes whose labels were not trained on. They also chose the settings and the "
        "round to stop at, so expect slightly less on rows nobody has looked at."
    )
    return table(head, rows, "Quality at held-out nodes", kind="figures") + paragraph(note)


def _errors(q: dict[str, float]) -> list[str]:
    return [figure(q["rmse"]), figure(q["mae"]), figure(q["median"]), _three_digits(q["r2"])]


def _three_digits(r2: float) -> str:
    """R² as usually written; none where all labels are the same."""
    return "–" if np.isnan(r2) else f"{r2:.3f}".replace("-0.000", "0.000").replace("-", "−")


def predicted_against_true(known: Known) -> str:
    """A cloud around the diagonal, or how often each class is taken for another."""
    held = known.held
    if held is None:
        return told(NO_HELD_OUT)
    if known.classes:
        return _confusion(known, held)
    both = np.concatenate([held.truth, held.prediction])
    low, high = float(both.min()), float(both.max())
    pad = 0.03 * ((high - low) or 1.0)
    x, y = (Axis(low - pad, high + pad, title) for title in ("predicted", "true"))
    shown = np.random.default_rng(0).permutation(held.nodes.size)[:MOST_DOTS]
    ends = np.array([x.low, x.high])
    body = dots(x, y, held.prediction[shown], held.truth[shown], "cloud") + line(
        x, y, ends, ends, "guide"
    )
    label = f"Predicted against true values at {shown.size} held-out nodes; R² {_three_digits(known.quality['r2'])}."
    rows = []
    for part in np.array_split(np.argsort(held.prediction, kind="stable"), min(5, held.nodes.size)):
        predicted, truth = held.prediction[part], held.truth[part]
        rows.append(
            [
                f"{number(float(predicted.min()))} to {number(float(predicted.max()))}",
                f"{part.size:,}",
                number(float(truth.mean())),
                number(float((truth - predicted).mean())),
                figure(float(np.sqrt(((truth - predicted) ** 2).mean()))),
            ]
        )
    head = ["predicted", "nodes", "mean truth", "mean residual", "RMSE"]
    return chart(body, x, y, label, square=True) + folded(
        table(head, rows, "By fifths of the prediction", kind="figures")
    )


def _confusion(known: Known, held: HeldOut) -> str:
    names = [clipped(name) for name in known.model.classes_.tolist()]
    counts = np.zeros((len(names), len(names)))
    np.add.at(counts, (held.truth.astype(int), held.prediction.astype(int)), 1)
    often = np.argsort(-counts.sum(axis=1), kind="stable")[:MOST_CLASSES]
    head = "".join(f'<th scope="col">{escape(names[c])}</th>' for c in often)
    body = ""
    for true in often:
        total = counts[true].sum()
        cells = ""
        for predicted in often:
            share = counts[true, predicted] / total if total else 0.0
            kind = "right" if true == predicted else "wrong"
            written = f"{100 * share:.0f}" if counts[true, predicted] else "·"
            cells += f'<td class="{kind}" style="--share:{share:.2f}">{written}</td>'
        body += f'<tr><th scope="row">{escape(names[true])} <small>({int(total):,})</small></th>{cells}</tr>'
    rest = (
        f" The {MOST_CLASSES} commonest of {len(names)} classes."
        if len(names) > MOST_CLASSES
        else ""
    )
    caption = f"Of each true class (row), percent predicted as each class (column), at held-out nodes.{rest}"
    return (
        f'{paragraph(caption)}<div class="scroll" tabindex="0" role="region" aria-label="Confusion of classes">'
        f'<table class="confusion"><caption class="hidden">Confusion of classes</caption>'
        f'<thead><tr><th scope="col">true \\ predicted</th>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def losses(known: Known) -> str:
    """Loss by round."""
    history = known.model.history_
    training, validation = (
        np.asarray(history.get(name, []), dtype=np.float64) for name in ("training", "validation")
    )
    if not training.size:
        return told("This fit kept no losses: it had no rounds.")
    every = np.concatenate([training, validation])
    every = every[np.isfinite(every)]
    # The first rounds fall furthest; a logarithm keeps the last ones legible where losses have a natural zero.
    positive = bool(every.size and every.min() > 0)
    low, high = (float(every.min()), float(every.max())) if every.size else (0.0, 1.0)
    logarithmic = positive and high / low > 5

    def scaled(values: Array) -> Array:
        return np.log10(values) if logarithmic else values

    first, last = scaled(np.array([low, high])).tolist()
    pad = 0.05 * ((last - first) or 1.0)
    if logarithmic:
        marks = [
            m * 10.0**e
            for e in range(int(np.floor(first)) - 1, int(np.ceil(last)) + 1)
            for m in (1, 2, 5)
        ]
        ticks = tuple(float(np.log10(m)) for m in marks if first - pad <= np.log10(m) <= last + pad)
        y = Axis(first - pad, last + pad, "loss, logarithmic", ticks, lambda t: number(10.0**t))
    else:
        y = Axis(first - pad, last + pad, "mean loss")
    last_round = float(max(training.size, 2))
    x = Axis(
        1.0,
        last_round,
        "round",
        tuple(tick for tick in round_ticks(1.0, last_round) if tick == int(tick)),
    )
    rounds = np.arange(1.0, training.size + 1)
    body = line(x, y, rounds, scaled(training), "first")
    legend = '<span class="key first">training</span>'
    label = f"Training loss over {training.size} rounds, from {number(training[0])} to {number(training[-1])}."
    if validation.size:
        body += line(x, y, rounds[: validation.size], scaled(validation), "second")
        kept = float(known.model.n_iter_)
        body += f'<path class="line guide" d="M{1000 * float(x.place(kept)):.1f} 0V1000"/>'
        legend += (
            '<span class="key second">held-out</span><span class="key guide">round kept</span>'
        )
        label += f" Held-out loss from {number(validation[0])} to {number(validation[-1])}, best at {known.model.n_iter_}."
    picked = np.unique(np.linspace(0, training.size - 1, min(training.size, 10)).astype(int))
    rows = [
        [str(r + 1), figure(training[r]), figure(validation[r]) if r < validation.size else "–"]
        for r in picked.tolist()
    ]
    numbers = folded(
        table(["round", "training", "held-out"], rows, "Loss by round", kind="figures")
    )
    return f'<p class="legend">{legend}</p>{chart(body, x, y, label)}{numbers}'


# ---------------------------------------------------------------------- the graph


def graph_effect(known: Known) -> str:
    """Where the graph helped and hurt, by groups of held-out nodes."""
    model, held, plain = known.model, known.held, known.plain
    if model.graph_ is None:
        return told("This model was fitted without a graph: pass graph= to fit.")
    if not diagnosis.uses_graph(model):
        return told(
            "The model does not use its graph: in the race on held-out nodes it was of no help."
        )
    if held is None:
        return told(NO_HELD_OUT)
    if plain is None:
        return told(
            "To compare, the same trees are fitted without the graph, and that takes the table: save the model with "
            "model.save(path, table=True), or pass X to write_report."
        )
    better, worse = (
        float((sign * (np.abs(plain.residual) - np.abs(held.residual)) > 0).mean())
        for sign in (1, -1)
    )
    name = "mistakes" if known.classes else "mean squared error"
    rows = []
    groups = [
        (group, float(plain.cost[mask].mean()), float(held.cost[mask].mean()), int(mask.sum()))
        for group, mask in _groups(known, held)
    ]
    changes = [after / before - 1 if before > 0 else 0.0 for _, before, after, _ in groups]
    largest = max(0.1, *(abs(change) for change in changes))
    for (group, before, after, size), change in zip(groups, changes, strict=True):
        figures = (
            [percent(before), percent(after)] if known.classes else [figure(before), figure(after)]
        )
        rows.append(
            [group, f"{size:,}", *figures, _signed_percent(change), two_way_bar(change / largest)]
        )
    head = ["", "nodes", "without", "with graph", "change", "better ◂ ▸ worse"]
    return paragraph(
        f"The same trees were fitted without the graph on the same labels. The graph brought {percent(better)} of the "
        f"held-out nodes closer to the truth and {percent(worse)} further away. By group, {name}:"
    ) + table(
        head, rows, f"Change of the {name} by group of held-out nodes", kind="figures effect", raw=5
    )


def _groups(known: Known, held: HeldOut) -> list[tuple[str, NDArray[np.bool_]]]:
    """Held-out nodes by their ties, by the labels around them, by what was predicted and by the leading column."""
    graph, everyone = known.model.graph_, np.ones(held.nodes.size, dtype=bool)
    ties = np.diff(graph.adjacency.indptr)[held.nodes]
    labelled = np.zeros(graph.n_nodes)
    labelled[known.model.state_.labels.nodes] = 1.0
    labelled[held.nodes] = 0.0
    links = graph.unsigned.adjacency
    around = np.asarray((links != 0).astype(np.float64) @ labelled)[held.nodes]
    groups = [("All held-out nodes", everyone), ("No neighbour", ties == 0)]
    ends: list[int] = (
        np.unique(np.quantile(ties[ties > 0], [0, 1 / 3, 2 / 3, 1]).astype(int)).tolist()
        if ties.any()
        else []
    )
    for low, high in pairwise(ends):
        first = low if low == ends[0] else low + 1
        text = (
            f"{first}" if first == high else f"{first} {'or' if high == first + 1 else 'to'} {high}"
        )
        groups.append((f"{text} neighbour{'s' * (text != '1')}", (ties >= first) & (ties <= high)))
    groups.append(("No labelled neighbour", (around == 0) & (ties > 0)))
    groups.append(("1 or 2 labelled neighbours", (around >= 1) & (around <= 2)))
    groups.append(("3 or more labelled neighbours", around >= 3))
    if known.classes:
        for c in np.argsort(-np.bincount(held.truth.astype(int)), kind="stable")[:4]:
            groups.append((f"True class {clipped(known.model.classes_[c])}", held.truth == c))
    else:
        for text, part in zip(
            ("Lowest third of predictions", "Middle third", "Highest third"),
            _thirds(held.prediction),
            strict=True,
        ):
            groups.append((text, part))
    groups += _by_leading_column(known, held)
    return [(name, mask) for name, mask in groups if mask.sum() >= LEAST_IN_A_GROUP or mask.all()]


def _by_leading_column(known: Known, held: HeldOut) -> list[tuple[str, NDArray[np.bool_]]]:
    """Held-out nodes by the column that the trees use most: its commonest categories, or thirds of its values."""
    if known.table is None or known.table.is_sparse:
        return []
    column = int(np.argmax(known.model.feature_importances_))
    name, values = clipped(known.table.names[column]), known.table.values[held.nodes, column]
    categories = known.model.state_.reader.categories.get(column)
    if categories is not None:
        often = np.argsort(-np.bincount(values[~np.isnan(values)].astype(int)), kind="stable")[
            :3
        ].tolist()
        return [(f"{name} is {clipped(categories[code])}", values == code) for code in often]
    if np.isnan(values).all():
        return []
    low, high = (float(end) for end in np.nanquantile(values, [1 / 3, 2 / 3]))
    if not low < high:
        return []
    return [
        (f"{name} up to {number(low)}", values <= low),
        (f"{name} from {number(low)} to {number(high)}", (values > low) & (values <= high)),
        (f"{name} above {number(high)}", values > high),
    ]


def _thirds(values: Array) -> list[NDArray[np.bool_]]:
    place = np.argsort(np.argsort(values, kind="stable"), kind="stable") * 3 // max(values.size, 1)
    return [place == third for third in range(3)]


def residuals_note(known: Known, mapped: dict[str, Any] | None) -> str:
    """What the map shows, and whether errors of neighbours are alike."""
    sentences = []
    if mapped is None:
        return told(
            "There is no graph and no pair of columns named like places (x and y, lon and lat): nothing to draw."
        )
    if mapped["from"]:
        sentences.append(f"Nodes are placed by the columns {mapped['from']}.")
    else:
        sentences.append(
            "The table has no places, so nodes are laid out by the graph: near means few steps apart."
        )
    if mapped["n"] < mapped["of"]:
        sentences.append(f"Shown are {mapped['n']:,} of {mapped['of']:,} nodes.")
    if known.held is not None:
        alike = diagnosis.errors_alike(known.model, known.held)
        if alike is not None:
            judged = (
                "little is left"
                if alike < 0.1
                else "something is left"
                if alike < 0.2
                else "much is left"
            )
            sentences.append(
                f"The correlation of errors between neighbours is {alike:.2f}: {judged} in the graph to be learned."
            )
    return paragraph(" ".join(sentences))


# ---------------------------------------------------------------------- columns, intervals, settings


def columns(known: Known) -> str:
    """The most influential columns."""
    ranked = diagnosis.importances(known.model)
    largest = max(ranked[0][1], 1e-12) if ranked else 1.0
    if not ranked or ranked[0][1] <= 0:
        return told(
            "The trees never split on a column, or this learner does not say which columns it used."
        )
    rows = [
        [clipped(name), percent(share), bar(share / largest)]
        for name, share in ranked[:MOST_COLUMNS]
    ]
    rest = ranked[MOST_COLUMNS:]
    if rest:
        share = sum(share for _, share in rest)
        rows.append([f"{len(rest):,} others", percent(share), bar(share / largest, "rest")])
    note = "Share of each column in the gain of the trees, what the graph made of it included (means over neighbours, …)."
    return paragraph(note) + table(
        ["column", "share", ""], rows, "Most influential columns", kind="bars", raw=2
    )


def intervals(known: Known) -> str:
    """Whether intervals hold what they promise; for classes, probabilities."""
    held = known.held
    if known.classes:
        return told(NO_HELD_OUT) if held is None else _calibration(known, held)
    note = "It predicts a quantile, so the truth lies mostly to one side of it." * isinstance(
        known.model.loss_, Quantile
    )
    if held is None or held.nodes.size < 20:
        return told(
            "Coverage takes at least 20 held-out nodes. " + (NO_HELD_OUT if held is None else "")
        )
    found = diagnosis.coverage(held)
    x = Axis(0.45, 1.0, "stated", (0.5, 0.6, 0.7, 0.8, 0.9, 1.0), percent)
    y = Axis(
        min(0.45, float(found.share.min()) - 0.02),
        1.0,
        "observed",
        (0.5, 0.6, 0.7, 0.8, 0.9, 1.0),
        percent,
    )
    levels, ends = np.asarray(found.levels), np.array([x.low, x.high])
    body = line(x, y, ends, ends, "guide") + line(x, y, levels, found.share, "first")
    body += dots(x, y, levels, found.share, "big", alone=True)
    at = dict(zip(found.levels, found.share.tolist(), strict=True))
    label = f"Stated against observed coverage: of intervals stated to hold 90 %, {percent(at[0.9])} did."
    rows = [
        [percent(level), percent(share), f"± {figure(width)}"]
        for level, share, width in zip(
            found.levels, found.share.tolist(), found.width.tolist(), strict=True
        )
    ]
    groups = [
        [
            name,
            f"{int(mask.sum()):,}",
            percent(float(found.inside[mask].mean())),
            bar(float(found.inside[mask].mean())),
        ]
        for name, mask in (
            _groups(known, held) if known.model.graph_ is not None else _plain_groups(held)
        )
    ]
    return (
        paragraph(
            "predict(interval=0.9) gives intervals as wide as the errors at held-out nodes. Checked in halves: widths from "
            f"one half, counted in the other. Of intervals that state 90 %, {percent(at[0.9])} hold the truth. {note}"
        )
        + chart(body, x, y, label)
        + folded(table(["stated", "observed", "width"], rows, "Coverage by level", kind="figures"))
        + folded(
            table(
                ["", "nodes", "held at 90 %", ""], groups, "Coverage by group", kind="bars", raw=3
            ),
            "Intervals are equally wide everywhere: who is held less often?",
        )
    )


def _plain_groups(held: HeldOut) -> list[tuple[str, NDArray[np.bool_]]]:
    names = ("Lowest third of predictions", "Middle third", "Highest third")
    return [
        (name, mask)
        for name, mask in zip(names, _thirds(held.prediction), strict=True)
        if mask.any()
    ]


def _calibration(known: Known, held: HeldOut) -> str:
    said, seen, count = diagnosis.calibration(held)
    x, y = (
        Axis(0.0, 1.0, title, (0.0, 0.25, 0.5, 0.75, 1.0), percent) for title in ("stated", "right")
    )
    ends = np.array([0.0, 1.0])
    body = (
        line(x, y, ends, ends, "guide")
        + line(x, y, said, seen, "first")
        + dots(x, y, said, seen, "big", alone=True)
    )
    error = known.model.calibration_error_
    text = (
        f"Stated probabilities are off by {percent(error)} on average." if error is not None else ""
    )
    rows = [
        [percent(s), percent(r), f"{n:,}"]
        for s, r, n in zip(said.tolist(), seen.tolist(), count.tolist(), strict=True)
    ]
    return (
        paragraph(
            "How often the predicted class is right, against the probability stated for it, at held-out nodes. "
            f"{text} The same nodes chose the temperature, which flatters a little."
        )
        + chart(body, x, y, f"Stated probability against share of right predictions. {text}")
        + folded(table(["stated", "right", "nodes"], rows, "Calibration", kind="figures"))
    )


RACERS = {
    "none": "Without the graph",
    "graph": "Smoothing, neighbours' labels and columns",
    "features": "Neighbours' columns only",
    "as given": "The parts as given",
}


def settings(known: Known) -> str:
    """What was chosen, and why."""
    model, parts = known.model, ""
    if model.selection_:
        largest = max(model.selection_.values())
        zero = (
            min(model.selection_.values()) < 0 or largest == 0
        )  # without a natural zero, lengths say nothing
        rows = [
            [
                f"{RACERS.get(name, name)}{' (chosen)' * (name == model.best_candidate_)}",
                figure(loss),
                bar(
                    0.0 if zero else loss / largest,
                    "win" if name == model.best_candidate_ else "plain",
                ),
            ]
            for name, loss in sorted(model.selection_.items(), key=lambda pair: pair[1])
        ]
        parts += paragraph(
            "A few ways of using the graph ran a short race; the one with the least held-out loss was trained to the end. "
            "One that uses the graph must win by more than a standard error and half a percent."
        )
        parts += table(["entrant", "held-out loss", ""], rows, "The race", kind="bars", raw=2)
    else:
        parts += paragraph(
            "There was no race: the settings were given, or there was nothing to compare on."
        )
    parts += f"<h3>In the model's own words</h3><pre>{escape(model.summary())}</pre>"
    defaults = type(model)().get_params(deep=False)
    changed = {
        name: value
        for name, value in model.get_params(deep=False).items()
        if repr(value) != repr(defaults.get(name))
    }
    if changed:
        rows = [[name, repr(value), repr(defaults.get(name))] for name, value in changed.items()]
        parts += folded(
            table(["parameter", "value", "default"], rows, "Parameters set by hand"),
            "Parameters set by hand",
        )
    return parts
