"""What the panels of the report are made from."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebboost.data.labels import one_hot
from ebboost.data.once import lazy_property
from ebboost.data.table import Table
from ebboost.data.types import TableLike
from ebboost.inspection import diagnostics
from ebboost.inspection.diagnostics import Model, Validation
from ebboost.inspection.model_checks import Check, calibration_check, residual_check
from ebboost.model.inputs import fitted_table
from ebboost.model.rows import require_nodes
from ebboost.model.state import FittedState, GraphGain

NO_VALIDATION = (
    "Every label was trained on. With at least 10 labels and early_stopping=True each is predicted "
    "by a model that was not trained on it; or pass eval_set=(nodes, y) to fit."
)
NO_TABLE = (
    "The table is not in this model. Save it with model.save(path, table=True), or pass X to "
    "write_report."
)


@dataclass(frozen=True)
class Context:
    """A fitted model, its table, and its predictions of labels that were not trained on.

    ``plain`` are predictions of plain boosting without the graph, ``compared`` those of the model
    at the same nodes; None without a table or such labels, and for a model that does not use its
    graph.
    """

    model: Model
    state: FittedState
    table: Table | None
    held_out: Validation | None
    plain: Validation | None
    compared: Validation | None

    @classmethod
    def from_model(cls, model: Model, X: TableLike) -> "Context":
        """Return the context of a fitted model; X is its table, if the model does not hold it."""
        state = diagnostics.fitted_state(model)
        require_nodes(state)
        table = fitted_table(state, X)
        held_out = diagnostics.validation(state)
        plain = None
        compared = None
        if held_out is not None and table is not None and state.uses_graph:
            plain = diagnostics.without_graph(model, table)
            compared = held_out.subset(np.isin(held_out.nodes, plain.nodes))
        return cls(model, state, table, held_out, plain, compared)

    @property
    def classes(self) -> NDArray[Any] | None:
        """The classes of a classifier."""
        return self.state.classes

    @lazy_property
    def labels(self) -> NDArray[np.float64]:
        """Known labels: numbers, or positions of classes."""
        target = self.state.labels.target
        if self.classes is None:
            return target[:, 0]
        return one_hot(target).argmax(axis=1).astype(np.float64)

    @lazy_property
    def residual_check(self) -> Check | None:
        """Correlation of signed residuals between neighbours, None if too few are linked."""
        return residual_check(self.state)

    @lazy_property
    def calibration_check(self) -> Check | None:
        """Calibration error of a classifier."""
        return calibration_check(self.state)

    @lazy_property
    def graph_gain(self) -> GraphGain | None:
        """What the graph changes; None where it was not compared."""
        if self.plain is None or self.compared is None:
            return None
        return GraphGain.of_losses(self.plain.loss, self.compared.loss)
