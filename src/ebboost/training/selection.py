"""Model selection: candidates trained for some rounds and compared on the validation nodes.

Successive halving: after each stage the candidate with the least validation loss leads. A candidate
that uses the graph must beat the one that does not by a number of standard errors of the
difference, and by a share of the loss: without a signal in the graph, plain gradient boosting
remains.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from ebboost.boosting.callbacks import EarlyStopping, RoundInfo
from ebboost.boosting.iterate import Iterate
from ebboost.boosting.loop import Boosting
from ebboost.boosting.objective import Objective
from ebboost.data.labels import Labels
from ebboost.data.neighbor_correlation import neighbor_correlation, neighbor_means
from ebboost.data.pipeline import FeaturePipeline
from ebboost.data.table import Table
from ebboost.graph import Graph
from ebboost.learners import TreeGrower
from ebboost.model.candidate import Candidate
from ebboost.propagation import Propagation
from ebboost.training import defaults

Array = NDArray[np.float64]


def label_correlation(graph: Graph, labels: Labels) -> float:
    """Return the correlation of labels with the mean label of their labelled neighbours."""
    return neighbor_correlation(graph, labels.nodes, labels.target)


def relation_strengths(relations: Mapping[str, Graph], labels: Labels) -> dict[str, float]:
    """Return a strength for each relation, estimated from the labels.

    The coefficients of a regression of labels on the means over each relation's neighbours, all
    relations at once, so that a redundant one gets nothing. A coefficient within two standard
    errors of 0 is 0; a negative one stays negative. Each is divided by the relation's mean degree,
    as weights add up, and the largest becomes 1.
    """
    graphs = relations.values()
    means = [neighbor_means(graph, labels.nodes, labels.target)[0].ravel() for graph in graphs]
    columns = np.column_stack(means)
    own = (labels.target - labels.target.mean(axis=0)).ravel()
    unit = float(np.abs(columns).max(initial=0.0))
    if unit == 0.0:  # no label has a labelled neighbour, or all labels are the same
        return dict.fromkeys(relations, 1.0)
    columns = columns / unit  # squares stay in range, whatever the unit of the labels
    own = own / unit
    gram = columns.T @ columns
    gram += 1e-9 * np.trace(gram) * np.eye(len(relations))
    inverse = np.linalg.inv(gram)
    coefficients = inverse @ (columns.T @ own)
    noise = float(((own - columns @ coefficients) ** 2).sum()) / max(own.size - len(relations), 1)
    standard_errors = np.sqrt(noise * np.diag(inverse))
    coefficients[np.abs(coefficients) < 2.0 * standard_errors] = 0.0
    degrees = np.array([_mean_degree(graph) for graph in graphs])
    strengths = coefficients / np.where(degrees > 0, degrees, 1.0)
    largest = np.abs(strengths).max()
    if largest == 0.0:  # none is informative: whether to use the graph at all is decided elsewhere
        return dict.fromkeys(relations, 1.0)
    return {name: float(value / largest) for name, value in zip(relations, strengths, strict=True)}


def _mean_degree(graph: Graph) -> float:
    return float(graph.degrees.sum() / max(np.count_nonzero(graph.degrees), 1))


@dataclass(frozen=True)
class CandidateFeatures:
    """The columns that the trees of a candidate are grown on, binned."""

    candidate: Candidate
    pipeline: FeaturePipeline
    table: Table
    grower: TreeGrower


@dataclass(frozen=True)
class CandidateRun:
    """A candidate that is ready to train."""

    features: CandidateFeatures
    operator: Propagation
    objective: Objective
    boosting: Boosting


class CandidatePool:
    """The candidates' runs, built when first needed and freed when discarded.

    ``build`` makes a run from a candidate and the features of those before it, which it may share.
    """

    def __init__(
        self,
        pool: Sequence[Candidate],
        build: Callable[[Candidate, Sequence[CandidateFeatures]], CandidateRun],
    ) -> None:
        self._candidates = {candidate.name: candidate for candidate in pool}
        #: Names of the candidates; the first is the one to beat.
        self.names = list(self._candidates)
        self._build = build
        self._runs: dict[str, CandidateRun] = {}
        self._features: list[CandidateFeatures] = []

    def run(self, name: str) -> CandidateRun:
        """Return the run of a candidate."""
        if name not in self._runs:
            run = self._build(self._candidates[name], self._features)
            self._runs[name] = run
            self._features.append(run.features)
        return self._runs[name]

    def discard(self, name: str) -> None:
        """Free a candidate that cannot be selected any more."""
        self._runs.pop(name).features.grower.free()


@dataclass(frozen=True)
class SelectionResult:
    """The best candidate, the rounds it has run, and the validation loss of each candidate."""

    best: str
    rounds: Sequence[RoundInfo] = ()
    losses: Mapping[str, float] = field(default_factory=dict)


def successive_halving(
    pool: CandidatePool,
    stages: Sequence[int],
    interrupted: Callable[[], bool] = lambda: False,
    make_stopping: Callable[[], EarlyStopping] | None = None,
) -> SelectionResult:
    """Train the candidates for the rounds of each stage and compare them on the validation nodes.

    The first candidate is the one that the others must beat. Later stages are for candidates that
    start slower. Scores of all nodes in all rounds of all candidates may be several times the
    table: a candidate is built when its turn comes, and discarded as soon as it cannot be selected
    any more. Once ``interrupted`` returns True, candidates are compared after as many rounds as all
    of them have run. ``make_stopping`` returns the early stopping of the final training: models
    that it would not restore are dropped; it is None if other callbacks will see these rounds.
    """
    names = pool.names
    runs: dict[str, _Run] = {}
    losses: dict[str, float] = {}
    for stage, n_rounds in enumerate(stages):
        first_stage = n_rounds == stages[0]
        margin = defaults.FIRST_STANDARD_ERRORS if first_stage else defaults.LATER_STANDARD_ERRORS
        for index, name in enumerate(names):
            if name not in runs and not (runs and interrupted()):
                stopping = None if make_stopping is None else make_stopping()
                runs[name] = _Run(pool.run(name), stopping)
            if name in runs:
                runs[name].train(n_rounds, interrupted)
            if stage == len(stages) - 1 and not interrupted():
                losses |= _discard_behind(pool, runs, names[: index + 1], n_rounds, margin)
        in_play = [name for name, run in runs.items() if not run.discarded]
        shared = n_rounds
        if interrupted():
            in_play = [name for name in in_play if runs[name].rounds] or names[:1]
            shared = min(len(runs[name].rounds) for name in in_play)
        compared = {name: runs[name].best_losses(shared) for name in in_play}
        best, stage_losses = _best(compared, margin)
        losses |= stage_losses
        if best != names[0] or interrupted():
            break
    return SelectionResult(best, runs[best].rounds, losses)


def _discard_behind(
    pool: CandidatePool, runs: dict[str, "_Run"], names: list[str], n_rounds: int, margin: float
) -> dict[str, float]:
    """Discard the candidates behind the leader of the last stage; return their losses."""
    leader, losses = _best({name: runs[name].best_losses(n_rounds) for name in names}, margin)
    for name in names:
        if name != leader and not runs[name].discarded:
            runs[name].discard()
            pool.discard(name)
    return losses


class _Run:
    """The rounds of a candidate, and after each the validation losses of the best model."""

    def __init__(self, run: CandidateRun, stopping: EarlyStopping | None) -> None:
        self.rounds: list[RoundInfo] = []
        self.discarded = False
        self._run: CandidateRun | None = run
        self._stopping = stopping
        self._losses: list[Array] = []
        self._least = np.inf
        self._stopped = False
        if stopping is not None:
            stopping.before_training(0)

    def train(self, n_rounds: int, interrupted: Callable[[], bool]) -> None:
        """Run rounds until there are ``n_rounds``, and drop what was cached at the last."""
        while len(self.rounds) < n_rounds and not interrupted() and self._train_round():
            pass
        for info in self.rounds[-1:]:
            info.model.cache.clear()

    def discard(self) -> None:
        """Drop everything but the losses of the best model."""
        self._losses = [self.best_losses(len(self._losses))]
        self.discarded = True
        self.rounds = []
        self._run = None
        self._stopping = None

    def _train_round(self) -> bool:
        assert self._run is not None
        info = next(self._run.boosting, None)
        if info is None:
            return False
        value = self._run.objective.validation_value(info.model) or 0.0
        if value < self._least or not self._losses:
            self._least = value
            self._losses.append(_node_losses(self._run.objective, info.model))
        else:
            self._losses.append(self._losses[-1])
        self.rounds.append(info)
        if self._stopping is not None:
            self._stopped = self._stopped or self._stopping.after_round(info)
            best = self._stopping.after_training(info.model)
            self.rounds = [
                past if past is info or past.model is best else _without_scores(past)
                for past in self.rounds
            ]
        return True

    def best_losses(self, n_rounds: int) -> Array:
        """Return the losses at the validation nodes in the best of the first rounds."""
        losses = self._losses[:n_rounds]
        if losses:
            return losses[-1]
        assert self._run is not None
        return _node_losses(self._run.objective, self._run.objective.start())


def _node_losses(objective: Objective, model: Iterate) -> Array:
    validation = objective.validation
    assert validation is not None
    share = validation.weight / validation.weight.mean()
    predictions = objective.predict(model)[validation.nodes]
    losses: Array = share * objective.loss.value(predictions, validation.target)
    return losses


def _without_scores(info: RoundInfo) -> RoundInfo:
    empty = np.zeros((0, 1))
    return replace(info, model=Iterate(empty, empty, info.model.weights))


def _best(losses: Mapping[str, Array], n_standard_errors: float) -> tuple[str, dict[str, float]]:
    """The candidate of least loss, the first unless it is beaten clearly; and the mean losses."""
    means = {name: float(loss.mean()) for name, loss in losses.items()}
    first = next(iter(losses))
    for name in sorted(means, key=lambda name: means[name]):
        gain = losses[first] - losses[name]
        standard_error = gain.std() / np.sqrt(gain.size)
        margin = max(n_standard_errors * standard_error, defaults.MIN_GAIN * means[first])
        if name == first or gain.mean() > margin:
            break
    return name, means
