"""Small fitted models of every kind, and changes of their files."""

import io
import json
import zipfile
from functools import cache

import numpy as np
import pandas as pd
from scipy import sparse

import ebboost as eb
from ebboost.files.archive import npy_bytes

N = 90
_random = np.random.default_rng(0)
POINTS = _random.random((N, 2))
TABLE = pd.DataFrame(
    {
        "u": _random.normal(size=N),
        "v": np.where(_random.random(N) < 0.1, np.nan, _random.normal(size=N)),
        "town": _random.choice(["Bonn", "Kiel", "Ulm"], N),
        "zone": pd.Categorical(_random.choice([7, 3, None], N)),
        "sold": pd.date_range("2020-01-01", periods=N),
    }
)
NUMBERS = TABLE[["u", "v"]]
GRAPH = eb.Graph.build_knn(POINTS, 4)
NAMED = eb.Graph(GRAPH.adjacency, np.array([f"Straße {i}" for i in range(N)], dtype=object))
_signal = TABLE["u"] + np.sin(6.0 * POINTS[:, 0]) + 0.1 * _random.normal(size=N)
Y = _signal.where(np.arange(N) < 60).to_numpy()
KINDS = np.where(np.isnan(Y), None, np.where(Y > 0.5, "high", np.where(Y < -0.5, "low", "mid")))
COUNTS = np.where(np.isnan(Y), np.nan, _random.poisson(np.exp(np.nan_to_num(Y))))
EXPOSURE = _random.uniform(0.5, 2.0, N)
WORDS = sparse.csr_array((_random.random((N, 200)) < 0.1).astype(float))
TOWNS = eb.Graph.from_dataframe(pd.DataFrame({"a": ["Bonn", "Kiel"], "b": ["Kiel", "Ulm"]}))
CLIENTS = np.arange(N) % 4
LONG = _random.normal(size=(300, 3))
ATTACH = ([0, 1, 1], [3, 4, 70])


class LogCosh(eb.Loss):
    """A loss of the user's own, with a parameter."""

    def __init__(self, scale=1.0):
        self.scale = scale

    def value(self, scores, target):
        return self.scale * np.log(np.cosh(scores - target)).sum(axis=1)

    def gradient(self, scores, target):
        return self.scale * np.tanh(scores - target)

    def curvature(self, scores, target):
        return self.scale


def regressor(**changes):
    """A regressor of few rounds and two folds."""
    settings = {"n_estimators": 4, "n_folds": 2, "n_jobs": 1, "random_state": 0}
    return eb.EBBSRegressor(**{**settings, **changes})


def classifier(**changes):
    """A classifier of few rounds and two folds."""
    settings = {"n_estimators": 4, "n_folds": 2, "n_jobs": 1, "random_state": 0}
    return eb.EBBSClassifier(**{**settings, **changes})


#: How to fit a model of each kind, and arguments to predict new rows with.
MODELS = {
    "regressor": (
        lambda: regressor().fit(TABLE, Y, graph=NAMED),
        {"X": TABLE[:2], "attach": ATTACH},
    ),
    "classifier": (
        lambda: classifier().fit(TABLE, KINDS, graph=GRAPH),
        {"X": TABLE[:2], "attach": ATTACH},
    ),
    "two classes": (
        lambda: classifier(class_weight="balanced").fit(
            NUMBERS, np.where(np.isnan(Y), None, Y > 0.0), graph=GRAPH
        ),
        {"X": NUMBERS, "graph": eb.Graph(GRAPH.adjacency), "new_labels": ([0], [True])},
    ),
    "no graph": (lambda: regressor().fit(NUMBERS.to_numpy(), Y), {"X": NUMBERS[:3].to_numpy()}),
    "errors of many labels": (
        lambda: regressor(early_stopping=2).fit(LONG, LONG[:, 0] + np.exp(LONG[:, 1]) * LONG[:, 2]),
        {"X": LONG[:2] + 1.0},
    ),
    "groups": (
        lambda: regressor().fit(TABLE, Y, groups="town", graph=TOWNS),
        {"X": TABLE[:3], "groups": "town"},
    ),
    "several groups": (
        lambda: regressor().fit(TABLE, Y, groups={"town": TOWNS, "client": CLIENTS}),
        {"X": TABLE[:3], "groups": {"town": None, "client": [0, 1, "new"]}},
    ),
    "coordinates": (
        lambda: regressor().fit(
            NUMBERS.assign(x=POINTS[:, 0], y=POINTS[:, 1]), Y, coordinates=["x", "y"]
        ),
        {"X": NUMBERS[:2].assign(x=[0.2, 0.7], y=[0.1, 0.9])},
    ),
    "counts": (
        lambda: regressor(loss="negative_binomial").fit(
            NUMBERS, COUNTS, graph=GRAPH, exposure=EXPOSURE
        ),
        {"X": NUMBERS[:2], "attach": ATTACH, "exposure": [1.0, 2.0]},
    ),
    "skewed": (
        lambda: regressor().fit(NUMBERS, np.exp(2.0 * Y), graph=GRAPH),
        {"X": NUMBERS[:2], "attach": ATTACH},
    ),
    "sparse": (lambda: regressor().fit(WORDS, Y, graph=GRAPH), {"X": WORDS[:2], "attach": ATTACH}),
    "time": (
        lambda: regressor().fit(TABLE, Y, graph=GRAPH, time="sold"),
        {"X": TABLE[:2], "attach": ATTACH},
    ),
    "one model": (
        lambda: regressor(n_folds=1).fit(TABLE, Y, graph=GRAPH),
        {"X": TABLE[:2], "attach": ATTACH},
    ),
    "own loss": (
        lambda: regressor(loss=LogCosh(0.5)).fit(NUMBERS, Y, graph=GRAPH),
        {"X": NUMBERS[:2], "attach": ATTACH},
    ),
    "own parts": (
        lambda: regressor(
            smoothing=eb.Laplacian(1.0, 3),
            labels=eb.LatentField(3.0, 0.1),
            neighbor_features=eb.NeighborFeatures(["mean"]),
            feature_smoothing=eb.Laplacian(2.0, 2),
            spectral_features=eb.SpectralFeatures(8, random_state=np.random.RandomState(0)),
            learner=eb.LightGBM(6, min_child_samples=2, params={"extra_trees": True}),
            loss=eb.Quantile(0.9),
        ).fit(NUMBERS, Y, graph=GRAPH),
        {"X": NUMBERS[:2], "attach": ATTACH},
    ),
}


@cache
def fitted(name):
    """The model of a kind."""
    return MODELS[name][0]()


def file_of(model, folder):
    """The bytes of the file of a model."""
    path = folder / "model.ebb"
    model.save(path)
    return path.read_bytes()


def unpacked(content):
    """The manifest, the arrays by name, and the other entries of a file."""
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        parts = {name: file.read(name) for name in file.namelist()}
    manifest = json.loads(parts.pop("manifest.json"))
    names = [name for name in parts if name.endswith(".npy")]
    arrays = {name: np.load(io.BytesIO(parts.pop(name))) for name in names}
    return manifest, arrays, parts


def packed(manifest, arrays, parts):
    """The bytes of a file."""
    entries = {"manifest.json": json.dumps(manifest).encode(), **parts}
    entries |= {name: npy_bytes(array) for name, array in arrays.items()}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        for name, part in entries.items():
            file.writestr(name, part)
    return buffer.getvalue()
