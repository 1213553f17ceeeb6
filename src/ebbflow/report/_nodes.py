"""What the page keeps of single nodes: a map of many of them in a few bytes each, and some hundred explained in full."""

import base64
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier

from ebbflow import diagnosis
from ebbflow.diagnosis import HeldOut
from ebbflow.explaining import Explanation
from ebbflow.labels import Masked
from ebbflow.layout import layout
from ebbflow.report._charts import number
from ebbflow.table import Table

Array = NDArray[np.float64]
ON_THE_MAP = 30_000
EDGES_ON_THE_MAP = 45_000
LARGEST_PARTS = 8
MISSING = 255
TRAINED, HELD, UNKNOWN = 0, 1, 2


def _packed(values: NDArray[Any]) -> str:
    return base64.b64encode(np.ascontiguousarray(values).tobytes()).decode()


def _quantised(values: Array, low: float, high: float) -> NDArray[np.uint8]:
    """Values as one byte each; 255 is missing."""
    share = (values - low) / ((high - low) or 1.0)
    return np.where(np.isfinite(values), np.clip(np.rint(254 * share), 0, 254), MISSING).astype(np.uint8)


def roles(model: Any) -> NDArray[np.uint8]:
    """Whether each node's label was trained on, held out or is unknown."""
    found = np.full(len(model.scores_), UNKNOWN, dtype=np.uint8)
    found[model._training.nodes] = TRAINED
    found[model.validation_nodes_] = HELD
    return found


def node_map(
    model: Any, table: Table | None, held: HeldOut | None, plain: HeldOut | None, always: NDArray[np.int64]
) -> dict[str, Any] | None:
    """Places, colours and edges for the map, as base64; None where there is neither a graph nor a place."""
    found = diagnosis.coordinates(table)
    n_nodes = len(model.scores_)
    if found is None and (model.graph_ is None or model.graph_.n_edges == 0):
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
        ends = np.column_stack([np.repeat(np.arange(shown.size), np.diff(among.indptr)), among.indices])
        edges = ends[ends[:, 0] < ends[:, 1]]
    place = found[0][shown] if found is not None else layout(among)
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


def _layers(model: Any, held: HeldOut | None, plain: HeldOut | None, shown: NDArray[np.int64]) -> list[dict[str, Any]]:
    """What the map can be coloured by."""
    layers: list[dict[str, Any]] = []

    def add(name: str, note: str, values: Array, low: float, high: float, scale: str, ends: list[str]) -> None:
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
            add("Error at held-out nodes", note, at_held(held.residual), 0.0, 1.0, "diverging", ends)
        else:
            reach = float(np.quantile(np.abs(held.residual), 0.95)) or 1.0
            note = "Truth less prediction at held-out nodes; the others are grey."
            ends = [f"predicted too high, −{number(reach)} or beyond", f"too low, +{number(reach)} or beyond"]
            add("Residual at held-out nodes", note, at_held(held.residual), -reach, reach, "diverging", ends)
        if plain is not None:
            gain = np.abs(held.residual) - np.abs(plain.residual)
            reach = float(np.quantile(np.abs(gain), 0.95)) or 1.0
            note = "How the graph changed the size of the error at held-out nodes; the others are grey."
            ends = ["graph helped", "graph hurt"]
            add("Where the graph helped and hurt", note, at_held(gain), -reach, reach, "diverging", ends)
    if classes:
        sure, likeliest = model.predicted_.max(axis=1), model.predicted_.argmax(axis=1).astype(np.float64)
        add("How sure the model is", "Probability of the predicted class.", sure, float(sure.min()), 1.0, "sequential",
            [number(float(sure.min())), "1"])  # fmt: skip
        names = [str(name) for name in model.classes_.tolist()]
        few = [*names[:7], "others"] if len(names) > 8 else names
        likeliest = np.minimum(likeliest, len(few) - 1)
        add("Predicted class", "", likeliest, 0.0, 254.0, "classes", few)
    else:
        predicted = model.loss_.link(model.predicted_)[:, 0]
        low, high = (float(q) for q in np.quantile(predicted, [0.01, 0.99]))
        add("Prediction", "With every label that fit was given.", predicted, low, high, "sequential",
            [number(low), number(high)])  # fmt: skip
    role = roles(model).astype(np.float64)
    add("Use of labels", "", role, 0.0, 254.0, "classes", ["trained on", "held out", "label unknown"])
    return layers


def chosen(model: Any, held: HeldOut | None, plain: HeldOut | None, seed: int = 0) -> dict[str, list[int]]:
    """Return the nodes to explain, by the reason why they were chosen; each once."""
    rng, taken, groups = np.random.default_rng(seed), set[int](), dict[str, list[int]]()

    def take(name: str, nodes: NDArray[np.int64], most: int) -> None:
        fresh = [int(node) for node in nodes if int(node) not in taken][:most]
        taken.update(fresh)
        if fresh:
            groups[name] = fresh

    if held is not None:
        take("Largest errors", held.nodes[np.argsort(-np.abs(held.residual), kind="stable")], 50)
        if plain is not None:
            gain = np.abs(held.residual) - np.abs(plain.residual)
            take("Graph helped most", held.nodes[np.argsort(gain, kind="stable")], 25)
            take("Graph hurt most", held.nodes[np.argsort(-gain, kind="stable")], 25)
        take("Held out, at random", rng.permutation(held.nodes), 50)
    if diagnosis.uses_graph(model):
        moved = np.abs(model._explained_scores() - model.base_ - model.scores_).max(axis=1)
        take("Moved furthest by the graph", np.argsort(-moved, kind="stable")[:2000], 40)
    take("Label unknown, at random", rng.permutation(np.flatnonzero(roles(model) == UNKNOWN)), 60)
    if len(taken) < 20:
        take("At random", rng.permutation(len(model.scores_)), 60)
    return groups


