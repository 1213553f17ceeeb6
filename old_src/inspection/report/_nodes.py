"""Data of single nodes for the page: a map of many, explanations of some."""

import base64
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebboost.boosting.masked_labels import MaskedLabels
from ebboost.data.types import Array
from ebboost.inspection import diagnostics
from ebboost.inspection.diagnostics import Validation
from ebboost.inspection.formatting import date, number, percent, shorten
from ebboost.inspection.layout import layout
from ebboost.inspection.report._context import NO_TABLE, Context
from ebboost.model.explain import CAUSAL, ENCODED, Explanation, explain
from ebboost.model.predict import with_labels
from ebboost.model.spread import variance_columns
from ebboost.model.state import FittedState

Nodes = NDArray[np.int64]
Json = dict[str, Any]
MAX_NODES = 30_000  # on the map; positions take two bytes
MAX_EDGES = 45_000
MAX_LAYOUT = 150_000
MAX_EXPLAINED = 250  # an explanation solves a system on the graph: fewer of a large one
MIN_EXPLAINED = 30
LARGE_GRAPH = 50_000
MAX_PARTS = 8
MISSING = 255
LABELLED = 0
VALIDATION = 1
UNKNOWN = 2
ROLES = ["labelled", "validation", "label unknown"]


def node_roles(state: FittedState) -> NDArray[np.uint8]:
    """Whether the label of each node was trained on, used for validation alone, or is unknown.

    Of several models, each label is trained on by all but one.
    """
    roles = np.full(state.n_nodes, UNKNOWN, dtype=np.uint8)
    roles[state.validation.nodes] = VALIDATION
    roles[state.training_labels.nodes] = LABELLED
    return roles


def node_map(context: Context, explained: Nodes) -> Json | None:
    """Positions, colors and edges of the map; None without coordinates and without edges."""
    state = context.state
    graph = state.graph
    located = diagnostics.coordinates(context.table, state.coordinates)
    if located is not None:
        points = located[0]
    elif graph is not None and graph.n_edges and state.n_nodes <= MAX_LAYOUT:
        points = layout(graph.adjacency)
    else:
        return None
    shown = np.arange(state.n_nodes)
    if shown.size > MAX_NODES:  # explained nodes, then held-out labels, then others
        order = np.random.default_rng(0).permutation(state.n_nodes)
        is_held_out = np.isin(order, state.validation.nodes)
        rank = np.where(np.isin(order, explained), 0, np.where(is_held_out, 1, 2))
        shown = np.sort(order[np.argsort(rank, kind="stable")][:MAX_NODES])
    edges = np.zeros((0, 2), dtype=np.int64)
    if graph is not None:
        links = graph.adjacency[shown][:, shown]
        source = np.repeat(np.arange(shown.size), np.diff(links.indptr))
        edges = np.column_stack([source, links.indices])[source < links.indices]
    n_edges = len(edges)
    if n_edges > MAX_EDGES:
        edges = edges[:0]
    layers = _layers(context)
    points = points[shown] - points[shown].min(axis=0)
    extent = float(points.max()) or 1.0
    breadth, height = (points.max(axis=0) / extent).tolist()
    return {
        "n": int(shown.size),
        "source": None if located is None else located[1],
        "breadth": breadth,
        "aspect": height,
        "xy": _packed(np.rint(65535 * points / extent).astype("<u2")),
        "edges": _packed(edges.astype("<u2")),
        "nodes": "" if shown.size == state.n_nodes else _packed(shown.astype("<u4")),
        "layers": [layer | {"values": _packed(layer["values"][shown])} for layer in layers],
        "hidden_edges": n_edges if n_edges > MAX_EDGES else 0,
    }


def _packed(values: NDArray[Any]) -> str:
    return base64.b64encode(np.ascontiguousarray(values).tobytes()).decode()


