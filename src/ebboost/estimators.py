"""The scikit-learn interface: parameters, their documentation, methods of a fitted model."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import KW_ONLY, dataclass, fields, replace
from difflib import get_close_matches
from html import escape
from inspect import signature
from numbers import Integral, Real
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils._param_validation import Interval, Options, StrOptions

from ebboost._common import Array, LabelledRows, LabelsLike, Seed, TableLike, warn_caller
from ebboost.applicability import Applicability, applicability_of, warn_if_far
from ebboost.callbacks import INTERRUPTED, Callback, as_callbacks
from ebboost.data import checks
from ebboost.data.features import NeighborFeatures, SpectralFeatures
from ebboost.data.leakage import warn_of_leakage
from ebboost.explain import Explanation, contribution_rows, explain
from ebboost.field import LatentField
from ebboost.fit import fit
from ebboost.frames import as_frame
from ebboost.graph import Graph
from ebboost.intervals import Intervals, PredictionSets, distribution_of, with_intervals, with_sets
from ebboost.losses import Loss
from ebboost.metrics import MetricFunction, Scored, as_metric
from ebboost.model import Model
from ebboost.predict import names_of, offset_of, order_of, predict_rows, read_table
from ebboost.smoothing import Smoother
from ebboost.summary import summarize

if TYPE_CHECKING:
    from ebboost.learners import Learner

try:
    from sklearn.callback import CallbackSupportMixin
except ImportError:  # before scikit-learn 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Has nothing."""


PARAMETERS = """n_estimators : int, default=3000
        Maximum number of rounds of each model; early stopping usually ends earlier.
    learning_rate : float, optional
        Share of each step that is taken, in (0, 1]. Default: by the number of labels.
    early_stopping : bool or int, default=True
        Stop when the loss at held-out labels has not improved for some rounds (an int says how
        many), and restore the best round. False: one model, trained on all labels for
        ``n_estimators`` rounds.
    n_folds : int, "auto", "random", "distance" or "blocks", default="auto"
        Folds of the labels. Each member is trained once for each fold, without its labels. 1: a
        tenth of the labels is held out, and one or two members are trained once, as in the preset
        "fast". ``"auto"``: 8 up to 5 000 labels, 4 up to 50 000, else 3. They are random, or blocks
        if the rows to predict are farther from labels; ``"random"`` or ``"distance"`` sets which.
        ``"blocks"`` are as wide as labels are correlated, see :class:`BlockFold`.
    max_seconds : float, optional
        End the fit after so many seconds, with the members that are complete by then.
    smoothing : Smoother, "auto" or None, default="auto"
        Propagation of the scores over the graph, e.g. ``eb.Laplacian(lam=2.0, n_steps=5)``. A part
        that you set here or below is that of every member.
    labels : "auto", "none", "field" or LatentField, default="auto"
        How known labels inform the predictions of other rows: ``"field"`` adds a latent Gaussian
        Markov random field (:class:`LatentField`).
    neighbor_features : NeighborFeatures, "auto" or None, default="auto"
        Columns with statistics of the neighbours' columns.
    feature_smoothing : Smoother, "auto" or None, default="auto"
        Smoothed copies [X, P_x X] of the numeric columns; ``"auto"`` adds none.
    spectral_features : SpectralFeatures, "auto" or None, default="auto"
        Columns of the graph's spectral embedding: where in the graph a row is.
    learner : str or Learner, default="auto"
        ``"lightgbm"`` or ``"xgboost"``: trees with settings for the number of labels, and networks.
        ``"auto"``: LightGBM, or XGBoost on a GPU. A learner with parameters, such as
        ``eb.LightGBM(num_leaves=63)``, ``eb.XGBoost`` or ``eb.RandomNetwork``, is that of all
        members.
    loss : {loss}
    categorical_features : "auto" or list, default="auto"
        Columns that hold categories, by name or position; text and category columns always do.
    device : {{"cpu", "cuda"}}, default="cpu"
        Where to train: ``"cuda"`` is an NVIDIA GPU. The fitted model needs none.
    n_jobs : int, optional
        Threads; −1: the cores that this process may use. Default: its physical cores. On small
        tables they train the models of several folds at once.
    random_state : int, RandomState, Generator or None, default=None
        Seed. The same seed, data, versions, machine and ``n_jobs`` give the same predictions.
    verbose : int, default=0
        0: once a fit has taken 10 seconds, say how long it will take, on terminals and in notebooks
        with a bar. 1: also print a line for each member. −1: print nothing."""
