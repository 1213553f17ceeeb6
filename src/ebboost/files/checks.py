"""Checks that the parts of a model from a file belong together, and two rows predicted as a test.

Types, and that numbers are finite, is checked by the codec. Every error is a ``ValueError``.
"""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ebboost.data.neighbors import Places
from ebboost.data.table import MAX_VALUE
from ebboost.files.trees import LARGEST, check_array, require
from ebboost.graph import Graph
from ebboost.intervals import Spread, with_intervals
from ebboost.model import Component, Model
from ebboost.predict import Predictions, Rows, new_columns, new_scores, on_graph

MAX_STEPS = 100_000  # of a smoother, more than any model needs
LARGEST_WEIGHT = 1e50  # of a component: its product with a score is finite
MAX_LOG = 300.0  # of the logarithm of a mean: sums of some are finite


def check_model(model: Model) -> None:
    """Raise ValueError unless the parts of a model belong together."""
    require(model.components, "a model must have components")
    n_rows, n_outputs = len(model.components[0].scores), model.intercept.size
    check_array("intercept", model.intercept, (n_outputs,))
    check_columns(model, n_rows)
    check_places(model, n_rows)
    n_classes = check_classes(model.output.classes, n_outputs)
    ends = (-LARGEST, LARGEST) if model.output.classes is None else (0.0, 1.0 + 1e-6)
    for name, labels in (("labels", model.labels), ("unseen", model.unseen)):
        m = labels.rows.size
        check_array(f"{name}.rows", labels.rows, (m,), 0, n_rows - 1, "i")
        require(np.unique(labels.rows).size == m, f"{name}.rows must not have a row twice")
        check_array(f"{name}.target", labels.target, (m, n_outputs), *ends)
        check_array(f"{name}.weight", labels.weight, (m,), 0.0)
    require(not n_rows or model.labels.weight.any(), "labels.weight must be positive at some label")
    check_array("unseen.raw", model.unseen.raw, (model.unseen.rows.size, n_outputs))
    if model.unseen.scores is not None:
        check_array("unseen.scores", model.unseen.scores, (model.unseen.rows.size, n_outputs))
    check_array("raw", model.raw, (n_rows, n_outputs))
    check_array("predictions", model.output.apply_link(model.raw), (n_rows, n_classes))
    if model.offset is not None:
        check_array("offset", model.offset, (n_rows, 1))
    if model.trials is not None:
        check_array("trials", model.trials, (n_rows,), 1e-300)
    for one in model.components:
        check_component(model, one, n_rows, n_outputs)
    if model.spread is not None:
        check_spread(model, model.spread, n_rows)
    index = model.row_labels
    fits = index is None or (hasattr(index, "get_indexer") and len(index) == n_rows)
    require(fits, f"row_labels must be {n_rows} labels")
    predict_two_rows(model)


def check_classes(classes: NDArray[Any] | None, n_outputs: int) -> int:
    """Check that classes are sorted and have scores; return how many columns they have."""
    values = [0] if classes is None else classes.tolist()
    in_order = all(a < b for a, b in pairwise(values))
    require(in_order and (len(values) > 1 or classes is None), "classes must be sorted")
    fits = n_outputs == len(values) or (len(values) == 2 and n_outputs == 1)
    require(fits, f"there must be scores for {len(values)} classes, got {n_outputs}")
    return len(values)


def check_columns(model: Model, n_rows: int) -> None:
    """Check the columns of X, and the table fitted on."""
    reader, table = model.reader, model.table
    names, columns = reader.names, range(len(reader.names))
    same = model.feature_names is None or model.feature_names.tolist() == list(names)
    require(same and len(set(names)) == len(names), "names of columns must be different")
    require({*reader.categories, *reader.dates} <= set(columns), "the reader must know its columns")
    for values in reader.categories.values():
        one_kind = len({isinstance(value, str) for value in values}) < 2
        require(one_kind and len(set(values)) == len(values), "categories must differ")
    require(not (reader.is_sparse and reader.categories), "categories are of a dense table")
    if table is None:
        return
    facts, expected = (replace(one, values=None) for one in (table, reader.table(None)))
    same = facts == expected and table.is_sparse == reader.is_sparse
    require(same, "the table must have the columns of the reader")
    entries = table.values.data if table.is_sparse else table.values
    shape = (n_rows, len(names))
    fits = table.values.shape == shape and isinstance(entries, np.ndarray)
    require(fits and entries.dtype.kind == "f", f"the table must be numbers of shape {shape}")
    in_range = (np.isnan(entries) | (np.abs(entries) <= MAX_VALUE)).all()
    require(in_range, f"the table must hold numbers up to {MAX_VALUE:g}")
    for column in table.categorical:
        codes = table.values[:, column]
        known = np.isnan(codes) | np.isin(codes, np.arange(len(reader.categories[column])))
        require(known.all(), f"column {column} of the table must hold categories")


def check_places(model: Model, n_rows: int) -> None:
    """Check the nodes of rows, and their points."""
    places, points = model.places, model.coordinates
    if places is not None:
        n_nodes = places.graph.n_nodes
        shape = (n_rows, len(places.groups)) if places.groups else (n_rows,)
        check_array("node_of_row", places.node_of_row, shape, 0, n_nodes - 1, "i")
        sizes = list(places.groups.values())
        fits = not sizes or (len(sizes) > 1 and min(sizes) > 0 and sum(sizes) == n_nodes)
        require(fits, "the nodes of groups must be those of the graph")
    if points is not None:
        require(places is not None and places.are_rows, "coordinates need a graph of the rows")
        check_array("points", points.points, (n_rows, 2 + (points.points.shape[1] == 3)))
        fits = len(points.columns) in (0, 2) and set(points.columns) <= set(range(model.n_features))
        require(fits, "coordinates must be two columns or none")
        require(0.0 < points.scale < np.inf, "the scale of coordinates must be positive")


