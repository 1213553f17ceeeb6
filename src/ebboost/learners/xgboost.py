"""XGBoost trees: one booster on a QuantileDMatrix, boosted with our gradient each round."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ebboost.backends.devices import cupy
from ebboost.data.archive import parse_json
from ebboost.data.table import Table
from ebboost.learners._untrusted import check_tree, keys, numbers, refuse_unless, whole_numbers
from ebboost.learners.base import (
    Array,
    Ensemble,
    Learner,
    TreeGrower,
    check_device,
    check_params,
    plain_values,
)
from ebboost.propagation import allowed_threads

# What a file says of the objective, which is not used: the gradient comes from outside.
OBJECTIVE = {"name": "reg:squarederror", "reg_loss_param": {"scale_pos_weight": "1"}}
LEARNER_PARTS = (
    "attributes",
    "feature_names",
    "feature_types",
    "gradient_booster",
    "learner_model_param",
    "objective",
)
MODEL_PARTS = ("cats", "gbtree_model_param", "iteration_indptr", "tree_info", "trees")
# The first ten have an entry for each node.
TREE_PARTS = (
    "base_weights",
    "default_left",
    "left_children",
    "loss_changes",
    "parents",
    "right_children",
    "split_conditions",
    "split_indices",
    "split_type",
    "sum_hessian",
    "id",
    "categories",
    "categories_nodes",
    "categories_segments",
    "categories_sizes",
    "tree_param",
)
# Trees that are changed when others come, no trees at all, vectors for leaves; several trees to a round are not counted so.
REFUSED = {
    "booster": ("dart", "gblinear"),
    "multi_strategy": ("multi_output_tree",),
    "num_parallel_tree": range(2, 1_000_000),
}
MOVED_AT_ONCE = 16_000_000  # entries of a table


def _xgboost() -> Any:
    try:
        import xgboost
    except ImportError:
        raise ImportError(
            "learner='xgboost' needs XGBoost: pip install 'ebboost[xgboost]'."
        ) from None
    return xgboost


class XGBoost(Learner):
    """Depth-wise histogram trees of XGBoost.

    To XGBoost an entry that a sparse matrix leaves out is missing: each split learns which way those rows go.

    Parameters
    ----------
    max_depth : int, default=6
    min_child_weight : float, default=1.0
        Least sum of curvature in a leaf.
    reg_lambda : float, default=0.0
        L2 shrinkage of leaf values.
    colsample_bytree, subsample : float, default=1.0
    max_bin : int, default=256
    params : dict, optional
        Any other XGBoost parameter, by its own name; not other boosters than ``gbtree``, nor several trees to a round.
    """

    name = "xgboost"
    takes_blocks = True
    devices = ("cpu", "cuda")

    def __init__(
        self,
        max_depth: int = 6,
        min_child_weight: float = 1.0,
        reg_lambda: float = 0.0,
        colsample_bytree: float = 1.0,
        subsample: float = 1.0,
        max_bin: int = 256,
        params: dict[str, Any] | None = None,
    ) -> None:
        self.max_depth = max_depth
        self.min_child_weight = min_child_weight
        self.reg_lambda = reg_lambda
        self.colsample_bytree = colsample_bytree
        self.subsample = subsample
        self.max_bin = max_bin
        self.params = params

    def start(
        self, table: Table, *, n_outputs: int, seed: int, n_jobs: int, device: str
    ) -> "XGBoostGrower":
        """Bin the table."""
        check_device(device, self.devices, self.name)
        check_params(self.params, REFUSED, self.name)
        own = {
            "device": device,
            "tree_method": "hist",
            "eta": 1.0,  # the loop finds the step
            "base_score": 0.0,
            "max_depth": self.max_depth,
            "min_child_weight": self.min_child_weight,
            "lambda": self.reg_lambda,
            "colsample_bytree": self.colsample_bytree,
            "subsample": self.subsample,
            "max_bin": self.max_bin,
            "seed": seed,
            # Otherwise XGBoost draws from one stream for all boosters of a thread, whoever else may use it.
            "seed_per_iteration": True,
            "nthread": n_jobs,
            "num_target": n_outputs,
            "disable_default_eval_metric": True,
            "verbosity": 0,
        }
        return XGBoostGrower(table, {**own, **(self.params or {})}, n_outputs)

    @classmethod
    def load(cls, files: dict[str, bytes]) -> "XGBoostEnsemble":
        """Read XGBoost's JSON format."""
        return XGBoostEnsemble(files["trees.json"])