LOSSES = """str or Loss, default="auto"
        ``"squared_error"``, ``"huber"``, ``"quantile"``, ``"poisson"``, ``"negative_binomial"``,
        ``"zero_inflated_poisson"``, ``"zero_inflated_negative_binomial"``, ``"hurdle_poisson"``,
        ``"hurdle_negative_binomial"``, ``"gamma"``, ``"tweedie"``, ``"binomial"``, ``"beta"``, or a
        :class:`Loss`."""
CLASS_LOSSES = """"auto", "log_loss" or Loss, default="auto"
        Log loss on one score for two classes, cross-entropy on a score for each class for more."""
CLASS_WEIGHT = """
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes."""
#: Parameters of LightGBM and others, which belong to a learner here.
OF_LEARNERS = {
    "num_leaves",
    "max_depth",
    "min_child_samples",
    "reg_lambda",
    "reg_alpha",
    "subsample",
}
OF_LEARNERS |= {"colsample_bytree", "min_child_weight", "max_bin", "n_units"}
#: Names of other libraries for parameters that are here, too.
OTHER_NAMES = {
    "early_stopping_rounds": "early_stopping",
    "n_iter_no_change": "early_stopping",
    "objective": "loss",
    "categorical_feature": "categorical_features",
    "cat_features": "categorical_features",
    "iterations": "n_estimators",
    "num_boost_round": "n_estimators",
    "eta": "learning_rate",
    "seed": "random_state",
    "num_threads": "n_jobs",
    "verbosity": "verbose",
}


def documented(**parts: str) -> Callable[[type], type]:
    """Insert the shared parameters into the docstring of a class."""

    def fill(cls: type) -> type:
        text = PARAMETERS.format(**parts)
        cls.__doc__ = (cls.__doc__ or "").replace("%(parameters)s", text)
        return cls

    return fill


def learned(path: str, doc: str) -> Any:
    """Return a documented property over the fitted model."""
    read = attrgetter(path)
    return property(lambda self: read(self.model_), doc=doc)


