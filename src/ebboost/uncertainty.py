"""How certain λ, τ and the parameters of the likelihood are: standard errors by likelihood.

Labels that were held out, given scores of models that were not trained on them, have the marginal
likelihood ∫ p(y | s + z) p(z) dz, by Laplace's approximation, exact for squared error. Its second
differences by the logarithms of the parameters, where it is greatest, are the observed information.
"""

from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from scipy.optimize import minimize

from ebboost._common import Array
from ebboost.data.labels import Labels
from ebboost.field import FieldEnergy, LatentField, Posterior
from ebboost.formatting import figure
from ebboost.intervals import field_of
from ebboost.linalg import Solver
from ebboost.losses import Loss, SquaredError
from ebboost.losses.likelihood import SEARCHED, SHARES, with_logarithms
from ebboost.model import Model
from ebboost.output import Output
from ebboost.strengths import joined

STEP = 0.1  # of second differences, in logarithms
REACH = 7.0  # how far the search goes from the start
UNCLEAR = 1.5  # error of the logarithm of a loss's parameter, beyond which labels do not tell
QUANTILE = 1.6449  # of 90 % intervals
# Labels of a node, beyond squared error: with fewer, and for classes, Laplace's approximation is
# wrong by more than the errors say.
LABELS_OF_NODE = 2.0


@dataclass(frozen=True)
class Estimate:
    """A parameter: its value in the fit, that of greatest likelihood, and how certain that is."""

    parameter: str
    fitted: float
    estimate: float
    standard_error: float  # infinite where labels do not tell
    lower: float  # of 90 %
    upper: float


#: Estimates of models that were asked for.
known: WeakKeyDictionary[Model, list[Estimate]] = WeakKeyDictionary()


def estimates(model: Model) -> list[Estimate]:
    """Return estimates of λ, τ, the variance of the noise, and open parameters of the loss.

    Of several groups, the variance of each that has no edges. With a field, none of classes, and of
    counts and amounts from two labels a node on. None of processes, or where systems cannot be
    factorised.
    """
    if model not in known:
        known[model] = _estimates(model)
    return known[model]


def estimates_text(model: Model) -> list[str]:
    """Return a line of them for the summary, none where there are none."""
    texts = []
    for one in estimates(model):
        ends = f"{figure(one.lower)} to {figure(one.upper)}"
        ends = ends if np.isfinite(one.standard_error) else "anything"
        texts.append(f"{one.parameter} {figure(one.estimate)} ({ends})")
    return [f"{', '.join(texts)}: 90 % by likelihood"] if texts else []


def _estimates(model: Model) -> list[Estimate]:
    unseen, loss = model.unseen, model.output.loss
    has_process = any(one.process is not None for one in model.components)
    if unseen.scores is None or not unseen.rows.size or model.n_outputs > 1 or has_process:
        return []
    given: dict[str, Any] = {}
    if not model.output.is_classifier:
        given = Output.of_numbers(model.parameters["loss"]).loss.get_params()
    own = [name for name in SEARCHED if given.get(name, 0.0) is None]
    own = [name for name in own if loss.get_params()[name] is not None]
    field = None if model.places is None else field_of(model)
    if model.places is not None and field is not None:
        known_nodes = model.places.node_of_row[unseen.rows]
        if not Posterior(field.prior(model.places.graph), known_nodes).structure.is_factorised:
            return []
        if type(loss) is not SquaredError:
            few = known_nodes.size < LABELS_OF_NODE * np.unique(known_nodes).size
            if few or model.output.is_classifier:
                return []
    labels = Labels(unseen.rows, unseen.target, unseen.weight).relative()
    dispersion = 1.0
    if type(loss).dispersion is not Loss.dispersion:
        dispersion = model.spread.dispersion if model.spread is not None else 1.0
    return Likelihood(model.places, labels, unseen.scores, loss, field, own, dispersion).estimates()


