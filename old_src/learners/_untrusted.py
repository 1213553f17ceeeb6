"""Trees from a model file, checked before a library parses them.

The libraries follow the indices in a file without checking them, so that a child that is its own
ancestor, or a column that the table does not have, would loop forever or read foreign memory. What
passes here is a tree. Every error is a ``ValueError``.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebboost.data.archive import parse_json
from ebboost.data.schema import Integers, Numbers, match, require

MAX_DEPTH = 1_000  # libraries recurse
INT32_MAX = int(np.iinfo(np.int32).max)
FLOAT32_MAX = float(np.finfo(np.float32).max)


def check_tree(left: NDArray[np.int64], right: NDArray[np.int64], path: str) -> None:
    """Check the children of nodes 0 … n − 1, −1 at leaves.

    Every node but the root is the child of exactly one other, which precedes it.
    """
    inner = np.flatnonzero(left != -1)
    children = np.concatenate([left[inner], right[inner]])
    is_tree = np.array_equal(np.sort(children), np.arange(1, left.size))
    is_tree &= bool(left.size) and bool((right[left == -1] == -1).all())
    require(is_tree, f"{path}: the nodes must form a tree")
    in_order = (np.minimum(left[inner], right[inner]) > inner).all()
    require(in_order, f"{path}: children must follow their parents")
    level = np.zeros(1, dtype=np.int64)
    depth = 0
    while level.size and depth < MAX_DEPTH:
        level = level[left[level] != -1]
        level = np.concatenate([left[level], right[level]])
        depth += 1
    require(not level.size, f"{path} is deeper than {MAX_DEPTH} levels")


# ----------------------------------------------------------------------------- LightGBM's text

# Python reads more as numbers than LightGBM does, which ends the process at "1_0".
_NUMBER = r"-?(?:\d{1,24}(?:\.\d{1,24})?(?:e[-+]?\d{1,3})?|inf)"
# Of a column: without a split, its range, or its categories.
_INFO = rf"(?:none|\[{_NUMBER}:{_NUMBER}\]|-?\d{{1,9}}(?::-?\d{{1,9}})*)"
_NUMBERS = re.compile(rf"(?:{_NUMBER}(?: {_NUMBER})*)?", flags=re.ASCII)
_REST = re.compile(
    r"end of trees\n\nfeature_importances:\n(?:[^\s=]+=[^\s=]+\n)*"
    r"(?:\nparameters:\n\nend of parameters\n)?\npandas_categorical:null\n",
    flags=re.ASCII,
)


def _read_numbers(text: str, path: str) -> list[int | float]:
    require(_NUMBERS.fullmatch(text), f"{path} must be numbers")
    numbers: list[int | float] = json.loads(
        f"[{text}]".replace(" ", ",").replace("inf", "Infinity")
    )
    return numbers


def _repeated(pattern: str, n_times: int) -> str:
    return rf"{pattern}(?: {pattern}){{{n_times - 1}}}"


def check_lightgbm(
    head: str, trees: Sequence[str], rest: str, n_columns: int, n_outputs: int
) -> None:
    """Check LightGBM's text: the lines before the trees, those of each tree, those after them."""
    names, signs, infos = (_repeated(part, n_columns) for part in (r"\S+", "-?[01]", _INFO))
    pattern = (
        rf"tree\nversion=v\d+\nnum_class={n_outputs}\nnum_tree_per_iteration={n_outputs}\n"
        rf"label_index=0\nmax_feature_idx={n_columns - 1}\nfeature_names={names}\n"
        rf"(?:monotone_constraints={signs}\n)?feature_infos={infos}\ntree_sizes=[\d ]*\n\n"
    )
    require(re.fullmatch(pattern, head), f"trees.txt must describe {n_columns} columns")
    require(len(trees) % n_outputs == 0, f"trees.txt must have {n_outputs} trees a round")
    require(_REST.fullmatch(rest), "trees.txt: malformed text after the last tree")
    for number, tree in enumerate(trees):
        _check_lightgbm_tree(tree, f"tree {number}", n_columns)


