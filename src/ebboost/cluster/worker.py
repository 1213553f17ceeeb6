"""What a worker does: read its shard, train the models of ``fast``, predict.

Every worker runs the same code on its own rows; sums over rows and values of neighbours come from
all. Trees are XGBoost's, whose workers add up their histograms.
"""

import json
import os
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ebboost import defaults
from ebboost._common import Array, BoolArray
from ebboost.boosting import Objective, boost
from ebboost.callbacks import Callback, EarlyStopping
from ebboost.cluster.communicator import Communicator
from ebboost.cluster.tables import Prepared, Shard, Share, load
from ebboost.data import checks
from ebboost.data.features import FeatureMap
from ebboost.data.labels import Folds, Labels
from ebboost.data.neighbors import Places
from ebboost.data.reader import TableReader
from ebboost.data.table import Table
from ebboost.defaults import Member
from ebboost.field import FieldEnergy, LatentField, Posterior
from ebboost.files.archive import parse_json, read_zip, write_zip
from ebboost.files.codec import Decoder, Encoder
from ebboost.fit import Data, Parts, draw_folds, portfolio, resolve
from ebboost.graph import Graph
from ebboost.learners import Ensemble, XGBoost
from ebboost.learners.xgboost import XGBoostBinned
from ebboost.linalg import LARGEST_FACTOR
from ebboost.losses import Loss
from ebboost.model import Model
from ebboost.output import Output
from ebboost.smoothing import Identity, Operator
from ebboost.strengths import N_FOLDS, estimate_strengths
from ebboost.sums import added_by, everywhere
from ebboost.threads import threads

#: Labels that every worker knows, and held-out ones that members are weighed by without rows: of
#: more, every second, third, ... Initial scores and open parameters of the loss are theirs, and the
#: held-out labels are some of them.
MOST_LABELS = 5_000_000
MOST_HELD = 200_000
BINNED_ENTRIES = 5_000_000  # of the rows that bins are found from
#: Tolerance of the field of predictions, and of its responses to trees where one machine would
#: factorise: with 1e-3 there, models differed by half a standard deviation after 50 rounds.
TOLERANCE = 1e-12
FACTOR_TOLERANCE = 1e-8


@dataclass(frozen=True)
class Task:
    """What all workers are to do."""

    prepared: Prepared
    features: tuple[str, ...]
    target: str | None
    weight: str | None = None
    offset: str | None = None
    exposure: str | None = None
    estimator: Any = None  # to fit
    seed: int = 0
    gathers: bool = True  # rows of all workers are returned
    models: str | None = None  # folder for finished models
    model: Model | None = None  # to predict with
    folder: str | None = None  # for predictions

    @property
    def others(self) -> tuple[str | None, ...]:
        """Columns of nodes besides the features: target, weight, offset, exposure."""
        return self.target, self.weight, self.offset, self.exposure


@dataclass(frozen=True)
class Known:
    """The labels of a worker, and those of all as far as each knows them."""

    own: Labels
    offset: Array | None  # of own rows
    is_held: BoolArray  # of own labels: not trained on
    every: Labels  # rows are positions among these
    every_offset: Array | None
    every_held: BoolArray
    n_labels: int
    n_held: int  # of all workers
    held_before: int  # of the workers before this one
    output: Output

    @property
    def trained(self) -> Labels:
        """Own labels that are trained on."""
        return self.own.subset(~self.is_held)

    @property
    def held(self) -> Labels:
        """Own labels that are not."""
        return self.own.subset(self.is_held)


@dataclass(frozen=True)
class Trained:
    """A member's model; predictions and scores f are those of a worker's rows."""

    parts: Parts
    features: FeatureMap
    columns: Table  # without rows
    ensemble: Ensemble
    init_score: Array
    n_rounds: int
    reason: str
    losses: dict[str, list[float]]
    held_out: Array  # of held-out labels
    without_field: Array
    scores: Array
    seconds: float


class PreciseObjective(Objective):
    """Solves systems as precisely as a factorisation, as far as trees in single precision show."""

    response_tolerance = FACTOR_TOLERANCE


