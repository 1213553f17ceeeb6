"""Fit and predict on a cluster, as its users call them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone

from ebboost._common import seed_of
from ebboost.callbacks import Watch
from ebboost.cluster.engines import as_engine
from ebboost.cluster.tables import Prepared, check_column
from ebboost.cluster.worker import Report, Task, fit_shard, predict_shard
from ebboost.data.labels import Folds, Labels, vars_of
from ebboost.data.neighbors import Places
from ebboost.fit import Data, FoldModel, Run, assemble
from ebboost.fit import fit as core_fit
from ebboost.graph import Graph
from ebboost.graph.ids import as_id_array
from ebboost.learners import XGBoost
from ebboost.model import Model, Unseen
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
    >>> import ebboost as eb, numpy as np, os, tempfile
    >>> import pyarrow as pa, pyarrow.parquet as pq
    >>> x = np.arange(300.0)
    >>> y = np.where(np.arange(300) % 3, np.sin(x / 20), np.nan)
    >>> folder = tempfile.mkdtemp()
    >>> paths = [os.path.join(folder, name) for name in ("nodes.parquet", "edges.parquet")]
    >>> pq.write_table(pa.table({"x": x, "y": y}), paths[0], row_group_size=100)
    >>> ends = {"source": np.arange(299), "target": np.arange(1, 300)}
    >>> pq.write_table(pa.table(ends), paths[1])
    >>> prepared = eb.cluster.prepare(*paths)
    >>> model = eb.EBBSRegressor.from_preset("fast", learner="xgboost", random_state=0)
    >>> model = eb.cluster.fit(model, prepared, target="y")  # engine=distributed.Client(...)
    >>> model.predict().shape
    (300,)
    """
    named = {"target": target, "sample_weight": sample_weight, "offset": offset}
    named["exposure"] = exposure
    features = _check(estimator, prepared, named, features, models)
    columns = (features, target, sample_weight, offset, exposure)
    plain, seed = clone(estimator), seed_of(estimator.random_state)  # without an earlier model
    task = Task(prepared, *columns, plain, seed, gather, models)
    model = assembled(task, as_engine(engine).run(fit_shard, task))
    estimator._model = model if gather else without_rows(model)
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
    >>> import ebboost as eb, numpy as np, os, tempfile
    >>> import pyarrow as pa, pyarrow.parquet as pq
    >>> X = np.arange(90.0)[:, None]
    >>> graph = eb.Graph.from_edges(range(89), range(1, 90))
    >>> model = eb.EBBSRegressor.from_preset("fast", learner="xgboost").fit(X, X[:, 0], graph=graph)
    >>> folder = tempfile.mkdtemp()
    >>> paths = [os.path.join(folder, name) for name in ("nodes.parquet", "edges.parquet")]
    >>> pq.write_table(pa.table({"x0": X[:, 0]}), paths[0])
    >>> pq.write_table(pa.table({"source": np.arange(89), "target": np.arange(1, 90)}), paths[1])
    >>> eb.cluster.predict(model, eb.cluster.prepare(*paths)).shape
    (90,)
    """
    model = estimator.model_
    if folder is not None and any(Path(folder).glob("*.parquet")):
        raise FileExistsError(f"folder={folder!r} has Parquet files already: pass another.")
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
        check_column("the model needs", name, prepared.nodes)
    columns = (model.reader.names, target, sample_weight, offset, exposure)
    task = Task(prepared, *columns, model=without_rows(model), folder=folder)
    results = as_engine(engine).run(predict_shard, task)
    return results if folder is not None else np.concatenate(results)


def _is_supported(smoothing: Any) -> bool:
    return smoothing is None or (isinstance(smoothing, Laplacian) and smoothing.normalized)


def _check(
    estimator: Any, prepared: Prepared, named: dict[str, Any], features: Any, models: Any
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
        "n_folds": ((1,), "pass 1, as the preset 'fast' does"),
        "device": (("cpu",), "pass 'cpu'"),
        "max_seconds": ((None,), "leave it out"),
        "class_weight": ((None,), "pass sample_weight= to cluster.fit"),
        "feature_smoothing": ((None, "auto"), "leave it out"),
        "spectral_features": ((None, "auto"), "leave it out"),
        "smoothing": ((None, "auto"), "use eb.Laplacian with normalized=True"),
    }
    for name, (allowed, remedy) in only.items():
        value = getattr(estimator, name, None)
        if value not in allowed and not (name == "smoothing" and _is_supported(value)):
            raise ValueError(f"{name}={value!r} is not supported on a cluster: {remedy}.")
    if models is not None and not isinstance(estimator.random_state, Integral):
        raise ValueError(
            "models= needs random_state to be an integer: later fits must be the same."
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


def assembled(task: Task, reports: Sequence[Report]) -> Model:
    """Return the model of the rows that workers have returned, weighed as on one machine."""
    first = reports[0]
    table = first.reader.table(np.concatenate([one.table.values for one in reports]))
    before = np.cumsum([0, *(one.table.n_rows for one in reports)])[:-1]
    parts = zip(*(vars_of(one.labels) for one in reports), strict=True)
    rows, target, weight = (np.concatenate(part) for part in parts)
    labels = Labels(rows + np.repeat(before, [one.labels.size for one in reports]), target, weight)
    is_held = np.concatenate([one.is_held for one in reports])
    trained = np.flatnonzero(~is_held | is_held.all())
    offsets = [one.offset for one in reports if one.offset is not None]
    ids = [one.ids for one in reports if one.ids is not None]
    edges = [one.adjacency for one in reports if one.adjacency is not None]
    adjacency = sparse.vstack(edges) if edges else sparse.coo_array((table.n_rows, table.n_rows))
    names = as_id_array(np.concatenate(ids).tolist(), "ids") if ids else None
    data = Data(
        settings=task.estimator,
        reader=first.reader,
        table=table,
        feature_names=np.array(first.reader.names, dtype=object),
        output=first.output,
        folds=Folds(labels, (trained,), (np.flatnonzero(is_held),)),
        seed=task.seed,
        places=Places.of_rows(Graph(sparse.csr_array(adjacency), names)),
        offset=np.concatenate(offsets) if offsets else None,
    )
    runs = []
    for number, one in enumerate(first.trained):
        scores, held_out, without = (
            np.concatenate([getattr(part.trained[number], name) for part in reports])
            for name in ("scores", "held_out", "without_field")
        )
        rest = (held_out[:0], without, one.n_rounds, one.reason, one.losses)
        fold = FoldModel(one.ensemble, one.init_score, scores, held_out, *rest)
        columns = (one.features, one.columns, np.arange(table.n_rows))
        runs.append(Run(one.parts, *columns, (fold,), one.seconds))
    return assemble(data, runs, Watch())


def without_rows(model: Model) -> Model:
    """Return what a model knows without its rows, which workers can predict with."""
    none, empty = np.zeros(0, dtype=np.int64), np.zeros((0, model.n_outputs))
    labels = Labels(none, empty, np.zeros(0))
    absent: Any = dict.fromkeys(("table", "coordinates", "spread", "row_labels", "geometry"))
    return replace(
        model,
        components=tuple(replace(one, scores=empty) for one in model.components),
        labels=labels,
        unseen=Unseen(none, empty, labels.weight, empty),
        places=Places.of_rows(Graph(sparse.csr_array((0, 0)))),
        offset=None if model.offset is None else np.zeros((0, 1)),
        raw=empty,
        **absent,
    )
