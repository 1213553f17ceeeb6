"""The scikit-learn interface: :class:`EBBSRegressor` and :class:`EBBSClassifier`.

Estimators hold parameters and call the training and prediction code; everything that a fit learns is
one :class:`~ebboost.model.state.FittedState`.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils._param_validation import Interval, Options, StrOptions

from ebboost.boosting.callbacks import Callback, as_callbacks
from ebboost.boosting.latent_field import LatentField
from ebboost.boosting.losses import Loss
from ebboost.boosting.masked_labels import MaskedLabels
from ebboost.boosting.momentum import Momentum
from ebboost.data import validation as checks
from ebboost.data.features import NeighborFeatures
from ebboost.graph import Graphs
from ebboost.learners import CatBoost, as_learner, check_device
from ebboost.model import serialization
from ebboost.model.fitted import FittedModel, learned
from ebboost.model.intervals import with_intervals
from ebboost.model.output import ClassOutput, ClassWeight, NumericOutput
from ebboost.model.predict import predict_raw
from ebboost.propagation import Laplacian, Smoother
from ebboost.training.checkpoint import Checkpoint
from ebboost.training.problem import FitData
from ebboost.training.trainer import Trainer

Array = NDArray[np.float64]

_PARAMETERS = """n_estimators : int, default=1000
        Maximum number of rounds; early stopping usually ends earlier.
    learning_rate : float, optional
        Share of the line-search step that is taken, in (0, 1]. Default: 0.3 for classes; else 0.05
        below 5 000 labels (not for sparse tables) and 0.1 above.
    smoothing : Smoother, "auto" or None, default="auto"
        Propagation of the scores over the graph, e.g. ``eb.Laplacian(lam=2.0, n_steps=5)``,
        ``eb.Kernel("diffusion")``, or ``eb.Robust()`` where some edges are wrong. None: no
        propagation.
    labels : "auto", "none", "field", "leave-one-out", "masked", LatentField or MaskedLabels
        How known labels inform the predictions of other nodes: ``"field"`` adds a latent Gaussian
        Markov random field (:class:`LatentField`), ``"masked"`` is the published procedure (for
        regression). Default: ``"auto"``.
    neighbor_features : NeighborFeatures, "auto" or None, default="auto"
        Columns with statistics of the neighbours' columns.
    feature_smoothing : Smoother, "auto" or None, default="auto"
        Smoothed copies [X, P_x X] of the numeric columns; the paper's regressions use
        ``eb.Laplacian(20.0, 5)``. While ``smoothing`` or ``labels`` is ``"auto"``, candidates with
        and without these parts are compared on validation nodes; where both are given, ``"auto"``
        columns are left out.
    relations : "auto" or dict of float, default="auto"
        For ``graph={{"friend": g1, "city": g2}}``: what the weights of each relation are multiplied
        by, e.g. ``{{"friend": 1.0, "city": 0.2}}``; negative for heterophily. ``"auto"`` estimates
        them from the labels.
    learner : str, Learner, regressor or list of regressors, default="lightgbm"
        ``"lightgbm"`` (with settings for the number of labels; ``eb.LightGBM()`` has LightGBM's
        own), ``"xgboost"``, ``"catboost"``, an ``eb.LightGBM``, ``eb.XGBoost`` or ``eb.CatBoost``
        with parameters, a scikit-learn regressor, or a list of them to draw from. CatBoost and
        scikit-learn get target-encoded categories, which can carry a label back to its own node
        through propagation: prefer LightGBM or XGBoost for tables with categories.
    loss : {loss}
    momentum : bool, "simple", "corrected" or CorrectedMomentum, default=False
        Nesterov acceleration, for fewer rounds. ``True`` and ``"simple"`` grow one tree a round;
        ``"corrected"`` has a convergence guarantee and grows two.
    penalty : float, default=0.0
        ε of Corollary 1: adds ½ ε ‖f‖² to the loss.
    early_stopping : bool, default=True
        Stop when the validation loss has not improved for ``n_iter_no_change`` rounds, and restore
        the best round.
    validation_fraction : float, default=0.1
        Share of the labelled nodes held out for that where ``fit`` gets no ``eval_set``.
    n_iter_no_change : int, optional
        Default: 10 for classes, 30 below 5 000 labels, else 15, in which the loss must also fall by
        1 %.
    categorical_features : "auto" or list, default="auto"
        Columns that hold categories, by name or position; text and category columns always do.{extra}
    device : {{"cpu", "cuda"}}, default="cpu"
        Where to train. ``"cuda"``: one NVIDIA GPU, with ``learner="xgboost"`` and CuPy. The fitted
        model needs no GPU.
    n_jobs : int, optional
        Threads; −1: the cores that this process may use. Default: one for tables of up to four
        million entries, else the physical cores.
    random_state : int, RandomState or None, default=None
        Seed. The same seed, data and ``n_jobs`` give the same model, bit for bit.
    verbose : int, default=0
        1 shows a progress bar."""
_LOSSES = """str or Loss, default="auto"
        ``"squared_error"``, ``"huber"``, ``"quantile"``, ``"poisson"``, or a :class:`Loss`; only
        squared error uses the labels of neighbours."""
_CLASS_LOSSES = """"auto", "log_loss" or Loss, default="auto"
        Log loss on one score for two classes, cross-entropy on a score for each class for more."""
_CLASS_WEIGHT = """
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes."""


def _fill_docstring(**parts: str) -> Callable[[type], type]:
    """Insert the shared parameters into the docstring of a class."""

    def fill(cls: type) -> type:
        text = _PARAMETERS.format(**parts)
        cls.__doc__ = (cls.__doc__ or "").replace("%(parameters)s", text)
        return cls

    return fill


class BaseEBBS(FittedModel):
    """Base class of :class:`EBBSRegressor` and :class:`EBBSClassifier`."""

    _output_type: ClassVar[type[NumericOutput] | type[ClassOutput]]
    _paper_parameters: ClassVar[Mapping[str, Any]]
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_estimators": [Interval(Integral, 1, None, closed="left")],
        "learning_rate": [Interval(Real, 0, 1, closed="right"), None],
        "smoothing": [Smoother, StrOptions({"auto"}), None],
        "labels": [LatentField, MaskedLabels, str],
        "neighbor_features": [NeighborFeatures, StrOptions({"auto"}), None],
        "feature_smoothing": [Smoother, StrOptions({"auto"}), None],
        "relations": [Mapping, StrOptions({"auto"})],
        "learner": "no_validation",
        "loss": [Loss, str],
        "momentum": [Momentum, "boolean", StrOptions({"simple", "corrected"})],
        "penalty": [Interval(Real, 0, 1e30, closed="both")],
        "early_stopping": ["boolean"],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "n_iter_no_change": [Interval(Integral, 1, None, closed="left"), None],
        "categorical_features": "no_validation",
        "device": [StrOptions({"cpu", "cuda"})],
        "n_jobs": [Interval(Integral, 1, None, closed="left"), Options(Integral, {-1}), None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        n_estimators: int = 1000,
        learning_rate: float | None = None,
        *,
        smoothing: Smoother | str | None = "auto",
        labels: LatentField | MaskedLabels | str = "auto",
        neighbor_features: NeighborFeatures | str | None = "auto",
        feature_smoothing: Smoother | str | None = "auto",
        relations: Mapping[str, float] | str = "auto",
        learner: Any = "lightgbm",
        loss: Loss | str = "auto",
        momentum: Momentum | str | bool = False,
        penalty: float = 0.0,
        early_stopping: bool = True,
        validation_fraction: float = 0.1,
        n_iter_no_change: int | None = None,
        categorical_features: Any = "auto",
        device: str = "cpu",
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.smoothing = smoothing
        self.labels = labels
        self.neighbor_features = neighbor_features
        self.feature_smoothing = feature_smoothing
        self.relations = relations
        self.learner = learner
        self.loss = loss
        self.momentum = momentum
        self.penalty = penalty
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.categorical_features = categorical_features
        self.device = device
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @classmethod
    def from_preset(cls, name: str, **changes: Any) -> Self:
        """Return an estimator with the settings of a preset.

        Parameters
        ----------
        name : {"paper"}
            ``"paper"``: the settings of the published experiments, with CatBoost.
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
        if name != "paper":
            raise ValueError(f"name must be 'paper', got {name!r}.")
        return cls(**{**cls._paper_parameters, **changes})

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        graph: Graphs | None = None,
        nodes: Any = None,
        eval_set: tuple[Any, Any] | None = None,
        callbacks: Sequence[Callback] = (),
        checkpoint: str | os.PathLike[str] | Checkpoint | None = None,
        resume: bool = False,
    ) -> Self:
        """Train on a table whose rows are the nodes of ``graph``.

        Ctrl-C ends the training after the current round with a usable model and a warning; a second
        one raises KeyboardInterrupt. A fit that raises leaves the estimator unchanged.

        Parameters
        ----------
        X : dataframe, array, sparse matrix or ParquetTable of shape (n_nodes, n_features)
            Every node, labelled or not: row i is node i of the graph. A Dask dataframe or array is
            trained on by the workers of the current ``distributed.Client`` that hold its rows; needs
            ``learner="xgboost"``.
        y : array-like
            Labels: of every row, NaN or None where unknown; or of the rows in ``nodes``.
        sample_weight : array-like, optional
            A weight for each entry of ``y``; nodes of weight 0 count as unlabelled.
        graph : Graph or dict of Graph, optional
            Edges between the rows, or several relations by name. Without a graph this is plain
            gradient boosting.
        nodes : array-like of int or bool, optional
            The rows that ``y`` belongs to.
        eval_set : (nodes, y), optional
            Validation nodes, for model selection and early stopping. Without it, and with
            ``early_stopping``, a share ``validation_fraction`` of at least 50 labels is held out.
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
        """
        self._validate_params()
        if self.device != "cpu":
            learner = as_learner(self.learner)
            check_device(self.device, learner.devices, learner.name)
        task = (type(self).__name__, self.get_params(deep=False), self._output_type)
        trainer = Trainer(*task, as_callbacks(callbacks), checkpoint, resume)
        self._state = trainer.fit(FitData(X, y, sample_weight, graph, nodes, eval_set))
        return self

    def predict(
        self,
        X: Any = None,
        *,
        graph: Graphs | None = None,
        nodes: Any = None,
        new_labels: Any = None,
        interval: float | None = None,
    ) -> Any:
        """Predict for every fitted node, or for another table and its graph.

        Fitted nodes are predicted with all labels that ``fit`` was given. Another table, even the one
        fitted on, has no labels but those in ``new_labels``. A node whose own label is known is
        predicted with it.

        Parameters
        ----------
        X : table, optional
            Rows to predict; default: the fitted nodes.
        graph : Graph or dict of Graph, optional
            The graph of the rows of ``X``; needed if the model was fitted on one.
        nodes : array-like of int or bool, optional
            Only these rows. Of another table only rows within the reach of propagation and neighbour
            columns are read; with ``new_labels``, all are.
        new_labels : (nodes, y), optional
            Labels that have become known since the fit; the field uses them without a new fit.
        interval : float, optional
            For regressors: also return intervals that cover this share of the truth, e.g. 0.9:
            split conformal, from residuals at validation nodes or, below 50 labels, out of fold.

        Returns
        -------
        ndarray of shape (n,), or Intervals(prediction, lower, upper)
        """
        state = self.state_
        predictions = state.output.decode(predict_raw(state, X, graph, nodes, new_labels))
        return predictions if interval is None else with_intervals(state, predictions, interval)

    def score(
        self,
        X: Any = None,
        y: Any = None,
        sample_weight: Any = None,
        *,
        graph: Graphs | None = None,
        nodes: Any = None,
    ) -> float:
        """Return R² of a regressor's predictions, or the accuracy of a classifier's.

        Parameters
        ----------
        X, graph, nodes
            As in :meth:`predict`.
        y : array-like
            Labels; NaN and None are left out.
        sample_weight : array-like, optional

        Returns
        -------
        float
        """
        predictions = self.predict(X, graph=graph)
        classes = self.state_.is_classifier
        scored = checks.scored_labels(y, sample_weight, nodes, predictions, classes)
        metric = accuracy_score if classes else r2_score
        return float(metric(scored[0], scored[1], sample_weight=scored[2]))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags


