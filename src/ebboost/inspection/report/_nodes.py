"""What the page keeps of single nodes: a map of many of them in a few bytes each, and some hundred explained in full."""

import base64
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier

from ebboost.boosting.masked_labels import MaskedLabels
from ebboost.data.table import Table
from ebboost.inspection import diagnostics as diagnosis
from ebboost.inspection.diagnostics import HeldOut
from ebboost.inspection.layout import layout
from ebboost.inspection.report._charts import clipped, number
from ebboost.model.explain import ENCODED, Explanation, explained_scores

Array = NDArray[np.float64]
ON_THE_MAP = 30_000
EDGES_ON_THE_MAP = 45_000
MOST_TO_LAY_OUT = 150_000
EXPLAINED, FEWEST_EXPLAINED, EXPLAINED_UP_TO = (
    250,
    30,
    50_000,
)  # taking a node apart costs a solve on the whole graph
LARGEST_PARTS = 8
MISSING = 255
TRAINED, HELD, UNKNOWN = 0, 1, 2


def _packed(values: NDArray[Any]) -> str:
    return base64.b64encode(np.ascontiguousarray(values).tobytes()).decode()


def _quantised(values: Array, low: float, high: float) -> NDArray[np.uint8]:
    """Values as one byte each; 255 is missing."""
    share = (values - low) / ((high - low) or 1.0)
    return np.where(np.isfinite(values), np.clip(np.rint(254 * share), 0, 254), MISSING).astype(
        np.uint8
    )


def roles(model: Any) -> NDArray[np.uint8]:
    """Whether each node's label was trained on, held out or is unknown."""
    found = np.full(len(model.scores_), UNKNOWN, dtype=np.uint8)
    found[model.state_.labels.nodes] = TRAINED
    found[model.validation_nodes_] = HELD
    return found


def node_map(
    model: Any,
    table: Table | None,
    held: HeldOut | None,
    plain: HeldOut | None,
    always: NDArray[np.int64],
) -> dict[str, Any] | None:
    """Places, colours and edges for the map, as base64; None where nodes have no place and none can be found."""
    found = diagnosis.coordinates(table)
    n_nodes = len(model.scores_)
    if found is None and (
        model.graph_ is None or model.graph_.n_edges == 0 or n_nodes > MOST_TO_LAY_OUT
    ):
        return None
    role = roles(model)
    shown = np.arange(n_nodes)
    if n_nodes > ON_THE_MAP:  # the explained, then the held-out, then any
        order = np.random.default_rng(0).permutation(n_nodes)
        rank = np.where(np.isin(order, always), 0, np.where(role[order] == HELD, 1, 2))
        shown = np.sort(order[np.argsort(rank, kind="stable")][:ON_THE_MAP])
    edges = np.zeros((0, 2), dtype=np.int64)
    if model.graph_ is not None:
        among = model.graph_.adjacency[shown][:, shown]
        ends = np.column_stack(
            [np.repeat(np.arange(shown.size), np.diff(among.indptr)), among.indices]
        )
        edges = ends[ends[:, 0] < ends[:, 1]]
    place = found[0][shown] if found is not None else layout(model.graph_.adjacency)[shown]
    low, high = place.min(axis=0), place.max(axis=0)
    extent = float((high - low).max()) or 1.0
    short = np.rint(65535 * (place - low) / extent).astype("<u2")
    n_edges = len(edges)
    if n_edges > EDGES_ON_THE_MAP:
        edges = np.zeros((0, 2), dtype=np.int64)
    wide = "<u2" if shown.size <= 65536 else "<u4"
    kept = {
        "n": int(shown.size),
        "of": n_nodes,
        "from": None if found is None else found[1],
        "aspect": float((high - low)[1] / extent),
        "breadth": float((high - low)[0] / extent),
        "xy": _packed(short),
        "edges": _packed(edges.astype(wide)),
        "wide": wide == "<u4",
        "role": _packed(role[shown]),
        "nodes": "" if shown.size == n_nodes else _packed(shown.astype("<u4")),
        "layers": _layers(model, held, plain, shown),
        "hidden_edges": n_edges if n_edges > EDGES_ON_THE_MAP else 0,
    }
    return kept


