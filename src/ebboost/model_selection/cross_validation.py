"""Cross-validation on a graph: folds hold out labels; every fold sees all rows and edges.

scikit-learn's ``cross_validate`` slices rows, which would remove nodes from the graph. Here the
model is fitted on the complete graph without the labels of a fold, and scored on its nodes.
"""

import sys
from collections.abc import Callable, Iterable, Mapping
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.metrics import check_scoring, log_loss, make_scorer
from sklearn.utils import Tags, _safe_indexing, get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import _check_method_params, _num_samples, has_fit_parameter

from ebboost.boosting.callbacks import unless_interrupted
from ebboost.boosting.losses import regression_loss
from ebboost.data import validation as checks
from ebboost.data.reader import TableReader
from ebboost.data.row_order import RowOrder
from ebboost.data.types import LabelsLike, TableLike
from ebboost.graph import Graphs
from ebboost.graph.ids import as_row_numbers
from ebboost.model_selection.splitters import Fold, Positions, RandomState, labelled_folds

Scorer = Callable[..., float]
#: Arguments of ``fit`` with an entry for each row, labelled or not.
OF_ALL_ROWS = ("offset", "exposure", "groups", "coordinates", "time")
Scoring = str | Scorer | Iterable[str | Scorer] | Mapping[str, str | Scorer]


def cross_validate(
    model: BaseEstimator,
    X: TableLike,
    y: LabelsLike,
    graph: Graphs | None = None,
    *,
    cv: object = 5,
    scoring: Scoring | None = None,
    groups: ArrayLike | None = None,
    time: ArrayLike | None = None,
    random_state: RandomState = None,
    fit_parameters: Mapping[str, Any] | None = None,
    return_predictions: bool = False,
    verbose: int = 0,
) -> dict[str, NDArray[Any]]:
    """Fit and score a model on folds that hold out labels and leave the graph complete.

    Parameters
    ----------
    model : estimator
        An ``EBBSRegressor`` or ``EBBSClassifier``, or without a graph any scikit-learn estimator.
        It is cloned.
    X : table of shape (n_nodes, n_features)
        All nodes, labelled or not.
    y : array-like of shape (n_nodes,)
        Labels, NaN or None where unknown; such nodes are never scored.
    graph : Graph or dict of Graph, optional
        Edges between the rows of X.
    cv : int, splitter, iterable, GraphBlockFold or TimeSplit, default=5
        A number of random folds (stratified for classifiers), a scikit-learn splitter such as
        ``GroupKFold(5)``, pairs (train, test) of row positions or masks, or
        :class:`GraphBlockFold` to measure predictions of a new region rather than of gaps, or
        :class:`TimeSplit` for those of the future.
    scoring : str, callable, list or dict, optional
        As in scikit-learn: the name of a scorer, a scorer from ``make_scorer``, a function
        ``scorer(estimator, nodes, y)`` where ``nodes`` are the held-out rows, a list of names or a
        dict of name to scorer. Greater is better: errors are negative. ``"d2"`` and
        ``"neg_deviance"`` are the share of the deviance explained and the mean deviance of the
        model's own loss. Default: R² and root mean squared error, of counts and amounts D² and
        deviance, of classes accuracy and log loss.
    groups : array-like of shape (n_nodes,), optional
        The group of each node, for a grouped splitter.
    time : column name or array-like of shape (n_nodes,), optional
        The time of each node, for :class:`TimeSplit`; also passed to ``model.fit``, if it takes it.
    random_state : int, RandomState or None, default=None
        Fixes the random folds of an integer ``cv``.
    fit_parameters : dict, optional
        More arguments of ``model.fit``. Those with an entry for each row of X, such as
        ``sample_weight``, are restricted to the training rows, but not those of all nodes, such as
        ``exposure``.
    return_predictions : bool, default=False
        Whether to return the out-of-fold predictions too.
    verbose : int, default=0
        1 writes a line for each fold to standard error.

    Returns
    -------
    dict of ndarray
        ``"fit_time"``, ``"score_time"`` and ``"test_<name>"`` with an entry for each fold; with a
        single scorer also ``"test_score"``. With ``return_predictions``, ``"predictions"`` has an
        entry for each node: NaN (None for classes) where there is no label.

    Examples
    --------
    >>> import ebboost as eb, numpy as np
    >>> points = np.random.default_rng(0).random((300, 2))
    >>> X, y = points[:, :1], np.sin(6 * points[:, 0])
    >>> g = eb.Graph.build_knn(points, k=6)
    >>> m = eb.EBBSRegressor(n_estimators=30, n_folds=1, n_jobs=1, random_state=0)
    >>> gaps = eb.cross_validate(m, X, y, g, scoring="r2", random_state=0)
    >>> bool(gaps["test_score"].mean() > 0.9)
    True
    >>> blocks = eb.GraphBlockFold(4, random_state=0)
    >>> eb.cross_validate(m, X, y, g, scoring="r2", cv=blocks)["test_score"].shape
    (4,)
    """
    n_rows = _num_samples(X)
    classifier = is_classifier(model)
    checks.check_graph(graph, n_rows, X)
    takes_nodes = has_fit_parameter(model, "nodes")
    arguments = dict(fit_parameters or {})
    _check_fit_parameters(model, graph, arguments, takes_nodes)
    RowOrder(X, graph).check(y=y, groups=groups, time=time, **arguments)
    name = type(model).__name__
    nodes, values, _ = checks.labelled_nodes(y, None, None, n_rows, classifier, name)
    if time is not None:
        time = checks.time_column(time, TableReader().fit(X))
        arguments |= {"time": time} if takes_nodes else {}
    split = {"stratify": classifier, "groups": groups, "time": time, "random_state": random_state}
    folds = labelled_folds(cv, nodes, values, graph, n_rows, **split)
    if return_predictions:
        _check_held_out_once(folds)
    truth: NDArray[Any] = np.empty(n_rows, dtype=values.dtype)
    truth[nodes] = values
    classes = np.unique(values) if classifier else None
    scorer = _multiple_scorer(scoring, model, classes)
    missing = {"fill_value": None, "dtype": object} if classifier else {"fill_value": np.nan}
    predictions = np.full(n_rows, **missing)
    rows = []
    for number, (train, test) in enumerate(folds, start=1):
        start = perf_counter()
        try:
            fitted = _fit(model, X, truth, graph, train, takes_nodes, arguments)
            fit_end = perf_counter()
            fold = _NodePredictor(fitted, None if takes_nodes else X, classes)
            scores = {name: float(value) for name, value in scorer(fold, test, truth[test]).items()}
            if return_predictions:
                predictions[test] = fold.predict(test)
        except Exception as error:
            error.add_note(f"In fold {number} of {len(folds)}, with {train.size} training nodes.")
            raise
        end = perf_counter()
        rows.append({"fit_time": fit_end - start, "score_time": end - fit_end})
        rows[-1] |= {f"test_{name}": value for name, value in scores.items()}
        if verbose:
            text = "  ".join(f"{name} {value:.4g}" for name, value in scores.items())
            sys.stderr.write(f"fold {number}/{len(folds)}  {text}  {end - start:.1f} s\n")
    result = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    if isinstance(scoring, str):
        result["test_score"] = result[f"test_{scoring}"]
    return result | ({"predictions": predictions} if return_predictions else {})