def explanations(model: Any, table: Table | None, X: Any, groups: dict[str, list[int]]) -> dict[str, Any] | str:
    """Return what the inspector shows, or why it cannot."""
    if table is None:
        return (
            "The table is not in this model: save it with model.save(path, table=True), or pass X to write_report, and "
            "single nodes are taken apart here."
        )
    if isinstance(model.labels_, Masked):
        return (
            "A model trained with labels='masked' has no exact sum; fit with labels='field' or 'none' to take it apart."
        )
    role = roles(model)
    everyone = np.asarray([node for group in groups.values() for node in group], dtype=np.int64)
    before, parts = diagnosis.before_held_out(model), dict[int, Explanation]()
    for source, nodes in ((before, everyone[role[everyone] == HELD]), (model, everyone[role[everyone] != HELD])):
        if nodes.size:
            parts |= {found.node: found for found in source.explain(nodes, X)}
    truth = _truth(model)
    return {
        "groups": [[name, [_written(model, before, table, parts[n], int(role[n]), truth) for n in nodes]]
                   for name, nodes in groups.items()],
        "classifier": bool(is_classifier(model)),
        "moved": parts[int(everyone[0])].labels_in_sum is False,
        "scale": _scale(model),
    }  # fmt: skip


def _scale(model: Any) -> str:
    """In what units the sum is, where they are not those of the labels."""
    if is_classifier(model):
        return "log-odds" if model.scores_.shape[1] == 1 else "before the softmax"
    probe = np.array([[0.5], [2.0]])
    return "" if np.array_equal(model.loss_.link(probe), probe) else "before the link of the loss"


def _truth(model: Any) -> dict[int, str]:
    """The known labels as text."""
    known: dict[int, str] = {}
    for nodes, target in (
        (model._training.nodes, model._training.target),
        (model.validation_nodes_, model.validation_target_),
    ):
        if is_classifier(model):
            position = target[:, 0].astype(int) if target.shape[1] == 1 else target.argmax(axis=1)
            known |= {int(n): str(model.classes_[p]) for n, p in zip(nodes, position, strict=True)}
        else:
            known |= {int(n): number(float(t)) for n, t in zip(nodes, target[:, 0], strict=True)}
    return known


def _written(
    model: Any, before: Any, table: Table, part: Explanation, role: int, truth: dict[int, str]
) -> dict[str, Any]:
    """One node as the page needs it: totals of each kind, and the largest parts of each."""
    node, source = part.node, before if role == HELD else model
    graph_made = set() if model._preparation.low_rank is not None else set(part.own) - set(table.names)
    own = [(name, value) for name, value in part.own.items() if name not in graph_made]
    around = [(name, value) for name, value in part.own.items() if name in graph_made]
    nearby = [(diagnosis.node_name(model, j), value) for j, value in part.neighbors.items()]
    own_label = part.labels.get(node, 0.0)
    largest = sorted(((j, v) for j, v in part.labels.items() if j != node), key=lambda pair: -abs(pair[1]))
    labels = [[diagnosis.node_name(model, j), _short(v), truth.get(j, "")] for j, v in largest[:LARGEST_PARTS]]
    written = {
        "node": node,
        "name": diagnosis.node_name(model, node),
        "role": role,
        "truth": truth.get(node),
        "base": _short(part.base),
        "score": _short(part.score),
        "own": _largest([(name, value, _cell(model, table, node, name)) for name, value in own]),
        "around": _largest([(name, value, "") for name, value in around + nearby]),
        "labels": [labels, len(largest) - len(labels), _short(sum(v for _, v in largest[LARGEST_PARTS:]))],
        "own_label": _short(own_label),
        "totals": [_short(sum(v for _, v in part)) for part in (own, around + nearby, largest)],
        "ties": 0 if model.graph_ is None else int(model.graph_.neighbors(node).size),
    }
    if is_classifier(model):
        probability = source.predicted_[node]
        best = int(probability.argmax())
        explained = 1 if part.output == 0 and len(model.classes_) == 2 and model.scores_.shape[1] == 1 else part.output
        written |= {
            "prediction": f"{model.classes_[best]} ({100 * probability[best]:.0f} %)",
            "explained": str(model.classes_[explained]),
        }
    else:
        predicted = float(model.loss_.link(source.predicted_[[node]])[0, 0])
        written |= {"prediction": number(predicted)}
        if role == HELD:
            at = int(np.flatnonzero(model.validation_nodes_ == node)[0])
            written["error"] = number(float(model.validation_target_[at, 0]) - predicted)
    return written


def _largest(parts: list[tuple[str, float, str]]) -> list[Any]:
    """The largest parts, how many others there are, and what those add."""
    ranked = sorted((part for part in parts if part[1] != 0.0), key=lambda part: -abs(part[1]))
    rest = ranked[LARGEST_PARTS:]
    return [[[n, _short(v), c] for n, v, c in ranked[:LARGEST_PARTS]], len(rest), _short(sum(v for _, v, _ in rest))]


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
    return str(model._reader.categories[column][int(value)]) if column in model._reader.categories else number(value)
