"""Checks of a model file beyond its checksums, which anyone can compute.

Parts have the types and shapes that their names say, indices lie within what they point into, as
compiled loops follow them unchecked, and two rows are predicted as a smoke test. Every error is a
``ValueError``. Trees are checked by the learners.
"""

from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ebboost.boosting.latent_field import LatentField
from ebboost.boosting.losses import Loss, SquaredError
from ebboost.boosting.masked_labels import MaskedLabels
from ebboost.data.graph_columns import MAX_LEVELS, OTHERS, STATISTICS
from ebboost.data.pipeline import FeaturePipeline
from ebboost.data.reader import TableReader
from ebboost.data.schema import LARGEST, Integers, is_integer, match, require
from ebboost.data.table import Table
from ebboost.data.target_encoding import OrderedTargetEncoder
from ebboost.data.types import Array, IntArray
from ebboost.graph import Graph, Groups, check_strengths
from ebboost.graph.ids import check_unique_ids
from ebboost.model.candidate import Candidate
from ebboost.model.state import FittedState, GraphGain

Arrays = dict[str, NDArray[Any]]
CSR = ("data", "indices", "indptr")  # arrays of a sparse matrix
TABLE_FIELDS = ("names", "categorical", "origin")  # of a stored table
MAX_STEPS = 100_000  # of a smoother, more than any model needs
MANIFEST = {
    "format": str,
    "format_version": int,
    "sha256": dict,
    "estimator": str,
    "parameters": dict,
    "fitted": dict,
    "candidate": dict,
    "node_ids": dict | None,
    "table": {"names": list, "is_sparse": bool, "origin": list, "stored": dict, "categories": dict},
    "temperature": list | None,
    "environment": dict,
    "members": list,
    "spread": dict | None,
}
SPREAD = {
    "dispersion": float,
    "scale": float,
    "n_calibration": int,
    "variance_error": float,
    "uses_columns": bool,
}
#: Ranges for shapes of residuals: squares must be finite; fitted skews are within exp(±12).
SCALES = (1e-150, 1e150)
SKEWS = (1e-6, 1e6)
MAX_LOG = 1e4  # of scores whose exponentials are predicted
MAX_FACTOR = 1e6  # of predictions
SPREAD_ARRAYS = ("factor", "field_variance", "deviation", "size")
MEMBER = {"candidate": dict, "origin": list, "rounds": dict}
FACTS = {
    "loss": Loss,
    "classes": np.ndarray | None,
    "feature_names": np.ndarray | None,
    "stop_reason": str,
    "rounds": tuple,
    "history": dict,
    "selection": dict,
    "gain": dict | None,
    "source": dict | None,
    "relation_strengths": dict | None,
    "calibration_error": float | None,
}
SELECTION = {"candidate", "loss", "folds"}  # columns of the table of candidates


def check_manifest(manifest: dict[str, Any]) -> None:
    """Check the types of the manifest's parts, and the columns of the table."""
    match(manifest, MANIFEST, "manifest")
    require(manifest["format_version"] >= 1, "manifest.format_version must be at least 1")
    versions = manifest["environment"].values()
    plain = all(isinstance(value, str | int | None) for value in versions)
    require(plain, "manifest.environment must hold text and numbers")
    table = manifest["table"]
    names = table["names"]
    unique = set(map(type, names)) == {str} and len(set(names)) == len(names)
    require(unique, "manifest.table.names must be different names of columns")
    Integers(-1, len(names) - 1).read(table["origin"], "manifest.table.origin")
    known = set(map(str, range(len(names)))) >= set(table["categories"])
    lists = all(isinstance(values, list) for values in table["categories"].values())
    require(known and lists, "manifest.table.categories must be lists by position of the column")


