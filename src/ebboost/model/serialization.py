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
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ebboost import learners
from ebboost import propagation as smoothing
from ebboost.boosting import latent_field, losses, masked_labels, momentum
from ebboost.boosting.calibration import ProbabilityField
from ebboost.boosting.latent_field import LatentField
from ebboost.boosting.losses import Loss
from ebboost.boosting.masked_labels import MaskedLabels
from ebboost.boosting.momentum import Momentum
from ebboost.data import archive, features
from ebboost.data.archive import atomic_write, checksums
from ebboost.data.features import NeighborFeatures
from ebboost.data.graph_columns import STATISTICS
from ebboost.data.labels import Labels
from ebboost.data.low_rank import LowRank
from ebboost.data.pipeline import FeaturePipeline
from ebboost.data.reader import TableReader
from ebboost.data.table import Table
from ebboost.data.target_encoding import OrderedTargetEncoder
from ebboost.learners import Learner
from ebboost.model import _untrusted as soundness
from ebboost.model._untrusted import is_whole, require
from ebboost.model.environment import environment
from ebboost.propagation import Smoother

FORMAT_VERSION = 1
# Learned attributes by name, without their underscore: small ones in the manifest, arrays in arrays.npz.
FACTS = (
    "n_features_in",
    "feature_names_in",
    "classes",
    "smoothing",
    "labels",
    "loss",
    "best_candidate",
    "selection",
    "n_iter",
    "history",
    "stop_reason",
    "conformity_source",
    "calibration_error",
    "relation_strengths",
    "names",
)
# names: what the columns of ids and labels were called, if the model was fitted from files.
OPTIONAL_FACTS = ("smoothing", "labels", "calibration_error", "relation_strengths", "names")
ARRAYS = (
    "init_score",
    "scores",
    "propagated_scores",
    "raw_predictions",
    "conformity_scores",
    "validation_nodes",
    "validation_target",
    "validation_prediction",
)
_ROOMS = (features, latent_field, masked_labels, learners, losses, momentum, smoothing)
# All that a file may ask for by name; a class that was handed to load may be of any kind.
_PARTS = (Smoother, LatentField, MaskedLabels, Learner, Loss, Momentum, NeighborFeatures)


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
    np.savez_compressed(buffer, **stored)
    size = sum(array.nbytes + 4096 for array in stored.values())
    if size > archive.max_unpacked_size(
        buffer.tell()
    ):  # packed so well, it would be taken for a bomb
        buffer = io.BytesIO()
        np.savez(buffer, **stored)
    entries = {"arrays.npz": buffer.getvalue(), **trees}
    preparation = model._preparation
    # The same model gives the same bytes, however long it took.
    history = {name: values for name, values in model.history_.items() if name != "seconds"}
    manifest = {
        "format": "ebboost model",
        "format_version": FORMAT_VERSION,
        "estimator": type(model).__name__,
        "parameters": {name: _plain(value) for name, value in model.get_params(deep=False).items()},
        "fitted": {name: _plain(getattr(model, f"{name}_", None)) for name in FACTS}
        | {"history": _plain(history)},
        "node_ids": _plain(
            model.graph_.node_ids if model.graph_ is not None and model.graph_.has_ids else None
        ),
        "table": {
            "names": list(model._reader.names),
            "is_sparse": model._reader.is_sparse,
            "origin": [int(column) for column in model._column_origin],
            "kept": {
                name: {
                    "names": list(part.names),
                    "categorical": list(part.categorical),
                    "origin": list(part.origin),
                }
                for name, part in kept.items()
                if part is not None
            },
            "categories": {
                str(column): _plain(values) for column, values in model._reader.categories.items()
            },
        },
        "preparation": {
            "neighbor_features": _plain(preparation.neighbor_features),
            "feature_smoothing": _plain(preparation.feature_smoothing),
            "smooths_encodings": preparation.smooths_encodings,
        },
        "calibrated": [model.temperature_, model.label_strength_]
        if hasattr(model, "classes_")
        else None,
        "environment": getattr(model, "_environment", None) or environment(None),
        "sha256": checksums(entries),
    }
    entries["manifest.json"] = json.dumps(manifest, indent=1).encode()
    _store(os.fspath(path), entries)


