"""The sweep of `kernel.c`, compiled when the package is built.

Where no library was built, ``sweep`` is None, and scipy does the same.
"""

import ctypes
from pathlib import Path
from typing import Any

#: Raised with the one in `kernel.c` whenever a signature changes: a stale library is not used.
VERSION = 1
LIBRARIES = ("libkernel.so", "libkernel.dylib", "libkernel.dll")


def _load() -> dict[str, Any] | None:
    """The sweep for float32 and float64, or None if it was not built from this source."""
    folder = Path(__file__).parent
    path = next((folder / name for name in LIBRARIES if (folder / name).exists()), None)
    if path is None:
        return None
    integer, pointer = ctypes.c_int64, ctypes.c_void_p
    rows = (integer, integer, pointer, pointer, pointer)
    try:
        library = ctypes.CDLL(str(path))
        library.ebboost_version.restype = integer
        if library.ebboost_version() != VERSION:
            return None
        sweeps = {"d": library.ebboost_sweep_double, "f": library.ebboost_sweep_float}
    except (OSError, AttributeError):
        return None
    for loop in sweeps.values():
        loop.argtypes = [*rows, integer, pointer, ctypes.c_double, pointer, pointer]
        loop.restype = None
    return sweeps


#: By the character of the float type.
sweep = _load()