def check_facts(facts: dict[str, Any], candidate: Candidate) -> None:
    """Check the types of learned values and of the candidate's parts."""
    match(facts, FACTS, "fitted")
    check_candidate(candidate)
    masked = facts["classes"] is not None and isinstance(candidate.labels, MaskedLabels)
    require(not masked, "candidate.labels of a classifier must not be masked")
    check_rounds(facts["rounds"])
    table = facts["selection"]
    are_lists = all(isinstance(column, list) for column in table.values())
    require(are_lists and len({len(column) for column in table.values()}) <= 1, "fitted.selection")
    require(not table or table.keys() >= SELECTION, f"fitted.selection must have {SELECTION}")
    histories = facts["history"].keys() >= {"training", "validation"}
    require(histories, "fitted.history must have training and validation losses")
    values = [loss for losses in facts["history"].values() for loss in losses]
    values += [value for name, column in table.items() if name != "candidate" for value in column]
    are_numbers = all(type(value) in (int, float) for value in values)
    require(are_numbers, "fitted.history and fitted.selection must hold numbers")
    names = all(isinstance(name, str) for name in table.get("candidate", ()))
    require(names, "fitted.selection must hold names of candidates")
    gain = facts["gain"]
    if gain is not None:
        kinds = {part.name: part.type for part in fields(GraphGain)}
        match(gain, kinds, "fitted.gain")
    strengths = facts["relation_strengths"]
    if strengths is not None:
        require(all(isinstance(name, str) for name in strengths), "relations must have text names")
        check_strengths(strengths, strengths)


def check_candidate(candidate: Candidate) -> None:
    """Check the types of a candidate's parts."""
    match(vars(candidate), {part.name: part.type for part in fields(candidate)}, "candidate")
    require(is_integer(candidate.low_rank, 0, 10**6), "candidate.low_rank must be an integer")
    columns = candidate.neighbor_features
    if columns is not None:
        few = len(columns.statistics) <= len(STATISTICS)
        require(few, "candidate.neighbor_features must name each statistic once")
        columns.check()
    if candidate.spectral_features is not None:
        candidate.spectral_features.check()


def factor(candidate: Candidate, arrays: Arrays) -> dict[str, Any]:
    """Return the factor of predictions, by its name, of a candidate with a loss of its own."""
    if candidate.loss is None:
        return {}
    value = float(numbers(arrays, "factor", 1)[0])
    require(1.0 / MAX_FACTOR <= value <= MAX_FACTOR, "factor must be a positive number")
    return {"factor": value}


def check_rounds(rounds: object) -> None:
    """Check the numbers of rounds of the models."""
    are_rounds = isinstance(rounds, tuple) and all(is_integer(one, 0, 10**9) for one in rounds)
    require(are_rounds and rounds, "rounds must be a list of integers")


def check_member(
    first: FittedState, candidate: Candidate, rounds: object, origin: list[int], arrays: Arrays
) -> None:
    """Check a further member of an average against the first."""
    check_candidate(candidate)
    check_rounds(rounds)
    parts = (first.candidate, candidate)
    are_masked = {isinstance(part.labels, MaskedLabels) for part in parts}
    require(len(are_masked) == 1, "members: labels must be masked in all or in none")
    require(first.pipeline.encoder is None, "members must not encode categories")
    Integers(-1, first.n_features - 1).read(origin, "members.origin")
    for name in ("init_score", "scores", "propagated_scores", "raw_predictions"):
        numbers(arrays, name, *getattr(first, name).shape)


def spread_arrays(state: FittedState) -> tuple[str, ...]:
    """Return the names of the arrays of a spread with an entry for each node or label."""
    return SPREAD_ARRAYS + (("forecast_deviation",) if state.forecast is not None else ())


def check_spread(state: FittedState, facts: dict[str, Any], arrays: Arrays) -> None:
    """Check numbers and arrays of a spread."""
    match(facts, SPREAD, "spread")
    values = [facts["dispersion"], facts["scale"]]
    require(bool(np.isfinite(values).all()), "spread must hold finite numbers")
    at, _, scale, skew, df = numbers(arrays, "spread_shapes", None, 5).T
    is_positive = min(*values, *scale, *skew) > 0.0 and min(df, default=0.0) > 2.0
    require(is_positive, "spread must be positive")
    for name, part, (low, high) in (("scale", scale, SCALES), ("skew", skew, SKEWS)):
        in_range = low <= part.min() <= part.max() <= high
        require(bool(in_range), f"{name} in spread_shapes must be from {low} to {high}")
    require(bool((np.diff(at) >= 0.0).all()), "spread_shapes must be in the order of predictions")
    n_labels = state.validation.nodes.size
    require(is_integer(facts["n_calibration"], 1, n_labels), "spread.n_calibration")
    require(not state.is_classifier, "spread must be null for a classifier")
    sizes = dict.fromkeys(("factor", "field_variance"), state.n_nodes)
    if state.forecast is not None:
        sizes["forecast_deviation"] = state.forecast.nodes.size
    for name in spread_arrays(state):
        size = sizes.get(name, n_labels)
        array = numbers(arrays, f"spread_{name}", size)
        least = array.min(initial=1.0)
        above = least >= 0.0 if name in ("field_variance", "size") else least > 0.0
        require(bool(above), f"spread_{name} must not be negative")


