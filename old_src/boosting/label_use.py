"""The objective for each use of known labels: none, the latent field (15), masked labels."""

from ebboost.boosting.field_mode import LikelihoodFieldObjective
from ebboost.boosting.latent_field import FieldObjective, LatentField, LeaveOneOutObjective
from ebboost.boosting.losses import Loss, SquaredError
from ebboost.boosting.masked_labels import MaskedLabels, MaskedObjective
from ebboost.boosting.objective import Objective
from ebboost.data.labels import Labels
from ebboost.data.types import Array
from ebboost.graph import Graph
from ebboost.propagation import Propagation, PropagationOperator


def objective_for(
    label_use: LatentField | MaskedLabels | None,
    graph: Graph | None,
    operator: Propagation,
    loss: Loss,
    labels: Labels,
    validation: Labels | None,
    penalty: float,
    seed: int,
    offset: Array | None = None,
    first_mode: Array | None = None,
) -> Objective:
    """Return the objective for a use of labels; None trains on the meta-loss (7) as it stands.

    The latent field needs a graph, otherwise (7) is used too. ``seed`` draws the masks of
    :class:`MaskedLabels`, which need a linear operator. Leave-one-out residuals need the squared
    error and edges of positive weight. ``offset`` is added to the scores of the nodes.
    ``first_mode`` is that of another objective with the same field, loss and labels.
    """
    if isinstance(label_use, MaskedLabels):
        if not isinstance(operator, PropagationOperator):
            raise ValueError(
                "smoothing must be linear with labels='masked', which smooths labels like scores. "
                "Use smoothing=eb.Laplacian(), or labels='field', 'leave-one-out' or 'none'."
            )
        return MaskedObjective(operator, loss, labels, validation, penalty, label_use, seed)
    if isinstance(label_use, LatentField) and graph is not None:
        field = label_use.operator(graph, labels.nodes, labels.weight)
        if label_use.leave_one_out and field.signed:
            raise ValueError(
                "labels='leave-one-out' needs relations of positive strength; use labels='field'."
            )
        arguments = (operator, loss, labels, validation, penalty, field, offset)
        if type(loss) is not SquaredError:
            return LikelihoodFieldObjective(*arguments, first_mode)
        return (LeaveOneOutObjective if label_use.leave_one_out else FieldObjective)(*arguments)
    return Objective(operator, loss, labels, validation, penalty, offset)