def _check_lightgbm_tree(text: str, path: str, n_columns: int) -> None:
    """Check a tree of inner nodes 0 … n − 2 and leaves −1 … −n."""
    lines = [line.partition("=") for line in text.rstrip("\n").split("\n")]
    fields = {name: _read_numbers(values, f"{path}.{name}") for name, _, values in lines}
    require(len(fields) == len(lines), f"{path} must have each line once")
    counts = {"num_leaves": Integers(1, 131_072, 1), "num_cat": Integers(0, 131_072, 1)}
    n_leaves, n_sets = (int(fields[name][0]) for name in counts)
    match({name: fields[name] for name in counts}, counts, path)
    n_splits = n_leaves - 1
    of_leaves = ("leaf_weight", "leaf_count")  # of a tree without splits, one or none
    n_each = [n_leaves if n_leaves > 1 else min(len(fields.get(name, ())), 1) for name in of_leaves]
    child = Integers(-n_leaves, n_splits - 1, n_splits)
    unbounded = Numbers(n_splits, np.inf)
    schema = counts | {
        "split_feature": Integers(0, n_columns - 1, n_splits),
        "split_gain": unbounded,
        "threshold": unbounded,
        "decision_type": Integers(0, 11, n_splits),
        "left_child": child,
        "right_child": child,
        "leaf_value": Numbers(n_leaves),
        "leaf_weight": Numbers(n_each[0]),
        "leaf_count": Integers(0, INT32_MAX, n_each[1]),
        "internal_value": Numbers(n_splits),
        "internal_weight": Numbers(n_splits),
        "internal_count": Integers(0, INT32_MAX, n_splits),
        "is_linear": [0],
        "shrinkage": Numbers(1),
    }
    if n_sets:
        schema["cat_boundaries"] = Integers(0, INT32_MAX, n_sets + 1)
        schema["cat_threshold"] = Integers(0, 2**32 - 1)
    tree = match(fields, schema, path)
    nodes = [
        np.append(np.where(side < 0, n_splits + ~side, side), np.full(n_leaves, -1))
        for side in (tree["left_child"], tree["right_child"])
    ]
    check_tree(nodes[0], nodes[1], path)
    by_category = tree["decision_type"] % 2 == 1
    sets = tree["threshold"][by_category]
    require(np.isin(sets, np.arange(n_sets)).all(), f"{path}: a split names no category set")
    if n_sets:
        ends = tree["cat_boundaries"]
        increasing = ends[0] == 0 and (np.diff(ends) >= 0).all()
        complete = ends[-1] == tree["cat_threshold"].size
        require(increasing and complete, f"{path}.cat_boundaries must divide cat_threshold")


# ----------------------------------------------------------------------------- XGBoost's JSON


def check_xgboost(
    content: bytes, n_columns: int, n_outputs: int, categories: Mapping[int, int]
) -> None:
    """Check XGBoost's JSON; its own parser checks the lengths of arrays, not their values."""
    kinds = ["c" if column in categories else "q" for column in range(n_columns)]
    schema = {
        "version": Integers(0, 999, 3),
        "learner": {
            "attributes": {},
            "feature_names": [],
            "feature_types": kinds if categories else [],
            "learner_model_param": {
                "num_class": "0",
                "num_feature": str(n_columns),
                "num_target": str(n_outputs),
                "base_score": "[" + ",".join(["0E0"] * n_outputs) + "]",
                "boost_from_average": "0",
            },
            # The default, and not used: gradients come from outside.
            "objective": {"name": "reg:squarederror", "reg_loss_param": {"scale_pos_weight": "1"}},
            "gradient_booster": {"name": "gbtree", "model": dict},
        },
    }
    model = match(parse_json(content), schema, "trees.json")
    model = model["learner"]["gradient_booster"]["model"]
    trees = model["trees"]
    complete = isinstance(trees, list) and trees and len(trees) % n_outputs == 0
    require(complete, f"trees.json must have {n_outputs} trees a round")
    n_rounds = len(trees) // n_outputs
    schema = {
        "cats": {"enc": [], "feature_segments": [], "sorted_idx": []},
        "gbtree_model_param": {"num_parallel_tree": "1", "num_trees": str(len(trees))},
        "iteration_indptr": list(range(0, len(trees) + 1, n_outputs)),
        "tree_info": list(range(n_outputs)) * n_rounds,
        "trees": list,
    }
    match(model, schema, "model")
    for number, tree in enumerate(trees):
        _check_xgboost_tree(tree, number, n_columns, categories)