class XGBoostGrower(TreeGrower):
    """A live XGBoost booster."""

    def __init__(self, table: Table, params: dict[str, Any], n_outputs: int) -> None:
        xgboost = _xgboost()
        self._on_gpu: Any = None  # a dense table, if that is where the trees grow
        settings: dict[str, Any] = {"max_bin": params["max_bin"], "nthread": params["nthread"]}
        if params["device"] == "cuda" and not xgboost.build_info().get("USE_CUDA"):
            raise ImportError(
                "device='cuda' needs XGBoost's full wheel, and the one installed knows no GPU: pip uninstall "
                "xgboost-cpu, then pip install 'ebboost[cuda]'."
            )
        if table.on_disk:
            self._data = xgboost.QuantileDMatrix(
                _blocks(table), **settings, enable_categorical=True
            )
        else:
            values = plain_values(table)
            if params["device"] == "cuda" and not table.is_sparse:
                values = self._on_gpu = _moved(values)
            self._data = xgboost.QuantileDMatrix(values, **settings, **_types(table))
        self._booster = xgboost.Booster(params, [self._data])
        self._params, self._shape = params, (table.n_rows, n_outputs)
        self._rounds = 0
        self._empty: list[int] = []  # rounds in which nothing was grown: no weight is theirs
        self._earlier: list[
            Any
        ] = []  # trees of a checkpoint, in whose place the booster has empty ones

    def grow(self, gradient: Array, curvature: Array) -> Array | None:
        """Add one tree per output and read its values alone: differences of float32 scores would lose digits."""
        curvature = np.ascontiguousarray(np.broadcast_to(curvature, self._shape), like=gradient)
        gradient = np.ascontiguousarray(gradient, like=gradient)
        self._booster.boost(self._data, self._rounds, grad=gradient, hess=curvature)
        self._rounds += 1
        tree = np.asarray(self._newest_values(), dtype=np.float64, like=gradient).reshape(
            self._shape
        )
        # On a cluster these are some rows of the tree; whether it is empty, it must say itself.
        if tree.any() or not self._newest_is_empty():
            return tree
        self._empty.append(self._rounds - 1)
        return None

    def free(self) -> None:
        """Drop the trees and the bins, which are not shared."""
        self._booster = self._data = self._on_gpu = None

    def _newest_is_empty(self) -> bool:
        newest = self._booster[self._rounds - 1 : self._rounds]
        return all(tree.startswith("0:leaf") for tree in newest.get_dump())

    def _newest_values(self) -> Any:
        """Where the table is on the GPU, read there; XGBoost's predictions from bins come by way of the CPU."""
        only = (self._rounds - 1, self._rounds)
        if self._on_gpu is None:
            return self._booster.predict(self._data, output_margin=True, iteration_range=only)
        return self._booster.inplace_predict(
            self._on_gpu, predict_type="margin", iteration_range=only
        )

    def state(self) -> dict[str, Any]:
        """Return the trees."""
        for name in ("colsample_bylevel", "colsample_bynode"):
            if self._params.get(name, 1) != 1:
                raise ValueError(
                    f"checkpoint: what XGBoost draws with {name}={self._params[name]!r} cannot be drawn again where a fit "
                    "was left; leave it out, or fit without a checkpoint."
                )
        model = json.dumps(self._trees(self._rounds)[0]).encode()
        return {"model": model, "rounds": self._rounds, "empty": self._empty}

    def restore(self, state: dict[str, Any]) -> None:
        """Take the trees up again, and bring the column sampler, which no file holds, to where it stood.

        What it draws does not depend on the gradient: as many rounds with none are drawn and leave empty trees.
        """
        self._rounds, self._empty = state["rounds"], state["empty"]
        if not self._rounds:
            return
        if self._params["subsample"] == self._params["colsample_bytree"] == 1.0:
            # The file has the base score of every output, and XGBoost refuses to be told it once for all.
            told = {name: value for name, value in self._params.items() if name != "base_score"}
            self._booster = _xgboost().Booster(
                told, [self._data], model_file=bytearray(state["model"])
            )
            return
        self._earlier = json.loads(state["model"])["learner"]["gradient_booster"]["model"]["trees"]
        nothing, one = np.zeros(self._shape), np.ones(self._shape)
        for number in range(self._rounds):
            self._booster.boost(self._data, number, grad=nothing, hess=one)

    def _trees(self, rounds: int) -> tuple[dict[str, Any], list[Any]]:
        """The first rounds in XGBoost's JSON format, and the list of trees in it."""
        model: dict[str, Any] = (
            json.loads(self._booster[:rounds].save_raw("json")) if rounds else {}
        )
        trees: list[Any] = model["learner"]["gradient_booster"]["model"]["trees"] if rounds else []
        earlier = self._earlier[: len(trees)]
        trees[: len(earlier)] = earlier
        return model, trees

    def compile(self, weights: Sequence[float]) -> "XGBoostEnsemble":
        """Scale the leaves in XGBoost's JSON format."""
        weights = list(weights)
        for number in self._empty:
            if number < len(weights):
                weights.insert(number, 0.0)
        weights = weights or [0.0]
        model, trees = self._trees(len(weights))
        per_round = self._shape[1]
        for index, tree in enumerate(trees):
            weight = weights[index // per_round]
            tree["base_weights"] = [weight * value for value in tree["base_weights"]]
            tree["split_conditions"] = [
                weight * value if child == -1 else value
                for value, child in zip(
                    tree["split_conditions"], tree["left_children"], strict=True
                )
            ]
        return XGBoostEnsemble(json.dumps(model).encode())


class XGBoostEnsemble(Ensemble):
    """A booster in XGBoost's JSON format, parsed when first needed."""

    def __init__(self, text: bytes) -> None:
        self._text = text
        self._parsed: Any = None

    @property
    def booster(self) -> Any:
        """The ``xgboost.Booster``."""
        if self._parsed is None:
            self._parsed = _xgboost().Booster(model_file=bytearray(self._text))
        return self._parsed

    def predict(self, table: Table) -> Array:
        """Sum the trees."""
        data = _xgboost().DMatrix(plain_values(table), nthread=allowed_threads(), **_types(table))
        scores = self.booster.predict(data, output_margin=True)
        return np.asarray(scores, dtype=np.float64).reshape(table.n_rows, -1)

    def importances(self) -> Array:
        """Total gain of the splits on each column."""
        gains = self.booster.get_score(importance_type="total_gain")
        result = np.zeros(self.booster.num_features())
        for key, gain in gains.items():
            result[int(key[1:])] = np.sum(gain)
        return result

    def contributions(self, table: Table) -> Array:
        """TreeSHAP values, by XGBoost."""
        data = _xgboost().DMatrix(plain_values(table), nthread=allowed_threads(), **_types(table))
        flat = np.asarray(self.booster.predict(data, pred_contribs=True), dtype=np.float64)
        return flat.reshape(table.n_rows, -1, len(table.names) + 1)

    def files(self) -> dict[str, bytes]:
        """XGBoost's JSON format."""
        return {"trees.json": self._text}

    def check(self, n_columns: int, n_outputs: int, categories: Mapping[int, int]) -> None:
        """Check every part of the JSON; XGBoost's own reader checks lengths, not what they lead to."""
        whole = keys(parse_json(self._text), ("learner", "version"), "the file")
        version = whole_numbers(whole["version"], 0, 999, "version")
        refuse_unless(version.size == 3 and version[0] >= 3, "version")
        learner = keys(whole["learner"], LEARNER_PARTS, "the learner")
        refuse_unless(
            learner["attributes"] == {} and learner["feature_names"] == [], "names and attributes"
        )
        kinds = (
            ["c" if column in categories else "q" for column in range(n_columns)]
            if categories
            else []
        )
        refuse_unless(learner["feature_types"] == kinds, "feature_types are not those of the table")
        refuse_unless(learner["objective"] == OBJECTIVE, "the objective")
        told = learner["learner_model_param"]
        base = "[" + ",".join(["0E0"] * n_outputs) + "]"
        wanted = {
            "num_class": "0",
            "num_feature": str(n_columns),
            "num_target": str(n_outputs),
            "base_score": base,
        }
        refuse_unless(
            isinstance(told, dict) and told == {**wanted, "boost_from_average": "0"},
            f"not {wanted}",
        )
        booster = keys(learner["gradient_booster"], ("model", "name"), "the booster")
        refuse_unless(booster["name"] == "gbtree", "the booster must be gbtree")
        model = keys(booster["model"], MODEL_PARTS, "the model")
        refuse_unless(
            model["cats"] == {"enc": [], "feature_segments": [], "sorted_idx": []}, "cats"
        )
        trees = model["trees"]
        refuse_unless(
            isinstance(trees, list) and trees and len(trees) % n_outputs == 0, "how many there are"
        )
        rounds = len(trees) // n_outputs
        told = {"num_parallel_tree": "1", "num_trees": str(len(trees))}
        refuse_unless(model["gbtree_model_param"] == told, "gbtree_model_param")
        _check_equal(
            model["iteration_indptr"], np.arange(rounds + 1) * n_outputs, "iteration_indptr"
        )
        _check_equal(model["tree_info"], np.tile(np.arange(n_outputs), rounds), "tree_info")
        for number, tree in enumerate(trees):
            _check_one(tree, number, n_columns, categories)

    def __getstate__(self) -> dict[str, Any]:
        return {"_text": self._text, "_parsed": None}


def _check_equal(values: Any, wanted: Any, what: str) -> None:
    refuse_unless(np.array_equal(whole_numbers(values, 0, 2**62, what), wanted), what)


def _check_one(tree: Any, number: int, n_columns: int, categories: Mapping[int, int]) -> None:
    name, longest = f"tree {number}", np.iinfo(np.int32).max
    _check_equal([keys(tree, TREE_PARTS, name)["id"]], [number], f"id of {name}")
    left, right = (
        whole_numbers(tree[part], -1, longest, part) for part in ("left_children", "right_children")
    )
    size = left.size
    for part in TREE_PARTS[:10]:
        refuse_unless(
            isinstance(tree[part], list) and len(tree[part]) == size,
            f"{part} of {name} must be {size} long",
        )
    told = {
        "num_deleted": "0",
        "num_feature": str(n_columns),
        "num_nodes": str(size),
        "size_leaf_vector": "1",
    }
    refuse_unless(tree["tree_param"] == told, f"tree_param of {name}")
    check_tree(left, right, name)
    inner, by_set = left != -1, whole_numbers(tree["split_type"], 0, 1, "split_type") == 1
    column = whole_numbers(tree["split_indices"], 0, n_columns - 1, "split_indices")
    whole_numbers(tree["default_left"], 0, 1, "default_left")
    parents = np.full(size, longest)
    for children in (left, right):
        parents[children[inner]] = np.flatnonzero(inner)
    _check_equal(tree["parents"], parents, f"parents of {name}")
    for part in ("base_weights", "split_conditions", "loss_changes", "sum_hessian"):
        refuse_unless(
            set(map(type, tree[part])) == {float}, f"{part} of {name} must be numbers with a point"
        )
        numbers(tree[part], f"{part} of {name}", 1e30)  # XGBoost adds up in single precision
    refuse_unless((inner | ~by_set).all(), f"a leaf of {name} splits")
    # Sets of categories, one after the other: the library makes room for the largest code of each.
    counts = whole_numbers(tree["categories_sizes"], 0, longest, "categories_sizes")
    codes = whole_numbers(tree["categories"], 0, longest, "categories")
    begins = np.cumsum(counts) - counts
    _check_equal(tree["categories_nodes"], np.flatnonzero(by_set), f"categories_nodes of {name}")
    _check_equal(tree["categories_segments"], begins, f"categories_segments of {name}")
    refuse_unless(
        counts.size == by_set.sum() and counts.sum() == codes.size, f"categories_sizes of {name}"
    )
    known = np.array([categories.get(at, 0) for at in column[by_set].tolist()], dtype=np.int64)
    refuse_unless(
        (codes < np.repeat(known, counts)).all(),
        f"categories of {name} that the table does not have",
    )


def _blocks(table: Table) -> Any:
    """The blocks of a table in files, as XGBoost asks for them, from the start as often as it likes."""
    kinds = _types(table).get("feature_types")

    class Blocks(_xgboost().DataIter):  # type: ignore[misc]
        def reset(self) -> None:
            self.ahead = table.blocks()

        def next(self, input_data: Any) -> bool:
            block = next(self.ahead, None)
            if block is not None:
                input_data(data=block.values, feature_types=kinds)
            return block is not None

    return Blocks()


def _moved(values: Array) -> Any:
    """The table on the GPU as float32, to which XGBoost rounds every table; some rows at a time, to need little more."""
    array = cupy().empty(values.shape, dtype=np.float32)
    rows = max(MOVED_AT_ONCE // max(values.shape[1], 1), 1)
    for start in range(0, len(values), rows):
        array[start : start + rows].set(
            np.ascontiguousarray(values[start : start + rows], dtype=np.float32)
        )
    return array


def _types(table: Table) -> dict[str, Any]:
    if not table.categorical:
        return {}
    categorical = set(table.categorical)
    kinds = ["c" if column in categorical else "q" for column in range(len(table.names))]
    return {"feature_types": kinds, "enable_categorical": True}
