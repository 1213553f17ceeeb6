"""Where a model may be trusted: rows that are no farther from labels than what was held out.

Distances in space or in the graph, and in the columns: the dissimilarity index of Meyer and
Pebesma (2021), the distance to the most similar labelled row in standardised columns, weighted by
their importance, over the mean distance of labelled rows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.spatial import cKDTree

from ebboost._common import Array, warn_caller
from ebboost.data.distances import Distances
from ebboost.data.table import Table
from ebboost.frames import as_frame
from ebboost.model import Model
from ebboost.predict import Predictions

MOST_LABELS = 20_000
MOST_COLUMNS = 20  # the most important ones
SHARE_BELOW = 0.01  # columns of less importance are left out


class _Columns(NamedTuple):
    distance: Array
    dissimilarity: Array
    outside: NDArray[np.bool_]


class Applicability(_Columns):
    """How far rows are from what a model was trained and measured on, an entry for each row.

    Parameters
    ----------
    distance : ndarray of shape (n,)
        To the nearest label, in the unit of the coordinates (of degrees, kilometres) or in edges:
        infinite where none leads to a label, NaN where there is no graph or another one.
    dissimilarity : ndarray of shape (n,)
        Of the columns, to those of the most similar labelled row; 1 is the mean distance of
        labelled rows.
    outside : ndarray of bool, shape (n,)
        Whether the distance is larger than that of every label that was held out, or the
        dissimilarity than that of 99 % of the labelled rows: errors may be larger than stated.
    """

    index: Any = None  # names of the rows

    def to_frame(self) -> Any:
        """Return a dataframe with the index of the rows.

        Returns
        -------
        dataframe of pandas, polars or pyarrow, whichever is installed
        """
        return as_frame(self._asdict(), self.index)


def applicability_of(model: Model, predictions: Predictions) -> Applicability:
    """Return how far rows are from the labels of a model."""
    distance = distances_to_labels(model, predictions)
    table = model.table
    n_rows = len(predictions.raw)
    dissimilarity, usual = np.zeros(n_rows), np.inf
    rows = predictions.rows.table
    if rows is None and table is not None and predictions.position is not None:
        rows = table.subset(predictions.position)
    if table is not None and rows is not None and not table.is_sparse:
        known = np.random.default_rng(0).permutation(model.labels.rows)[:MOST_LABELS]
        reference = table.subset(known)
        columns, weight, center = weighted_columns(model, reference)
        points = numbers(reference, columns, center) * weight
        if columns:  # others than the coordinates
            tree = cKDTree(points)
            other = np.random.default_rng(1).permutation(len(points))
            mean = float(np.linalg.norm(points - points[other], axis=1).mean()) or 1.0
            dissimilarity = tree.query(numbers(rows, columns, center) * weight)[0] / mean
            own = tree.query(points, k=[2])[0][:, 0] / mean if len(points) > 1 else np.zeros(1)
            usual = float(np.quantile(own, 0.99))
    farthest = np.inf if model.separation is None else model.separation.farthest
    return Applicability(distance, dissimilarity, (distance > farthest) | (dissimilarity > usual))


def distances_to_labels(model: Model, predictions: Predictions) -> Array:
    """Return the distance of rows to the nearest label; NaN where it is not known."""
    distances = Distances.of(model.places, model.coordinates)
    labelled, rows = model.labels.rows, predictions.rows
    if distances is None:
        return np.full(len(predictions.raw), np.nan)
    if predictions.position is not None:
        return distances.nearest(predictions.position, labelled)[0]
    if rows.points is not None and model.coordinates is not None:
        lengths = cKDTree(model.coordinates.points[labelled]).query(rows.points)[0]
        return distances.scale * lengths
    if rows.nodes is not None:
        assert model.places is not None
        nodes = replace(model.places, node_of_row=rows.nodes).in_one_group().node_of_row
        return np.where(nodes >= 0, model.hops_to_label[nodes], np.inf)
    if rows.edges is not None and distances.points is None:
        every = model.hops_to_label
        near = sparse.csr_array(rows.edges)
        ends = np.repeat(np.arange(near.shape[0]), np.diff(near.indptr))
        result = np.full(near.shape[0], np.inf)
        np.minimum.at(result, ends, every[near.indices] + 1.0)
        return result
    return np.full(len(predictions.raw), np.nan)


def weighted_columns(model: Model, reference: Table) -> tuple[list[int], Array, Array]:
    """Return the important columns, their weights over their spread, and their means."""
    from ebboost.inspection.diagnostics import importances

    names = {name: column for column, name in enumerate(model.reader.names)}
    shares = [(names[one.name], one.share) for one in importances(model) if one.name in names]
    places = () if model.coordinates is None else model.coordinates.columns
    shares = [pair for pair in shares if pair[0] not in places and pair[1] >= SHARE_BELOW]
    chosen = shares[:MOST_COLUMNS]
    columns = [column for column, _ in chosen]
    values = np.asarray(reference.values, dtype=np.float64)[:, columns]
    center = np.array([np.nanmean(one) if np.isfinite(one).any() else 0.0 for one in values.T])
    is_category = np.isin(columns, list(reference.categorical))
    spread = np.nan_to_num(np.nanstd(values, axis=0))
    weight = np.array([share for _, share in chosen])
    return (
        columns,
        np.where(is_category, weight, weight / np.where(spread > 0, spread, 1.0)),
        center,
    )


def numbers(table: Table, columns: list[int], center: Array) -> Array:
    """Return columns as points: missing values are means."""
    values = np.asarray(table.values, dtype=np.float64)[:, columns]
    return np.where(np.isnan(values), center, values)


def warn_if_far(model: Model, predictions: Predictions) -> None:
    """Warn, once for a model, of new rows that are farther from labels than any held out."""
    one = model.separation
    if one is None or predictions.position is not None or "warned" in vars(model):
        return
    distance = distances_to_labels(model, predictions)
    is_far = (distance > one.farthest) & np.isfinite(distance)  # those without edges are meant so
    if is_far.any():
        vars(model)["warned"] = True
        unit = f" {one.unit}" if one.unit else ""
        where = f"more than {one.farthest:.3g}{unit} from the nearest label"
        where = where if one.farthest else "of groups without labels"
        warn_caller(
            f"{int(is_far.sum()):,} of {is_far.size:,} rows are {where}, farther than labels that "
            "errors were measured at: errors may be larger than intervals say. "
            "model.applicability(X) names these rows."
        )
