"""Model selection: which parts of the model use the graph, by losses at held-out labels.

A search adds one part after another to plain boosting, or removes one, and keeps what lowers the
loss. Every candidate is trained to its end, on all labels but those of a fold, and compared at the
labels of that fold and of ``eval_set``, node by node. A part is added if the gain exceeds a share
of its standard error, the first part that uses the graph only beyond one. Candidates are compared
at a higher learning rate than the selected one is trained with in the end.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from ebboost.boosting.latent_field import LatentField
from ebboost.boosting.losses import Loss
from ebboost.data.sharded import total_rows
from ebboost.model.candidate import Candidate
from ebboost.training import defaults
from ebboost.training.comparison import Comparison, compare, losses_of
from ebboost.training.coordinate_graph import choose_graph
from ebboost.training.default_field import with_loss
from ebboost.training.estimated_field import FieldEstimates
from ebboost.training.fold_model import (
    FoldModel,
    mean_factor,
    mean_models,
    unseen_labels,
    with_factors,
)
from ebboost.training.parts import TREE_PARTS, Parts, named
from ebboost.training.problem import FORECAST, Problem
from ebboost.training.runs import Runner

Array = NDArray[np.float64]


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
        self._fields = FieldEstimates(self.problem)
        #: Plain boosting with the trees of the selected candidate, if that was possible.
        self.plain: Candidate | None = None
        #: The best candidate so far, for a search that is interrupted.
        self._best = self.parts.plain
        self.is_complete = False

    @property
    def selected(self) -> Candidate:
        """The best candidate."""
        return self.averaged[0]

    def run(self) -> None:
        """Select the candidates to average, and train the models of all of their folds.

        Raises Stopped if it is interrupted: :meth:`settle` selects what there is.
        """
        current = self.parts.plain
        self._train(current, range(self._n_folds(defaults.ENOUGH_IF_CLEAR)))
        current = self._improved(current, self.parts.steps)
        network = self._network(current)
        if network is not None and self._is_clearly_better(network, current):
            current = self._best = network
        self._train_finally(current, range(self.problem.labels.n_folds))
        if not self.parts.plain.uses_graph:  # the gain of the graph is measured against it
            self.plain = self._trained_plain(current)
        self.averaged = [*self._averaged(current), *self.parts.others]
        for candidate in self.averaged[1:]:
            self._train(candidate, range(self.problem.labels.n_folds))
        if self.problem.labels.in_time:
            self._train_on_all_labels()
        self.is_complete = True

    def settle(self) -> None:
        """Select the best candidate so far, with the models that are complete."""
        selected = self._best if self.models(self._best) else self.parts.plain
        folds = set(self.models(selected))
        others = [one for one in self.averaged if folds <= set(self.models(one))]
        self.averaged = [selected, *(one for one in others if one != selected)]
        plain = self.parts.plain
        if self.plain is None and not plain.uses_graph and folds & set(self.models(plain)):
            self.plain = plain

    def _trained_plain(self, selected: Candidate) -> Candidate:
        """Plain boosting with the trees or networks of a candidate, or with the default's trees."""
        default = self.parts.plain
        names = [*TREE_PARTS, "network", "loss"]
        learner = {name: getattr(selected, name) for name in names}
        n_vectors = self.parts.n_vectors if selected.network else default.low_rank
        plain = named(replace(default, low_rank=n_vectors, **learner))  # of a sparse table
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
            self.runner.interrupt.check()
            candidate = self._changed(current, step)
            is_skipped = not current.uses_graph and set(step) <= set(TREE_PARTS)
            if is_skipped or candidate.name in self.tried or not candidate.has_columns:
                continue
            if self._is_better(candidate, current):
                if current == self._best:
                    self._best = candidate
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
        if steps is None or not has_field:
            return None
        network = replace(self.parts.plain, labels=trees.labels, loss=trees.loss, network=True)
        network = named(network)
        if self.problem.table.is_sparse:
            n_vectors = self.parts.n_vectors if trees.own_columns is None else 0
            network = replace(trees, low_rank=n_vectors, network=True)
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
        if n_labels < defaults.MIN_LABELS_FOR_FOLDS:
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
        result = []
        for one in self.averaged:
            models = self._runner_of(one).models_of(one)
            if FORECAST in models:
                held_out = self.factor(one) * models[FORECAST].held_out
                result.append(replace(models[FORECAST], held_out=held_out))
        return result

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
        mean = mean_models([self.models(one) for one in candidates])
        return float(losses_of(self.problem, mean, list(mean)).mean())

    def models(
        self, candidate: Candidate, folds: Iterable[int] | None = None
    ) -> dict[int, FoldModel]:
        """Return the models of a candidate by fold, those with the final learning rate if any."""
        models = self._runner_of(candidate).models_of(candidate)
        folds = range(self.problem.labels.n_folds) if folds is None else folds
        return self._on_label_scale(candidate, {one: models[one] for one in folds if one in models})

    def _on_label_scale(
        self, candidate: Candidate, models: Mapping[int, FoldModel]
    ) -> dict[int, FoldModel]:
        """Models whose predictions have the mean of the labels, if candidates may differ in it."""
        return with_factors(self.problem, models) if candidate.loss is not None else dict(models)

    def factor(self, candidate: Candidate) -> float:
        """Return what predictions of a candidate with a loss of its own are multiplied by."""
        if candidate.loss is None:
            return 1.0
        earlier = self.problem.warm_start
        if earlier is not None and self.problem.labels.validation(0) is None:
            return earlier[candidate.name].state.factor
        models = self._runner_of(candidate).models_of(candidate)
        folds = [fold for fold in range(self.problem.labels.n_folds) if fold in models]
        return mean_factor(self.problem, {fold: models[fold] for fold in folds})

    def compared(self, candidate: Candidate) -> dict[int, FoldModel]:
        """Return the models by which a candidate was compared, by fold."""
        models = self.comparing.models_of(candidate)
        folds = range(self._n_folds())
        own = {fold: model for fold, model in models.items() if fold in folds}
        return self._on_label_scale(candidate, own)

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
        """Train a candidate with the final learning rate."""
        if candidate.network:  # there is no other learning rate
            self.comparing.train(candidate, folds)
            return
        self.runner.train(candidate, folds)
        if self.comparing is not self.runner:
            self._final.add(candidate.name)
            self.comparing.discard(candidate)

    def _is_better(self, candidate: Candidate, current: Candidate) -> bool:
        """Train a candidate and compare it with the current one, on as few folds as are clear."""
        results: list[Comparison] = []
        n_enough = self._n_folds(defaults.ENOUGH_IF_CLEAR)

        def goes_on(fold: int) -> bool:
            models = self.models(candidate, range(fold + 1))
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
        if candidate.complexity < current.complexity:
            return result.gain >= -margin
        if candidate.complexity == current.complexity:
            return result.gain > 0.0
        return result.gain > max(margin, defaults.MIN_GAIN * abs(self._loss(current)))

    def _loss(self, candidate: Candidate) -> float:
        models = self.models(candidate)
        return float(losses_of(self.problem, models, list(models)).mean())

    def _changed(self, current: Candidate, step: tuple[str, ...]) -> Candidate:
        """The current candidate with parts added, or removed if it has them."""
        changes: dict[str, object] = {}
        fields = self._fields
        models = self.models(current)
        for part in step:
            value: object = self.parts.optional.get(part)
            if part == "default_field":
                part = "labels"
                value = current.labels or fields.default(current)
            elif part == "field":
                part = "labels"
                value = current.labels or fields.estimated(current, models)
            elif part == "strengths":
                part = "labels"
                value = current.labels
                if isinstance(value, LatentField):
                    value = fields.estimated(current, models, value)
            elif part == "similarity":
                part = "labels"
                value = fields.over_similar_nodes(current, models) or current.labels
            elif part == "own_columns":
                if current.own_columns is None:
                    for name in ("neighbor_features", "spectral_features"):
                        changes[name] = self.parts.optional[name]
                value = False if current.own_columns is None else None
            elif part == "loss":
                loss = value if current.loss is None and isinstance(value, Loss) else None
                return named(with_loss(self.problem, current, loss))
            elif getattr(current, part):
                value = 0 if part == "low_rank" else None
            elif part == "labels":
                value = fields.estimated(current, models)
            changes[part] = value
        return named(replace(current, **changes))  # type: ignore[arg-type]