def check_arrays(arrays: Arrays, classes: NDArray[Any] | None) -> tuple[int, int]:
    """Check classes, scores, predictions and labels; return the numbers of nodes and of outputs."""
    n_nodes, n_outputs = numbers(arrays, "scores", None, None).shape
    n_classes = 1
    if classes is not None:
        n_classes = classes.size
        require(classes.ndim == 1 and n_classes > 1, "classes must be a list of two or more")
        plain = all(type(label) in (str, int, float, bool) for label in classes.tolist())
        require(plain, "classes must be text or numbers")
        check_unique_ids(classes, "classes")
    fits = n_outputs == n_classes or (n_classes == 2 and n_outputs == 1)
    require(fits, f"scores must have a row per node and {n_classes} columns")
    n_labels = node_indices(arrays, "label_nodes", n_nodes).size
    n_validation = node_indices(arrays, "validation_nodes", n_nodes).size
    shapes = {
        "init_score": (n_outputs,),
        "propagated_scores": (n_nodes, n_outputs),
        "raw_predictions": (n_nodes, n_outputs),
        "label_target": (n_labels, n_outputs),
        "label_weight": (n_labels,),
        "validation_target": (n_validation, n_outputs if n_validation else None),
        "validation_prediction": (n_validation, n_outputs if n_validation else None),
    }
    if "forecast_nodes" in arrays:
        n_forecast = node_indices(arrays, "forecast_nodes", n_nodes).size
        node_indices(arrays, "forecast_later", n_nodes)
        shapes |= dict.fromkeys(("forecast_target", "forecast_prediction"), (n_forecast, 1))
    if "offset" in arrays:
        shapes["offset"] = (n_nodes, 1)
    for name, shape in shapes.items():
        numbers(arrays, name, *shape)
    compared = arrays["validation_without_graph"]
    numbers({"": np.nan_to_num(compared)}, "", *shapes["validation_prediction"])
    weight = arrays["label_weight"]
    is_positive = weight.any() or not n_nodes
    require((weight >= 0).all() and is_positive, "label_weight must be positive at some label")
    for name in ("label_target", "validation_target"):
        in_range = ((arrays[name] >= 0) & (arrays[name] <= 1 + 1e-6)).all()
        require(classes is None or in_range, f"{name} must be probabilities")
    return n_nodes, n_outputs


def numbers(arrays: Arrays, name: str, *shape: int | None, high: float = LARGEST) -> Array:
    """Return an array of numbers of this shape, None for any size, at most ``high`` in size."""
    array = arrays[name]
    sizes = zip(shape, array.shape, strict=False)
    fits = len(shape) == array.ndim and all(expected in (None, size) for expected, size in sizes)
    is_float = array.dtype.kind == "f"
    require(fits and is_float, f"{name} must be numbers of shape {shape}, got {array.shape}")
    require((np.abs(array) <= high).all(), f"{name} must be finite")
    return array


def integers(
    arrays: Arrays, name: str, high: int, low: int = 0, size: int | None = None
) -> IntArray:
    """Return an array of integers from ``low`` to ``high``, of any size if that is None."""
    values = arrays[name]
    are_integers = values.ndim == 1 and values.dtype.kind == "i" and size in (None, values.size)
    require(are_integers, f"{name} must be {'' if size is None else f'{size} '}integers")
    require(((values >= low) & (values <= high)).all(), f"{name} must be from {low} to {high}")
    return values


def node_indices(arrays: Arrays, name: str, n_nodes: int) -> IntArray:
    """Return an array of different nodes."""
    nodes = integers(arrays, name, n_nodes - 1)
    require(np.unique(nodes).size == nodes.size, f"{name} must not have a node twice")
    return nodes