def _arrays(model: Any) -> dict[str, NDArray[Any]]:
    """Every array of a fitted model, by name."""
    training, preparation = model._training, model._preparation
    arrays = {name: getattr(model, f"{name}_") for name in ARRAYS if hasattr(model, f"{name}_")}
    arrays |= {
        "label_nodes": training.nodes,
        "label_target": training.target,
        "label_weight": training.weight,
    }
    if model.graph_ is not None:
        adjacency = model.graph_.adjacency
        arrays |= {
            "graph_data": adjacency.data,
            "graph_indices": adjacency.indices,
            "graph_indptr": adjacency.indptr,
        }
    if preparation.encoder is not None:
        arrays["encoder_prior"] = preparation.encoder.prior
        arrays |= {
            f"encoder_{column}": means for column, means in preparation.encoder.means.items()
        }
    if preparation.low_rank is not None:
        arrays |= {
            "rarity": preparation.low_rank.rarity,
            "directions": preparation.low_rank.directions,
        }
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


def load(path: str | os.PathLike[str], classes: Iterable[type] = ()) -> Any:
    """Read a model that :meth:`EBBSRegressor.save` wrote.

    Nothing in a file is run, and everything is checked: a file from a stranger is refused or predicts.

    Parameters
    ----------
    path : path
    classes : iterable of types, optional
        Your own :class:`Loss`, :class:`Smoother`, :class:`Learner` or estimator classes, if the model was fitted with
        one. They are made with the parameters that the file gives.

    Returns
    -------
    EBBSRegressor or EBBSClassifier

    Raises
    ------
    ModelFileError
        If the file is no model file, is damaged, comes from a newer version, or holds what no model would.
    """
    path = os.fspath(path)
    manifest, arrays, entries = _read(path)
    with _refusing(path):
        return _model(manifest, arrays, entries, tuple(classes))


def _model(
    manifest: dict[str, Any],
    arrays: dict[str, NDArray[Any]],
    entries: dict[str, bytes],
    classes: tuple[type, ...],
) -> Any:
    """A model of what a file says, every part of it checked against the others."""
    from ebboost import estimators

    own = {
        kind.__name__: kind
        for room in _ROOMS
        for kind in vars(room).values()
        if isinstance(kind, type)
    }
    known = {
        name: kind
        for name, kind in own.items()
        if issubclass(kind, _PARTS) and not inspect.isabstract(kind)
    }
    known |= {
        kind.__name__: kind
        for kind in (estimators.EBBSRegressor, estimators.EBBSClassifier, *classes)
    }
    model: Any = _revived(
        {"class": manifest["estimator"], "parameters": manifest["parameters"]}, known
    )
    require(
        isinstance(model, (estimators.EBBSRegressor, estimators.EBBSClassifier)),
        "its estimator is none",
    )
    jobs = model.n_jobs  # of all parameters the one that a prediction goes by
    require(
        jobs is None or is_whole(jobs, -1, -1) or is_whole(jobs, 1, 2**31),
        "its n_jobs is no number of threads",
    )
    facts = {name: _revived(manifest["fitted"].get(name), known) for name in FACTS}
    for name, value in facts.items():
        if value is not None or name in OPTIONAL_FACTS:
            setattr(model, f"{name}_", value)
    is_classifier = isinstance(model, estimators.EBBSClassifier)
    n_nodes, n_outputs = soundness.check_arrays(arrays, facts["classes"], is_classifier)
    soundness.check_facts(facts, is_classifier)
    for name in ARRAYS:
        if name in arrays:
            setattr(model, f"{name}_", arrays[name])
    model._training = Labels(arrays["label_nodes"], arrays["label_target"], arrays["label_weight"])
    model.graph_ = soundness.graph(arrays, _revived(manifest["node_ids"], known), n_nodes)
    model._environment = manifest["environment"]
    _take_table(model, manifest["table"], arrays, n_nodes)
    model._preparation = _preparation(manifest["preparation"], arrays, known)
    if is_classifier:
        temperature, strength = manifest["calibrated"]
        require(
            0.0 < temperature < 1e6 and 0.0 <= strength <= 1.0, "its calibration is out of range"
        )
        model._calibrated = ProbabilityField(temperature, strength)
    learner = learners.as_learner(model.learner)
    model.ensemble_ = learner.load(entries)
    categories = {column: len(values) for column, values in model._reader.categories.items()}
    model.ensemble_.check(
        len(model._column_origin), n_outputs, categories if learner.takes_categories else {}
    )
    soundness.rehearse(model, n_nodes, n_outputs, learner.takes_categories)
    return model