@_fill_docstring(loss=_LOSSES, extra="")
class EBBSRegressor(RegressorMixin, BaseEBBS):
    """Gradient boosting through a graph, for numbers.

    Parameters
    ----------
    %(parameters)s

    Attributes
    ----------
    state_ : FittedState
        Everything that the fit has learned; the other attributes are documented properties of it.

    Examples
    --------
    >>> import ebboost as eb, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 3))
    >>> g = eb.Graph.build_knn(X[:, :1], k=5)
    >>> y = X[:, 0] + 0.1 * rng.normal(size=300)
    >>> y[100:] = np.nan  # known for a third of the nodes
    >>> m = eb.EBBSRegressor(n_estimators=50, random_state=0).fit(X, y, graph=g)
    >>> m.predict().shape
    (300,)
    >>> bool(m.score(None, X[:, 0], nodes=np.arange(100, 300)) > 0.8)
    True
    """

    _output_type = NumericOutput
    _paper_parameters: ClassVar[Mapping[str, Any]] = {
        "learning_rate": 1.0,  # the published rate is CatBoost's own
        "n_iter_no_change": 100,
        "smoothing": Laplacian(2.0, 5),
        "labels": MaskedLabels(from_zero=True),
        "neighbor_features": None,
        "feature_smoothing": Laplacian(20.0, 5),
        "learner": CatBoost(6, shrinkage=0.2),
    }

    score = BaseEBBS.score  # that of the mixin takes no graph
    conformity_scores_ = learned("conformity_scores", "Sorted absolute residuals, not trained on.")
    conformity_source_ = learned("conformity_source", "Which labels these residuals are of.")


