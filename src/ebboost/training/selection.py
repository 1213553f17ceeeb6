"""``"auto"``: a few ways of using the graph, the way of not using it among them, and a short race between them.

Each entrant is trained for some rounds; the one with the least loss on the validation nodes goes on, and the others
are dropped. An entrant that uses the graph must beat the one that does not by more than a standard error of the
difference, and by half a percent: where the graph carries no signal, what remains is plain boosting. A classifier that
would drop the graph lets both run on before it does, as trees that see more columns start slower.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebboost.boosting.callbacks import EarlyStopping, RoundInfo
from ebboost.boosting.iterate import Iterate
from ebboost.boosting.latent_field import LatentField
from ebboost.boosting.loop import Boosting
from ebboost.boosting.masked_labels import MaskedLabels
from ebboost.boosting.objective import Objective
from ebboost.data.features import NeighborFeatures
from ebboost.data.labels import Labels
from ebboost.data.low_rank import LowRank
from ebboost.data.pipeline import FeaturePipeline
from ebboost.data.table import Table
from ebboost.graph import Graph
from ebboost.learners import Learner, LightGBM, as_learner
from ebboost.propagation import Laplacian, Smoother

SMALL = 5_000
# Correlation of labels with the mean of their neighbours' labels: below the first, smoothing is not tried; below the
# second, other ways are.
LEAST_ALIKE = 0.1
LEAST_GAIN = 0.005
DIRECTIONS = 128
# Scores that a race may keep: a gigabyte for two entrants.
MOST_SCORES = 30_000_000
ALIKE = 0.3


@dataclass(frozen=True)
class Candidate:
    """One way of using the graph, or of leaving it alone."""

    name: str
    smoothing: Smoother | None = None
    labels: LatentField | MaskedLabels | None = None
    neighbor_features: NeighborFeatures | None = None
    feature_smoothing: Smoother | None = None
    low_rank: int = 0

    @property
    def uses_graph(self) -> bool:
        """Whether anything here needs the graph."""
        parts = (self.smoothing, self.labels, self.neighbor_features, self.feature_smoothing)
        return any(part is not None for part in parts)

    def prepares_like(self, other: "Candidate") -> bool:
        """Whether trees see the same columns, and grow by the same settings, under both."""
        return self._for_trees == other._for_trees

    @property
    def _for_trees(self) -> tuple[Any, ...]:
        made = repr((self.neighbor_features, self.feature_smoothing))
        return (made, self.low_rank, isinstance(self.labels, MaskedLabels), self.uses_graph)

    def preparation(self) -> FeaturePipeline:
        """What this choice does to the table."""
        return FeaturePipeline(
            self.neighbor_features,
            self.feature_smoothing,
            LowRank(self.low_rank) if self.low_rank else None,
            smooths_encodings=isinstance(self.labels, MaskedLabels),
        )


def choices(
    asked: Mapping[str, Any], graph: Graph | None, target: Labels, classes: bool, table: Table
) -> list[Candidate]:
    """Return the entrants; parameters that the user fixed are the same in all of them.

    Parameters
    ----------
    asked : mapping
        The parameters ``smoothing``, ``labels``, ``neighbor_features`` and ``feature_smoothing`` as given.
    """
    fixed = {name: value for name, value in asked.items() if not _is_auto(value)}
    if graph is None:
        return [Candidate("none")]
    given = Candidate(
        "as given" if any(part is not None for part in fixed.values()) else "none", **fixed
    )
    if graph.n_edges == 0 or (
        "smoothing" in fixed and "labels" in fixed
    ):  # nothing essential is left open: no race
        return [given]
    parts: dict[str, Any] = {
        "labels": LatentField(),
        "smoothing": Laplacian(2.0, 5) if classes else Laplacian(1.0, 2),
    }
    extra: dict[str, Any] = {}
    if table.on_disk:
        pass  # columns made from neighbours need the table in memory
    elif not table.is_sparse:
        parts |= {"neighbor_features": NeighborFeatures(), "feature_smoothing": Laplacian(20.0, 5)}
    elif classes:
        if table.values.shape[1] > 2 * DIRECTIONS and not any(
            map(fixed.get, ("neighbor_features", "feature_smoothing"))
        ):
            extra = {"low_rank": DIRECTIONS}
    else:
        parts |= {"neighbor_features": NeighborFeatures(["mean"])}
    entrants = [given]
    alike = label_correlation(graph, target)
    if alike >= LEAST_ALIKE or classes:
        entrants.append(Candidate("graph", **parts | fixed, **extra))
    if alike < ALIKE and not classes:
        # Neighbours differ: their columns may still be informative.
        parts |= {"smoothing": None, "labels": None}
        if not table.on_disk:
            entrants.append(Candidate("features", **parts | fixed, **extra))
    return entrants


def _is_auto(value: Any) -> bool:
    return isinstance(value, str) and value == "auto"


def label_correlation(graph: Graph, labels: Labels) -> float:
    """Correlation between a node's label and the mean label of its labelled neighbours."""
    mean, tied = _mean_of_neighbours(graph, labels)
    if tied.sum() < 10:
        return 0.0
    own, mean = (labels.target - labels.target.mean(axis=0))[tied], mean[tied]
    spread = float(np.sqrt((own**2).sum() * (mean**2).sum()))
    return float((own * mean).sum()) / spread if spread > 0 else 0.0