def _fit(
    model: BaseEstimator,
    X: TableLike,
    truth: NDArray[Any],
    graph: Graphs | None,
    train: Positions,
    takes_nodes: bool,
    arguments: dict[str, Any],
) -> BaseEstimator:
    """A clone of the model, fitted on the labels of the training nodes."""
    fitted = clone(model)
    of_all_rows = {
        name: arguments[name] for name in OF_ALL_ROWS if takes_nodes and name in arguments
    }
    arguments = _check_method_params(X, arguments, train) | of_all_rows
    if takes_nodes:
        fitted.fit(X, truth[train], graph=graph, nodes=as_row_numbers(train), **arguments)
    else:
        fitted.fit(_safe_indexing(X, train), truth[train], **arguments)
    return unless_interrupted(fitted)


def _check_fit_parameters(
    model: BaseEstimator, graph: Graphs | None, arguments: dict[str, Any], takes_nodes: bool
) -> None:
    if not takes_nodes and graph is not None:
        raise TypeError(
            f"{type(model).__name__}.fit takes no graph: use EBBSRegressor or EBBSClassifier, "
            "or leave graph out."
        )
    is_set = "cross_validate sets it. Validation nodes are drawn from the training nodes of a fold."
    is_one = "a folder of checkpoints belongs to one fit, and each fold is another."
    reasons = dict.fromkeys(("nodes", "graph", "eval_set"), is_set)
    reasons |= dict.fromkeys(("checkpoint", "resume"), is_one)
    for name in arguments if takes_nodes else ():
        if name in reasons:
            raise ValueError(f"fit_parameters must not contain {name!r}: {reasons[name]}")


def _check_held_out_once(folds: list[Fold]) -> None:
    nodes, counts = np.unique(np.concatenate([test for _, test in folds]), return_counts=True)
    if counts.max() > 1:
        raise ValueError(
            "return_predictions needs each node held out once, cv holds out row "
            f"{int(nodes[counts.argmax()])} {int(counts.max())} times: use folds that do not share "
            "test nodes, or leave return_predictions out."
        )


