"""Predictions as sums of contributions: Σ_j P_ij f(x_j) + Σ_{j∈𝓛} K_ij h_j e_j.

For squared error h are the weights of the labels and e their residuals. For other likelihoods h is
the curvature at the labelled nodes, K = (H + λL + τI)⁻¹, and e = z − ∇ℓ/h are working residuals:
the mode z of the field is then K H e.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ebboost.boosting.latent_field import SOLVE_TOLERANCE, LatentField
from ebboost.boosting.masked_labels import MaskedLabels
from ebboost.data.table import Table
from ebboost.data.types import Array, IntArray
from ebboost.model.predict import propagation_operator
from ebboost.model.state import FittedState

BATCH = 64
MAX_LINES = 5  # of each kind of contribution in a printed explanation
CAUSAL = "With causal=True the labels of earlier nodes are not shown one by one: fit without it."
ENCODED = (
    "Categories of the fitted nodes were encoded without their own labels, and this model does not "
    "hold those codes: contributions would not add up to the score. Explain before saving, or load "
    "a model that was written by save(path, table=True)."
)


@dataclass(frozen=True)
class Explanation:
    """The score of one node as a sum of contributions; printed, the largest of each kind.

    Parameters
    ----------
    node : int
        Row of the node.
    output : int
        Column of the score: 0 for numbers and two classes, else the index of the predicted class.
    score : float
        The prediction before the inverse link; for a classifier, log-odds.
    base : float
        Contribution that all nodes share.
    own : dict of str to float
        Contribution of each of the node's own columns, by TreeSHAP.
    neighbors : dict of int to float
        Contribution of the columns of each other node, by its row.
    labels : dict of int to float
        Contribution of each known label, by its row: its residual times its weight in the latent
        field at this node.
    offset : float, default=0.0
        The offset of the node.

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

    @property
    def total(self) -> float:
        """The sum of all contributions: the score."""
        parts = self.base + self.offset + sum(self.own.values()) + sum(self.neighbors.values())
        return parts + sum(self.labels.values())

    def __str__(self) -> str:
        terms = [("base", self.base)]
        terms += [("offset", self.offset)] if self.offset else []
        terms += _largest(self.own, "column", "columns")
        terms += _largest(self.neighbors, "node", "nodes")
        terms += _largest(self.labels, "label of node", "labels")
        values = [value for _, value in terms]
        largest = max(map(abs, [*values, self.total]))
        decimals = max(0, 4 - int(np.floor(np.log10(largest)))) if largest > 0.0 else 0
        values = round_to_sum(values, decimals)
        lines = [f"node {self.node}: score {sum(values):.{decimals}f}"]
        for (name, _), value in zip(terms, values, strict=True):
            lines.append(f"  {name:<33}{value:+12.{decimals}f}")
        return "\n".join(lines)


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


def round_to_sum(values: Sequence[float], decimals: int) -> list[float]:
    """Return numbers rounded so that they add up to their rounded sum: largest remainders go up."""
    units = np.array(values) * 10.0**decimals
    rounded = np.floor(units)
    n_up = int(np.round(units.sum()) - rounded.sum())
    rounded[np.argsort(rounded - units, kind="stable")[:n_up]] += 1.0
    return (rounded / 10.0**decimals).tolist()


def contribution_rows(
    explanations: Sequence[Explanation], state: FittedState, decimals: int | None
) -> dict[str, list[Any]]:
    """Return the columns of a table of contributions."""
    own = set(state.reader.names)
    rows: list[tuple[int, str, str, float]] = []
    for one in explanations:
        parts = [("base", "", one.base)]
        parts += [("offset", "", one.offset)] if state.offset is not None else []
        for name, value in one.own.items():
            parts.append(("column" if name in own else "column of neighbours", name, value))
        parts += [("score of node", str(node), value) for node, value in one.neighbors.items()]
        parts += [("label of node", str(node), value) for node, value in one.labels.items()]
        values = [value for *_, value in parts]
        values = values if decimals is None else round_to_sum(values, decimals)
        rows += [(one.node, *part[:2], value) for part, value in zip(parts, values, strict=True)]
    names = ("node", "part", "name", "contribution")
    return {name: [row[column] for row in rows] for column, name in enumerate(names)}


