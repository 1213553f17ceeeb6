"""XGBoost trees: one booster on a QuantileDMatrix, boosted with our gradient each round."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from ebbflow.learners._base import Array, Ensemble, Growing, Learner, check_device, plain_values
from ebbflow.table import Table


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
    takes_blocks = True

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
        check_device(device, ("cpu",), self.name)
        own = {
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
        xgboost = _xgboost()
        settings = {"max_bin": params["max_bin"], "nthread": params["nthread"]}
        if table.on_disk:
            settings |= {"enable_categorical": True}
            self._data = xgboost.QuantileDMatrix(_blocks(table), **settings)
        else:
            self._data = xgboost.QuantileDMatrix(plain_values(table), **settings, **_types(table))
        self._booster = xgboost.Booster(params, [self._data])
        self._shape = (table.n_rows, n_outputs)
        self._rounds = 0

    def grow(self, gradient: Array, curvature: Array) -> Array | None:
        """Add one tree per output and read its values alone: differences of float32 scores would lose digits."""
        curvature = np.ascontiguousarray(np.broadcast_to(curvature, self._shape))
        self._booster.boost(self._data, self._rounds, grad=np.ascontiguousarray(gradient), hess=curvature)
        only = (self._rounds, self._rounds + 1)
        self._rounds += 1
        values = self._booster.predict(self._data, output_margin=True, iteration_range=only)
        tree = np.asarray(values, dtype=np.float64).reshape(self._shape)
        return tree if tree.any() else None

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


def _types(table: Table) -> dict[str, Any]:
    if not table.categorical:
        return {}
    kinds = ["c" if column in table.categorical else "q" for column in range(len(table.names))]
    return {"feature_types": kinds, "enable_categorical": True}
