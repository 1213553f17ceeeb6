"""How far rows to predict are from the nearest label, and folds whose held-out labels are as far.

Distances are those of coordinates, else hops in the graph. Blocks are the labels nearest to each of
some labels drawn at random; with as many blocks as labels, folds are random. Their number is the
one with which distances of held-out labels are most like those of the rows to predict (Linnenbrink
et al. 2024, kNNDM).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csgraph
from scipy.spatial import cKDTree

from ebboost._common import Array, IntArray
from ebboost.data.coordinates import Coordinates
from ebboost.data.neighbors import Places
from ebboost.graph import Graph

EARTH = 6371.0088  # kilometres
# Rows to predict and labels that distances are compared at.
MOST_ROWS = 3_000
# By how much the distributions of distances must differ: the largest difference of their shares,
# and what it may be by chance, times 1/√labels.
LEAST_DIFFERENCE = 0.1
CHANCE = 2.0
FEWEST_LABELS = 30
# Numbers of blocks that are tried, how often few ones are drawn, and how many labels these have on
# average at least; which share of the blocks is held out as a whole, and into what others are
# divided: single labels, or ten times as many blocks.
BLOCKS = (2, 3, 4, 6, 9, 14, 25, 50, 100, 200, 400, 800)
DRAWS_OF_FEW = 3
DIVIDED = 10
PARTS = (
    (1.0, "labels"),
    (0.7, "blocks"),
    (0.4, "blocks"),
    (0.5, "labels"),
    (0.2, "labels"),
    (0.05, "labels"),
)
LABELS_OF_BLOCK = 3.0


@dataclass(frozen=True)
class Separation:
    """Mean distances to the nearest label: of rows to predict, and of labels held out."""

    to_predict: float
    at_random: float
    held_out: float  # in the folds that are used
    unit: str  # "km", "hops", or "" for the unit of the coordinates
    farthest: float  # no label that was held out is farther; infinite if one had no connection
    is_matched: bool
    n_blocks: int  # of more than one label that are held out; 0 at random


class Distances:
    """Distances between rows: of their points, or in hops between their nodes."""

    def __init__(
        self, points: Array | None, graph: Graph | None = None, nodes: IntArray | None = None
    ) -> None:
        self.points = points
        self.graph = graph
        self.nodes = nodes
        self.unit, self.scale = "", 1.0
        if points is None:
            self.unit = "hops"
        elif points.shape[1] == 3:
            self.unit, self.scale = "km", EARTH

    @classmethod
    def of(cls, places: Places | None, coordinates: Coordinates | None) -> "Distances | None":
        """Return the distances of the rows of a fit; None without a graph."""
        if coordinates is not None:
            return cls(coordinates.points)
        if places is None or places.graph.n_edges == 0:
            return None
        places = places.in_one_group()
        return cls(None, places.graph, places.node_of_row)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.nodes if self.points is None else self.points)  # type: ignore[arg-type]

    def nearest(self, rows: IntArray, sources: IntArray) -> tuple[Array, IntArray]:
        """Return the distance of rows to the nearest source, and the number of that source.

        Rows that no source is connected to are infinitely far, and have any source.
        """
        if self.points is not None:
            tree = cKDTree(self.points[sources], balanced_tree=False, compact_nodes=False)
            lengths, number = tree.query(self.points[rows])
            return self.scale * lengths, number
        assert self.graph is not None and self.nodes is not None
        starts, first = np.unique(self.nodes[sources], return_index=True)
        hops, _, origin = csgraph.dijkstra(
            self.graph.adjacency,
            directed=False,
            indices=starts,
            unweighted=True,
            min_only=True,
            return_predecessors=True,
        )
        hops, origin = hops[self.nodes[rows]], origin[self.nodes[rows]]
        is_far = ~np.isfinite(hops)
        number = first[np.searchsorted(starts, origin).clip(0, starts.size - 1)]
        number[is_far] = np.arange(rows.size)[is_far] % sources.size
        return hops, number

    def held_out(self, rows: IntArray, fold: IntArray, at: IntArray | None = None) -> Array:
        """Return the distance of labelled rows to the nearest one of another fold.

        Of all of them, or of those ``at`` some positions.
        """
        at = np.arange(rows.size) if at is None else at
        result = np.zeros(at.size)
        for number in np.unique(fold[at]).tolist():
            own, others = fold[at] == number, fold != number
            result[own] = self.nearest(rows[at[own]], rows[others])[0]
        return result


def difference(near: Array, far: Array) -> float:
    """Return by how much more of ``near`` than of ``far`` is within a distance, at most."""
    ends = np.sort(near)
    share = np.searchsorted(np.sort(far), ends, side="right") / far.size
    at = np.searchsorted(ends, ends, side="right") / near.size
    return float(np.max(at - share))


def transport(one: Array, other: Array) -> float:
    """Return the Wasserstein distance of two samples: the mean difference of their quantiles."""
    levels = np.linspace(0.005, 0.995, 100)
    return float(np.abs(np.quantile(one, levels) - np.quantile(other, levels)).mean())


def connected(lengths: Array, end: float) -> Array:
    """Return distances, where infinite ones are a little longer than ``end``."""
    return np.where(np.isfinite(lengths), lengths, end + 1.0)


def some(rows: IntArray, random: np.random.Generator) -> IntArray:
    """Return the rows, or some of them at random."""
    return rows if rows.size <= MOST_ROWS else random.choice(rows, MOST_ROWS, replace=False)


def are_farther(to_predict: Array, held_out: Array, n_labels: int) -> bool:
    """Return whether rows to predict are clearly farther from labels than labels held out are."""
    least = max(LEAST_DIFFERENCE, CHANCE / np.sqrt(min(n_labels, to_predict.size)))
    return difference(held_out, to_predict) > least


def matched_folds(
    distances: Distances,
    rows: IntArray,
    to_predict: Array,
    n_folds: int,
    random: np.random.Generator,
) -> tuple[IntArray, int]:
    """Return the fold of each labelled row, such that distances as held out are ``to_predict``.

    And the effective number of blocks.

    Some blocks may be divided into small ones, or into single labels. Where blocks must be large,
    there are fewer folds.
    """
    at = some(np.arange(rows.size), random)
    end = float(to_predict[np.isfinite(to_predict)].max(initial=0.0))
    to_predict = connected(to_predict, end)
    best, least, n_blocks = random.permutation(rows.size) % n_folds, np.inf, 0
    for count in BLOCKS:
        if count > max(rows.size / LABELS_OF_BLOCK, BLOCKS[0]):
            break
        for _ in range(DRAWS_OF_FEW if count <= 3 * n_folds else 1):
            block = blocks(distances, rows, min(count, rows.size), random)
            is_block = random.random(count)
            folds = min(n_folds, count)
            small = np.arange(rows.size)
            if DIVIDED * count * LABELS_OF_BLOCK < rows.size:
                small = blocks(distances, rows, DIVIDED * count, random)
            for share, part in PARTS:
                is_whole = is_block[block] <= share
                divided = np.arange(rows.size) if part == "labels" else small
                own = np.where(is_whole, block, count + divided)
                fold = deal(np.unique(own, return_inverse=True)[1], folds, random)
                if np.unique(fold).size < folds:
                    continue
                held_out = connected(distances.held_out(rows, fold, at), end)
                miss = transport(held_out, to_predict)
                if miss < least:
                    best, least, n_blocks = fold, miss, effective_number(own)
    return best, n_blocks


def effective_number(block: IntArray) -> int:
    """Return the number of blocks of two labels or more, if they were as large: (Σs)²/Σs²."""
    sizes = np.bincount(block)
    sizes = sizes[sizes > 1].astype(np.float64)
    return round(sizes.sum() ** 2 / max((sizes**2).sum(), 1.0))


def blocks(
    distances: Distances, rows: IntArray, count: int, random: np.random.Generator
) -> IntArray:
    """Return the block of each row: the nearest of ``count`` rows drawn at random."""
    centers = rows[random.permutation(rows.size)[:count]]
    return distances.nearest(rows, centers)[1]


def deal(block: NDArray[np.int64], n_folds: int, random: np.random.Generator) -> IntArray:
    """Return the fold of each row: blocks from large to small go to the smallest fold so far."""
    sizes = np.bincount(block)
    order = random.permutation(sizes.size)
    order = order[np.argsort(-sizes[order], kind="stable")]
    fold_of_block = np.zeros(sizes.size, dtype=np.int64)
    filled = [0] * n_folds
    for one in order[sizes[order] > 1].tolist():
        fold = filled.index(min(filled))
        fold_of_block[one] = fold
        filled[fold] += int(sizes[one])
    single = order[sizes[order] <= 1]
    lacking = np.maximum(max(filled) - np.array(filled), 0)
    fill = np.repeat(np.arange(n_folds), lacking)
    fill = np.concatenate([random.permutation(fill), np.arange(single.size) % n_folds])
    fold_of_block[single] = fill[: single.size]
    return fold_of_block[block]


def squares(points: Array, size: float, random: np.random.Generator) -> IntArray:
    """Return the square, or cube, of this size that each point is in."""
    cells = np.floor(points / size + random.random(points.shape[1])).astype(np.int64)
    return np.asarray(np.unique(cells, axis=0, return_inverse=True)[1].ravel(), dtype=np.int64)


def separate(
    distances: Distances,
    n_rows: int,
    rows: IntArray,
    fold: IntArray,
    seed: int,
    size: float | None = None,
    is_asked: bool | None = None,
) -> tuple[IntArray, Separation] | None:
    """Return folds for rows to predict that are farther from labels than those held out at random.

    The given folds, those at random, stay where distances agree, unless matched ones ``is_asked``
    for, or squares of a ``size``; None of very few labels.
    """
    if rows.size < FEWEST_LABELS:
        return None
    unknown = np.setdiff1d(np.arange(n_rows), rows)
    random = np.random.default_rng(seed)
    to_predict = distances.nearest(some(unknown, random), rows)[0]
    held_out = at_random = distances.held_out(rows, fold, some(np.arange(rows.size), random))
    is_matched = unknown.size > 0 and are_farther(to_predict, at_random, rows.size)
    is_matched = is_matched if is_asked is None else is_asked and unknown.size > 0
    n_blocks, n_folds = 0, int(fold.max()) + 1
    if size is not None and distances.points is not None:
        block = squares(distances.scale * distances.points[rows], size, random)
        is_matched = bool(block.any())  # points differ
        if is_matched:
            fold = deal(block, min(n_folds, int(block.max()) + 1), random)
            n_blocks = effective_number(block)
    elif is_matched:
        found, n_blocks = matched_folds(distances, rows, to_predict, n_folds, random)
        is_matched = n_blocks > 0  # or those at random are the best
        fold = found if is_matched else fold
    if is_matched:
        held_out = distances.held_out(rows, fold)
    samples = (to_predict, at_random, held_out)
    every = np.concatenate(samples)
    end = float(every[np.isfinite(every)].max(initial=0.0))
    far, near, held = (float(connected(one, end).mean()) if one.size else 0.0 for one in samples)
    facts = (distances.unit, float(held_out.max()), bool(is_matched), n_blocks)
    return fold, Separation(far, near, held, *facts)
