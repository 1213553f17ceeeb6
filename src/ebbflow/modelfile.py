"""Models on disk: a zip of plain formats, no pickle, written all or nothing.

``manifest.json`` says what the file is and holds every parameter; ``arrays.npz`` the graph, the scores and the encoder;
``trees*`` the ensemble in its library's own text or JSON format. The manifest has the SHA-256 of every other entry.
"""

import hashlib
import io
import json
import os
import platform
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ebbflow import features, labels, learners, losses, momentum, smoothing
from ebbflow.encoding import OrderedTargetEncoder
from ebbflow.features import LowRank, Positions
from ebbflow.graph import Graph
from ebbflow.labels import ProbabilityField
from ebbflow.objective import Labels
from ebbflow.preparation import Preparation
from ebbflow.table import Table, TableReader

FORMAT_VERSION = 1
# Learned attributes by name, without their underscore: small ones in the manifest, arrays in arrays.npz.
FACTS = (
    "n_features_in", "feature_names_in", "classes", "smoothing", "labels", "loss", "choice", "race", "n_iter", "history",
    "stopped_because", "errors_from", "calibration_error", "relation_strengths", "names",
)  # fmt: skip
# names: what the columns of ids and labels were called, if the model was fitted from files.
OPTIONAL_FACTS = ("smoothing", "labels", "calibration_error", "relation_strengths", "names")
ARRAYS = (
    "base", "scores", "smoothed", "predicted", "held_out_errors", "validation_nodes", "validation_target",
    "validation_prediction",
)  # fmt: skip
_ROOMS = (features, labels, learners, losses, momentum, smoothing)


def save(model: Any, path: str | os.PathLike[str], table: bool = False) -> None:
    """Write a fitted estimator to ``path``, with the table it was fitted on if asked to."""
    trees = model.ensemble_.files()
    buffer = io.BytesIO()
    stored: dict[str, Any] = _arrays(model)
    # The table itself, and what the trees saw of it where categories were encoded with the labels.
    kept = {"fitted": model._fitted_table, "seen": model._fitted_columns} if table else {}
    for name, part in kept.items():
        if part is not None:
            stored |= {f"{name}_{key}": array for key, array in _matrix(part.values).items()}
    np.savez_compressed(buffer, allow_pickle=False, **stored)
    entries = {"arrays.npz": buffer.getvalue(), **trees}
    preparation = model._preparation
    # The same model gives the same bytes, however long it took.
    history = {name: values for name, values in model.history_.items() if name != "seconds"}
    manifest = {
        "format": "ebbflow model",
        "format_version": FORMAT_VERSION,
        "estimator": type(model).__name__,
        "parameters": {name: _plain(value) for name, value in model.get_params(deep=False).items()},
        "fitted": {name: _plain(getattr(model, f"{name}_", None)) for name in FACTS} | {"history": _plain(history)},
        "node_ids": _plain(model.graph_.node_ids if model.graph_ is not None and model.graph_.has_ids else None),
        "table": {
            "names": list(model._reader.names),
            "is_sparse": model._reader.is_sparse,
            "origin": [int(column) for column in model._column_origin],
            "kept": {
                name: {"names": list(part.names), "categorical": list(part.categorical), "origin": list(part.origin)}
                for name, part in kept.items()
                if part is not None
            },
            "categories": {str(column): _plain(values) for column, values in model._reader.categories.items()},
        },
        "preparation": {
            "neighbor_features": _plain(preparation.neighbor_features),
            "feature_smoothing": _plain(preparation.feature_smoothing),
            "smooths_encodings": preparation.smooths_encodings,
            "positions": None if preparation.positions is None else preparation.positions.of_graph,
        },
        "calibrated": [model.temperature_, model.label_strength_] if hasattr(model, "classes_") else None,
        "environment": _environment(),
        "sha256": {name: hashlib.sha256(content).hexdigest() for name, content in entries.items()},
    }
    entries["manifest.json"] = json.dumps(manifest, indent=1).encode()
    _write_atomically(os.fspath(path), entries)


def _arrays(model: Any) -> dict[str, NDArray[Any]]:
    """Every array of a fitted model, by name."""
    training, preparation = model._training, model._preparation
    arrays = {name: getattr(model, f"{name}_") for name in ARRAYS if hasattr(model, f"{name}_")}
    arrays |= {"label_nodes": training.nodes, "label_target": training.target, "label_weight": training.weight}
    if model.graph_ is not None:
        adjacency = model.graph_.adjacency
        arrays |= {
            "graph_data": adjacency.data,
            "graph_indices": adjacency.indices,
            "graph_indptr": adjacency.indptr,
        }
    if preparation.encoder is not None:
        arrays["encoder_prior"] = preparation.encoder.prior
        arrays |= {f"encoder_{column}": means for column, means in preparation.encoder.means.items()}
    if preparation.low_rank is not None:
        arrays |= {"rarity": preparation.low_rank.rarity, "directions": preparation.low_rank.directions}
    if preparation.positions is not None:
        arrays["positions"] = preparation.positions.directions
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
    parts = tuple(arrays[f"{name}_{key}"] for key in ("data", "indices", "indptr"))
    return sparse.csr_array(parts, shape=tuple(arrays[f"{name}_shape"]))


