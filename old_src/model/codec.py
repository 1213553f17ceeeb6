"""Values as JSON, for model files and checkpoints: encoding, decoding, and text to compare them by.

None, booleans, numbers, text and lists are themselves. Everything else is an object whose first key
names its kind: ``tuple``, ``dict``, ``array``, ``class``, and in checkpoints ``npy``, ``bytes``,
``iterate`` and ``pickle``.
"""

import io
import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebboost.backends.dask.sharding import RowOrders
from ebboost.boosting.iterate import Iterate
from ebboost.boosting.objective import Objective
from ebboost.data.fingerprint import fingerprint_of
from ebboost.data.schema import require
from ebboost.data.sharded import ShardedArray
from ebboost.data.types import AnyArray
from ebboost.learners import Pickled

_NUMBER_TYPES = {f"{order}{kind}{size}" for order in "<>" for kind in "iuf" for size in "248"}
_NUMBER_TYPES |= {"|b1", "|i1", "|u1"}
_NEEDS_PICKLE = (
    "Reading a pickle can run code. If nobody else can write to the folder, pass "
    "checkpoint=eb.Checkpoint(folder, pickle=True)."
)


class Codec:
    """Encoder and decoder of plain values: None, numbers, text, lists, tuples and dicts."""

    def encode(self, value: object, name: str) -> Any:
        """Return a value as JSON; ``name`` is for messages."""
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        if isinstance(value, np.generic) and value.dtype.kind in "biufU":
            return value.item()
        if isinstance(value, list):
            return [self.encode(item, name) for item in value]
        if isinstance(value, tuple):
            return {"tuple": [self.encode(item, name) for item in value]}
        if isinstance(value, Mapping):
            return {"dict": [[self.encode(part, name) for part in pair] for pair in value.items()]}
        return self._encode_other(value, name)

    def _encode_other(self, value: object, name: str) -> Any:
        raise ValueError(
            f"{name} holds {value!r}, which cannot be saved without pickle: a file holds numbers, "
            "text, lists, dicts, arrays and parts of ebboost. Convert it to numbers or text before "
            "you fit."
        )

    def encode_items(self, values: Mapping[str, object]) -> dict[str, Any]:
        """Return a dict of values, each as JSON."""
        return {name: self.encode(value, name) for name, value in values.items()}

    def decode(self, value: Any) -> Any:
        """Return the value of JSON; errors of any type if nothing is encoded so."""
        if isinstance(value, list):
            return [self.decode(item) for item in value]
        match value:
            case {"tuple": items}:
                return tuple(self.decode(item) for item in items)
            case {"dict": pairs}:
                return {self.decode(key): self.decode(item) for key, item in pairs}
            case {}:
                return self._decode_other(value)
        return value

    def _decode_other(self, value: dict[str, Any]) -> Any:
        raise ValueError(f"unknown kind of value with the keys {str(sorted(value))[:100]}")

    def decode_items(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return a dict of values, each from its JSON."""
        return {name: self.decode(value) for name, value in values.items()}


@dataclass
class PartCodec(Codec):
    """The codec of model files: arrays are lists, parts such as smoothers have parameters.

    A file may name the classes in these dicts. Parameters of library parts are never arrays.
    """

    library_parts: Mapping[str, type] = field(default_factory=dict)
    user_parts: Mapping[str, type] = field(default_factory=dict)

    def _encode_other(self, value: Any, name: str) -> Any:
        if isinstance(value, np.ndarray):
            # Text as wide as its longest item: a reader has to allocate the width in the file.
            is_text = value.dtype.kind == "U"
            dtype = np.asarray(value.tolist(), dtype=str).dtype if is_text else value.dtype
            return {"array": self.encode(value.tolist(), name), "dtype": dtype.str}
        if isinstance(value, np.random.RandomState):
            return None
        if not hasattr(value, "get_params"):
            return super()._encode_other(value, name)
        kind = type(value).__name__
        parameters = value.get_params(deep=False)
        for key, parameter in parameters.items():
            if callable(parameter) and not hasattr(parameter, "get_params"):
                raise ValueError(
                    f"{key}={parameter!r} of {kind} is a function, which cannot be saved without "
                    f"pickle. Use a choice that has a name; or define a subclass of {kind} whose "
                    f"__init__ passes the function to that of {kind}, fit with it, and pass "
                    "load(path, classes=[...])."
                )
        return {"class": kind, "parameters": self.encode_items(parameters)}

    def _decode_other(self, value: dict[str, Any]) -> Any:
        match value:
            case {"array": items, "dtype": dtype}:
                return _decode_array([self.decode(item) for item in items], str(dtype))
            case {"class": name, "parameters": encoded}:
                parameters = self.decode_items(encoded)
                if name in self.user_parts:
                    return self.user_parts[name](**parameters)
                if name not in self.library_parts:
                    raise ValueError(
                        f"the model uses the class {str(name)[:100]}, which is not part of "
                        "ebboost: import it and pass load(path, classes=[...])"
                    )
                has_array = any(isinstance(item, np.ndarray) for item in parameters.values())
                require(not has_array, f"a parameter of {name} must not be an array")
                return self.library_parts[name](**parameters)
        return super()._decode_other(value)


def _decode_array(items: list[Any], dtype: str) -> NDArray[Any]:
    if dtype[1:2] == "U":
        require(all(isinstance(item, str) for item in items), "an array of text must hold text")
        lengths = [len(item) for item in items]
        width = max(lengths, default=0)
        is_dense = len(items) * width <= 16 * sum(lengths) + 2**22
        require(is_dense, "an array of text must not be much wider than its items")
        return np.asarray(items, dtype=str)
    if dtype != "|O":
        numbers = all(type(item) in (bool, int, float) for item in items)
        require(dtype in _NUMBER_TYPES and numbers, "an array must hold numbers or text")
        return np.asarray(items, dtype=dtype)
    array = np.empty(len(items), dtype=object)
    for row, item in enumerate(items):  # numpy would spread tuples over a second axis
        array[row] = item
    return array


@dataclass
class StateCodec(Codec):
    """The codec of checkpoints: arrays and bytes are entries of their own, each stored once.

    ``objective`` is that of the iterates to decode; arrays are placed where its labels are.
    """

    entries: dict[str, bytes]
    may_pickle: bool
    objective: Objective | None = None
    #: Of the rows of arrays that are divided among workers.
    orders: RowOrders | None = None
    # By id of the object, which is held so that no other gets its id: iterates share arrays.
    _stored: dict[int, tuple[object, str]] = field(default_factory=dict, init=False)

    def _encode_other(self, value: Any, name: str) -> Any:
        if isinstance(value, ShardedArray) and self.orders is not None:
            orders = self.orders
            order = orders.order_of(value)
            join = partial(orders.join, value, order)
            return {"npy": self._store(value, "npy", lambda: _array_bytes(join()), f"-{order}")}
        if isinstance(value, np.ndarray) or hasattr(value, "__cuda_array_interface__"):
            return {"npy": self._store(value, "npy", lambda: _array_bytes(value))}
        if isinstance(value, bytes):
            return {"bytes": self._store(value, "bin", lambda: value)}
        if isinstance(value, Iterate):
            propagated = None if callable(value.propagated) else value.propagated
            weights = np.array(value.weights, dtype=np.float64)
            return {"iterate": self.encode([value.scores, propagated, weights], name)}
        if isinstance(value, Pickled):
            if not self.may_pickle:
                raise ValueError(
                    f"checkpoint: {name} holds regressors of scikit-learn, which only pickle can "
                    f"store. {_NEEDS_PICKLE}"
                )
            return {"pickle": self._store(value, "bin", lambda: pickle.dumps(value.content))}
        raise TypeError(
            f"checkpoint: {name} has a state() with {value!r}; a state holds numbers, text, lists, "
            "dicts, bytes and arrays."
        )

    def _store(
        self, value: object, suffix: str, content: Callable[[], bytes], order: str = ""
    ) -> str:
        """The name of the entry of an object, written on first use."""
        if id(value) not in self._stored:
            entry = f"{len(self.entries)}{order}.{suffix}"
            self._stored[id(value)] = (value, entry)
            self.entries[entry] = content()
        return self._stored[id(value)][1]

    def _decode_other(self, value: dict[str, Any]) -> Any:
        objective = self.objective
        match value:
            case {"npy": entry}:
                content = io.BytesIO(self.entries[entry])
                array = np.lib.format.read_array(content, allow_pickle=False)
                order = entry.removesuffix(".npy").partition("-")[2]
                if self.orders is not None:  # others are whole in every worker
                    return self.orders.select(array, int(order)) if order else array
                return (
                    array if objective is None else np.asarray(array, like=objective.labels.target)
                )
            case {"bytes": entry}:
                return self.entries[entry]
            case {"iterate": parts}:
                scores, propagated, weights = self.decode(parts)
                assert objective is not None
                if propagated is None:
                    propagated = objective.start().propagated
                return Iterate(scores, propagated, tuple(weights.tolist()))
            case {"pickle": entry}:
                if not self.may_pickle:
                    raise ValueError(f"checkpoint: it holds a pickle. {_NEEDS_PICKLE}")
                return pickle.loads(self.entries[entry])
        return super()._decode_other(value)


def _array_bytes(array: AnyArray) -> bytes:
    buffer = io.BytesIO()
    on_host = array if isinstance(array, np.ndarray) else array.get()
    np.lib.format.write_array(buffer, on_host, allow_pickle=False)
    return buffer.getvalue()


def describe_parameters(value: Any) -> str:
    """Return a text by which two fits compare a parameter, whether it can be saved or not."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return repr(value).removesuffix(".0")  # 1 and 1.0 are the same parameter
    if hasattr(value, "get_params") and not isinstance(value, type):
        return f"{type(value).__name__}({_described(value.get_params(deep=False), '{}={}')})"
    if isinstance(value, Mapping):
        return f"{{{_described(value, '{!r}: {}')}}}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(describe_parameters, value))}]"
    if isinstance(value, np.ndarray):
        return fingerprint_of(value)
    if callable(value):
        name = getattr(value, "__qualname__", type(value).__name__)
        code = getattr(value, "__code__", None)
        if code is None:
            return str(name)
        constants = [str(part) for part in code.co_consts if not hasattr(part, "co_code")]
        digest = fingerprint_of(code.co_code.hex(), code.co_names, constants)
        return f"{name} (code {digest[:8]})"
    return repr(value) if type(value).__repr__ is not object.__repr__ else type(value).__name__


def _described(items: Mapping[Any, Any], pattern: str) -> str:
    pairs = items.items()
    return ", ".join(pattern.format(key, describe_parameters(item)) for key, item in pairs)