@dataclass(frozen=True)
class Report:
    """What a worker returns of a fit: its rows, or a sample of those with held-out labels."""

    reader: TableReader
    output: Output
    trained: tuple[Trained, ...]
    labels: Labels
    is_held: BoolArray
    table: Table
    offset: Array | None
    adjacency: sparse.csr_array | None
    ids: NDArray[Any] | None


def fit_shard(workers: Communicator, task: Task, share: Share) -> Report:
    """Train on the rows of all workers."""
    settings, seed = task.estimator, task.seed
    with threads(workers.n_threads):
        shard = load(
            workers, task.prepared, share, task.features, task.others,
            categorical=settings.categorical_features,
        )  # fmt: skip
        if not shard.graph.n_edges:
            raise ValueError("edges connect no two different nodes: fit without a graph.")
        known = read_labels(workers, task, shard)
        facts: dict[str, Any] = {"target": task.target, "seed": seed, "estimator": repr(settings)}
        sizes = {"nodes": shard.n_nodes, "edges": shard.graph.n_edges, "labels": known.n_labels}
        store = Store(workers, task.models, facts | sizes)
        plain = copy(settings)
        if isinstance(plain.learner, str):  # parameters follow from the columns, not known yet
            plain.learner = XGBoost()
        parts_of_labels = (np.flatnonzero(~known.every_held), np.flatnonzero(known.every_held))
        folds = Folds(known.every, parts_of_labels[:1], parts_of_labels[1:])
        read = (shard.reader, shard.table, None, known.output, folds, seed, shard.places)
        data = Data(plain, *read, offset=known.every_offset)
        members = portfolio(data)
        first = Member("trees") if members[0].field == "estimated" else members[0]
        parts = resolve(first, data, None)
        done, keys = [train(workers, task, shard, known, parts, store)], {parts.key}
        strengths, loss = None, known.output.loss
        if known.n_held >= defaults.FEWEST_LABELS:
            estimate = partial(_strengths, task, shard, known, done[0])
            strengths, loss = store.once("strengths", estimate)
        data = replace(data, output=replace(known.output, loss=loss))
        for member in members:
            parts = resolve(member, data, strengths)
            if parts.key not in keys:
                done.append(train(workers, task, shard, known, parts, store))
        return report(task, shard, known, data.output, done)