def load(path: str | os.PathLike[str], classes: Iterable[type] = ()) -> Any:
    """Read a model that :meth:`EBBSRegressor.save` wrote.

    Parameters
    ----------
    path : path
    classes : iterable of types, optional
        Your own :class:`Loss`, :class:`Smoother`, :class:`Learner` or estimator classes, if the model was fitted with
        one.

    Returns
    -------
    EBBSRegressor or EBBSClassifier
    """
    from ebbflow import estimators

    entries = _read(os.fspath(path))
    manifest = json.loads(entries.pop("manifest.json"))
    with np.load(io.BytesIO(entries.pop("arrays.npz")), allow_pickle=False) as stored:
        arrays = {name: stored[name] for name in stored.files}
    known = {kind.__name__: kind for room in _ROOMS for kind in vars(room).values() if isinstance(kind, type)}
    known |= {kind.__name__: kind for kind in (estimators.EBBSRegressor, estimators.EBBSClassifier, *classes)}
    model: Any = _revived({"class": manifest["estimator"], "parameters": manifest["parameters"]}, known)
    for name in FACTS:
        value = _revived(manifest["fitted"].get(name), known)
        if value is not None or name in OPTIONAL_FACTS:
            setattr(model, f"{name}_", value)
    for name in ARRAYS:
        if name in arrays:
            setattr(model, f"{name}_", arrays[name])
    model._training = Labels(arrays["label_nodes"], arrays["label_target"], arrays["label_weight"])
    model.graph_ = None
    if "graph_indptr" in arrays:
        n_nodes = arrays["graph_indptr"].size - 1
        parts = (arrays["graph_data"], arrays["graph_indices"], arrays["graph_indptr"])
        model.graph_ = Graph(sparse.csr_array(parts, shape=(n_nodes, n_nodes)), _revived(manifest["node_ids"], known))
    table = manifest["table"]
    model._column_origin = tuple(table["origin"])
    kept = {
        name: Table(_values(arrays, name), *(tuple(told[part]) for part in ("names", "categorical", "origin")))
        for name, told in table.get("kept", {}).items()
    }
    model._fitted_table, model._fitted_columns = kept.get("fitted"), kept.get("seen")
    model._reader = TableReader(model.categorical_features)
    model._reader.names, model._reader.is_sparse = tuple(table["names"]), table["is_sparse"]
    model._reader.categories = {int(column): _revived(v, known) for column, v in table["categories"].items()}
    model._preparation = _preparation(manifest["preparation"], arrays, known)
    if manifest["calibrated"] is not None:
        model._calibrated = ProbabilityField(*manifest["calibrated"])
    model.ensemble_ = learners.as_learner(model.learner).load(entries)
    return model


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
    """
    entries = _read(os.fspath(path))
    manifest = json.loads(entries["manifest.json"])
    with np.load(io.BytesIO(entries["arrays.npz"]), allow_pickle=False) as stored:
        arrays = {name: stored[name] for name in ("scores", "label_nodes", "graph_indices") if name in stored.files}
    table, fitted = manifest["table"], manifest["fitted"]
    return {
        "estimator": manifest["estimator"],
        "format_version": manifest["format_version"],
        "n_nodes": len(arrays["scores"]),
        "n_edges": arrays["graph_indices"].size // 2 if "graph_indices" in arrays else None,
        "n_labels": arrays["label_nodes"].size,
        "columns": table["names"],
        "categorical": [table["names"][int(column)] for column in table["categories"]],
        "classes": None if fitted.get("classes") is None else _revived(fitted["classes"], {}).tolist(),
        "choice": fitted["choice"],
        "n_iter": fitted["n_iter"],
        "stopped_because": fitted["stopped_because"],
        "names": _revived(fitted.get("names"), {}),
        "has_node_ids": manifest["node_ids"] is not None,
        "has_table": bool(table.get("kept")),
        "environment": manifest["environment"],
        "bytes": {name: len(content) for name, content in entries.items()},
        "file_bytes": os.path.getsize(path),
    }


def _preparation(told: dict[str, Any], arrays: dict[str, NDArray[Any]], known: dict[str, type]) -> Preparation:
    found = Preparation(_revived(told["neighbor_features"], known), _revived(told["feature_smoothing"], known))
    found.smooths_encodings = told["smooths_encodings"]
    if "directions" in arrays:
        found.low_rank = LowRank(arrays["directions"].shape[1])
        found.low_rank.rarity, found.low_rank.directions = arrays["rarity"], arrays["directions"]
    if "positions" in arrays:
        found.positions = Positions(arrays["positions"].shape[1])
        found.positions.directions, found.positions.of_graph = arrays["positions"], told["positions"]
    if "encoder_prior" in arrays:
        found.encoder = OrderedTargetEncoder()
        found.encoder.prior = arrays.pop("encoder_prior")
        columns = [name for name in arrays if name.startswith("encoder_")]
        found.encoder.means = {int(name.removeprefix("encoder_")): arrays[name] for name in columns}
    return found


def _read(path: str) -> dict[str, bytes]:
    """All entries of the zip, each of them as it was written."""
    try:
        with zipfile.ZipFile(path) as file:
            entries = {name: file.read(name) for name in file.namelist()}
        manifest = json.loads(entries["manifest.json"])
        told = manifest["format"], manifest["format_version"], manifest["sha256"]
    except (FileNotFoundError, IsADirectoryError, PermissionError):
        raise
    except (  # what zipfile lets through when bytes of a zip are changed at random
        OSError,
        zipfile.BadZipFile,
        zlib.error,
        struct.error,
        LookupError,
        TypeError,
        ValueError,
        EOFError,
        RuntimeError,
    ) as error:
        raise ValueError(f"{path} is not an ebbflow model, or it is damaged ({error}).") from None
    name, format_version, sums = told
    if name != "ebbflow model" or not isinstance(format_version, int):
        raise ValueError(f"{path} is not an ebbflow model.")
    if format_version > FORMAT_VERSION:
        raise ValueError(
            f"{path} was written by a newer ebbflow (format {format_version}, this one reads up to {FORMAT_VERSION}): "
            "upgrade ebbflow to load it."
        )
    for entry, content in entries.items():
        if entry != "manifest.json" and sums.get(entry) != hashlib.sha256(content).hexdigest():
            raise ValueError(f"{path} is damaged: its entry {entry!r} is not what was written.")
    if missing := set(sums) - set(entries):
        raise ValueError(f"{path} is damaged: {sorted(missing)} is missing.")
    return entries


def _write_atomically(path: str, entries: dict[str, bytes]) -> None:
    """Write beside the target and rename: a reader sees the old file or the whole new one."""
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder):
        raise FileNotFoundError(f"{path} cannot be written: there is no folder {folder}.")
    if os.path.isdir(path):
        raise IsADirectoryError(f"{path} cannot be written: it is a folder.")
    handle, temporary = tempfile.mkstemp(prefix=".ebbflow-", suffix=".part", dir=folder)
    try:
        with os.fdopen(handle, "wb") as raw, zipfile.ZipFile(raw, "w", zipfile.ZIP_DEFLATED) as file:
            for name, content in entries.items():
                # A fixed date, so that the same model gives the same bytes.
                file.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), content, zipfile.ZIP_DEFLATED)
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _plain(value: Any) -> Any:
    """Parameters and learned values as JSON; parts such as smoothers as the name of their class and parameters."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, np.generic) and value.dtype.kind in "biufU":
        return value.item()
    if isinstance(value, np.ndarray):
        return {"array": [_plain(item) for item in value.tolist()], "dtype": value.dtype.str}
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
        return {"class": type(value).__name__, "parameters": {k: _plain(v) for k, v in parameters.items()}}
    raise ValueError(
        f"{value!r} cannot be saved without pickle: a model file holds numbers, text and ebbflow's parts. Turn it into "
        "numbers or text before you fit."
    )