def explain(
    state: FittedState,
    rows: IntArray,
    table: Table | None,
    nodes: IntArray | None = None,
    numbers: IntArray | None = None,
    mean: FittedState | None = None,
) -> list[Explanation]:
    """Return the predictions of fitted nodes as sums of contributions, computed in batches.

    Of several candidates, ``mean`` is the model whose predicted classes are explained. Of nodes
    that are divided among workers, ``rows`` are the positions of the explained ``nodes`` among a
    worker's own, −1 elsewhere, and ``numbers`` the nodes of its rows. Then the result has what its
    rows contribute, and :func:`sum_parts` adds those of all workers.
    """
    nodes = rows if nodes is None else nodes
    if state.members:
        parts = [explain(one, rows, table, nodes, numbers, state) for one in state.members]
        share = 1.0 / len(parts)
        return [sum_parts(of_node, share) for of_node in zip(*parts, strict=True)]
    if isinstance(state.candidate.labels, MaskedLabels):
        text = "A model with labels='masked' is not a sum of contributions"
        raise ValueError(f"{text}; fit with labels='field' or 'none'.")
    if state.is_causal:
        raise ValueError(CAUSAL)
    features = tree_table(state, table)
    numbers = np.arange(state.n_nodes) if numbers is None else numbers
    result: list[Explanation] = []
    for start in range(0, nodes.size, BATCH):
        batch = slice(start, start + BATCH)
        outputs = _outputs(state if mean is None else mean, rows[batch])
        result += _explain(state, rows[batch], features, nodes[batch], numbers, outputs)
    return result


def _outputs(state: FittedState, rows: IntArray) -> IntArray:
    """The index of the predicted class of each row; every worker has those of all rows."""
    here = np.flatnonzero(rows >= 0)
    largest = np.asarray(state.raw_predictions)[rows[here]].argmax(axis=1)
    return np.bincount(np.asarray(here, like=state.scores), largest, rows.size).astype(int)


def tree_table(state: FittedState, table: Table | None) -> Table:
    """Return the columns of the fitted nodes that the trees use."""
    if table is None:
        raise ValueError(
            "This model has no table: it was loaded from a file or a pickle without one, or fitted "
            "from files or on a cluster. Pass it, explain(nodes, X=X), or save with "
            "save(path, table=True)."
        )
    if state.pipeline.encoder is not None and state.encoded_table is None:
        raise ValueError(ENCODED)
    return state.encoded_table or state.pipeline.transform(table, state.graph)


def sum_parts(explanations: Sequence[Explanation], share: float = 1.0) -> Explanation:
    """Return the sum of explanations of one node, each times ``share``."""

    def mean(name: str) -> dict[Any, float]:
        totals: dict[Any, float] = {}
        for one in explanations:
            for key, value in getattr(one, name).items():
                totals[key] = totals.get(key, 0.0) + share * value
        return totals

    return replace(
        explanations[0],
        score=share * sum(one.score for one in explanations),
        base=share * sum(one.base for one in explanations),
        offset=share * sum(one.offset for one in explanations),
        own=mean("own"),
        neighbors=mean("neighbors"),
        labels=mean("labels"),
    )


def _explain(
    state: FittedState,
    rows: IntArray,
    features: Table,
    nodes: IntArray,
    numbers: IntArray,
    outputs: IntArray,
) -> Iterator[Explanation]:
    here = np.flatnonzero(rows >= 0)
    own_rows = rows[here]
    unit_vectors = np.zeros((state.n_nodes, nodes.size), like=state.scores)
    unit_vectors[own_rows, here] = 1.0
    # A nonlinear P is explained as its linearisation at the fitted scores.
    operator = propagation_operator(state.candidate.smoothing, state.graph, state.n_nodes)
    influence = np.asarray(operator.linearize(state.scores).adjoint(unit_vectors))
    names, contributions = _column_contributions(state, features, own_rows)
    label_parts = np.asarray(_label_contributions(state, unit_vectors, outputs))
    scores = np.asarray(state.scores)
    own = dict(zip(here.tolist(), contributions, strict=True))
    for column, (row, output) in enumerate(zip(rows.tolist(), outputs.tolist(), strict=True)):
        weights = influence[:, column]
        others = np.flatnonzero(np.abs(weights) > 0)
        others = others[others != row]
        shares = weights[others] * scores[others, output]
        shifts = label_parts[:, column]
        used = np.flatnonzero(shifts)
        of_labels = numbers[state.labels.nodes[used]]
        explanation = Explanation(
            node=int(nodes[column]),
            output=output,
            score=0.0,
            base=0.0,
            neighbors=dict(zip(numbers[others].tolist(), shares.tolist(), strict=True)),
            labels=dict(zip(of_labels.tolist(), shifts[used].tolist(), strict=True)),
        )
        if row >= 0:
            parts = float(weights[row]) * own[column][output]
            explanation = _with_own(state, explanation, row, names, parts)
        yield _as_prediction(state, explanation)


