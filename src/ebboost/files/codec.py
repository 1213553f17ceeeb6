"""A fitted model as JSON and arrays, and back.

Numbers, text, lists and None are themselves in JSON. Everything else is an object whose first key
says what it is, such as ``tuple``, ``array`` (an entry of the file) or ``class``. *Records* are the
dataclasses that the annotations of :class:`Model` lead to. Their fields are checked against their
annotations: a new field needs no edit here. *Parts*, such as losses, are made by constructors.
"""

import inspect
import re
import typing
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from functools import cache
from importlib import import_module
from types import NoneType, UnionType
from typing import Any, Union

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator

from ebboost.files.archive import ModelFileError, npy_bytes, parse_npy
from ebboost.files.trees import LARGEST, require
from ebboost.graph import Graph
from ebboost.graph.ids import check_unique_ids
from ebboost.intervals import Spread
from ebboost.learners import Ensemble, Learner
from ebboost.learners.base import MeanEnsemble
from ebboost.model import Model

MODULES = ("ebboost", "ebboost.paper")  # whose parts a file may name
CSR = ("data", "indices", "indptr")


@cache
def types_of(kind: type) -> dict[str, Any]:
    """Return the annotations of a record."""
    return typing.get_type_hints(kind, localns={"Spread": Spread})


@cache
def records() -> dict[str, type]:
    """Return the dataclasses that a model is made of, by name."""
    found: dict[str, type] = {}
    hints: list[Any] = [Model]
    for hint in hints:
        hints += typing.get_args(hint)
        is_record = isinstance(hint, type) and is_dataclass(hint)
        if is_record and not issubclass(hint, BaseEstimator) and hint not in found.values():
            found[hint.__name__] = hint
            hints += types_of(hint).values()
    return found


def find_class(name: str, own: Mapping[str, type]) -> Any:
    """Return a record or part by its name; one of the user's ``own`` before others."""
    found: Any = own.get(name) or records().get(name)
    for path in MODULES:
        with suppress(ImportError):  # of a library that is not installed
            found = found or getattr(import_module(path), name, None)
    kinds = (BaseEstimator, *records().values())
    if inspect.isclass(found) and issubclass(found, kinds) and not inspect.isabstract(found):
        return found
    raise ModelFileError(
        f"The model file names the class {name[:100]!r}, which ebboost has not: import it and pass "
        "load(path, classes=[...])."
    )


class Encoder:
    """Turns values into JSON; collects arrays and trees as entries of a file."""

    def __init__(self) -> None:
        self.entries: dict[str, bytes] = {}
        self._names: dict[int, tuple[object, str]] = {}  # of arrays, by id: each is stored once

    def add(self, path: str, content: bytes) -> str:
        """Add an entry, and return its name, which says where in the model it is."""
        name = f"{len(self.entries)}-{re.sub('[^A-Za-z0-9_-]+', '.', path)[-100:].strip('.')}"
        self.entries[name] = content
        return name

    def encode(self, value: Any, path: str) -> Any:
        """Return a value as JSON; ``path`` is its place in the model."""
        if isinstance(value, np.generic) and value.dtype.kind in "biufU":
            return value.item()
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        if isinstance(value, (list, tuple)):
            items = [self.encode(item, f"{path}.{i}") for i, item in enumerate(value)]
            return {"tuple": items} if isinstance(value, tuple) else items
        if isinstance(value, Mapping):
            pairs = value.items()
            items = [[self.encode(k, path), self.encode(v, f"{path}.{k}")] for k, v in pairs]
            return {"dict": items}
        if isinstance(value, np.ndarray) and value.dtype.kind in "biuf" and value.ndim <= 2:
            if id(value) not in self._names:
                self._names[id(value)] = (value, self.add(f"{path}.npy", npy_bytes(value)))
            return {"array": self._names[id(value)][1]}
        if isinstance(value, np.ndarray) and value.dtype.kind in "OU" and value.ndim == 1:
            return {"items": self.encode(value.tolist(), path), "text": value.dtype.kind == "U"}
        if sparse.issparse(value):
            arrays = [self.encode(getattr(value, name), f"{path}.{name}") for name in CSR]
            return {"csr": arrays, "shape": list(value.shape)}
        if isinstance(value, MeanEnsemble):
            return {"mean": self.encode(value.ensembles, path)}
        if isinstance(value, Ensemble):
            files = {name: self.add(f"{path}.{name}", one) for name, one in value.files().items()}
            return {"ensemble": value.learner, "files": files}
        if hasattr(value, "get_indexer"):  # a pandas index
            try:
                return {"index": self.encode(np.asarray(value), path)}
            except ValueError:  # of dates and others, without which predictions are the same
                return None
        if isinstance(value, (np.random.RandomState, np.random.Generator)):
            return None  # seeds are stored, states are not
        parts: dict[str, Any]
        if isinstance(value, BaseEstimator):
            parts = value.get_params(deep=False)
        elif isinstance(value, Graph):
            ids = value.node_ids if value.has_ids else None
            parts = {"adjacency": value.adjacency, "node_ids": ids}
        elif is_dataclass(value) and isinstance(value, tuple(records().values())):
            parts = {field.name: getattr(value, field.name) for field in fields(value)}
        else:
            raise ValueError(
                f"{path} is {value!r}, which cannot be saved without pickle: a file holds numbers, "
                "text, lists, arrays and parts of ebboost. Convert it to numbers or text before "
                "you fit; a function belongs into a class of your own, for load(path, classes=...)."
            )
        encoded = {name: self.encode(part, f"{path}.{name}") for name, part in parts.items()}
        return {"class": type(value).__name__, "fields": encoded}


