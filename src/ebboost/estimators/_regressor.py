"""Gradient boosting through a graph, for numbers."""

from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score

from ebboost.boosting.losses import Loss, regression_loss
from ebboost.boosting.masked_labels import MaskedLabels, masked_prediction
from ebboost.data import validation as checks
from ebboost.data.labels import Labels
from ebboost.estimators._base import BaseEBBS
from ebboost.graph import Graph, Graphs
from ebboost.learners import CatBoost
from ebboost.propagation import Laplacian

Array = NDArray[np.float64]


class Intervals(NamedTuple):
    """Predictions with the ends of their intervals, one entry per node."""

    prediction: Array
    lower: Array
    upper: Array


class EBBSRegressor(RegressorMixin, BaseEBBS):
    """Gradient boosting through a graph, for numbers.

    Parameters
    ----------
    n_estimators : int, default=1000
        Most rounds; early stopping usually needs fewer.
    learning_rate : float, optional
        Share of each step found by line search that is taken, between 0 and 1. Default: 0.05 below 5 000 labels (not
        for sparse tables), else 0.1; 0.3 for classes.
    smoothing : Smoother, "auto" or None, default="auto"
        How scores travel over the graph, e.g. ``eb.Laplacian(lam=2.0, n_steps=5)``, ``eb.Kernel("diffusion")``, or
        ``eb.Robust()`` where some edges cannot be trusted. None: not at all.
    labels : "auto", "none", "field", "leave-one-out", "masked", LatentField or MaskedLabels, default="auto"
        How known labels speak for their neighbours: see :class:`LatentField`. ``"masked"`` is the published way.
    neighbor_features : NeighborFeatures, "auto" or None, default="auto"
        Whether the trees also see what a node's neighbours look like.
    feature_smoothing : Smoother, "auto" or None, default="auto"
        Whether the trees also see smoothed copies [X, P_x X] of the numeric columns; the paper's regressions used
        ``eb.Laplacian(20.0, 5)``.

        While ``smoothing`` or ``labels`` is ``"auto"``, a few ways of using the graph and the way of not using it run a
        short race on validation nodes, and the winner is trained to the end. Where both are given, ``"auto"`` features
        are none.
    relations : "auto" or dict of float, default="auto"
        For ``graph={"friend": g1, "city": g2}``: what the weights of each relation are multiplied by, e.g.
        ``{"friend": 1.0, "city": 0.2}``; negative where nodes so tied are unlike. ``"auto"`` reads it off the labels.
    learner : str, Learner, regressor or list of regressors, default="lightgbm"
        ``"lightgbm"`` (with settings that suit the number of labels; ``eb.LightGBM()`` has LightGBM's own),
        ``"xgboost"``, ``"catboost"``, one of ``eb.LightGBM``, ``eb.XGBoost``, ``eb.CatBoost`` with parameters, any
        scikit-learn regressor, or a list of them to draw from. CatBoost and scikit-learn cannot split on categories and
        see them target-encoded: where neighbours share a category, smoothing can then carry a label back to its own node.
        With such columns prefer LightGBM or XGBoost.
    loss : str or Loss, default="auto"
        ``"squared_error"``, ``"huber"``, ``"quantile"``, ``"poisson"``, or a :class:`Loss`.
    momentum : bool, "simple", "corrected" or CorrectedMomentum, default=False
        Nesterov's acceleration: far fewer rounds. ``True`` or ``"simple"`` takes one tree a round; ``"corrected"`` is the
        form with a guarantee and takes two (:class:`CorrectedMomentum`).
    penalty : float, default=0.0
        ε of Corollary 1: adds ½ ε ‖f‖² to the loss.
    early_stopping : bool, default=True
        Stop when the loss on validation nodes has not improved for ``n_iter_no_change`` rounds, and keep the best round.
    validation_fraction : float, default=0.1
        Share of the labelled nodes held out for that when ``fit`` gets no ``eval_set``.
    n_iter_no_change : int, optional
        Default: 30 below 5 000 labels, 10 for classes, else 15, in which the loss must also fall by a percent to go on: a
        larger ``n_iter_no_change`` takes the last half percent of accuracy for twice the time.
    categorical_features : "auto" or list, default="auto"
        Columns that hold categories, by name or position; text and category columns always do.
    device : {"cpu", "cuda"}, default="cpu"
        Where the rounds run. ``"cuda"``: on one NVIDIA GPU, with ``learner="xgboost"`` and CuPy (see the page on
        performance). The fitted model is an ordinary one and needs no GPU.
    n_jobs : int, optional
        Threads; -1: the cores that this process may use, as affinity, cgroups, joblib and limits on OpenMP say. Default: one
        for tables of up to four million entries, which gain little from more, else those of them that are physical.
    random_state : int, RandomState or None, default=None
        Fixes what is drawn at random. The same number, data and ``n_jobs`` give the same model, bit for bit.
    verbose : int, default=0
        1 shows a progress bar.

    Attributes
    ----------
    n_iter_ : int
        Rounds in the model: a tree for each output, or two with ``momentum="corrected"``.
    history_ : dict of lists
        ``"training"`` and ``"validation"`` loss, ``"step"``, ``"cosine"`` (between tree and residual) and ``"seconds"`` of
        every round.
    best_candidate_ : str
        The way of using the graph that won the race, and ``selection_`` what each entrant's validation loss was.
    smoothing_, labels_ : Smoother, LatentField or None
        What was chosen, or given.
    ensemble_ : Ensemble
        The trees; ``ensemble_.booster`` is an ordinary LightGBM or XGBoost booster.
    validation_nodes_, validation_target_, validation_prediction_ : ndarray
        The nodes held out, their labels, and the scores predicted there without them.
    graph_ : Graph or None
        The graph fitted on, of several relations their mixture.
    relation_strengths_ : dict or None
        The strength of each relation.
    cluster_ : dict or None
        After a fit on a cluster: how many workers trained, and how often and with how many bytes they spoke to each other,
        beside the histograms of the trees.

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

    def predict(
        self,
        X: Any = None,
        *,
        graph: Graphs | None = None,
        nodes: Any = None,
        new_labels: Any = None,
        interval: Any = None,
    ) -> Any:
        """Predict for every fitted node, or for another table and its graph.

        Fitted nodes are predicted with all labels that ``fit`` was given. Another table, even the one fitted on, comes
        with no labels but those in ``known``. A node whose own label is known is predicted with it.

        Parameters
        ----------
        X : table, optional
            Rows to predict; default: the nodes the model was fitted on.
        graph : Graph or dict of Graph, optional
            The graph of the rows of ``X``; needed if the model was fitted on one.
        nodes : array-like of int or bool, optional
            Only these rows. Of another table only the rows that they need are looked at, as far away as the model's
            smoothing and columns reach; with ``known``, all are.
        new_labels : (nodes, y), optional
            Labels that have become known since the fit: used as evidence for their neighbours, without a new fit.
        interval : float, optional
            Also give intervals that hold this share of the truth, e.g. 0.9. Their width comes from errors at nodes that
            were not trained on: the validation nodes or, below 50 labels, each label when it was left out.

        Returns
        -------
        ndarray of shape (n,), or Intervals(prediction, lower, upper)
        """
        return self._told(self._predicted(X, graph, nodes, new_labels), interval)

    def _told(self, scores: Array, interval: Any) -> Any:
        """Scores in the units of y, with the ends of their intervals if asked for."""
        if interval is not None and not (
            isinstance(interval, Real) and 0.0 < float(interval) < 1.0
        ):
            raise ValueError(
                f"interval must be a number between 0 and 1, such as 0.9, got {interval!r}."
            )
        predicted = self.loss_.inverse_link(scores)[:, 0]
        if interval is None:
            return predicted
        half = self._half_width(float(interval))
        return Intervals(predicted, predicted - half, predicted + half)

    def score(
        self,
        X: Any = None,
        y: Any = None,
        sample_weight: Any = None,
        *,
        graph: Graphs | None = None,
        nodes: Any = None,
    ) -> float:
        """Return R² of the predictions; labels that are NaN are left out."""
        truth, predicted, weight = checks.scored_labels(
            y, sample_weight, nodes, self.predict(X, graph=graph), False
        )
        return float(r2_score(truth, predicted, sample_weight=weight))

    @classmethod
    def _paper(cls) -> dict[str, Any]:
        return {
            "learning_rate": 1.0,  # the published rate is CatBoost's own, and leaves the mean of the residual alone
            "n_iter_no_change": 100,
            "smoothing": Laplacian(2.0, 5),
            "labels": MaskedLabels(from_zero=True),
            "neighbor_features": None,
            "feature_smoothing": Laplacian(20.0, 5),
            "learner": CatBoost(6, shrinkage=0.2),
        }

    def _finished(
        self, scores: Array, smoothed: Array, graph: Graph | None, known: Labels | None
    ) -> Array:
        """Smoothed scores with what known labels say added."""
        if isinstance(self.labels_, MaskedLabels):
            nothing = Labels(np.zeros(0, dtype=np.int64), np.zeros((0, 1)), np.zeros(0))
            operator = self._operator(self.smoothing_, graph, len(scores))
            return masked_prediction(
                self.labels_, operator, scores, known or nothing, self.init_score_
            )
        field = self._field(graph, known)
        if field is None or known is None:
            return smoothed
        return self._heard(
            smoothed, field.posterior_mean(self._said(smoothed[known.nodes], known.target))
        )

    def _said(self, smoothed: Array, target: Array) -> Array:
        """What labels say that the scores of their nodes do not."""
        return target - smoothed

    def _heard(self, smoothed: Array, spread: Array) -> Array:
        """Predictions of nodes with these scores and their share of the field."""
        return smoothed + spread

    def _predicted_fitted_nodes(self) -> Array:
        return self._finished(
            self.scores_, self.init_score_ + self.propagated_scores_, self.graph_, self._training
        )

    def _learn_from_held_out(self, validation: Labels | None, out_of_fold: Array | None) -> None:
        """Keep the errors at labels that were not trained on."""
        self.raw_predictions_ = self._predicted_fitted_nodes()
        truth, predicted, self.conformity_source_ = (
            self._training.target,
            out_of_fold,
            "labelled nodes, each left out once",
        )
        if validation is not None:
            truth, self.conformity_source_ = validation.target, "validation nodes"
            predicted = self.raw_predictions_[validation.nodes]
        if predicted is None:
            self.conformity_scores_, self.conformity_source_ = np.zeros(0), "none"
        else:
            self.conformity_scores_ = np.sort(
                np.abs(truth - self.loss_.inverse_link(predicted))[:, 0]
            )

    def _explained_scores(self) -> Array:
        return self.raw_predictions_

    def _half_width(self, interval: float) -> float:
        """The conformal quantile of the held-out errors: the ⌈(m+1)·level⌉-th smallest, infinite if there is none."""
        errors = self.conformity_scores_
        if not errors.size:
            raise ValueError(
                "interval needs errors at nodes that were not trained on, and this fit kept none: pass eval_set=(nodes, y), "
                "or leave early_stopping=True with at least 10 labels."
            )
        rank = int(np.ceil((errors.size + 1) * interval))
        return float(errors[rank - 1]) if rank <= errors.size else float("inf")

    def _summary_lines(self) -> list[str]:
        if not self.conformity_scores_.size:
            return ["intervals   none: every label was trained on"]
        return [
            f"intervals   90 % within ±{self._half_width(0.9):.4g}, from the errors at {self.conformity_source_}"
        ]

    def _learn_classes(self, values: NDArray[Any]) -> None:
        return

    def _target(self, values: NDArray[Any], name: str) -> Array:
        return np.asarray(values, dtype=np.float64)[:, None]

    def _loss(self, training: Labels) -> Loss:
        loss = regression_loss(self.loss)
        loss.check(training.target)
        return loss.prepared(training.target, training.weight)
