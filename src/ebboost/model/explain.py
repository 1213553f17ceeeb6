"""A prediction taken apart: Σ_j P_ij f(x_j) + Σ_{j∈𝓛} K_ij w_j e_j is a sum over columns, neighbours and labels."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebboost.boosting.latent_field import LatentField
from ebboost.boosting.masked_labels import MaskedLabels
from ebboost.data.table import Table
from ebboost.model.output import ClassOutput
from ebboost.model.predict import propagation_operator
from ebboost.model.state import FittedState

Array = NDArray[np.float64]

BATCH = 64
ENCODED = (
    "Categories of the fitted nodes were encoded without their own labels, and those codes are not in this model: the sum "
    "would not be the score. Explain before saving, or load a model that was written by save(path, table=True)."
)


@dataclass(frozen=True)
class Explanation:
    """Why one node got its score.

    Attributes
    ----------
    node : int
        The row.
    output : int
        Which score: 0 for numbers and for two classes, else the position of the predicted class.
    score : float
        What is explained: the prediction before the link (a log-odds for classes).
    base : float
        Where every node starts.
    own : dict of str to float
        What each of the node's own columns adds, by TreeSHAP.
    neighbors : dict of int to float
        What the columns of each other node add, by its row.
    labels : dict of int to float
        What the known label of each node adds: how far its label is from its own prediction, times how closely it is
        tied. For a classifier these move the probability of the class after the sum and are not part of it.
    """

    node: int
    output: int
    score: float
    base: float
    own: dict[str, float] = field(default_factory=dict)
    neighbors: dict[int, float] = field(default_factory=dict)
    labels: dict[int, float] = field(default_factory=dict)
    labels_in_sum: bool = True

    @property
    def total(self) -> float:
        """The sum of all parts: the score."""
        parts = self.base + sum(self.own.values()) + sum(self.neighbors.values())
        return parts + sum(self.labels.values()) * self.labels_in_sum

    def __str__(self) -> str:
        def largest(parts: dict[Any, float], label: str) -> list[str]:
            ranked = sorted(parts.items(), key=lambda part: -abs(part[1]))
            rest = sum(value for _, value in ranked[5:])
            lines = [f"  {label} {name!s:<26}{value:+12.4g}" for name, value in ranked[:5]]
            return (
                [*lines, f"  {label} {f'{len(ranked) - 5} others':<26}{rest:+12.4g}"]
                if ranked[5:]
                else lines
            )

        lines = [f"node {self.node}: score {self.score:.6g}", f"  {'base':<33}{self.base:+12.4g}"]
        for parts, label in (
            (self.own, "column"),
            (self.neighbors, "node  "),
            (self.labels, "label "),
        ):
            lines += largest(parts, label)
        return "\n".join(lines)


def explain(state: FittedState, nodes: NDArray[np.int64], table: Table | None) -> list[Explanation]:
    """Return the predictions of fitted nodes as sums of contributions, computed in batches.

    Parameters
    ----------
    state : FittedState
    nodes : ndarray of int
    table : Table or None
        The table fitted on.
    """
    if isinstance(state.candidate.labels, MaskedLabels):
        raise ValueError(
            "A model with labels='masked' is not a sum of contributions; "
            "fit with labels='field' or 'none'."
        )
    if table is None:
        raise ValueError(
            "This model has no table: it was loaded from a file without one, or fitted from files "
            "or on a cluster. Pass it, explain(nodes, X=X), or save with save(path, table=True)."
        )
    if state.pipeline.encoder is not None and state.encoded_table is None:
        raise ValueError(ENCODED)
    features = state.encoded_table or state.pipeline.transform(table, state.graph)
    batches = (nodes[start : start + BATCH] for start in range(0, nodes.size, BATCH))
    return [explanation for batch in batches for explanation in _explain(state, batch, features)]


def explained_scores(state: FittedState) -> Array:
    """Return the scores that contributions add up to: for classes, those before the field."""
    if state.is_classifier:
        return state.init_score + state.propagated_scores
    return state.raw_predictions


def _explain(state: FittedState, nodes: NDArray[np.int64], features: Table) -> list[Explanation]:
    unit_vectors = np.zeros((state.n_nodes, nodes.size))
    unit_vectors[nodes, np.arange(nodes.size)] = 1.0
    # A nonlinear P is explained as its linearisation at the fitted scores.
    operator = propagation_operator(state.candidate.smoothing, state.graph, state.n_nodes)
    influence = operator.linearize(state.scores).adjoint(unit_vectors)
    scores = explained_scores(state)
    outputs = np.zeros(nodes.size, dtype=int)
    if scores.shape[1] > 1:
        outputs = scores[nodes].argmax(axis=1)
    names, contributions = _column_contributions(state, features, nodes)
    residuals, label_influence = _label_influence(state, unit_vectors)
    explanations = []
    for column, (node, output) in enumerate(zip(nodes.tolist(), outputs.tolist(), strict=True)):
        parts = float(influence[node, column]) * contributions[column, output]
        own: dict[str, float] = {}
        for name, value in zip(names, parts[:-1], strict=True):
            own[name] = own.get(name, 0.0) + float(value)
        others = np.flatnonzero(np.abs(influence[:, column]) > 0)
        neighbors = {
            int(j): float(influence[j, column] * state.scores[j, output])
            for j in others
            if j != node
        }
        labels = {}
        if label_influence is not None:
            shift = label_influence[:, column] * residuals[:, output]
            labels = {int(state.labels.nodes[j]): float(shift[j]) for j in np.flatnonzero(shift)}
        base = float(state.init_score[output]) + float(parts[-1])
        score = float(scores[node, output])
        explanations.append(
            Explanation(node, output, score, base, own, neighbors, labels, not state.is_classifier)
        )
    return explanations


def _column_contributions(
    state: FittedState, features: Table, nodes: NDArray[np.int64]
) -> tuple[list[str], Array]:
    """Names of the trees' columns, and what each adds to f at the nodes; the mean comes last."""
    rows = Table(features.values[nodes], features.names, features.categorical, features.origin)
    contributions = state.ensemble.contributions(rows)
    if contributions is None:  # a learner without TreeSHAP: all columns together
        scores = state.scores[nodes]
        return ["all columns"], np.stack([scores, np.zeros_like(scores)], axis=2)
    return list(features.names), np.asarray(contributions, dtype=np.float64)


def _label_influence(state: FittedState, unit_vectors: Array) -> tuple[Array, Array | None]:
    """Residuals at the labels, and the weight of each in the field at each node."""
    labels = state.labels
    propagated = state.init_score + state.propagated_scores
    if not isinstance(state.candidate.labels, LatentField) or state.graph is None:
        return np.zeros((0, 1)), None
    posterior = state.candidate.labels.operator(state.graph, labels.nodes, labels.weight)
    influence = posterior.weight[:, None] * posterior.solve(unit_vectors)[labels.nodes]
    residuals = state.output.label_residuals(propagated[labels.nodes], labels.target)
    if not isinstance(state.output, ClassOutput):
        return residuals, influence
    strength = state.output.calibration.strength
    return strength * residuals[:, -labels.target.shape[1] :], influence if strength else None
