"""XGBoost trees: one booster on a table binned once, boosted with a custom gradient each round."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

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
    threads_to_predict,
)
from ebboost.learners.constraints import INTERACTION, MONOTONE, translate_constraints


@dataclass(eq=False, repr=False)
class XGBoost(Learner):
    """Depth-wise trees of XGBoost, on the CPU or a GPU.

    XGBoost treats the zeros of a sparse matrix as missing values: each split learns which side they
    go to.

    Parameters
    ----------
    max_depth : int, default=6
        Largest depth of a tree.
    min_child_weight : float, default=1.0
        Smallest sum of curvatures in a leaf.
    reg_lambda : float, default=0.0
        L2 penalty on leaf values.
    colsample_bytree : float, default=1.0
        Fraction of the columns that each tree may split.
    subsample : float, default=1.0
        Fraction of the rows that each tree is grown on.
    max_bin : int, default=256
        Largest number of bins of a column.
    params : dict, optional
        Further parameters of XGBoost by its own names; only the booster ``gbtree`` with one tree a
        round is supported. Constraints name columns of X, as for :class:`LightGBM`.

    Examples
    --------
    >>> import ebboost as eb
    >>> learner = eb.XGBoost(max_depth=4)
    >>> eb.EBBSRegressor(learner=learner).get_params()["learner__max_depth"]
    4
    """

    name = "xgboost"
    devices = ("cpu", "cuda")
    # Trees that later rounds change, linear models, vectors in leaves, several trees a round.
    unsupported: ClassVar[Mapping[str, Sequence[object]]] = {
        "booster": ("dart", "gblinear"),
        "multi_strategy": ("multi_output_tree",),
        "num_parallel_tree": range(2, 1_000_000),
    }

    max_depth: int = 6
    min_child_weight: float = 1.0
    reg_lambda: float = 0.0
    colsample_bytree: float = 1.0
    subsample: float = 1.0
    max_bin: int = 256
    params: dict[str, Any] | None = None

    def check(self, device: str) -> None:
        """Check the parameters, and that XGBoost supports the device; see :meth:`Learner.check`."""
        super().check(device)
        if device == "cuda" and not _xgboost().build_info().get("USE_CUDA"):
            raise ImportError(
                "device='cuda' needs XGBoost with GPU support: pip uninstall xgboost-cpu, then "
                "pip install 'ebboost[cuda13]', or 'ebboost[cuda12]' for drivers of CUDA 12."
            )

    def bin(
        self,
        table: Table,
        rows: IntArray,
        *,
        n_outputs: int,
        n_jobs: int,
        device: str,
        like: XGBoostBinned | None = None,
    ) -> XGBoostBinned:
        """Bin the rows, into the bins of ``like`` if it is passed; see :meth:`Learner.bin`."""
        self.check(device)
        table = table.subset(rows) if rows.size < table.n_rows else table
        params: dict[str, Any] = {
            "device": device,
            "tree_method": "hist",
            "eta": 1.0,  # the loop chooses the step
            "base_score": 0.0,
            "max_depth": self.max_depth,
            "min_child_weight": self.min_child_weight,
            "lambda": self.reg_lambda,
            "colsample_bytree": self.colsample_bytree,
            "subsample": self.subsample,
            "max_bin": self.max_bin,
            "seed_per_iteration": True,  # otherwise all boosters of a thread draw from one stream
            "nthread": n_jobs,
            "num_target": n_outputs,
            "disable_default_eval_metric": True,
            "verbosity": 0,
        }
        params |= translate_constraints(self.params, table)
        for name, kind in ((MONOTONE, tuple), (INTERACTION, str)):  # lists would be names
            if params.get(name) is not None:
                params[name] = kind(params[name])
        return XGBoostBinned(table, params, like)

    @classmethod
    def load(cls, files: dict[str, bytes]) -> XGBoostEnsemble:
        """Return the ensemble in XGBoost's JSON format; see :meth:`Learner.load`."""
        return XGBoostEnsemble(files["trees.json"])


class XGBoostBinned(Binned):
    """A quantised matrix of XGBoost; on the GPU with its values, which are predicted there."""

    def __init__(
        self, table: Table, params: dict[str, Any], like: XGBoostBinned | None = None
    ) -> None:
        xgboost = _xgboost()
        self.params = params
        self.shape = (table.n_rows, params["num_target"])
        values = as_matrix(table)
        self.on_gpu: Any = None  # the values, as XGBoost stores them
        if params["device"] == "cuda" and not table.is_sparse:
            self.params = params | {"nthread": 1}  # threads of the CPU would only wait
            cupy = import_library("cupy", "device='cuda'", "'ebboost[cuda13]'")
            values = self.on_gpu = cupy.asarray(np.asarray(values, dtype=np.float32))
        options = {"max_bin": params["max_bin"], "nthread": params["nthread"]}
        options["ref"] = None if like is None else like.data
        self.data: Any = xgboost.QuantileDMatrix(values, **options, **_column_types(table))

    def grower(self, seed: int) -> XGBoostGrower:
        """Return a booster without trees; see :meth:`Binned.grower`."""
        return XGBoostGrower(self, seed)


