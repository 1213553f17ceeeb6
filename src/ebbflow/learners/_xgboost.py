"""XGBoost trees: one booster on a QuantileDMatrix, boosted with our gradient each round."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from ebbflow.devices import cupy
from ebbflow.learners._base import Array, Ensemble, Growing, Learner, check_device, plain_values
from ebbflow.table import Table

MOVED_AT_ONCE = 16_000_000  # entries of a table


def _xgboost() -> Any:
    try:
        import xgboost
    except ImportError:
        raise ImportError("learner='xgboost' needs XGBoost: pip install 'ebbflow[xgboost]'.") from None
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
        Any other XGBoost parameter, by its own name.
    """

    name = "xgboost"
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

    def start(self, table: Table, *, n_outputs: int, seed: int, n_jobs: int, device: str) -> "GrowingXGBoost":
        """Bin the table."""
        check_device(device, self.devices, self.name)
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
            "nthread": n_jobs,
            "num_target": n_outputs,
            "disable_default_eval_metric": True,
            "verbosity": 0,
        }
        return GrowingXGBoost(table, {**own, **(self.params or {})}, n_outputs)

    @classmethod
    def load(cls, files: dict[str, bytes]) -> "XGBoostEnsemble":
        """Read XGBoost's JSON format."""
        return XGBoostEnsemble(files["trees.json"])


class GrowingXGBoost(Growing):
    """A live XGBoost booster."""

    def __init__(self, table: Table, params: dict[str, Any], n_outputs: int) -> None:
        xgboost, values = _xgboost(), plain_values(table)
        self._on_gpu: Any = None  # a dense table, if that is where the trees grow
        if params["device"] == "cuda":
            if not xgboost.build_info().get("USE_CUDA"):
                raise ImportError(
                    "device='cuda' needs XGBoost's full wheel, and the one installed knows no GPU: pip uninstall "
                    "xgboost-cpu, then pip install 'ebbflow[cuda]'."
                )
            if not table.is_sparse:
                values = self._on_gpu = _moved(values)
        self._data = xgboost.QuantileDMatrix(
            values, max_bin=params["max_bin"], nthread=params["nthread"], **_types(table)
        )
        self._booster = xgboost.Booster(params, [self._data])
        self._shape = (table.n_rows, n_outputs)
        self._rounds = 0

    def grow(self, gradient: Array, curvature: Array) -> Array | None:
        """Add one tree per output and read its values alone: differences of float32 scores would lose digits."""
        curvature = np.ascontiguousarray(np.broadcast_to(curvature, self._shape), like=gradient)
        gradient = np.ascontiguousarray(gradient, like=gradient)
        self._booster.boost(self._data, self._rounds, grad=gradient, hess=curvature)
        self._rounds += 1
        tree = np.asarray(self._newest_values(), dtype=np.float64, like=gradient).reshape(self._shape)
        return tree if tree.any() else None

    def _newest_values(self) -> Any:
        """Where the table is on the GPU, read there; XGBoost's predictions from bins come by way of the CPU."""
        only = (self._rounds - 1, self._rounds)
        if self._on_gpu is None:
            return self._booster.predict(self._data, output_margin=True, iteration_range=only)
        return self._booster.inplace_predict(self._on_gpu, predict_type="margin", iteration_range=only)

    def compile(self, weights: Sequence[float]) -> "XGBoostEnsemble":
        """Scale the leaves in XGBoost's JSON format."""
        model = json.loads(self._booster[: len(weights)].save_raw("json")) if weights else None
        if model is None:
            model = json.loads(self._booster[:1].save_raw("json"))
            weights = [0.0]
        per_round = self._shape[1]
        for index, tree in enumerate(model["learner"]["gradient_booster"]["model"]["trees"]):
            weight = weights[index // per_round]
            tree["base_weights"] = [weight * value for value in tree["base_weights"]]
            tree["split_conditions"] = [
                weight * value if child == -1 else value
                for value, child in zip(tree["split_conditions"], tree["left_children"], strict=True)
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
        data = _xgboost().DMatrix(plain_values(table), **_types(table))
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
        data = _xgboost().DMatrix(plain_values(table), **_types(table))
        flat = np.asarray(self.booster.predict(data, pred_contribs=True), dtype=np.float64)
        return flat.reshape(table.n_rows, -1, len(table.names) + 1)

    def files(self) -> dict[str, bytes]:
        """XGBoost's JSON format."""
        return {"trees.json": self._text}

    def __getstate__(self) -> dict[str, Any]:
        return {"_text": self._text, "_parsed": None}


def _moved(values: Array) -> Any:
    """The table on the GPU as float32, to which XGBoost rounds every table; some rows at a time, to need little more."""
    array = cupy().empty(values.shape, dtype=np.float32)
    rows = max(MOVED_AT_ONCE // max(values.shape[1], 1), 1)
    for start in range(0, len(values), rows):
        array[start : start + rows].set(np.ascontiguousarray(values[start : start + rows], dtype=np.float32))
    return array


def _types(table: Table) -> dict[str, Any]:
    if not table.categorical:
        return {}
    kinds = ["c" if column in table.categorical else "q" for column in range(len(table.names))]
    return {"feature_types": kinds, "enable_categorical": True}