def _layer(
    name: str, note: str, values: Array, limits: tuple[float, float], scale: str, ends: list[str]
) -> Json:
    """A coloring of the map: one byte per node, 255 where the value is missing."""
    low, high = limits
    steps = np.clip(np.rint(254 * (values - low) / ((high - low) or 1.0)), 0, 254)
    bytes_ = np.where(np.isfinite(values), steps, MISSING).astype(np.uint8)
    return {"name": name, "note": note, "scale": scale, "ends": ends, "values": bytes_}


def _layers(context: Context) -> list[Json]:
    """The colorings of the map."""
    state = context.state
    layers = []
    if context.classes is None:
        predicted = state.output.decode(state.raw_predictions)
        low, high = (float(q) for q in np.quantile(predicted, [0.01, 0.99]))
        note = "Predictions with all known labels."
        ends = [number(low, 3), number(high, 3)]
        prediction = _layer("Prediction", note, predicted, (low, high), "sequential", ends)
        if state.spread is not None:
            deviation = np.sqrt(variance_columns(state, None)["variance"])
            low, high = (float(q) for q in np.quantile(deviation, [0.01, 0.99]))
            note = "Standard deviation of the label: noise, latent field and columns."
            ends = [number(low, 3), number(high, 3)]
            layer = ("Uncertainty", note, deviation, (low, high), "sequential", ends)
            layers.append(_layer(*layer))
        layers.append(prediction)
    else:
        probabilities = state.output.apply_link(state.raw_predictions)
        unsure = 1.0 - probabilities.max(axis=1)
        high = float(unsure.max())
        note = "Probability that the class is another than the predicted one."
        layer = ("Uncertainty", note, unsure, (0.0, high), "sequential", ["0", number(high, 3)])
        layers.append(_layer(*layer))
        names = [shorten(name) for name in context.classes.tolist()]
        if len(names) > 8:
            names = [*names[:7], "other classes"]
        index = np.minimum(probabilities.argmax(axis=1), len(names) - 1).astype(float)
        layers.append(_layer("Predicted class", "", index, (0.0, 254.0), "classes", names))
    if context.held_out is not None:
        layers += _validation_layers(context, context.held_out)
    roles = node_roles(state).astype(np.float64)
    layers.append(_layer("Use of labels", "", roles, (0.0, 254.0), "classes", ROLES))
    return layers


def _validation_layers(context: Context, held_out: Validation) -> list[Json]:
    """Residuals at held-out labels, and how the graph changed their size."""

    def layer(
        name: str, note: str, values: Array, low: float, scale: str, ends: list[str], nodes: Nodes
    ) -> Json:
        everywhere = np.full(context.state.n_nodes, np.nan)
        everywhere[nodes] = values
        note = f"{note} at held-out labels; the other nodes are grey."
        return _layer(name, note, everywhere, (low, abs(low) or 1.0), scale, ends)

    limit = float(np.quantile(np.abs(held_out.residual), 0.95)) or 1.0
    if context.classes is None:
        ends = [f"-{number(limit, 3)} or less", f"+{number(limit, 3)} or more"]
        note = "Label minus prediction"
        values = (held_out.residual, -limit, "diverging", ends, held_out.nodes)
        layers = [layer("Residual", note, *values)]
    else:
        note = "1 minus the probability of the true class"
        ends = ["right with probability 1", "wrong with probability 1"]
        values = (held_out.residual, 0.0, "rising", ends, held_out.nodes)
        layers = [layer("Error", note, *values)]
    if context.plain is not None:
        change = _error_change(context)
        limit = float(np.quantile(np.abs(change), 0.95)) or 1.0
        note = "Change of the absolute error by the graph"
        values = (change, -limit, "diverging", ["graph helped", "graph hurt"], context.plain.nodes)
        layers.append(layer("Effect of the graph", note, *values))
    return layers


def _error_change(context: Context) -> Array:
    """Change of the absolute error by the graph, at the nodes that were compared."""
    assert context.plain is not None and context.compared is not None
    change: Array = np.abs(context.compared.residual) - np.abs(context.plain.residual)
    return change


