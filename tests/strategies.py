"""What tests draw: graphs, and problems that several test modules share."""

import numpy as np
from hypothesis import strategies as st
from scipy import sparse

import ebboost as eb
from ebboost.data.table import Table


def random_graph(n_nodes, n_edges, seed=0, weighted=True):
    """Edges between random nodes, with weights from 0.2 to 2."""
    rng = np.random.default_rng(seed)
    source, target = rng.integers(0, n_nodes, (2, n_edges))
    weight = rng.uniform(0.2, 2.0, n_edges) if weighted else None
    return eb.Graph.from_edges(source, target, weight, n_nodes)


@st.composite
def graphs(draw, min_nodes=1, max_nodes=15):
    """Sparse and dense graphs, with isolated nodes and several components."""
    n_nodes = draw(st.integers(min_nodes, max_nodes))
    n_edges = draw(st.integers(0, 3 * n_nodes))
    seed = draw(st.integers(0, 10_000))
    return random_graph(n_nodes, n_edges, seed, draw(st.booleans()))


def homophilous(n=300, seed=0):
    """X, y and a spatial graph over which y varies smoothly, also beyond the columns of X."""
    rng = np.random.default_rng(seed)
    position = rng.random((n, 2))
    hidden = np.sin(7 * position[:, 0]) + np.cos(6 * position[:, 1])
    X = rng.normal(size=(n, 3))
    y = hidden + 0.5 * X[:, 0] + 0.1 * rng.normal(size=n)
    return X, y, eb.Graph.build_knn(position, k=6)


def fixed(kind=eb.EBBSRegressor, **changes):
    """An unfitted estimator of one member: trees, for some rounds, with the given parts."""
    settings = {
        "n_estimators": 20,
        "learning_rate": 0.3,
        "early_stopping": False,
        "random_state": 0,
        "n_jobs": 1,
        "smoothing": None,
        "labels": "none",
        "neighbor_features": None,
        "spectral_features": None,
        "learner": eb.LightGBM(7, min_child_samples=5),
    }
    return kind(**(settings | changes))


def quick(kind=eb.EBBSRegressor, **changes):
    """An unfitted estimator of the whole portfolio, with few folds and rounds."""
    settings = {"n_estimators": 10, "n_folds": 2, "random_state": 0, "n_jobs": 1}
    return kind(**(settings | changes))


ZEROS = [
    eb.ZeroInflated(1e9, 0.3),
    eb.ZeroInflated(1.7, 0.2),
    eb.Hurdle(1e9, 0.4),
    eb.Hurdle(1.7, 2.5),
]
SHARES = [eb.Binomial(0.1), eb.Beta(7.0)]
LOG_LINK = [eb.Poisson(), eb.NegativeBinomial(1.7), eb.Gamma(), eb.Tweedie(1.4), *ZEROS]
OF_NUMBERS = [eb.SquaredError(), eb.Huber(0.7), eb.Quantile(0.3, 0.4), *LOG_LINK, *SHARES]
LOSSES = [*OF_NUMBERS, eb.LogLoss(), eb.Softmax()]


def loss_data(loss, seed, m=30):
    """Random scores and targets of shape (m, c) that the loss is defined for."""
    rng = np.random.default_rng(seed)
    c = 4 if isinstance(loss, eb.Softmax) else 1
    scores = rng.normal(size=(m, c))
    if isinstance(loss, eb.Softmax):
        return scores, np.eye(c)[rng.integers(0, c, m)]
    if loss in SHARES:
        return scores, rng.beta(2.0, 3.0, (m, 1)).clip(1e-3, 1.0 - 1e-3)
    if isinstance(loss, eb.LogLoss):
        return scores, rng.integers(0, 2, (m, 1)).astype(float)
    if isinstance(loss, eb.Gamma):
        return scores, rng.gamma(2.0, 1.0, (m, 1)) + 0.01
    if loss.log_link:
        return scores, rng.poisson(2.0, (m, 1)).astype(float)
    return scores, rng.normal(scale=2.0, size=(m, 1))


def table_of(values, **options):
    """An array, or a sparse matrix, as a table."""
    names = tuple(f"x{i}" for i in range(values.shape[1]))
    return Table(values, names, options.pop("categorical", ()), tuple(range(len(names))), **options)


def adjacency_of_copies(graph, count=2):
    """A graph of disconnected copies."""
    return eb.Graph.from_scipy(sparse.block_diag([graph.adjacency] * count).tocsr())
