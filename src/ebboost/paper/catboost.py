"""CatBoost, the learner of the paper: one tree a round on a pool that is quantised once."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ebboost._common import Array, IntArray
from ebboost.data.table import Table
from ebboost.learners.base import (
    Binned,
    Ensemble,
    Grower,
    Learner,
    as_matrix,
    import_library,
    newton_target,
    threads_to_predict,
)
from ebboost.learners.constraints import MONOTONE, translate_constraints
from ebboost.threads import allowed_threads

MAX_DEPTH = 16  # of CatBoost's trees
FLOAT32_MAX = float(np.finfo(np.float32).max)


@dataclass(eq=False, repr=False)
class CatBoost(Learner):
    """Oblivious trees of CatBoost.

    In :class:`PaperRegressor` and :class:`PaperClassifier`, categories are encoded by CatBoost's
    ordered target statistics; elsewhere they are numbers to it.

    Parameters
    ----------
    depth : int, default=6
        Depth of a tree.
    l2_leaf_reg : float, default=3.0
        L2 penalty on leaf values.
    shrinkage : float, default=1.0
        CatBoost's own learning rate: what leaf values are multiplied by. The published experiments
        state this rate, and take full steps otherwise.
    newton : bool, default=False
        Weigh rows by their curvature. The paper does not: (11) weights all rows equally.
    from_average : bool, default=True
        Subtract the mean of the negative gradient before a tree is grown and add it to the tree, as
        CatBoost's ``boost_from_average`` does in the published implementation.
    params : dict, optional
        Further parameters of CatBoost by its own names; ``monotone_constraints`` as for
        :class:`ebboost.LightGBM`.

    Examples
    --------
    >>> import ebboost as eb
    >>> model = eb.EBBSRegressor(learner=eb.paper.CatBoost(depth=4, newton=True))
    """

    name = "catboost"
    takes_categories = False  # its statistics need labels

    depth: int = 6
    l2_leaf_reg: float = 3.0
    shrinkage: float = 1.0
    newton: bool = False
    from_average: bool = True
    params: dict[str, Any] | None = None

    def bin(
        self, table: Table, rows: IntArray, *, n_outputs: int, n_jobs: int, device: str
    ) -> CatBoostBinned:
        """Take the rows; see :meth:`Learner.bin`."""
        self.check(device)
        table = table.subset(rows) if rows.size < table.n_rows else table
        params = {
            "iterations": 1,
            "learning_rate": self.shrinkage,  # the loop chooses the step
            "loss_function": "RMSE",
            "boost_from_average": False,  # not supported together with a baseline
            "allow_const_label": True,
            "depth": self.depth,
            "l2_leaf_reg": self.l2_leaf_reg,
            "thread_count": n_jobs,
            "verbose": False,
            "allow_writing_files": False,
        }
        params |= translate_constraints(self.params, table)
        if params.get("grow_policy", "SymmetricTree") != "SymmetricTree":
            raise ValueError("params: grow_policy must be 'SymmetricTree', CatBoost's default.")
        if params.get(MONOTONE) is not None:  # CatBoost would shrink models, and cannot here
            params.setdefault("model_shrink_rate", 0.0)
        return CatBoostBinned(self, table, params, n_outputs)

    @classmethod
    def load(cls, files: dict[str, bytes]) -> CatBoostEnsemble:
        """Return the ensemble in CatBoost's JSON format; see :meth:`Learner.load`."""
        models = [files[name] for name in sorted(files) if name.startswith("trees-")]
        n_outputs, n_columns = json.loads(files["shape.json"])
        return CatBoostEnsemble(models, n_outputs, n_columns)


class CatBoostBinned(Binned):
    """A table; each model quantises a pool of its own, whose baseline changes in every round."""

    def __init__(
        self, learner: CatBoost, table: Table, params: dict[str, Any], n_outputs: int
    ) -> None:
        self.catboost = import_library("catboost", "learner=CatBoost()", "catboost")
        self.learner = learner
        self.table = table
        self.params = params
        self.n_outputs = n_outputs

    def grower(self, seed: int) -> CatBoostGrower:
        """Return a grower without trees; see :meth:`Binned.grower`."""
        return CatBoostGrower(self, seed)


