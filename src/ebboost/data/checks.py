"""Checks of the data that users pass to estimators: tables, graphs, labels, weights, nodes."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import DataConversionWarning

from ebboost._common import Array, IntArray, check_number, warn_caller
from ebboost.data.reader import check_integers, check_real, column_of
from ebboost.data.row_order import RowOrder, index_of
from ebboost.data.table import Table
from ebboost.graph import Graph
from ebboost.graph.ids import is_missing

# Trees use single precision and losses squares: labels must not be larger, or closer together.
MAX_LABEL = 1e30
MIN_EXTENT = 1e-30
# Every round grows a tree for each class, and every node has a score for each: 4000 nodes and
# 1000 classes took 0.8 GB and two seconds a round, both in proportion to nodes times classes.
MAX_CLASSES = 1_000
# Numbers that often stand for an unknown label.
MISSING_CODES = (-1, -99, -999, -9999, -99999)
# Larger weights are divided by the largest.
MAX_WEIGHT = 1e100
# Scores with other links than the identity: exponentials of them, and their squares, are in range.
MAX_SCORE = 230.0
# Offsets may be so many times larger than labels, from which they are subtracted.
MAX_OFFSET_RATIO = 1e6


def check_graph(graph: object, n_rows: int, X: object) -> None:
    """Raise an error unless the graph has a node for every row of ``X``, in the same order."""
    if not isinstance(graph, Graph):
        raise TypeError(
            f"graph must be an ebboost.Graph, got {type(graph)}. Create one with "
            "Graph.from_scipy, Graph.from_networkx, Graph.from_edges or another from_*."
        )
    if graph.n_nodes != n_rows:
        raise ValueError(
            f"X has {n_rows} rows but graph has {graph.n_nodes} nodes: X needs one row per node, "
            "in the same order, labelled or not; where rows share nodes, pass groups=. To "
            "cross-validate or search, use ebboost.cross_validate and ebboost.tune, which hide "
            "labels, not rows."
        )
    index = index_of(X)
    if index is None or len(index) != n_rows:
        return
    if graph.has_ids:
        # Rows in another order would belong to the wrong nodes.
        rows = list(index)
        ids = graph.node_ids.tolist()
        if rows != ids and set(rows) == set(ids):
            row = next(i for i in range(n_rows) if rows[i] != ids[i])
            raise ValueError(
                f"The index of X lists the nodes of graph in another order: row {row} is "
                f"{rows[row]!r}, node {row} is {ids[row]!r}. Sort it: X.loc[graph.node_ids]."
            )
    elif _is_shuffled(index):
        raise ValueError(
            f"Row 0 of X has the label {index[0]}, and graph has no ids: the index of X is 0 to "
            f"{n_rows - 1} in another order, and row 0 must be node 0. Sort it, X.sort_index(), or "
            "pass X.reset_index(drop=True) if its rows are in the order of the nodes."
        )


def _is_shuffled(index: Any) -> bool:
    """Whether an index is 0 to n - 1 in another order."""
    if getattr(index, "start", None) == 0 and getattr(index, "step", None) == 1:
        return False
    numbers = np.asarray(index)
    if index.nlevels > 1 or numbers.dtype.kind not in "iu":
        return False
    expected = np.arange(numbers.size)
    return not np.array_equal(numbers, expected) and np.array_equal(np.sort(numbers), expected)


def labelled_nodes(
    y: object,
    nodes: ArrayLike | None,
    sample_weight: ArrayLike | None,
    n_rows: int,
    classes: bool,
    estimator: str,
    may_be_none: bool = False,
) -> tuple[IntArray, NDArray[Any], Array]:
    """Return positions, labels and weights of the labelled nodes; ``may_be_none``: of 0 too."""
    if y is None:
        problem = f"{estimator} requires y to be passed, but the target y is None"
        raise ValueError(f"{problem}. Pass the labels, with NaN or None where unknown.")
    if nodes is None:
        positions = np.arange(n_rows)
        values = _label_array(y, "y", classes)
        _check_label_range(values, "y")
    else:
        positions, values = _listed_labels(nodes, y, n_rows, classes, "nodes", "y")
    if positions.size != values.size:
        raise ValueError(
            f"y has {values.size} labels but X has {n_rows} rows (inconsistent numbers of "
            "samples). Pass a label for every row, NaN where unknown, or their rows as nodes=."
        )
    weight = np.ones(values.size)
    if sample_weight is not None:
        weight = _weights(sample_weight, values.size)
    known = ~_missing(values)
    used = known & (weight > 0)
    if not used.any() and not may_be_none:
        reason = "sample_weight is zero wherever y holds a label"
        if not known.any():
            reason = "y holds no known label, and at least one is needed"
        raise ValueError(f"No node is labelled: {reason}.")
    labels = _plain(values[used]) if classes else values[used]
    _warn_of_missing_code(labels, classes)
    return positions[used], labels, weight[used]


def _warn_of_missing_code(labels: NDArray[Any], classes: bool) -> None:
    """Warn of the only negative number among labels if it is one that often means unknown."""
    if labels.dtype.kind not in "if":
        return
    code = labels.min(initial=0)
    others = labels[labels != code]
    n_codes = labels.size - others.size
    if code not in MISSING_CODES or not others.size or others.min() < 0 or n_codes < 2:
        return
    # -1 and 1 are two classes, and -1, 0 and 1 may be numbers.
    if code == -1 and (others.min() > 0 if classes else others.max() <= 1):
        return
    warn_caller(
        f"y is {code:g} in {n_codes} rows and negative nowhere else. If this means that the label "
        f"is unknown, replace it by NaN or None (command line: --missing {code:g})."
    )


def check_discrete(values: NDArray[Any]) -> None:
    """Raise ValueError if labels of a classifier are not integers, text or bool."""
    if values.dtype.kind == "f" and (values != np.floor(values)).any():
        example = values[values != np.floor(values)][0]
        raise ValueError(
            f"Unknown label type: continuous. y holds numbers such as {example:g}: use "
            "EBBSRegressor or, if they are classes, convert them to text or integers."
        )


def check_n_classes(classes: NDArray[Any]) -> None:
    """Raise ValueError unless there are at least two classes, and at most ``MAX_CLASSES``."""
    if classes.size < 2:
        problem = f"y holds only one class, {classes.tolist()[0]!r}"
        raise ValueError(f"{problem}: the labelled nodes must have at least two classes.")
    if classes.size > MAX_CLASSES:
        raise ValueError(
            f"y holds {classes.size} classes, more than {MAX_CLASSES}. Merge rare classes, or "
            "predict coarser ones first. If y holds ordered numbers, use EBBSRegressor."
        )


def extra_labels(
    pair: object,
    trained_on: IntArray,
    n_rows: int,
    classes: bool,
    name: str = "eval_set",
    may_be_none: bool = False,
) -> tuple[IntArray, NDArray[Any]]:
    """Return positions and labels of further labelled nodes, none of them trained on."""
    if not isinstance(pair, (tuple, list)) or len(pair) != 2:
        raise ValueError(f"{name} must be a pair (nodes, labels): rows of X, and their labels.")
    if not _is_flat(pair[0]):
        raise ValueError(
            f"{name} must be (nodes, labels) with nodes a list of rows of X; a table of its own "
            "has no nodes in the graph. Put those rows into X and leave their labels out of y."
        )
    nodes, y = pair
    positions, values = _listed_labels(nodes, y, n_rows, classes, f"{name}[0]", f"{name}[1]")
    if not positions.size and name == "eval_set" and not may_be_none:
        raise ValueError("eval_set is empty: pass at least one labelled node, or leave it out.")
    shared = np.intersect1d(positions, trained_on)
    if shared.size:
        remedy = "the model has used that label already. Leave it out."
        if name == "eval_set":
            remedy = "validation nodes must not be trained on. Set y to NaN there."
        raise ValueError(
            f"{name} and y share {shared.size} labelled node(s), such as row {shared[0]}: {remedy}"
        )
    return positions, _plain(values)


def _listed_labels(
    nodes: ArrayLike, y: object, n_rows: int, classes: bool, nodes_name: str, name: str
) -> tuple[IntArray, NDArray[Any]]:
    """Return positions and labels of listed nodes, which must be known."""
    positions = node_positions(nodes, n_rows, nodes_name)
    values = _label_array(y, name, classes)
    if positions.size != values.size:
        problem = f"{nodes_name} names {positions.size} rows but {name} has {values.size} labels"
        raise ValueError(f"{problem}: pass one for each.")
    missing = np.flatnonzero(_missing(values))
    if missing.size:
        problem = f"{name} has no label (NaN) at position {missing[0]} although {nodes_name}"
        raise ValueError(f"{problem} lists that row as labelled: take it out of both.")
    _check_label_range(values, name)
    return positions, values


def node_positions(
    nodes: ArrayLike, n_rows: int, name: str = "nodes", *, repeats: bool = False, table: str = "X"
) -> IntArray:
    """Return row positions from integers or a mask: in range and, unless ``repeats``, unique."""
    array = np.asarray(nodes)
    if array.ndim != 1:
        raise ValueError(f"{name} must be a one-dimensional list of rows, got shape {array.shape}.")
    if array.dtype == bool:
        if array.size != n_rows:
            raise ValueError(
                f"{name} is a mask of {array.size} entries, {table} has {n_rows} rows."
            )
        return np.flatnonzero(array)
    if array.size == 0:
        return np.zeros(0, dtype=np.int64)
    if array.dtype.kind not in "iu":
        raise TypeError(
            f"{name} must hold row positions (integers) or be a boolean mask, got dtype "
            f"{array.dtype}. For node ids use graph.index_of(ids)."
        )
    outside = np.flatnonzero((array < 0) | (array >= n_rows))
    if outside.size:
        problem = f"{name} names row {array[outside[0]]} at position {outside[0]}, {table} has rows"
        raise ValueError(f"{problem} 0 to {n_rows - 1}. For node ids use graph.index_of(ids).")
    unique = np.unique(array, return_index=True)[1]
    if unique.size != array.size and not repeats:
        second = int(np.setdiff1d(np.arange(array.size), unique)[0])
        problem = f"{name} names row {array[second]} twice, the second time at position {second}"
        raise ValueError(f"{problem}: list each once.")
    return array.astype(np.int64)


def scored_labels(
    y: object,
    sample_weight: ArrayLike | None,
    nodes: ArrayLike | None,
    n_rows: int,
    classes: bool,
    order: RowOrder,
) -> tuple[NDArray[Any], IntArray, Array | None]:
    """Return labels, rows and weights where the label is known."""
    if y is None:
        raise ValueError("score needs y, the true labels.")
    nodes = order.rows(nodes)
    order.check(nodes, y=y, sample_weight=sample_weight)
    truth = _label_array(y, "y", classes)
    weight = None if sample_weight is None else _weights(sample_weight, truth.size)
    rows = np.arange(n_rows) if nodes is None else node_positions(nodes, n_rows)
    if truth.size == n_rows != rows.size:  # labels of every row, not of the rows listed
        truth = truth[rows]
        weight = None if weight is None else weight[rows]
    if truth.size != rows.size:
        problem = f"y has {truth.size} labels for {rows.size} predictions"
        raise ValueError(f"{problem}: pass the rows they belong to as nodes=.")
    known = ~_missing(truth)
    if not known.any():
        raise ValueError("y holds no known label to score against.")
    return _plain(truth[known]), rows[known], None if weight is None else weight[known]


def _label_array(y: Any, name: str, classes: bool) -> NDArray[Any]:
    """Return labels as a 1-D array; of a regressor as float64, with NaN where unknown."""
    if hasattr(y, "to_pylist"):
        y = y.to_pylist()
    elif hasattr(y, "to_numpy") and not isinstance(y, np.ndarray):
        y = y.to_numpy()
    try:
        values = np.asarray(y)
        if values.dtype.kind in "US" and isinstance(y, (list, tuple)):
            values = np.asarray(y, dtype=object)  # numpy would convert NaN and numbers to text
    except ValueError:
        raise ValueError(f"{name} must be a flat list of labels.") from None
    if values.ndim == 2 and values.shape[1] == 1:
        warn_caller(
            f"A column-vector {name} was passed when a 1d array was expected. Please change the "
            f"shape of {name} to (n_samples,), for example using ravel().",
            DataConversionWarning,
        )
        values = values.ravel()
    if values.ndim != 1:
        raise ValueError(f"{name} should be a 1d array, got an array of shape {values.shape}.")
    if values.dtype == np.float64:  # neither complex nor too large to be exact
        return values
    check_real(values, name)
    if classes:
        return values
    if values.dtype.kind in "mM":
        text = f"{name} must hold numbers for a regressor, got dates or times ({values.dtype})"
        raise ValueError(f"{text}. Convert them, to days since the first, say.")
    if values.dtype.kind == "O":
        values = np.where(_missing(values), np.nan, values)
    check_integers(values, name)
    try:
        return values.astype(np.float64)
    except (TypeError, ValueError):
        position = next(i for i, value in enumerate(values.tolist()) if not _is_number(value))
        problem = f"position {position} is {values.tolist()[position]!r}"
        must_be = f"{name} must hold numbers for a regressor"
        raise ValueError(f"{must_be}: {problem}. For classes use EBBSClassifier.") from None


def _is_flat(values: Any) -> bool:
    try:
        return np.ndim(values) == 1
    except ValueError:  # lists of unequal lengths
        return False


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return value is None
    return True


def _missing(values: NDArray[Any]) -> NDArray[np.bool_]:
    if values.dtype.kind == "f":
        return np.isnan(values)
    if values.dtype.kind != "O":
        return np.zeros(values.size, dtype=bool)
    return np.fromiter((is_missing(value) for value in values.tolist()), bool, values.size)


def _plain(values: NDArray[Any]) -> NDArray[Any]:
    """Return objects of one type as an array of that type, so that classes sort."""
    if values.dtype.kind != "O":
        return values
    items = [value.item() if isinstance(value, np.generic) else value for value in values.tolist()]
    types = {type(value) for value in items}
    if len(types) > 1 and not types <= {int, float, bool}:
        names = sorted(kind.__name__ for kind in types)
        raise ValueError(f"y mixes labels of different kinds: {names}. Use one kind.")
    return np.asarray(items, dtype=object if types == {str} else None)


def _check_label_range(values: NDArray[Any], name: str) -> None:
    """Raise ValueError for labels that are infinite, too large, or too close to each other."""
    if values.dtype.kind != "f" or np.isnan(values).all():
        return
    size = np.abs(values)
    position = int(np.nanargmax(size))
    if np.isinf(size[position]):
        raise ValueError(
            f"Input y contains infinity or a value too large for dtype('float64'): {name}, "
            f"position {position}. Use NaN for unknown labels."
        )
    if size[position] > MAX_LABEL:
        raise ValueError(
            f"{name}, position {position} is {values[position]:g}: trees use single precision, and "
            f"labels may be as large as {MAX_LABEL:g}. Rescale them."
        )
    extent = float(np.nanmax(values) - np.nanmin(values))
    if 0.0 < extent < MIN_EXTENT:
        problem = f"The range of {name} ({extent:g}) is below {MIN_EXTENT:g}, too small for trees"
        raise ValueError(f"{problem}, which use single precision. Rescale the labels.")


def _weights(sample_weight: ArrayLike, size: int) -> Array:
    """Return finite non-negative weights, one per label; relative ones if they are extreme."""
    if isinstance(sample_weight, str):
        problem = f"sample_weight must hold numbers, one per label, got the text {sample_weight!r}"
        raise ValueError(f"{problem}: pass X.pop({sample_weight!r}).")
    check_real(sample_weight, "sample_weight")
    try:
        weight = np.asarray(sample_weight, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"sample_weight must hold numbers, one per label ({error}).") from None
    if weight.ndim == 0:
        weight = np.full(size, float(weight))
    if weight.shape != (size,):
        expected = f"expected ({size},): one for each entry of y"
        raise ValueError(f"sample_weight.shape == {weight.shape}, {expected}.")
    invalid = np.flatnonzero(~np.isfinite(weight) | (weight < 0))
    if invalid.size:
        problem = f"position {invalid[0]} is {weight[invalid[0]]}"
        raise ValueError(f"sample_weight must be finite and not negative, {problem}.")
    largest = float(weight.max(initial=0.0))
    if largest > 0.0 and not 1.0 / MAX_WEIGHT < largest < MAX_WEIGHT:
        weight = weight / largest  # only proportions matter, and their sums are finite
    return weight


def offset_column(offset: object, exposure: object, n_rows: int, log_link: bool) -> Array | None:
    """Return what is added to the scores of each row, shape (n_rows, 1): log exposure or offset."""
    if offset is not None and exposure is not None:
        raise ValueError("Pass offset or exposure, which is its exponential, not both.")
    if exposure is not None and not log_link:
        raise ValueError(
            "exposure needs a loss of counts, of amounts, or 'binomial', such as loss='poisson'. "
            "Use offset for what is added to the score."
        )
    name = "offset" if exposure is None else "exposure"
    values = offset if exposure is None else exposure
    if values is None:
        return None
    column = row_numbers(values, n_rows, name)
    scores = column if exposure is None else np.log(column)
    row = int(np.abs(scores).argmax()) if n_rows else 0
    if n_rows and abs(scores[row]) > (MAX_SCORE if log_link else MAX_LABEL):
        limits = f"{name} must be from -{MAX_LABEL:g} to {MAX_LABEL:g}"
        if log_link:
            limits = f"offset must be from -{MAX_SCORE:g} to {MAX_SCORE:g}, as it is exponentiated"
            limits = limits if exposure is None else "exposure must be from 1e-100 to 1e+100"
        raise ValueError(f"{limits}; row {row} is {column[row]:g}.")
    return scores[:, None]


def row_numbers(values: Any, n_rows: int, name: str) -> Array:
    """Return a finite number for each row; of an exposure, a positive one."""
    if isinstance(values, str):
        raise ValueError(
            f"{name} must hold numbers, one per row of X, got the text {values!r}: pass "
            f"X.pop({values!r}), which is then no feature either."
        )
    check_real(values, name)
    try:
        column = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must hold numbers, one per row of X ({error}).") from None
    if column.ndim == 0:
        column = np.full(n_rows, float(column))
    if column.shape != (n_rows,):
        raise ValueError(
            f"{name} must have a number for each of {n_rows} rows, got {column.shape}."
        )
    is_valid = np.isfinite(column)
    if name == "exposure":
        is_valid &= column > 0
    if not is_valid.all():
        row = int(np.flatnonzero(~is_valid)[0])
        condition = "positive and finite" if name == "exposure" else "finite"
        raise ValueError(f"{name} must be {condition} in every row, row {row} is {column[row]}.")
    return column


def as_times(time: object) -> Array:
    """Return numbers or dates, one for each row, as numbers: dates as days since 1970."""
    check_real(time, "time")
    values = np.asarray(time)
    must_be = "time must be a number or a date in every row"
    try:
        if values.dtype.kind not in "biuf":
            dates = values.astype("datetime64[us]")
            values = np.where(np.isnat(dates), np.nan, dates.astype(np.int64) / 86_400e6)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{must_be} ({error}).") from None
    values = values.astype(np.float64)
    if values.ndim != 1 or not np.isfinite(values).all():
        row = np.flatnonzero(~np.isfinite(values))
        problem = f"row {row[0]} has none" if values.ndim == 1 else f"got shape {values.shape}"
        raise ValueError(f"{must_be}, {problem}.")
    return values


def time_column(time: object, table: Table) -> Array:
    """Return the time of each row: a column of X by its name, or numbers or dates as passed."""
    if isinstance(time, str):
        column = table.names.index(time) if time in table.names else None
        if column is None or table.is_sparse:
            raise ValueError(
                f"time={time!r} is not a column of numbers or dates of X: pass an array."
            )
        if column in table.categorical:
            raise ValueError(f"time must be numbers or dates, column {time!r} holds categories.")
        time = table.values[:, column]
    values = as_times(time)
    if values.size != table.n_rows:
        raise ValueError(f"time must have {table.n_rows} entries, got {values.size}.")
    return values


def check_class_weight(weights: object, classes: NDArray[Any]) -> None:
    """Raise ValueError unless ``weights`` are None, "balanced" or a positive number per class."""
    if not isinstance(weights, Mapping):
        return
    labels = classes.tolist()
    unknown = [name for name in weights if name not in labels]
    missing = [name for name in labels if name not in weights]
    if unknown and missing:  # a class that is not among these labels is valid, a misspelt one not
        problem = f"class_weight names {unknown[0]!r}, which is not a class of y"
        raise ValueError(f"{problem}, and has no weight for {missing[0]!r}.")
    for name, weight in weights.items():
        check_number(f"class_weight[{name!r}]", weight, low=0.0, high=MAX_WEIGHT, closed="neither")


def group_column(X: object, groups: object, n_rows: int, name: str = "") -> Any:
    """Return the group of each row: a column of ``X`` by its name, or as it was passed."""
    argument = f"groups[{name!r}]" if name else "groups"
    values: Any = column_of(X, groups, argument) if isinstance(groups, str) else groups
    values = values.to_numpy() if hasattr(values, "to_numpy") else values
    if len(values) != n_rows:
        raise ValueError(f"{argument} has {len(values)} entries, X has {n_rows} rows.")
    return values


def check_offset_size(offset: Array, target: Array, classes: bool) -> None:
    """Raise ValueError for an offset far beyond the labels, which it is added to the score of."""
    largest = MAX_SCORE
    if not classes:
        largest = MAX_OFFSET_RATIO * max(float(np.abs(target).max(initial=0.0)), 1.0)
    row = int(np.abs(offset).argmax())
    if abs(offset[row, 0]) > largest:
        raise ValueError(
            f"offset, row {row} is {offset[row, 0]:g}, far beyond the labels: it is added to the "
            f"score of that row, and may be as large as {largest:g}. Correct it."
        )