def check_component(model: Model, one: Component, n_rows: int, n_outputs: int) -> None:
    """Check a component; two rows show whether what its columns have learned fits them."""
    features, places = one.features, model.places
    require(0.0 <= one.weight <= LARGEST_WEIGHT, "weights must be finite and not negative")
    loss = one.loss or model.output.loss
    most = MAX_LOG if loss.log_link else LARGEST
    check_array("scores", one.scores, (n_rows, n_outputs), -most, most)
    check_array("init_score", one.init_score, (n_outputs,), -most, most)
    origins = set(range(-1, model.n_features))
    fits = len(one.origin) == len(one.columns) and set(one.origin) <= origins
    require(fits, "origin must be a column of X for each column of the trees")
    require(one.rounds and min(one.rounds) >= 0, "rounds must be numbers of rounds")
    if places is None:
        alone = one.smoothing is None and one.field is None and not features.uses_graph
        require(alone, "a model without a graph must have no parts that use it")
    elif one.field is not None and places.groups:
        one.field.prior(places.graph)  # checks the sizes of groups
    process = one.process
    require(process is None or model.coordinates is not None, "a process needs coordinates")
    if process is not None:
        numbers = np.array([process.variance, process.range, process.noise, process.smoothness])
        check_array("process", numbers, (4,), 1e-300)
    if places is not None and features.vectors is not None:
        n_nodes = places.in_one_group().graph.n_nodes
        check_array("vectors", features.vectors, (n_nodes, None))
    for smoother in (one.smoothing, features.smoothing):
        values = [] if smoother is None else smoother.get_params().values()
        steps = max((abs(value) for value in values if isinstance(value, int)), default=0)
        require(steps <= MAX_STEPS, f"{smoother!r} takes more than {MAX_STEPS:,} steps")
    own = one.labels_for(model.labels)
    loss.check(own.target)
    loss.prepared(own.target, own.weight)  # checks its parameters
    categories = model.reader.n_categories if features.own == "all" else {}
    one.ensemble.check(len(one.columns), n_outputs, categories)


def check_spread(model: Model, spread: Spread, n_rows: int) -> None:
    """Check what a model knows about its errors."""
    require(model.output.classes is None, "a classifier must have no spread")
    numbers = np.array([spread.dispersion, spread.df])
    check_array("dispersion and degrees of freedom", numbers, (2,), 1e-300)
    require(spread.field is None or model.places is not None, "the field needs a graph")
    has_points = spread.process is None or model.coordinates is not None
    require(has_points, "a process needs coordinates")
    has_none = (spread.field is None and spread.process is None) or model.places is None
    n_nodes = 0 if has_none or model.places is None else model.places.graph.n_nodes
    check_array("spread.variance", spread.variance, (n_nodes,), 0.0)
    check_array("spread.scale", spread.scale, (n_rows,), 1e-150)
    check_array("spread.scores", spread.scores, (model.unseen.rows.size,))
    if spread.trees is not None:
        require(not model.reader.is_sparse, "trees of the spread need a dense table")
        spread.trees.check(model.n_features + 2, 1, model.reader.n_categories)


def predict_two_rows(model: Model) -> None:
    """Predict two rows with all parts: those that do not fit each other fail here, not later."""
    reader = model.reader
    shape = (2, model.n_features)
    values = sparse.csr_array(shape) if reader.is_sparse else np.zeros(shape)
    rows = Rows(reader.table(values), None if model.offset is None else np.zeros((2, 1)))
    if model.trials is not None:
        rows = replace(rows, trials=np.ones(2))
    if model.places is not None:
        nodes = np.arange(2) if model.places.are_rows else np.zeros(2, dtype=np.int64)
        rows = replace(rows, places=Places(Graph.from_edges([0], [1]), nodes))
    for one in model.components:
        own = new_columns(model, one, rows)
        same = own.names == one.columns and own.origin == one.origin
        require(same, "the trees were grown on other columns")
        check_array("scores", one.ensemble.predict(own), (2, model.n_outputs))
    if model.places is not None and model.places.groups:
        if model.table is None:
            return
        rows = replace(rows, places=None, nodes=np.full((2, len(model.places.groups)), -1))
    if not all(getattr(one.smoothing, "on_other_graphs", True) for one in model.components):
        return
    if rows.places is None:
        raw = [one.to_raw(new_scores(model, k, rows)) for k, one in enumerate(model.components)]
        total = model.weighted(raw, rows.offset)
    else:
        takes_labels = any(one.field is not None for one in model.components)
        label = ([0], model.output.decode(np.zeros((1, model.n_outputs))))
        total = on_graph(model, rows, label if takes_labels else None)
    require(np.isfinite(model.output.apply_link(total)).all(), "predictions must be finite")
    if model.spread is not None:
        ends = np.array(with_intervals(model, Predictions(total, rows), 0.5))
        require(not np.isnan(ends).any(), "intervals must be numbers")
