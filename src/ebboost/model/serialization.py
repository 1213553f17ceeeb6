"""Models on disk: a zip of plain formats, no pickle, written all or nothing.

``manifest.json`` says what the file is and holds every parameter; ``arrays.npz`` the graph, the scores and the encoder;
``trees*`` the ensemble in its library's own text or JSON format. The manifest has the SHA-256 of every other entry.

Checksums find accidents. Against intent, ``archive.py``, ``soundness.py`` and each learner check everything again.
"""

import inspect
import io
import json
import os
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ebboost import learners, propagation
from ebboost.boosting import latent_field, losses, masked_labels, momentum
from ebboost.boosting.calibration import ProbabilityField
from ebboost.boosting.latent_field import LatentField
from ebboost.boosting.losses import Loss
from ebboost.boosting.masked_labels import MaskedLabels
from ebboost.boosting.momentum import Momentum
from ebboost.data import archive, features
from ebboost.data.archive import atomic_write, checksums
from ebboost.data.features import NeighborFeatures
from ebboost.data.labels import Labels
from ebboost.data.pipeline import FeaturePipeline
from ebboost.data.reader import TableReader
from ebboost.data.schema import is_integer, require
from ebboost.data.table import Table
from ebboost.data.target_encoding import OrderedTargetEncoder
from ebboost.learners import Learner
from ebboost.model import _untrusted as soundness
from ebboost.model.candidate import Candidate
from ebboost.model.environment import environment
from ebboost.model.output import ClassOutput, NumericOutput, Output
from ebboost.model.state import FittedState, ValidationRecord
from ebboost.propagation import Smoother

FORMAT_VERSION = 1
_MODULES = (features, latent_field, learners, losses, masked_labels, momentum, propagation)
# All that a file may name; a class that was handed to load may be of any kind.
_PARTS = (Smoother, LatentField, MaskedLabels, Learner, Loss, Momentum, NeighborFeatures)
_ARRAYS = ("init_score", "scores", "propagated_scores", "raw_predictions", "conformity_scores")
_FACTS = (
    "n_iter", "stop_reason", "history", "selection", "conformity_source", "calibration_error",
    "relation_strengths", "feature_names", "classes", "source",
)  # fmt: skip


class ModelFileError(ValueError):
    """A file that is no model file, is not whole, or holds what no model would: nothing of it has been used.

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
    ...     print(str(error).removeprefix(path))
     is not an ebboost model, or it is damaged (File is not a zip file).
    """


def save(state: FittedState, path: str | os.PathLike[str], table: bool = False) -> None:
    """Write a fitted state to ``path``, with the table it was fitted on if ``table``."""
    trees = state.ensemble.files()
    tables = _tables(state) if table else {}
    stored = _arrays(state)
    for name, part in tables.items():
        stored |= {f"{name}_{key}": array for key, array in _matrix(part.values).items()}
    entries = {"arrays.npz": _packed(stored), **trees}
    # Seconds are left out: the same model gives the same bytes, however long the fit took.
    history = {name: losses for name, losses in state.history.items() if name != "seconds"}
    graph = state.graph
    manifest = {
        "format": "ebboost model",
        "format_version": FORMAT_VERSION,
        "estimator": state.estimator,
        "parameters": {name: _plain(value) for name, value in state.parameters.items()},
        "fitted": {name: _plain(getattr(state, name)) for name in _FACTS}
        | {"history": _plain(history), "loss": _plain(state.loss)},
        "candidate": {
            part.name: _plain(getattr(state.candidate, part.name)) for part in fields(Candidate)
        },
        "node_ids": _plain(graph.node_ids if graph is not None and graph.has_ids else None),
        "table": {
            "names": list(state.reader.names),
            "is_sparse": state.reader.is_sparse,
            "origin": [int(column) for column in state.column_origin],
            "kept": {
                name: {
                    "names": list(part.names),
                    "categorical": list(part.categorical),
                    "origin": list(part.origin),
                }
                for name, part in tables.items()
            },
            "categories": {
                str(column): _plain(values) for column, values in state.reader.categories.items()
            },
        },
        "calibrated": _calibration(state),
        "environment": dict(state.environment) or environment(None),
        "sha256": checksums(entries),
    }
    entries["manifest.json"] = json.dumps(manifest, indent=1).encode()
    _store(os.fspath(path), entries)


