"""The base class of the estimators: parameters, their constraints, and fit."""

import os
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils._param_validation import Interval, Options, StrOptions

from ebboost.boosting.callbacks import Callback, Interrupt, as_callbacks
from ebboost.boosting.latent_field import LatentField
from ebboost.boosting.losses import Loss
from ebboost.boosting.masked_labels import MaskedLabels
from ebboost.boosting.momentum import Momentum
from ebboost.data.coordinates import append_columns, split_geometry
from ebboost.data.features import NeighborFeatures, SpectralFeatures
from ebboost.data.labels import one_hot
from ebboost.data.leakage import COPY, explained_share, within_classes
from ebboost.data.reader import dense_if_narrow
from ebboost.data.row_order import RowOrder
from ebboost.data.types import LabelledNodes, LabelsLike, TableLike
from ebboost.data.warn import warn_caller
from ebboost.graph import Graph, Graphs
from ebboost.learners import as_learner, check_device
from ebboost.model.fitted import FittedModel
from ebboost.model.output import Output
from ebboost.model.serialization import load_state
from ebboost.model.state import FittedState
from ebboost.model.summary import models_text
from ebboost.propagation import Smoother
from ebboost.training.checkpoint import Checkpoint, as_checkpoint
from ebboost.training.problem import FitData
from ebboost.training.settings import Parameters, Settings
from ebboost.training.trainer import Trainer

# Fewest labels for a warning of target leakage, and labels that are looked at.
MIN_LABELS_OF_LEAKAGE = 300
MAX_LABELS_OF_LEAKAGE = 2_000
#: Of more columns, those that trees use most are looked at.
MAX_COLUMNS_OF_LEAKAGE = 100
PRESETS: dict[str, Mapping[str, Any]] = {
    "fast": {"selection": "rules", "n_folds": 1},
    "best": {"selection": "thorough"},
}