class Decoder:
    """Turns JSON and entries of a file that is not trusted into values; ``classes`` are parts."""

    def __init__(self, entries: Mapping[str, bytes], classes: Mapping[str, type]) -> None:
        self._entries = entries
        self._classes = classes
        self._arrays: dict[str, NDArray[Any]] = {}

    def decode(self, value: Any) -> Any:
        """Return the value of JSON; errors of any type if nothing is encoded so."""
        match value:
            case list():
                return [self.decode(item) for item in value]
            case {"tuple": list(items)}:
                return tuple(self.decode(items))
            case {"dict": list(pairs)}:
                return {self.decode(key): self.decode(item) for key, item in pairs}
            case {"array": str(entry)}:
                if entry not in self._arrays:
                    self._arrays[entry] = parse_npy(self._entries[entry])
                return self._arrays[entry]
            case {"items": list(items), "text": is_text}:
                values = self.decode(items)
                return text_array(values) if is_text else np.fromiter(values, object, len(values))
            case {"csr": list(parts), "shape": list(shape)}:
                data, indices, indptr = self.decode(parts)
                return checked_csr(data, indices, indptr, tuple(shape))
            case {"index": values}:
                with suppress(ImportError):
                    return import_module("pandas").Index(self.decode(values).tolist())
                return None
            case {"mean": list(parts)}:
                return MeanEnsemble(self.decode(parts))
            case {"ensemble": str(name), "files": dict(files)}:
                learner = find_class(name, self._classes)
                require(issubclass(learner, Learner), f"{name} is not a learner")
                contents = {file: self._entries[entry] for file, entry in files.items()}
                for file, content in contents.items():
                    if file.endswith(".npy"):  # numpy's own reader is not strict
                        parse_npy(content)
                return learner.load(contents)
            case {"class": str(name), "fields": dict(encoded)}:
                values = {key: self.decode(item) for key, item in encoded.items()}
                if name == "Graph":
                    return checked_graph(**values)
                kind = find_class(name, self._classes)
                for key, item in () if issubclass(kind, BaseEstimator) else values.items():
                    conform(item, types_of(kind)[key], f"{name}.{key}")
                return kind(**values)
        return value


