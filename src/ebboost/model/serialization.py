"""Model files: a fitted state as a zip of plain formats, without pickle, written atomically.

``manifest.json`` has all parameters, ``arrays.npz`` the graph, the scores and the encoder, and
``trees*`` the ensemble in its library's own text or JSON format. Checksums detect accidents. As
anyone can compute them, ``_untrusted.py`` and each learner check all contents again.
"""

import inspect
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ebboost import learners, propagation
from ebboost.boosting import latent_field, losses, masked_labels, momentum
from ebboost.boosting.calibration import IDENTITY, Calibration
from ebboost.boosting.latent_field import LatentField
from ebboost.boosting.losses import Loss
from ebboost.boosting.masked_labels import MaskedLabels
from ebboost.boosting.momentum import Momentum
from ebboost.data import archive, features
from ebboost.data.features import NeighborFeatures, SpectralFeatures
from ebboost.data.labels import Labels
from ebboost.data.pipeline import FeaturePipeline
from ebboost.data.schema import is_integer, match, require
from ebboost.data.table import Table
from ebboost.learners import Learner, LightGBM
from ebboost.learners.averaged import load_ensemble
from ebboost.model import _untrusted as untrusted
from ebboost.model import _untrusted_inputs as inputs
from ebboost.model.candidate import Candidate
from ebboost.model.codec import PartCodec
from ebboost.model.container import FileFormat, error_text, pack_arrays, unpack_arrays
from ebboost.model.output import ClassOutput, Output
from ebboost.model.shard_files import MANIFEST, MODEL, read_shards, save_shards
from ebboost.model.spread import COLUMNS, Spread
from ebboost.model.state import FittedState, ForecastRecord, GraphGain, ValidationRecord
from ebboost.propagation import Smoother

T = TypeVar("T")
FORMAT = FileFormat(
    "ebboost model", 1, remedy=": pass a complete file that model.save or ebboost fit wrote"
)
# Modules and base classes of the parts that a file may name without `classes`.
_MODULES = (features, latent_field, learners, losses, masked_labels, momentum, propagation)
_COLUMNS = (NeighborFeatures, SpectralFeatures)
_PARTS = (Smoother, LatentField, MaskedLabels, Learner, Loss, Momentum, *_COLUMNS)
# What is stored as an array: attributes of the state, and the fields of its records by prefix.
_ARRAYS = ("init_score", "scores", "propagated_scores", "raw_predictions")
_SPREAD_TREES = "spread-"  # before the names of the files of the spread's trees
_RECORDS: dict[str, tuple[str, type[Labels | ValidationRecord | ForecastRecord]]] = {
    "label": ("labels", Labels),
    "validation": ("validation", ValidationRecord),
    "forecast": ("forecast", ForecastRecord),
}
_TABLES = {"fitted": "table", "encoded": "encoded_table"}


class ModelFileError(ValueError):
    """A file that is not a model file, is damaged, or whose contents do not fit each other.

    Examples
    --------
    >>> import ebboost as eb, os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "model.ebb")
    >>> eb.EBBSRegressor(5).fit([[0.0], [1.0]], [0.0, 1.0]).save(path)
    >>> with open(path, "r+b") as file:
    ...     _ = file.truncate(1000)
    >>> try:
    ...     eb.load(path)
    ... except eb.ModelFileError as error:
    ...     print(str(error).removeprefix(path))  # doctest: +ELLIPSIS
     is not an ebboost model, or it is damaged (File is not a zip file): pass a complete file ...
    """


