"""Known labels as evidence for their neighbours, without leaking: error smoothing (15) and what counters its leak."""

from ebboost.boosting.calibration import ProbabilityField, expected_calibration_error
from ebboost.boosting.latent_field import (
    FieldObjective,
    FieldPosterior,
    LatentField,
    LeaveOneOutObjective,
)
from ebboost.boosting.losses import Loss, SquaredError
from ebboost.boosting.masked_labels import MaskedLabels, MaskedObjective, masked_prediction
from ebboost.boosting.objective import Objective
from ebboost.data.labels import Labels
from ebboost.graph import Graph
from ebboost.propagation import Propagation, PropagationOperator

__all__ = [
    "FieldObjective",
    "FieldPosterior",
    "LatentField",
    "LeaveOneOutObjective",
    "MaskedLabels",
    "MaskedObjective",
    "ProbabilityField",
    "expected_calibration_error",
    "masked_prediction",
    "objective_for",
]


def objective_for(
    labels: LatentField | MaskedLabels | None,
    graph: Graph | None,
    smoother: Propagation,
    loss: Loss,
    training: Labels,
    validation: Labels | None,
    penalty: float,
    seed: int,
) -> Objective:
    """Return the objective that trains with this use of labels."""
    if isinstance(labels, MaskedLabels):
        if not isinstance(smoother, PropagationOperator):
            raise ValueError(
                "labels='masked' smooths labels and errors as if they were scores, for which smoothing must be "
                "linear: use eb.Laplacian(), or labels='field', 'leave-one-out' or 'none'."
            )
        return MaskedObjective(smoother, loss, training, validation, penalty, labels, seed)
    if isinstance(labels, LatentField) and graph is not None and type(loss) is SquaredError:
        field = labels.operator(graph, training.nodes, training.weight)
        kind = LeaveOneOutObjective if labels.leave_one_out else FieldObjective
        return kind(smoother, loss, training, validation, penalty, field)
    return Objective(smoother, loss, training, validation, penalty)
