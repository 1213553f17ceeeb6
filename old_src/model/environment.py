"""Package versions and platform, recorded in model files and checkpoints."""

import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version

from ebboost import _native

PACKAGES = (
    "ebboost", "numpy", "scipy", "scikit-learn", "lightgbm", "xgboost-cpu", "xgboost", "catboost",
)  # fmt: skip


@cache
def versions() -> dict[str, str]:
    """Return the versions of the packages that are installed."""
    installed = {}
    for package in PACKAGES:
        try:
            installed[package] = version(package)
        except PackageNotFoundError:
            continue
    return installed


def environment(n_threads: int) -> dict[str, str | int | None]:
    """Return versions, platform, number of threads, and which loops sweep the graph."""
    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "system": platform.system(),
        **versions(),
        "sweeps": "scipy" if _native.COMPILED is None else "compiled",
        "threads": n_threads,
    }
