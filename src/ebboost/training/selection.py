"""Model selection: which parts of the model use the graph, by losses at held-out labels.

A search adds one part after another to plain boosting, or removes one, and keeps what lowers the
loss. Every candidate is trained to its end, on all labels but those of a fold, and compared at the
labels of that fold and of ``eval_set``, node by node. A part is added if the gain exceeds a share
of its standard error, the first part that uses the graph only beyond one. Candidates are compared
at a higher learning rate than the selected one is trained with in the end.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from ebboost.boosting.field_estimation import estimate_field
from ebboost.boosting.latent_field import MIN_TAU, LatentField
from ebboost.data.sharded import average, standard_error, total_rows
from ebboost.model.candidate import Candidate
from ebboost.training import defaults
from ebboost.training.coordinate_graph import choose_graph
from ebboost.training.default_field import default_field
from ebboost.training.evaluation import compared_losses
from ebboost.training.fold_model import FoldModel, out_of_fold, positions_of_unseen, unseen_labels
from ebboost.training.parts import TREE_PARTS, Parts, named
from ebboost.training.problem import FORECAST, Problem
from ebboost.training.runs import Runner

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Comparison:
    """Mean decrease of the loss from one candidate to another, and its standard error."""

    gain: float
    standard_error: float

    @property
    def in_errors(self) -> float:
        """The gain in standard errors."""
        return self.gain / self.standard_error if self.standard_error > 0 else np.inf * self.gain


def compare(
    problem: Problem, one: Mapping[int, FoldModel], other: Mapping[int, FoldModel]
) -> Comparison:
    """Compare two candidates node by node on the folds that both were trained for.

    Losses at labels of ``eval_set`` count like those at held-out labels, or alone where the two
    contradict each other by more than three standard errors: ``eval_set`` is what the user wants to
    predict.
    """
    folds = [fold for fold in one if fold in other]
    parts = []
    if problem.labels.has_held_out(folds[0]):
        pairs = [held_out_losses(problem, models, folds) for models in (one, other)]
        parts.append(pairs[0] - pairs[1])
    if problem.labels.evaluation is not None:
        pairs = [evaluation_losses(problem, models, folds) for models in (one, other)]
        parts.append(pairs[0] - pairs[1])
    if len(parts) == 2:
        errors = [standard_error(part) for part in parts]
        error = np.hypot(errors[0], errors[1])
        if abs(parts[0].mean() - parts[1].mean()) > defaults.CONTRADICTION * error:
            parts = parts[1:]
    gains = np.concatenate(parts)
    return Comparison(float(gains.mean()), standard_error(gains))


def losses_of(problem: Problem, models: Mapping[int, FoldModel], folds: Sequence[int]) -> Array:
    """Return the losses at all labels that the models of these folds were not trained on."""
    losses = []
    if problem.labels.has_held_out(folds[0]):
        losses.append(held_out_losses(problem, models, folds))
    if problem.labels.evaluation is not None:
        losses.append(evaluation_losses(problem, models, folds))
    return np.concatenate(losses)


def held_out_losses(
    problem: Problem, models: Mapping[int, FoldModel], folds: Sequence[int]
) -> Array:
    """Return the losses at the held-out labels of these folds."""
    labels, predictions = out_of_fold(problem, {fold: models[fold] for fold in folds}, "held_out")
    return compared_losses(problem, labels, predictions)


def evaluation_losses(
    problem: Problem, models: Mapping[int, FoldModel], folds: Sequence[int]
) -> Array:
    """Return the losses at the labels of ``eval_set``, mean over the models of these folds."""
    labels = problem.labels.evaluation
    assert labels is not None
    losses = [compared_losses(problem, labels, models[fold].evaluation) for fold in folds]
    return average(losses)


@dataclass
class Search:
    """A greedy search over the parts of the model."""

    problem: Problem
    runner: Runner
    parts: Parts
    tried: dict[str, Candidate] = field(default_factory=dict)
    averaged: list[Candidate] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.comparing = self.runner.comparing() if self.parts.steps else self.runner
        self._final: set[str] = set()
        self._estimates: dict[tuple[str, int], LatentField | None] = {}
        self._keeps_strengths = False
        #: Plain boosting with the trees of the selected candidate, if that was possible.
        self.plain: Candidate | None = None

    @property
    def selected(self) -> Candidate:
        """The best candidate."""
        return self.averaged[0]

    def run(self) -> None:
        """Select the candidates to average, and train the models of all of their folds."""
        current = self.parts.plain
        self._train(current, range(self._n_folds(defaults.ENOUGH_IF_CLEAR)))
        current = self._improved(current, self.parts.steps)
        network = self._network(current)
        if network is not None and self._is_clearly_better(network, current):
            current = network
        self._train_finally(current, range(self.problem.labels.n_folds))
        if not self.parts.plain.uses_graph:  # the gain of the graph is measured against it
            self.plain = self._trained_plain(current)
        self.averaged = [*self._averaged(current), *self.parts.others]
        for candidate in self.averaged[1:]:
            self._train(candidate, range(self.problem.labels.n_folds))
        if self.problem.labels.in_time:
            self._train_on_all_labels()

    def _trained_plain(self, selected: Candidate) -> Candidate:
        """Plain boosting with the trees or networks of a candidate, or with the default's trees."""
        default = self.parts.plain
        names = [*TREE_PARTS, "network"]
        if selected.network:
            names.append("low_rank")  # of sparse tables, which networks cannot read
        learner = {name: getattr(selected, name) for name in names}
        plain = named(replace(default, **learner))
        if self.problem.n_labels > defaults.MOST_LABELS_FROM:
            return plain if self.models(plain) else default
        folds = range(len(self.compared(default)))
        self.tried.setdefault(plain.name, plain)
        if plain.network:  # smooth functions may take very many rounds without the graph
            self.comparing.train(plain, folds, self.models(default))
            if not self.models(plain) or self._loss(plain) > self._loss(default):
                plain = default
        self._train_finally(plain, folds)
        return plain if self.models(plain) else default

    def _improved(self, current: Candidate, steps: Sequence[tuple[str, ...]]) -> Candidate:
        """The best candidate after steps that each change some parts."""
        for step in steps:
            if self.runner.interrupt.is_set:
                break
            candidate = self._changed(current, step)
            is_skipped = not current.uses_graph and set(step) <= set(TREE_PARTS)
            if is_skipped or candidate.name in self.tried:
                continue
            if self._is_better(candidate, current):
                current, candidate = candidate, current
            if not self._can_be_averaged(candidate):
                self.comparing.discard(candidate)
        return current

    def _network(self, trees: Candidate) -> Candidate | None:
        """The best network with the field of a candidate of trees, if networks are offered.

        Where candidates are compared on some of many folds, only one that is better than trees.
        """
        steps = self.parts.network_steps
        has_field = isinstance(trees.labels, LatentField | None)
        is_interrupted = self.runner.interrupt.is_set
        if steps is None or not has_field or is_interrupted:
            return None
        network = named(replace(self.parts.plain, labels=trees.labels, network=True))
        if self.problem.table.is_sparse:
            network = replace(trees, low_rank=self.parts.n_vectors, network=True)
            network = named(replace(network, smaller_trees=None, random_splits=None))
        is_many = self.problem.n_labels > defaults.AVERAGE_WORSE_UP_TO
        if is_many or not self._can_be_averaged(trees):
            self._is_better(network, trees)
            if not self._can_be_averaged(trees):
                return network if self._is_clearly_better(network, trees) else None
            if self._is_clearly_better(trees, network):
                return None
            # Columns that did not help the trees are not tried again, to save time.
            columns = ("neighbor_features", "spectral_features")
            left_out = {(name,) for name in columns if not getattr(trees, name)}
            steps = tuple(step for step in steps if step not in left_out)
        else:
            self._train(network, range(self._n_folds()))
        return self._improved(network, steps)

    def _compared(self, one: Candidate, other: Candidate) -> Comparison:
        """Gain from one candidate to another, both trained."""
        return compare(self.problem, self.models(one), self.models(other))

    def _is_clearly_better(self, candidate: Candidate, current: Candidate) -> bool:
        """Whether a candidate that is trained is better by more than chance."""
        return self._compared(current, candidate).in_errors > defaults.CLEAR

    def with_chosen_graph(self) -> Problem:
        """Return the problem with the graph of its coordinates that predicts labels best.

        Graphs are compared where plain boosting is a candidate, by its scores out of fold.
        """
        plain = self.parts.plain
        is_compared = bool(self.parts.steps) and not plain.uses_graph
        if self.problem.coordinates is None or not is_compared:
            return self.problem
        self._train(plain, range(self._n_folds(defaults.ENOUGH_IF_CLEAR)))
        labels, scores = unseen_labels(self.problem, self.models(plain), "held_out_scores")
        n_labels = total_rows(labels.target)
        if self.runner.interrupt.is_set or n_labels < defaults.MIN_LABELS_FOR_FOLDS:
            return self.problem
        return choose_graph(self.problem, labels, scores)

    def repeat(self, number: int) -> "Search":
        """Return the same search with other folds and another seed."""
        labels = self.problem.labels
        seed = self.problem.seed + number * labels.n_folds
        labels = labels.with_other_folds(seed, self.problem.classes)
        problem = replace(self.problem, labels=labels, seed=seed)
        runner = replace(self.runner, problem=problem, prefix=f"search {number + 1}: ")
        search = Search(problem, runner, self.parts)
        search.run()
        return search

    def _train_on_all_labels(self) -> None:
        """Train the models of the selected candidates again, for as many rounds, on all labels."""
        n_folds = self.problem.labels.n_folds
        numbers = [*range(n_folds, n_folds - (-n_folds // len(self.averaged)))]
        if self.problem.labels.later is not None:
            numbers.insert(0, FORECAST)
        for candidate in self.averaged:
            n_rounds = np.mean([model.n_rounds for model in self.models(candidate).values()])
            runner = self._runner_of(candidate)
            runner.train_on_all(candidate, numbers, max(round(n_rounds), 1))

    def final_models(self, candidate: Candidate) -> list[FoldModel]:
        """Return the models whose scores are averaged: of all folds, or trained on all labels."""
        models = self._runner_of(candidate).models_of(candidate)
        n_folds = self.problem.labels.n_folds
        on_all = [model for number, model in models.items() if number >= n_folds]
        return on_all or list(self.models(candidate).values())

    def forecasts(self) -> list[FoldModel]:
        """Return the models of the selected candidates that forecast later labels, if any."""
        models = [self._runner_of(one).models_of(one) for one in self.averaged]
        return [one[FORECAST] for one in models if FORECAST in one]

    def _can_be_averaged(self, candidate: Candidate) -> bool:
        """Whether a candidate has enough models to compare, and few enough scores to store."""
        models = self.models(candidate)
        scores = next(iter(models.values())).scores
        n_scores = len(self.runner.models) * total_rows(scores) * scores.shape[1]
        n_folds = self.problem.labels.n_folds
        has_enough = n_folds > 1 and len(models) >= self._n_folds(defaults.ENOUGH_IF_CLEAR)
        # One that was compared on some of many folds would cost more models than it is worth.
        is_cheap = self._n_folds() == n_folds
        return has_enough and is_cheap and n_scores <= defaults.MAX_STORED_SCORES

    def _averaged(self, selected: Candidate) -> list[Candidate]:
        """The selected candidate, and others as long as averaging them in lowers the loss."""
        averaged = [selected]
        if not selected.uses_graph or not self._can_be_averaged(selected):
            return averaged
        others = [one for one in self.tried.values() if one.uses_graph and one != selected]
        others = [one for one in others if self._can_be_averaged(one)]
        least = self._average_loss(averaged)
        while others and len(averaged) < defaults.MAX_AVERAGED:
            losses = [self._average_loss([*averaged, one]) for one in others]
            if min(losses) > (1.0 - defaults.MIN_GAIN) * least:
                break
            least = min(losses)
            averaged.append(others.pop(losses.index(least)))
        return averaged

    def _average_loss(self, candidates: Sequence[Candidate]) -> float:
        """Loss of the mean prediction of candidates at the folds that all were trained for."""
        mean = self.mean_models(candidates)
        return float(losses_of(self.problem, mean, list(mean)).mean())

    def mean_models(self, candidates: Sequence[Candidate]) -> dict[int, FoldModel]:
        """Return models with the mean prediction of candidates, by fold."""
        models = [self.models(one) for one in candidates]
        n_folds = min(map(len, models))
        return {
            fold: replace(
                model,
                held_out=average([one[fold].held_out for one in models]),
                evaluation=average([one[fold].evaluation for one in models]),
            )
            for fold, model in list(models[0].items())[:n_folds]
        }

    def models(self, candidate: Candidate) -> dict[int, FoldModel]:
        """Return the models of a candidate by fold, those with the final learning rate if any."""
        models = self._runner_of(candidate).models_of(candidate)
        return {fold: models[fold] for fold in range(self.problem.labels.n_folds) if fold in models}

    def compared(self, candidate: Candidate) -> dict[int, FoldModel]:
        """Return the models by which a candidate was compared, by fold."""
        models = self.comparing.models_of(candidate)
        return {fold: model for fold, model in models.items() if fold in range(self._n_folds())}

    def _runner_of(self, candidate: Candidate) -> Runner:
        return self.runner if candidate.name in self._final else self.comparing

    def _n_folds(self, n_enough: int = defaults.ENOUGH_HELD_OUT) -> int:
        """Number of folds that hold enough labels."""
        labels = self.problem.labels
        n_held_out = max(int((labels.fold == 0).sum()), 1)
        if labels.in_time:
            return labels.n_folds
        return int(np.clip(np.ceil(n_enough / n_held_out), 1, labels.n_folds))

    def _train(self, candidate: Candidate, folds: range) -> None:
        self.tried[candidate.name] = candidate
        self.comparing.train(candidate, folds)

    def _train_finally(self, candidate: Candidate, folds: range) -> None:
        """Train a candidate with the final learning rate, if the fit is not interrupted."""
        if candidate.network:  # there is no other learning rate
            self.comparing.train(candidate, folds)
            return
        if self.comparing is self.runner or not self.runner.interrupt.is_set:
            self.runner.train(candidate, folds)
        if self.comparing is not self.runner and not self.runner.interrupt.is_set:
            self._final.add(candidate.name)
            self.comparing.discard(candidate)

    def _is_better(self, candidate: Candidate, current: Candidate) -> bool:
        """Train a candidate and compare it with the current one, on as few folds as are clear."""
        results: list[Comparison] = []
        n_enough = self._n_folds(defaults.ENOUGH_IF_CLEAR)

        def goes_on(fold: int) -> bool:
            models = {one: model for one, model in self.models(candidate).items() if one <= fold}
            results.append(compare(self.problem, self.models(current), models))
            errors = results[-1].in_errors
            is_better = fold + 1 >= n_enough and errors > defaults.CLEAR
            return not is_better and errors >= -defaults.CLEAR

        self.tried[candidate.name] = candidate
        n_common = len(self.models(current))
        n_folds = self._n_folds()
        self.comparing.train(candidate, range(n_common), self.models(current), goes_on)
        if (
            n_common < n_folds
            and len(results) == n_common
            and abs(results[-1].in_errors) < defaults.CLEAR
        ):
            self._train(current, range(n_folds))
            others = range(n_common, n_folds)
            self.comparing.train(candidate, others, self.models(current), goes_on)
        result = results[-1]
        margin = defaults.STANDARD_ERRORS * result.standard_error
        if not current.uses_graph:
            margin = defaults.GRAPH_STANDARD_ERRORS * result.standard_error
        if candidate.n_parts < current.n_parts:
            return result.gain >= -margin
        if candidate.n_parts == current.n_parts:
            return result.gain > 0.0
        return result.gain > max(margin, defaults.MIN_GAIN * abs(self._loss(current)))

    def _loss(self, candidate: Candidate) -> float:
        models = self.models(candidate)
        return float(losses_of(self.problem, models, list(models)).mean())

    def _changed(self, current: Candidate, step: tuple[str, ...]) -> Candidate:
        """The current candidate with parts added, or removed if it has them."""
        changes: dict[str, object] = {}
        for part in step:
            value: object = self.parts.optional.get(part)
            if part == "default_field":
                part = "labels"
                value = current.labels or self.parts.optional["labels"]
            elif part == "field":
                part = "labels"
                value = current.labels or self._estimated(current)
            elif part == "strengths":
                part = "labels"
                value = current.labels
                if isinstance(value, LatentField):
                    value = self._estimated(current, value)
            elif part == "similarity":
                part = "labels"
                value = current.labels
                if not self._keeps_strengths:
                    value = field_over_similar_nodes(self.problem, self.models(current)) or value
            elif getattr(current, part):
                value = 0 if part == "low_rank" else None
            elif part == "labels":
                value = self._estimated(current)
            changes[part] = value
        return named(replace(current, **changes))  # type: ignore[arg-type]

    def _estimated(
        self, current: Candidate, start: LatentField | None = None
    ) -> LatentField | None:
        """The field that predicts labels best from the candidate's scores out of fold, if any."""
        if start is not None and self._keeps_strengths:
            return start
        models = self.models(current)
        key = (current.name, len(models))
        if key not in self._estimates:
            self._estimates[key] = self._estimate(models, start)
        return self._estimates[key]

    def _estimate(
        self, models: Mapping[int, FoldModel], start: LatentField | None
    ) -> LatentField | None:
        problem = self.problem
        assert problem.graph is not None
        labels, scores = unseen_labels(problem, models, "held_out_scores")
        if total_rows(labels.target) < defaults.MIN_LABELS_FOR_FOLDS:
            return start or default_field(problem)
        arguments = (problem.graph, labels, scores, problem.output.loss)
        positions = positions_of_unseen(problem, models)
        estimate = estimate_field(*arguments, seed=problem.seed, start=start, positions=positions)
        field = estimate.field
        if field is None and problem.n_labels > defaults.MOST_LABELS_FROM:
            # A share of the labels is too few to rule it out, and to estimate its strengths again.
            self._keeps_strengths = True
            return start or default_field(problem)
        if field is None or field.tau < MIN_TAU:
            return start
        return _rounded(field)


def field_over_similar_nodes(
    problem: Problem, models: Mapping[int, FoldModel]
) -> LatentField | None:
    """Return the field over nodes with similar neighbours, if it predicts labels best.

    It is estimated only where labels of neighbours say little.
    """
    graph = problem.graph
    labels, scores = unseen_labels(problem, models, "held_out_scores")
    if graph is None or total_rows(labels.target) < defaults.MIN_LABELS_FOR_FOLDS:
        return None
    arguments = (graph, labels, scores, problem.output.loss)
    of_neighbors = estimate_field(*arguments, seed=problem.seed)
    least = (1.0 - defaults.MAX_GAIN_OF_NEIGHBORS) * of_neighbors.deviance_without
    if of_neighbors.deviance < least:
        return None
    try:
        graph.similar_neighborhoods()
    except ValueError:  # hubs: all pairs of nodes that share one are too many
        return None
    estimate = estimate_field(*arguments, seed=problem.seed, similarity=True)
    field = estimate.field
    is_better = estimate.deviance < (1.0 - defaults.MIN_GAIN) * of_neighbors.deviance
    return None if field is None or not is_better else _rounded(field)


def _rounded(field: LatentField) -> LatentField:
    """A field with strengths of two digits."""
    return replace(field, lam=float(f"{field.lam:.2g}"), tau=float(f"{field.tau:.2g}"))


def selection_row(
    problem: Problem, candidate: Candidate, models: Mapping[int, FoldModel]
) -> dict[str, float | str]:
    """Return the row of a candidate in the table of the selection."""
    folds = list(models)
    values = losses_of(problem, models, folds)
    return {
        "candidate": candidate.name,
        "folds": len(folds),
        "rounds": float(np.mean([model.n_rounds for model in models.values()])),
        "loss": float(values.mean()),
        "standard_error": standard_error(values),
        "seconds": sum(model.seconds for model in models.values()),
    }
