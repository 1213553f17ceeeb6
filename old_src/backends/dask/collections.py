"""Dask collections: recognised without importing Dask, gathered, and scored block by block."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebboost.data.pipeline import FeaturePipeline
from ebboost.data.reader import TableReader
from ebboost.data.types import TableLike
from ebboost.learners import Ensemble


def is_dask(X: object) -> bool:
    """Return whether X is a Dask collection."""
    return type(X).__module__.partition(".")[0] == "dask"


def gathered(*values: Any) -> tuple[Any, ...]:
    """Return small collections, such as labels and weights, as ordinary arrays."""
    values = tuple(gathered(*value) if isinstance(value, tuple) else value for value in values)
    return tuple(value.compute() if is_dask(value) else value for value in values)


def row_blocks(X: TableLike) -> Any:
    """Return the collection in blocks that hold all columns of their rows."""
    if X.ndim != 2:
        raise ValueError(f"X must be two-dimensional, one row per node, got {X.ndim} dimension(s).")
    n_column_blocks = len(getattr(X, "chunks", ((), ()))[1])
    return X.rechunk({1: -1}) if n_column_blocks > 1 else X


def scores_of(
    X: TableLike, reader: TableReader, pipeline: FeaturePipeline, ensemble: Ensemble
) -> NDArray[np.float64]:
    """Return the trees' scores of a Dask collection, computed where its blocks are."""
    import dask

    blocks = np.ravel(row_blocks(X).to_delayed()).tolist()
    parts = [dask.delayed(part) for part in (reader, pipeline, ensemble)]
    delayed = dask.delayed(_scores)
    scores = dask.compute([delayed(block, *parts) for block in blocks])[0]
    return np.concatenate([block for block in scores if block is not None])


def _scores(
    block: TableLike, reader: TableReader, pipeline: FeaturePipeline, ensemble: Ensemble
) -> NDArray[np.float64] | None:
    if not block.shape[0]:
        return None
    return ensemble.predict(pipeline.transform(reader.read(block), None))