def _mean_of_neighbours(
    graph: Graph, labels: Labels
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """The mean centred label of each labelled node's labelled neighbours, 0 where there are none; and where there are."""
    known, values = np.zeros((graph.n_nodes, 1)), np.zeros((graph.n_nodes, labels.target.shape[1]))
    known[labels.nodes] = 1.0
    values[labels.nodes] = labels.target - labels.target.mean(axis=0)
    mass = (graph.unsigned.adjacency @ known)[labels.nodes]
    around = (graph.adjacency @ values)[labels.nodes]
    return np.divide(around, mass, out=np.zeros_like(around), where=mass > 0), mass[:, 0] > 0


def relation_strengths(relations: Mapping[str, Graph], labels: Labels) -> dict[str, float]:
    """Return a strength for each relation, read off the labels: how well its neighbours tell a node's label.

    The coefficients of a regression of labels on the means over each relation's neighbours, all relations at once, so
    that one that only repeats another gets nothing. A coefficient within two standard errors of 0 is 0; a negative one
    stays negative. Each is divided by the relation's mean degree, as weights add up, and the largest becomes 1.
    """
    means = [_mean_of_neighbours(graph, labels)[0].ravel() for graph in relations.values()]
    columns, own = np.column_stack(means), (labels.target - labels.target.mean(axis=0)).ravel()
    unit = float(np.abs(columns).max(initial=0.0))
    if unit == 0.0:  # no label has a labelled neighbour, or all are the same: nothing to read
        return dict.fromkeys(relations, 1.0)
    columns, own = columns / unit, own / unit  # squares of labels in any unit are numbers
    gram = columns.T @ columns
    gram += 1e-9 * np.trace(gram) * np.eye(len(relations))
    inverse = np.linalg.inv(gram)
    slope = inverse @ (columns.T @ own)
    noise = float(((own - columns @ slope) ** 2).sum()) / max(own.size - len(relations), 1)
    slope[np.abs(slope) < 2.0 * np.sqrt(noise * np.diag(inverse))] = 0.0
    degree = np.array(
        [
            graph.degrees.sum() / max(np.count_nonzero(graph.degrees), 1)
            for graph in relations.values()
        ]
    )
    strength = slope / np.where(degree > 0, degree, 1.0)
    largest = np.abs(strength).max()
    if largest == 0.0:  # none says anything: whether to use the graph at all is decided elsewhere
        return dict.fromkeys(relations, 1.0)
    return {name: float(value / largest) for name, value in zip(relations, strength, strict=True)}


def sized_learner(learner: Any, n_labelled: int, choice: Candidate, classes: bool) -> Learner:
    """Turn the ``learner`` parameter into a learner; the plain name "lightgbm" gets settings that suit the size."""
    if not (isinstance(learner, str) and learner == "lightgbm"):
        return as_learner(learner)
    small = classes or n_labelled < SMALL
    columns = 1.0 if not choice.uses_graph else 0.3 if classes else 0.5
    params = {"min_sum_hessian_in_leaf": 1.0 if classes else 5.0 if small else 20.0}
    if not small:  # ten thousand rows tell where the bins end
        params["bin_construct_sample_cnt"] = 10_000
    return LightGBM(
        15 if small else 31,
        min_child_samples=10 if small else 20,
        reg_lambda=5.0 if small else 20.0,
        colsample_bytree=columns,
        max_bin=127 if small or choice.uses_graph else 255,
        params=params,
    )


def sized_rate(classes: bool, n_labelled: int, is_sparse: bool) -> float:
    """The learning rate that suits the size."""
    return 0.3 if classes else 0.05 if n_labelled < SMALL and not is_sparse else 0.1


def sized_stages(classes: bool, n_labelled: int, n_scores: int) -> list[int]:
    """After how many rounds the race is looked at; every round of every entrant keeps its scores, so not too many."""
    stages = [5, 25, 60] if classes else [30] if n_labelled < SMALL else [10]
    return [rounds for rounds in stages if rounds == stages[0] or rounds * n_scores <= MOST_SCORES]


def sized_stopping(classes: bool, n_labelled: int) -> EarlyStopping:
    """Early stopping that suits the learning rate; with many labels, negligible gains end it too."""
    if classes:
        return EarlyStopping(10)
    return EarlyStopping(30) if n_labelled < SMALL else EarlyStopping(15, min_improvement=0.01)


def race(
    entrants: Mapping[str, tuple[Objective, Boosting]],
    stages: Sequence[int],
    stop: Callable[[], bool] = lambda: False,
    stopping: Callable[[], EarlyStopping] | None = None,
    lost: Callable[[str], None] = lambda name: None,
) -> tuple[str, list[RoundInfo], dict[str, float]]:
    """Return the winner's name, the rounds it has run, and the validation loss that each entrant reached.

    The first entrant is the one that the others must beat, after as many rounds as one of the ``stages`` says: who is
    behind after a few may lead after more, as trees that see more columns start slower. Once ``stop`` says so, the race ends
    with the round, and those that are still in it are compared after as many rounds as all of them have run.

    What is held at a time is little, as scores of all nodes in all rounds of all entrants may be several times the table: an
    entrant is looked up when its turn comes, and ``lost`` is told its name as soon as it cannot win any more. Where the
    rounds will be shown to no other callback than what ``stopping`` makes, only models that it would keep are kept.
    """
    names, runs, reached = list(entrants), dict[str, _Run](), dict[str, float]()
    for stage, n_rounds in enumerate(stages):
        clearly = (
            1.0 if n_rounds == stages[0] else 0.5
        )  # the longer they ran, the less is left to chance
        for place, name in enumerate(names):
            if name not in runs and not (runs and stop()):
                runs[name] = _Run(*entrants[name], None if stopping is None else stopping())
            if name in runs:
                runs[name].go_on(n_rounds, stop)
            if stage == len(stages) - 1 and not stop():
                so_far = {other: runs[other] for other in names[: place + 1]}
                ahead, told = _winner(
                    {other: run.least_errors(n_rounds) for other, run in so_far.items()}, clearly
                )
                reached |= told
                for other, run in so_far.items():
                    if other != ahead and not run.retired:
                        run.retire()
                        lost(other)
        standing = {
            name: run for name, run in runs.items() if not run.retired and (run.done or not stop())
        }
        standing = standing or {names[0]: runs[names[0]]}
        shared = min(len(run.done) for run in standing.values()) if stop() else n_rounds
        winner, told = _winner(
            {name: run.least_errors(shared) for name, run in standing.items()}, clearly
        )
        reached |= told
        if winner != names[0] or stop():
            break
    return winner, runs[winner].done, reached


class _Run:
    """The rounds of one entrant, and after each the losses at the validation nodes of the best model so far."""

    def __init__(
        self, objective: Objective, boosting: Boosting, stopping: EarlyStopping | None
    ) -> None:
        self.done: list[RoundInfo] = []
        self.retired = False
        self._objective: Any = objective
        self._boosting: Any = boosting
        self._stopping = stopping
        self._errors: list[NDArray[np.float64]] = []
        self._least, self._stopped = np.inf, False
        if stopping is not None:
            stopping.before_training(0)

    def go_on(self, n_rounds: int, stop: Callable[[], bool]) -> None:
        """Run rounds until there are so many, and free what was computed at the last, while others run."""
        while len(self.done) < n_rounds and not stop() and self._goes_on():
            pass
        for progress in self.done[-1:]:
            progress.model.cache.clear()

    def retire(self) -> None:
        """Keep the losses of the best model alone."""
        self._errors, self.retired = [self.least_errors(len(self._errors))], True
        self.done, self._objective, self._boosting, self._stopping = [], None, None, None

    def _goes_on(self) -> bool:
        progress = next(self._boosting, None)
        if progress is None:
            return False
        reached = self._objective.validation_value(progress.model) or 0.0
        if reached < self._least or not self._errors:
            self._least = reached
            self._errors.append(self._losses(progress.model))
        else:
            self._errors.append(self._errors[-1])
        self.done.append(progress)
        if self._stopping is not None:
            self._stopped = self._stopped or self._stopping.after_round(progress)
            best = self._stopping.after_training(progress.model)
            self.done = [
                past if past is progress or past.model is best else _outline(past)
                for past in self.done
            ]
        return True

    def least_errors(self, first: int) -> NDArray[np.float64]:
        """The losses at the validation nodes in the best of the first rounds."""
        errors = self._errors[:first]
        return errors[-1] if errors else self._losses(self._objective.start())

    def _losses(self, model: Iterate) -> NDArray[np.float64]:
        objective, held = self._objective, self._objective.validation
        assert held is not None
        share = held.weight / held.weight.mean()
        errors: NDArray[np.float64] = share * objective.loss.value(
            objective.predict(model)[held.nodes], held.target
        )
        return errors


def _outline(progress: RoundInfo) -> RoundInfo:
    """A round without the scores of its model."""
    nothing = np.zeros((0, 1))
    return replace(progress, model=Iterate(nothing, nothing, progress.model.weights))


def _winner(
    errors: Mapping[str, NDArray[np.float64]], clearly: float
) -> tuple[str, dict[str, float]]:
    """The entrant with the least loss, the first unless beaten by so many standard errors; and what each has reached."""
    reached = {name: float(error.mean()) for name, error in errors.items()}
    first = next(iter(errors))
    for name in sorted(reached, key=lambda name: reached[name]):
        gain = errors[first] - errors[name]
        if name == first or gain.mean() > max(
            clearly * gain.std() / np.sqrt(gain.size), LEAST_GAIN * reached[first]
        ):
            break
    return name, reached