def _layers(
    model: Any, held: HeldOut | None, plain: HeldOut | None, shown: NDArray[np.int64]
) -> list[dict[str, Any]]:
    """What the map can be coloured by."""
    layers: list[dict[str, Any]] = []

    def add(
        name: str, note: str, values: Array, low: float, high: float, scale: str, ends: list[str]
    ) -> None:
        layer = {"name": name, "note": note, "scale": scale, "ends": ends}
        layers.append(layer | {"values": _packed(_quantised(values[shown], low, high))})

    def at_held(values: Array) -> Array:
        spread = np.full(len(model.scores_), np.nan)
        assert held is not None
        spread[held.nodes] = values
        return spread

    classes = is_classifier(model)
    if held is not None:
        if classes:
            note = "Held-out nodes by the probability that their true class was not given; the others are grey."
            ends = ["sure and right", "sure and wrong"]
            add("Error at held-out nodes", note, at_held(held.residual), 0.0, 1.0, "rising", ends)
        else:
            reach = float(np.quantile(np.abs(held.residual), 0.95)) or 1.0
            note = "Truth less prediction at held-out nodes; the others are grey."
            ends = [
                f"predicted too high, −{number(reach)} or beyond",
                f"too low, +{number(reach)} or beyond",
            ]
            add(
                "Residual at held-out nodes",
                note,
                at_held(held.residual),
                -reach,
                reach,
                "diverging",
                ends,
            )
        if plain is not None:
            gain = np.abs(held.residual) - np.abs(plain.residual)
            reach = float(np.quantile(np.abs(gain), 0.95)) or 1.0
            note = "How the graph changed the size of the error at held-out nodes; the others are grey."
            ends = ["graph helped", "graph hurt"]
            add(
                "Where the graph helped and hurt",
                note,
                at_held(gain),
                -reach,
                reach,
                "diverging",
                ends,
            )
    if classes:
        sure, likeliest = (
            model.raw_predictions_.max(axis=1),
            model.raw_predictions_.argmax(axis=1).astype(np.float64),
        )
        add(
            "How sure the model is",
            "Probability of the predicted class.",
            sure,
            float(sure.min()),
            1.0,
            "sequential",
            [number(float(sure.min())), "1"],
        )
        names = [clipped(name) for name in model.classes_.tolist()]
        few = [*names[:7], "others"] if len(names) > 8 else names
        likeliest = np.minimum(likeliest, len(few) - 1)
        add("Predicted class", "", likeliest, 0.0, 254.0, "classes", few)
    else:
        predicted = model.loss_.inverse_link(model.raw_predictions_)[:, 0]
        low, high = (float(q) for q in np.quantile(predicted, [0.01, 0.99]))
        add(
            "Prediction",
            "With every label that fit was given.",
            predicted,
            low,
            high,
            "sequential",
            [number(low), number(high)],
        )
    role = roles(model).astype(np.float64)
    add(
        "Use of labels",
        "",
        role,
        0.0,
        254.0,
        "classes",
        ["trained on", "held out", "label unknown"],
    )
    return layers