def nodes_to_explain(context: Context, of_user: Nodes, seed: int = 0) -> dict[str, list[int]]:
    """Nodes by the reason to explain them, each node once; those of the user come first."""
    state = context.state
    rng = np.random.default_rng(seed)
    groups: dict[str, list[int]] = {}
    chosen: set[int] = set()
    limit = MAX_EXPLAINED * LARGE_GRAPH // state.n_nodes
    limit = max(MIN_EXPLAINED, min(MAX_EXPLAINED, limit))

    def add(name: str, nodes: Nodes, share: float) -> None:
        new = [node for node in nodes[:2000].tolist() if node not in chosen]
        new = new[: round(share * limit)]
        chosen.update(new)
        if new:
            groups[name] = new

    def ranked(values: Array) -> Nodes:
        return np.argsort(values, kind="stable")

    if of_user.size:
        groups["Your nodes"] = list(dict.fromkeys(of_user.tolist()))
        chosen.update(groups["Your nodes"])
    held_out = context.held_out
    if held_out is not None:
        add("Largest errors", held_out.nodes[ranked(-np.abs(held_out.residual))], 0.2)
        if context.plain is not None:
            change = _error_change(context)
            add("Graph helped most", context.plain.nodes[ranked(change)], 0.1)
            add("Graph hurt most", context.plain.nodes[ranked(-change)], 0.1)
        add("Held-out labels at random", rng.permutation(held_out.nodes), 0.2)
    if state.uses_graph:
        own = [one.to_raw(one.fixed_scores + one.scores) for one in state.candidates]
        moved = np.abs(state.raw_predictions - np.mean(own, axis=0)).max(axis=1)
        add("Moved most by the graph", ranked(-moved), 0.2)
    unknown = np.flatnonzero(node_roles(state) == UNKNOWN)
    add("Unknown labels at random", rng.permutation(unknown), 0.2)
    if len(chosen) < MIN_EXPLAINED // 2:
        add("At random", rng.permutation(state.n_nodes), 0.2)
    return groups


def explanations(context: Context, groups: Mapping[str, list[int]]) -> Json | str:
    """Explanations of nodes for the inspector, or why there are none."""
    state = context.state
    if context.table is None:
        return NO_TABLE
    if isinstance(state.candidate.labels, MaskedLabels):
        return (
            "With labels='masked' a score is not a sum of contributions: fit with labels='field'."
        )
    if state.is_causal:
        return CAUSAL
    if state.pipeline.encoder is not None and state.encoded_table is None:
        return ENCODED
    nodes = np.asarray([node for group in groups.values() for node in group], dtype=np.int64)
    is_validation = node_roles(state)[nodes] == VALIDATION
    # Validation nodes are explained as they were predicted, without their labels.
    before = with_labels(state, state.training_labels)
    entries: dict[int, Json] = {}
    for source, subset in ((before, nodes[is_validation]), (state, nodes[~is_validation])):
        for part in explain(source, subset, context.table) if subset.size else []:
            entries[part.node] = _entry(context, source, part)
    return {
        "groups": [[name, [entries[n] for n in group]] for name, group in groups.items()],
        "classifier": state.is_classifier,
        "scale": _scale(state),
    }


def _scale(state: FittedState) -> str:
    """Unit of the scores, where it is not that of the labels."""
    if state.is_classifier:
        return "log-odds" if state.n_outputs == 1 else "before the softmax"
    probe = np.array([[0.5], [2.0]])
    return "" if np.array_equal(state.loss.inverse_link(probe), probe) else "before the link"


def _known_label(context: Context, node: int) -> str:
    """The known label of a node as text, empty where it is unknown."""
    (index,) = np.nonzero(context.state.labels.nodes == node)
    if not index.size:
        return ""
    label = context.labels[index[0]]
    if context.classes is None:
        return number(float(label))
    return shorten(context.classes[int(label)])


def node_name(state: FittedState, node: int) -> str:
    """The id of a node, or its row."""
    if state.graph is not None and state.graph.has_ids:
        return shorten(state.graph.node_ids[node])
    return f"row {node}"