def csr(arrays: Arrays, name: str, shape: tuple[Any, ...]) -> sparse.csr_array:
    """Return a sparse matrix whose indices are within its shape."""
    data, indices, indptr = (arrays[f"{name}_{part}"] for part in CSR)
    fits = len(shape) == 2 and shape[0] >= 0 and indptr.shape == (shape[0] + 1,)
    fits = fits and data.ndim == 1 and indices.shape == data.shape
    require(fits, f"{name} must be a matrix in CSR format")
    integers = {np.dtype(np.int32), np.dtype(np.int64)}
    are_integers = {indices.dtype, indptr.dtype} <= integers and data.dtype.kind == "f"
    require(are_integers, f"{name} must have numbers for data and integers for indices")
    in_order = (indptr[1:] >= indptr[:-1]).all()  # differences might overflow
    in_order &= indptr[0] == 0 and indptr[-1] == data.size
    require(in_order, f"{name}_indptr must increase from 0 to {data.size}")
    in_range = ((indices >= 0) & (indices < shape[1])).all()
    require(in_range, f"{name}_indices must be from 0 to {shape[1] - 1}")
    return sparse.csr_array((data, indices, indptr), shape=shape)


def graph(arrays: Arrays, node_ids: Any, n_nodes: int) -> Graph | None:
    """Return the graph fitted on, of rows or of their groups, with directions and times if any."""
    if "graph_indptr" not in arrays:
        require(node_ids is None, "node_ids need a graph")
        return None
    adjacency = symmetric(arrays, "graph", n_nodes)
    time = numbers(arrays, "time", n_nodes) if "time" in arrays else None
    group_of = arrays.get("group_of")
    n_ids = n_nodes if group_of is None else arrays["groups_indptr"].size - 1
    if node_ids is not None:
        fits = isinstance(node_ids, np.ndarray) and node_ids.shape == (n_ids,)
        require(fits, f"node_ids must be {n_ids} ids")
        check_unique_ids(node_ids)
    if group_of is not None:
        integers(arrays, "group_of", n_ids - 1, size=n_nodes)
        between = Graph(symmetric(arrays, "groups", n_ids), node_ids)
        return Graph(adjacency, groups=Groups(between, group_of), time=time)
    outgoing = None
    if "outgoing_indptr" in arrays:
        outgoing = csr(arrays, "outgoing", (n_nodes, n_nodes))
        finite = outgoing.dtype == np.float64 and np.isfinite(outgoing.data).all()
        require(finite and (outgoing.data >= 0).all(), "outgoing_data must be finite, from 0 up")
    vectors = None
    if "vectors" in arrays:
        vectors = numbers(arrays, "vectors", n_nodes, None, high=2.0).astype(np.float32)
    return Graph(adjacency, node_ids, outgoing=outgoing, time=time, vectors=vectors)


def symmetric(arrays: Arrays, name: str, n_nodes: int) -> sparse.csr_array:
    """Return an adjacency matrix: symmetric, with finite weights and no loops."""
    adjacency = csr(arrays, name, (n_nodes, n_nodes))
    finite = adjacency.dtype == np.float64 and np.isfinite(adjacency.data).all()
    require(finite, f"{name}_data must be finite")
    # The transpose has sorted, unique columns: only a matrix that has them too is equal to it.
    transpose = adjacency.T.tocsr()
    pairs = [(getattr(adjacency, part), getattr(transpose, part)) for part in CSR]
    is_same = all(np.array_equal(*pair) for pair in pairs) and transpose.has_canonical_format
    require(is_same and not adjacency.diagonal().any(), f"the {name} must be symmetric, no loops")
    return adjacency


def read_columns(
    section: dict[str, Any], parameters: dict[str, Any], names: NDArray[Any] | None
) -> TableReader:
    """Return the columns of X; ``names`` are those that a dataframe had."""
    reader = TableReader(parameters.get("categorical_features", "auto"))
    reader.names = tuple(section["names"])
    reader.is_sparse = section["is_sparse"]
    same_names = names is None or names.tolist() == section["names"]
    require(same_names, "feature_names must be the names of the columns")
    for column, values in section["categories"].items():
        is_text = all(isinstance(value, str) for value in values)
        are_numbers = all(type(value) in (int, float, bool) for value in values)
        require(is_text or are_numbers, "categories must be text or numbers")
        unique = len(set(values)) == len(values) and not reader.is_sparse
        require(unique, "categories must be different, and of a dense table")
        reader.categories[int(column)] = list(values)
    return reader