def _tables(state: FittedState) -> dict[str, Table]:
    """The table fitted on, and the trees' columns where categories were encoded with the labels."""
    tables = {"fitted": state.table, "encoded": state.encoded_table}
    return {name: table for name, table in tables.items() if table is not None}


def _calibration(state: FittedState) -> list[float] | None:
    if not isinstance(state.output, ClassOutput):
        return None
    return [state.output.calibration.temperature, state.output.calibration.strength]


def _packed(arrays: dict[str, NDArray[Any]]) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]
    size = sum(array.nbytes + 4096 for array in arrays.values())
    if size > archive.max_unpacked_size(buffer.tell()):  # would be rejected as a zip bomb
        buffer = io.BytesIO()
        np.savez(buffer, **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()


def _arrays(state: FittedState) -> dict[str, NDArray[Any]]:
    """Every array of a fitted state, by name."""
    labels = state.labels
    pipeline = state.pipeline
    arrays: dict[str, NDArray[Any]] = {name: getattr(state, name) for name in _ARRAYS}
    arrays |= {
        "label_nodes": labels.nodes,
        "label_target": labels.target,
        "label_weight": labels.weight,
        "validation_nodes": state.validation.nodes,
        "validation_target": state.validation.target,
        "validation_prediction": state.validation.prediction,
    }
    if state.graph is not None:
        adjacency = state.graph.adjacency
        arrays |= {
            "graph_data": adjacency.data,
            "graph_indices": adjacency.indices,
            "graph_indptr": adjacency.indptr,
        }
    if pipeline.encoder is not None:
        arrays["encoder_prior"] = pipeline.encoder.prior
        arrays |= {f"encoder_{column}": means for column, means in pipeline.encoder.means.items()}
    if pipeline.low_rank is not None:
        arrays["rarity"] = pipeline.low_rank.rarity
        arrays["directions"] = pipeline.low_rank.directions
    return arrays


def _matrix(values: Any) -> dict[str, NDArray[Any]]:
    """A dense or sparse matrix as arrays."""
    if not sparse.issparse(values):
        return {"values": np.asarray(values)}
    parts = {"data": values.data, "indices": values.indices, "indptr": values.indptr}
    return parts | {"shape": np.asarray(values.shape)}


def _values(arrays: dict[str, NDArray[Any]], name: str) -> Any:
    """What :func:`_matrix` took apart."""
    if f"{name}_values" in arrays:
        return arrays[f"{name}_values"]
    return soundness.csr(arrays, name, tuple(arrays[f"{name}_shape"].tolist()))


def load_state(
    path: str | os.PathLike[str],
    classes: Iterable[type] = (),
    estimators: Mapping[str, type] | None = None,
) -> FittedState:
    """Read the state that :func:`save` wrote.

    Nothing in a file is run, and everything is checked: a file is rejected or predicts.

    Parameters
    ----------
    path : path
    classes : iterable of types
        User-defined parts that the file may name.
    estimators : mapping
        Estimator classes that the file may name; with ``_output_type`` for classes.

    Raises
    ------
    ModelFileError
        If the file is not a model file, is damaged, or its contents do not fit each other.
    """
    path = os.fspath(path)
    manifest, arrays, entries = _read(path)
    with _refusing(path):
        return _state(manifest, arrays, entries, tuple(classes), estimators or {})


def _state(
    manifest: dict[str, Any],
    arrays: dict[str, NDArray[Any]],
    entries: dict[str, bytes],
    classes: tuple[type, ...],
    estimators: Mapping[str, type],
) -> FittedState:
    """A state of what a file holds, every part of it checked against the others."""
    known = _known_parts() | {kind.__name__: kind for kind in classes} | dict(estimators)
    name = manifest["estimator"]
    require(name in estimators, f"unknown estimator class {name!r}: pass load(path, classes=[...])")
    estimators[name](**dict.fromkeys(manifest["parameters"]))  # rejects unknown parameters
    parameters = {key: _revived(value, known) for key, value in manifest["parameters"].items()}
    n_jobs = parameters.get("n_jobs")  # of all parameters the one that a prediction reads
    is_number = n_jobs is None or is_integer(n_jobs, -1, -1) or is_integer(n_jobs, 1, 2**31)
    require(is_number, "n_jobs must be None, -1 or a positive integer")
    facts = {name: _revived(manifest["fitted"].get(name), known) for name in (*_FACTS, "loss")}
    candidate = _candidate(manifest["candidate"], known)
    is_classifier = facts["classes"] is not None
    n_nodes, n_outputs = soundness.check_arrays(arrays, facts["classes"], is_classifier)
    soundness.check_facts(facts, candidate, is_classifier)
    reader, origin, tables = _tables_of(manifest["table"], parameters, facts, arrays, n_nodes)
    pipeline = _pipeline(candidate, arrays)
    output = _output(facts, manifest["calibrated"])
    learner = learners.as_learner(parameters["learner"])
    ensemble = learner.load(entries)
    categories = {column: len(values) for column, values in reader.categories.items()}
    ensemble.check(len(origin), n_outputs, categories if learner.takes_categories else {})
    values: dict[str, Any] = {key: arrays[key] for key in _ARRAYS}
    values |= {key: facts[key] for key in _FACTS if key != "classes"}
    state = FittedState(
        estimator=name,
        parameters=parameters,
        output=output,
        reader=reader,
        graph=soundness.graph(arrays, _revived(manifest["node_ids"], known), n_nodes),
        labels=Labels(arrays["label_nodes"], arrays["label_target"], arrays["label_weight"]),
        candidate=candidate,
        pipeline=pipeline,
        column_origin=origin,
        ensemble=ensemble,
        validation=ValidationRecord(
            *(arrays[f"validation_{part}"] for part in ("nodes", "target", "prediction"))
        ),
        environment=manifest["environment"],
        table=tables.get("fitted"),
        encoded_table=tables.get("encoded"),
        **values,
    )
    soundness.smoke_test(state, learner.takes_categories)
    return state


def _known_parts() -> dict[str, type]:
    """The classes that a file may name."""
    return {
        kind.__name__: kind
        for module in _MODULES
        for kind in vars(module).values()
        if isinstance(kind, type) and issubclass(kind, _PARTS) and not inspect.isabstract(kind)
    }


def _candidate(parts: dict[str, Any], known: dict[str, type]) -> Candidate:
    require(set(parts) == {part.name for part in fields(Candidate)}, "unknown parts of the model")
    return Candidate(**{name: _revived(part, known) for name, part in parts.items()})


def _output(facts: dict[str, Any], calibrated: list[float] | None) -> Output:
    if facts["classes"] is None:
        require(calibrated is None, "a regressor has no calibration")
        return NumericOutput(facts["loss"])
    require(isinstance(calibrated, list) and len(calibrated) == 2, "calibration is missing")
    temperature, strength = calibrated or (1.0, 0.0)
    in_range = 0.0 < temperature < 1e6 and 0.0 <= strength <= 1.0
    require(in_range, "the calibration is out of range")
    return ClassOutput(facts["loss"], facts["classes"], ProbabilityField(temperature, strength))


def _tables_of(
    stored: dict[str, Any],
    parameters: dict[str, Any],
    facts: dict[str, Any],
    arrays: dict[str, NDArray[Any]],
    n_nodes: int,
) -> tuple[TableReader, tuple[int, ...], dict[str, Table]]:
    """The columns of X, the origin of the trees' columns, and the tables in the file."""
    names = stored["names"]
    n_columns = len(names)
    reader = TableReader(parameters.get("categorical_features", "auto"))
    reader.names = tuple(names)
    reader.is_sparse = stored["is_sparse"]
    reader.categories = {
        int(column): list(values) for column, values in stored["categories"].items()
    }
    given_names = facts["feature_names"]
    same_names = isinstance(given_names, np.ndarray) and given_names.tolist() == names
    require(given_names is None or same_names, "feature_names differ from the columns of the table")
    for values in reader.categories.values():
        text = all(isinstance(value, str) for value in values)
        numbers = all(type(value) in (int, float, bool) for value in values)
        require(text or numbers, "categories mix text and numbers")
        unique = len(set(values)) == len(values) and not reader.is_sparse
        require(unique, "a category is listed twice")
    origin = tuple(stored["origin"])
    tables = {}
    for name, part in stored.get("kept", {}).items():
        table = _stored_table(name, part, arrays, n_nodes, n_columns)
        if name == "fitted":
            columns = (list(table.names), list(table.categorical), list(table.origin))
            wanted = (names, sorted(reader.categories), list(range(n_columns)))
            same = columns == wanted and table.is_sparse == reader.is_sparse
            require(same, "the stored table has other columns")
        else:
            same = name == "encoded" and table.origin == origin and not table.categorical
            require(same, f"the stored table {name!r} has other columns")
        tables[name] = table
    return reader, origin, tables


def _stored_table(
    name: str, part: dict[str, Any], arrays: dict[str, NDArray[Any]], n_nodes: int, n_columns: int
) -> Table:
    columns, categorical, origin = (part[key] for key in ("names", "categorical", "origin"))
    message = f"the stored table {name!r} is malformed"
    require(all(isinstance(column, str) for column in columns), message)
    require(all(is_integer(column, 0, n_columns - 1) for column in categorical), message)
    table = Table(_values(arrays, name), tuple(columns), tuple(categorical), tuple(origin))
    values = table.values.data if table.is_sparse else table.values
    fits = table.values.shape == (n_nodes, len(columns)) and values.dtype.kind == "f"
    require(fits, message)
    require(not np.isinf(values).any() and len(origin) == len(columns), message)
    require(all(is_integer(column, -1, n_columns - 1) for column in origin), message)
    return table


def describe(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Say what is inside a model file, checked to be whole, without making a model of it.

    Parameters
    ----------
    path : path

    Returns
    -------
    dict
        ``"estimator"``, ``"format_version"``, ``"environment"``, the learned facts of the manifest, how many nodes, edges
        and labels there are, ``"columns"``, whether the table fitted on is in it, and the bytes of each entry.

    Raises
    ------
    ModelFileError
        As :func:`load` does for a file that is not whole.
    """
    path = os.fspath(path)
    manifest, arrays, entries = _read(path)
    with _refusing(path):
        table, fitted = manifest["table"], manifest["fitted"]
        classes, names = (_revived(fitted.get(name), {}) for name in ("classes", "source"))
        require(
            isinstance(names, dict | None) and isinstance(classes, np.ndarray | None),
            "names or classes",
        )
        candidate = manifest["candidate"]["name"]
        texts = (candidate, fitted["stop_reason"])
        require(all(isinstance(text, str) for text in texts), "stop_reason must be text")
        require(is_integer(fitted["n_iter"], 0, 10**9), "n_iter must be a whole number")
        return {
            "estimator": manifest["estimator"],
            "format_version": manifest["format_version"],
            "n_nodes": len(arrays["scores"]),
            "n_edges": arrays["graph_indices"].size // 2 if "graph_indices" in arrays else None,
            "n_labels": arrays["label_nodes"].size,
            "columns": table["names"],
            "categorical": [table["names"][int(column)] for column in table["categories"]],
            "classes": None if classes is None else classes.tolist(),
            "best_candidate": candidate,
            "n_iter": fitted["n_iter"],
            "stop_reason": fitted["stop_reason"],
            "source": names,
            "has_node_ids": manifest["node_ids"] is not None,
            "has_table": bool(table.get("kept")),
            "environment": manifest["environment"],
            "bytes": {name: len(content) for name, content in entries.items()},
            "file_bytes": os.path.getsize(path),
        }


def _pipeline(candidate: Candidate, arrays: dict[str, NDArray[Any]]) -> FeaturePipeline:
    pipeline = candidate.pipeline()
    if pipeline.low_rank is not None:
        directions = soundness.numbers(arrays, "directions", None, candidate.low_rank)
        pipeline.low_rank.rarity = soundness.numbers(arrays, "rarity", len(directions))
        pipeline.low_rank.directions = directions
    if "encoder_prior" in arrays:
        pipeline.encoder = OrderedTargetEncoder()
        pipeline.encoder.prior = soundness.numbers(arrays, "encoder_prior", None)
        prefix = "encoder_"
        columns = [name for name in arrays if name.startswith(prefix) and name != "encoder_prior"]
        pipeline.encoder.means = {
            int(name.removeprefix(prefix)): soundness.numbers(arrays, name, None, None)
            for name in columns
        }
        filled = all(len(means) for means in pipeline.encoder.means.values())
        require(filled, "the encoding of a column is empty")
    return pipeline


@contextmanager
def _refusing(path: str) -> Iterator[None]:
    """Whatever a made-up file brings about is one kind of error."""
    try:
        yield
    except (ModelFileError, ImportError, MemoryError):
        raise
    except Exception as error:
        raise ModelFileError(f"{path} cannot be loaded: {_said(error)}.") from error


def _said(error: Exception) -> str:
    """What is wrong, in a line that a terminal can show whatever the file had in it."""
    what = f"{error} is missing" if isinstance(error, KeyError) else str(error)
    return "".join(c if c.isprintable() else "\ufffd" for c in what[:500]).rstrip(".")


def _read(path: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]], dict[str, bytes]]:
    """The manifest, the arrays and the other entries of a file, each of them as it was written."""
    with open(path, "rb") as file:
        try:
            most = archive.max_unpacked_size(file.seek(0, 2))
            entries = archive.unpack(file, most)
            manifest = archive.parse_json(entries.pop("manifest.json"))
            name, format_version, sums = (
                manifest[key] for key in ("format", "format_version", "sha256")
            )
        except MemoryError:
            raise
        except (
            Exception
        ) as error:  # zipfile lets through whatever it runs into when bytes are changed at random
            raise ModelFileError(
                f"{path} is not an ebboost model, or it is damaged ({_said(error)})."
            ) from None
    if name != "ebboost model" or type(format_version) is not int or not isinstance(sums, dict):
        raise ModelFileError(f"{path} is not an ebboost model.")
    if format_version > FORMAT_VERSION:
        raise ModelFileError(
            f"{path} was written by a newer ebboost (format {format_version}, this one reads up to {FORMAT_VERSION}): "
            "upgrade ebboost to load it."
        )
    for entry, found in checksums(entries).items():
        if sums.get(entry) != found:
            raise ModelFileError(f"{path} is damaged: its entry {entry!r} is not what was written.")
    if missing := set(sums) - set(entries):
        raise ModelFileError(f"{path} is damaged: {sorted(missing)[:10]} is missing.")
    with _refusing(path):
        soundness.check_manifest(manifest)
        parts = archive.unpack(io.BytesIO(entries["arrays.npz"]), most)
        arrays = {
            name.removesuffix(".npy"): archive.parse_npy(content) for name, content in parts.items()
        }
    return manifest, arrays, entries


def _store(path: str, entries: dict[str, bytes]) -> None:
    """Say what is wrong with the place, or write all of it there."""
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder):
        raise FileNotFoundError(f"{path} cannot be written: there is no folder {folder}.")
    if os.path.isdir(path):
        raise IsADirectoryError(f"{path} cannot be written: it is a folder.")
    with atomic_write(path) as place, open(place, "wb") as raw:
        _write(raw, entries, zipfile.ZIP_DEFLATED)
        if sum(map(len, entries.values())) > archive.max_unpacked_size(raw.tell()):  # as above
            raw.seek(0)
            raw.truncate()
            _write(raw, entries, zipfile.ZIP_STORED)


def _write(raw: Any, entries: dict[str, bytes], method: int) -> None:
    with zipfile.ZipFile(raw, "w", method) as file:
        for name, content in entries.items():
            # A fixed date, so that the same model gives the same bytes; what is packed already is not packed again.
            packed = zipfile.ZIP_STORED if name.endswith(".npz") else method
            file.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), content, packed)


def _plain(value: Any) -> Any:
    """Parameters and learned values as JSON; parts such as smoothers as the name of their class and parameters."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, np.generic) and value.dtype.kind in "biufU":
        return value.item()
    if isinstance(value, np.ndarray):
        # Text is as wide as it needs to be: a reader would have to make room for whatever width is written.
        dtype = (
            np.asarray(value.tolist(), dtype=str).dtype if value.dtype.kind == "U" else value.dtype
        )
        return {"array": [_plain(item) for item in value.tolist()], "dtype": dtype.str}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, tuple):
        return {"tuple": [_plain(item) for item in value]}
    if isinstance(value, dict):
        return {"dict": [[_plain(key), _plain(item)] for key, item in value.items()]}
    if isinstance(value, np.random.RandomState):
        return None
    if hasattr(value, "get_params"):
        parameters = value.get_params(deep=False)
        for name, given in parameters.items():
            if callable(given) and not hasattr(given, "get_params"):
                kind = type(value).__name__
                raise ValueError(
                    f"{name}={given!r} of {kind} is a function, which cannot be saved without pickle. Use a choice that "
                    f"has a name; or put the function into a subclass of {kind}, whose __init__ hands it to that of {kind}, "
                    "fit with that, and pass load(path, classes=[...])."
                )
        return {
            "class": type(value).__name__,
            "parameters": {k: _plain(v) for k, v in parameters.items()},
        }
    raise ValueError(
        f"{value!r} cannot be saved without pickle: a model file holds numbers, text and ebboost's parts. Turn it into "
        "numbers or text before you fit."
    )


_NUMBERS = {f"{order}{kind}{size}" for order in "<>" for kind in "iuf" for size in "248"} | {
    "|b1",
    "|i1",
    "|u1",
}


def _revived(value: Any, known: dict[str, type]) -> Any:
    if isinstance(value, list):
        return [_revived(item, known) for item in value]
    if not isinstance(value, dict):
        return value
    if "tuple" in value:
        return tuple(_revived(item, known) for item in value["tuple"])
    if "array" in value:
        items, dtype = [_revived(item, known) for item in value["array"]], str(value["dtype"])
        if dtype[1:2] == "U":
            require(
                all(isinstance(item, str) for item in items),
                "an array of text holds something else",
            )
            lengths = [len(item) for item in items]
            require(
                len(items) * max(lengths, default=0) <= 16 * sum(lengths) + 2**22,
                "an array of text is too wide",
            )
            return np.asarray(items, dtype=str)
        if dtype != "|O":
            numbers = all(type(item) in (bool, int, float) for item in items)
            require(dtype in _NUMBERS and numbers, "an array of no kind")
            return np.asarray(items, dtype=dtype)
        array = np.empty(
            len(items), dtype=object
        )  # numpy would spread ids that are tuples over a second axis
        for row, item in enumerate(items):
            array[row] = item
        return array
    if "dict" in value:
        return {_revived(key, known): _revived(item, known) for key, item in value["dict"]}
    if value["class"] not in known:
        raise ValueError(
            f"the model uses {str(value['class'])[:100]}, a class of its author's: import it and pass "
            "load(path, classes=[...])"
        )
    part, settings = (
        known[value["class"]],
        {k: _revived(v, known) for k, v in value["parameters"].items()},
    )
    plain = issubclass(part, _PARTS) and part.__module__.startswith(
        "ebboost."
    )  # others' settings may be anything
    require(
        not plain or not any(isinstance(v, np.ndarray) for v in settings.values()),
        "a setting that is an array",
    )
    return part(**settings)