class XGBoostGrower(Grower):
    """An XGBoost booster in training."""

    def __init__(self, binned: XGBoostBinned, seed: int) -> None:
        self._binned = binned
        self._booster = _xgboost().Booster(binned.params | {"seed": seed}, [binned.data])
        self._n_rounds = 0
        self._empty_rounds: list[int] = []  # whose trees have no split, and no weight

    def grow(self, gradient: Array, curvature: Array) -> Array | None:
        """Grow one tree per output, on the GPU if the gradient is there; see :meth:`Grower.grow`.

        The values are those of the new tree alone: differences of sums of all trees, which are in
        single precision, would lose digits.
        """
        binned, booster, number = self._binned, self._booster, self._n_rounds
        gradient = np.ascontiguousarray(gradient, like=gradient)
        full = np.ascontiguousarray(np.broadcast_to(curvature, binned.shape), like=gradient)
        booster.boost(binned.data, number, grad=gradient, hess=full)
        self._n_rounds += 1
        newest: dict[str, Any] = {"iteration_range": (number, number + 1)}
        if binned.on_gpu is None:
            values = booster.predict(binned.data, output_margin=True, **newest)
        else:  # the way from the bins leads over the CPU
            newest |= {"predict_type": "margin", "validate_features": False}
            values = booster.inplace_predict(binned.on_gpu, **newest)
            values = values.get() if isinstance(gradient, np.ndarray) else values
        tree = np.asarray(values, dtype=np.float64, like=gradient).reshape(binned.shape)
        if (tree == tree[:1]).all():
            texts = booster[number : number + 1].get_dump()
            if not any("[" in text for text in texts):  # no split
                self._empty_rounds.append(number)
                return None
        return tree

    def compile(self, weights: Sequence[float]) -> XGBoostEnsemble:
        """Return the weighted sum; see :meth:`Grower.compile`."""
        weights = list(weights)
        for number in self._empty_rounds:
            if number <= len(weights):
                weights.insert(number, 0.0)
        document = json.loads(self._booster.save_raw("json"))
        model = document["learner"]["gradient_booster"]["model"]
        n_outputs = self._binned.shape[1]
        model["trees"] = model["trees"][: n_outputs * len(weights)]
        for number, tree in enumerate(model["trees"]):
            weight = weights[number // n_outputs]
            tree["base_weights"] = [weight * value for value in tree["base_weights"]]
            # Thresholds of splits, values of leaves.
            conditions = zip(tree["split_conditions"], tree["left_children"], strict=True)
            tree["split_conditions"] = [
                weight * value if child == -1 else value for value, child in conditions
            ]
        n_trees = len(model["trees"])
        model["tree_info"] = model["tree_info"][:n_trees]
        model["iteration_indptr"] = list(range(0, n_trees + 1, n_outputs))
        model["gbtree_model_param"]["num_trees"] = str(n_trees)
        return XGBoostEnsemble(json.dumps(document).encode())


class XGBoostEnsemble(Ensemble):
    """A model in XGBoost's JSON format, parsed when first used."""

    learner = "XGBoost"

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._boosters: dict[int, Any] = {}

    @property
    def booster(self) -> Any:
        """The ``xgboost.Booster``, for SHAP and other tools that read XGBoost models."""
        return self._with_threads(1)

    def _with_threads(self, count: int) -> Any:
        """A booster of so many threads: to change that of one that others use is not safe."""
        if count not in self._boosters:
            options = {"nthread": count}
            content = bytearray(self._content)
            self._boosters[count] = _xgboost().Booster(options, model_file=content)
        return self._boosters[count]

    def __reduce__(self) -> tuple[type[XGBoostEnsemble], tuple[bytes]]:
        return XGBoostEnsemble, (self._content,)  # without boosters, which have threads

    def predict(self, table: Table) -> Array:
        """Return scores; see :meth:`Ensemble.predict`."""
        # Not of a DMatrix, which the workers of a cluster would have to create at the same time.
        booster = self._with_threads(threads_to_predict(table))
        scores = booster.inplace_predict(as_matrix(table), predict_type="margin")
        return np.asarray(scores, dtype=np.float64).reshape(table.n_rows, -1)

    def importances(self) -> Array:
        """Return the total gain of the splits on each column."""
        result = np.zeros(self.booster.num_features())
        for key, gain in self.booster.get_score(importance_type="total_gain").items():
            result[int(key[1:])] = np.sum(gain)
        return result

    def contributions(self, table: Table) -> Array:
        """Return XGBoost's TreeSHAP values; see :meth:`Ensemble.contributions`."""
        n_threads = threads_to_predict(table)
        data = _xgboost().DMatrix(as_matrix(table), nthread=n_threads, **_column_types(table))
        flat = self._with_threads(n_threads).predict(data, pred_contribs=True)
        return np.asarray(flat, np.float64).reshape(table.n_rows, -1, len(table.names) + 1)

    def files(self) -> dict[str, bytes]:
        """Return XGBoost's JSON format."""
        return {"trees.json": self._content}

    def check(self, n_columns: int, n_outputs: int, categories: Mapping[int, int]) -> None:
        """Check the JSON before XGBoost parses it; see :meth:`Ensemble.check`."""
        from ebboost.files.trees import check_xgboost

        check_xgboost(self._content, n_columns, n_outputs, categories)


def _xgboost() -> Any:
    return import_library("xgboost", "learner='xgboost'", "xgboost")


def _column_types(table: Table) -> dict[str, Any]:
    if not table.categorical:
        return {}
    kinds = ["c" if column in table.categorical else "q" for column in range(len(table.names))]
    return {"feature_types": kinds, "enable_categorical": True}