class Likelihood:
    """The marginal likelihood of labels as a function of logarithms of parameters.

    Parameters
    ----------
    places : Places or None
    labels : Labels
    scores : ndarray of shape (m, 1)
        Of the labelled rows, without the field.
    loss : Loss
    field : LatentField or None
        Where the search starts.
    own : list of str
        Parameters of the loss that are estimated.
    dispersion : float
        φ; of squared error, where the search starts.
    """

    def __init__(
        self,
        places: Any,
        labels: Labels,
        scores: Array,
        loss: Loss,
        field: LatentField | None,
        own: list[str],
        dispersion: float = 1.0,
    ) -> None:
        self.places, self.labels, self.scores, self.loss = places, labels, scores, loss
        self.own, self.dispersion = own, dispersion
        start: list[float] = []
        #: Names of the parameters of each group: of several without edges, their variances.
        self.groups: list[list[str]] = []
        if field is not None and places.groups:
            fields = getattr(field, "fields", [field] * len(places.groups))
            degrees = places.graph.degrees[places.node_of_row]
            for name, one, degree in zip(places.groups, fields, degrees.T, strict=True):
                has_edges = bool(degree.any())
                names = [f"λ of {name}", f"τ of {name}"] if has_edges else [f"variance of {name}"]
                start += [one.lam, one.tau] if has_edges else [dispersion / (one.lam + one.tau)]
                self.groups.append(names)
        elif field is not None:
            has_edges = places.graph.n_edges > 0
            # Groups without edges have the variance 1/(λ + τ).
            self.groups = [["λ", "τ"] if has_edges else ["λ + τ"]]
            start = [field.lam, field.tau] if has_edges else [field.lam + field.tau]
        self.names = [name for names in self.groups for name in names]
        self.has_field = field is not None
        if type(loss) is SquaredError:
            self.names.append("noise")
            start.append(dispersion)
        self.names += own
        numbers = loss.get_params()
        logits = [numbers[name] / (1.0 - numbers[name] * (name in SHARES)) for name in own]
        self.start = np.log(np.maximum([*start, *logits], 1e-300))
        self.mode: Array | None = None

    def minus_log(self, logarithms: Array) -> float:
        """Return minus the log-likelihood, up to a constant."""
        at = dict(zip(self.names, logarithms, strict=True))
        loss = with_logarithms(self.loss, self.own, [at[name] for name in self.own])
        dispersion = float(np.exp(at["noise"])) if "noise" in at else self.dispersion
        labels, scores, determinant = self.labels, self.scores, 0.0
        if not self.has_field:
            energy = float(labels.weight @ loss.value(scores, labels.target))
        else:
            fields = []
            for names in self.groups:
                strengths = [float(np.exp(at[name])) for name in names]
                if names[0].startswith("variance"):
                    strengths = [dispersion / strengths[0]]
                fields.append(LatentField(*[0.0] * (2 - len(strengths)), *strengths))
            prior = joined(fields, self.places).prior(self.places.graph)
            posterior = Posterior(prior, self.places.node_of_row[labels.rows])
            field_energy = FieldEnergy(posterior, loss, labels)
            z = self.mode = field_energy.mode(scores, start=self.mode)
            energy = field_energy.value(scores, z, prior.matrix @ z)
            system = posterior.solver(field_energy.curvature(scores, z))
            alone = prior.system(np.zeros(prior.n_nodes))
            determinant = log_determinant(system) - log_determinant(alone)
        total = energy / dispersion + 0.5 * determinant
        if "noise" in at:
            total += 0.5 * labels.size * at["noise"]
        if loss.normalizer is not None:
            total -= float(labels.weight @ loss.normalizer(labels.target))
        return total

    def estimates(self) -> list[Estimate]:
        """Return the estimates of all parameters."""
        if not self.names:
            return []
        ends = [(one - REACH, one + REACH) for one in self.start]
        options = {"eps": 1e-3, "ftol": 1e-9}
        best = minimize(
            self.minus_log, self.start, method="L-BFGS-B", bounds=ends, options=options
        ).x
        information = second_differences(self.minus_log, best)
        variances = np.full(best.size, np.inf)
        if (np.linalg.eigvalsh(information) > 0.0).all():
            variances = np.diag(np.linalg.inv(information))
        if (variances[best.size - len(self.own) :] > UNCLEAR**2).any():
            variances = np.full(best.size, np.inf)  # the field and the likelihood look alike
        result = []
        for name, start, one, error in zip(
            self.names, self.start, best, np.sqrt(variances), strict=True
        ):
            with np.errstate(over="ignore"):
                points = np.exp([start, one, one - QUANTILE * error, one + QUANTILE * error])
            slope = points[1]
            if name in SHARES:
                points = 1.0 / (1.0 + 1.0 / np.maximum(points, 1e-300))
                slope = points[1] * (1.0 - points[1])
            fitted, value, low, high = map(float, points)
            result.append(Estimate(name, fitted, value, float(slope * error), low, high))
        return result


def log_determinant(system: Solver) -> float:
    """Return the logarithm of the determinant of a system that was factorised."""
    return float(np.log(system.factor.factors()[1]).sum())


def second_differences(function: Any, at: Array) -> Array:
    """Return the matrix of second derivatives, by central differences."""
    steps = STEP * np.eye(at.size)
    middle = function(at)
    result = np.empty((at.size, at.size))
    for i, one in enumerate(steps):
        for j, other in enumerate(steps[: i + 1]):
            if i == j:
                change = function(at + one) - 2.0 * middle + function(at - one)
            else:
                change = function(at + one + other) - function(at + one - other)
                change += function(at - one - other) - function(at - one + other)
                change /= 4.0
            result[i, j] = result[j, i] = change / STEP**2
    return result