class CatBoostGrower(Grower):
    """A quantised pool and the models of one tree grown on it, a list for each output."""

    def __init__(self, binned: CatBoostBinned, seed: int) -> None:
        self._catboost = binned.catboost
        self._learner = binned.learner
        self._params = binned.params
        self._seed = seed
        self._shape = (binned.table.n_rows, binned.n_outputs)
        self._n_columns = len(binned.table.names)
        self._trees: list[list[Any]] = [[] for _ in range(binned.n_outputs)]
        labels = np.zeros(binned.table.n_rows)
        self._pool = self._catboost.Pool(as_matrix(binned.table), label=labels)
        self._is_constant = False
        try:
            self._pool.quantize()
        except self._catboost.CatBoostError as error:
            self._is_constant = _has_nothing_to_split(error)

    def grow(self, gradient: Array, curvature: Array) -> Array | None:
        """Grow one tree per output; see :meth:`Grower.grow`."""
        if self._is_constant or not gradient.any():
            return None
        curvature = np.broadcast_to(curvature, self._shape)
        values = np.zeros(self._shape)
        n_before = len(self._trees[0])
        try:
            for output, trees in enumerate(self._trees):
                weight = curvature[:, output] if self._learner.newton else None
                values[:, output] = self._grow_output(gradient[:, output], weight, trees)
        except self._catboost.CatBoostError as error:
            if _has_nothing_to_split(error):
                values[:] = 0.0
        if values.any():
            return values
        for trees in self._trees:  # an empty round has no weight
            del trees[n_before:]
        return None

    def _grow_output(self, gradient: Array, weight: Array | None, trees: list[Any]) -> Array:
        """Fit one tree to label 0 and baseline −target, which spares quantising a new label."""
        target = -gradient
        if weight is not None:
            target, pool_weight = newton_target(gradient, weight)
            self._pool.set_weight(pool_weight)
        mean = float(np.average(target, weights=weight)) if self._learner.from_average else 0.0
        self._pool.set_baseline(mean - target)
        params = {**self._params, "random_seed": self._seed + len(trees)}
        tree = self._catboost.CatBoost(params).fit(self._pool)
        tree.set_scale_and_bias(1.0, mean)
        trees.append(tree)
        self._pool.set_baseline(np.zeros(target.size))
        return np.asarray(tree.predict(self._pool))

    def compile(self, weights: Sequence[float]) -> CatBoostEnsemble:
        """Return the weighted sum by ``catboost.sum_models``; see :meth:`Grower.compile`."""
        rounds = [trees[: len(weights)] for trees in self._trees] if weights else []
        sums = [self._catboost.sum_models(trees, weights=list(weights)) for trees in rounds]
        return CatBoostEnsemble(list(map(_write_json, sums)), *self._shape[1:], self._n_columns)


class CatBoostEnsemble(Ensemble):
    """One model per output in CatBoost's JSON format, parsed when first used."""

    learner = "CatBoost"

    def __init__(self, contents: list[bytes], n_outputs: int, n_columns: int) -> None:
        self._contents = contents
        self._n_outputs = n_outputs
        self._n_columns = n_columns

    @cached_property
    def models(self) -> list[Any]:
        """The ``catboost.CatBoost`` models, one per output."""
        return [_read_json(content) for content in self._contents]

    def predict(self, table: Table) -> Array:
        """Return scores; see :meth:`Ensemble.predict`."""
        if not self._contents:
            return np.zeros((table.n_rows, self._n_outputs))
        values = as_matrix(table)
        n_threads = threads_to_predict(table)
        scores = [model.predict(values, thread_count=n_threads) for model in self.models]
        return np.column_stack(scores)

    def importances(self) -> Array:
        """Return how much predictions change with each column, summed over outputs."""
        total = np.zeros(self._n_columns)
        for model in self.models:
            total += model.get_feature_importance(type="PredictionValuesChange")
        return np.nan_to_num(total)  # NaN if no column changes a prediction

    def contributions(self, table: Table) -> Array:
        """Return CatBoost's TreeSHAP values; see :meth:`Ensemble.contributions`."""
        if not self._contents:
            return np.zeros((table.n_rows, self._n_outputs, self._n_columns + 1))
        pool = import_library("catboost", "this model", "catboost").Pool(as_matrix(table))
        options = {"type": "ShapValues", "thread_count": allowed_threads()}
        values = [model.get_feature_importance(pool, **options) for model in self.models]
        return np.stack(values, axis=1)

    def files(self) -> dict[str, bytes]:
        """Return CatBoost's JSON format, one file per output, and the shape of the model."""
        files = {"shape.json": json.dumps([self._n_outputs, self._n_columns]).encode()}
        for output, content in enumerate(self._contents):
            files[f"trees-{output:05d}.json"] = content
        return files

    def check(self, n_columns: int, n_outputs: int, categories: Mapping[int, int]) -> None:
        """Check the JSON before CatBoost parses it; see :meth:`Ensemble.check`."""
        if [self._n_outputs, self._n_columns] != [n_outputs, n_columns]:
            raise ValueError(f"shape.json must be {[n_outputs, n_columns]}.")
        if len(self._contents) not in (0, n_outputs):
            raise ValueError(f"there must be a file of trees for each of {n_outputs} outputs.")
        for content in self._contents:
            check_trees(content, n_columns)


