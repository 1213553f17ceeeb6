"""Theorem 1 and Corollary 1: bounds on the loss after t rounds, and the learner's Γ that they need.

The bounds are those that can be proved, which differ from what the appendix prints:

* Its losses are not halved, ours are (½‖P f − y‖² + ½ε‖f‖²). The optimum is the same and ε means
  the same.
* The proof of Theorem 1 takes a bound for P^(k) − P* over to its labelled rows. Rows of an error
  need not shrink when its norm does; here they do, because (P^(0) − P*) and the polynomial r_k(A)
  commute.
* The bound of Theorem 1, taken over from Lu et al., is printed as σ‖f*‖²/(2φ(t+1)²). The potential
  argument from which φ ≤ Γ⁴/(4+Γ²) comes (see :func:`theorem_1`) gives four times that, because
  θ_{t−1}² is 4/(t+1)².
* Γ is defined as a minimum over all gradients. Two nodes with equal columns can have gradients that
  no function of the columns fits, so that minimum is often 0. The theorems need it over gradients
  in the span of the learners, as Lu and Mazumder define it, and Corollary 1 for one run only over
  the gradients of that run.

One thing is stronger here: trees are fitted, and steps measured, in the norm ‖v‖²_D = Σ d_i v_i² of
the curvature D that majorises the Hessian (:meth:`Objective.curvature`). In that norm the loss is
1-smooth, and both proofs hold word for word with σ = 1, angles and distances being taken in it. A
step found by line search descends at least as far as the fixed step of the proofs.
"""

import numpy as np
from numpy.typing import ArrayLike

from ebboost.boosting.projection import project_on_tree
from ebboost.data.parameters import check_number
from ebboost.data.reader import TableReader
from ebboost.data.types import Array
from ebboost.learners import as_learner


def minimum_cosine(
    learner: object,
    X: object,
    *,
    curvature: ArrayLike | None = None,
    n_draws: int = 20,
    categorical_features: str | list[int | str] = "auto",
    seed: int = 0,
) -> float:
    """Estimate Γ (20), the minimum cosine angle of a learner on a table, from random gradients.

    Γ is the smallest cosine, over *all* gradients, between a negative gradient and the tree grown
    on it. This is the smallest over ``n_draws`` draws of normal noise: more than Γ, never less, and
    so a number to compare learners and tables by, not a proof. Noise is hard to fit; the gradients
    of a fit begin easier (``model.history_["cosine"]``) and become like it.

    Parameters
    ----------
    learner : str, Learner, regressor or list of regressors
        As in :class:`EBBSRegressor`.
    X : table
        Numeric, or with categories if the learner supports them.
    curvature : array-like of shape (n,), optional
        The norm to measure in: a weight for each row. Default: all 1, as in the paper.
    n_draws : int, default=20
        Number of random gradients.
    categorical_features : "auto" or list, default="auto"
        As in :class:`EBBSRegressor`.
    seed : int, default=0
        Seed of the gradients and of the learner.

    Returns
    -------
    float

    Examples
    --------
    >>> import ebboost as eb, numpy as np
    >>> X = np.random.default_rng(0).normal(size=(500, 3))
    >>> stumps, trees = (eb.LightGBM(leaves, min_child_samples=1) for leaves in (2, 100))
    >>> eb.convergence.minimum_cosine(stumps, X) < 0.2
    True
    >>> eb.convergence.minimum_cosine(trees, X) > 0.6
    True
    """
    table = TableReader(categorical_features).fit(X)
    learner = as_learner(learner)
    if table.categorical and not learner.takes_categories:
        raise ValueError(
            f"{learner!r} does not support categories: encode or drop the categorical columns."
        )
    weight = np.ones(table.n_rows) if curvature is None else np.asarray(curvature, dtype=np.float64)
    if weight.shape != (table.n_rows,) or not (weight >= 0).all():
        raise ValueError(
            f"curvature must be {table.n_rows} numbers of at least 0, one for each row of X."
        )
    grower = learner.start(table, n_outputs=1, seed=seed, n_jobs=1, device="cpu")
    random = np.random.default_rng(seed)
    smallest = 1.0
    for _ in range(n_draws):
        gradient = weight[:, None] * random.standard_normal((table.n_rows, 1))
        tree = grower.grow(gradient, weight[:, None])
        if tree is None:
            return min(smallest, 0.0)
        smallest = min(smallest, project_on_tree(gradient, weight[:, None], tree).cosine)
    return smallest