def conform(value: Any, hint: Any, path: str) -> None:
    """Raise ``ValueError`` unless a value has the type of an annotation; arrays are finite."""
    kind, inner = typing.get_origin(hint) or hint, typing.get_args(hint)
    if kind is Any:
        return
    if hasattr(kind, "__value__"):  # the alias NDArray, from numpy 2.5 on
        conform(value, kind.__value__[inner], path)
        return
    if kind in (Union, UnionType):  # the type or None
        if value is not None or NoneType not in inner:
            conform(value, inner[0], path)
        return
    if kind is np.ndarray:
        number = typing.get_args(inner[1])[0]
        fits = isinstance(value, np.ndarray) and (number is Any or value.dtype == number)
        require(fits, f"{path} must be an array{'' if number is Any else f' of {number.__name__}'}")
        is_finite = value.dtype.kind != "f" or (np.abs(value) <= LARGEST).all()
        require(is_finite, f"{path} must hold finite numbers")
        return
    fits = isinstance(value, (int, float) if kind is float else kind)
    fits = fits and (kind is bool or not isinstance(value, bool))
    require(fits, f"{path} must be of type {kind.__name__}")
    if issubclass(kind, Mapping) and inner:
        conform(list(value), list[inner[0]], f"{path}, its keys,")  # type: ignore[valid-type]
        conform(list(value.values()), list[inner[1]], path)  # type: ignore[valid-type]
    elif inner:
        is_list = not issubclass(kind, tuple) or inner[-1] is Ellipsis
        hints = [inner[0]] * len(value) if is_list else inner
        require(len(hints) == len(value), f"{path} must have {len(hints)} entries")
        for number, (item, one) in enumerate(zip(value, hints, strict=True)):
            conform(item, one, f"{path}[{number}]")


def text_array(items: list[Any]) -> NDArray[Any]:
    """Return an array of text, which is as wide as the longest."""
    sizes = [len(item) for item in items]
    is_dense = len(items) * max(sizes, default=0) <= 16 * sum(sizes) + 2**22
    require(is_dense, "an array of text must not be much wider than its items")
    return np.asarray(items, dtype=str)


def checked_csr(data: Any, indices: Any, indptr: Any, shape: tuple[int, ...]) -> sparse.csr_array:
    """Return a sparse matrix, whose positions compiled loops follow without checking them."""
    n_rows, n_columns = shape
    fits = data.ndim == indices.ndim == indptr.ndim == 1 and min(shape) >= 0
    fits = fits and indptr.size == n_rows + 1 and indices.size == data.size
    kinds = {np.dtype(np.int32), np.dtype(np.int64)}
    fits = fits and {indices.dtype, indptr.dtype} <= kinds and data.dtype.kind == "f"
    require(fits, "a sparse matrix must be in CSR format")
    in_order = (indptr[1:] >= indptr[:-1]).all()  # differences might overflow
    in_order &= indptr[0] == 0 and indptr[-1] == data.size
    in_range = ((indices >= 0) & (indices < n_columns)).all()
    require(in_order and in_range, "a sparse matrix must have positions within its shape")
    return sparse.csr_array((data, indices, indptr), shape=shape)


def checked_graph(adjacency: sparse.csr_array, node_ids: NDArray[Any] | None) -> Graph:
    """Return a graph: symmetric, without loops, weights 0 or more, different ids."""
    n_nodes = adjacency.shape[0]
    require(adjacency.shape == (n_nodes, n_nodes), "a graph must be a square matrix")
    weights = adjacency.data
    is_positive = weights.dtype == np.float64 and ((weights >= 0.0) & np.isfinite(weights)).all()
    require(is_positive, "weights of a graph must be finite, and not negative")
    # The transpose has sorted, unique columns: only a matrix that has them too is equal to it.
    transpose = adjacency.T.tocsr()
    same = [np.array_equal(getattr(adjacency, name), getattr(transpose, name)) for name in CSR]
    is_simple = all(same) and transpose.has_canonical_format and not adjacency.diagonal().any()
    require(is_simple, "a graph must be symmetric, without loops")
    if node_ids is not None:
        require(node_ids.shape == (n_nodes,), f"node_ids must be {n_nodes} ids")
        require(node_ids.dtype.kind in "iuOU", "node_ids must be integers, text or objects")
        check_unique_ids(node_ids)
    return Graph(adjacency, node_ids)