def read_tables(
    section: dict[str, Any], reader: TableReader, arrays: Arrays, n_nodes: int
) -> dict[str, Table]:
    """Return the tables in a file: the one fitted on, and the encoded one of the trees."""
    width = len(reader.names)
    fitted = (reader.names, tuple(sorted(reader.categories)), tuple(range(width)))
    tables = {}
    for name, part in section["stored"].items():
        columns: dict[str, Any] = {field: tuple(part[field]) for field in TABLE_FIELDS}
        width = len(columns["names"])
        dense = arrays.get(f"{name}_values")
        values = csr(arrays, name, (n_nodes, width)) if dense is None else dense
        more: dict[str, Any] = {}
        if name == "fitted":
            more = {"categories": reader.categories, "dates": reader.dates}
        table = Table(values, **columns, **more)
        entries = table.values.data if table.is_sparse else table.values
        if name == "fitted":
            same = tuple(columns.values()) == fitted and table.is_sparse == reader.is_sparse
        else:
            is_text = all(isinstance(column, str) for column in table.names)
            same = name == "encoded" and is_text and table.origin == tuple(section["origin"])
            same = same and not table.categorical and len(table.origin) == width
        require(same, f"the stored table {name!r} must have the columns of the model")
        fits = table.values.shape == (n_nodes, width) and entries.dtype.kind == "f"
        require(fits, f"the stored table {name!r} must have {n_nodes} rows of {width} numbers")
        require(not np.isinf(entries).any(), f"the stored table {name!r} must be finite")
        for column in table.categorical:
            codes = table.values[:, column]
            known = np.isnan(codes) | np.isin(codes, np.arange(len(reader.categories[column])))
            require(known.all(), f"column {column} of the stored table must hold categories")
        tables[name] = table
    return tables


def read_pipeline(candidate: Candidate, arrays: Arrays, reader: TableReader) -> FeaturePipeline:
    """Return the pipeline of a candidate with its learned arrays."""
    pipeline = candidate.pipeline()
    if pipeline.neighbor_features is not None:
        names = [name for name in arrays if name.startswith("levels_")]
        pipeline.levels = {int(name.removeprefix("levels_")): arrays[name] for name in names}
        for column, codes in pipeline.levels.items():
            n_categories = len(reader.categories.get(column, ()))
            integers(arrays, f"levels_{column}", n_categories - 1, OTHERS)
            require(codes.size <= MAX_LEVELS, f"levels_{column} must be few categories")
    if pipeline.low_rank is not None:
        directions = pipeline.low_rank.directions = numbers(arrays, "directions", None, None)
        pipeline.low_rank.rarity = numbers(arrays, "rarity", len(directions))
        require(directions.shape[1] <= candidate.low_rank, "there are too many directions")
    if "rotation" in arrays:
        first, second, scale = numbers(arrays, "rotation", 3, high=1e9).tolist()
        fits = {first, second} <= set(range(len(reader.names))) and not reader.is_sparse
        require(fits, "rotation must name two columns")
        pipeline.rotation = (int(first), int(second), scale)
    if "encoder_prior" in arrays:
        pipeline.encoder = OrderedTargetEncoder()
        pipeline.encoder.prior = numbers(arrays, "encoder_prior", None)
        for name in arrays:
            if name.startswith("encoder_") and name != "encoder_prior":
                means = numbers(arrays, name, None, None)
                require(len(means), f"{name} must not be empty")
                pipeline.encoder.means[int(name.removeprefix("encoder_"))] = means
    return pipeline


