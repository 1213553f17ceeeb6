"""Folders in the format of the GNN benchmarks: X.csv, y.csv, graph.graphml and masks.json."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ebboost.datasets._common import Dataset, Splits, import_pandas
from ebboost.graph import Graph

if TYPE_CHECKING:
    from pandas import DataFrame


def load_folder(path: str | os.PathLike[str]) -> Dataset:
    """Load a data set from a folder.

    Parameters
    ----------
    path : path
        A folder with ``X.csv`` (one row per node), ``y.csv`` (one column), ``graph.graphml`` (node
        ids 0 … n-1 are rows) and ``masks.json``
        (``{"0": {"train": [...], "val": [...], "test": [...]}, …}``). Columns listed in
        ``cat_features.txt``, one per line, become categories.

    Returns
    -------
    X : pandas.DataFrame
        Features.
    y : ndarray
        Labels.
    graph : Graph
        Its nodes are the rows of X.
    splits : list of dict
        Row positions of each part, split by split.

    Raises
    ------
    FileNotFoundError
        If the folder or one of its files is missing.
    ValueError
        If a file cannot be read or does not match the others.
    """
    folder = Path(path)
    if not folder.is_dir():
        raise FileNotFoundError(f"There is no folder {folder}.")
    X = _read_csv(_file(folder, "X.csv"))
    labels = _read_csv(_file(folder, "y.csv"))
    if labels.shape[1] != 1:
        raise ValueError(f"{folder / 'y.csv'} must have one column, got {list(labels.columns)}.")
    if len(labels) != len(X):
        raise ValueError(f"{folder / 'y.csv'} must have {len(X)} rows as X.csv, got {len(labels)}.")
    graph = Graph.from_graphml(_file(folder, "graph.graphml"), nodes=np.arange(len(X)))
    categorical = folder / "cat_features.txt"
    names = categorical.read_text(encoding="utf-8").splitlines() if categorical.exists() else []
    for name in filter(None, map(str.strip, names)):
        if name not in X.columns:
            raise ValueError(f"{categorical} names {name!r}, which is not a column of X.csv.")
        X[name] = X[name].astype("category")
    splits = _read_splits(_file(folder, "masks.json"), len(X))
    return X, labels.iloc[:, 0].to_numpy(), graph, splits


def _read_splits(path: Path, n_nodes: int) -> Splits:
    """Read masks.json: positions in range, no node in two parts of a split."""
    try:
        masks = json.loads(path.read_text(encoding="utf-8"))
        ordered = [masks[key] for key in sorted(masks, key=int)]
        splits = [{part: _positions(rows) for part, rows in mask.items()} for mask in ordered]
    except (ValueError, TypeError, AttributeError, LookupError) as error:
        raise ValueError(
            f"{path} is not a masks file ({error}): it must contain "
            '{"0": {"train": [rows], "test": [rows]}, …}.'
        ) from None
    for number, split in enumerate(splits):
        for part, positions in split.items():
            if positions.ndim != 1 or positions.dtype.kind not in "iu":
                raise ValueError(f"{path}, split {number}: {part!r} must be a list of row numbers.")
            outside = positions[(positions < 0) | (positions >= n_nodes)]
            if outside.size:
                rows = f"names row {outside[0]}, X.csv has rows 0 to {n_nodes - 1}."
                raise ValueError(f"{path}, split {number}: {part!r} {rows}")
        counts = np.bincount(np.concatenate([_positions([]), *split.values()]))
        if (counts > 1).any():
            row = int((counts > 1).argmax())
            raise ValueError(f"{path}, split {number}: row {row} is listed twice.")
    return splits


def _positions(rows: object) -> NDArray[Any]:
    return np.asarray(rows) if rows != [] else np.zeros(0, dtype=np.int64)


def _read_csv(path: Path) -> DataFrame:
    try:
        return import_pandas("load_folder").read_csv(path)
    except ValueError as error:
        raise ValueError(f"{path} is not a readable table: {error}") from None


def _file(folder: Path, name: str) -> Path:
    if not (folder / name).is_file():
        raise FileNotFoundError(f"{folder} has no {name}.")
    return folder / name
