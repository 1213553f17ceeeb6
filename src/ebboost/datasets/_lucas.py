"""House sales in Lucas County, Ohio, 1993 to 1998 (spData's `house`, CC0); made by tools/make_lucas.py."""

from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebboost.datasets._pandas import pandas_for
from ebboost.graph import Graph


def load_lucas(
    task: str = "price", *, coordinates: bool = False
) -> tuple[Any, NDArray[Any], Graph, list[dict[str, NDArray[np.int64]]]]:
    """25 357 house sales and which houses are neighbours.

    Parameters
    ----------
    task : {"price", "wall"}, default="price"
        Predict the natural log of the price in dollars, or the kind of outer wall (7 classes).
    coordinates : bool, default=False
        Keep ``x`` and ``y`` (metres) among the columns. As plain features they explain most of what the graph does.

    Returns
    -------
    X : pandas.DataFrame
    y : ndarray
        Complete; hide the test labels before you fit.
    graph : Graph
    splits : list of dict
        One split by time: ``"train"`` are sales up to 1996, ``"test"`` those of 1997 and 1998.

    Examples
    --------
    >>> import ebboost as eb
    >>> X, y, g, splits = eb.datasets.load_lucas()
    >>> X.shape, g.n_edges, len(splits[0]["train"])
    ((25357, 15), 37437, 15947)
    """
    if task not in ("price", "wall"):
        raise ValueError(f"task must be 'price' or 'wall', got {task!r}.")
    pandas = pandas_for("load_lucas")
    with (
        (resources.files("ebboost.datasets") / "lucas.npz").open("rb") as file,
        np.load(file) as stored,
    ):
        arrays = {name: stored[name] for name in stored.files}
    source = np.cumsum(arrays.pop("edge_source_steps"), dtype=np.int64)
    graph = Graph.from_edges(
        source, source + arrays.pop("edge_length"), n_nodes=arrays["price"].size
    )
    columns: dict[str, Any] = {}
    for name, values in arrays.items():
        if ":" in name:
            continue
        if f"{name}:categories" in arrays:
            columns[name] = pandas.Categorical.from_codes(
                values, arrays[f"{name}:categories"].tolist()
            )
        else:
            columns[name] = values.astype(np.int64)
    X = pandas.DataFrame(columns)
    y = (
        np.log(X.pop("price").to_numpy())
        if task == "price"
        else X.pop("wall").to_numpy(dtype=object)
    )
    if not coordinates:
        X = X.drop(columns=["x", "y"])
    early = X["syear"].to_numpy() <= 1996
    return X, y, graph, [{"train": np.flatnonzero(early), "test": np.flatnonzero(~early)}]
