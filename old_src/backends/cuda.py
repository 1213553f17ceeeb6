"""The backend of ``device="cuda"``: one NVIDIA GPU, by CuPy."""

from collections.abc import Sequence
from importlib import import_module
from typing import Any, Self

from ebboost.backends._tiles import worthwhile
from ebboost.backends.cpu import Backend
from ebboost.boosting.latent_field import LatentField
from ebboost.boosting.losses import Loss
from ebboost.data.labels import Labels
from ebboost.data.types import AnyArray
from ebboost.graph import Graph

#: Numbers of 8 bytes for each node and output: scores, gradients, curvatures and intermediates.
VECTORS = 40
#: Bytes of an entry of the table: a float32 number, its bin, and XGBoost's overhead.
BYTES = 6


class CudaBackend(Backend):
    """The NVIDIA GPU that CuPy has made current; leaving raises MemoryError if it was too small."""

    def __init__(self) -> None:
        self._cupy = import_cupy()
        self._moved: dict[int, tuple[Graph, Any]] = {}
        self._tables: dict[str, tuple[int, int, int]] = {}
        self._free = 0

    def __enter__(self) -> Self:
        self._cupy.get_default_memory_pool().free_all_blocks()
        self._free = self._cupy.cuda.runtime.memGetInfo()[0]
        return self

    def __exit__(self, *failure: Any) -> None:
        edges = sum(edge_bytes(host) for host, _ in self._moved.values())
        self._moved.clear()
        self._cupy.get_default_memory_pool().free_all_blocks()
        if _is_out_of_memory(failure[1]):
            tables = list(self._tables.values())
            raise MemoryError(memory_message(tables, edges, self._free)) from failure[1]

    def graph(self, graph: Graph | None) -> Any:
        """Return the graph on the GPU, moved once."""
        if graph is None:
            return None
        from ebboost.backends._cuda_graph import CudaGraph

        if id(graph) not in self._moved:
            self._moved[id(graph)] = (graph, CudaGraph(graph))
        return self._moved[id(graph)][1]

    def labels(self, labels: Labels | None) -> Any:
        """Return the labels on the GPU."""
        if labels is None:
            return None
        return Labels(*map(self.to_device, (labels.nodes, labels.target, labels.weight)))

    def to_device(self, array: AnyArray) -> AnyArray:
        """Return a host array as CuPy's."""
        return self._cupy.asarray(array)

    def to_host(self, array: AnyArray) -> AnyArray:
        """Return an array of CuPy's as numpy's."""
        return self._cupy.asnumpy(array)

    def field_mode(
        self, use: LatentField, graph: Graph, labels: Labels, loss: Loss, scores: AnyArray
    ) -> AnyArray:
        """Return the latent field of the labels, computed on the GPU, as a host array."""
        moved = (self.graph(graph), self.labels(labels), loss, self.to_device(scores))
        return self.to_host(Backend.field_mode(self, use, *moved))

    def expect_table(self, name: str, n_rows: int, n_columns: int, n_outputs: int) -> None:
        """Note the size of a candidate's table, for the message if memory runs out."""
        self._tables[name] = (n_rows, n_columns, n_outputs)


def memory_message(tables: Sequence[tuple[int, int, int]], edges: int, free: int) -> str:
    """Return what a fit needs, and what would fit in the memory of a GPU.

    ``tables`` are (rows, columns, outputs) of each candidate; ``edges`` and ``free`` are bytes.
    """
    rows, columns, outputs = max(tables, default=(1, 1, 1))
    n_tables = max(len(tables), 1)
    vectors = n_tables * 8 * VECTORS * outputs
    per_row = vectors + n_tables * BYTES * columns
    available = max(free - edges, 0)
    fewer_columns = max(int((available / rows - vectors) / (n_tables * BYTES)), 0)
    several = f" for each of {n_tables} candidates that are compared" if n_tables > 1 else ""
    return (
        f"The GPU has too little memory: this fit takes about {(edges + rows * per_row) / 1e9:.3g} "
        f"GB ({rows:,} rows × {columns:,} columns as the trees see them{several}, and "
        f"{edges / 1e9:.2g} GB of edges), and {free / 1e9:.3g} GB were free when it began. About "
        f"{fewer_columns:,} such columns would fit, or {int(available / per_row):,} rows. Pass "
        "neighbor_features=None and feature_smoothing=None to leave columns out, or smoothing and "
        "labels other than 'auto', so that nothing is compared; end other processes on the GPU; or "
        "use device='cpu'."
    )


def edge_bytes(graph: Graph) -> int:
    """Return the bytes of the edges on the GPU: an index each, and weights or a copy in tiles."""
    n_entries = int(graph.adjacency.nnz)
    if not (graph.adjacency.data == 1.0).all():
        return 16 * n_entries
    return (8 if worthwhile(graph.n_nodes, n_entries) else 4) * n_entries


def import_cupy() -> Any:
    """Return CuPy; raise ImportError if it is missing, RuntimeError if there is no GPU."""
    try:
        cupy = import_module("cupy")
    except ImportError:
        raise ImportError(
            "device='cuda' needs CuPy: pip install cupy-cuda12x xgboost for CUDA 12, or "
            "cupy-cuda13x xgboost for CUDA 13; or use device='cpu'."
        ) from None
    reason = ""
    try:
        if cupy.cuda.runtime.getDeviceCount():
            return cupy
    except cupy.cuda.runtime.CUDARuntimeError as error:
        reason = f" that it can use ({error})"
    raise RuntimeError(f"device='cuda' found no NVIDIA GPU{reason}: use device='cpu'.")


def _is_out_of_memory(error: BaseException | None) -> bool:
    """Whether CuPy or XGBoost, neither of which need be installed, ran out of memory."""
    text = str(error).lower()
    name = type(error).__name__
    xgboost_is = name == "XGBoostError" and ("out of memory" in text or "bad_alloc" in text)
    return name == "OutOfMemoryError" or xgboost_is