class BaseEBBS(FittedModel, Parameters):
    """Base class of :class:`EBBSRegressor` and :class:`EBBSClassifier`."""

    _output_type: ClassVar[type[Output]]
    _paper_parameters: ClassVar[Mapping[str, Any]]
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_estimators": [Interval(Integral, 1, None, closed="left")],
        "learning_rate": [Interval(Real, 0, 1, closed="right"), None],
        "smoothing": [Smoother, StrOptions({"auto"}), None],
        "labels": [LatentField, MaskedLabels, str],
        "neighbor_features": [NeighborFeatures, StrOptions({"auto"}), None],
        "feature_smoothing": [Smoother, StrOptions({"auto"}), None],
        "spectral_features": [SpectralFeatures, StrOptions({"auto"}), None],
        "relations": [Mapping, StrOptions({"auto"})],
        "neighbors": [StrOptions({"auto", "delaunay"}), Interval(Integral, 1, None, closed="left")],
        "learner": "no_validation",
        "loss": [Loss, str],
        "momentum": [Momentum, "boolean", StrOptions({"simple", "corrected"})],
        "penalty": [Interval(Real, 0, 1e30, closed="both")],
        "early_stopping": ["boolean"],
        "eval_metric": [str, callable],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "selection": [StrOptions({"rules", "search", "thorough"})],
        "n_folds": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
        "n_iter_no_change": [Interval(Integral, 1, None, closed="left"), None],
        "categorical_features": "no_validation",
        "device": [StrOptions({"cpu", "cuda"})],
        "n_jobs": [Interval(Integral, 1, None, closed="left"), Options(Integral, {-1}), None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    @classmethod
    def from_preset(cls, name: str, **changes: Any) -> Self:
        """Return an estimator with the settings of a preset.

        Parameters
        ----------
        name : {"fast", "best", "paper"}
            One model with parts selected by rules; the mean of four searches with other folds; the
            settings of the published experiments, with CatBoost.
        **changes
            Constructor parameters that differ from the preset.

        Returns
        -------
        estimator

        Examples
        --------
        >>> import ebboost as eb
        >>> eb.EBBSRegressor.from_preset("paper", n_estimators=200).labels
        MaskedLabels(from_zero=True)
        """
        presets = {**PRESETS, "paper": cls._paper_parameters}
        if name not in presets:
            raise ValueError(f"name must be one of {', '.join(presets)}, got {name!r}.")
        return cls(**{**deepcopy(dict(presets[name])), **changes})

    def fit(
        self,
        X: TableLike,
        y: LabelsLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        graph: Graphs | None = None,
        nodes: ArrayLike | None = None,
        eval_set: LabelledNodes | None = None,
        coordinates: ArrayLike | None = None,
        offset: ArrayLike | None = None,
        exposure: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        time: ArrayLike | None = None,
        causal: bool = False,
        init_model: FittedModel | str | os.PathLike[str] | None = None,
        callbacks: Sequence[Callback] = (),
        checkpoint: str | os.PathLike[str] | Checkpoint | None = None,
        resume: bool = False,
    ) -> Self:
        """Train on a table whose rows are the nodes of ``graph``.

        Ctrl-C ends the training with the best model so far and a warning, or before the first
        rounds are trained with KeyboardInterrupt; a second one raises it at once. A fit that raises
        leaves the estimator unchanged.

        Parameters
        ----------
        X : dataframe, array, sparse matrix or ParquetTable of shape (n_nodes, n_features)
            Every node, labelled or not: row i is node i of the graph. A Dask dataframe or array is
            trained on by the workers of the current ``distributed.Client`` that hold its rows;
            needs ``learner="xgboost"``.
        y : array-like
            Labels: of every row, NaN or None where unknown; or of the rows in ``nodes``.
        sample_weight : array-like, optional
            A weight for each entry of ``y``; nodes of weight 0 count as unlabelled.
        graph : Graph or dict of Graph, optional
            Edges between the rows, or several relations by name. Without a graph this is plain
            gradient boosting.
        nodes : array-like, optional
            The rows that ``y`` belongs to: row numbers, a boolean mask, or ids of the graph. Text,
            and integers beyond the number of rows, are ids. Integers that could be both are row
            numbers, with a warning if all of them are ids of other nodes; ``graph.index_of(ids)``
            returns row numbers that cannot be mistaken. So it is wherever nodes are named. Pandas
            objects whose index lists the rows of X in another order are rejected.
        eval_set : (nodes, y), optional
            Nodes like those to predict, for model selection and early stopping, in addition to the
            labels that each fold holds out.
        groups : column name or array-like of shape (n_rows,), optional
            The node of ``graph`` that each row belongs to, where several rows share one: the latent
            field has a value for each group. Without ``graph``, groups have independent effects.
        coordinates : two column names, array of shape (n_nodes, 2) or GeoSeries, optional
            In place of ``graph``: rows are connected to their nearest, by default with weights
            1 / (1 + d / median d), as the parameter ``neighbors`` says. Great-circle distances are
            used for columns named latitude and longitude (or lat, lon, lng) and for geometry in
            degrees. Coordinates are columns of the trees, too: an array or geometry is appended to
            X as x and y, or longitude and latitude. The geometry of a GeoDataFrame is used by
            default.
        offset : array-like of shape (n_nodes,), optional
            Added to the score of every node, labelled or not.
        exposure : array-like of shape (n_nodes,), optional
            What counts or amounts are proportional to, such as population or insured years: its
            logarithm is the offset. For losses with a log link.
        time : column name or array-like of shape (n_rows,), optional
            Numbers or dates. The latest fifth of the labels is held out for model selection, early
            stopping and intervals; models of all labels are then averaged.
        causal : bool, default=False
            With ``time``: use columns and labels of earlier neighbours only, and no propagation.
        init_model : fitted estimator or path of a model file, optional
            Add trees to those of an earlier model, on the same or other rows with the same columns.
            Its parts, loss and classes are used, no others are compared. ``rounds_`` count new
            trees. For ``learner="lightgbm"``. Labels that it was trained on are no fair validation:
            pass new ones as ``y`` or ``eval_set``, or use ``early_stopping=False``.
        callbacks : sequence of Callback, optional
            On a cluster they run in one of the workers, and their attributes are copied back.
        checkpoint : path or Checkpoint, optional
            A folder for this fit, to which its state is written every 30 seconds, or as
            ``eb.Checkpoint`` says.
        resume : bool, default=False
            Resume from the newest checkpoint in that folder, if there is one. The model is, bit for
            bit, that of an uninterrupted fit with as many threads. Other data or parameters raise
            ValueError.

        Returns
        -------
        self

        Examples
        --------
        >>> import ebboost as eb, numpy as np
        >>> X = np.arange(100.0)[:, None]
        >>> y = np.where(np.arange(100) % 3, X[:, 0], np.nan)  # NaN: to predict
        >>> model = eb.EBBSRegressor(20, random_state=0).fit(X, y, graph=eb.Graph.build_knn(X, k=2))
        >>> model.predict(nodes=np.isnan(y)).shape
        (34,)
        """
        self._validate_params()
        if self.device != "cpu":
            learner = as_learner(self.learner)
            check_device(self.device, learner.devices, learner.name)
        task = (type(self).__name__, Settings.parameters_of(self), self._output_type)
        with Interrupt() as interrupt:
            order = RowOrder(X, graph if groups is None else None)
            nodes = order.rows(nodes)
            order.check(nodes, y=y, sample_weight=sample_weight)
            eval_set = order.pair(eval_set, "eval_set")
            of_rows = {"coordinates": coordinates, "offset": offset, "exposure": exposure}
            order.check(**of_rows, groups=groups, time=time)
            trainer = Trainer(*task, as_callbacks(callbacks), checkpoint, resume, interrupt)
            X, geometry = split_geometry(dense_if_narrow(X))
            if graph is None and groups is None:
                X, coordinates = append_columns(X, geometry if coordinates is None else coordinates)
            rows = (graph, nodes, eval_set, coordinates, offset, exposure, groups, time, causal)
            data = FitData(X, y, sample_weight, *rows, self._earlier_state(init_model))
            self._state = replace(trainer.fit(data), row_labels=order.index)
            self._warn_of_leakage()
            if interrupt.is_set:
                self._state = replace(self._state, stop_reason=interrupt.reason)
                warn_caller(f"fit was interrupted: {_what_remains(self._state, checkpoint)}")
        return self

    def _warn_of_leakage(self) -> None:
        """Warn if columns, or the edges, nearly copy y, whatever the model made of them."""
        table = self.state_.table
        graph = self.state_.graph
        labels = self.state_.labels
        if table is None or labels.nodes.size < MIN_LABELS_OF_LEAKAGE:
            return
        nodes = labels.nodes[:MAX_LABELS_OF_LEAKAGE]
        target = labels.target[:MAX_LABELS_OF_LEAKAGE]
        classes = self.state_.is_classifier
        y = one_hot(target).argmax(axis=1).astype(float) if classes else target[:, 0]
        if classes and isinstance(graph, Graph) and within_classes(graph, nodes, y):
            warn_caller(
                "Edges connect nodes of the same class only: if they were built from y, this is "
                "target leakage."
            )
        if table.is_sparse:
            return
        columns = np.arange(len(table.names))
        if columns.size > MAX_COLUMNS_OF_LEAKAGE:
            columns = np.argsort(-self.own_importances_)[:MAX_COLUMNS_OF_LEAKAGE]
        values = table.values[nodes]
        copies = [
            repr(table.names[column])
            for column in columns.tolist()
            if explained_share(values[:, column], y, column in table.categorical, classes) >= COPY
        ]
        if copies:
            others = f", and so do {', '.join(copies[1:5])}" if copies[1:] else ""
            text = f"Column {copies[0]} of X nearly copies y{others}: check for target leakage."
            warn_caller(text)

    def _earlier_state(self, init_model: object) -> FittedState | None:
        """The state of ``init_model``, an estimator or a path."""
        if isinstance(init_model, (str, os.PathLike)):
            estimators = {kind.__name__: kind for kind in (type(self), *BaseEBBS.__subclasses__())}
            return load_state(init_model, (), estimators)
        if not isinstance(init_model, FittedModel | None):
            kind = type(init_model).__name__
            raise TypeError(f"init_model must be a fitted estimator or a path, got {kind}.")
        return None if init_model is None else init_model.state_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags


def _what_remains(
    state: FittedState, checkpoint: str | os.PathLike[str] | Checkpoint | None
) -> str:
    """What the model of an interrupted fit is, and how to go on."""
    text = f"the model is the best so far, {models_text(state.rounds)}."
    where = as_checkpoint(checkpoint, False)
    return text if where is None else f"{text} resume=True continues from {where.folder}."
