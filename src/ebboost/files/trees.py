"""Trees and networks from a model file, checked before a library parses or follows them.

The libraries follow the indices in a file without checking them: a child that is its own ancestor,
or a column that the table does not have, would loop forever or read foreign memory. What passes
here is a tree. Errors are of type ``ValueError``, or whatever malformed JSON leads to.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebboost._common import IntArray
from ebboost.files.archive import parse_json

Sizes = Mapping[int, int]  # number of categories of each column that holds such
LARGEST = 1e150  # of a score: its square, and sums of such, are finite
MAX_LEAVES = 131_072
MAX_DEPTH = 1_000  # libraries recurse
INT32_MAX = int(np.iinfo(np.int32).max)


def require(condition: object, message: str) -> None:
    """Raise ``ValueError`` unless the condition holds."""
    if not condition:
        raise ValueError(message)


def check_array(
    name: str,
    array: NDArray[Any],
    shape: Any,
    low: float = -LARGEST,
    high: float = LARGEST,
    kind: str = "f",
) -> None:
    """Check the shape (None for any size), the kind of the numbers and their range; no NaN."""
    fits = array.ndim == len(shape) and array.dtype.kind == kind
    fits = fits and all(want in (None, size) for want, size in zip(shape, array.shape, strict=True))
    noun = "numbers" if kind == "f" else "integers"
    require(fits, f"{name} must be {noun} of shape {shape}, got {array.dtype} {array.shape}")
    in_range = not array.size or bool(low <= array.min() and array.max() <= high)
    require(in_range, f"{name} must be from {low:g} to {high:g}")


def as_numbers(
    name: str, values: list[Any], low: Any, high: Any, kind: type = float
) -> NDArray[Any]:
    """Return numbers of JSON as an array; ``low`` and ``high`` are numbers, or one for each."""
    kinds = {int, float} if kind is float else {int}
    require(set(map(type, values)) <= kinds, f"{name} must be numbers of type {kind.__name__}")
    array: NDArray[Any] = np.array(values, dtype=kind)
    require(((array >= low) & (array <= high)).all(), f"{name} must be within its range")
    return array


def check_forest(left: IntArray, right: IntArray, roots: IntArray) -> None:
    """Check the children of the nodes of all trees, −1 at leaves.

    Every node but the roots is the child of exactly one other, which precedes it.
    """
    inner = np.flatnonzero(left != -1)
    children = np.concatenate([left[inner], right[inner]])
    others = np.delete(np.arange(left.size), roots)
    is_forest = np.array_equal(np.sort(children), others) and (right[left == -1] == -1).all()
    require(is_forest, "the nodes of a tree must form a tree")
    in_order = (np.minimum(left[inner], right[inner]) > inner).all()
    require(in_order, "children of a tree must follow their parents")
    level, depth = roots, 0
    while level.size and depth < MAX_DEPTH:
        level = level[left[level] != -1]
        level = np.concatenate([left[level], right[level]])
        depth += 1
    require(not level.size, f"a tree is deeper than {MAX_DEPTH} levels")


_NUMBER = r"-?(?:\d{1,24}(?:\.\d{1,24})?(?:e[-+]?\d{1,3})?|inf)"
# Of a column: without a split, its range, or its categories.
_INFO = rf"(?:none|\[{_NUMBER}:{_NUMBER}\]|-?\d{{1,9}}(?::-?\d{{1,9}})*)"
_REST = re.compile(
    r"end of trees\n\nfeature_importances:\n(?:[^\s=]+=[^\s=]+\n)*"
    r"(?:\nparameters:\n\nend of parameters\n)?\npandas_categorical:null\n",
    flags=re.ASCII,
)
_CHARACTERS = set("0123456789+-.einf ")


def check_lightgbm(text: str, n_columns: int, n_outputs: int) -> None:
    """Check LightGBM's text: the lines before the trees, those of all trees, those after them."""
    from ebboost.learners.lightgbm import split_text

    head, texts, rest = split_text(text)
    more = f"{{{n_columns - 1}}}"
    pattern = (
        rf"tree\nversion=v\d+\nnum_class={n_outputs}\nnum_tree_per_iteration={n_outputs}\n"
        rf"label_index=0\nmax_feature_idx={n_columns - 1}\n(?:objective=gamma\n)?"
        rf"feature_names=\S+(?: \S+){more}\n(?:monotone_constraints=-?[01](?: -?[01]){more}\n)?"
        rf"feature_infos={_INFO}(?: {_INFO}){more}\ntree_sizes=[\d ]*\n\n"
    )
    is_head = n_columns and re.fullmatch(pattern, head)
    require(is_head, f"trees.txt must describe {n_columns} columns and {n_outputs} outputs")
    require(len(texts) % n_outputs == 0, f"trees.txt must have {n_outputs} trees a round")
    require(_REST.fullmatch(rest), "trees.txt: malformed text after the last tree")
    trees = []
    for number, tree in enumerate(texts):
        pairs = [line.split("=") for line in tree.rstrip("\n").split("\n")]
        trees.append(dict(pairs))  # ValueError for other lines
        require(len(trees[-1]) == len(pairs), f"tree {number} must have each line once")
    if trees:
        _check_lightgbm_trees(trees, n_columns)


