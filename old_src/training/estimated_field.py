"""Fields that candidates of the search may have: estimated from their scores out of fold."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ebboost.boosting.field_estimation import estimate_field
from ebboost.boosting.latent_field import MIN_TAU, LatentField, scaled_field
from ebboost.data.sharded import total_rows
from ebboost.model.candidate import Candidate
from ebboost.training import defaults
from ebboost.training.default_field import default_field, with_loss
from ebboost.training.fold_model import FoldModel, positions_of_unseen, unseen_labels
from ebboost.training.problem import Problem


@dataclass
class FieldEstimates:
    """Estimates of fields for the candidates of a search, each made once."""

    problem: Problem
    keeps_strengths: bool = False
    _estimates: dict[tuple[str, int], LatentField | None] = field(default_factory=dict)

    def estimated(
        self,
        candidate: Candidate,
        models: Mapping[int, FoldModel],
        start: LatentField | None = None,
    ) -> LatentField | None:
        """Return the field that predicts labels best from a candidate's scores out of fold, if any.

        With ``start`` only strengths are estimated, by a search that begins at those of ``start``.
        """
        if start is not None and self.keeps_strengths:
            return start
        key = (candidate.name, len(models))
        if key not in self._estimates:
            self._estimates[key] = self._estimate(candidate, models, start)
        return self._estimates[key]

    def _estimate(
        self, candidate: Candidate, models: Mapping[int, FoldModel], start: LatentField | None
    ) -> LatentField | None:
        problem = self.problem
        assert problem.graph is not None
        labels, scores = unseen_labels(problem, models, "held_out_scores")
        if total_rows(labels.target) < defaults.MIN_LABELS_FOR_FOLDS:
            return start or self.default(candidate)
        arguments = (problem.graph, labels, scores, problem.loss_of(candidate))
        positions = positions_of_unseen(problem, models)
        estimate = estimate_field(*arguments, seed=problem.seed, start=start, positions=positions)
        field = estimate.field
        if field is None and problem.n_labels > defaults.MOST_LABELS_FROM:
            # A share of the labels is too few to rule it out, and to estimate its strengths again.
            self.keeps_strengths = True
            return start or self.default(candidate)
        if field is None or field.tau < MIN_TAU:
            return start
        return scaled_field(field, 1.0)

    def default(self, candidate: Candidate) -> LatentField:
        """Return the default field in the units of the loss of a candidate."""
        plain = Candidate("", labels=default_field(self.problem))
        field = with_loss(self.problem, plain, candidate.loss).labels
        assert isinstance(field, LatentField)
        return field

    def over_similar_nodes(
        self, candidate: Candidate, models: Mapping[int, FoldModel]
    ) -> LatentField | None:
        """Return the field over nodes with similar neighbours, if it predicts labels best.

        It is estimated only where labels of neighbours say little.
        """
        problem = self.problem
        graph = problem.graph
        labels, scores = unseen_labels(problem, models, "held_out_scores")
        n_labels = total_rows(labels.target)
        if graph is None or n_labels < defaults.MIN_LABELS_FOR_FOLDS or self.keeps_strengths:
            return None
        arguments = (graph, labels, scores, problem.loss_of(candidate))
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
        return None if field is None or not is_better else scaled_field(field, 1.0)
