"""A small data set in the folder format, under a name that the loaders know."""

import json

import numpy as np
import pandas as pd
import pytest

N = 80


def write_folder(folder, seed=0, n=N, splits=3, classes=False):
    """Points on a line, connected to the next two, with a target that is smooth along the line."""
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True)
    position = np.sort(rng.random(n))
    y = np.sin(6 * position) + 0.1 * rng.normal(size=n)
    X = pd.DataFrame(
        {"a": y + 0.5 * rng.normal(size=n), "b": rng.normal(size=n), "kind": rng.integers(0, 3, n)}
    )
    X.loc[::9, "b"] = np.nan
    X.to_csv(folder / "X.csv", index=False)
    pd.DataFrame({"y": np.where(y > 0, "up", "down") if classes else y}).to_csv(
        folder / "y.csv", index=False
    )
    (folder / "cat_features.txt").write_text("kind\n")
    nodes = "".join(f'<node id="{i}"/>' for i in range(n))
    edges = "".join(f'<edge source="{i}" target="{i + k}"/>' for k in (1, 2) for i in range(n - k))
    (folder / "graph.graphml").write_text(
        f'<graphml><graph edgedefault="undirected">{nodes}{edges}</graph></graphml>'
    )
    masks = {}
    for split in range(splits):
        order = rng.permutation(n).tolist()
        first, second = int(0.6 * n), int(0.8 * n)
        masks[str(split)] = {
            "train": order[:first],
            "val": order[first:second],
            "test": order[second:],
        }
    (folder / "masks.json").write_text(json.dumps(masks))
    return folder


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A temporary data folder with one regression and one classification."""
    monkeypatch.setenv("EBBOOST_DATA", str(tmp_path / "data"))
    write_folder(tmp_path / "data" / "county")
    write_folder(tmp_path / "data" / "slap", seed=1, classes=True)
    return tmp_path / "data"
