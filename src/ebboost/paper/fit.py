"""The fit of :class:`PaperRegressor` and :class:`PaperClassifier`: Algorithm 1 with set parts.

It reads, resolves and assembles as the core's fit does, and trains one model on all rows: (11) fits
trees to gradients of rows out of reach of any label, too.
"""

import time
from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ebboost._common import LabelsLike, TableLike
from ebboost.callbacks import Callback, Watch
from ebboost.data.features import FeatureMap
from ebboost.data.table import Table
from ebboost.defaults import Member
from ebboost.field import LatentField
from ebboost.fit import (
    ENTRIES_OF_THREAD,
    Data,
    Parts,
    Run,
    assemble,
    columns_of,
    read,
    resolve,
    train_fold,
)
from ebboost.learners import as_learner
from ebboost.losses import SquaredError
from ebboost.model import Model
from ebboost.paper.encoding import EncodedFeatures, encode_categories
from ebboost.paper.masked import MaskedLabels, ShownLabels
from ebboost.paper.momentum import as_momentum, boost_with_momentum
from ebboost.paper.objectives import MaskedObjective, PenalizedObjective, RobustObjective
from ebboost.paper.robust import AUTO_SCALE, Robust
from ebboost.smoothing import Identity, Laplacian, Operator
from ebboost.threads import max_threads, threads


def fit(
    settings: Any,
    X: TableLike,
    y: LabelsLike | None,
    *,
    classes: bool,
    callbacks: Sequence[Callback] = (),
    **arguments: Any,
) -> Model:
    """Return the fitted model of an estimator; the arguments are those of the core's fit."""
    start = time.perf_counter()
    with Watch(settings.max_seconds, settings.verbose) as watch:
        data = read(settings, X, y, classes, **arguments)
        # One model, which is not trained again on the latest labels.
        data = replace(data, folds=replace(data.folds, in_time=False))
        parts, masked = resolve_parts(data)
        cosines: list[float] = []
        trained = replace(parts, boost=partial(parts.boost, cosines=cosines))
        features, table = encoded_columns(parts, data)
        rows = np.arange(table.n_rows)
        operator: Operator = Identity()
        if parts.smoothing is not None and data.places is not None:
            operator = parts.smoothing.operator(data.places.graph)
        n_jobs = min(max_threads(settings.n_jobs), 1 + table.values.size // ENTRIES_OF_THREAD)
        n_outputs = data.labels.target.shape[1]
        with threads(n_jobs):
            options = {"n_outputs": n_outputs, "n_jobs": n_jobs, "device": settings.device}
            binned = parts.learner.bin(table, rows, **options)
            one = train_fold(trained, data, operator, rows, binned, callbacks, watch, 0)
        if one is None:  # Ctrl-C before the first round
            raise KeyboardInterrupt
        if masked is not None and data.places is not None and parts.smoothing is not None:
            fixed = one.init_score if data.offset is None else one.init_score + data.offset
            fixed = np.broadcast_to(fixed, (table.n_rows, n_outputs))
            where = (data.labels, fixed, data.places.graph)
            shown = ShownLabels.of(masked, parts.smoothing, *where)
            parts = replace(parts, smoothing=shown)
        run = Run(parts, features, table, rows, (one,), time.perf_counter() - start)
        model = assemble(data, [run], watch)
    return replace(model, history={**model.history, "cosine": cosines})


def resolve_parts(data: Data) -> tuple[Parts, MaskedLabels | None]:
    """Return the parts that an estimator is set to, and how its labels are masked, if they are."""
    settings, loss, labels = data.settings, data.output.loss, data.settings.labels
    momentum, penalty = as_momentum(settings.momentum), float(settings.penalty)
    masked = labels if isinstance(labels, MaskedLabels) else None
    if isinstance(labels, str) and labels == "masked":
        masked = MaskedLabels()
    plain = copy(settings).set_params(learner=as_learner(settings.learner, settings.device))
    if masked is not None:
        plain.set_params(labels="none")
    elif not isinstance(labels, LatentField) and labels not in ("auto", "field", "none"):
        kinds = "'auto', 'none', 'field', 'masked', eb.LatentField(...) or MaskedLabels(...)"
        raise ValueError(f"labels must be {kinds}, got {labels!r}.")
    if isinstance(settings.smoothing, str):  # "auto"
        plain.set_params(smoothing=Laplacian())
    parts = resolve(Member("paper"), replace(data, settings=plain), None)
    smoothing = parts.smoothing
    objective: Any = partial(PenalizedObjective, penalty=penalty)
    if masked is not None:
        masked.check()
        if type(loss) is not SquaredError or penalty:
            raise ValueError("labels='masked' needs loss='squared_error' and penalty=0.")
        if smoothing is None or isinstance(smoothing, Robust):
            raise ValueError("labels='masked' needs a linear smoothing, and a graph of the rows.")
        objective = partial(MaskedObjective, masked=masked, seed=data.seed)
    elif isinstance(smoothing, Robust):
        if smoothing.scale == "auto":
            known = data.labels
            offset = None if data.offset is None else data.offset[known.rows]
            spread = loss.label_scale(known.target, known.weight, offset)
            smoothing = copy(smoothing).set_params(scale=AUTO_SCALE * (spread or 1.0))
        objective = partial(RobustObjective, penalty=penalty)
    loop = partial(boost_with_momentum, momentum=momentum)
    return replace(parts, smoothing=smoothing, objective=objective, boost=loop), masked


def encoded_columns(parts: Parts, data: Data) -> tuple[FeatureMap, Table]:
    """Return the columns of the trees, with categories encoded if the learner takes none."""
    if not data.table.categorical or parts.learner.takes_categories:
        return columns_of(parts.features, data)
    known = data.labels.subset(data.folds.training[0])
    prior, means, table = encode_categories(data.table, known, data.seed)
    learned = parts.features.learn(table, data.places, data.seed)
    encoded = EncodedFeatures(**vars(learned), prior=prior, means=means)
    return encoded, learned.transform(table, data.places)
