"""A prediction taken apart: Σ_j P_ij f(x_j) + Σ_{j∈𝓛} K_ij w_j e_j is a sum over columns, neighbours and labels."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebboost.boosting.latent_field import LatentField
from ebboost.boosting.masked_labels import MaskedLabels
from ebboost.data.labels import one_hot
from ebboost.data.table import Table

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


def explain(model: Any, nodes: NDArray[np.int64], table: Table | None) -> list[Explanation]:
    """Take the predictions of fitted nodes apart, a batch at a time."""
    if isinstance(model.labels_, MaskedLabels):
        raise ValueError(
            "A model trained with labels='masked' has no such sum; fit with labels='field' or 'none'."
        )
    if table is None:
        raise ValueError(
            "This model is without its table, as it was loaded from a file that has none, or fitted from files or on a "
            "cluster: pass it, explain(nodes, X=X), or load a model that was written by save(path, table=True)."
        )
    if model._preparation.encoder is not None and model._fitted_columns is None:
        raise ValueError(ENCODED)
    seen = model._fitted_columns or model._preparation.apply(table, model.graph_)
    return [
        e
        for start in range(0, nodes.size, BATCH)
        for e in _batch(model, nodes[start : start + BATCH], seen)
    ]


def _batch(model: Any, nodes: NDArray[np.int64], seen: Table) -> list[Explanation]:
    n_nodes = len(model.scores_)
    picked = np.zeros((n_nodes, nodes.size))
    picked[nodes, np.arange(nodes.size)] = 1.0
    # Where P is not linear: as the linear map that it is at the fitted scores, which takes them to the smoothed ones.
    reach = (
        model._operator(model.smoothing_, model.graph_, n_nodes)
        .linearize(model.scores_)
        .adjoint(picked)
    )
    scores = model._explained_scores()
    outputs = (
        scores[nodes].argmax(axis=1) if scores.shape[1] > 1 else np.zeros(nodes.size, dtype=int)
    )
    names, columns = _by_column(model, seen, nodes)
    in_sum, said, spread = _labels(model, picked)
    explanations = []
    for place, node in enumerate(nodes.tolist()):
        output = int(outputs[place])
        own_share = float(reach[node, place])
        parts = own_share * columns[place, output]
        others = np.flatnonzero(np.abs(reach[:, place]) > 0)
        neighbors = {
            int(j): float(reach[j, place] * model.scores_[j, output]) for j in others if j != node
        }
        labels = {}
        if spread is not None:
            moved = spread[:, place] * said[:, output]
            labels = {int(model._training.nodes[j]): float(moved[j]) for j in np.flatnonzero(moved)}
        own: dict[str, float] = {}
        for name, value in zip(names, parts[:-1], strict=True):
            own[name] = own.get(name, 0.0) + float(value)
        base = float(model.init_score_[output]) + float(parts[-1])
        explanations.append(
            Explanation(
                node, output, float(scores[node, output]), base, own, neighbors, labels, in_sum
            )
        )
    return explanations


def _by_column(
    model: Any, seen: Table, nodes: NDArray[np.int64]
) -> tuple[list[str], NDArray[np.float64]]:
    """Names of the columns the trees saw, and what each adds to f at the nodes; the mean comes last."""
    rows = Table(seen.values[nodes], seen.names, seen.categorical, seen.origin)
    found = model.ensemble_.contributions(rows)
    if found is None:  # a learner without TreeSHAP: all columns together
        return ["all columns"], np.stack(
            [model.scores_[nodes], np.zeros_like(model.scores_[nodes])], axis=2
        )
    return list(seen.names), np.asarray(found, dtype=np.float64)


def _labels(
    model: Any, picked: NDArray[np.float64]
) -> tuple[bool, NDArray[np.float64], NDArray[np.float64] | None]:
    """Whether labels are in the sum, what each says (its error), and how much of that reaches each node."""
    training, smoothed = model._training, model.init_score_ + model.propagated_scores_
    if not isinstance(model.labels_, LatentField) or model.graph_ is None:
        return True, np.zeros((0, 1)), None
    operator = model.labels_.operator(model.graph_, training.nodes, training.weight)
    reach = operator.weight[:, None] * operator.solve(picked)[training.nodes]
    if not hasattr(model, "classes_"):
        return True, training.target - smoothed[training.nodes], reach
    probability = model.loss_.inverse_link(smoothed / model.temperature_)[training.nodes]
    said = (one_hot(training.target) - probability)[:, -training.target.shape[1] :]
    return False, model.label_strength_ * said, reach if model.label_strength_ else None
