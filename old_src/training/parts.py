"""Parts of the model: those that the user fixed, and those that the search may add."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
from sklearn.base import clone

from ebboost.boosting.latent_field import LatentField
from ebboost.boosting.losses import Poisson, SquaredError
from ebboost.boosting.masked_labels import MaskedLabels
from ebboost.data.features import NeighborFeatures, SpectralFeatures
from ebboost.data.sharded import total_rows
from ebboost.data.spectral import spectral_vectors
from ebboost.graph import Graph
from ebboost.learners.constraints import has_constraints
from ebboost.model.candidate import Candidate
from ebboost.propagation import Laplacian, Smoother
from ebboost.training import defaults
from ebboost.training.default_field import default_field
from ebboost.training.problem import Problem

LABEL_USES: dict[str, LatentField | MaskedLabels | None] = {
    "none": None,
    "field": LatentField(),
    "leave-one-out": LatentField(leave_one_out=True),
    "masked": MaskedLabels(),
}
TREE_PARTS = ("random_splits", "smaller_trees")
#: Learners whose trees are compared with others and with networks, if only their name was passed.
SEARCHED_LEARNERS = ("lightgbm", "xgboost")


def named(candidate: Candidate) -> Candidate:
    """Return a candidate named after its parts."""
    words = []
    if candidate.smoothing is not None:
        words.append("propagation")
    if isinstance(candidate.labels, LatentField):
        kind = "similarity field" if candidate.labels.similarity else "field"
        words.append(f"{kind}(λ={candidate.labels.lam:g}, τ={candidate.labels.tau:g})")
    elif candidate.labels is not None:
        words.append("masked labels")
    if candidate.neighbor_features is not None:
        words.append("neighbour columns")
    if candidate.feature_smoothing is not None:
        words.append("smoothed columns")
    if candidate.spectral_features is not None:
        words.append("spectral columns")
    if candidate.own_columns is False:
        words.append("without own columns")
    words = words or ["none"]
    if candidate.smaller_trees:
        words.append("smaller trees")
    if candidate.random_splits:
        words.append("random splits")
    if candidate.network:
        words.append("network")
    if candidate.loss is not None:
        words.append(f"{type(candidate.loss).__name__} loss")
    return replace(candidate, name=" + ".join(words))


@dataclass(frozen=True)
class Parts:
    """The parts that the user fixed, those that may be added, and the order to try them in."""

    plain: Candidate
    optional: Mapping[str, object] = field(default_factory=dict)
    steps: tuple[tuple[str, ...], ...] = ()
    others: tuple[Candidate, ...] = ()  # averaged with the first, without any comparison
    network_steps: tuple[tuple[str, ...], ...] | None = None  # None: no networks
    n_vectors: int = 0  # singular vectors that networks have in place of a sparse table

    def with_vectors(self, problem: Problem) -> Problem:
        """Return the problem with vectors of the nodes, if spectral columns may be used."""
        features = self.plain.spectral_features or self.optional.get("spectral_features")
        graph = problem.graph
        if not isinstance(features, SpectralFeatures) or graph is None or graph.vectors is not None:
            return problem
        seed = problem.seed if features.random_state is None else features.random_state
        vectors = spectral_vectors(graph, features.n_components, seed)
        return replace(problem, graph=graph.with_vectors(vectors))


def parts_of(problem: Problem) -> Parts:
    """Return the parts of the candidates; those that the user fixed are the same in all."""
    requested = requested_parts(problem)
    fixed = {name: part for name, part in requested.items() if part != "auto"}
    graph = problem.graph
    if graph is None:
        return Parts(Candidate("none"))
    plain = named(Candidate("", **fixed))  # type: ignore[arg-type]
    if len(fixed) == len(requested) or graph.n_edges == 0:
        name = "none" if all(part is None for part in fixed.values()) else "as given"
        return Parts(replace(plain, name=name))
    table = problem.table
    classes = problem.classes
    propagation = defaults.CLASS_PROPAGATION if classes else defaults.PROPAGATION
    optional: dict[str, object] = {"smoothing": Laplacian(*propagation)}
    optional["labels"] = default_field(problem)
    n_vectors = 0
    is_wide = table.is_sparse and table.values.shape[1] > 2 * defaults.LOW_RANK
    if is_wide and not has_constraints(problem.settings.learner):
        n_vectors = defaults.LOW_RANK
    if table.is_sparse and classes:
        adds_columns = any(map(fixed.get, ("neighbor_features", "feature_smoothing")))
        if n_vectors and not adds_columns:
            optional["low_rank"] = n_vectors
    elif table.is_sparse:
        optional["neighbor_features"] = NeighborFeatures(["mean"])
    else:
        optional["neighbor_features"] = NeighborFeatures()
        if len(table.categorical) < len(table.names):  # categories are not smoothed
            optional["feature_smoothing"] = Laplacian(*defaults.FEATURE_SMOOTHING)
    if graph.groups is not None:  # scores and columns are not propagated between rows
        fixed |= dict.fromkeys(("smoothing", "feature_smoothing", "spectral_features"))
    elif "low_rank" not in optional and _has_few_nodes(graph):
        optional["spectral_features"] = SpectralFeatures(defaults.SPECTRAL_COMPONENTS)
    if _compares_trees(problem):
        # XGBoost does not split at random thresholds.
        parts = TREE_PARTS if problem.settings.learner == "lightgbm" else ("smaller_trees",)
        optional |= dict.fromkeys(parts, True)
    if _compares_losses(problem, fixed):
        optional["loss"] = Poisson()
    adds_all = {"neighbor_features", "spectral_features"} <= optional.keys() - fixed.keys()
    if n_vectors and not classes and adds_all and not fixed.get("feature_smoothing"):
        optional["own_columns"] = False
    optional = {name: part for name, part in optional.items() if name not in fixed}
    of_field = {"field", "strengths", "default_field"} if "labels" in optional else set()
    if of_field and isinstance(graph, Graph) and graph.groups is None and graph.time is None:
        of_field.add("similarity")
    steps: list[tuple[str, ...]] = [
        (name,) for name in defaults.SEARCH_ORDER if name in of_field | set(optional)
    ]
    if "loss" in optional and problem.settings.selection == "thorough":
        steps.append(("loss",))  # once more, with all parts
    if classes and table.is_sparse:
        both = tuple(name for name in ("smoothing", "low_rank") if name in optional)
        steps = [both, *(step for step in steps if step != ("smoothing",))]
    network_steps = None
    if _compares_networks(problem) and (n_vectors or not table.is_sparse):
        names = of_field | {name for name in optional if (name,) in steps}
        network_steps = tuple((name,) for name in defaults.NETWORK_ORDER if name in names)
    return Parts(plain, optional, tuple(steps), network_steps=network_steps, n_vectors=n_vectors)


def _compares_losses(problem: Problem, fixed: Mapping[str, object]) -> bool:
    """Whether training with the Poisson loss is compared: for skewed labels of 0 and more.

    Not where a part was fixed whose parameters have the units of the labels.
    """
    settings = problem.settings
    labels = problem.labels.labels
    evaluation = problem.labels.evaluation
    has_units = (fixed.get("labels"), settings.penalty, problem.offset is not None)
    is_default = settings.loss == "auto" and type(problem.output.loss) is SquaredError
    is_linear = getattr(fixed.get("smoothing"), "linear", True)
    is_here = isinstance(problem.graph, Graph) and settings.device == "cpu"
    if any(has_units) or not (is_default and is_linear and is_here):
        return False
    if evaluation is not None and evaluation.target.min() < 0.0:
        return False
    mean = float(np.average(labels.target[:, 0], weights=labels.weight))
    spread = problem.output.loss.label_scale(labels.target, labels.weight, None)
    return labels.target.min() >= 0.0 and spread > defaults.LOG_LINK_FROM * mean


def _compares_networks(problem: Problem) -> bool:
    """Whether networks are compared with trees."""
    settings = problem.settings
    graph = problem.graph
    if graph is None or problem.table.on_disk or graph.groups is not None:
        return False
    is_small = _has_few_nodes(graph) and _has_few_labels(problem, defaults.NETWORKS_UP_TO)
    return is_small and settings.learner in SEARCHED_LEARNERS and settings.device == "cpu"


def _has_few_nodes(graph: Graph) -> bool:
    """Whether nodes are few enough for spectral columns and networks."""
    return total_rows(graph.degrees) <= defaults.MAX_SPECTRAL_NODES


def _has_few_labels(problem: Problem, most: int) -> bool:
    """Whether labels are few enough to compare more than parts that use the graph."""
    return problem.n_labels <= most or problem.settings.selection == "thorough"


def _compares_trees(problem: Problem) -> bool:
    """Whether ways of growing trees are compared, too."""
    return (
        problem.settings.learner in SEARCHED_LEARNERS
        and not (problem.classes and problem.table.is_sparse)
        and _has_few_labels(problem, defaults.COMPARE_TREES_UP_TO)
    )


def requested_parts(problem: Problem) -> dict[str, object]:
    """The parts of the model that the user fixed, or "auto"."""
    settings = problem.settings
    known = problem.labels.labels
    labels = _label_use(problem)
    smoothing = settings.smoothing
    if isinstance(smoothing, Smoother):
        offset = None if problem.offset is None else problem.offset[known.nodes]
        scale = partial(problem.output.loss.label_scale, known.target, known.weight, offset)
        smoothing = smoothing.prepared(scale)
    graph = problem.graph
    has_groups = graph is not None and graph.groups is not None
    if isinstance(settings.spectral_features, SpectralFeatures):
        if has_groups:
            raise ValueError("spectral_features are not supported with groups: use None.")
        settings.spectral_features.check()
    is_causal = graph is not None and graph.time is not None
    smoothing = None if is_causal else smoothing
    parts: dict[str, object] = {"smoothing": smoothing, "labels": labels}
    is_fixed = "auto" not in (smoothing, labels)
    if not getattr(settings.feature_smoothing, "linear", True):
        raise ValueError(
            f"feature_smoothing must be linear, got {settings.feature_smoothing!r}: use "
            "eb.Laplacian(20.0, 5)."
        )
    for name in ("neighbor_features", "feature_smoothing", "spectral_features"):
        part = getattr(settings, name)
        parts[name] = None if is_fixed and isinstance(part, str) else part
    if graph is not None and is_causal:
        parts["feature_smoothing"] = None
        parts["spectral_features"] = None
        parts |= {} if graph.groups is None else {"neighbor_features": None}
    return parts


def _label_use(problem: Problem) -> LatentField | MaskedLabels | str | None:
    """The use of labels that the ``labels`` parameter names."""
    settings = problem.settings
    labels = settings.labels
    loss = problem.output.loss
    is_squared = type(loss) is SquaredError
    use: LatentField | MaskedLabels | None
    if isinstance(labels, (LatentField, MaskedLabels)):
        use = labels
    elif isinstance(labels, str) and labels == "field":
        use = default_field(problem)
    elif isinstance(labels, str) and labels in LABEL_USES:
        use = None if LABEL_USES[labels] is None else clone(LABEL_USES[labels])
    elif isinstance(labels, str) and labels == "auto":
        return "auto"
    else:
        raise ValueError(
            f"labels must be 'auto', one of {sorted(LABEL_USES)}, eb.LatentField(...) or "
            f"eb.MaskedLabels(...), got {labels!r}."
        )
    leave_one_out = isinstance(use, LatentField) and use.leave_one_out
    if (leave_one_out or isinstance(use, MaskedLabels)) and not is_squared:
        raise ValueError(
            f"labels={labels!r} needs loss='squared_error'; with {loss!r} use labels='field'."
        )
    if isinstance(use, MaskedLabels) and settings.penalty:
        raise ValueError("penalty must be 0 with labels='masked'.")
    return use
