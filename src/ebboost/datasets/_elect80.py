"""Turnout in the US presidential election of 1980 by county (spData's `elect80`, CC0); made by tools/make_elect80.py."""

from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ebboost.datasets._pandas import pandas_for
from ebboost.graph import Graph

N_SPLITS = 5
TRAIN_SHARE = 0.6


def load_elect80() -> tuple[Any, NDArray[np.float64], Graph, list[dict[str, NDArray[np.int64]]]]:
    """3 107 US counties in 1980, and which of them share a border: predict the turnout.

    Returns
    -------
    X : pandas.DataFrame
        Per head of the voting-age population: ``pc_college``, ``pc_homeownership`` and ``pc_income`` (thousands of
        dollars). The index is the FIPS code of the county, the id of its node.
    y : ndarray
        ``pc_turnout``, votes per head of the voting-age population. Complete; hide the test labels before you fit.
    graph : Graph
        Its ``node_ids`` are FIPS codes.
    splits : list of dict
        Five random splits of our own, 60 % ``"train"`` and 40 % ``"test"``: the source has none.

    Examples
    --------
    >>> import ebboost as eb
    >>> X, y, g, splits = eb.datasets.load_elect80()
    >>> X.shape, g.n_edges, len(splits), g.node_ids[0]
    ((3107, 3), 9063, 5, '01001')
    """
    pandas = pandas_for("load_elect80")
    with (
        (resources.files("ebboost.datasets") / "elect80.npz").open("rb") as file,
        np.load(file) as stored,
    ):
        arrays = {name: stored[name] for name in stored.files}
    source = np.cumsum(arrays.pop("edge_source_steps"), dtype=np.int64)
    positions = Graph.from_edges(
        source, source + arrays.pop("edge_length"), n_nodes=arrays["fips"].size
    )
    codes = np.array([f"{code:05d}" for code in arrays.pop("fips").tolist()], dtype=object)
    graph = Graph(sparse.csr_array(positions.adjacency), codes)
    columns = {name: values.astype(np.float64) for name, values in arrays.items()}
    y = columns.pop("pc_turnout")
    X = pandas.DataFrame(columns, index=pandas.Index(codes, name="fips"))
    orders = [np.random.RandomState(number).permutation(y.size) for number in range(N_SPLITS)]
    cut = round(TRAIN_SHARE * y.size)
    return (
        X,
        y,
        graph,
        [{"train": np.sort(order[:cut]), "test": np.sort(order[cut:])} for order in orders],
    )
