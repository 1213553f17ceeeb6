"""Hypothesis strategies for random graphs."""

import numpy as np
from hypothesis import strategies as st

import ebbflow as eb


@st.composite
def graphs(draw: st.DrawFn, min_nodes: int = 1, max_nodes: int = 12) -> eb.Graph:
    """Weighted graphs with isolates, several components, hubs or nothing at all."""
    n = draw(st.integers(min_nodes, max_nodes))
    seed = draw(st.integers(0, 2**32 - 1))
    density = draw(st.sampled_from([0.0, 0.1, 0.3, 0.7, 1.0]))
    kind = draw(st.sampled_from(["plain", "weighted", "hub"]))
    rng = np.random.default_rng(seed)
    upper = np.triu(rng.random((n, n)) < density, 1)
    if kind == "hub":
        upper[0, 1:] = True
    weights = np.where(upper, rng.lognormal(sigma=1.5, size=(n, n)) if kind == "weighted" else 1.0, 0.0)
    return eb.Graph.from_scipy(weights + weights.T)


@st.composite
def signed_graphs(draw: st.DrawFn, min_nodes: int = 1, max_nodes: int = 12) -> eb.Graph:
    """Mixtures of a relation between like and one between unlike nodes."""
    n = draw(st.integers(min_nodes, max_nodes))
    like, unlike = draw(graphs(n, n)), draw(graphs(n, n))
    return eb.Graph.mix({"like": like, "unlike": unlike}, {"like": 1.0, "unlike": draw(st.floats(-3.0, -0.1))})


def random_graph(n: int, n_edges: int, seed: int = 0) -> eb.Graph:
    """A graph of a given size, without drawing."""
    rng = np.random.default_rng(seed)
    ends = np.sort(rng.integers(0, n, (n_edges, 2)), axis=1)
    return eb.Graph.from_edges(ends[:, 0], ends[:, 1], n_nodes=n)