def _check_xgboost_tree(
    fields: Any, number: int, n_columns: int, categories: Mapping[int, int]
) -> None:
    path = f"trees[{number}]"
    n_nodes = len(fields["left_children"])
    child = Integers(-1, n_nodes - 1, n_nodes)
    flag = Integers(0, 1, n_nodes)
    number_list = Numbers(n_nodes, 1e30, (float,))  # XGBoost adds up in single precision
    schema = {
        "id": number,
        "tree_param": {
            "num_deleted": "0",
            "num_feature": str(n_columns),
            "num_nodes": str(n_nodes),
            "size_leaf_vector": "1",
        },
        "left_children": child,
        "right_children": child,
        "parents": list,
        "split_indices": Integers(0, n_columns - 1, n_nodes),
        "split_type": flag,
        "default_left": flag,
        **dict.fromkeys(
            ("base_weights", "split_conditions", "loss_changes", "sum_hessian"), number_list
        ),
        "categories": Integers(0, INT32_MAX),
        "categories_nodes": list,
        "categories_segments": list,
        "categories_sizes": Integers(0, INT32_MAX),
    }
    tree = match(fields, schema, path)
    left = tree["left_children"]
    right = tree["right_children"]
    check_tree(left, right, path)
    is_inner = left != -1
    parents = np.full(n_nodes, INT32_MAX)
    for children in (left, right):
        parents[children[is_inner]] = np.flatnonzero(is_inner)
    by_category = tree["split_type"] == 1
    require((is_inner | ~by_category).all(), f"{path}: a leaf must not split")
    # Sets of categories, one after the other: XGBoost allocates up to the largest code of each.
    sizes = tree["categories_sizes"]
    derived = {
        "parents": parents.tolist(),
        "categories_nodes": np.flatnonzero(by_category).tolist(),
        "categories_segments": (np.cumsum(sizes) - sizes).tolist(),
    }
    match({name: fields[name] for name in derived}, derived, path)
    complete = sizes.size == by_category.sum() and sizes.sum() == tree["categories"].size
    require(complete, f"{path}.categories_sizes must divide categories")
    columns = tree["split_indices"][by_category].tolist()
    n_categories = np.array([categories.get(column, 0) for column in columns], dtype=np.int64)
    known = (tree["categories"] < np.repeat(n_categories, sizes)).all()
    require(known, f"{path}.categories must be categories of the table")


# ----------------------------------------------------------------------------- CatBoost's JSON

CATBOOST_MAX_DEPTH = 16  # its own limit
Border = tuple[int, int | float]  # column and value


def check_catboost(content: bytes, n_columns: int) -> None:
    """Check CatBoost's JSON of one output."""
    model = parse_json(content)
    kind = "oblivious_trees" if "oblivious_trees" in model else "trees"
    features = {"float_features": list}
    match(model, {"features_info": features, "scale_and_bias": list, kind: list}, "the model")
    borders = _read_borders(model["features_info"]["float_features"], n_columns)
    scale, bias = model["scale_and_bias"]
    match(scale, (1, 1.0), "scale")
    match(bias, Numbers(1), "bias")
    require(model[kind], "a model without trees must have no file")
    check = _check_oblivious if kind == "oblivious_trees" else _check_branches
    for number, tree in enumerate(model[kind]):
        check(tree, borders, f"{kind}[{number}]")


def _read_borders(features: list[Any], n_columns: int) -> list[Border]:
    """Column and value of every border, in the order of ``split_index``."""
    require(len(features) == n_columns, f"float_features must describe {n_columns} columns")
    borders: list[Border] = []
    for column, feature in enumerate(features):
        schema = {
            "borders": Numbers(None, FLOAT32_MAX),
            "feature_id": "",
            "feature_index": column,
            "flat_feature_index": column,
            "has_nans": bool,
            "nan_value_treatment": ("AsIs", "AsFalse", "AsTrue"),
        }
        path = f"float_features[{column}]"
        values = match(feature, schema, path)["borders"]
        require((np.diff(values) > 0).all(), f"{path}.borders must increase")
        borders += [(column, value) for value in feature["borders"]]
    return borders


def _check_split(split: Any, borders: list[Border], path: str) -> None:
    [index] = Integers(0, len(borders) - 1, 1).read([split["split_index"]], f"{path}.split_index")
    column, border = borders[index]
    schema = {
        "border": border,
        "float_feature_index": column,
        "split_index": int,
        "split_type": "FloatFeature",
    }
    match(split, schema, path)


def _check_oblivious(tree: Any, borders: list[Border], path: str) -> None:
    """Check a tree with the same split at all nodes of a level."""
    match(tree, {"leaf_values": list, "leaf_weights": list, "splits": list | None}, path)
    splits = tree["splits"] or []  # CatBoost writes null for a tree of one leaf
    require(len(splits) <= CATBOOST_MAX_DEPTH, f"{path} is deeper than {CATBOOST_MAX_DEPTH} levels")
    for split in splits:
        _check_split(split, borders, f"{path}.splits")
    for name in ("leaf_values", "leaf_weights"):
        Numbers(2 ** len(splits)).read(tree[name], f"{path}.{name}")


def _check_branches(tree: Any, borders: list[Border], path: str, depth: int = 0) -> None:
    """Check a tree of CatBoost's policies Depthwise and Lossguide."""
    require(depth <= CATBOOST_MAX_DEPTH, f"{path} is deeper than {CATBOOST_MAX_DEPTH} levels")
    if "split" not in tree:
        match(tree, {"value": int | float, "weight": int | float}, path)
        Numbers(2).read([tree["value"], tree["weight"]], path)
        return
    match(tree, {"left": dict, "right": dict, "split": dict}, path)
    _check_split(tree["split"], borders, path)
    for side in ("left", "right"):
        _check_branches(tree[side], borders, path, depth + 1)
