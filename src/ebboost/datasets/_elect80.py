"""Turnout in the US presidential election of 1980 by county: R's spData::elect80, CC0."""

import numpy as np

from ebboost.datasets._common import Dataset, import_pandas, read_archive
from ebboost.graph import Graph

N_SPLITS = 5
TRAIN_SHARE = 0.6


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
    arrays, graph = read_archive("elect80.npz")
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