def smoke_test(state: FittedState, takes_categories: bool) -> None:
    """Predict two rows with all parts: those that do not fit each other fail here, not later."""
    pipeline = state.pipeline
    reader = state.reader
    smoothing = state.candidate.smoothing
    for part in (smoothing, pipeline.feature_smoothing):
        settings = part.get_params(deep=False) if part is not None else {}
        numbers_of = [abs(value) for value in settings.values() if isinstance(value, int)]
        too_many = f"{part!r} takes more than {MAX_STEPS:,} steps"
        require(max(numbers_of, default=0) <= MAX_STEPS, too_many)
        linear = part is smoothing or getattr(part, "linear", True)
        require(linear, "feature_smoothing must be linear")
    encodes = not takes_categories and pipeline.low_rank is None
    encoded = set(reader.categories) if encodes else set()
    if pipeline.encoder is None:
        require(not encoded, "the encoding of categories is missing")
    else:
        means = pipeline.encoder.means
        require(set(means) == encoded and encoded, "the encoding of categories has other columns")
        sizes = {part.shape[1] for part in means.values()} | {pipeline.encoder.prior.size}
        require(sizes == {state.n_outputs}, "the encoding of categories has other outputs")
        complete = state.table is None or state.encoded_table is not None
        require(complete, "the stored table must come with the encoded one")
    width = len(reader.names)
    dense = pipeline.low_rank is None or reader.is_sparse
    require(dense, "low-rank directions are for sparse tables")
    values = sparse.csr_array((2, width)) if reader.is_sparse else np.zeros((2, width))
    columns = (reader.names, tuple(sorted(reader.categories)), tuple(range(width)))
    rows = Table(values, *columns, categories=reader.categories)
    graph = None
    if state.graph is not None:
        graph = Graph.from_edges([0], [1], directed=state.graph.outgoing is not None)
        if state.graph.groups is not None:
            graph = Graph.from_groups([0, 1])
        if state.graph.vectors is not None:
            n_vectors = state.graph.vectors.shape[1]
            graph = graph.with_vectors(np.zeros((2, n_vectors), dtype=np.float32))
    features = pipeline.transform(rows, graph)
    require(features.origin == state.column_origin, "the trees were grown on other columns")
    scores = np.zeros((2, state.n_outputs))
    if graph is not None and state.graph is not None and state.graph.is_signed:
        graph = Graph(-graph.adjacency)
    if graph is not None and smoothing is not None:
        scores = smoothing.operator(graph).apply(scores)
    loss = _checked_loss(state)
    if graph is not None and isinstance(state.candidate.labels, LatentField):
        posterior = state.candidate.labels.operator(graph, np.array([0]), np.ones(1))
        if loss.constant_curvature:
            posterior.posterior_mean(scores[:1])
    _check_field(state)
    linked = loss.inverse_link(state.init_score + scores)
    n_columns = 1 if state.classes is None else state.classes.size
    fits = linked.shape == (2, n_columns) and not np.isnan(linked).any()
    require(fits, "the loss has another number of outputs")


def _checked_loss(state: FittedState) -> Loss:
    """The loss that the models were trained with, which suits labels and predictions."""
    loss = state.training_loss
    if loss is not state.loss:
        fits = type(state.loss) is SquaredError and state.classes is None
        require(fits, "candidate.loss is for numbers that are trained with squared error elsewhere")
        loss.check(state.labels.target)
        is_mean = not loss.log_link or bool((state.raw_predictions >= 0.0).all())
        require(is_mean, "raw_predictions must not be negative")
    loss.prepared(state.labels.target, state.labels.weight)  # checks its parameters
    if loss.log_link:
        parts = (state.scores, state.propagated_scores, state.final_scores)
        largest = max(np.abs(part).max(initial=0.0) for part in parts)
        require(bool(largest <= MAX_LOG), f"logarithms of means must be within ±{MAX_LOG:.0f}")
    return loss


def _check_field(state: FittedState) -> None:
    """Check that the field has a mode at the scores of the labels; squared error needs no steps."""
    use = state.candidate.labels
    graph = state.graph
    loss = state.training_loss
    if graph is None or not isinstance(use, LatentField) or loss.constant_curvature:
        return
    labels = state.labels
    if state.is_causal or not labels.nodes.size:
        return
    posterior = use.operator(graph, labels.nodes, labels.weight)
    for scores in (state.fixed_scores + state.propagated_scores, state.final_scores):
        curvature = loss.curvature(scores[labels.nodes], labels.target)
        curvature = posterior.weight[:, None] * curvature
        require(bool(np.isfinite(curvature).all()), "the loss must be finite at the labels")
        posterior.solve_system(curvature, np.zeros_like(state.scores), 1.0)
