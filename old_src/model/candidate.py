"""A candidate of model selection: one combination of the model's optional parts."""

from dataclasses import dataclass, replace

import numpy as np

from ebboost.boosting.latent_field import LatentField
from ebboost.boosting.losses import Loss
from ebboost.boosting.masked_labels import MaskedLabels
from ebboost.data.features import NeighborFeatures, SpectralFeatures
from ebboost.data.labels import Labels
from ebboost.data.low_rank import LowRank
from ebboost.data.pipeline import FeaturePipeline
from ebboost.data.types import Array
from ebboost.propagation import Smoother

# Least mean that has a logarithm.
LEAST_MEAN = 1e-300


@dataclass(frozen=True)
class Candidate:
    """Which parts of the model use the graph, and how.

    Smoothing propagates the scores; labels inform other nodes; feature smoothing is P_x of the
    columns [X, P_x X]; ``low_rank`` singular vectors replace a wide sparse table, 0 for the table,
    or columns of the graph alone if there are no ``own_columns``.
    How trees are grown is compared as well, and the loss that they are trained with.
    """

    name: str  # "none" for the model without a graph
    smoothing: Smoother | None = None
    labels: LatentField | MaskedLabels | None = None
    neighbor_features: NeighborFeatures | None = None
    feature_smoothing: Smoother | None = None
    spectral_features: SpectralFeatures | None = None
    low_rank: int = 0
    own_columns: bool | None = None  # False: no columns but those of the graph
    smaller_trees: bool | None = None  # with half as many leaves
    random_splits: bool | None = None  # at random thresholds of the columns
    network: bool | None = None  # random units in place of trees
    loss: Loss | None = None  # of training; None for that of the fit

    @property
    def uses_graph(self) -> bool:
        """Whether any part needs the graph."""
        return self.n_parts > 0

    @property
    def n_parts(self) -> int:
        """Number of parts that use the graph."""
        return sum(part is not None for part in (self.smoothing, self.labels, *self._columns))

    @property
    def has_columns(self) -> bool:
        """Whether there is any column to grow trees on."""
        return self.own_columns is not False or any(part is not None for part in self._columns)

    @property
    def complexity(self) -> int:
        """Number of parts that use the graph; a loss of its own, which takes longer, is one too."""
        return self.n_parts + (self.loss is not None)

    @property
    def _columns(self) -> tuple[object, ...]:
        return self.neighbor_features, self.feature_smoothing, self.spectral_features

    @property
    def tree_settings(self) -> tuple[object, ...]:
        """What trees are grown on: candidates with the same share columns and bins."""
        return (
            repr(self._columns),
            self.low_rank,
            self.own_columns,
            isinstance(self.labels, MaskedLabels),
            self.uses_graph,
            bool(self.network),
        )

    def to_raw(self, scores: Array) -> Array:
        """Return scores as raw predictions: with a loss of its own, numbers like the labels."""
        return scores if self.loss is None else self.loss.inverse_link(scores)

    def to_scores(self, raw: Array) -> Array:
        """Return the scores of raw predictions."""
        is_log = self.loss is not None and self.loss.log_link
        return np.log(np.maximum(raw, LEAST_MEAN)) if is_log else raw

    def clipped(self, labels: Labels) -> Labels:
        """Return labels that the loss is defined for: new ones may be negative, counts as 0."""
        is_log = self.loss is not None and self.loss.log_link
        return replace(labels, target=labels.target.clip(min=0.0)) if is_log else labels

    def pipeline(self) -> FeaturePipeline:
        """Return the unfitted pipeline that computes the columns of the trees."""
        return FeaturePipeline(
            self.neighbor_features,
            self.feature_smoothing,
            self.spectral_features,
            LowRank(self.low_rank) if self.low_rank else None,
            own_columns=self.own_columns is not False,
            smooths_encodings=isinstance(self.labels, MaskedLabels),
        )
