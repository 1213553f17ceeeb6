"""What the data sets share: their types, and pandas."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebboost.graph import Graph

Splits = list[dict[str, NDArray[np.int64]]]
Dataset = tuple[Any, NDArray[Any], Graph, Splits]


def import_pandas(caller: str) -> ModuleType:
    """Return pandas, which the library itself does not need."""
    try:
        import pandas
    except ImportError:
        message = f"ebboost.datasets.{caller} needs pandas: pip install pandas."
        raise ImportError(message) from None
    return pandas
