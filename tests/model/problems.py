"""Tables, labels and graphs of models that are saved, and a function that fits them."""

import networkx as nx
import numpy as np
import pandas as pd

import ebboost as eb

N = 60
_RNG = np.random.default_rng(0)
NUMBERS = pd.DataFrame(
    {"u": _RNG.normal(size=N), "v": np.where(_RNG.random(N) < 0.1, np.nan, _RNG.normal(size=N))}
)
TABLE = NUMBERS.assign(
    town=_RNG.choice(["Bonn", "Kiel", "Ulm"], N), zone=pd.Categorical(_RNG.choice([7, 3, None], N))
)
TARGET = np.where(np.arange(N) < 40, TABLE["u"] + (TABLE["town"] == "Ulm"), np.nan)
_LEVELS = np.array(["low", "mid", "high"], dtype=object)
CLASSES = _LEVELS[np.digitize(np.nan_to_num(TARGET), [0.0, 0.7])]
CLASSES[np.isnan(TARGET)] = None
GRAPH = eb.Graph.from_networkx(nx.relabel_nodes(nx.cycle_graph(N), "Straße {}".format))
SMALL_GRAPH = eb.Graph.from_edges([0, 1, 2], [1, 2, 3], [1.0, 0.5, 2.0], n_nodes=5)


def fit(kind=eb.EBBSRegressor, *, graph=GRAPH, X=TABLE, **changes):
    """Fit three rounds of a regressor or a classifier."""
    model = kind(**({"n_estimators": 3, "n_jobs": 1, "random_state": 0} | changes))
    return model.fit(X, CLASSES if issubclass(kind, eb.EBBSClassifier) else TARGET, graph=graph)