def largest_phi(gamma: float) -> float:
    """Return Γ⁴/(4+Γ²), the largest momentum parameter φ for which Theorem 1 is proved.

    Parameters
    ----------
    gamma : float
        Γ, between 0 and 1.

    Returns
    -------
    float

    Examples
    --------
    >>> import ebboost as eb
    >>> eb.convergence.largest_phi(1.0)
    0.2
    """
    check_number("gamma", gamma, low=0.0, high=1.0)
    return float(gamma**4 / (4.0 + gamma**2))


def theorem_1(
    rounds: ArrayLike,
    distance: float,
    phi: float,
    *,
    sigma: float = 1.0,
    learning_rate: float = 1.0,
) -> Array:
    """Return the bound 2σ‖f*‖²/(νφ(t+1)²) on ℓ(f_t) − ℓ(f*) with corrected momentum, t ≥ 1.

    It holds if φ ≤ Γ⁴/(4+Γ²), for the optimum f* and, with the least loss so far for ℓ(f_t), for
    *every* f* in the span of the learners. The error of P^(k) comes on top of it.

    Parameters
    ----------
    rounds : array-like of int
        t.
    distance : float
        ‖f*‖, from f⁰ = 0.
    phi : float
        φ.
    sigma : float, default=1.0
        σ^(k), if the distance is Euclidean; 1 in the norm of the curvature.
    learning_rate : float, default=1.0
        ν, the share taken of the step 1/σ.

    Returns
    -------
    ndarray

    Notes
    -----
    The proof in short, with η = ν/σ and r the negative gradient at g. A round descends by ηΓ²‖r‖²/2
    at least, and convexity at g gives Δ' ≤ (1−θ)Δ + θ⟨r, f* − h⟩ − ηΓ²‖r‖²/2 for Δ = ℓ(f) − ℓ(f*).
    Let e be what the second tree missed of its target. Then ĥ = h + (φη/θ)e takes exact steps, ĥ' =
    ĥ + (φη/θ)r, so that Δ/θ² + ‖f* − ĥ‖²/(2φη) falls but for sums of (η/2)(φ‖R‖² + 2φ⟨R, E⟩ −
    Γ²‖R‖²) with R = r/θ and E = e/θ of the round before. As ‖E'‖² ≤ (1−Γ²)‖R + E‖², Σ‖E‖² is at
    most 4Σ‖R‖²/Γ⁴, and those sums are not positive if φ(1 + 4/Γ²) ≤ Γ².

    Examples
    --------
    >>> import ebboost as eb
    >>> eb.convergence.theorem_1([0, 9, 99], distance=1.0, phi=0.2).tolist()
    [10.0, 0.1, 0.001]
    """
    t = np.asarray(rounds, dtype=np.float64)
    return 2.0 * sigma * distance**2 / (learning_rate * phi * (t + 1.0) ** 2)


def corollary_1(
    rounds: ArrayLike,
    gap: float,
    gamma: float,
    *,
    mu: float,
    sigma: float = 1.0,
    learning_rate: float = 1.0,
) -> Array:
    """Return the bound βᵗ(ℓ(f_0) − ℓ(f*)) on ℓ(f_t) − ℓ(f*) without momentum, with a penalty.

    β = 1 − ν(2−ν)Γ²μ/σ; the paper's is that with ν = 1.

    Parameters
    ----------
    rounds : array-like of int
        t.
    gap : float
        ℓ(f_0) − ℓ(f*).
    gamma : float
        Γ, or the smallest cosine of the run: the proof needs no more.
    mu, sigma : float
        Strong convexity and smoothness in one norm, such as ε and σ^(k) (Lemma 3), or ε/max d and
        1.
    learning_rate : float, default=1.0
        ν.

    Returns
    -------
    ndarray

    Examples
    --------
    >>> import ebboost as eb
    >>> eb.convergence.corollary_1([0, 1, 2], gap=1.0, gamma=0.5, mu=0.4).round(3).tolist()
    [1.0, 0.9, 0.81]
    """
    beta = 1.0 - learning_rate * (2.0 - learning_rate) * gamma**2 * mu / sigma
    return gap * beta ** np.asarray(rounds, dtype=np.float64)
