"""The scikit-learn face: checks what the user hands over, sets the parts to work, keeps what they found."""

import os
from collections.abc import Sequence
from typing import Any, Self

import joblib
import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.metrics import accuracy_score, r2_score
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state, compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_feature_names, check_is_fitted

from ebbflow import checks, modelfile
from ebbflow.boosting import boost
from ebbflow.callbacks import Callback, EarlyStopping, History, ProgressBar
from ebbflow.encoding import OrderedTargetEncoder
from ebbflow.features import with_smoothed_columns
from ebbflow.graph import Graph
from ebbflow.learners import as_learner
from ebbflow.losses import LogLoss, Loss, Softmax, regression_loss
from ebbflow.objective import Labels, Objective
from ebbflow.smoothing import IdentityOperator, Laplacian, Smoother, SmoothingOperator
from ebbflow.table import Table, TableReader

Array = NDArray[np.float64]
MIN_LABELS_TO_HOLD_OUT = 50


class _EBBS(BaseEstimator):
    """What regressor and classifier share: everything but the meaning of y."""

    def __init__(
        self,
        n_estimators: int = 1000,
        learning_rate: float = 0.1,
        *,
        smoothing: Smoother | str | None = "auto",
        feature_smoothing: Smoother | None = None,
        learner: Any = "lightgbm",
        loss: Loss | str = "auto",
        momentum: bool = False,
        penalty: float = 0.0,
        early_stopping: bool = True,
        validation_fraction: float = 0.1,
        patience: int = 50,
        categorical_features: Any = "auto",
        device: str = "cpu",
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.smoothing = smoothing
        self.feature_smoothing = feature_smoothing
        self.learner = learner
        self.loss = loss
        self.momentum = momentum
        self.penalty = penalty
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.categorical_features = categorical_features
        self.device = device
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    # ------------------------------------------------------------------ fit

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        graph: Graph | None = None,
        nodes: Any = None,
        eval_set: tuple[Any, Any] | None = None,
        callbacks: Sequence[Callback] = (),
    ) -> Self:
        """Train on a table whose rows are the nodes of ``graph``.

        Parameters
        ----------
        X : dataframe, array or sparse matrix of shape (n_nodes, n_features)
            Every node, labelled or not: row i is node i of the graph.
        y : array-like
            Labels: of every row, with NaN or None where unknown; or of the rows in ``nodes``.
        sample_weight : array-like, optional
            A weight for each entry of ``y``; a node of weight 0 counts as unlabelled.
        graph : Graph, optional
            Which rows influence each other. Without it this is plain gradient boosting.
        nodes : array-like of int or bool, optional
            The rows that ``y`` speaks of.
        eval_set : (nodes, y), optional
            Labelled nodes that are not trained on, to stop early on. Without it, and if ``early_stopping``, a share
            ``validation_fraction`` of the labelled nodes is held out once there are 50 of them.
        callbacks : sequence of Callback, optional

        Returns
        -------
        self
        """
        checks.parameters(self)
        _check_feature_names(self, X, reset=True)
        self._reader = TableReader(self.categorical_features)
        table = self._reader.fit(X)
        self.n_features_in_ = len(table.names)
        checks.graph_fits(graph, table.n_rows, X)
        random = check_random_state(self.random_state)
        seed = int(random.randint(np.iinfo(np.int32).max))

        training, validation = self._labels(y, nodes, eval_set, sample_weight, table.n_rows, seed)
        self.graph_ = graph
        self.smoothing_ = self._chosen_smoothing(graph)
        smoother = self._operator(self.smoothing_, graph, table.n_rows)
        learner = as_learner(self.learner)
        table = self._features_at_fit(table, graph, training, learner.takes_categories, seed)

        self.loss_ = self._loss(training)
        objective = Objective(smoother, self.loss_, training, validation, self.penalty)
        growing = learner.start(
            table, n_outputs=training.target.shape[1], seed=seed, n_jobs=self._threads(), device=self.device
        )
        history, watchers = History(), list(callbacks)
        if self.early_stopping and validation is not None:
            watchers.append(EarlyStopping(self.patience))
        if self.verbose:
            watchers.append(ProgressBar())
        found = boost(
            objective,
            growing,
            n_rounds=self.n_estimators,
            learning_rate=self.learning_rate,
            momentum=self.momentum,
            callbacks=[history, *watchers],
        )
        self.ensemble_ = growing.compile(found.best.weights)
        self.base_ = objective.base
        self.smoothed_ = found.best.smoothed
        self.n_iter_ = len(found.best.weights)
        self.history_ = history.losses
        self.stopped_because_ = found.stopped_because
        self._column_origin = table.origin
        return self

    def _labels(
        self, y: Any, nodes: Any, eval_set: Any, sample_weight: Any, n_rows: int, seed: int
    ) -> tuple[Labels, Labels | None]:
        """Split what is known into labels to train on and labels to stop on."""
        known, values, weight = checks.labelled(y, nodes, sample_weight, n_rows, self)
        self._learn_classes(values)
        validation = None
        if eval_set is not None:
            held_nodes, held_values = checks.evaluation(eval_set, known, n_rows, self)
            validation = Labels(held_nodes, self._target(held_values), np.ones(held_nodes.size))
        elif self.early_stopping and known.size >= MIN_LABELS_TO_HOLD_OUT:
            train, held = self._held_out(values, seed)
            validation = Labels(known[held], self._target(values[held]), weight[held])
            known, values, weight = known[train], values[train], weight[train]
        weight = weight * self._class_weight(values)
        return Labels(known, self._target(values), weight), validation

    def _held_out(self, values: NDArray[Any], seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        everyone = np.arange(values.size)
        train, held = train_test_split(
            everyone, test_size=self.validation_fraction, random_state=seed, stratify=self._strata(values)
        )
        return np.sort(train), np.sort(held)

    def _chosen_smoothing(self, graph: Graph | None) -> Smoother | None:
        if graph is None or self.smoothing is None or graph.n_edges == 0:
            return None
        if isinstance(self.smoothing, Smoother):
            return self.smoothing
        if self.smoothing == "auto":
            return Laplacian()
        raise ValueError(
            f"smoothing must be a smoother such as eb.Laplacian(lam=2.0), 'auto' or None, got {self.smoothing!r}."
        )

    @staticmethod
    def _operator(smoothing: Smoother | None, graph: Graph | None, n_rows: int) -> SmoothingOperator:
        return IdentityOperator(n_rows) if smoothing is None or graph is None else smoothing.on(graph)

    def _features_at_fit(
        self, table: Table, graph: Graph | None, training: Labels, takes_categories: bool, seed: int
    ) -> Table:
        self._encoder: OrderedTargetEncoder | None = None
        if table.categorical and not takes_categories:
            self._encoder = OrderedTargetEncoder()
            table = self._encoder.fit_transform(table, training, seed)
        return self._with_smoothed(table, graph)

    def _with_smoothed(self, table: Table, graph: Graph | None) -> Table:
        if self.feature_smoothing is None or graph is None:
            return table
        if not isinstance(self.feature_smoothing, Smoother):
            raise ValueError(
                f"feature_smoothing must be a smoother such as eb.Laplacian(20.0, 5) or None, got "
                f"{self.feature_smoothing!r}."
            )
        return with_smoothed_columns(table, self.feature_smoothing.on(graph))

    def _threads(self) -> int:
        """Physical cores this process may use (cgroup and affinity respected) unless told otherwise."""
        if self.n_jobs is None or self.n_jobs == -1:
            return int(joblib.cpu_count(only_physical_cores=self.n_jobs is None))
        return int(self.n_jobs)

    # ------------------------------------------------------------------ predict

    def _scores(self, X: Any, graph: Graph | None, nodes: Any) -> Array:
        """Smoothed scores: of the fitted nodes, or of another table and graph."""
        check_is_fitted(self, "ensemble_")
        if X is None:
            if graph is not None:
                raise ValueError("graph was given without X: pass predict(X_new, graph=g_new), or neither.")
            smoothed = self.smoothed_
        else:
            _check_feature_names(self, X, reset=False)
            table = self._reader.read(X)
            checks.same_columns(table, self)
            if self.graph_ is not None and graph is None:
                raise ValueError(
                    "This model was fitted on a graph, so a prediction needs one: call predict() for the fitted nodes, "
                    "or predict(X_new, graph=g_new) with the graph of the new rows."
                )
            checks.graph_fits(graph, table.n_rows, X)
            if self._encoder is not None:
                table = self._encoder.transform(table)
            table = self._with_smoothed(table, graph)
            smoothed = self._operator(self.smoothing_, graph, table.n_rows).apply(self.ensemble_.predict(table))
        if nodes is not None:
            smoothed = smoothed[checks.node_positions(nodes, len(smoothed))]
        return self.base_ + smoothed

    @property
    def feature_importances_(self) -> Array:
        """Share of each column of X in the gain of the trees, its smoothed copy included; adds up to 1."""
        check_is_fitted(self, "ensemble_")
        by_column = self.ensemble_.importances()
        folded: Any = np.bincount(self._column_origin, by_column, self.n_features_in_)
        total = folded.sum()
        return folded / total if total > 0 else folded

    # ------------------------------------------------------------------ save

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to one file, without pickle; read it back with ``ebbflow.load``."""
        check_is_fitted(self, "ensemble_")
        modelfile.save(self, path)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags

    # ------------------------------------------------------------------ what y means

    def _learn_classes(self, values: NDArray[Any]) -> None:
        raise TypeError("use EBBSRegressor or EBBSClassifier")

    def _target(self, values: NDArray[Any]) -> Array:
        raise TypeError("use EBBSRegressor or EBBSClassifier")

    def _loss(self, training: Labels) -> Loss:
        raise TypeError("use EBBSRegressor or EBBSClassifier")

    def _strata(self, values: NDArray[Any]) -> NDArray[Any] | None:
        return None

    def _class_weight(self, values: NDArray[Any]) -> Array | float:
        return 1.0


class EBBSRegressor(RegressorMixin, _EBBS):
    """Gradient boosting through a graph, for numbers.

    Parameters
    ----------
    n_estimators : int, default=1000
        Most rounds; early stopping usually needs fewer.
    learning_rate : float, default=0.1
        Share of each step found by line search that is taken, between 0 and 1.
    smoothing : Smoother, "auto" or None, default="auto"
        How scores travel over the graph, e.g. ``eb.Laplacian(lam=2.0, n_steps=5)``. None: not at all.
    feature_smoothing : Smoother or None, default=None
        Also give the trees smoothed copies [X, P_x X] of the numeric columns; the paper's regressions used
        ``eb.Laplacian(20.0, 5)``.
    learner : str, Learner, regressor or list of regressors, default="lightgbm"
        ``"lightgbm"``, ``"xgboost"``, ``"catboost"``, one of ``eb.LightGBM``, ``eb.XGBoost``, ``eb.CatBoost`` with
        parameters, any scikit-learn regressor, or a list of them to draw from.
    loss : str or Loss, default="auto"
        ``"squared_error"``, ``"huber"``, ``"quantile"``, ``"poisson"``, or a :class:`Loss`.
    momentum : bool, default=False
        Nesterov's acceleration: far fewer rounds.
    penalty : float, default=0.0
        ε of Corollary 1: adds ½ ε ‖f‖² to the loss.
    early_stopping : bool, default=True
        Stop when the loss on validation nodes has not improved for ``patience`` rounds, and keep the best round.
    validation_fraction : float, default=0.1
        Share of the labelled nodes held out for that when ``fit`` gets no ``eval_set``.
    patience : int, default=50
    categorical_features : "auto" or list, default="auto"
        Columns that hold categories, by name or position; text and category columns always do.
    device : "cpu", default="cpu"
    n_jobs : int, optional
        Threads; default: the physical cores that this process may use, -1: all cores.
    random_state : int, RandomState or None, default=None
        Fixes what is drawn at random. The same number, data and ``n_jobs`` give the same model, bit for bit.
    verbose : int, default=0
        1 shows a progress bar.

    Attributes
    ----------
    n_iter_ : int
        Trees in the model.
    history_ : dict of lists
        ``"training"`` and ``"validation"`` loss, ``"step"`` and ``"seconds"`` of every round.
    smoothing_ : Smoother or None
        The smoothing that was used.
    ensemble_ : Ensemble
        The trees; ``ensemble_.booster`` is an ordinary LightGBM or XGBoost booster.
    graph_ : Graph or None
        The graph fitted on.

    Examples
    --------
    >>> import ebbflow as eb, numpy as np
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

    def predict(self, X: Any = None, *, graph: Graph | None = None, nodes: Any = None) -> Array:
        """Predict for every fitted node, or for another table and its graph.

        Parameters
        ----------
        X : table, optional
            Rows to predict; default: the nodes the model was fitted on.
        graph : Graph, optional
            The graph of the rows of ``X``; needed if the model was fitted on one.
        nodes : array-like of int or bool, optional
            Only these rows.
        """
        scores = self._scores(X, graph, nodes)
        return self.loss_.link(scores)[:, 0]

    def score(
        self,
        X: Any = None,
        y: Any = None,
        sample_weight: Any = None,
        *,
        graph: Graph | None = None,
        nodes: Any = None,
    ) -> float:
        """Return R² of the predictions; labels that are NaN are left out."""
        truth, predicted, weight = checks.to_score(y, sample_weight, nodes, self.predict(X, graph=graph), self)
        return float(r2_score(truth, predicted, sample_weight=weight))

    def _learn_classes(self, values: NDArray[Any]) -> None:
        return

    def _target(self, values: NDArray[Any]) -> Array:
        return np.asarray(values, dtype=np.float64)[:, None]

    def _loss(self, training: Labels) -> Loss:
        loss = regression_loss(self.loss)
        loss.check(training.target)
        return loss.prepared(training.target, training.weight)


class EBBSClassifier(ClassifierMixin, _EBBS):
    """Gradient boosting through a graph, for classes.

    Parameters
    ----------
    n_estimators, learning_rate, smoothing, feature_smoothing, learner, momentum, penalty, early_stopping
        As in :class:`EBBSRegressor`, like all other parameters but these two:
    loss : "auto", "log_loss" or Loss, default="auto"
        Log-loss on one score for two classes, cross-entropy on a score per class for more.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes.

    Attributes
    ----------
    classes_ : ndarray
        The classes, sorted.
    n_iter_, history_, smoothing_, ensemble_, graph_
        As in :class:`EBBSRegressor`.

    Examples
    --------
    >>> import ebbflow as eb, numpy as np
    >>> X = np.arange(100.0)[:, None]
    >>> y = np.array(["low"] * 50 + ["high"] * 50, dtype=object)
    >>> y[::3] = None  # unknown
    >>> m = eb.EBBSClassifier(n_estimators=20, random_state=0).fit(X, y, graph=eb.Graph.build_knn(X, k=2))
    >>> m.predict(nodes=[0, 99]).tolist()
    ['low', 'high']
    """

    def __init__(
        self,
        n_estimators: int = 1000,
        learning_rate: float = 0.1,
        *,
        smoothing: Smoother | str | None = "auto",
        feature_smoothing: Smoother | None = None,
        learner: Any = "lightgbm",
        loss: Loss | str = "auto",
        momentum: bool = False,
        penalty: float = 0.0,
        early_stopping: bool = True,
        validation_fraction: float = 0.1,
        patience: int = 50,
        categorical_features: Any = "auto",
        class_weight: Any = None,
        device: str = "cpu",
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(
            n_estimators,
            learning_rate,
            smoothing=smoothing,
            feature_smoothing=feature_smoothing,
            learner=learner,
            loss=loss,
            momentum=momentum,
            penalty=penalty,
            early_stopping=early_stopping,
            validation_fraction=validation_fraction,
            patience=patience,
            categorical_features=categorical_features,
            device=device,
            n_jobs=n_jobs,
            random_state=random_state,
            verbose=verbose,
        )
        self.class_weight = class_weight

    def predict_proba(self, X: Any = None, *, graph: Graph | None = None, nodes: Any = None) -> Array:
        """Probability of every class, in the order of ``classes_``; arguments as in :meth:`predict`."""
        scores = self._scores(X, graph, nodes)
        return self.loss_.link(scores)

    def predict(self, X: Any = None, *, graph: Graph | None = None, nodes: Any = None) -> NDArray[Any]:
        """Predict the class of every fitted node, or of another table and its graph.

        Parameters
        ----------
        X : table, optional
            Rows to predict; default: the nodes the model was fitted on.
        graph : Graph, optional
            The graph of the rows of ``X``; needed if the model was fitted on one.
        nodes : array-like of int or bool, optional
            Only these rows.
        """
        best = self.predict_proba(X, graph=graph, nodes=nodes).argmax(axis=1)
        return np.asarray(self.classes_)[best]

    def score(
        self,
        X: Any = None,
        y: Any = None,
        sample_weight: Any = None,
        *,
        graph: Graph | None = None,
        nodes: Any = None,
    ) -> float:
        """Return the accuracy of the predictions; labels that are None or NaN are left out."""
        truth, predicted, weight = checks.to_score(y, sample_weight, nodes, self.predict(X, graph=graph), self)
        return float(accuracy_score(truth, predicted, sample_weight=weight))

    def _learn_classes(self, values: NDArray[Any]) -> None:
        check_classification_targets(values)
        self.classes_ = np.unique(values)
        if self.classes_.size < 2:
            raise ValueError(
                f"y holds only one class, {self.classes_.tolist()[0]!r}: a classifier needs at least two classes among the "
                "labelled nodes."
            )

    def _target(self, values: NDArray[Any]) -> Array:
        position = np.minimum(np.searchsorted(self.classes_, values), self.classes_.size - 1)
        unknown = self.classes_[position] != values
        if unknown.any():
            raise ValueError(
                f"eval_set holds a class that y does not: {values[unknown][0]!r}. Known are {self.classes_.tolist()}."
            )
        if self.classes_.size == 2 and isinstance(self._plain_loss(), LogLoss):
            return position.astype(np.float64)[:, None]
        return np.eye(self.classes_.size)[position]

    def _plain_loss(self) -> Loss:
        if isinstance(self.loss, Loss):
            return self.loss
        if self.loss not in ("auto", "log_loss", None):
            raise ValueError(f"loss must be 'auto', 'log_loss' or a Loss for a classifier, got {self.loss!r}.")
        return LogLoss() if self.classes_.size == 2 else Softmax()

    def _loss(self, training: Labels) -> Loss:
        return self._plain_loss().prepared(training.target, training.weight)

    def _strata(self, values: NDArray[Any]) -> NDArray[Any] | None:
        counts = np.unique(values, return_counts=True)[1]
        held = int(np.ceil(self.validation_fraction * values.size))
        return values if counts.min() >= 2 and held >= counts.size else None

    def _class_weight(self, values: NDArray[Any]) -> Array | float:
        if self.class_weight is None:
            return 1.0
        weights: Array = compute_sample_weight(self.class_weight, values)
        return weights
