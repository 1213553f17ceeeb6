"""The data sets of the package, all CC0: R's spData::elect80, spData::house, geodaData::ncovr."""

from __future__ import annotations

from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebboost.datasets._common import Dataset, import_pandas
from ebboost.graph import Graph

N_SPLITS = 5  # of the elections
TRAIN_SHARE = 0.6
LAST_TRAINING_YEAR = 1996  # of the houses


def _read_archive(name: str) -> tuple[dict[str, NDArray[Any]], Graph]:
    """Read columns and graph from an archive; edges are stored as differences of positions."""
    with (resources.files("ebboost.datasets") / name).open("rb") as file, np.load(file) as archive:
        arrays = {key: archive[key] for key in archive.files}
    source = np.cumsum(arrays.pop("edge_source_steps"), dtype=np.int64)
    target = source + arrays.pop("edge_length")
    n_nodes = len(next(values for key, values in arrays.items() if ":" not in key))
    return arrays, Graph.from_edges(source, target, n_nodes=n_nodes)


def load_elect80() -> Dataset:
    """Load 3 107 US counties in 1980 and their borders; the target is the turnout.

    Returns
    -------
    X : pandas.DataFrame
        Per head of the voting-age population: ``pc_college``, ``pc_homeownership`` and
        ``pc_income`` (thousands of dollars). The index is the FIPS code of the county.
    y : ndarray
        ``pc_turnout``, votes per head of the voting-age population. Complete: remove the test
        labels before you fit.
    graph : Graph
        Counties that share a border; ``node_ids`` are FIPS codes.
    splits : list of dict
        Five random splits, 60 % ``"train"`` and 40 % ``"test"``; the source has none.

    Examples
    --------
    >>> import ebboost as eb
    >>> X, y, g, splits = eb.datasets.load_elect80()
    >>> X.shape, g.n_edges, len(splits), g.node_ids[0]
    ((3107, 3), 9063, 5, '01001')
    """
    pandas = import_pandas("load_elect80")
    arrays, graph = _read_archive("elect80.npz")
    codes = np.array([f"{code:05d}" for code in arrays.pop("fips").tolist()], dtype=object)
    columns = {name: values.astype(np.float64) for name, values in arrays.items()}
    y = columns.pop("pc_turnout")
    X = pandas.DataFrame(columns, index=pandas.Index(codes, name="fips"))
    n_train = round(TRAIN_SHARE * y.size)
    splits = []
    for seed in range(N_SPLITS):
        order = np.random.RandomState(seed).permutation(y.size)
        splits.append({"train": np.sort(order[:n_train]), "test": np.sort(order[n_train:])})
    return X, y, Graph(graph.adjacency, codes), splits


def load_ncovr(*, coordinates: bool = False) -> Dataset:
    """Load homicides of three years around 1990 in 3 085 US counties, with their population.

    Parameters
    ----------
    coordinates : bool, default=False
        Whether to keep ``lon`` and ``lat`` among the columns.

    Returns
    -------
    X : pandas.DataFrame
        ``population``, in person-years, which is the exposure: take it out before you fit. Then 11
        covariates: resource deprivation ``RD90``, population structure ``PS90``, unemployment
        ``UE90``, divorces ``DV90``, median age ``MA90``, log population density ``DNL90``, median
        income ``MFIL89``, families in poverty ``FP89``, share of Black inhabitants ``BLK90``, Gini
        index ``GI89``, female-headed households ``FH90``. The index is the FIPS code.
    y : ndarray
        Number of homicides. Complete: remove the test labels before you fit.
    graph : Graph
        Counties that share a border; ``node_ids`` are FIPS codes.
    splits : list of dict
        Five random splits, 60 % ``"train"``, 20 % ``"val"`` and 20 % ``"test"``; the source has
        none.

    Examples
    --------
    >>> import ebboost as eb
    >>> X, y, g, splits = eb.datasets.load_ncovr()
    >>> exposure = X.pop("population")
    >>> X.shape, g.n_edges, f"{1e5 * y.sum() / exposure.sum():.1f} per 100 000 a year"
    ((3085, 11), 9084, '9.9 per 100 000 a year')
    """
    pandas = import_pandas("load_ncovr")
    arrays, graph = _read_archive("ncovr.npz")
    codes = np.array([f"{code:05d}" for code in arrays.pop("fips").tolist()], dtype=object)
    parts = arrays.pop("splits:part")
    y = arrays.pop("homicides").astype(np.float64)
    columns = {"population": 3.0 * arrays.pop("population")}
    columns |= {name: values.astype(np.float64) for name, values in arrays.items()}
    X = pandas.DataFrame(columns, index=pandas.Index(codes, name="fips"))
    if not coordinates:
        X = X.drop(columns=["lon", "lat"])
    names = ("train", "val", "test")
    splits = [
        {name: np.flatnonzero(split == code) for code, name in enumerate(names)} for split in parts
    ]
    return X, y, Graph(graph.adjacency, codes), splits


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
    arrays, graph = _read_archive("lucas.npz")
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
