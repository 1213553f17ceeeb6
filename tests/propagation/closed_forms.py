"""Smoothers of every kind, and their operators as dense matrices, from their definitions."""

import re

import numpy as np
from numpy.polynomial import Chebyshev

import ebboost as eb
from ebboost.propagation._matrix import LaplacianSystem


def squared(s: np.ndarray) -> np.ndarray:
    return s**2


KERNELS = {  # r of equation (13) at a frequency, by the parameters of its kernel
    "laplacian": lambda s, kernel: s,
    "regularized": lambda s, kernel: 1 + kernel.sigma**2 * s,
    "diffusion": lambda s, kernel: np.exp(kernel.sigma**2 * s / 2),
    "random-walk": lambda s, kernel: (kernel.a - s) ** -kernel.p,
    "inverse-cosine": lambda s, kernel: 1 / np.cos(s * np.pi / 4),
    squared: lambda s, kernel: s**2,
}


def dense_laplacian(graph: eb.Graph, normalized: bool) -> np.ndarray:
    adjacency = graph.adjacency.toarray()
    if not normalized:
        return np.diag(np.abs(adjacency).sum(1)) - adjacency
    looped = adjacency + np.eye(graph.n_nodes)
    root = 1 / np.sqrt(np.abs(looped).sum(1))
    return np.eye(graph.n_nodes) - root[:, None] * looped * root


def dense_form(smoother: eb.Smoother, graph: eb.Graph) -> np.ndarray:
    """P from its definition, with dense matrices."""
    if isinstance(smoother, eb.Kernel):
        return dense_kernel(smoother, graph)
    eye = np.eye(graph.n_nodes)
    system = eye + smoother.lam * dense_laplacian(graph, smoother.normalized)
    if smoother.method == "exact":
        return np.linalg.inv(system)
    if smoother.method == "chebyshev":
        # P = A⁻¹ + r_k(A)(I − A⁻¹) with r_k the scaled Chebyshev polynomial, through the
        # eigenvalues.
        upper = LaplacianSystem(graph, smoother.lam, smoother.normalized).upper
        values, vectors = np.linalg.eigh(system)
        if upper <= 1 or smoother.n_steps == 0:
            return eye
        cheb = np.polynomial.chebyshev.Chebyshev.basis(smoother.n_steps)
        shift = (upper + 1) / (upper - 1)
        residual = cheb((upper + 1 - 2 * values) / (upper - 1)) / cheb(shift)
        return vectors @ np.diag(1 / values + residual * (1 - 1 / values)) @ vectors.T
    if smoother.method == "jacobi":
        scale = np.diag(1 / np.diag(system))
    elif smoother.step == "theorem" or (smoother.step == "auto" and not smoother.normalized):
        scale = eye / LaplacianSystem(graph, smoother.lam, smoother.normalized).upper
    elif isinstance(smoother.step, float):
        scale = smoother.step * eye
    else:
        scale = eye / (1 + smoother.lam)
    z = eye
    for _ in range(smoother.n_steps):
        z = z - scale @ (system @ z - eye)
    return z


def dense_kernel(kernel: eb.Kernel, graph: eb.Graph) -> np.ndarray:
    """P = 1/(1 + λ r(s)), or steps towards it, from the eigenvalues of L."""
    eye, (values, vectors) = (
        np.eye(graph.n_nodes),
        np.linalg.eigh(dense_laplacian(graph, kernel.normalized)),
    )
    upper = max(LaplacianSystem(graph, 1.0, kernel.normalized).upper - 1, 1e-3)

    def system(s: np.ndarray) -> np.ndarray:
        return 1 + kernel.lam * KERNELS[kernel.r](s, kernel)

    if kernel.degree is not None:
        series = Chebyshev.interpolate(lambda s: 1 / system(s), 800, [0, upper]).cutdeg(
            kernel.degree
        )
        return vectors @ np.diag(series(values)) @ vectors.T
    if kernel.method == "chebyshev":
        return vectors @ np.diag(1 / system(values)) @ vectors.T
    matrix, z = vectors @ np.diag(system(values)) @ vectors.T, eye
    for _ in range(kernel.n_steps):
        z = z - (matrix @ z - eye) / system(upper)
    return z


METHODS = ["gradient", "jacobi", "chebyshev", "exact"]
SMOOTHERS = [
    eb.Laplacian(lam, n_steps, normalized=normalized, method=method)
    for lam, n_steps in [(0.0, 3), (0.5, 1), (2.0, 5), (20.0, 4), (2.0, 0)]
    for normalized in (True, False)
    for method in METHODS
] + [
    eb.Laplacian(2.0, 5, step="theorem"),
    eb.Laplacian(2.0, 5, step=0.1),
    eb.Laplacian(2.0, 5, step="paper"),
]


EXACT = {"tolerance": 1e-10}
SMOOTHERS += [
    eb.Kernel(r, lam, normalized=normalized, **EXACT, **own, **how)
    for r, normalized, lam, own in [
        ("laplacian", True, 2.0, {}),
        ("laplacian", False, 0.2, {}),
        ("regularized", True, 2.0, {"sigma": 1.5}),
        ("regularized", False, 2.0, {"sigma": 0.3}),
        ("diffusion", True, 2.0, {"sigma": 2.0}),
        ("diffusion", True, 50.0, {}),
        ("diffusion", False, 1.0, {"sigma": 0.1}),
        ("random-walk", True, 2.0, {"a": 2.1}),
        ("random-walk", True, 20.0, {"a": 3.0, "p": 4}),
        ("random-walk", False, 1e5, {"a": 5000.0, "p": 2}),
        ("inverse-cosine", True, 2.0, {}),
        (squared, True, 2.0, {}),
        (squared, False, 0.01, {}),
    ]
    for how in ({}, {"method": "gradient", "n_steps": 3}, {"degree": 4})
]
SMOOTHERS += [
    eb.Kernel("diffusion", degree=0),
    eb.Kernel("diffusion", 0.0),
    eb.Kernel(method="gradient", n_steps=0),
]


def describe_parameters(smoother: eb.Smoother) -> str:
    return re.sub("<function (.*) at .*>", r"\1", repr(smoother)).replace("\n", "")
