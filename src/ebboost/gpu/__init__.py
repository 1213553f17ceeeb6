"""A fit on one NVIDIA GPU: arrays are CuPy's, trees XGBoost's, sweeps over the edges kernels here.

The core calls :func:`start` once; what it passes to :func:`ebboost.arrays.there` comes back as an
array of the GPU, or as an object of the same interface that takes and returns such arrays.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ebboost.learners.base import import_library

OUT_OF_MEMORY = (
    "The GPU has too little memory for this fit: pass neighbor_features=None or fewer columns, end "
    "other processes on the GPU, or use device='cpu'."
)


NOT_OF_NUMPY = (
    "A loss or callback of your own does not take arrays of a GPU ({}): use functions of numpy "
    "without np.asarray, or device='cpu'."
)


@contextmanager
def start() -> Iterator[Callable[[Any], Any]]:
    """Return what moves arrays and objects to the GPU; its memory is released in the end."""
    extras = "'ebboost[cuda13]', or 'ebboost[cuda12]' for drivers of CUDA 12"
    cupy = import_library("cupy", "device='cuda'", extras)
    reason = ""
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        count, reason = 0, f" that it can use ({error})"
    if not count:
        raise RuntimeError(f"device='cuda' found no NVIDIA GPU{reason}: use device='cpu'.")
    from ebboost.gpu.objects import move

    try:
        yield move
    except Exception as error:
        name, text = type(error).__name__, str(error).lower()
        is_xgboost = name == "XGBoostError" and ("out of memory" in text or "bad_alloc" in text)
        if name == "OutOfMemoryError" or is_xgboost:
            raise MemoryError(OUT_OF_MEMORY) from error
        if isinstance(error, TypeError) and ("implicit conv" in text or "unsupported type" in text):
            raise ValueError(NOT_OF_NUMPY.format(error)) from error
        raise
    finally:
        cupy.get_default_memory_pool().free_all_blocks()