def save(state: FittedState, path: str | os.PathLike[str], table: bool = False) -> None:
    """Write a fitted state to ``path``, with the table it was fitted on if ``table``."""
    path = os.fspath(path)
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder):
        raise FileNotFoundError(f"{path} cannot be written: there is no folder {folder}.")
    if state.shards is not None:
        with save_shards(state.shards, path) as model:
            save(model, os.path.join(path, MODEL))
        return
    if os.path.isdir(path):
        raise IsADirectoryError(f"{path} cannot be written: it is a folder.")
    # Without seconds the same model gives the same bytes, however long the fit took.
    history = {name: losses for name, losses in state.history.items() if name != "seconds"}
    selection = {name: values for name, values in state.selection.items() if name != "seconds"}
    state = replace(state, history=history, selection=selection)
    state = state if table else state.without_table()
    stored = {name: getattr(state, attribute) for name, attribute in _TABLES.items() if table}
    tables: dict[str, Table] = {name: part for name, part in stored.items() if part is not None}
    first, *others = state.candidates
    first = replace(state, members=(), raw_predictions=first.raw_predictions, rounds=first.rounds)
    entries = {"arrays.npz": pack_arrays(_arrays(first, tables)), **first.ensemble.files()}
    if state.spread is not None and state.spread.ensemble is not None:
        trees = state.spread.ensemble.files().items()
        entries |= {f"{_SPREAD_TREES}{name}": content for name, content in trees}
    for number, member in enumerate(others, 1):
        arrays = {name: getattr(member, name) for name in _ARRAYS}
        arrays |= _pipeline_arrays(member.pipeline) | _factor(member)
        files = {"arrays.npz": pack_arrays(arrays), **member.ensemble.files()}
        entries |= {f"member{number}-{name}": content for name, content in files.items()}
    manifest = _manifest(first, tables) | {"members": [_member(one) for one in others]}
    FORMAT.write(path, manifest, entries)


def _member(state: FittedState) -> dict[str, Any]:
    """What a file says about a further member of an average."""
    codec = PartCodec()
    return {
        "candidate": codec.encode_items(vars(state.candidate)),
        "origin": [int(column) for column in state.column_origin],
        "rounds": codec.encode(state.rounds, "rounds"),
    }


def _manifest(state: FittedState, tables: Mapping[str, Table]) -> dict[str, Any]:
    codec = PartCodec()
    facts = {name: getattr(state, name) for name in untrusted.FACTS}
    facts["gain"] = None if state.gain is None else vars(state.gain)
    parameters = dict(state.parameters)
    if callable(parameters.get("eval_metric")):  # a function, and needed for training only
        parameters["eval_metric"] = "loss"
    reader = state.reader
    output = state.output
    spread = state.spread
    graph = state.graph
    graph = graph.groups.graph if graph is not None and graph.groups is not None else graph
    node_ids = graph.node_ids if graph is not None and graph.has_ids else None
    categories = {str(column): values for column, values in reader.categories.items()}
    return {
        "estimator": state.estimator,
        "parameters": codec.encode_items(parameters),
        "fitted": codec.encode_items(facts),
        "candidate": codec.encode_items(vars(state.candidate)),
        "node_ids": codec.encode(node_ids, "node_ids"),
        "table": {
            "names": list(reader.names),
            "is_sparse": reader.is_sparse,
            "origin": [int(column) for column in state.column_origin],
            "categories": codec.encode_items(categories),
            "stored": {
                name: {field: list(getattr(part, field)) for field in untrusted.TABLE_FIELDS}
                for name, part in tables.items()
            },
        },
        "temperature": list(output.calibration),
        "spread": None if spread is None else {n: getattr(spread, n) for n in untrusted.SPREAD},
        "environment": dict(state.environment),
    }


