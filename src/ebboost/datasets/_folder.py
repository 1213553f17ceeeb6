"""Folders in the format that the field uses: X.csv, y.csv, graph.graphml, masks.json and perhaps cat_features.txt."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebboost.datasets._pandas import pandas_for
from ebboost.graph import Graph


def load_folder(
    path: str | os.PathLike[str],
) -> tuple[Any, NDArray[Any], Graph, list[dict[str, NDArray[np.int64]]]]:
    """Read a data set from a folder.

    Parameters
    ----------
    path : path
        A folder with ``X.csv`` (one row per node), ``y.csv`` (one column), ``graph.graphml`` (node ids 0 … n-1 are
        rows) and ``masks.json`` (``{"0": {"train": [...], "val": [...], "test": [...]}, …}``). Columns listed in
        ``cat_features.txt``, one per line, become categories.

    Returns
    -------
    X : pandas.DataFrame
    y : ndarray
    graph : Graph
    splits : list of dict of ndarray
        Positions of the nodes of each part, split by split.
    """
    folder = Path(path)
    if not folder.is_dir():
        raise FileNotFoundError(f"There is no folder {folder}.")
    pandas = pandas_for("load_folder")
    X, labels = (_read_csv(pandas, _file(folder, name)) for name in ("X.csv", "y.csv"))
    if labels.shape[1] != 1:
        raise ValueError(f"{folder / 'y.csv'} must have one column, it has {list(labels.columns)}.")
    if len(labels) != len(X):
        raise ValueError(
            f"{folder / 'y.csv'} has {len(labels)} rows, X.csv has {len(X)}: they must be equal."
        )
    graph = Graph.from_graphml(_file(folder, "graph.graphml"), nodes=np.arange(len(X)))
    listed = folder / "cat_features.txt"
    for line in listed.read_text(encoding="utf-8").splitlines() if listed.exists() else []:
        name = line.strip()
        if not name:
            continue
        if name not in X.columns:
            raise ValueError(f"{listed} names {name!r}, which is not a column of X.csv.")
        X[name] = X[name].astype("category")
    return X, labels.iloc[:, 0].to_numpy(), graph, read_splits(_file(folder, "masks.json"), len(X))


def read_splits(path: Path, n_nodes: int) -> list[dict[str, NDArray[np.int64]]]:
    """Read masks.json: positions in range, no node in two parts of a split."""
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        splits = [
            {part: _positions(rows) for part, rows in stored[key].items()}
            for key in sorted(stored, key=int)
        ]
    except (ValueError, TypeError, AttributeError, LookupError) as error:
        raise ValueError(
            f'{path} is not a masks file ({error}): it should hold {{"0": {{"train": [rows], "test": [rows]}}, …}}.'
        ) from None
    for number, split in enumerate(splits):
        for part, positions in split.items():
            if positions.ndim != 1 or positions.dtype.kind not in "iu":
                raise ValueError(f"{path}, split {number}: {part!r} must be a list of row numbers.")
            if positions.size and not 0 <= positions.min() <= positions.max() < n_nodes:
                bad = int(positions[(positions < 0) | (positions >= n_nodes)][0])
                raise ValueError(
                    f"{path}, split {number}: {part!r} names row {bad}, X.csv has rows 0 to {n_nodes - 1}."
                )
        everyone = np.concatenate([_positions([]), *split.values()])
        rows, times = np.unique(everyone, return_counts=True)
        if everyone.size != rows.size:
            raise ValueError(
                f"{path}, split {number}: row {int(rows[times > 1][0])} is listed twice."
            )
    return splits


def _positions(rows: Any) -> NDArray[Any]:
    return np.asarray(rows) if rows != [] else np.zeros(0, dtype=np.int64)


def _read_csv(pandas: Any, path: Path) -> Any:
    try:
        return pandas.read_csv(path)
    except ValueError as error:
        raise ValueError(f"{path} is not a table we can read: {error}") from None


def _file(folder: Path, name: str) -> Path:
    if not (folder / name).is_file():
        raise FileNotFoundError(f"{folder} has no {name}.")
    return folder / name
