"""The CPU, and the interface of every backend."""

from typing import Any, Self

from ebboost.boosting.causal_field import causal_mode
from ebboost.boosting.field_mode import posterior_mode
from ebboost.boosting.latent_field import LatentField
from ebboost.boosting.losses import Loss
from ebboost.data.labels import Labels
from ebboost.data.types import AnyArray
from ebboost.graph import Graph


class Backend:
    """Where a fit trains, entered for its length; this one is the CPU and moves nothing.

    Other backends override what they do differently. Host arrays are numpy's.
    """

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        return

    def graph(self, graph: Graph | None) -> Any:
        """Return the graph on the device."""
        return graph

    def labels(self, labels: Labels | None) -> Any:
        """Return the labels on the device."""
        return labels

    def to_device(self, array: AnyArray) -> AnyArray:
        """Return a host array as an array on the device."""
        return array

    def to_host(self, array: AnyArray) -> AnyArray:
        """Return an array on the device as a host array."""
        return array

    def field_mode(
        self, use: LatentField, graph: Graph, labels: Labels, loss: Loss, scores: AnyArray
    ) -> AnyArray:
        """Return the latent field of the labels, for scores at their nodes; host arrays."""
        if graph.time is not None:
            return causal_mode(self.field_mode, use, graph, labels, loss, scores)
        posterior = use.operator(graph, labels.nodes, labels.weight)
        return posterior_mode(posterior, loss, scores, labels.target)

    def expect_table(self, name: str, n_rows: int, n_columns: int, n_outputs: int) -> None:
        """Note the size of a candidate's table before it is moved, to estimate the memory."""