def _arrays(state: FittedState, tables: Mapping[str, Table]) -> untrusted.Arrays:
    """All arrays of a file, by name."""
    arrays: untrusted.Arrays = {name: getattr(state, name) for name in _ARRAYS}
    if state.offset is not None:
        arrays["offset"] = state.offset
    if state.spread is not None:
        spread = state.spread
        names = (*untrusted.spread_arrays(state), "shapes")
        arrays |= {f"spread_{name}": getattr(spread, name) for name in names}
    for prefix, (attribute, kind) in _RECORDS.items():
        record = getattr(state, attribute)
        parts = () if record is None else fields(kind)
        arrays |= {f"{prefix}_{part.name}": getattr(record, part.name) for part in parts}
    matrices = {name: table.values for name, table in tables.items()}
    if state.graph is not None:
        matrices["graph"] = state.graph.adjacency
        if state.graph.time is not None:
            arrays["time"] = state.graph.time
        if state.graph.vectors is not None:
            arrays["vectors"] = state.graph.vectors
        if state.graph.outgoing is not None:
            matrices["outgoing"] = state.graph.outgoing
        if state.graph.groups is not None:
            matrices["groups"] = state.graph.groups.graph.adjacency
            arrays["group_of"] = state.graph.groups.group_of
    for name, matrix in matrices.items():
        if sparse.issparse(matrix):
            arrays |= {f"{name}_{part}": getattr(matrix, part) for part in untrusted.CSR}
        else:
            arrays[f"{name}_values"] = np.asarray(matrix)
    if state.table_digest is not None:
        arrays["table_digest"] = np.frombuffer(bytes.fromhex(state.table_digest), "<i8")
    if state.reader.dates:
        arrays["dates"] = np.array(state.reader.dates, dtype=np.int64)
    if state.coordinates is not None:
        arrays["coordinates_points"] = state.coordinates.points
        arrays["coordinates_scale"] = np.array([state.coordinates.scale])
        arrays["coordinates_columns"] = np.array(state.coordinates.columns, dtype=np.int64)
        chosen = (state.coordinates.neighbors, state.coordinates.weighted, np.nan)
        graphs = [chosen, *state.coordinates.compared]
        arrays["coordinates_graphs"] = np.array(graphs, dtype=np.float64)
    return arrays | _pipeline_arrays(state.pipeline) | _factor(state)


def _factor(state: FittedState) -> untrusted.Arrays:
    """The factor of a candidate with a loss of its own."""
    return {} if state.candidate.loss is None else {"factor": np.array([state.factor])}


def _pipeline_arrays(pipeline: FeaturePipeline) -> untrusted.Arrays:
    """What a pipeline has learned."""
    arrays: untrusted.Arrays = {}
    if pipeline.encoder is not None:
        arrays["encoder_prior"] = pipeline.encoder.prior
        arrays |= {f"encoder_{column}": means for column, means in pipeline.encoder.means.items()}
    if pipeline.levels is not None:
        arrays |= {f"levels_{column}": codes for column, codes in pipeline.levels.items()}
    if pipeline.rotation is not None:
        arrays["rotation"] = np.array(pipeline.rotation, dtype=np.float64)
    if pipeline.low_rank is not None:
        arrays["rarity"] = pipeline.low_rank.rarity
        arrays["directions"] = pipeline.low_rank.directions
    return arrays


