"""Fit and predict on a cluster, as its users call them."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ebboost._common import Array, seed_of
from ebboost.callbacks import Limit
from ebboost.cluster.engines import as_engine
from ebboost.cluster.tables import Prepared, check_column
from ebboost.cluster.worker import Report, Task, fit_shard, predict_shard
from ebboost.data.labels import Folds, Labels, vars_of
from ebboost.data.neighbors import Places
from ebboost.fit import Data, FoldModel, Run, assemble, combine
from ebboost.fit import fit as core_fit
from ebboost.graph import Graph
from ebboost.graph.ids import as_id_array
from ebboost.learners import XGBoost
from ebboost.model import Component, Model, Unseen
from ebboost.smoothing import Laplacian


def fit(
    estimator: Any,
    prepared: Prepared,
    *,
    target: str,
    features: Sequence[str] | None = None,
    sample_weight: str | None = None,
    offset: str | None = None,
    exposure: str | None = None,
    engine: Any = None,
    gather: bool = True,
    models: str | None = None,
) -> Any:
    """Fit the preset ``"fast"`` to tables that are divided among the workers of a cluster.

    Parameters
    ----------
    estimator : EBBSRegressor or EBBSClassifier
        ``EBBSRegressor.from_preset("fast", learner="xgboost")``, with further parameters. What is
        not supported raises an error before anything is read.
    prepared : Prepared
        The tables, from :func:`prepare`.
    target : str
        The column of nodes with labels, missing where unknown.
    features : list of str, optional
        The columns to learn from. Default: all others than those named here and the id.
    sample_weight, offset, exposure : str, optional
        Columns of nodes, as in ``EBBSRegressor.fit``.
    engine : distributed.Client or Ray, optional
        Where the workers are. Default: one worker in this process.
    gather : bool, default=True
        Return a model with all rows, as a fit on one machine does. False: its trees alone, with
        which :func:`predict` predicts these and other tables on the cluster; no row, edge or score
        reaches this process, but for a sample of the held-out labels.
    models : str, optional
        A folder, which the first worker can write to. A model is written there when it is finished;
        a later fit with the same arguments, by fewer workers too, takes it from there.

    Returns
    -------
    estimator
        The estimator, fitted.

    Examples
    --------
    >>> import ebboost as eb, ebboost.cluster, numpy as np, os, tempfile
    >>> import pyarrow as pa, pyarrow.parquet as pq
    >>> x = np.arange(300.0)
    >>> y = np.where(np.arange(300) % 3, np.sin(x / 20), np.nan)
    >>> folder = tempfile.mkdtemp()
    >>> paths = [os.path.join(folder, name) for name in ("nodes.parquet", "edges.parquet")]
    >>> pq.write_table(pa.table({"x": x, "y": y}), paths[0], row_group_size=100)
    >>> ends = {"source": np.arange(299), "target": np.arange(1, 300)}
    >>> pq.write_table(pa.table(ends), paths[1])
    >>> prepared = ebboost.cluster.prepare(*paths)
    >>> model = eb.EBBSRegressor.from_preset("fast", learner="xgboost", random_state=0)
    >>> model = ebboost.cluster.fit(model, prepared, target="y")  # engine=distributed.Client(...)
    >>> model.predict().shape
    (300,)
    """
    named = {"target": target, "sample_weight": sample_weight, "offset": offset}
    named["exposure"] = exposure
    features = _check(estimator, prepared, named, features)
    task = Task(
        prepared,
        features,
        target,
        sample_weight,
        offset,
        exposure,
        estimator=estimator,
        seed=seed_of(estimator.random_state),
        gathers=gather,
        models=models,
    )
    reports = as_engine(engine).run(fit_shard, task)
    estimator._model = _with_rows(task, reports) if gather else _without_rows(task, reports)
    return estimator


def predict(
    estimator: Any,
    prepared: Prepared,
    *,
    target: str | None = None,
    sample_weight: str | None = None,
    offset: str | None = None,
    exposure: str | None = None,
    folder: str | None = None,
    engine: Any = None,
) -> Any:
    """Predict all nodes on a cluster: those of the fit, or others with edges of their own.

    Parameters
    ----------
    estimator : EBBSRegressor or EBBSClassifier
        Fitted by :func:`fit`, or on one machine without spectral columns and networks.
    prepared : Prepared
    target : str, optional
        The column of known labels, which the latent field uses. Default: none is known.
    sample_weight, offset, exposure : str, optional
        Columns of nodes, as in :func:`fit`.
    folder : str, optional
        Where each worker writes a Parquet file with the id, or row, and the prediction of its
        nodes; for classes also their probabilities. Default: predictions are returned.
    engine : distributed.Client or Ray, optional
        As in :func:`fit`.

    Returns
    -------
    ndarray of shape (n_nodes,) or (n_nodes, n_classes), or list of str
        Predictions, of a classifier probabilities; or the paths of the files.

    Examples
    --------
    >>> import ebboost as eb, ebboost.cluster, numpy as np, os, tempfile
    >>> import pyarrow as pa, pyarrow.parquet as pq
    >>> X = np.arange(90.0)[:, None]
    >>> graph = eb.Graph.from_edges(range(89), range(1, 90))
    >>> model = eb.EBBSRegressor.from_preset("fast", learner="xgboost").fit(X, X[:, 0], graph=graph)
    >>> folder = tempfile.mkdtemp()
    >>> paths = [os.path.join(folder, name) for name in ("nodes.parquet", "edges.parquet")]
    >>> pq.write_table(pa.table({"0": X[:, 0]}), paths[0])  # the column's name at fit
    >>> pq.write_table(pa.table({"source": np.arange(89), "target": np.arange(1, 90)}), paths[1])
    >>> ebboost.cluster.predict(model, ebboost.cluster.prepare(*paths)).shape
    (90,)
    """
    model = estimator.model_
    for one in model.components:
        unsupported = one.features.spectral or one.features.smoothing or one.features.rotation
        if unsupported is not None or not _is_supported(one.smoothing):
            raise ValueError(f"A cluster cannot predict with the member {one.member.name!r}.")
    if (offset is None and exposure is None) != (model.offset is None):
        raise ValueError("Pass offset or exposure if and only if the model was fitted with one.")
    names = {"target": target, "sample_weight": sample_weight}
    names |= {"offset": offset, "exposure": exposure}
    for argument, name in names.items():
        if name is not None:
            check_column(argument, name, prepared.nodes)
    for name in model.reader.names:
        check_column("a feature of the fit,", name, prepared.nodes)
    columns = (model.reader.names, target, sample_weight, offset, exposure)
    task = Task(prepared, *columns, model=_outline(model), folder=folder)
    results = as_engine(engine).run(predict_shard, task)
    return results if folder is not None else np.concatenate(results)


def _is_supported(smoothing: Any) -> bool:
    return smoothing is None or (isinstance(smoothing, Laplacian) and smoothing.normalized)


def _check(
    estimator: Any, prepared: Prepared, named: dict[str, Any], features: Sequence[str] | None
) -> tuple[str, ...]:
    """Raise an error for what a cluster does not support; return the features."""
    if getattr(type(estimator), "_fit", None) is not core_fit:
        raise TypeError(f"estimator must be EBBSRegressor or EBBSClassifier, got {estimator!r}.")
    estimator._validate_params()
    if not isinstance(prepared, Prepared):
        raise TypeError(f"prepared must be what prepare(nodes, edges) returns, got {prepared!r}.")
    learner = estimator.learner
    if learner != "xgboost" and not isinstance(learner, XGBoost):
        raise ValueError(
            f"learner={learner!r} does not train on a cluster: pass 'xgboost' or eb.XGBoost(...)."
        )
    if isinstance(learner, XGBoost):
        learner.check("cpu")
    only = {
        "n_folds": (1, "pass 1, as the preset 'fast' does"),
        "device": ("cpu", "pass 'cpu'"),
        "max_seconds": (None, "leave it out"),
        "class_weight": (None, "pass sample_weight= to cluster.fit"),
    }
    for name, (allowed, remedy) in only.items():
        value = getattr(estimator, name, allowed)
        if value != allowed:
            raise ValueError(f"{name}={value!r} is not supported on a cluster: {remedy}.")
    for name in ("feature_smoothing", "spectral_features"):
        value = getattr(estimator, name)
        if value is not None and not isinstance(value, str):
            raise ValueError(f"{name}={value!r} is not supported on a cluster: leave it out.")
    smoothing = estimator.smoothing
    if smoothing != "auto" and not _is_supported(smoothing):
        raise ValueError(
            f"smoothing={smoothing!r} is not supported on a cluster: use eb.Laplacian with "
            "normalized=True."
        )
    taken = [prepared.id] if prepared.id else []
    for argument, name in named.items():
        if name is not None:
            check_column(argument, name, prepared.nodes)
            if name in taken:
                raise ValueError(f"{argument}={name!r} has another role already.")
            taken.append(name)
    if features is None:
        features = [name for name in prepared.nodes.columns if name not in taken]
    for name in features:
        check_column("features", name, prepared.nodes)
        if name in taken:
            raise ValueError(f"features must not contain {name!r}, which has another role.")
    if not features:
        raise ValueError("nodes has no column to learn from.")
    return tuple(features)


def _joined(reports: Sequence[Report]) -> tuple[Labels, NDArray[np.bool_], Array | None]:
    """The labels of all workers, which are held out, and the offset of these."""
    parts = zip(*(vars_of(one.labels) for one in reports), strict=True)
    labels = Labels(*(np.concatenate(part) for part in parts))
    offsets = [one.held_offset for one in reports if one.held_offset is not None]
    is_held = np.concatenate([one.is_held for one in reports])
    return labels, is_held, np.concatenate(offsets) if offsets else None


def _with_rows(task: Task, reports: Sequence[Report]) -> Model:
    """Return the model with all rows, weighed and assembled as on one machine."""
    first = reports[0]
    labels, is_held, _ = _joined(reports)
    offsets = [one.offset for one in reports if one.offset is not None]
    ids = [one.ids for one in reports if one.ids is not None]
    table = first.reader.table(np.concatenate([one.table.values for one in reports]))
    adjacency = sparse.vstack([one.adjacency for one in reports], format="csr")
    graph = Graph(
        sparse.csr_array(adjacency),
        as_id_array(np.concatenate(ids).tolist(), "ids") if ids else None,
    )
    folds = Folds(labels, (np.flatnonzero(~is_held),), (np.flatnonzero(is_held),))
    data = Data(
        settings=task.estimator,
        reader=first.reader,
        table=table,
        feature_names=np.array(first.reader.names, dtype=object),
        output=first.output,
        folds=folds,
        seed=task.seed,
        places=Places.of_rows(graph),
        offset=np.concatenate(offsets) if offsets else None,
    )
    runs = []
    for number, one in enumerate(first.trained):
        model = FoldModel(
            ensemble=one.ensemble,
            init_score=one.init_score,
            scores=_over_workers(reports, number, "scores"),
            held_out=_over_workers(reports, number, "held_out"),
            evaluation=one.held_out[:0],
            without_field=_over_workers(reports, number, "without_field"),
            n_rounds=one.n_rounds,
            reason=one.reason,
            losses=one.losses,
        )
        rows = np.arange(table.n_rows)
        runs.append(Run(one.parts, one.columns, rows, (model,), one.seconds))
        key = repr(one.parts.features)
        data.shared.update({("columns", key): one.columns, ("features", key): one.features})
    return assemble(data, runs, Limit())


def _without_rows(task: Task, reports: Sequence[Report]) -> Model:
    """Return the model without rows, its members weighed at held-out labels."""
    first = reports[0]
    labels, _, offset = _joined(reports)
    loss, trained = first.output.loss, first.trained
    raw = np.array([_over_workers(reports, k, "held_out") for k in range(len(trained))])
    weights, intercept = np.ones(len(raw)) / len(raw), np.zeros(labels.target.shape[1])
    if labels.size and len(raw) > 1:
        weights, intercept = combine(raw, labels, loss, offset)
    if not weights.any():
        weights[0] = 1e-12  # predictions are the intercept
    none = labels.subset(slice(0))  # type: ignore[arg-type]
    selection = []
    for one, own, weight in zip(trained, raw, weights, strict=True):
        runs = {"weight": float(weight), "rounds": float(one.n_rounds), "seconds": one.seconds}
        mean = labels.mean(0.5 * loss.deviance(own, labels.target)) if labels.size else np.nan
        selection.append({"member": one.parts.member.name, "loss": mean, **runs})
    return Model(
        estimator=type(task.estimator).__name__,
        parameters=task.estimator.get_params(deep=False),
        output=first.output,
        reader=first.reader,
        feature_names=np.array(first.reader.names, dtype=object),
        labels=none,
        components=tuple(
            Component(
                member=one.parts.member,
                weight=float(weight),
                features=one.features,
                columns=one.columns.names,
                origin=one.columns.origin,
                ensemble=one.ensemble,
                init_score=one.init_score,
                scores=raw[0][:0],
                smoothing=one.parts.smoothing,
                field=one.parts.field,
                loss=None,
                rounds=(one.n_rounds,),
            )
            for one, weight in zip(trained, weights, strict=True)
            if weight > 0.0
        ),
        intercept=intercept,
        unseen=Unseen(none.rows, none.target, none.weight, raw[0][:0]),
        selection=tuple(selection),
        gain=None,
        history=trained[0].losses,
        stop_reason=trained[-1].reason,
        places=Places.of_rows(Graph(sparse.csr_array((0, 0)))),
        offset=None if task.offset is None and task.exposure is None else np.zeros((0, 1)),
        raw=raw[0][:0],
    )


def _over_workers(reports: Sequence[Report], number: int, name: str) -> Array:
    """Predictions or scores of one of the models, of the rows of all workers."""
    return np.concatenate([getattr(one.trained[number], name) for one in reports])


def _outline(model: Model) -> Model:
    """Return a model without rows, to send to the workers."""
    parts = (replace(one, scores=one.scores[:0]) for one in model.components)
    none: Any = {"table": None, "places": None, "coordinates": None, "spread": None, "offset": None}
    none |= {"geometry": None, "row_labels": None, "raw": model.raw[:0], "labels": None}
    return replace(model, components=tuple(parts), unseen=None, **none)
