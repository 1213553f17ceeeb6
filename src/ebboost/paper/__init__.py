"""EBBS as published: every propagation, label use, acceleration and theorem of the paper.

*Does your graph need a confidence boost? Convergent boosted smoothing on graphs with tabular node
features* (ICLR 2022). The core has the parts of it that the default uses. This package has the
rest, for :class:`PaperRegressor` and :class:`PaperClassifier`, which train one model whose parts
are set; :class:`Jacobi`, :class:`Chebyshev`, :class:`Kernel` and :class:`CatBoost` suit the other
estimators, too.

========== ===================================================== ===================================
equation   meaning                                               below ``ebboost``
========== ===================================================== ===================================
(1)        tree fitted to the negative gradient, without a graph learners.base:Grower.grow
(2)        energy ‖Z − f‖² + λ tr ZᵀLZ                           smoothing:Laplacian
(3)        its minimiser P* f, P* = (I + λL)⁻¹                   smoothing:ExactInverse
(4)        gradient of the energy                                smoothing:GradientSteps
(5)        one gradient step                                     smoothing:GradientSteps.apply
(5)        the same, divided by the diagonal                     paper.steps:JacobiSteps
(6)        P⁽ᵏ⁾ f, k steps                                       smoothing:Laplacian.operator
(7), (19)  meta-loss over the labelled rows                      boosting:Objective.value
(8)        its gradient with respect to f, on all rows           boosting:Objective.gradient
(9)        the gradient for squared error                        losses:SquaredError.gradient
(10)       the same with P*                                      smoothing:ExactInverse.adjoint
(11)       tree fitted to the gradient on all n rows             learners.base:Grower.grow
(12)       step with line search                                 boosting:Objective.line_search
(13)       energy with a graph kernel r(L)                       paper.kernel:Kernel
(14)       energy with a robust penalty ρ                        paper.robust:Robust
(15)       label-aware error smoothing, as a latent field        field:LatentField
(15)       the same with masked labels, as published             paper.masked:MaskedLabels
(16)       θ*, the optimum of the ideal loss                     paper.convergence:report
(17), (21) Theorem 1, O(1/t² + e⁻ᶜᵏ)                             paper.convergence:theorem_1
(18)       Corollary 1, O(βᵗ + e⁻ᶜᵏ)                             paper.convergence:corollary_1
(20)       minimum cosine angle Γ                                paper.convergence:minimum_cosine
(22)       equation (7) for squared error                        losses:SquaredError.value
(23), (27) bound in t of accelerated boosting                    paper.convergence:theorem_1
(24), (25) distance of P⁽ᵏ⁾ f from P* f                          paper.steps:Contraction.error
(26)       the same for the matrices                             paper.convergence:Constants
(28)–(32)  proof: the loss of f* under P⁽ᵏ⁾ and under P*         paper.convergence:report
(33)       conclusion of Theorem 1                               paper.convergence:ConvergenceReport
(34)       squared error with the penalty ε‖f‖²                  paper.objectives:PenalizedObjective
(35)       linear rate of boosting a strongly convex loss        paper.convergence:corollary_1
========== ===================================================== ===================================

Algorithm 1 is ``boosting:boost``, with Nesterov's momentum ``paper.momentum:Accelerated``. Lemmas 1
to 3 are ``paper.convergence:constants``, feature smoothing [X, P_x X] is
``data.features:FeatureMap``, the CatBoost encoder is ``paper.encoding:EncodedFeatures``, settings
of the experiments ``paper:preset``.
"""

from ebboost.paper import convergence
from ebboost.paper.catboost import CatBoost
from ebboost.paper.encoding import EncodedFeatures
from ebboost.paper.estimators import PaperClassifier, PaperRegressor, preset
from ebboost.paper.kernel import Kernel
from ebboost.paper.masked import MaskedLabels, ShownLabels
from ebboost.paper.momentum import CorrectedMomentum
from ebboost.paper.robust import EdgeWeights, Robust
from ebboost.paper.steps import Chebyshev, Jacobi

__all__ = ["CatBoost", "Chebyshev", "CorrectedMomentum", "EdgeWeights", "EncodedFeatures"]
__all__ += ["Jacobi", "Kernel", "MaskedLabels", "PaperClassifier", "PaperRegressor", "Robust"]
__all__ += ["ShownLabels", "convergence", "preset"]