def _check_lightgbm_trees(trees: Sequence[Mapping[str, str]], n_columns: int) -> None:
    """Check trees of inner nodes 0 … n − 2 and leaves −1 … −n, each line of all trees at once."""

    def sizes_of(name: str) -> IntArray:
        values = (tree.get(name, "") for tree in trees)
        return np.array([value.count(" ") + 1 if value else 0 for value in values])

    def read(name: str, sizes: IntArray, low: Any, high: Any, kind: type = float) -> NDArray[Any]:
        known.add(name)
        require(np.array_equal(sizes, sizes_of(name)), f"{name} must have a number for each node")
        joined = " ".join(tree[name] for tree in trees if tree.get(name))
        require(_CHARACTERS.issuperset(joined), f"{name} must be numbers")
        values = json.loads(f"[{joined}]".replace(" ", ",").replace("inf", "Infinity"))
        return as_numbers(name, values, low, high, kind)

    known: set[str] = set()
    once = np.ones(len(trees), dtype=np.int64)
    leaves = read("num_leaves", once, 1, MAX_LEAVES, int)
    n_sets = read("num_cat", once, 0, MAX_LEAVES, int)
    splits = leaves - 1
    read("split_feature", splits, 0, n_columns - 1, int)
    for name in ("split_gain", "internal_value", "internal_weight"):
        read(name, splits, -np.inf, np.inf)
    read("internal_count", splits, 0, INT32_MAX, int)
    read("leaf_value", leaves, -LARGEST, LARGEST)
    # Of a tree without splits, one or none.
    read("leaf_weight", np.where(splits, leaves, sizes_of("leaf_weight") > 0), -LARGEST, LARGEST)
    read("leaf_count", np.where(splits, leaves, sizes_of("leaf_count") > 0), 0, INT32_MAX, int)
    read("is_linear", once, 0, 0, int)
    read("shrinkage", once, -LARGEST, LARGEST)
    own, nodes = np.repeat(splits, splits), splits + leaves
    roots = np.cumsum(nodes) - nodes
    first = np.repeat(roots, splits)
    inner = first + np.arange(own.size) - np.repeat(np.cumsum(splits) - splits, splits)
    sides = np.full((2, int(nodes.sum())), -1)
    for side, name in zip(sides, ("left_child", "right_child"), strict=True):
        child = read(name, splits, -own - 1, own - 1, int)
        side[inner] = first + np.where(child < 0, own + ~child, child)
    check_forest(sides[0], sides[1], roots)
    by_category = read("decision_type", splits, 0, 11, int) % 2 == 1
    sets = read("threshold", splits, -np.inf, np.inf)[by_category]
    is_set = (
        (sets == np.floor(sets)) & (sets >= 0) & (sets < np.repeat(n_sets, splits)[by_category])
    )
    require(is_set.all(), "a split names no category set")
    sizes = np.where(n_sets > 0, n_sets + 1, 0)
    ends = read("cat_boundaries", sizes, 0, INT32_MAX, int)
    of_trees = [part for part in np.split(ends, np.cumsum(sizes)[:-1]) if part.size]
    increasing = all(part[0] == 0 and (np.diff(part) >= 0).all() for part in of_trees)
    require(increasing, "cat_boundaries must increase from 0")
    n_words = np.zeros(len(trees), dtype=np.int64)
    n_words[n_sets > 0] = [part[-1] for part in of_trees]
    read("cat_threshold", n_words, 0, 2**32 - 1, int)
    require(all(tree.keys() <= known for tree in trees), "a tree must have known lines")