def _entry(context: Context, source: FittedState, part: Explanation) -> Json:
    """One node: totals of its contributions, and the largest ones."""
    state = context.state
    node = part.node
    own = dict(part.own)
    neighbors: dict[Any, float] = {**part.neighbors}
    if state.pipeline.low_rank is None:  # columns that the graph computed are those of neighbours
        names = context.table.names if context.table is not None else ()
        neighbors |= {name: own.pop(name) for name in part.own if name not in names}
    labels = {other: value for other, value in part.labels.items() if other != node}

    def name(key: str | int) -> str:
        return shorten(key) if isinstance(key, str) else node_name(state, key)

    raw = source.raw_predictions[node]
    entry = {
        "node": node,
        "name": node_name(state, node),
        "role": int(node_roles(state)[node]),
        "truth": _known_label(context, node) or None,
        "base": _exact(part.base),
        "offset": _exact(part.offset),
        "score": _exact(part.score),
        "own": _largest(own, name, lambda key: _cell(context, node, str(key))),
        "around": _largest(neighbors, name, lambda key: ""),
        "labels": _largest(labels, name, lambda key: _known_label(context, int(key))),
        "linked": _strongest(part),
        "own_label": _exact(part.labels.get(node, 0.0)),
        "totals": [_exact(sum(kind.values())) for kind in (own, neighbors, labels)],
        "n_neighbors": 0 if state.graph is None else int(state.graph.neighbors(node).size),
    }
    if context.classes is not None:
        probabilities = source.output.apply_link(raw[None, :])[0]
        best = int(probabilities.argmax())
        output = 1 if state.n_outputs == 1 else part.output
        entry["prediction"] = (
            f"{shorten(context.classes[best])} ({percent(float(probabilities[best]))})"
        )
        entry["explained"] = shorten(context.classes[output])
        return entry
    predicted = float(state.output.decode(raw[None, :])[0])
    entry["prediction"] = number(predicted)
    (index,) = np.nonzero(state.validation.nodes == node)
    if index.size:  # the prediction of a validation node is shown, that out of fold is not
        record = state.validation
        if entry["role"] != VALIDATION:
            predicted = float(state.output.decode(record.prediction[index])[0])
        entry["error"] = number(float(record.target[index[0], 0]) - predicted, 3)
    return entry


def _largest(
    parts: Mapping[Any, float], name: Callable[[Any], str], detail: Callable[[Any], str]
) -> list[Any]:
    """The largest contributions, the number of others, and their sum."""
    used = [part for part in parts.items() if part[1] != 0.0]
    ranked = sorted(used, key=lambda part: -abs(part[1]))
    rest = ranked[MAX_PARTS:]
    shown = [[name(key), _short(value), detail(key)] for key, value in ranked[:MAX_PARTS]]
    return [shown, len(rest), _short(sum(value for _, value in rest))]


def _strongest(part: Explanation) -> list[int]:
    """The nodes whose columns and labels contribute most, which the map connects with this one."""
    total = dict(part.neighbors)
    for other, value in part.labels.items():
        total[other] = total.get(other, 0.0) + value
    total.pop(part.node, None)
    return sorted(total, key=lambda other: -abs(total[other]))[: 2 * MAX_PARTS]


def _short(value: float) -> float:
    return float(f"{value:.5g}")


def _exact(value: float) -> float:
    """A part of a sum that is written to three digits of its largest part."""
    return float(f"{value:.12g}")


def _cell(context: Context, node: int, name: str) -> str:
    """The value of a column for a node, as the user wrote it."""
    table = context.table
    if table is None or name not in table.names:
        return ""
    column = table.names.index(name)
    value = float(table.values[node, column])
    if np.isnan(value):
        return "missing"
    categories = context.state.reader.categories.get(column)
    if categories is not None:
        return shorten(categories[int(value)])
    return date(value) if column in table.dates else number(value)
