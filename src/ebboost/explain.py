"""Predictions as sums of contributions: columns, other rows through P, labels through the field.

The score of row i is init_score + offset + Σ_j P_ij f(x_j) + Σ_l c_il: f(x_i) is a sum over columns
by Shapley values, and c_il is what label l adds through the field, K_ij h_l e_l. For squared error
h are the weights of the labels and e their residuals. For other likelihoods h is the curvature at
the labels, K = (SᵀHS + Q)⁻¹, and e = z − ∇ℓ/h are working residuals: the mode z is then K H e.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from ebboost._common import IntArray
from ebboost.data.table import Table
from ebboost.field import Posterior
from ebboost.kriging import NEIGHBORS, distances
from ebboost.model import Component, Model

BATCH = 64
MAX_LINES = 5  # of each kind of contribution in a printed explanation
TOLERANCE = 1e-10


@dataclass(frozen=True)
class Explanation:
    """The score of one row as a sum of contributions; printed, the largest of each kind.

    Parameters
    ----------
    node : int
        The row.
    output : int
        Column of the score: 0 for numbers and two classes, else the index of the predicted class.
    score : float
        The prediction before the inverse link; for a classifier, log-odds.
    base : float
        Contribution that all rows share.
    own : dict of str to float
        Contribution of each of the row's own columns, by Shapley values.
    neighbors : dict of int to float
        Contribution of the columns of each other row, through the propagation.
    labels : dict of int to float
        Contribution of each known label, by its row: through the latent field.
    groups : dict of str to float
        The effect of each of the row's groups, after a fit with several, in place of labels.
    offset : float, default=0.0
        The offset of the row.

    Examples
    --------
    >>> import ebboost as eb, numpy as np
    >>> X = np.arange(60.0)[:, None]
    >>> model = eb.EBBSRegressor(20, labels="none", random_state=0).fit(X, X[:, 0])
    >>> explanation = model.explanations([30])[0]
    >>> bool(np.isclose(explanation.total, model.predict()[30]))
    True
    """

    node: int
    output: int
    score: float
    base: float
    own: Mapping[str, float] = field(default_factory=dict)
    neighbors: Mapping[int, float] = field(default_factory=dict)
    labels: Mapping[int, float] = field(default_factory=dict)
    offset: float = 0.0
    groups: Mapping[str, float] = field(default_factory=dict)

    @property
    def total(self) -> float:
        """The sum of all contributions: the score."""
        parts = self.base + self.offset + sum(self.own.values()) + sum(self.neighbors.values())
        return parts + sum(self.labels.values()) + sum(self.groups.values())

    def __str__(self) -> str:
        terms = [("base", self.base)]
        terms += [("offset", self.offset)] if self.offset else []
        terms += _largest(self.own, "column", "columns")
        terms += _largest(self.neighbors, "row", "rows")
        terms += _largest(self.labels, "label of row", "labels")
        terms += _largest(self.groups, "group", "groups")
        largest = max(abs(value) for _, value in [*terms, ("", self.total)])
        decimals = max(0, 4 - int(np.floor(np.log10(largest)))) if largest > 0.0 else 0
        lines = [f"row {self.node}: score {self.total:.{decimals}f}"]
        lines += [f"  {name:<33}{value:+12.{decimals}f}" for name, value in terms]
        return "\n".join(lines)

    __repr__ = __str__  # notebooks show what print shows

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"


def _largest(
    parts: Mapping[str, float] | Mapping[int, float], kind: str, kinds: str
) -> list[tuple[str, float]]:
    """Texts and values of the largest contributions of a kind, the others as one."""
    ranked = sorted(parts.items(), key=lambda part: -abs(part[1]))
    shown = [(f"{kind} {name}", value) for name, value in ranked[:MAX_LINES]]
    others = [value for _, value in ranked[MAX_LINES:]]
    if others:
        shown.append((f"{len(others)} other {kind if len(others) == 1 else kinds}", sum(others)))
    return shown


def contribution_rows(explanations: Sequence[Explanation], model: Model) -> dict[str, list[Any]]:
    """Return the columns of a table of contributions."""
    own = set(model.reader.names)
    rows: list[tuple[int, str, str, float]] = []
    for one in explanations:
        parts = [("base", "", one.base)]
        parts += [("offset", "", one.offset)] if model.offset is not None else []
        for name, value in one.own.items():
            parts.append(("column" if name in own else "column of neighbours", name, value))
        parts += [("score of row", str(row), value) for row, value in one.neighbors.items()]
        parts += [("label of row", str(row), value) for row, value in one.labels.items()]
        parts += [("group", name, value) for name, value in one.groups.items()]
        rows += [(one.node, *part) for part in parts]
    names = ("node", "part", "name", "contribution")
    return {name: [row[column] for row in rows] for column, name in enumerate(names)}


def explain(model: Model, rows: IntArray, table: Table | None) -> list[Explanation]:
    """Return the predictions of fitted rows as sums of contributions."""
    if table is None:
        raise ValueError(
            "This model has no table: it was loaded from a file without one. Pass it, "
            "explain(nodes, X=X), or save with save(path, table=True)."
        )
    raw = model.raw[rows]
    outputs = raw.argmax(axis=1)
    own: list[dict[str, float]] = [{} for _ in rows]
    others: list[dict[int, float]] = [{} for _ in rows]
    labels: list[dict[Any, float]] = [{} for _ in rows]
    has_groups = model.places is not None and bool(model.places.groups)
    bases = np.array([float(model.intercept[output]) for output in outputs])
    offsets = np.zeros(rows.size) if model.offset is None else model.offset[rows, 0]
    for number, one in enumerate(model.components):
        columns = one.features.transform(table, model.places)
        for start in range(0, rows.size, BATCH):
            batch = range(start, min(start + BATCH, rows.size))
            parts = _parts(model, number, columns, rows[batch], outputs[batch])
            for place, (base, names, other, of_labels) in zip(batch, parts, strict=True):
                factor, shift = _factor(one, base, offsets[place], names, other, of_labels)
                bases[place] += one.weight * shift
                pairs: Any = zip((own, others, labels), (names, other, of_labels), strict=True)
                for target, source in pairs:
                    for key, value in source.items():
                        total = target[place].get(key, 0.0)
                        target[place][key] = total + one.weight * factor * value
    return [
        Explanation(
            node=int(row),
            output=int(outputs[place]),
            score=float(raw[place, outputs[place]]),
            base=float(bases[place]),
            own=own[place],
            neighbors=others[place],
            labels={} if has_groups else labels[place],
            offset=float(offsets[place]),
            groups=labels[place] if has_groups else {},
        )
        for place, row in enumerate(rows)
    ]


def _factor(
    one: Component, base: float, offset: float, *parts: Mapping[Any, float]
) -> tuple[float, float]:
    """What contributions to the score are multiplied by, and the contribution of the base.

    Of a component whose predictions are exponentials of its scores: contributions are integrals of
    their derivatives on the straight way from the base (the values of Aumann and Shapley).
    """
    if one.loss is None:
        return 1.0, base
    change = sum(sum(part.values()) for part in parts)
    start = float(np.exp(base))
    return start * (np.expm1(change) / change if change else 1.0), start


def _parts(
    model: Model, number: int, columns: Table, rows: IntArray, outputs: IntArray
) -> list[tuple[float, dict[str, float], dict[int, float], dict[Any, float]]]:
    """Base, columns, other rows and labels of a component's scores of some rows."""
    one = model.components[number]
    places = np.arange(rows.size)
    contributions = one.ensemble.contributions(columns.subset(rows))
    names = list(columns.names)
    if contributions is None:  # a learner without Shapley values: all columns together
        contributions = np.stack([one.scores[rows], np.zeros_like(one.scores[rows])], axis=2)
        names = ["all columns"]
    influence = None
    if one.smoothing is not None and model.places is not None:
        unit = np.zeros((model.n_rows, rows.size))
        unit[rows, places] = 1.0
        influence = one.smoothing.operator(model.places.graph).adjoint(unit)
    of_labels = _label_contributions(model, number, rows, outputs)
    result = []
    for place, (row, output) in enumerate(zip(rows.tolist(), outputs.tolist(), strict=True)):
        own = contributions[place, output]
        share = 1.0
        other: dict[int, float] = {}
        if influence is not None:
            share = float(influence[row, place])
            near = np.flatnonzero(influence[:, place])
            near = near[near != row]
            values = influence[near, place] * one.scores[near, output]
            other = dict(zip(near.tolist(), values.tolist(), strict=True))
        total: dict[str, float] = {}
        for name, value in zip(names, (share * own[:-1]).tolist(), strict=True):
            total[name] = total.get(name, 0.0) + value
        base = float(one.init_score[output]) + share * float(own[-1])
        result.append((base, total, other, of_labels[place]))
    return result