def _with_own(
    state: FittedState, explanation: Explanation, row: int, names: Sequence[str], parts: Array
) -> Explanation:
    """The explanation with what the node's own row contributes."""
    own: dict[str, float] = {}
    shift = state.output.calibration.shift
    for name, value in zip(names, parts[:-1].tolist(), strict=True):
        own[name] = own.get(name, 0.0) + value
    return replace(
        explanation,
        score=float(state.final_scores[row, explanation.output]) + shift,
        base=float(state.init_score[explanation.output]) + float(parts[-1]) + shift,
        own=own,
        offset=0.0 if state.offset is None else float(state.offset[row, 0]),
    )


def _as_prediction(state: FittedState, explanation: Explanation) -> Explanation:
    """An explanation of final scores as one of predictions, if these are exponentials of them.

    Contributions are integrals of their derivatives on the straight way from the base (the values
    of Aumann and Shapley): multiples of those to the score, whose sum is the prediction.
    """
    loss = state.candidate.loss
    if loss is None or not loss.log_link:
        return explanation
    base = explanation.base
    change = explanation.total - base
    prediction = state.factor * np.exp(base)
    ratio = prediction * (np.expm1(change) / change if change else 1.0)
    return replace(
        sum_parts([explanation], ratio), base=prediction, score=prediction * np.exp(change)
    )


def _column_contributions(
    state: FittedState, features: Table, nodes: IntArray
) -> tuple[list[str], Array]:
    """Names of the trees' columns, and what each adds to f at the nodes; the mean comes last."""
    # XGBoost needs all workers here, one that has none of the nodes too.
    rows = nodes if nodes.size else np.zeros(1, dtype=np.int64)
    contributions = state.ensemble.contributions(features.subset(rows))
    if contributions is None:  # a learner without TreeSHAP: all columns together
        scores = state.scores[nodes]
        return ["all columns"], np.stack([scores, np.zeros_like(scores)], axis=2)
    return list(features.names), np.asarray(contributions, dtype=np.float64)[: nodes.size]


def _label_contributions(state: FittedState, unit_vectors: Array, outputs: IntArray) -> Array:
    """What each label adds to the score of each explained node: K_ij h_j e_j."""
    labels = state.labels
    if not isinstance(state.candidate.labels, LatentField) or state.graph is None:
        return np.zeros((0, unit_vectors.shape[1]))
    posterior = state.candidate.labels.operator(state.graph, labels.nodes, labels.weight)
    eta = state.final_scores[labels.nodes]
    loss = state.training_loss
    field = eta - state.fixed_scores[labels.nodes] - state.propagated_scores[labels.nodes]
    weight = posterior.weight[:, None]
    curvature = weight * np.broadcast_to(loss.curvature(eta, labels.target), eta.shape)
    weighted = curvature * field - weight * loss.gradient(eta, labels.target)
    contributions = np.zeros((labels.nodes.size, unit_vectors.shape[1]))
    for output in np.unique(outputs):
        chosen = outputs == output
        own = curvature[:, [output]]
        unit = unit_vectors[:, chosen]
        if loss.constant_curvature:  # one system for all outputs, factorised
            influence = posterior.solve(unit)
        else:
            influence = posterior.solve_system(own, unit, SOLVE_TOLERANCE)
        contributions[:, chosen] = weighted[:, [output]] * influence[labels.nodes]
    return contributions
