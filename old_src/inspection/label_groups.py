"""Groups of held-out labels, by the graph, the prediction and the leading column."""

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ebboost.data.table import Table
from ebboost.inspection.diagnostics import Model, Validation, share_range
from ebboost.inspection.formatting import count, date, number, shorten

Group = tuple[str, NDArray[np.bool_]]
MIN_GROUP = 20


class GroupCoverage(NamedTuple):
    """Share of the labels of a group that 90 % intervals cover, and its range by chance."""

    name: str
    n_labels: int
    share: float
    low: float
    high: float


def coverage_by_group(
    model: Model, table: Table | None, held_out: Validation, covered: NDArray[np.bool_]
) -> list[GroupCoverage]:
    """Return the coverage of 90 % intervals in groups of held-out labels."""
    groups = label_groups(model, table, held_out)
    sizes = [int(mask.sum()) for _, mask in groups]
    return [
        GroupCoverage(name, size, float(covered[mask].mean()), *share_range(0.9, size))
        for (name, mask), size in zip(groups, sizes, strict=True)
    ]


def label_groups(model: Model, table: Table | None, held_out: Validation) -> list[Group]:
    """Return held-out labels by neighbours, nearest labels, prediction and the leading column."""
    state = model.state_
    groups: list[Group] = [("All held-out labels", np.ones(held_out.nodes.size, dtype=bool))]
    graph = state.graph
    if graph is not None:
        n_neighbors = np.diff(graph.adjacency.indptr)[held_out.nodes]
        groups.append(("No neighbour", n_neighbors == 0))
        groups += _neighbor_groups(n_neighbors)
        labelled = np.zeros(graph.n_nodes)
        labelled[state.training_labels.nodes] = 1.0
        edges = (graph.unsigned.adjacency != 0).astype(float)
        walks = edges @ labelled
        n_labelled = walks[held_out.nodes]
        # Walks of two edges to labels, but for those that lead back.
        n_near = (edges @ walks)[held_out.nodes] - n_neighbors * labelled[held_out.nodes]
        is_far = (n_labelled == 0) & (n_neighbors > 0)
        groups.append(("Nearest label 2 edges away", is_far & (n_near > 0)))
        groups.append(("Nearest label farther away", is_far & (n_near == 0)))
        groups.append(("1 or 2 labelled neighbours", (n_labelled >= 1) & (n_labelled <= 2)))
        groups.append(("3 or more labelled neighbours", n_labelled >= 3))
    if state.classes is not None:
        for c in np.argsort(-np.bincount(held_out.truth.astype(int)), kind="stable")[:4]:
            groups.append((f"True class {shorten(state.classes[c])}", held_out.truth == c))
    else:
        rank = np.argsort(np.argsort(held_out.prediction, kind="stable"), kind="stable")
        thirds = rank * 3 // max(rank.size, 1)
        for third, name in enumerate(("Lowest", "Middle", "Highest")):
            groups.append((f"{name} third of predictions", thirds == third))
    groups += _column_groups(model, table, held_out)
    return [(name, mask) for name, mask in groups if mask.sum() >= MIN_GROUP or mask.all()]


def _neighbor_groups(n_neighbors: NDArray[np.int32]) -> list[Group]:
    """Held-out labels with neighbours in thirds of their number."""
    if not n_neighbors.any():
        return []
    ends = np.unique(np.quantile(n_neighbors[n_neighbors > 0], [0, 1 / 3, 2 / 3, 1]).astype(int))
    groups = []
    for low, high in pairwise([int(ends[0]) - 1, *ends[1:].tolist()]):
        name = f"{low + 1} to {high} neighbours" if high > low + 1 else count(high, "neighbour")
        groups.append((name, (n_neighbors > low) & (n_neighbors <= high)))
    return groups


def _column_groups(model: Model, table: Table | None, held_out: Validation) -> list[Group]:
    """Held-out labels by the most important column: its frequent categories, or thirds."""
    if table is None or table.is_sparse:
        return []
    column = int(np.argmax(model.feature_importances_))
    name = shorten(table.names[column])
    values = table.values[held_out.nodes, column]
    categories = model.state_.reader.categories.get(column)
    known = values[~np.isnan(values)]
    if categories is not None:
        frequent = np.argsort(-np.bincount(known.astype(int)), kind="stable")[:4]
        return [(f"{name} = {shorten(categories[code])}", values == code) for code in frequent]
    if not known.size:
        return []
    low, high = (float(end) for end in np.quantile(known, [1 / 3, 2 / 3]))
    if not low < high:
        return []
    ends = [(date if column in table.dates else number)(end) for end in (low, high)]
    return [
        (f"{name} up to {ends[0]}", values <= low),
        (f"{name} from {ends[0]} to {ends[1]}", (values > low) & (values <= high)),
        (f"{name} above {ends[1]}", values > high),
    ]