def _process_contributions(model: Model, number: int, rows: IntArray) -> list[dict[int, float]]:
    """What the nearest labels add to the scores of rows, through a process of the coordinates."""
    process, where, labels = model.components[number].process, model.coordinates, model.labels
    assert process is not None and where is not None
    known = where.points[labels.rows]
    count = min(NEIGHBORS, labels.size)
    near = cKDTree(known).query(where.points[rows], k=[*range(1, count + 1)])[1]
    noise = process.noise / labels.relative().weight[near]
    weights, _ = process.weights(*distances(where.points[rows], known[near]), noise)
    residuals = (labels.target - model.smoothed[number][labels.rows])[:, 0]
    pairs = zip(labels.rows[near].tolist(), (weights * residuals[near]).tolist(), strict=True)
    return [dict(zip(names, values, strict=True)) for names, values in pairs]


def _label_contributions(
    model: Model, number: int, rows: IntArray, outputs: IntArray
) -> list[dict[Any, float]]:
    """What each label adds to the scores of rows, through the field of a component.

    Of several groups: what each of them adds, by the id of its node.
    """
    one, places, z = model.components[number], model.places, model.fields[number]
    if one.process is not None and model.coordinates is not None:
        return _process_contributions(model, number, rows)
    if z is None or places is None or one.field is None:
        return [{} for _ in rows]
    if places.groups:
        nodes = places.node_of_row[rows]
        ids, effects = places.graph.node_ids[nodes].tolist(), z[nodes, outputs[:, None]].tolist()
        return [dict(zip(*pair, strict=True)) for pair in zip(ids, effects, strict=True)]
    labels = one.labels_for(model.labels).relative()
    loss = one.loss or model.output.loss
    nodes = places.node_of_row[labels.rows]
    posterior = Posterior(one.field.prior(places.graph), nodes)
    eta = model.smoothed[number][labels.rows] + z[nodes]
    weight = labels.weight[:, None]
    curvature = weight * np.broadcast_to(loss.curvature(eta, labels.target), eta.shape)
    weighted = curvature * z[nodes] - weight * loss.gradient(eta, labels.target)
    shares = np.zeros((labels.size, rows.size))
    for output in np.unique(outputs):
        chosen = np.flatnonzero(outputs == output)
        unit = np.zeros((z.shape[0], chosen.size))
        unit[places.node_of_row[rows[chosen]], np.arange(chosen.size)] = 1.0
        solver = posterior.solver(curvature[:, [output]])
        influence = solver.solve(unit, TOLERANCE)[nodes]
        shares[:, chosen] = weighted[:, [output]] * influence
    result = []
    for column in shares.T:
        used = np.flatnonzero(column)
        result.append(dict(zip(labels.rows[used].tolist(), column[used].tolist(), strict=True)))
    return result
