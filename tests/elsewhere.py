"""Arrays that raise if converted to numpy, like those on a GPU.

They answer to numpy's protocols alone; numpy's arrays neither mix with them nor come of them.
"""

from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

import ebboost as eb
from ebboost.backends import Backend
from ebboost.backends._cuda_graph import CudaGraph, CudaSweep
from ebboost.backends.cuda import CudaBackend
from ebboost.data.labels import Labels
from ebboost.propagation import sweep_on

MOVES = (np.asarray,)


class Elsewhere(NDArrayOperatorsMixin):
    """An array that cannot be read here."""

    def __init__(self, held: Any) -> None:
        self.held = np.asarray(held)

    #: By which a checkpoint knows what to bring back.
    __cuda_array_interface__ = None

    def get(self) -> Any:
        """Bring it here, as one must ask for."""
        return self.held

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise TypeError("An array elsewhere was converted to numpy.")

    def __array_ufunc__(
        self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **options: Any
    ) -> Any:
        if method != "__call__":
            return NotImplemented
        _refuse(options)
        options = {name: _unwrapped(part) for name, part in options.items()}
        found = ufunc(
            *map(_unwrapped, inputs), out=out if out is None else _unwrapped(out), **options
        )
        return _wrapped(found) if out is None else out[0]

    def __array_function__(self, function: Any, types: Any, arguments: Any, options: Any) -> Any:
        _refuse(options)
        if function in MOVES and isinstance(arguments[0], np.ndarray):
            return Elsewhere(function(*arguments, **options))
        return _wrapped(
            function(
                *_unwrapped(arguments), **{name: _unwrapped(part) for name, part in options.items()}
            )
        )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        found = getattr(self.held, name)
        if not callable(found):
            return _wrapped(found)

        def called(*arguments: Any, **options: Any) -> Any:
            _refuse(options)
            return _wrapped(found(*_unwrapped(arguments), **options))

        return called

    def __getitem__(self, place: Any) -> Any:
        return _wrapped(self.held[_unwrapped(place)])

    def __setitem__(self, place: Any, value: Any) -> None:
        self.held[_unwrapped(place)] = _unwrapped(value)

    def __len__(self) -> int:
        return len(self.held)

    def __float__(self) -> float:
        return float(self.held)

    def __int__(self) -> int:
        return int(self.held)

    def __bool__(self) -> bool:
        return bool(self.held)


def _refuse(options: dict[str, Any]) -> None:
    """What CuPy's functions do not take; numpy's full and ones hand ``device`` on unasked."""
    for name in ("device", "initial", "where"):
        if name in options:
            raise TypeError(f"unexpected keyword argument {name!r}")


def _unwrapped(value: Any) -> Any:
    if isinstance(value, Elsewhere):
        return value.held
    if isinstance(value, (list, tuple)):
        return type(value)(map(_unwrapped, value))
    if isinstance(value, np.ndarray):
        raise TypeError("An array of numpy's met one elsewhere.")
    return value


def _wrapped(value: Any) -> Any:
    return Elsewhere(value) if isinstance(value, (np.ndarray, np.generic)) else value


class EdgesElsewhere(CudaSweep):
    """Those of a GPU, swept by the CPU's loops."""

    def __init__(self, adjacency: Any) -> None:
        self.n_nodes, self.shape, self._sweep = (
            adjacency.shape[0],
            adjacency.shape,
            sweep_on(adjacency),
        )

    def __abs__(self) -> "EdgesElsewhere":
        return EdgesElsewhere(abs(self._sweep.adjacency))

    def __call__(
        self, v: Any, scale: Any = None, keep: Any = None, source: Any = None, out: Any = None
    ) -> Any:
        return Elsewhere(self._sweep(*(_unwrapped(part) for part in (v, scale, keep, source, out))))


class GraphElsewhere(CudaGraph):
    """A graph whose numbers lie elsewhere."""

    groups = None
    time = None

    def __init__(self, host: eb.Graph) -> None:
        self.host, self.n_nodes, self.is_signed = host, host.n_nodes, host.is_signed
        self.degrees, self.adjacency = Elsewhere(host.degrees), EdgesElsewhere(host.adjacency)

    @property
    def unsigned(self) -> "GraphElsewhere":
        return GraphElsewhere(self.host.unsigned)

    def similar_neighborhoods(self, k: int = 10) -> "GraphElsewhere":
        return GraphElsewhere(self.host.similar_neighborhoods(k))


class ElsewhereBackend(Backend):
    """A backend whose arrays are elsewhere."""

    field_mode = CudaBackend.field_mode

    def graph(self, graph: Any) -> Any:
        return None if graph is None else GraphElsewhere(graph)

    def labels(self, labels: Any) -> Any:
        if labels is None:
            return None
        return Labels(
            *(Elsewhere(part.copy()) for part in (labels.nodes, labels.target, labels.weight))
        )

    def to_device(self, array: Any) -> Any:
        return Elsewhere(array)

    def to_host(self, array: Any) -> Any:
        return array.held
