"""From the user's table to the one the trees see: categories encoded, sparse columns condensed, neighbours added."""

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ebboost.data.features import (
    LowRank,
    NeighborFeatures,
    NewColumns,
    neighbor_columns,
    smoothed_columns,
)
from ebboost.data.labels import Labels
from ebboost.data.table import Table
from ebboost.data.target_encoding import OrderedTargetEncoder
from ebboost.graph import Graph
from ebboost.propagation import Smoother

Array = NDArray[np.float64]


@dataclass
class FeaturePipeline:
    """What is done to a table, learned once and repeated at prediction.

    Attributes
    ----------
    neighbor_features : NeighborFeatures, optional
    feature_smoothing : Smoother, optional
        P_x of [X, P_x X].
    low_rank : LowRank, optional
        For sparse tables, in the place of all of the above.
    encoder : OrderedTargetEncoder, optional
        For learners that do not take categories.
    smooths_encodings : bool
        Smooth encoded categories too, as published, although they carry labels to their neighbours.
    """

    neighbor_features: NeighborFeatures | None = None
    feature_smoothing: Smoother | None = None
    low_rank: LowRank | None = None
    encoder: OrderedTargetEncoder | None = None
    smooths_encodings: bool = False

    @property
    def uses_graph(self) -> bool:
        """Whether columns are computed from neighbours' columns."""
        return self.neighbor_features is not None or self.feature_smoothing is not None

    def fit(
        self, table: Table, graph: Graph | None, training: Labels, takes_categories: bool, seed: int
    ) -> Table:
        """Learn from the table and the training labels, and prepare that table."""
        self._refuse_on_disk(table)
        if self.low_rank is not None:
            return self.low_rank.fit_transform(table, seed)
        if table.categorical and not takes_categories:
            self.encoder = OrderedTargetEncoder()
            return self._encoded(table, self.encoder.fit_transform(table, training, seed), graph)
        return self._with_graph(table, graph)

    def apply(self, table: Table, graph: Graph | None) -> Table:
        """Prepare another table in the same way."""
        self._refuse_on_disk(table)
        if self.low_rank is not None:
            return self.low_rank.transform(table)
        if self.encoder is not None:
            return self._encoded(table, self.encoder.transform(table), graph)
        return self._with_graph(table, graph)

    def hops(self, graph: Graph | None) -> int | None:
        """How many edges away a row can be that a column is made from; None: anywhere."""
        if graph is None or self.low_rank is not None:
            return 0
        near = 0 if self.neighbor_features is None else 1
        far = 0 if self.feature_smoothing is None else self.feature_smoothing.hops(graph.unsigned)
        return None if far is None else max(near, far)

    def _refuse_on_disk(self, table: Table) -> None:
        made = (self.neighbor_features, self.feature_smoothing, self.low_rank, self.encoder)
        if table.on_disk and any(part is not None for part in made):
            raise ValueError(
                "X is a ParquetTable, and columns made from other rows or from labels need the table in memory: pass a "
                "dataframe, predict some nodes at a time with nodes=, or fit with neighbor_features=None and "
                "feature_smoothing=None."
            )

    def _encoded(self, table: Table, encoded: Table, graph: Graph | None) -> Table:
        """The encoded columns, beside graph columns made from the codes.

        Not from the encoding: a neighbour's encoding may hold the node's own label, which would come back to it.
        """
        if self.smooths_encodings:
            return self._with_graph(encoded, graph)
        return (
            encoded.with_columns(*made)
            if (made := self._from_graph(table, graph)).names
            else encoded
        )

    def folded(self, importances: Array, origin: tuple[int, ...], n_columns: int) -> Array:
        """Importances of the columns the trees saw, counted for the columns of the user's table that they came from."""
        total = np.zeros(n_columns)
        if (
            self.low_rank is not None
        ):  # a direction is shared by columns as the squares of its entries
            return (self.low_rank.directions**2) @ importances
        for column, importance in zip(origin, importances, strict=True):
            if column >= 0:
                total[column] += importance
        return total

    def _with_graph(self, table: Table, graph: Graph | None) -> Table:
        return (
            table.with_columns(*made) if (made := self._from_graph(table, graph)).names else table
        )

    def _from_graph(self, table: Table, graph: Graph | None) -> NewColumns:
        """The columns that are computed from neighbours' columns."""
        made = []
        if graph is not None:
            graph = graph.unsigned  # a mean over neighbours is one, like or unlike
            if (asked := self.neighbor_features) is not None:
                asked.check()
                made.append(neighbor_columns(table, graph, asked.statistics, asked.degree))
            if self.feature_smoothing is not None:
                made.append(
                    smoothed_columns(table, partial(self.feature_smoothing.operator, graph))
                )
        return NewColumns.concat(made)
