"""The text of ``model.summary()``."""

import numpy as np

from ebboost.field import LatentField, at
from ebboost.formatting import figure
from ebboost.intervals import dispersion_of, field_of, field_variance, half_widths
from ebboost.model import Gain, Model, in_metric, metric_of

MOST_ESTIMATED = 2_000  # labels of which the summary has standard errors, within a second
HARM = 2.0  # standard errors by which the graph must raise the error for a warning


def summarize(model: Model) -> str:
    """Describe a fitted model in short lines: its members, errors, field and intervals."""
    rounds = [count for one in model.components for count in one.rounds]
    models = f"{rounds[0]:,} rounds"
    if len(rounds) > 1:
        models = f"{len(rounds)} models with {min(rounds):,} to {max(rounds):,} rounds"
    rows = [("", f"{model.estimator}: {models}"), ("ended", model.stop_reason)]
    gain = model.gain
    if gain is not None and is_harm(gain):
        rows.insert(0, ("warning", f"the graph does harm: {gain_text(gain)}"))
    if model.places is None:
        rows.append(("graph", "none given"))
    elif not model.uses_graph:
        rows.append(("graph", "not used: members without it are as good"))
    if gain is not None:
        rows.append(("error", gain_text(gain)))
    if len(model.selection) > 1:
        metric = metric_of(model.output.loss)
        rows.append(("members", f"weight, and {metric} at labels that were not trained on:"))
        for row in sorted(model.selection, key=lambda row: -row["weight"]):
            error = in_metric(model.output.loss, row["loss"])
            text = f"{row['weight']:<8.3f}{figure(error):<10}{row['member']}"
            rows.append(("", f"{'':12}{text}"))
    if (distance := distance_text(model)) is not None:
        rows.append(("distances", distance))
    rows += _field_rows(model)
    if model.unseen.rows.size <= MOST_ESTIMATED:  # ``estimates_`` has them of more
        from ebboost.uncertainty import estimates_text

        rows += [("estimates", text) for text in estimates_text(model)]
    rows += _interval_rows(model)
    return "\n".join(f"{name:<12}{text}" if name else text for name, text in rows)


def distance_text(model: Model) -> str | None:
    """Return how far rows to predict are from labels, where that changed the folds."""
    one = model.separation
    if one is None or not one.is_matched:
        return None
    means = (one.to_predict, one.at_random, one.held_out)
    far, near, held_out = (f"{mean:.3g} {one.unit}".strip() for mean in means)
    text = f"labels held out at random are {near} from the nearest one"
    if one.to_predict:
        text = f"rows to predict are {far} from the nearest label, labels held out at random {near}"
    return f"{text} (means): blocks of labels were held out, {held_out} from the others"


def is_harm(gain: Gain) -> bool:
    """Return whether the graph raises the error by more than chance explains."""
    return gain.with_graph - gain.without > HARM * gain.standard_error


def gain_text(gain: Gain) -> str:
    """Return the error without and with the graph, and the difference with its standard error."""
    without, with_graph = figure(gain.without), figure(gain.with_graph)
    levels = f"{gain.metric} {without} without the graph, {with_graph} with it"
    if gain.with_graph == gain.without or not gain.without:
        return levels
    error = 100.0 * gain.standard_error / abs(gain.without)
    return f"{levels}: {-100.0 * gain.relative:+.1f} ± {error:.1f} %"


def field_range(field: LatentField) -> float:
    """Return the range of the field in edges: where its correlation has fallen to 1/e.

    Exact on a path, where the correlation of nodes h edges apart is e^(−κh), cosh κ = 1 + τ/λ.
    """
    return float(1.0 / np.arccosh(1.0 + field.tau / field.lam)) if field.lam else 0.0


def group_rows(model: Model) -> list[tuple[str, str]]:
    """Return a row for each of several groups, with the variance of its effects on the scores.

    That is the mean over levels of the squared effect and of its posterior variance.
    """
    own = field_of(model)
    parts = [one.weight * (one.field is not None and one.loss is None) for one in model.components]
    z = model.fields[int(np.argmax(parts))]
    if model.places is None or own is None or z is None or not any(parts):
        return []
    labels, loss, graph = model.labels, model.output.loss, model.places.graph
    if model.spread is None:
        variance = field_variance(model, own, labels)
        of_labels = at(variance, model.places.node_of_row[labels.rows])
        dispersion = dispersion_of(loss, model.raw[labels.rows], labels, of_labels)
    else:
        variance, dispersion = model.spread.variance, model.spread.dispersion
    squares = (z**2).mean(axis=1) + dispersion * variance
    rows, start = [], 0
    for name, size in model.places.groups.items():
        level = slice(start, start + size)
        text = f"{name}: variance {figure(float(squares[level].mean()))}, {size:,} levels"
        if n_edges := graph.adjacency[level].nnz // 2:
            text += f", {n_edges:,} edges"
        rows.append(("" if start else "groups", f"{' ' * 12 if start else ''}{text}"))
        start += size
    return rows


def _field_rows(model: Model) -> list[tuple[str, str]]:
    processes = [one.process for one in model.components if one.process is not None]
    if processes:
        return [("field", "a Gaussian process of the coordinates, given the nearest labels")]
    fields = [one.field for one in model.components if one.field is not None]
    if not fields:
        return []
    if model.places is not None and model.places.groups:
        return group_rows(model)
    distance = f"labels inform rows up to about {field_range(fields[-1]):.3g} edges away"
    return [("field", f"{distance}, also those of predict(new_labels=...)")]


def _interval_rows(model: Model) -> list[tuple[str, str]]:
    if model.output.is_classifier:
        return []
    if model.spread is None:
        return [("intervals", "none: every label was trained on")]
    widths, rows = half_widths(model, 0.9)
    if not np.isfinite(widths).all():
        return [("intervals", "none of 90 %: too few labels that were not trained on")]
    low, middle, high = (figure(float(one)) for one in np.quantile(widths, [0.1, 0.5, 0.9]))
    text = f"90 % within ±{middle} for half of {rows} ({low} to {high} for most)"
    return [("intervals", text)]