def _revived(value: Any, known: dict[str, type]) -> Any:
    if isinstance(value, list):
        return [_revived(item, known) for item in value]
    if not isinstance(value, dict):
        return value
    if "tuple" in value:
        return tuple(_revived(item, known) for item in value["tuple"])
    if "array" in value:
        items, dtype = [_revived(item, known) for item in value["array"]], np.dtype(value["dtype"])
        if dtype.kind != "O":
            return np.asarray(items, dtype=dtype)
        array = np.empty(len(items), dtype=object)  # numpy would spread ids that are tuples over a second axis
        for row, item in enumerate(items):
            array[row] = item
        return array
    if "dict" in value:
        return {_revived(key, known): _revived(item, known) for key, item in value["dict"]}
    if value["class"] not in known:
        raise ValueError(
            f"The model uses {value['class']}, a class of its author's: import it and pass load(path, classes=[...])."
        )
    return known[value["class"]](**{k: _revived(v, known) for k, v in value["parameters"].items()})


def _environment() -> dict[str, str]:
    found = {"python": platform.python_version(), "machine": platform.machine(), "system": platform.system()}
    found["sweeps"] = "scipy" if smoothing._sweep.COMPILED is None else "compiled"  # they round in another order
    for package in (
        "ebbflow",
        "numpy",
        "scipy",
        "scikit-learn",
        "lightgbm",
        "xgboost-cpu",
        "xgboost",
        "catboost",
    ):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