# ---------------------------------------------------------------------- scores


def _multiple_scorer(
    scoring: Scoring | None, model: BaseEstimator, classes: NDArray[Any] | None
) -> Callable[..., dict[str, float]]:
    """A scorer that returns all scores by name and predicts once for all of them."""
    own = OWN_SCORERS if has_fit_parameter(model, "nodes") else {}
    if scoring is None and classes is None:
        has_log_link = bool(own) and regression_loss(getattr(model, "loss", None)).log_link
        scoring = list(own) if has_log_link else ["r2", "neg_root_mean_squared_error"]
    elif scoring is None:
        scoring = ["accuracy", "neg_log_loss"] if hasattr(model, "predict_proba") else ["accuracy"]
    elif isinstance(scoring, str):
        scoring = [scoring]
    elif callable(scoring):
        scoring = {"score": scoring}
    if isinstance(scoring, (list, tuple)):
        others = [name for name in scoring if str(name) not in own]
        if others or not scoring or len(set(scoring)) != len(scoring):
            check_scoring(model, scoring=others or scoring)  # names, each of them once
        scoring = {str(name): name for name in scoring}
    if not isinstance(scoring, Mapping) or not all(
        isinstance(one, str) or callable(one) for one in scoring.values()
    ):
        raise ValueError(
            "scoring must be the name of a scorer such as 'r2', a function "
            "scorer(estimator, nodes, y), a list of names or a dict of name to scorer, got "
            f"{scoring!r}."
        )
    # The scorer of that name needs all classes in each fold; blocks often lack one.
    options = {"greater_is_better": False, "response_method": "predict_proba"}
    loss = make_scorer(log_loss, **options, labels=classes)
    known = own | {"neg_log_loss": loss}
    scorers = {
        name: known.get(one, one) if isinstance(one, str) else one for name, one in scoring.items()
    }
    return check_scoring(model, scoring=scorers)


def _d2(predictor: "_NodePredictor", nodes: Positions, y: NDArray[Any]) -> float:
    """Share of the deviance explained."""
    return float(predictor.fitted.score(None, y, nodes=as_row_numbers(nodes), metric="d2"))


def _minus_deviance(predictor: "_NodePredictor", nodes: Positions, y: NDArray[Any]) -> float:
    """Mean deviance of the model's own loss, negative."""
    return -float(predictor.fitted.score(None, y, nodes=as_row_numbers(nodes), metric="deviance"))


#: Scorers of models of this package, beside those of scikit-learn.
OWN_SCORERS: dict[str, Scorer] = {"d2": _d2, "neg_deviance": _minus_deviance}


def _has(method: str) -> Callable[["_NodePredictor"], bool]:
    return lambda predictor: hasattr(predictor.fitted, method)


def _knows_all_classes(predictor: "_NodePredictor") -> bool:
    """Whether decisions have a column for each class of y."""
    if not hasattr(predictor.fitted, "decision_function"):
        return False
    return predictor.classes is None or len(predictor.fitted.classes_) == predictor.classes.size


class _NodePredictor(BaseEstimator):
    """An estimator for scorers: where they pass rows of X, it takes nodes."""

    def __init__(self, fitted: Any, X: TableLike, classes: NDArray[Any] | None) -> None:
        self.fitted = fitted
        self.X = X
        self.classes = classes
        if classes is not None:
            self.classes_ = classes

    def predict(self, nodes: Positions) -> NDArray[Any]:
        return self._call("predict", nodes)

    @available_if(_has("predict_proba"))
    def predict_proba(self, nodes: Positions) -> NDArray[Any]:
        """Probabilities of all classes of y: 0 for those the fold was not trained on."""
        probabilities = self._call("predict_proba", nodes)
        if self.classes is None or probabilities.shape[1] == self.classes.size:
            return probabilities
        padded = np.zeros((len(probabilities), self.classes.size))
        padded[:, np.searchsorted(self.classes, self.fitted.classes_)] = probabilities
        return padded

    @available_if(_knows_all_classes)
    def decision_function(self, nodes: Positions) -> NDArray[Any]:
        return self._call("decision_function", nodes)

    def _call(self, method: str, nodes: Positions) -> NDArray[Any]:
        predict = getattr(self.fitted, method)
        if self.X is None:
            return np.asarray(predict(nodes=as_row_numbers(nodes)))
        return np.asarray(predict(_safe_indexing(self.X, nodes)))

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Tags:
        return get_tags(self.fitted)