def load_state(
    path: str | os.PathLike[str], classes: Iterable[type], estimators: Mapping[str, type]
) -> FittedState:
    """Return the state that :func:`save` wrote; nothing in a file is run, everything is checked.

    A file may name ``estimators`` and, of the user's, the parts in ``classes``.
    """
    path = os.fspath(path)
    manifest, arrays, entries = _read(path)
    codec = PartCodec(_library_parts(), {kind.__name__: kind for kind in classes})
    with _model_file_errors(path):
        name = manifest["estimator"]
        text = f"unknown estimator class {name!r}: pass load(path, classes=[...])"
        require(name in estimators, text)
        kinds = estimators[name].__mro__
        known = {key for kind in kinds for key in inspect.signature(kind).parameters}
        unknown = sorted(set(manifest["parameters"]) - known)
        require(not unknown, f"{name} has no parameters {unknown}")
        parameters = codec.decode_items(manifest["parameters"])
        n_jobs = parameters.get("n_jobs")  # the only parameter that a prediction reads
        is_number = n_jobs is None or is_integer(n_jobs, -1, -1) or is_integer(n_jobs, 1, 2**31)
        require(is_number, "n_jobs must be None, -1 or a positive integer")
        facts = codec.decode_items(manifest["fitted"])
        candidate = Candidate(**codec.decode_items(manifest["candidate"]))
        untrusted.check_facts(facts, candidate)
        n_nodes, n_outputs = untrusted.check_arrays(arrays, facts["classes"])
        section = manifest["table"]
        reader = untrusted.read_columns(section, parameters, facts["feature_names"])
        reader.dates = inputs.positions(arrays, "dates", len(reader.names))
        tables = untrusted.read_tables(section, reader, arrays, n_nodes)
        learner = learners.as_learner(parameters["learner"])
        ensemble = load_ensemble(learner, entries)
        categories = reader.n_categories if learner.takes_categories else {}
        ensemble.check(len(section["origin"]), n_outputs, categories)
        output = _output(facts.pop("loss"), facts.pop("classes"), manifest["temperature"])
        values = facts | {n: arrays[n] for n in _ARRAYS} | untrusted.factor(candidate, arrays)
        if facts["gain"] is not None:
            values["gain"] = GraphGain(**facts["gain"])
        values |= _records(arrays)
        values |= {attribute: tables.get(name) for name, attribute in _TABLES.items()}
        state = FittedState(
            estimator=name,
            parameters=parameters,
            output=output,
            reader=reader,
            graph=untrusted.graph(arrays, codec.decode(manifest["node_ids"]), n_nodes),
            candidate=candidate,
            pipeline=untrusted.read_pipeline(candidate, arrays, reader),
            column_origin=tuple(section["origin"]),
            ensemble=ensemble,
            environment=manifest["environment"],
            **inputs.read_inputs(arrays, n_nodes, len(reader.names)),
            **values,
        )
        untrusted.smoke_test(state, learner.takes_categories)
        spread = _load_spread(state, manifest["spread"] if n_nodes else None, arrays, entries)
        state = replace(state, spread=spread)
        members = [state]
        for number, facts in enumerate(manifest["members"], 1):
            files = _with_prefix(f"member{number}-", entries)
            stored = unpack_arrays(files["arrays.npz"], _limit(_file_of(path)))
            stored |= _with_prefix(f"member{number}-", arrays)  # of a folder of shards
            members.append(_load_member(state, facts, files, stored, codec, learner))
        return state.with_members(tuple(members))


def _records(arrays: untrusted.Arrays) -> dict[str, Any]:
    """The records that a file has, by attribute."""
    return {
        attribute: kind(*(arrays[f"{prefix}_{part.name}"] for part in fields(kind)))
        for prefix, (attribute, kind) in _RECORDS.items()
        if f"{prefix}_nodes" in arrays
    }


def _load_spread(
    state: FittedState,
    facts: dict[str, Any] | None,
    arrays: untrusted.Arrays,
    entries: dict[str, bytes],
) -> Spread | None:
    """The spread of residuals, checked."""
    if facts is None:
        return None
    untrusted.check_spread(state, facts, arrays)
    ensemble = None
    trees = _with_prefix(_SPREAD_TREES, entries)
    if trees:
        ensemble = load_ensemble(LightGBM(), trees)
        own = state.n_features if facts["uses_columns"] else 0
        ensemble.check(own + len(COLUMNS), 1, state.reader.n_categories if own else {})
    names = (*untrusted.spread_arrays(state), "shapes")
    parts: dict[str, Any] = {name: arrays[f"spread_{name}"] for name in names}
    return Spread(**facts | parts, ensemble=ensemble)


def _with_prefix(prefix: str, entries: Mapping[str, T]) -> dict[str, T]:
    """The entries whose name begins so, without the prefix."""
    return {n.removeprefix(prefix): one for n, one in entries.items() if n.startswith(prefix)}


def _load_member(
    first: FittedState,
    facts: dict[str, Any],
    entries: dict[str, bytes],
    arrays: untrusted.Arrays,
    codec: PartCodec,
    learner: Learner,
) -> FittedState:
    """A further member of an average, checked as the first was."""
    match(facts, untrusted.MEMBER, "members")
    candidate = Candidate(**codec.decode_items(facts["candidate"]))
    rounds = codec.decode(facts["rounds"])
    untrusted.check_member(first, candidate, rounds, facts["origin"], arrays)
    ensemble = load_ensemble(learner, entries)
    takes = learner.takes_categories
    categories = first.reader.n_categories if takes else {}
    ensemble.check(len(facts["origin"]), first.n_outputs, categories)
    values = {name: arrays[name] for name in _ARRAYS} | untrusted.factor(candidate, arrays)
    member = replace(
        first,
        candidate=candidate,
        pipeline=untrusted.read_pipeline(candidate, arrays, first.reader),
        column_origin=tuple(facts["origin"]),
        ensemble=ensemble,
        rounds=rounds,
        **values,
    )
    untrusted.smoke_test(member, takes)
    return member


