"""Known labels as evidence for their neighbours, without leaking: error smoothing (15) and what counters its leak."""

from ebboost.boosting.calibration import ProbabilityField, expected_calibration_error, one_hot
from ebboost.boosting.latent_field import Field, FieldObjective, FieldOperator, LeftOutObjective
from ebboost.boosting.losses import Loss, SquaredError
from ebboost.boosting.masked_labels import Masked, MaskedObjective, masked_prediction
from ebboost.boosting.objective import Labels, Objective
from ebboost.graph import Graph
from ebboost.propagation import Propagation, SmoothingOperator

__all__ = [
    "Field",
    "FieldObjective",
    "FieldOperator",
    "LeftOutObjective",
    "Masked",
    "MaskedObjective",
    "ProbabilityField",
    "expected_calibration_error",
    "masked_prediction",
    "objective_for",
    "one_hot",
]


def objective_for(
    labels: Field | Masked | None,
    graph: Graph | None,
    smoother: Propagation,
    loss: Loss,
    training: Labels,
    validation: Labels | None,
    penalty: float,
    seed: int,
) -> Objective:
    """Return the objective that trains with this use of labels."""
    if isinstance(labels, Masked):
        if not isinstance(smoother, SmoothingOperator):
            raise ValueError(
                "labels='masked' smooths labels and errors as if they were scores, for which smoothing must be "
                "linear: use eb.Laplacian(), or labels='field', 'leave-one-out' or 'none'."
            )
        return MaskedObjective(smoother, loss, training, validation, penalty, labels, seed)
    if isinstance(labels, Field) and graph is not None and type(loss) is SquaredError:
        field = labels.on(graph, training.nodes, training.weight)
        kind = LeftOutObjective if labels.left_out else FieldObjective
        return kind(smoother, loss, training, validation, penalty, field)
    return Objective(smoother, loss, training, validation, penalty)