@dataclass(eq=False, repr=False)
class BaseEBBS(CallbackSupportMixin, BaseEstimator):
    """Base class of :class:`EBBSRegressor` and :class:`EBBSClassifier`."""

    _classes: ClassVar[bool] = False
    _fit: ClassVar[Callable[..., Model]] = staticmethod(fit)
    _model: ClassVar[Any] = None  # the fitted model
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_estimators": [Interval(Integral, 1, None, closed="left")],
        "learning_rate": [Interval(Real, 0, 1, closed="right"), None],
        "early_stopping": ["boolean", Interval(Integral, 1, None, closed="left")],
        "n_folds": [
            StrOptions({"auto", "random", "distance", "blocks"}),
            Interval(Integral, 1, None, closed="left"),
        ],
        "max_seconds": [Interval(Real, 0, None, closed="neither"), None],
        "smoothing": [Smoother, StrOptions({"auto"}), None],
        "labels": "no_validation",
        "neighbor_features": [NeighborFeatures, StrOptions({"auto"}), None],
        "feature_smoothing": [Smoother, StrOptions({"auto"}), None],
        "spectral_features": [SpectralFeatures, StrOptions({"auto"}), None],
        "learner": "no_validation",
        "loss": [Loss, str],
        "categorical_features": "no_validation",
        "device": [StrOptions({"cpu", "cuda"})],
        "n_jobs": [Interval(Integral, 1, None, closed="left"), Options(Integral, {-1}), None],
        "random_state": ["random_state", np.random.Generator],
        "verbose": ["boolean", Interval(Integral, -1, None, closed="left")],
    }

    n_estimators: int = 3000
    learning_rate: float | None = None
    _: KW_ONLY
    early_stopping: bool | int = True
    n_folds: int | str = "auto"
    max_seconds: float | None = None
    smoothing: Smoother | str | None = "auto"
    labels: LatentField | str = "auto"
    neighbor_features: NeighborFeatures | str | None = "auto"
    feature_smoothing: Smoother | str | None = "auto"
    spectral_features: SpectralFeatures | str | None = "auto"
    learner: Learner | str = "auto"
    loss: Loss | str = "auto"
    categorical_features: str | Sequence[str | int] = "auto"
    device: str = "cpu"
    n_jobs: int | None = None
    random_state: Seed = None
    verbose: int = 0

    def __new__(cls, *args: Any, **parameters: Any) -> Self:
        """Check the names of parameters before ``__init__`` is called."""
        unknown = sorted(parameters.keys() - signature(cls).parameters.keys())
        if unknown:
            known = [*signature(cls).parameters, *OTHER_NAMES, *OF_LEARNERS]
            near = get_close_matches(unknown[0], known, n=1)
            hint = f"Did you mean {near[0]!r}?" if near else f"See help({cls.__name__})."
            if unknown[0] in OTHER_NAMES:
                hint = f"It is {OTHER_NAMES[unknown[0]]}={parameters[unknown[0]]!r} here."
            elif unknown[0] in OF_LEARNERS:
                value = f"{unknown[0]}={parameters[unknown[0]]!r}"
                hint = f"It belongs to the learner: {cls.__name__}(learner=eb.LightGBM({value}))."
            raise TypeError(f"{cls.__name__} has no parameter {unknown[0]!r}. {hint}")
        return super().__new__(cls)

    @classmethod
    def from_preset(cls, name: str, **changes: Any) -> Self:
        """Return an estimator with the settings of a preset.

        Parameters
        ----------
        name : {"fast", "paper"}
            ``"fast"``: plain trees, and trees with a field and columns of neighbours, each trained
            once. ``"paper"``: the settings of the published experiments, with CatBoost.
        **changes
            Constructor parameters that differ from the preset.

        Returns
        -------
        estimator

        Examples
        --------
        >>> import ebboost as eb
        >>> eb.EBBSRegressor.from_preset("fast", random_state=0).n_folds
        1
        """
        if name == "fast":
            return cls(**{"n_folds": 1, **changes})
        if name == "paper":
            from ebboost.paper import preset

            return preset(cls, changes)
        raise ValueError(f"name must be 'fast' or 'paper', got {name!r}.")

    def fit(
        self,
        X: TableLike,
        y: LabelsLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        graph: Graph | None = None,
        nodes: ArrayLike | None = None,
        eval_set: LabelledRows | None = None,
        coordinates: ArrayLike | None = None,
        groups: Any = None,
        time: ArrayLike | None = None,
        offset: ArrayLike | None = None,
        exposure: ArrayLike | None = None,
        callbacks: Sequence[Callback] = (),
    ) -> Self:
        """Train on a table whose rows are the nodes of ``graph``.

        Ctrl-C ends the training with the best model so far and a warning, or, before there is one,
        with KeyboardInterrupt; a second one raises it at once. A fit that raises leaves the
        estimator unchanged.

        Parameters
        ----------
        X : dataframe, array or sparse matrix of shape (n_rows, n_features)
            Every row, labelled or not: row i is node i of the graph.
        y : array-like
            Labels: of every row, NaN or None where unknown; or of the rows in ``nodes``.
        sample_weight : array-like, optional
            A weight for each entry of ``y``; rows of weight 0 count as unlabelled.
        graph : Graph, optional
            Edges between the rows. Without a graph this is plain gradient boosting.
        nodes : array-like, optional
            The rows that ``y`` belongs to: row numbers, a boolean mask, or ids of the graph. Text,
            and integers beyond the number of rows, are ids. Integers that could be both are row
            numbers, with a warning if all of them are ids of other nodes; ``graph.index_of(ids)``
            returns row numbers that cannot be mistaken. The same holds wherever nodes are named.
            Pandas objects whose index lists the rows of X in another order are rejected.
        eval_set : (nodes, y), optional
            Rows like those to predict, to weigh members and to stop early, besides the labels that
            each fold holds out.
        coordinates : two column names, array of shape (n_rows, 2) or GeoSeries, optional
            In place of ``graph``: rows are connected to their 8 nearest, with weights
            1 / (1 + d / median d). Great-circle distances are used for columns named latitude and
            longitude (or lat, lon, lng) and for geometry in degrees. Coordinates are columns of the
            trees, too: an array or geometry is appended to X as x and y, or longitude and latitude.
            The geometry of a GeoDataFrame is used by default.
        groups : column name, array-like of shape (n_rows,), list of column names or dict, optional
            The node of ``graph`` that each row belongs to, where several rows share one. Without
            ``graph``, groups have independent effects. Several groups, crossed or nested, are a
            list such as ``["shop", "product"]`` or a dict by name. Its values are None for the
            column of that name, levels of the rows, a graph of that column's levels, or a pair of
            levels and graph: ``{"commune": graph, "client": None}``.
        time : column name or array-like of shape (n_rows,), optional
            Numbers or dates. The latest fifth of the labels is predicted from earlier ones, to
            weigh members, to stop early and for intervals.
        offset : array-like of shape (n_rows,), optional
            Added to the score of every row, labelled or not.
        exposure : array-like of shape (n_rows,), optional
            What counts or amounts are proportional to, such as population or insured years: its
            logarithm is the offset. For losses of counts and amounts; for ``"binomial"``, whose
            labels are shares, the number of trials of each row.
        callbacks : sequence of Callback, optional

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
        if isinstance(sample_weight, Graph):
            raise TypeError("Name the graph: fit(X, y, graph=graph).")
        train = self._fit
        if "_skl_callbacks" in vars(self):  # set_callbacks of scikit-learn 1.9
            from ebboost._sklearn_callbacks import fit_with_callbacks as train
        model = train(
            self,
            X=X,
            y=y,
            classes=self._classes,
            graph=graph,
            nodes=nodes,
            eval_set=eval_set,
            coordinates=coordinates,
            groups=groups,
            time=time,
            offset=offset,
            exposure=exposure,
            sample_weight=sample_weight,
            callbacks=as_callbacks(callbacks),
        )
        self._model = model  # type: ignore[misc]
        where = (model.labels, model.table, model.places, model.output.is_classifier)
        warn_of_leakage(*where, lambda: self.feature_importances_)
        if model.stop_reason == INTERRUPTED:
            models = f"{len(model.rounds)} model{'s' * (len(model.rounds) > 1)}"
            rounds = f"{min(model.rounds)} to {max(model.rounds)} rounds"
            warn_caller(f"fit was interrupted: the model is the best so far, {models}, {rounds}.")
        return self

    def predict(
        self,
        X: TableLike = None,
        *,
        graph: Graph | None = None,
        nodes: ArrayLike | None = None,
        attach: Any = None,
        new_labels: LabelledRows | None = None,
        interval: float | None = None,
        groups: Any = None,
        offset: ArrayLike | None = None,
        exposure: ArrayLike | None = None,
    ) -> Any:
        """Predict every fitted row, or the rows of another table.

        Fitted rows are predicted with all labels that ``fit`` was given, also if you pass the same
        table again. A row whose own label is known is predicted with it.

        Parameters
        ----------
        X : table, optional
            Rows to predict; default: those of the fit.
        graph : Graph, optional
            The graph of the rows of ``X``, if it is not that of the fit. Labels of fitted nodes
            with the same ids are used. With ``attach``: edges between new rows.
        nodes : array-like, optional
            Only these rows; see :meth:`fit`.
        attach : (rows, nodes), (rows, nodes, weight), or points of shape (n, 2), optional
            Edges from rows of ``X``, which are new, to fitted nodes (by id, if the graph has ids).
            Predictions of fitted rows do not change. If the model was fitted on coordinates that
            are not columns of ``X``: the coordinates of the new rows.
        new_labels : (nodes, y), optional
            Labels that have become known since the fit; the field uses them without a new fit.
        interval : float, optional
            Also return intervals that cover this share of labels, e.g. 0.9; for classes, sets.
        groups : column name, array-like of shape (n,), list of column names or dict, optional
            The group of each new row, after a fit with groups; new groups have no field. If there
            are several groups: each by the name that it had in ``fit``.
        offset, exposure : array-like, optional
            Of the rows of ``X``, as in :meth:`fit`; needed if the model was fitted with one.

        Returns
        -------
        ndarray of shape (n,), Intervals(prediction, lower, upper), or for classes
        PredictionSets(prediction, contains); these have a method ``to_frame``

        Examples
        --------
        >>> import ebboost as eb, numpy as np
        >>> X = np.random.default_rng(0).normal(size=(200, 2))
        >>> g = eb.Graph.build_knn(X, k=4)
        >>> model = eb.EBBSRegressor(20, random_state=0).fit(X, X[:, 0], graph=g)
        >>> prediction, lower, upper = model.predict(interval=0.9)
        >>> bool((lower <= upper).all())
        True
        >>> model.predict(X[:2] + 0.1, attach=([0, 1], [0, 1])).shape  # new rows, an edge each
        (2,)
        """
        model = self.model_
        predictions = predict_rows(
            model,
            X,
            graph=graph,
            nodes=nodes,
            attach=attach,
            new_labels=new_labels,
            groups=groups,
            offset=offset,
            exposure=exposure,
        )
        warn_if_far(model, predictions)
        if interval is None:
            return model.output.decode(predictions.raw)
        bounds = with_sets if model.output.is_classifier else with_intervals
        result: Any = bounds(model, predictions, interval)
        result.index = names_of(model, X, graph, nodes)
        return result

    def predict_distribution(self, X: TableLike = None, **where: Any) -> Any:
        """Return the predictive distribution of each row, a frozen distribution of scipy.

        The variance adds the noise of the likelihood and the posterior variance of the latent
        field, times a scale that is learned from residuals of labels that were not trained on.
        Numbers have a Student t distribution, amounts a gamma, counts a negative binomial one.

        Parameters
        ----------
        X : table, optional
        **where
            Other arguments as in :meth:`predict`.

        Returns
        -------
        scipy.stats distribution
            With the methods ``mean``, ``std``, ``cdf``, ``ppf`` and others.

        Examples
        --------
        >>> import ebboost as eb, numpy as np
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(400, 2))
        >>> y = X[:, 0] + rng.normal(size=400) * np.exp(X[:, 1])
        >>> g = eb.Graph.build_knn(X[:, :1], k=5)
        >>> model = eb.EBBSRegressor(random_state=0).fit(X, y, graph=g)
        >>> bool(np.corrcoef(model.predict_distribution().std(), X[:, 1])[0, 1] > 0.5)
        True
        """
        if self._classes:
            raise AttributeError("predict_distribution is for numbers: use predict_proba().")
        return distribution_of(self.model_, predict_rows(self.model_, X, **where))

    def score(
        self,
        X: TableLike = None,
        y: LabelsLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        metric: str | MetricFunction | None = None,
        nodes: ArrayLike | None = None,
        **where: Any,
    ) -> float:
        """Return R² of a regressor's predictions, the accuracy of a classifier's, or a metric.

        Parameters
        ----------
        X : table, optional
            As in :meth:`predict`, as other arguments are.
        y : array-like
            Labels; NaN and None are left out.
        sample_weight : array-like, optional
        metric : str or function, optional
            ``"deviance"``, ``"d2"`` (the share of the deviance explained), for numbers also
            ``"r2"``, ``"rmse"``, ``"mae"``, for classes ``"accuracy"``, ``"log_loss"``,
            ``"brier"``, ``"roc_auc"``, ``"average_precision"`` (of the second of two classes, else
            the mean over classes); or a function ``metric(y_true, y_predicted)`` of numbers, or of
            class indices and probabilities.
        nodes : array-like, optional
            Only these rows.
        **where
            ``graph``, ``attach``, ``groups``, ``offset``, ``exposure`` of the rows.

        Returns
        -------
        float

        Examples
        --------
        >>> import ebboost as eb, numpy as np
        >>> X = np.arange(100.0)[:, None]
        >>> model = eb.EBBSRegressor(50, random_state=0).fit(X, X[:, 0])
        >>> model.score(X, X[:, 0]) > 0.9, model.score(X, X[:, 0], metric="mae") < 10.0
        (True, True)
        """
        model = self.model_
        one = as_metric(metric or ("accuracy" if self._classes else "r2"), self._classes)
        predictions = predict_rows(model, X, **where)
        order = order_of(model, X, where.get("graph"))
        truth, rows, weight = checks.scored_labels(
            y, sample_weight, nodes, len(predictions.raw), self._classes, order
        )
        column = model.offset
        if X is not None:
            own = (where.get("offset"), where.get("exposure"))
            column = offset_of(model, *own, len(predictions.raw))
        return one.compute(
            Scored(
                model.output.loss,
                predictions.raw[rows],
                model.output.encode(truth, "y"),
                np.ones(rows.size) if weight is None else weight,
                None if column is None else column[rows],
            )
        )

    def applicability(
        self,
        X: TableLike = None,
        *,
        graph: Graph | None = None,
        nodes: ArrayLike | None = None,
        attach: Any = None,
    ) -> Applicability:
        """Return how far rows are from the labels, and whether errors there are known.

        Parameters
        ----------
        X : table, optional
            New rows; default: those of the fit.
        nodes : array-like, optional
            Only these rows; see :meth:`fit`.
        graph, attach : optional
            The graph, edges or points of new rows, as in :meth:`predict`.

        Returns
        -------
        Applicability(distance, dissimilarity, outside), with a method ``to_frame``

        Examples
        --------
        >>> import ebboost as eb, numpy as np
        >>> X = np.random.default_rng(0).random((300, 2))
        >>> model = eb.EBBSRegressor(20, random_state=0).fit(X, X[:, 0], coordinates=[0, 1])
        >>> model.applicability([[0.5, 0.5], [9.0, 9.0]]).outside.tolist()
        [False, True]
        """
        rows = predict_rows(self.model_, X, graph=graph, nodes=nodes, attach=attach)
        result = applicability_of(self.model_, rows)
        result.index = names_of(self.model_, X, graph, nodes)
        return result

    def summary(self) -> str:
        """Return a description of the fitted model: members, errors, field, intervals.

        Returns
        -------
        str

        Examples
        --------
        >>> import ebboost as eb, numpy as np
        >>> X = np.arange(50.0)[:, None]
        >>> model = eb.EBBSRegressor(5, early_stopping=False, random_state=0).fit(X, X[:, 0])
        >>> print(model.summary())
        EBBSRegressor: 5 rounds
        ended       all rounds were trained
        graph       none given
        intervals   none: every label was trained on
        """
        return summarize(self.model_)

    def save(self, path: str | os.PathLike[str], *, table: bool = True) -> None:
        """Write the fitted model to one file, without pickle; read it with :func:`ebboost.load`.

        Parameters
        ----------
        path : path
        table : bool, default=True
            Store the table fitted on too, which explanations and the columns of neighbours of new
            rows need. Graph and labels are always stored.

        Examples
        --------
        >>> import ebboost as eb, numpy as np, os, tempfile
        >>> X = np.arange(50.0)[:, None]
        >>> model = eb.EBBSRegressor(5, random_state=0).fit(X, X[:, 0])
        >>> path = os.path.join(tempfile.mkdtemp(), "model.ebb")
        >>> model.save(path)
        >>> bool((eb.load(path).predict() == model.predict()).all())
        True
        """
        from ebboost import files

        files.save(self.model_, path, table)

    def plot(self, name: str = "importances", ax: Any = None, **options: Any) -> Any:
        """Draw the model with one of the functions of ``ebboost.plot``.

        Parameters
        ----------
        name : str, default="importances"
            Such as ``"map"``, ``"predicted_vs_true"`` or ``"coverage_by_group"``.
        ax : Axes, optional
            Axes to draw into; by default those of a new figure.
        **options
            Other arguments of that function.

        Returns
        -------
        Axes

        Examples
        --------
        >>> import ebboost as eb, matplotlib
        >>> matplotlib.use("agg")
        >>> X, y, graph, _ = eb.datasets.load_elect80()
        >>> model = eb.EBBSRegressor.from_preset("fast", random_state=0).fit(X, y, graph=graph)
        >>> model.plot("importances").get_xlabel()
        'share of what was learned'
        """
        from ebboost.inspection import plots

        if name not in plots.OF_MODELS:
            raise ValueError(f"name must be one of {', '.join(plots.OF_MODELS)}, got {name!r}.")
        return getattr(plots, name)(self, ax, **options)

    def report(self, path: str | os.PathLike[str], **options: Any) -> None:
        """Write a report on the model, one HTML file: :func:`ebboost.write_report`.

        Parameters
        ----------
        path : path
        **options
            Other arguments of that function.
        """
        from ebboost.inspection.report import write_report

        write_report(self, path, **options)

    def importances(self) -> Any:
        """Return what share of what was learned came from each column, as a dataframe.

        Returns
        -------
        dataframe of pandas, polars or pyarrow, whichever is installed
            ``column``, ``share``, and its parts: of the row's ``own`` values, and of those of
            ``neighbors``; most important first.

        Examples
        --------
        >>> import ebboost as eb, numpy as np
        >>> X = np.random.default_rng(0).normal(size=(200, 2))
        >>> model = eb.EBBSRegressor(20, random_state=0).fit(X, X[:, 1])
        >>> model.importances()["column"].tolist()
        ['x1', 'x0']
        """
        from ebboost.inspection.diagnostics import importances

        rows = importances(self.model_)
        shares = {"share": "share", "own": "own", "neighbors": "of_neighbors"}
        table = {key: [getattr(row, name) for row in rows] for key, name in shares.items()}
        return as_frame({"column": [row.name for row in rows]} | table)

    def explanations(self, nodes: ArrayLike, X: TableLike = None) -> list[Explanation]:
        """Return the predictions of fitted rows as exact sums of contributions, to print or plot.

        Parameters
        ----------
        nodes : array-like
            Rows to explain.
        X : table, optional
            The table fitted on; needed if the model was saved without it.

        Returns
        -------
        list of Explanation
            For each row the contributions of its own columns, of its neighbours' columns and of
            known labels to the score.

        Examples
        --------
        >>> import ebboost as eb, numpy as np
        >>> X = np.arange(60.0)[:, None]
        >>> model = eb.EBBSRegressor(20, labels="none", random_state=0).fit(X, X[:, 0])
        >>> one = model.explanations([30])[0]
        >>> bool(np.isclose(one.base + sum(one.own.values()), model.predict()[30]))
        True
        """
        model = self.model_
        table = model.table if X is None else read_table(model, X)
        if table is not None and table.n_rows != model.n_rows:
            problem = f"X has {table.n_rows} rows but the model was fitted on {model.n_rows}"
            raise ValueError(f"{problem}: pass the table fitted on.")
        order = order_of(model, None, None)
        order.check(X=X)
        rows = checks.node_positions(order.rows(np.atleast_1d(nodes)), model.n_rows)
        return explain(model, rows, table)

    def explain(self, nodes: ArrayLike, X: TableLike = None) -> Any:
        """Return the predictions of fitted rows as a table of contributions that add up to them.

        Parameters
        ----------
        nodes : array-like
            Rows to explain.
        X : table, optional
            The table fitted on; needed if the model was saved without it.

        Returns
        -------
        dataframe of pandas, polars or pyarrow, whichever is installed
            ``node``; ``part``: ``"base"``, ``"offset"``, ``"column"`` (the row's own), ``"column of
            neighbours"``, ``"score of row"`` (the columns of another row, through the propagation)
            or ``"label of row"`` (through the latent field); ``name`` of the column or number of
            the row; ``contribution`` to the score, that is before the inverse link.

        Examples
        --------
        >>> import ebboost as eb, numpy as np
        >>> X = np.arange(60.0)[:, None]
        >>> model = eb.EBBSRegressor(20, labels="none", random_state=0).fit(X, X[:, 0])
        >>> bool(np.isclose(model.explain([30])["contribution"].sum(), model.predict()[30]))
        True
        """
        return as_frame(contribution_rows(self.explanations(nodes, X), self.model_))

    @property
    def model_(self) -> Model:
        """Everything that the fit has learned, with the current ``n_jobs``."""
        if self._model is None:
            raise NotFittedError(
                f"This {type(self).__name__} instance is not fitted yet. Call 'fit' with "
                "appropriate arguments before using this estimator."
            )
        if self._model.parameters.get("n_jobs") != self.n_jobs:
            parameters = {**self._model.parameters, "n_jobs": self.n_jobs}
            self._model = replace(self._model, parameters=parameters)  # type: ignore[misc]
        return self._model

    @classmethod
    def from_model(cls, model: Model) -> Self:
        """Return an estimator with this fitted model.

        Parameters
        ----------
        model : Model

        Returns
        -------
        estimator
        """
        names = signature(cls).parameters
        estimator = cls(
            **{name: value for name, value in model.parameters.items() if name in names}
        )
        estimator._model = model  # type: ignore[misc]
        return estimator

    n_features_in_ = learned("n_features", "Number of columns of X.")
    n_iter_ = learned("n_iter", "Mean number of rounds of the models.")
    rounds_ = learned("rounds", "Number of rounds of each model that has a weight.")
    gain_ = learned(
        "gain",
        "What the graph is worth, a Gain: the error without and with it at labels that neither "
        "trained nor weighed the members; None without a graph.",
    )
    stop_reason_ = learned("stop_reason", "Why training ended.")
    loss_ = learned("output.loss", "The loss, its open parameters estimated from the labels.")
    graph_ = learned("graph", "The graph fitted on.")
    coordinates_ = learned("coordinates", "Points of the fitted rows.")
    history_ = learned("history", "Losses of the rounds of the first model.")

    @property
    def selection_(self) -> Any:
        """The members as a dataframe: loss ± standard error, weight, rounds, seconds."""
        rows = self.model_.selection
        return as_frame({name: [row[name] for row in rows] for name in rows[0]})

    @property
    def estimates_(self) -> Any:
        """Parameters of the field and of the loss with standard errors and 90 % intervals.

        A dataframe with the value in the fit, that of greatest marginal likelihood at labels that
        were held out, and its error: infinite where labels do not tell. Takes seconds when it is
        first read; without rows for three classes and more, and graphs that are not flat.
        """
        from ebboost.uncertainty import Estimate, estimates

        rows = estimates(self.model_)
        names = [one.name for one in fields(Estimate)]
        return as_frame({name: [getattr(row, name) for row in rows] for name in names})

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """Names of the columns of X, where they have names."""
        if self.model_.feature_names is None:
            raise AttributeError("feature_names_in_: X had no column names at fit.")
        return self.model_.feature_names

    @property
    def feature_importances_(self) -> Array:
        """Share of each column of X in the gain of the members, its own and that of neighbours."""
        model = self.model_
        total = np.zeros(model.n_features)
        for one in model.components:
            own = one.features.input_importances(
                one.ensemble.importances(), one.origin, model.n_features
            )
            total += one.weight * own / max(float(own.sum()), 1e-300)
        return total / max(float(total.sum()), 1e-300)

    def __sklearn_is_fitted__(self) -> bool:
        return self._model is not None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags

    def __copy__(self) -> Self:
        other = type(self)(**self.get_params(deep=False))
        other._model = copy(self._model)  # type: ignore[misc]
        return other

    def _repr_html_inner(self) -> str:
        """scikit-learn's diagram and, once fitted, the summary below it."""
        diagram: str = super()._repr_html_inner()
        if not self.__sklearn_is_fitted__():
            return diagram
        style = "margin:0.5em 0 0;font-size:85%;white-space:pre-wrap"
        return f'{diagram}<pre style="{style}">{escape(self.summary())}</pre>'

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)
        return bundle | ({"text/html": self._repr_html_inner()} if "text/html" in bundle else {})