def check_trees(content: bytes, n_columns: int) -> None:
    """Check CatBoost's JSON of one output, whose indices CatBoost follows without checking them."""
    from ebboost.files.archive import parse_json
    from ebboost.files.trees import LARGEST, as_numbers, require

    def same(one: Any, other: Any) -> bool:  # True, 1 and 1.0 are three values
        return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)

    model = parse_json(content)
    info, trees = model["features_info"], model["oblivious_trees"]
    require(len(model) == 3 and len(info) == 1 and trees, "trees must be those of numbers")
    scale, bias = model["scale_and_bias"]
    require(same(scale, 1) and len(bias) == 1, "the scale of trees must be 1, their bias a number")
    as_numbers("bias", bias, -LARGEST, LARGEST)
    features, splits = info["float_features"], []
    require(len(features) == n_columns, f"float_features must describe {n_columns} columns")
    for column, feature in enumerate(features):
        found = {"feature_id": "", "feature_index": column, "flat_feature_index": column}
        found |= {name: feature[name] for name in ("borders", "has_nans", "nan_value_treatment")}
        treatments = ("AsIs", "AsFalse", "AsTrue")
        fits = same(feature, found) and feature["nan_value_treatment"] in treatments
        require(fits and type(feature["has_nans"]) is bool, "float_features must be columns")
        borders = as_numbers("borders", feature["borders"], -FLOAT32_MAX, FLOAT32_MAX)
        require((np.diff(borders) > 0).all(), "borders must increase")
        split = {"float_feature_index": column, "split_type": "FloatFeature"}
        splits += [{**split, "border": border} for border in feature["borders"]]
    for tree in trees:
        levels = tree["splits"] or []  # CatBoost writes null for a tree of one leaf
        require(len(tree) == 3 and len(levels) <= MAX_DEPTH, "a tree must have up to 16 levels")
        for split in levels:
            index = split["split_index"]
            in_range = type(index) is int and 0 <= index < len(splits)
            fits = in_range and same(split, {**splits[index], "split_index": index})
            require(fits, "splits of trees must be at borders of columns")
        for name in ("leaf_values", "leaf_weights"):
            values = as_numbers(name, tree[name], -LARGEST, LARGEST)
            require(values.size == 2 ** len(levels), f"{name} must be one for each leaf")


def _has_nothing_to_split(error: Exception) -> bool:
    """True for CatBoost's errors that no column varies or no row has weight; raise any other."""
    if "constant" in str(error) or "sampling units" in str(error):
        return True
    raise error


def _write_json(model: Any) -> bytes:
    with tempfile.TemporaryDirectory() as folder:  # CatBoost writes to paths only
        path = os.path.join(folder, "model")
        model.save_model(path, format="json")
        with open(path, "rb") as file:
            content = json.load(file)
    # How each tree was trained, with a date: most of the file, and CatBoost would read it back.
    del content["model_info"]
    return json.dumps(content).encode()


def _read_json(content: bytes) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.json")
        with open(path, "wb") as file:
            file.write(content)
        catboost = import_library("catboost", "this model", "catboost")
        return catboost.CatBoost().load_model(path, format="json")