def _take_table(
    model: Any, told: dict[str, Any], arrays: dict[str, NDArray[Any]], n_nodes: int
) -> None:
    """What the columns were, and the table itself if it is there."""
    names = told["names"]
    n_columns = len(names)
    model._reader = reader = TableReader(model.categorical_features)
    reader.names, reader.is_sparse = tuple(names), told["is_sparse"]
    reader.categories = {int(column): list(values) for column, values in told["categories"].items()}
    require(is_whole(model.n_features_in_, n_columns, n_columns), f"n_features_in: not {n_columns}")
    given = getattr(model, "feature_names_in_", None)
    require(
        given is None or (isinstance(given, np.ndarray) and given.tolist() == names),
        "feature_names_in",
    )
    for values in reader.categories.values():
        text = all(isinstance(value, str) for value in values)
        require(
            text or all(type(value) in (int, float, bool) for value in values),
            "categories mix text and numbers",
        )
        require(len(set(values)) == len(values) and not reader.is_sparse, "a category stands twice")
    model._column_origin = tuple(told["origin"])
    kept = {}
    for name, part in told.get("kept", {}).items():
        columns, categorical, origin = (part[key] for key in ("names", "categorical", "origin"))
        require(
            all(isinstance(column, str) for column in columns), f"the columns of its table {name!r}"
        )
        require(all(is_whole(at, 0, n_columns - 1) for at in categorical), f"its table {name!r}")
        table = Table(_values(arrays, name), tuple(columns), tuple(categorical), tuple(origin))
        values = table.values.data if table.is_sparse else table.values
        require(
            table.values.shape == (n_nodes, len(columns)) and values.dtype.kind == "f",
            f"its table {name!r}",
        )
        require(not np.isinf(values).any() and len(origin) == len(columns), f"its table {name!r}")
        require(
            all(is_whole(at, -1, n_columns - 1) for at in origin),
            f"the columns of its table {name!r}",
        )
        if name == "fitted":
            same = (columns, categorical, origin) == (
                names,
                sorted(reader.categories),
                list(range(n_columns)),
            )
            require(same and table.is_sparse == reader.is_sparse, "its table has other columns")
        else:
            require(
                name == "seen" and table.origin == model._column_origin and not categorical,
                "its table 'seen'",
            )
        kept[name] = table
    model._fitted_table, model._fitted_columns = kept.get("fitted"), kept.get("seen")


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
        classes, names = (_revived(fitted.get(name), {}) for name in ("classes", "names"))
        require(
            isinstance(names, dict | None) and isinstance(classes, np.ndarray | None),
            "names or classes",
        )
        for name in ("best_candidate", "stop_reason"):
            require(isinstance(fitted[name], str), f"{name} must be text")
        require(is_whole(fitted["n_iter"], 0, 10**9), "n_iter must be a whole number")
        return {
            "estimator": manifest["estimator"],
            "format_version": manifest["format_version"],
            "n_nodes": len(arrays["scores"]),
            "n_edges": arrays["graph_indices"].size // 2 if "graph_indices" in arrays else None,
            "n_labels": arrays["label_nodes"].size,
            "columns": table["names"],
            "categorical": [table["names"][int(column)] for column in table["categories"]],
            "classes": None if classes is None else classes.tolist(),
            "best_candidate": fitted["best_candidate"],
            "n_iter": fitted["n_iter"],
            "stop_reason": fitted["stop_reason"],
            "names": names,
            "has_node_ids": manifest["node_ids"] is not None,
            "has_table": bool(table.get("kept")),
            "environment": manifest["environment"],
            "bytes": {name: len(content) for name, content in entries.items()},
            "file_bytes": os.path.getsize(path),
        }


def _preparation(
    told: dict[str, Any], arrays: dict[str, NDArray[Any]], known: dict[str, type]
) -> FeaturePipeline:
    found = FeaturePipeline(
        _revived(told["neighbor_features"], known), _revived(told["feature_smoothing"], known)
    )
    found.smooths_encodings = told["smooths_encodings"]
    asked = found.neighbor_features
    require(isinstance(found.smooths_encodings, bool), "smooths_encodings must be true or false")
    require(isinstance(asked, NeighborFeatures | None), "neighbor_features are none")
    require(isinstance(found.feature_smoothing, Smoother | None), "feature_smoothing is none")
    require(
        asked is None or len(asked.statistics) <= len(STATISTICS),
        "too many statistics of neighbours",
    )
    if "directions" in arrays:
        directions = soundness.numbers(arrays, "directions", None, None)
        found.low_rank = LowRank(directions.shape[1])
        found.low_rank.rarity, found.low_rank.directions = (
            soundness.numbers(arrays, "rarity", len(directions)),
            directions,
        )
    if "encoder_prior" in arrays:
        found.encoder = OrderedTargetEncoder()
        found.encoder.prior = soundness.numbers(arrays, "encoder_prior", None)
        columns = [
            name for name in arrays if name.startswith("encoder_") and name != "encoder_prior"
        ]
        found.encoder.means = {
            int(name.removeprefix("encoder_")): soundness.numbers(arrays, name, None, None)
            for name in columns
        }
        require(all(len(means) for means in found.encoder.means.values()), "an encoding is empty")
    return found


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
