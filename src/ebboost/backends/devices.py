"""Where a fit trains: on the CPU, or on a GPU by ``device="cuda"``.

What the rounds touch is moved before the first and brought back after the last: the graph, the labels, and with them every
score and gradient, as CuPy's arrays answer to numpy's functions. The table is the learner's to move. What labels say of the
predictions of a fit is solved for there too.
"""

from collections.abc import Sequence
from importlib import import_module
from typing import Any, Self

from ebboost.backends._tiles import worthwhile
from ebboost.boosting.objective import Objective
from ebboost.data.labels import Labels
from ebboost.graph import Graph
from ebboost.learners import Learner

GIGA = 1e9
#: Scores, gradients, curvatures and what is computed from them on the way, in numbers of 8 bytes for each node and output.
VECTORS = 40
#: An entry of the table: a float32 number, its bin, and what XGBoost needs beside them.
BYTES = 6


class Cpu:
    """Everything stays where it is."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        return

    def graph(self, graph: Graph | None) -> Any:
        """Return the graph, there."""
        return graph

    def labels(self, labels: Any) -> Any:
        """Return the labels, there."""
        return labels

    def to_device(self, array: Any) -> Any:
        """Return an array of numpy's, there."""
        return array

    def to_host(self, array: Any) -> Any:
        """Return an array, here."""
        return array

    def field(self, use: Any, graph: Graph, known: Labels) -> Any:
        """Return the field of known labels; what it takes and gives is here."""
        return use.operator(graph, known.nodes, known.weight)

    def learner(self, learner: Learner) -> Learner:
        """Return the learner, as trees are grown with it here."""
        return learner

    def objective(self, objective: Objective) -> Objective:
        """Return the objective, as the loop reads it here."""
        return objective

    def expect(self, name: str, n_rows: int, n_columns: int, n_outputs: int) -> None:
        """Note the size of a candidate's table, which is about to be moved."""
        return


class Cuda(Cpu):
    """One NVIDIA GPU: the one that CuPy says is current."""

    def __init__(self) -> None:
        self._cupy = cupy()
        self._hosts: list[Graph] = []
        self._graphs: dict[int, Any] = {}
        self._tables: dict[str, tuple[int, int, int]] = {}
        self._free = 0

    def __enter__(self) -> Self:
        self._cupy.get_default_memory_pool().free_all_blocks()
        self._free = self._cupy.cuda.runtime.memGetInfo()[0]
        return self

    def __exit__(self, *failure: Any) -> None:
        """Say what a fit that found too little memory would have needed."""
        error = failure[1]
        self._graphs.clear()
        self._cupy.get_default_memory_pool().free_all_blocks()
        if error is not None and _is_out_of_memory(error):
            edges = sum(_bytes(graph) for graph in self._hosts)
            raise MemoryError(too_large(list(self._tables.values()), edges, self._free)) from error

    def graph(self, graph: Graph | None) -> Any:
        """Return the graph on the GPU, moved once."""
        if graph is None:
            return None
        from ebboost.backends._cuda import CudaGraph

        if id(graph) not in self._graphs:
            self._hosts.append(graph)
            self._graphs[id(graph)] = CudaGraph(graph)
        return self._graphs[id(graph)]

    def labels(self, labels: Any) -> Any:
        """Return the labels on the GPU."""
        if labels is None:
            return None
        return Labels(*map(self.to_device, (labels.nodes, labels.target, labels.weight)))

    def to_device(self, array: Any) -> Any:
        """Return an array as CuPy's."""
        return self._cupy.asarray(array)

    def to_host(self, array: Any) -> Any:
        """Return an array as numpy's."""
        return self._cupy.asnumpy(array)

    def field(self, use: Any, graph: Graph, known: Labels) -> "DeviceField":
        """Return the field of known labels, whose edges are on the GPU."""
        there = self.labels(known)
        return DeviceField(use.operator(self.graph(graph), there.nodes, there.weight), self)

    def expect(self, name: str, n_rows: int, n_columns: int, n_outputs: int) -> None:
        """Note the table, for what is said if there is no room for it."""
        self._tables[name] = n_rows, n_columns, n_outputs


class DeviceField:
    """A field on a device: what it takes and gives is here."""

    def __init__(self, field: Any, device: Cpu) -> None:
        self._field, self._device = field, device

    def posterior_mean(self, errors: Any) -> Any:
        """Return :meth:`FieldPosterior.posterior_mean`."""
        return self._device.to_host(self._field.posterior_mean(self._device.to_device(errors)))

    def leave_one_out(self, errors: Any) -> Any:
        """Return :meth:`FieldPosterior.leave_one_out`."""
        return self._device.to_host(self._field.leave_one_out(self._device.to_device(errors)))


def too_large(tables: Sequence[tuple[int, int, int]], edges: int, free: int) -> str:
    """Say what a fit needs, and what would fit: tables by rows, columns and outputs, and the bytes of the edges."""
    rows, columns, outputs = max(tables, default=(1, 1, 1))
    racing = max(len(tables), 1)
    beside, room = racing * 8 * VECTORS * outputs, max(free - edges, 0)
    a_row = beside + racing * BYTES * columns
    fewer_columns = max(int((room / rows - beside) / (racing * BYTES)), 0)
    several = (
        f" for each of {racing} ways of using the graph that are compared" if racing > 1 else ""
    )
    return (
        f"The GPU has too little memory: this fit takes about {(edges + rows * a_row) / GIGA:.3g} GB ({rows:,} rows × "
        f"{columns:,} columns as the trees see them{several}, and {edges / GIGA:.2g} GB of edges), and {free / GIGA:.3g} GB "
        f"were free when it began. About {fewer_columns:,} such columns would fit, or {int(room / a_row):,} rows. Pass "
        "neighbor_features=None and feature_smoothing=None to leave columns out, or smoothing and labels other than 'auto', "
        "so that nothing is compared; end what else runs on the GPU; or use device='cpu'."
    )


def _bytes(graph: Graph) -> int:
    """What the edges take on the GPU: a position each, and a word more, or unless all weigh one a weight in either type."""
    adjacency = graph.adjacency
    if not (adjacency.data == 1.0).all():
        return int(adjacency.nnz) * 16
    return int(adjacency.nnz) * (8 if worthwhile(graph.n_nodes, adjacency.nnz) else 4)


def as_device(name: str) -> Cpu:
    """Turn the ``device`` parameter into a device."""
    return Cuda() if name == "cuda" else Cpu()


def cupy() -> Any:
    """Import CuPy, or say what is missing: the package, or the GPU."""
    try:
        module = import_module("cupy")
    except ImportError:
        raise ImportError(
            "device='cuda' needs CuPy: pip install 'ebboost[cuda]' for CUDA 12, or pip install cupy-cuda13x xgboost for "
            "CUDA 13; or use device='cpu'."
        ) from None
    try:
        found = module.cuda.runtime.getDeviceCount()
    except module.cuda.runtime.CUDARuntimeError as error:
        raise RuntimeError(
            f"device='cuda' found no NVIDIA GPU that it can use ({error}): use device='cpu'."
        ) from None
    if not found:
        raise RuntimeError("device='cuda' found no NVIDIA GPU: use device='cpu'.")
    return module


def _is_out_of_memory(error: BaseException) -> bool:
    """Whether CuPy or XGBoost, neither of which need be there, found no room."""
    if type(error).__name__ == "OutOfMemoryError":
        return True
    text = str(error).lower()
    return type(error).__name__ == "XGBoostError" and (
        "out of memory" in text or "bad_alloc" in text
    )
