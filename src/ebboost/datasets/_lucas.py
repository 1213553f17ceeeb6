"""House sales in Lucas County, Ohio, 1993 to 1998: R's spData::house, CC0."""

from typing import Any

import numpy as np

from ebboost.datasets._common import Dataset, import_pandas, read_archive

LAST_TRAINING_YEAR = 1996


def load_lucas(task: str = "price", *, coordinates: bool = False) -> Dataset:
    """Load 25 357 house sales and which houses are neighbours.

    Parameters
    ----------
    task : {"price", "wall"}, default="price"
        Predict the natural logarithm of the price in dollars, or the kind of outer wall
        (7 classes).
    coordinates : bool, default=False
        Whether to keep ``x`` and ``y`` (metres) among the columns. As features they explain most
        of what the graph does.

    Returns
    -------
    X : pandas.DataFrame
        A row for each sale.
    y : ndarray
        Complete: remove the test labels before you fit.
    graph : Graph
        Neighbouring houses.
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
    pandas = import_pandas("load_lucas")
    arrays, graph = read_archive("lucas.npz")
    columns: dict[str, Any] = {}
    for name, values in arrays.items():
        categories = arrays.get(f"{name}:categories")
        if categories is not None:
            columns[name] = pandas.Categorical.from_codes(values, categories.tolist())
        elif ":" not in name:
            columns[name] = values.astype(np.int64)
    X = pandas.DataFrame(columns)
    target = X.pop(task)
    y = np.log(target.to_numpy()) if task == "price" else target.to_numpy(dtype=object)
    if not coordinates:
        X = X.drop(columns=["x", "y"])
    in_train = X["syear"].to_numpy() <= LAST_TRAINING_YEAR
    return X, y, graph, [{"train": np.flatnonzero(in_train), "test": np.flatnonzero(~in_train)}]