def check_xgboost(content: bytes, n_columns: int, n_outputs: int, categories: Sizes) -> None:
    """Check XGBoost's JSON; its own parser checks the lengths of arrays, not their values."""
    document = parse_json(content)
    trees = document["learner"]["gradient_booster"]["model"]["trees"]
    sizes = np.array([len(tree["left_children"]) for tree in trees], dtype=np.int64)
    roots = np.cumsum(sizes) - sizes
    first, last = np.repeat(roots, sizes), np.repeat(sizes - 1, sizes)

    def read(name: str, low: Any, high: Any, kind: type = int) -> NDArray[Any]:
        fits = [len(tree[name]) for tree in trees] == sizes.tolist()
        require(fits or "categories" in name, f"{name} must have a number for each node")
        values = [value for tree in trees for value in tree[name]]
        return as_numbers(name, values, low, high, kind)

    sides = [read(name, -1, last) for name in ("left_children", "right_children")]
    left, right = (np.where(side < 0, -1, side + first) for side in sides)
    check_forest(left, right, roots)
    columns = read("split_indices", 0, n_columns - 1)
    by_category = read("split_type", 0, 1) == 1
    read("default_left", 0, 1)
    for name in ("base_weights", "split_conditions", "loss_changes", "sum_hessian"):
        read(name, -1e30, 1e30, float)  # XGBoost adds up in single precision
    is_inner = left != -1
    require((is_inner | ~by_category).all(), "a leaf must not split")
    parents = np.full(left.size, INT32_MAX)
    for children in (left, right):
        parents[children[is_inner]] = (np.arange(left.size) - first)[is_inner]
    # Sets of categories, one after the other: XGBoost allocates up to the largest code of each.
    codes, counts = read("categories", 0, INT32_MAX), read("categories_sizes", 0, INT32_MAX)
    most = [categories.get(column, 0) for column in columns[by_category].tolist()]
    limits = np.repeat(np.array(most, dtype=int), counts)
    fits = codes.size == limits.size and (codes < limits).all()
    require(fits, "categories must be those of the table")
    expected = []
    for number, (tree, start, size) in enumerate(zip(trees, roots, sizes, strict=True)):
        own, widths = slice(start, start + size), np.array(tree["categories_sizes"], dtype=int)
        require(widths.sum() == len(tree["categories"]), "categories must be those of the splits")
        parameters = {"num_deleted": "0", "num_feature": str(n_columns), "num_nodes": str(size)}
        derived = {
            "id": number,
            "tree_param": {**parameters, "size_leaf_vector": "1"},
            "parents": parents[own].tolist(),
            "categories_nodes": np.flatnonzero(by_category[own]).tolist(),
            "categories_segments": (np.cumsum(widths) - widths).tolist(),
        }
        require(len(tree) == 16, f"tree {number} must have the parts of a tree")
        expected.append({**tree, **derived})
    kinds = ["c" if column in categories else "q" for column in range(n_columns)]
    as_numbers("version", document["version"], 0, 999, int)
    model = {
        "cats": {"enc": [], "feature_segments": [], "sorted_idx": []},
        "gbtree_model_param": {"num_parallel_tree": "1", "num_trees": str(len(trees))},
        "iteration_indptr": list(range(0, len(trees) + 1, n_outputs)),
        "tree_info": list(range(n_outputs)) * (len(trees) // n_outputs),
        "trees": expected,
    }
    learner = {
        "attributes": {},
        "feature_names": [],
        "feature_types": kinds if categories else [],
        "gradient_booster": {"name": "gbtree", "model": model},
        "learner_model_param": {
            "num_class": "0",
            "num_feature": str(n_columns),
            "num_target": str(n_outputs),
            "base_score": "[" + ",".join(["0E0"] * n_outputs) + "]",
            "boost_from_average": "0",
        },
        # The default, and not used: gradients come from outside.
        "objective": {"name": "reg:squarederror", "reg_loss_param": {"scale_pos_weight": "1"}},
    }
    same = document == {"version": document["version"], "learner": learner}
    require(same, f"trees.json must be trees of {n_columns} columns, {n_outputs} outputs")


def check_network(network: Any, n_columns: int, n_outputs: int, categories: Sizes) -> None:
    """Check that the arrays of a network belong together and to the table."""
    from ebboost.learners.network import INPUTS, MISSING

    scaling, units = network.scaling, network.units
    n_inputs, n_units, n_rounds = len(scaling.source), len(units.inputs), network.weights.size
    knots = (n_inputs, np.shape(scaling.knots)[-1])
    check_array("source", scaling.source, (n_inputs,), 0, n_columns - 1, "i")
    check_array("level", scaling.level, (n_inputs,), MISSING, INT32_MAX, "i")
    check_array("knots", scaling.knots, knots)
    for name in sorted(vars(scaling).keys() - {"source", "level", "knots"}):
        own = getattr(scaling, name)  # scores of knots, and limits of inputs
        check_array(name, own, knots[: own.ndim], -10.0, 10.0)
    check_array("inputs", units.inputs, (n_units, INPUTS), 0, n_inputs - 1, "i")
    check_array("coefficients", units.coefficients, (n_units, INPUTS), -1e9, 1e9)
    check_array("biases", units.biases, (n_units,), -1e9, 1e9)
    check_array("outputs", units.outputs, (n_units + n_rounds, n_outputs), -1e18, 1e18)
    check_array("weights", network.weights, (n_rounds,))
    check_array("sample", network.sample, (None, n_inputs), -10.0, 10.0)
    fits = knots[1] > 0 and bool((np.diff(scaling.knots) >= 0.0).all())
    fits &= n_units % n_rounds == 0 if n_rounds else n_units == 0
    require(fits and network.n_columns == n_columns, "the parts of a network must fit each other")
