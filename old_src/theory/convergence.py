"""``eb.convergence``: the guarantees of the paper as numbers, and a fit compared with them."""

from ebboost.theory.lemmas import Constants, constants, steps_for
from ebboost.theory.report import ConvergenceReport, report
from ebboost.theory.theorems import corollary_1, largest_phi, minimum_cosine, theorem_1

__all__ = ["Constants", "ConvergenceReport", "constants", "corollary_1", "largest_phi"]
__all__ += ["minimum_cosine", "report", "steps_for", "theorem_1"]