def chosen(
    model: Any, held: HeldOut | None, plain: HeldOut | None, seed: int = 0
) -> dict[str, list[int]]:
    """Return the nodes to explain, by the reason why they were chosen; each once, fewer of a very large graph."""
    rng, taken, groups = np.random.default_rng(seed), set[int](), dict[str, list[int]]()
    n_nodes = len(model.scores_)
    most = max(FEWEST_EXPLAINED, min(EXPLAINED, EXPLAINED * EXPLAINED_UP_TO // n_nodes))

    def take(name: str, nodes: NDArray[np.int64], share: float) -> None:
        fresh = [node for node in nodes[:2000].tolist() if node not in taken][: round(share * most)]
        taken.update(fresh)
        if fresh:
            groups[name] = fresh

    if held is not None:
        take("Largest errors", held.nodes[np.argsort(-np.abs(held.residual), kind="stable")], 0.2)
        if plain is not None:
            gain = np.abs(held.residual) - np.abs(plain.residual)
            take("Graph helped most", held.nodes[np.argsort(gain, kind="stable")], 0.1)
            take("Graph hurt most", held.nodes[np.argsort(-gain, kind="stable")], 0.1)
        take("Held out, at random", rng.permutation(held.nodes), 0.2)
    if diagnosis.uses_graph(model):
        moved = np.abs(explained_scores(model.state_) - model.init_score_ - model.scores_).max(
            axis=1
        )
        take("Moved furthest by the graph", np.argsort(-moved, kind="stable"), 0.2)
    take("Label unknown, at random", rng.permutation(np.flatnonzero(roles(model) == UNKNOWN)), 0.2)
    if len(taken) < FEWEST_EXPLAINED // 2:
        take("At random", rng.permutation(n_nodes), 0.2)
    return groups


def explanations(
    model: Any, table: Table | None, X: Any, groups: dict[str, list[int]]
) -> dict[str, Any] | str:
    """Return what the inspector shows, or why it cannot."""
    if table is None:
        return (
            "The table is not in this model: save it with model.save(path, table=True), or pass X to write_report, and "
            "single nodes are taken apart here."
        )
    if isinstance(model.labels_, MaskedLabels):
        return "A model trained with labels='masked' has no exact sum; fit with labels='field' or 'none' to take it apart."
    if model.state_.pipeline.encoder is not None and model.state_.encoded_table is None:
        return ENCODED
    role = roles(model)
    everyone = np.asarray([node for group in groups.values() for node in group], dtype=np.int64)
    before, parts = diagnosis.before_held_out(model), dict[int, Explanation]()
    for source, nodes in (
        (before, everyone[role[everyone] == HELD]),
        (model, everyone[role[everyone] != HELD]),
    ):
        if nodes.size:
            parts |= {found.node: found for found in source.explain(nodes, X)}
    truth = _truth(model)
    return {
        "groups": [
            [name, [_written(model, before, table, parts[n], int(role[n]), truth) for n in nodes]]
            for name, nodes in groups.items()
        ],
        "classifier": bool(is_classifier(model)),
        "moved": parts[int(everyone[0])].labels_in_sum is False,
        "scale": _scale(model),
    }


def _scale(model: Any) -> str:
    """In what units the sum is, where they are not those of the labels."""
    if is_classifier(model):
        return "log-odds" if model.scores_.shape[1] == 1 else "before the softmax"
    probe = np.array([[0.5], [2.0]])
    return (
        ""
        if np.array_equal(model.loss_.inverse_link(probe), probe)
        else "before the link of the loss"
    )


def _truth(model: Any) -> Callable[[int], str]:
    """How to write the known label of a node; empty where it is not known."""
    place = np.full(len(model.scores_), -1, dtype=np.int64)
    nodes = np.concatenate([model.state_.labels.nodes, model.validation_nodes_])
    target = np.concatenate([model.state_.labels.target, model.validation_target_])
    place[nodes] = np.arange(nodes.size)

    def written(node: int) -> str:
        if place[node] < 0:
            return ""
        value = target[place[node]]
        if not is_classifier(model):
            return number(float(value[0]))
        return clipped(model.classes_[int(value[0]) if value.size == 1 else int(value.argmax())])

    return written


def _name(model: Any, node: int) -> str:
    """What the user calls a node: its id, or its row."""
    return (
        clipped(model.graph_.node_ids[node])
        if model.graph_ is not None and model.graph_.has_ids
        else f"row {node}"
    )


def _written(
    model: Any, before: Any, table: Table, part: Explanation, role: int, truth: Callable[[int], str]
) -> dict[str, Any]:
    """One node as the page needs it: totals of each kind, and the largest parts of each."""
    node, source = part.node, before if role == HELD else model
    graph_made = (
        set() if model.state_.pipeline.low_rank is not None else set(part.own) - set(table.names)
    )
    own = {name: value for name, value in part.own.items() if name not in graph_made}
    around: dict[Any, float] = {
        name: value for name, value in part.own.items() if name in graph_made
    }
    around |= part.neighbors
    labels = {other: value for other, value in part.labels.items() if other != node}

    def named(other: Any) -> str:
        return clipped(other) if isinstance(other, str) else _name(model, other)

    written = {
        "node": node,
        "name": _name(model, node),
        "role": role,
        "truth": truth(node) or None,
        "base": _short(part.base),
        "score": _short(part.score),
        "own": _largest(own, clipped, lambda name: _cell(model, table, node, name)),
        "around": _largest(around, named, lambda other: ""),
        "labels": _largest(labels, named, truth),
        "near": _strongest(part),
        "own_label": _short(part.labels.get(node, 0.0)),
        "totals": [_short(sum(kind.values())) for kind in (own, around, labels)],
        "ties": 0 if model.graph_ is None else int(model.graph_.neighbors(node).size),
    }
    if is_classifier(model):
        probability = source.raw_predictions_[node]
        best = int(probability.argmax())
        explained = (
            1
            if part.output == 0 and len(model.classes_) == 2 and model.scores_.shape[1] == 1
            else part.output
        )
        written |= {
            "prediction": f"{clipped(model.classes_[best])} ({100 * probability[best]:.0f} %)",
            "explained": clipped(model.classes_[explained]),
        }
    else:
        predicted = float(model.loss_.inverse_link(source.raw_predictions_[[node]])[0, 0])
        written |= {"prediction": number(predicted)}
        if role == HELD:
            at = int(np.flatnonzero(model.validation_nodes_ == node)[0])
            written["error"] = number(float(model.validation_target_[at, 0]) - predicted)
    return written


def _largest(
    parts: dict[Any, float], name: Callable[[Any], str], detail: Callable[[Any], str]
) -> list[Any]:
    """The largest parts by name, how many others there are, and what those add."""
    found = [(key, value) for key, value in parts.items() if value != 0.0]
    ranked = sorted(found, key=lambda part: -abs(part[1]))
    rest = ranked[LARGEST_PARTS:]
    shown = [[name(key), _short(value), detail(key)] for key, value in ranked[:LARGEST_PARTS]]
    return [shown, len(rest), _short(sum(value for _, value in rest))]


def _strongest(part: Explanation) -> list[int]:
    """The nodes whose columns and labels together add most, for the map to tie to this one."""
    together = dict(part.neighbors)
    for other, value in part.labels.items():
        together[other] = together.get(other, 0.0) + value
    ranked = sorted(
        (other for other in together if other != part.node), key=lambda other: -abs(together[other])
    )
    return ranked[: 2 * LARGEST_PARTS]


def _short(value: float) -> float:
    return float(f"{value:.5g}")


def _cell(model: Any, table: Table, node: int, name: str) -> str:
    """A node's own value of a column, as the user wrote it."""
    if name not in table.names:
        return ""
    column = table.names.index(name)
    value = float(table.values[node, column])
    if np.isnan(value):
        return "missing"
    return (
        clipped(model.state_.reader.categories[column][int(value)])
        if column in model.state_.reader.categories
        else number(value)
    )