def _library_parts() -> dict[str, type]:
    """The classes of this library that a file may name."""
    return {
        kind.__name__: kind
        for module in _MODULES
        for kind in vars(module).values()
        if isinstance(kind, type) and issubclass(kind, _PARTS) and not inspect.isabstract(kind)
    }


def _output(loss: Loss, classes: NDArray[Any] | None, calibration: list[Any] | None) -> Output:
    numbers = calibration if calibration is not None else list(IDENTITY)
    numbers = [*numbers, *IDENTITY[len(numbers) :]]  # files of earlier versions have fewer
    are_numbers = len(numbers) == len(IDENTITY) and all(isinstance(one, float) for one in numbers)
    in_range = are_numbers and 0.0 < numbers[0] < 1e6 and max(map(abs, numbers[1:])) <= 1.0
    require(in_range, "temperature must be a positive number, others must be from -1 to 1")
    read = Calibration(*numbers)
    if classes is not None:
        return ClassOutput(loss, classes, read)
    fits = read == Calibration(shift=read.shift if loss.log_link else 0.0)
    require(fits, "temperature must be 1, 0 and, without a logarithmic link, 0 for a regressor")
    return Output(loss, calibration=read)


def describe(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return names and sizes in a model file, checked for damage, without loading the model."""
    path = os.fspath(path)
    manifest, arrays, entries = _read(path)
    with _model_file_errors(path):
        table = manifest["table"]
        codec = PartCodec()
        names = ("classes", "source", "stop_reason", "rounds")
        facts = {name: codec.decode(manifest["fitted"][name]) for name in names}
        match(facts, {name: untrusted.FACTS[name] for name in names}, "fitted")
        candidate = manifest["candidate"]["name"]
        require(isinstance(candidate, str), "candidate.name must be str")
        classes = facts["classes"]
        return {
            "estimator": manifest["estimator"],
            "format_version": manifest["format_version"],
            "n_nodes": len(arrays["scores"]),
            "n_edges": arrays["graph_indices"].size // 2 if "graph_indices" in arrays else None,
            "n_labels": arrays["label_nodes"].size,
            "columns": table["names"],
            "categorical": [table["names"][int(column)] for column in table["categories"]],
            "best_candidate": candidate,
            **facts,
            "classes": None if classes is None else classes.tolist(),
            "has_node_ids": manifest["node_ids"] is not None,
            "has_table": bool(table["stored"]),
            "environment": manifest["environment"],
            "bytes": {name: len(content) for name, content in entries.items()},
            "file_bytes": os.path.getsize(_file_of(path)),
        }


def _read(path: str) -> tuple[dict[str, Any], untrusted.Arrays, dict[str, bytes]]:
    """The manifest, the arrays and all entries of a file, or of a folder of shards."""
    file = _file_of(path)
    try:
        manifest, entries = FORMAT.read(file)
    except ValueError as error:
        raise ModelFileError(f"{error}.") from None
    with _model_file_errors(path):
        untrusted.check_manifest(manifest)
        arrays = unpack_arrays(entries["arrays.npz"], _limit(file))
        if file != path:
            arrays |= read_shards(path, arrays)
    return manifest, arrays, entries


def _file_of(path: str) -> str:
    return os.path.join(path, MODEL) if os.path.exists(os.path.join(path, MANIFEST)) else path


def _limit(file: str) -> int:
    return archive.max_unpacked_size(os.path.getsize(file))


@contextmanager
def _model_file_errors(path: str) -> Iterator[None]:
    """Raise ModelFileError for whatever the contents of a file lead to."""
    try:
        yield
    except (ModelFileError, ImportError, MemoryError):
        raise
    except Exception as error:
        raise ModelFileError(f"{path} cannot be loaded: {error_text(error)}.") from error
