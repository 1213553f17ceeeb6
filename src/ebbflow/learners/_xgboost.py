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
            # Otherwise XGBoost draws from one stream for all boosters of a thread, whoever else may use it.
            "seed_per_iteration": True,
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
        self._data = xgboost.QuantileDMatrix(
            plain_values(table), max_bin=params["max_bin"], nthread=params["nthread"], **_types(table)
        )
        self._booster = xgboost.Booster(params, [self._data])
        self._params, self._shape = params, (table.n_rows, n_outputs)
        self._rounds = 0
        self._earlier: list[Any] = []  # trees of a checkpoint, in whose place the booster has empty ones

    def grow(self, gradient: Array, curvature: Array) -> Array | None:
        """Add one tree per output and read its values alone: differences of float32 scores would lose digits."""
        curvature = np.ascontiguousarray(np.broadcast_to(curvature, self._shape))
        self._booster.boost(self._data, self._rounds, grad=np.ascontiguousarray(gradient), hess=curvature)
        only = (self._rounds, self._rounds + 1)
        self._rounds += 1
        values = self._booster.predict(self._data, output_margin=True, iteration_range=only)
        tree = np.asarray(values, dtype=np.float64).reshape(self._shape)
        return tree if tree.any() else None

    def state(self) -> dict[str, Any]:
        """Return the trees."""
        for name, usual in (("colsample_bylevel", 1), ("colsample_bynode", 1), ("booster", "gbtree")):
            if self._params.get(name, usual) != usual:
                raise ValueError(
                    f"checkpoint: what XGBoost draws with {name}={self._params[name]!r} cannot be drawn again where a fit "
                    "was left; leave it out, or fit without a checkpoint."
                )
        return {"model": json.dumps(self._trees(self._rounds)[0]).encode(), "rounds": self._rounds}

    def restore(self, state: dict[str, Any]) -> None:
        """Take the trees up again, and bring the column sampler, which no file holds, to where it stood.

        What it draws does not depend on the gradient: as many rounds with none are drawn and leave empty trees.
        """
        self._rounds = state["rounds"]
        if not self._rounds:
            return
        if self._params["subsample"] == self._params["colsample_bytree"] == 1.0:
            # The file has the base score of every output, and XGBoost refuses to be told it once for all.
            told = {name: value for name, value in self._params.items() if name != "base_score"}
            self._booster = _xgboost().Booster(told, [self._data], model_file=bytearray(state["model"]))
            return
        self._earlier = json.loads(state["model"])["learner"]["gradient_booster"]["model"]["trees"]
        nothing, one = np.zeros(self._shape), np.ones(self._shape)
        for number in range(self._rounds):
            self._booster.boost(self._data, number, grad=nothing, hess=one)

    def _trees(self, rounds: int) -> tuple[dict[str, Any], list[Any]]:
        """The first rounds in XGBoost's JSON format, and the list of trees in it."""
        model: dict[str, Any] = json.loads(self._booster[:rounds].save_raw("json")) if rounds else {}
        trees: list[Any] = model["learner"]["gradient_booster"]["model"]["trees"] if rounds else []
        earlier = self._earlier[: len(trees)]
        trees[: len(earlier)] = earlier
        return model, trees

    def compile(self, weights: Sequence[float]) -> "XGBoostEnsemble":
        """Scale the leaves in XGBoost's JSON format."""
        weights = weights or [0.0]
        model, trees = self._trees(len(weights))
        per_round = self._shape[1]
        for index, tree in enumerate(trees):
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


def _types(table: Table) -> dict[str, Any]:
    if not table.categorical:
        return {}
    kinds = ["c" if column in table.categorical else "q" for column in range(len(table.names))]
    return {"feature_types": kinds, "enable_categorical": True}