@_fill_docstring(loss=_CLASS_LOSSES, extra=_CLASS_WEIGHT)
class EBBSClassifier(ClassifierMixin, BaseEBBS):
    """Gradient boosting through a graph, for classes.

    Parameters
    ----------
    %(parameters)s

    Attributes
    ----------
    state_ : FittedState
        Everything that the fit has learned; the other attributes are documented properties of it.

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

    _output_type = ClassOutput
    _paper_parameters: ClassVar[Mapping[str, Any]] = {
        "n_estimators": 200,
        "learning_rate": 1.0,
        "n_iter_no_change": 20,
        "smoothing": Laplacian(2.0, 5),
        "labels": "none",
        "neighbor_features": None,
        "feature_smoothing": None,
        "learner": CatBoost(6),
    }
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **BaseEBBS._parameter_constraints,
        "class_weight": [Mapping, StrOptions({"balanced"}), None],
    }

    def __init__(
        self,
        n_estimators: int = 1000,
        learning_rate: float | None = None,
        *,
        smoothing: Smoother | str | None = "auto",
        labels: LatentField | str = "auto",
        neighbor_features: NeighborFeatures | str | None = "auto",
        feature_smoothing: Smoother | str | None = "auto",
        relations: Mapping[str, float] | str = "auto",
        learner: Any = "lightgbm",
        loss: Loss | str = "auto",
        momentum: Momentum | str | bool = False,
        penalty: float = 0.0,
        early_stopping: bool = True,
        validation_fraction: float = 0.1,
        n_iter_no_change: int | None = None,
        categorical_features: Any = "auto",
        class_weight: ClassWeight = None,
        device: str = "cpu",
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        shared = dict(locals())
        for name in ("self", "__class__", "class_weight"):
            del shared[name]
        super().__init__(**shared)
        self.class_weight = class_weight

    def predict_proba(
        self,
        X: Any = None,
        *,
        graph: Graphs | None = None,
        nodes: Any = None,
        new_labels: Any = None,
    ) -> Array:
        """Return the probability of every class, in the order of ``classes_``.

        Parameters
        ----------
        X, graph, nodes, new_labels
            As in :meth:`predict`.

        Returns
        -------
        ndarray of shape (n, n_classes)
        """
        return predict_raw(self.state_, X, graph, nodes, new_labels)

    score = BaseEBBS.score  # that of the mixin takes no graph
    classes_ = learned("classes", "The classes, sorted.")
    temperature_ = learned("output.calibration.temperature", "Temperature of the scores.")
    label_strength_ = learned("output.calibration.strength", "Weight of the field, from 0 to 1.")
    calibration_error_ = learned(
        "calibration_error", "Expected calibration error on the validation nodes."
    )


def load(path: str | os.PathLike[str], classes: Iterable[type] = ()) -> Any:
    """Read a model that :meth:`EBBSRegressor.save` wrote.

    Nothing in a file is run, and everything is checked: a file is rejected, or it predicts.

    Parameters
    ----------
    path : path
    classes : iterable of types, optional
        Your own :class:`Loss`, :class:`Smoother`, :class:`Learner` or estimator classes, if the model
        was fitted with one. They are called with the parameters in the file.

    Returns
    -------
    EBBSRegressor or EBBSClassifier

    Raises
    ------
    ModelFileError
        If the file is not a model file, is damaged, comes from a newer version, or its parts do not
        fit each other.
    """
    classes = tuple(classes)
    estimators: dict[str, type[BaseEBBS]] = {
        "EBBSRegressor": EBBSRegressor,
        "EBBSClassifier": EBBSClassifier,
    }
    estimators |= {kind.__name__: kind for kind in classes if issubclass(kind, BaseEBBS)}
    state = serialization.load_state(path, classes, estimators)
    return estimators[state.estimator].from_state(state)