def read_labels(workers: Communicator, task: Task, shard: Shard) -> Known:
    """Return the labels: which are known, what they mean, and which are held out."""
    settings, n_rows = task.estimator, shard.table.n_rows
    classes = type(settings)._classes
    y, weight, offset, exposure = (shard.columns.get(name or "") for name in task.others)
    name = type(settings).__name__
    rows, values, weight = checks.labelled_nodes(y, None, weight, n_rows, classes, name, True)
    before = np.cumsum([0, *workers.gather(rows.size)])
    n_labels = int(before[-1])
    if not n_labels:
        raise ValueError(f"target={task.target!r} holds no known label of weight above 0.")
    output = None if classes else Output.of_numbers(settings.loss)
    if output is None:
        found = [one for one in workers.gather(np.unique(values)) if one.size]
        output = Output.of_classes(np.concatenate(found), settings.loss)
    labels = Labels(rows, output.encode(values, f"target={task.target!r}"), weight)
    offset = checks.offset_column(offset, exposure, n_rows, output.loss.log_link)
    if offset is not None and labels.target.shape[1] > 1:
        raise ValueError("offset needs one score for each row: the target has more than 2 classes.")
    step = -(-n_labels // MOST_LABELS)
    taken = np.flatnonzero((before[workers.rank] + np.arange(rows.size)) % step == 0)
    target, weight = (workers.join(one[taken]) for one in (labels.target, labels.weight))
    every = Labels(np.arange(len(target)), target, weight)
    every_offset = None if offset is None else workers.join(offset[rows[taken]])
    output = output.fitted(every, every_offset)
    folds = draw_folds(settings, every, None, classes, task.seed, None)
    every_held, is_held = np.zeros(every.size, dtype=bool), np.zeros(rows.size, dtype=bool)
    every_held[folds.held_out[0]] = True
    first = sum(workers.gather(taken.size)[: workers.rank])
    is_held[taken] = every_held[first : first + taken.size]
    held = np.cumsum([0, *workers.gather(int(is_held.sum()))])
    sizes = (n_labels, int(held[-1]), int(held[workers.rank]))
    parts = (every, every_offset, every_held, *sizes, output)
    return Known(labels, offset, is_held, *parts)


def settled(loss: Loss, known: Known) -> Loss:
    """Return the loss with initial scores and scale of the labels that all workers train on."""
    chosen = ~known.every_held
    target, weight = known.every.target[chosen], known.every.weight[chosen]
    if loss.log_link and not target.any():
        raise ValueError("All labels that are trained on are 0: pass early_stopping=False.")
    offset = None if known.every_offset is None else known.every_offset[chosen]
    labelled = (target, weight / weight.mean(), offset)
    start, scale = loss.initial(*labelled), loss.label_scale(*labelled)
    result: Any = copy(loss)
    result.initial = lambda *_: start
    result.label_scale = lambda *_: scale
    return result


def train(
    workers: Communicator, task: Task, shard: Shard, known: Known, parts: Parts, store: "Store"
) -> Trained:
    """Train a member's model, and predict held-out labels and own rows."""
    begin = time.perf_counter()
    settings, seed, n_outputs = task.estimator, task.seed, known.every.target.shape[1]
    features = parts.features.learn(shard.table, None, task.seed)
    columns = columns_of(features, shard)
    if isinstance(settings.learner, str):
        width = columns.values.shape[1]
        trees = defaults.trees("xgboost", known.n_labels, known.output.is_classifier, width)
        parts = replace(parts, learner=trees)
    operator: Operator = Identity()
    rows: Any = np.sort(known.own.rows)  # others have no gradient
    used = rows
    if parts.smoothing is not None:
        operator = shard.graph.operator(parts.smoothing)
        rows = np.arange(shard.table.n_rows)
        reached = operator.apply(np.isin(rows, used).astype(np.float64)[:, None])[:, 0]
        used = np.flatnonzero(reached > 0.0)
    posterior = None
    if parts.field is not None:
        posterior = Posterior(parts.field.prior(shard.places.graph), known.trained.rows)

    def grow() -> dict[str, Any]:
        pair = (known.trained, known.held)
        own, held = (replace(one, rows=np.searchsorted(rows, one.rows)) for one in pair)
        where = {"n_outputs": n_outputs, "n_jobs": workers.n_threads, "device": "cpu"}
        grower = binned(workers, parts.learner, columns, rows, used, **where).grower(
            seed % 1_000_003
        )
        kind = PreciseObjective if shard.n_nodes <= LARGEST_FACTOR else Objective
        objective = kind(
            settled(parts.loss, known),
            own,
            operator,
            rows.size,
            validation=held if known.n_held else None,
            posterior=posterior,
            node_of_row=rows,
            offset=None if known.offset is None else known.offset[rows],
        )
        callbacks: list[Callback] = []
        n_rounds = settings.n_estimators
        if known.n_held and settings.early_stopping:
            callbacks.append(EarlyStopping(parts.patience))
        elif settings.early_stopping:  # too few labels to hold some out
            n_rounds = min(n_rounds, defaults.ROUNDS_WITHOUT_VALIDATION)
        options: dict[str, Any] = {"n_rounds": n_rounds, "learning_rate": parts.rate}
        boosted = boost(objective, grower, callbacks=callbacks, **options)
        return {
            "ensemble": grower.compile(boosted.best.weights),
            "init_score": objective.init_score,
            "n_rounds": boosted.n_rounds,
            "reason": boosted.reason,
            "losses": boosted.losses,
        }

    grown = store.once(parts.member.name.replace(" + ", "-").replace(" ", "-"), grow)
    # From the trees, so that a fit that was resumed does the same.
    scores = grown["ensemble"].predict(columns)
    smoothed = grown["init_score"] + operator.apply(scores)
    smoothed = smoothed if known.offset is None else smoothed + known.offset
    raw = smoothed
    if parts.field is not None:
        raw = smoothed + field_given(shard, parts.field, parts.loss, known.trained, smoothed)
    return Trained(
        parts=parts,
        features=features,
        columns=columns.subset(slice(0)),
        held_out=raw[known.held.rows],
        without_field=smoothed[known.held.rows],
        scores=scores,
        seconds=time.perf_counter() - begin,
        **grown,
    )


def binned(
    workers: Communicator, learner: Any, columns: Table, rows: Any, used: Any, **where: Any
) -> XGBoostBinned:
    """Return rows in bins that do not depend on how they are divided: those of a sample of some."""
    before = np.cumsum([0, *workers.gather(used.size)])
    step = -(-int(before[-1]) * len(columns.names) // BINNED_ENTRIES)
    if step > 1 and columns.categorical:  # a sample may lack a category
        return learner.bin(columns, rows, **where)
    taken = used[-before[workers.rank] % step :: step]
    sample = replace(columns, values=workers.join(columns.values[taken]))
    with ThreadPoolExecutor(1) as pool:  # a thread that is not in XGBoost's collective
        every = np.arange(sample.n_rows)
        like = pool.submit(learner.bin, sample, every, **where).result()
    return learner.bin(columns, rows, like=like, **where)


def field_given(shard: Shard, field: LatentField, loss: Loss, labels: Labels, scores: Any) -> Any:
    """Return the field of own nodes, given labels of all workers."""
    posterior = Posterior(field.prior(shard.places.graph), labels.rows)
    energy = FieldEnergy(posterior, loss, labels.relative())
    return energy.mode(scores[labels.rows], TOLERANCE)


def columns_of(features: FeatureMap, shard: Shard) -> Table:
    """Return the columns of trees for own rows."""
    if not features.uses_graph:
        return features.transform(shard.table, None)
    graph = shard.graph
    degrees = (graph.degrees, graph.all_degrees)
    return features.join(shard.table, shard.every_table, graph.weights, degrees)


def _strengths(task: Task, shard: Shard, known: Known, first: Trained) -> Any:
    """Estimate the open parameters of the loss and the field at held-out labels."""
    workers, loss = shard.graph.halo.workers, known.output.loss
    held = known.held
    held_of_all = [workers.join(one) for one in (held.target, held.weight, first.without_field)]
    if not known.output.is_classifier:
        loss = Output.of_numbers(task.estimator.loss).loss.prepared(*held_of_all)
    if isinstance(task.estimator.labels, LatentField) or task.estimator.labels == "none":
        return None, loss
    scores = first.without_field
    if shard.n_nodes > LARGEST_FACTOR:
        fold = np.random.default_rng(task.seed).permutation(known.n_held) % N_FOLDS
        own = fold[known.held_before :][: held.size]
        found = estimate_strengths(shard.places, held, scores, loss, task.seed, own)
        return found.field, found.loss
    # Hundreds of small systems: one worker is faster than messages between all.
    parts = workers.gather((shard.adjacency, shard.start + held.rows, scores))
    if workers.rank > 0:
        return workers.gather(None)[0]
    adjacency, rows, every_scores = zip(*parts, strict=True)
    labels = Labels(np.concatenate(rows), *held_of_all[:2])
    places = Places.of_rows(Graph(sparse.vstack(adjacency, format="csr")))
    with added_by(np.asarray):
        found = estimate_strengths(places, labels, np.concatenate(every_scores), loss, task.seed)
    return workers.gather((found.field, found.loss))[0]


def report(task: Task, shard: Shard, known: Known, output: Output, trained: list[Any]) -> Report:
    """Return what the client makes a model of."""
    if task.gathers:
        ids = None if task.prepared.id is None else shard.columns[task.prepared.id]
        rows = (shard.table, known.offset, shard.adjacency, ids)
        return Report(shard.reader, output, tuple(trained), known.own, known.is_held, *rows)
    thin = slice(None, None, -(-known.n_held // MOST_HELD) or 1)
    held = known.held.rows[thin]
    labels = Labels(np.arange(held.size), known.held.target[thin], known.held.weight[thin])
    models = []
    for one in trained:
        unseen: Any = {"held_out": one.held_out[thin], "without_field": one.without_field[thin]}
        models.append(replace(one, scores=one.scores[held], **unseen))
    offset = None if known.offset is None else known.offset[held]
    is_held = np.ones(held.size, dtype=bool)
    rows = (shard.table.subset(held), offset, None, None)
    return Report(shard.reader, output, tuple(models), labels, is_held, *rows)


def predict_shard(workers: Communicator, task: Task, share: Share) -> Any:
    """Predict a worker's rows: an array with a row for each, or the file it was written to."""
    model = task.model
    assert model is not None
    with threads(workers.n_threads):
        shard = load(workers, task.prepared, share, task.features, task.others, reader=model.reader)
        n_rows, output = shard.table.n_rows, model.output
        y, weight, offset, exposure = (shard.columns.get(name or "") for name in task.others)
        offset = checks.offset_column(offset, exposure, n_rows, output.loss.log_link)
        labels = Labels(np.zeros(0, dtype=np.int64), np.zeros((0, model.n_outputs)), np.zeros(0))
        if y is not None:
            classes = output.is_classifier
            found = checks.labelled_nodes(y, None, weight, n_rows, classes, "predict", True)
            labels = Labels(found[0], output.encode(found[1], f"{task.target!r}"), found[2])
        n_labels = int(everywhere(np.array(labels.size)))
        raw = []
        for one in model.components:
            scores: Any = one.ensemble.predict(columns_of(one.features, shard))
            if one.smoothing is not None:
                scores = shard.graph.operator(one.smoothing).apply(scores)
            scores = one.init_score + scores + (0.0 if offset is None else offset)
            if one.field is not None and n_labels:
                own, loss = one.labels_for(labels), one.loss or output.loss
                scores = scores + field_given(shard, one.field, loss, own, scores)
            raw.append(one.to_raw(scores))
        total = model.weighted(raw, offset)
        predicted = output.apply_link(total) if output.is_classifier else output.decode(total)
        return predicted if task.folder is None else write(task, shard, workers, predicted)


def write(task: Task, shard: Shard, workers: Communicator, predicted: Any) -> str:
    """Write a Parquet file of a worker's rows, and return its path."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    assert task.folder is not None and task.model is not None
    name = task.prepared.id
    columns: dict[str, Any] = {"row": shard.start + np.arange(len(predicted))}
    if name is not None:
        columns = {name: pa.array(shard.columns[name].tolist())}
    classes = task.model.output.classes
    if classes is None:
        columns["prediction"] = predicted
    else:
        columns["prediction"] = classes[predicted.argmax(axis=1)]
        pairs = zip(classes.tolist(), predicted.T, strict=True)
        columns |= {f"probability({one})": own for one, own in pairs}
    os.makedirs(task.folder, exist_ok=True)
    path = os.path.join(task.folder, f"part.{workers.rank}.parquet")
    pq.write_table(pa.table(columns), f"{path}.tmp")
    os.replace(f"{path}.tmp", path)
    return path


class Store:
    """A folder with a file for each model that is finished, which a later fit takes from there.

    ``facts`` are what fits have in common that may share models.
    """

    def __init__(self, workers: Communicator, folder: str | None, facts: Mapping[str, Any]) -> None:
        self._workers = workers
        self._folder = folder
        self._facts = json.loads(json.dumps(facts, default=str))

    def once(self, name: str, compute: Callable[[], Any]) -> Any:
        """Return what an earlier fit has stored, else compute and store it."""
        if self._folder is None:
            return compute()
        path = os.path.join(self._folder, f"{name}.ebb")
        entries = None
        if self._workers.rank == 0 and os.path.exists(path):
            with open(path, "rb") as file:
                entries = read_zip(file.read())
        entries = self._workers.gather(entries)[0]
        if entries is None:
            value = compute()
            if self._workers.rank == 0:
                encoder = Encoder()
                document = {"facts": self._facts, "value": encoder.encode(value, name)}
                os.makedirs(self._folder, exist_ok=True)
                content = {"manifest.json": json.dumps(document).encode(), **encoder.entries}
                write_zip(path, content)
            return value
        document = parse_json(entries.pop("manifest.json"))
        changed = [key for key, value in self._facts.items() if document["facts"].get(key) != value]
        if changed:
            old, new = document["facts"].get(changed[0]), self._facts[changed[0]]
            raise ValueError(
                f"{path} is of another fit: {changed[0]} was {old!r}, now it is {new!r}. Pass "
                "another folder as models=."
            )
        return Decoder(entries, {}).decode(document["value"])
