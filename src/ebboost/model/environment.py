"""What a result may depend on beside data and settings: model files and checkpoints say it of themselves."""

import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from ebboost import _native

PACKAGES = (
    "ebboost",
    "numpy",
    "scipy",
    "scikit-learn",
    "lightgbm",
    "xgboost-cpu",
    "xgboost",
    "catboost",
)


@cache
def versions() -> dict[str, str]:
    """Versions of the packages that are installed."""
    found = {}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def environment(threads: int | None) -> dict[str, Any]:
    """Versions, the machine, threads, and which loops swept the graph."""
    machine = {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "system": platform.system(),
    }
    loops = "scipy" if _native.COMPILED is None else "compiled"
    return (
        machine | versions() | {"sweeps": loops} | ({} if threads is None else {"threads": threads})
    )