@documented(loss=LOSSES)
@dataclass(eq=False, repr=False)
class EBBSRegressor(RegressorMixin, BaseEBBS):
    """Gradient boosting through a graph, for numbers.

    Parameters
    ----------
    %(parameters)s

    Attributes
    ----------
    model_ : Model
        Everything that the fit has learned. The other attributes read from it.

    Examples
    --------
    >>> import ebboost as eb, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 3))
    >>> g = eb.Graph.build_knn(X[:, :1], k=5)
    >>> y = X[:, 0] + 0.1 * rng.normal(size=300)
    >>> y[100:] = np.nan  # known for a third of the rows
    >>> m = eb.EBBSRegressor(n_estimators=50, random_state=0).fit(X, y, graph=g)
    >>> m.predict().shape
    (300,)
    >>> bool(m.score(None, X[:, 0], nodes=np.arange(100, 300)) > 0.8)
    True
    """

    score = BaseEBBS.score  # that of the mixin takes no graph


@documented(loss=CLASS_LOSSES + CLASS_WEIGHT)
@dataclass(eq=False, repr=False)
class EBBSClassifier(ClassifierMixin, BaseEBBS):
    """Gradient boosting through a graph, for classes.

    Parameters
    ----------
    %(parameters)s

    Attributes
    ----------
    model_ : Model
        Everything that the fit has learned. The other attributes read from it.

    Examples
    --------
    >>> import ebboost as eb, numpy as np
    >>> X = np.arange(100.0)[:, None]
    >>> y = np.array(["low"] * 50 + ["high"] * 50, dtype=object)
    >>> y[::3] = None  # unknown
    >>> g = eb.Graph.build_knn(X, k=2)
    >>> m = eb.EBBSClassifier(n_estimators=20, random_state=0).fit(X, y, graph=g)
    >>> m.predict(nodes=[0, 99]).tolist()
    ['low', 'high']
    """

    _classes: ClassVar[bool] = True
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **BaseEBBS._parameter_constraints,
        "class_weight": [Mapping, StrOptions({"balanced"}), None],
    }

    _: KW_ONLY
    class_weight: Mapping[object, float] | str | None = None

    def predict_proba(self, X: TableLike = None, **where: Any) -> Array:
        """Return the probability of every class, in the order of ``classes_``.

        Parameters
        ----------
        X : table, optional
        **where
            Other arguments as in :meth:`predict`.

        Returns
        -------
        ndarray of shape (n, n_classes)

        Examples
        --------
        >>> import ebboost as eb, numpy as np
        >>> X = np.arange(100.0)[:, None]
        >>> model = eb.EBBSClassifier(20, random_state=0).fit(X, X[:, 0] > 50.0)
        >>> bool(np.allclose(model.predict_proba(X).sum(axis=1), 1.0))
        True
        """
        return self.model_.output.apply_link(predict_rows(self.model_, X, **where).raw)

    score = BaseEBBS.score  # that of the mixin takes no graph
    classes_ = learned("output.classes", "The classes, sorted.")


def load(path: str | os.PathLike[str], classes: Iterable[type] = ()) -> Any:
    """Read a model that :meth:`EBBSRegressor.save` wrote.

    Nothing in a file is run, and everything is checked: a file is rejected, or it predicts.

    Parameters
    ----------
    path : path
    classes : iterable of types, optional
        Your own :class:`Loss`, :class:`Smoother`, :class:`Learner` or estimator classes, if the
        model was fitted with one. They are called with the parameters in the file.

    Returns
    -------
    EBBSRegressor or EBBSClassifier

    Raises
    ------
    ModelFileError
        If the file is not a model file, is damaged, comes from a newer version, or its parts do not
        fit each other.
    """
    classes = tuple(classes) if isinstance(classes, Iterable) else (classes,)
    for kind in classes:
        if not isinstance(kind, type):
            raise TypeError(f"classes must be a list of classes, got {kind!r}.")
    from ebboost import files

    return files.load(path, classes)


__all__ = ["EBBSClassifier", "EBBSRegressor", "Intervals", "PredictionSets", "load"]
