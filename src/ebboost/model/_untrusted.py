"""What must hold of a model file, beside its checksums, before it is used: the parts are of their kind and fit each other.

Anyone can compute a checksum. What is read from a file is therefore taken for a claim: indices must lie within what they
point into, as compiled loops follow them without looking, and two rows are predicted as a rehearsal. All that is not so is
a ``ValueError``. The trees have checks of their own, in ``learners/``.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ebboost.boosting.latent_field import LatentField
from ebboost.boosting.losses import Loss
from ebboost.boosting.masked_labels import MaskedLabels
from ebboost.data.schema import LARGEST
from ebboost.data.table import Table
from ebboost.graph import Graph, check_strengths
from ebboost.graph.ids import check_unique_ids
from ebboost.model.candidate import Candidate
from ebboost.model.state import FittedState
from ebboost.propagation import Smoother

# No model needs more of anything that is repeated at prediction: a file asking for it means harm.
MOST_STEPS = 100_000


def require(sound: Any, otherwise: str) -> None:
    """Refuse what is not so."""
    if not sound:
        raise ValueError(otherwise)


def is_whole(value: Any, least: int, most: int) -> bool:
    """Whether this is a whole number within bounds; ``True`` and ``1.0`` are none."""
    return type(value) is int and least <= value <= most


def check_manifest(manifest: dict[str, Any]) -> None:
    """Every part is there and of its kind; what is in it is checked where it is used."""
    kinds = {
        "format_version": int,
        "estimator": str,
        "parameters": dict,
        "fitted": dict,
        "node_ids": dict | None,
        "table": dict,
        "candidate": dict,
        "calibrated": list | None,
        "environment": dict,
    }
    for name, kind in kinds.items():
        require(isinstance(manifest[name], kind), f"its {name} is of the wrong kind")
    environment, table = manifest["environment"], manifest["table"]
    require(manifest["format_version"] >= 1, "there is no such format")
    require(
        all(isinstance(value, str | int) for value in environment.values()),
        "its environment is none",
    )
    names, categories = table["names"], table["categories"]
    require(
        isinstance(names, list) and names and all(isinstance(n, str) for n in names),
        "its columns have no names",
    )
    require(len(set(names)) == len(names), "two of its columns have the same name")
    require(
        isinstance(table["is_sparse"], bool) and isinstance(categories, dict), "its table is none"
    )
    sound = set(categories) <= set(map(str, range(len(names))))
    require(
        sound and all(isinstance(v, list) for v in categories.values()),
        "its categories are of no column",
    )
    origin, kept = table["origin"], table.get("kept", {})
    require(isinstance(origin, list) and isinstance(kept, dict), "its columns have no origin")
    require(all(is_whole(at, -1, len(names) - 1) for at in origin), "its columns come from nowhere")


def check_facts(facts: dict[str, Any], candidate: Candidate, is_classifier: bool) -> None:
    """Every learned value is of the kind that its name says."""
    require(isinstance(facts["loss"], Loss), "loss must be a Loss")
    require(isinstance(candidate.smoothing, Smoother | None), "smoothing must be a Smoother")
    label_uses = LatentField | MaskedLabels | None
    require(isinstance(candidate.labels, label_uses), "labels must be a LatentField")
    masked = isinstance(candidate.labels, MaskedLabels)
    require(not (is_classifier and masked), "a classifier does not take masked labels")
    for name in ("stop_reason", "conformity_source"):
        require(isinstance(facts[name], str), f"{name} must be text")
    require(is_whole(facts["n_iter"], 0, 10**9), "n_iter must be an integer")
    history, selection = (facts[name] for name in ("history", "selection"))
    is_dict = isinstance(history, dict) and isinstance(selection, dict)
    require(is_dict, "history and selection must be dicts")
    values = [*selection.values(), *(loss for losses in history.values() for loss in losses)]
    are_numbers = all(type(value) in (int, float) for value in values)
    require(are_numbers, "history and selection must hold numbers")
    for name in ("source", "relation_strengths"):
        require(isinstance(facts[name], dict | None), f"{name} must be a dict")
    strengths = facts["relation_strengths"]
    if strengths is not None:
        require(all(isinstance(name, str) for name in strengths), "relations must have text names")
        check_strengths(strengths, strengths)
    error = facts["calibration_error"]
    require(isinstance(error, float | None), "calibration_error must be a number")


def check_arrays(
    arrays: dict[str, NDArray[Any]], classes: Any, is_classifier: bool
) -> tuple[int, int]:
    """Scores, predictions and labels belong together; returns how many nodes and outputs there are."""
    n_nodes, n_outputs = numbers(arrays, "scores", None, None).shape
    width = 1
    require(n_nodes and n_outputs, "there are no scores")
    if is_classifier:
        require(
            isinstance(classes, np.ndarray) and classes.ndim == 1 and classes.size > 1,
            "it has no classes",
        )
        require(
            all(type(label) in (str, int, float, bool) for label in classes.tolist()),
            "classes of no kind",
        )
        check_unique_ids(classes, "classes")
        width = classes.size
    else:
        require(classes is None, "a regressor has no classes")
    require(
        n_outputs == width or (width == 2 and n_outputs == 1), f"scores have {n_outputs} columns"
    )
    numbers(arrays, "init_score", n_outputs)
    numbers(arrays, "propagated_scores", n_nodes, n_outputs)
    numbers(arrays, "raw_predictions", n_nodes, width)
    n_labels = positions(arrays, "label_nodes", n_nodes).size
    target, weight = (
        numbers(arrays, "label_target", n_labels, n_outputs),
        numbers(arrays, "label_weight", n_labels),
    )
    require(
        n_labels and (weight >= 0).all() and weight.any(),
        "it has no labels, or their weights are none",
    )
    n_held = positions(arrays, "validation_nodes", n_nodes).size
    numbers(arrays, "validation_target", n_held, n_outputs if n_held else None)
    numbers(arrays, "validation_prediction", n_held, width)
    if is_classifier:
        shares = target, arrays["raw_predictions"], arrays["validation_target"]
        require(
            all(((part >= 0) & (part <= 1 + 1e-6)).all() for part in shares),
            "probabilities are out of range",
        )
    else:
        errors = arrays["conformity_scores"]
        sound = (
            errors.ndim == 1
            and errors.dtype == np.float64
            and (errors >= 0).all()
            and (np.diff(errors) >= 0).all()
        )
        require(sound, "held_out_errors must be sorted and not negative")
    return n_nodes, n_outputs


def numbers(arrays: dict[str, NDArray[Any]], name: str, *shape: int | None) -> NDArray[np.float64]:
    """An array of numbers of this shape, None for any size, none of them beyond what scores can be."""
    found = arrays[name]
    fits = found.ndim == len(shape) and all(
        a in (None, b) for a, b in zip(shape, found.shape, strict=True)
    )
    require(
        fits and found.dtype.kind == "f",
        f"{name} must be numbers of shape {shape}, it has {found.shape}",
    )
    require((np.abs(found) <= LARGEST).all(), f"{name} holds a value that is not finite")
    return found


def positions(arrays: dict[str, NDArray[Any]], name: str, n_nodes: int) -> NDArray[np.int64]:
    """Different rows of the table."""
    found = arrays[name]
    require(found.ndim == 1 and found.dtype.kind == "i", f"{name} must be whole numbers")
    require(((found >= 0) & (found < n_nodes)).all(), f"{name} names a node that is not there")
    require(np.unique(found).size == found.size, f"{name} names a node twice")
    return found


def csr(arrays: dict[str, NDArray[Any]], name: str, shape: tuple[Any, ...]) -> sparse.csr_array:
    """A sparse matrix whose rows list columns that there are."""
    data, indices, indptr = (arrays[f"{name}_{part}"] for part in ("data", "indices", "indptr"))
    require(
        len(shape) == 2 and indptr.shape == (shape[0] + 1,) and shape[0] > 0,
        f"{name} has the wrong shape",
    )
    require(
        data.ndim == 1 and data.dtype.kind == "f" and indices.shape == data.shape,
        f"{name} has the wrong length",
    )
    whole = {np.dtype(np.int32), np.dtype(np.int64)}
    require({indices.dtype, indptr.dtype} <= whole, f"the indices of {name} must be whole numbers")
    rising = (indptr[1:] >= indptr[:-1]).all()  # their differences might overflow
    require(
        indptr[0] == 0 and indptr[-1] == data.size and rising,
        f"the rows of {name} are not in order",
    )
    require(
        ((indices >= 0) & (indices < shape[1])).all(), f"{name} names a column that is not there"
    )
    return sparse.csr_array((data, indices, indptr), shape=shape)


def graph(arrays: dict[str, NDArray[Any]], node_ids: Any, n_nodes: int) -> Graph | None:
    """The graph fitted on: symmetric, with finite weights and no loops."""
    if "graph_indptr" not in arrays:
        require(node_ids is None, "it has ids of nodes, and no graph")
        return None
    adjacency = csr(arrays, "graph", (n_nodes, n_nodes))
    double = adjacency.dtype == np.float64
    require(double and np.isfinite(adjacency.data).all(), "the weights of its graph are not finite")
    # Turned over, columns are in order and none of them twice, or it is not the same.
    turned, parts = adjacency.T.tocsr(), ("indptr", "indices", "data")
    same = all(np.array_equal(getattr(adjacency, part), getattr(turned, part)) for part in parts)
    require(
        same and turned.has_canonical_format and not adjacency.diagonal().any(),
        "its graph is not symmetric, or has loops",
    )
    if node_ids is not None:
        require(
            isinstance(node_ids, np.ndarray) and node_ids.shape == (n_nodes,),
            f"there must be {n_nodes} node ids",
        )
        check_unique_ids(node_ids)
    return Graph(adjacency, node_ids)


def smoke_test(state: FittedState, takes_categories: bool) -> None:
    """Predict two rows with all parts: those that do not fit each other fail here, not later."""
    pipeline = state.pipeline
    reader = state.reader
    smoothing = state.candidate.smoothing
    for part in (smoothing, pipeline.feature_smoothing):
        settings = part.get_params(deep=False) if part is not None else {}
        numbers_of = [abs(value) for value in settings.values() if isinstance(value, int)]
        too_many = f"{part!r} takes more than {MOST_STEPS:,} steps"
        require(max(numbers_of, default=0) <= MOST_STEPS, too_many)
        linear = part is smoothing or getattr(part, "linear", True)
        require(linear, "feature_smoothing must be linear")
    encodes = not takes_categories and pipeline.low_rank is None
    encoded = set(reader.categories) if encodes else set()
    if pipeline.encoder is None:
        require(not encoded, "the encoding of categories is missing")
    else:
        means, prior = pipeline.encoder.means, pipeline.encoder.prior
        require(set(means) == encoded and encoded, "the encoding of categories has other columns")
        sizes = {part.shape[1] for part in means.values()} | {prior.size}
        require(sizes == {state.n_outputs}, "the encoding of categories has other outputs")
    width = len(reader.names)
    dense = pipeline.low_rank is None or reader.is_sparse
    require(dense, "low-rank directions are for sparse tables")
    values = sparse.csr_array((2, width)) if reader.is_sparse else np.zeros((2, width))
    rows = Table(values, reader.names, tuple(sorted(reader.categories)), tuple(range(width)))
    graph = None if state.graph is None else Graph.from_edges([0], [1])
    features = pipeline.apply(rows, graph)
    require(features.origin == state.column_origin, "the trees were grown on other columns")
    scores = np.zeros((2, state.n_outputs))
    if graph is not None and smoothing is not None:
        scores = smoothing.operator(graph).apply(scores)
    if graph is not None and isinstance(state.candidate.labels, LatentField):
        posterior = state.candidate.labels.operator(graph, np.array([0]), np.ones(1))
        posterior.posterior_mean(scores[:1])
    linked = state.loss.inverse_link(state.init_score + scores)
    fits = linked.shape == (2, state.raw_predictions.shape[1]) and not np.isnan(linked).any()
    require(fits, "the loss has another number of outputs")
