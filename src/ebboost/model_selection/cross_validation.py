"""Cross-validation: folds hide labels; every fold sees all rows and all edges.

scikit-learn's ``cross_validate`` slices rows, which would remove nodes from the graph.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, clone

from ebboost._common import Array, IntArray, LabelsLike, Seed, TableLike
from ebboost.callbacks import INTERRUPTED
from ebboost.data import checks
from ebboost.data.distances import Distances
from ebboost.data.labels import one_hot
from ebboost.estimators import BaseEBBS
from ebboost.fit import Data, read
from ebboost.graph import Graph
from ebboost.graph.ids import as_row_numbers
from ebboost.losses import Softmax
from ebboost.metrics import Metric, MetricFunction, Scored, as_metric
from ebboost.model_selection.splitters import Fold, folds_of
from ebboost.output import Output

#: Arguments of a fit beside X, y and callbacks.
DATA = ["graph", "nodes", "eval_set", "coordinates", "groups", "time", "offset", "exposure"]
DATA += ["sample_weight"]
Scoring = str | MetricFunction | Sequence[str] | Mapping[str, str | MetricFunction]


def cross_validate(
    model: BaseEBBS,
    X: TableLike,
    y: LabelsLike,
    graph: Graph | None = None,
    *,
    cv: Any = 5,
    scoring: Scoring | None = None,
    random_state: Seed = None,
    return_predictions: bool = False,
    return_estimator: bool = False,
    verbose: int = 0,
    **data: Any,
) -> dict[str, Any]:
    """Fit and score a model on folds that hide labels and leave the graph complete.

    Parameters
    ----------
    model : EBBSRegressor or EBBSClassifier
        It is cloned. For other estimators use ``sklearn.model_selection.cross_validate`` with the
        same splitter: :class:`GraphBlockFold` and :class:`TimeSplit` leave out unknown labels.
    X : table of shape (n_rows, n_features)
        Every row, labelled or not.
    y : array-like
        As in ``model.fit``. Rows without a known label are not scored.
    graph : Graph, optional
        Edges between the rows of X.
    cv : int, splitter or iterable, default=5
        A number of random folds (stratified for classes), :class:`GraphBlockFold` to measure
        predictions of a new region rather than of gaps, :class:`TimeSplit` for those of the future,
        a splitter of scikit-learn such as ``GroupKFold(5)``, or pairs (train, test) of row numbers
        or masks.
    scoring : str, callable, list or dict, optional
        Names of metrics, or functions ``metric(y_true, y_predicted)``, as in ``model.score``:
        ``"rmse"`` is the error, not its negative. Default: ``["r2", "rmse"]``, of counts and
        amounts ``["d2", "deviance"]``, of classes ``["accuracy", "log_loss"]``.
    random_state : int, RandomState or None, default=None
        Seed of the random folds of an integer ``cv``.
    return_predictions : bool, default=False
        Return the predictions of held-out rows, too.
    return_estimator : bool, default=False
        Return the fitted models, too.
    verbose : int, default=0
        1 writes a line for each fold to standard error.
    **data
        ``nodes``, ``coordinates``, ``groups``, ``time``, ``offset``, ``exposure`` and
        ``sample_weight`` as in ``model.fit``. Weights count in the scores, too; grouped splitters
        of scikit-learn get the groups.

    Returns
    -------
    dict
        Arrays ``"fit_time"`` and ``"test_<name>"`` with an entry for each fold; of a single metric
        also ``"test_score"``. ``"predictions"`` has an entry for each row, NaN
        (None for classes) where it was not held out; ``"estimator"`` is a list of models.

    Examples
    --------
    >>> import ebboost as eb, numpy as np
    >>> points = np.random.default_rng(0).random((300, 2))
    >>> X, y = points[:, :1], np.sin(6 * points[:, 0])
    >>> g = eb.Graph.build_knn(points, k=6)
    >>> model = eb.EBBSRegressor(30, n_folds=1, random_state=0)
    >>> gaps = eb.cross_validate(model, X, y, g, scoring="r2", random_state=0)
    >>> bool(gaps["test_r2"].mean() > 0.9)
    True
    >>> regions = eb.GraphBlockFold(4, buffer=1, random_state=0)
    >>> eb.cross_validate(model, X, y, g, scoring="r2", cv=regions)["test_r2"].shape
    (4,)
    """
    problem, truth, weight, folds = labels_and_folds(model, X, y, graph, cv, random_state, data)
    output = problem.output
    metrics = named_metrics(scoring, output)
    tested, counts = np.unique(np.concatenate([test for _, test in folds]), return_counts=True)
    if return_predictions and counts.max() > 1:
        row = tested[counts.argmax()]
        raise ValueError(f"return_predictions needs rows held out once, cv holds out {row} again.")
    predictions = np.full(len(truth), np.nan if output.classes is None else None)
    fixed = {name: value for name, value in data.items() if name not in ("nodes", "sample_weight")}
    result: dict[str, list[Any]] = {"fit_time": []} | {f"test_{name}": [] for name in metrics}
    models = []
    for number, (train, test) in enumerate(folds, start=1):
        start = perf_counter()
        fitted = clone(model)
        where = {"graph": graph, "nodes": as_row_numbers(train), **fixed}
        try:
            fitted.fit(X, np.array(truth[train].tolist()), weight[train], **where)
        except Exception as error:
            error.add_note(f"In fold {number} of {len(folds)}, with {train.size} labels.")
            raise
        if fitted.stop_reason_ == INTERRUPTED:
            raise KeyboardInterrupt
        result["fit_time"].append(perf_counter() - start)
        scored = held_out(fitted, test, truth[test], weight[test], output)
        for name, metric in metrics.items():
            result[f"test_{name}"].append(metric.compute(scored))
        predictions[test] = fitted.predict(nodes=as_row_numbers(test))
        models.append(fitted)
        if verbose:
            text = "  ".join(f"{name} {values[-1]:.4g}" for name, values in result.items())
            sys.stderr.write(f"fold {number}/{len(folds)}  {text}\n")
    arrays: dict[str, Any] = {name: np.array(values) for name, values in result.items()}
    if len(metrics) == 1:
        arrays["test_score"] = arrays[f"test_{next(iter(metrics))}"]
    if return_predictions:
        arrays["predictions"] = predictions
    return arrays | ({"estimator": models} if return_estimator else {})


def labels_and_folds(
    model: BaseEBBS,
    X: TableLike,
    y: LabelsLike,
    graph: Graph | None,
    cv: Any,
    random_state: Seed,
    data: Mapping[str, Any],
) -> tuple[Data, NDArray[Any], Array, list[Fold]]:
    """Return the data as a fit reads them, labels (None: unknown) and weights by row, and folds."""
    if not isinstance(model, BaseEBBS):
        raise TypeError(
            f"model must be an EBBSRegressor or EBBSClassifier, got {type(model).__name__}: for "
            "others use sklearn.model_selection.cross_validate(model, X, y, cv=...)."
        )
    model._validate_params()
    classes = isinstance(model, ClassifierMixin)
    problem = read(model, X, y, classes, **dict.fromkeys(DATA) | {"graph": graph, **data})
    rows, output = problem.labels.rows, problem.output
    values = problem.labels.target[:, 0]
    if output.classes is not None:
        values = output.classes[one_hot(problem.labels.target).argmax(axis=1)]
    truth, weight = np.full(problem.table.n_rows, None), np.zeros(problem.table.n_rows)
    truth[rows] = values
    own = output.label_weights(values, getattr(model, "class_weight", None))
    weight[rows] = problem.labels.weight / own
    time, groups = data.get("time"), data.get("groups")
    places = problem.places
    if places is not None and places.groups:
        places = places.in_one_group()
        groups = places.node_of_row
    folds = folds_of(
        cv,
        X,
        truth,
        classes=classes,
        places=places,
        distances=Distances.of(problem.places, problem.coordinates),
        groups=None if groups is None else checks.group_column(X, groups, len(truth)),
        time=None if time is None else checks.time_column(time, problem.table),
        random_state=random_state,
    )
    return problem, truth, weight, folds


def named_metrics(scoring: Scoring | None, output: Output) -> dict[str, Metric]:
    """Return metrics by the names of their scores."""
    if scoring is None:
        scoring = ["d2", "deviance"] if output.loss.log_link else ["r2", "rmse"]
        scoring = scoring if output.classes is None else ["accuracy", "log_loss"]
    if callable(scoring):
        scoring = {"score": scoring}
    if not isinstance(scoring, Mapping):
        names = [scoring] if isinstance(scoring, str) else list(scoring)
        scoring = dict(zip(names, names, strict=True))
    return {name: as_metric(one, output.is_classifier, "scoring") for name, one in scoring.items()}


def held_out(
    fitted: BaseEBBS, rows: IntArray, values: NDArray[Any], weight: Array, every: Output
) -> Scored:
    """Return predictions of rows with their labels; a class that a fold lacks has probability 0."""
    model = fitted.model_
    raw, output = model.raw[rows], model.output
    known, classes = output.classes, every.classes
    if known is not None and classes is not None and known.size < classes.size:
        stated = np.full((rows.size, classes.size), np.finfo(float).tiny)
        stated[:, np.searchsorted(classes, known)] = output.apply_link(raw)
        raw, output = np.log(stated), Output(Softmax(), classes)
    offset = None if model.offset is None else model.offset[rows]
    return Scored(output.loss, raw, output.encode(values, "y"), weight, offset)
