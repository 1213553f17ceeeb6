"""A candidate of model selection: one combination of the model's optional parts."""

from dataclasses import dataclass

from ebboost.boosting.latent_field import LatentField
from ebboost.boosting.masked_labels import MaskedLabels
from ebboost.data.features import NeighborFeatures, SpectralFeatures
from ebboost.data.low_rank import LowRank
from ebboost.data.pipeline import FeaturePipeline
from ebboost.propagation import Smoother


@dataclass(frozen=True)
class Candidate:
    """Which parts of the model use the graph, and how.

    Smoothing propagates the scores; labels inform other nodes; feature smoothing is P_x of the
    columns [X, P_x X]; ``low_rank`` singular vectors replace a wide sparse table, 0 for the table.
    How trees are grown is compared as well.
    """

    name: str  # "none" for the model without a graph
    smoothing: Smoother | None = None
    labels: LatentField | MaskedLabels | None = None
    neighbor_features: NeighborFeatures | None = None
    feature_smoothing: Smoother | None = None
    spectral_features: SpectralFeatures | None = None
    low_rank: int = 0
    smaller_trees: bool | None = None  # with half as many leaves
    random_splits: bool | None = None  # at random thresholds of the columns
    network: bool | None = None  # random units in place of trees

    @property
    def uses_graph(self) -> bool:
        """Whether any part needs the graph."""
        return self.n_parts > 0

    @property
    def n_parts(self) -> int:
        """Number of parts that use the graph."""
        return sum(part is not None for part in (self.smoothing, self.labels, *self._columns))

    @property
    def _columns(self) -> tuple[object, ...]:
        return self.neighbor_features, self.feature_smoothing, self.spectral_features

    @property
    def tree_settings(self) -> tuple[str, int, bool, bool, bool]:
        """What trees are grown on: candidates with the same share columns and bins."""
        return (
            repr(self._columns),
            self.low_rank,
            isinstance(self.labels, MaskedLabels),
            self.uses_graph,
            bool(self.network),
        )

    def pipeline(self) -> FeaturePipeline:
        """Return the unfitted pipeline that computes the columns of the trees."""
        return FeaturePipeline(
            self.neighbor_features,
            self.feature_smoothing,
            self.spectral_features,
            LowRank(self.low_rank) if self.low_rank else None,
            smooths_encodings=isinstance(self.labels, MaskedLabels),
        )
