"""What the data sets share: their types, pandas, and the archives that ship with the package."""

from importlib import resources
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
        raise ImportError(
            f"ebboost.datasets.{caller} returns dataframes and needs pandas: pip install pandas."
        ) from None
    return pandas


def read_archive(name: str) -> tuple[dict[str, NDArray[Any]], Graph]:
    """Read columns and graph from an archive; edges are stored as differences of positions."""
    with (resources.files("ebboost.datasets") / name).open("rb") as file, np.load(file) as archive:
        arrays = {key: archive[key] for key in archive.files}
    source = np.cumsum(arrays.pop("edge_source_steps"), dtype=np.int64)
    target = source + arrays.pop("edge_length")
    n_nodes = len(next(values for key, values in arrays.items() if ":" not in key))
    return arrays, Graph.from_edges(source, target, n_nodes=n_nodes)
