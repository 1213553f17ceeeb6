"""XGBoost trees: one booster on a QuantileDMatrix, boosted with a custom gradient each round."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ebboost.data.table import Table
from ebboost.learners._untrusted import check_xgboost
from ebboost.learners.base import (
    Array,
    BoosterGrower,
    Ensemble,
    Learner,
    as_matrix,
    import_library,
    threads_to_predict,
)
from ebboost.learners.constraints import INTERACTION, MONOTONE, translate_constraints

COPIED_AT_ONCE = 16_000_000  # entries of a table moved to the GPU


def _xgboost() -> Any:
    return import_library("xgboost", "learner='xgboost'", "xgboost")


@dataclass(eq=False, repr=False)
class XGBoost(Learner):
    """Depth-wise histogram trees of XGBoost.

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
        round is supported. Constraints as for :class:`LightGBM`.

    Examples
    --------
    >>> import ebboost as eb
    >>> model = eb.EBBSRegressor(learner=eb.XGBoost(max_depth=4))
    """

    name = "xgboost"
    takes_blocks = True
    devices = ("cpu", "cuda")
    # Trees that later rounds change, linear models, vector leaves, several trees a round.
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

    def start(
        self, table: Table, *, n_outputs: int, seed: int, n_jobs: int, device: str
    ) -> "XGBoostGrower":
        """Bin the table; see :meth:`Learner.start`."""
        self.check(device)
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
            "seed": seed,
            # Otherwise all boosters of a thread draw from one stream.
            "seed_per_iteration": True,
            "nthread": n_jobs,
            "num_target": n_outputs,
            "disable_default_eval_metric": True,
            "verbosity": 0,
        }
        params |= translate_constraints(self.params, table)
        # XGBoost takes lists for names.
        if params.get(MONOTONE) is not None:
            params[MONOTONE] = tuple(params[MONOTONE])
        if params.get(INTERACTION) is not None:
            params[INTERACTION] = str(params[INTERACTION])
        return XGBoostGrower(table, params, n_outputs)

    @classmethod
    def load(cls, files: dict[str, bytes]) -> "XGBoostEnsemble":
        """Return the ensemble in XGBoost's JSON format; see :meth:`Learner.load`."""
        return XGBoostEnsemble(files["trees.json"])


class XGBoostGrower(BoosterGrower):
    """An XGBoost booster in training."""

    def __init__(self, table: Table, params: dict[str, Any], n_outputs: int) -> None:
        xgboost = _xgboost()
        if params["device"] == "cuda" and not xgboost.build_info().get("USE_CUDA"):
            raise ImportError(
                "device='cuda' needs XGBoost's full wheel, the installed one has no GPU support: "
                "pip uninstall xgboost-cpu, then pip install xgboost"
            )
        self._params = params
        self._shape = (table.n_rows, n_outputs)
        self._gpu_values: Any = None  # a dense table, if trees are grown on the GPU
        options = {"max_bin": params["max_bin"], "nthread": params["nthread"]}
        if table.on_disk:
            blocks = _block_iterator(table)
            self._data = xgboost.QuantileDMatrix(blocks, **options, enable_categorical=True)
        else:
            values = as_matrix(table)
            if params["device"] == "cuda" and not table.is_sparse:
                values = self._gpu_values = _to_gpu(values)
            self._data = xgboost.QuantileDMatrix(values, **options, **_column_types(table))
        self._start()

    def _start(self) -> None:
        self._booster = _xgboost().Booster(self._params, [self._data])
        self._n_rounds = 0
        self._empty_rounds: list[int] = []  # without a split, and without a weight
        self._restored: list[Any] = []  # trees from a checkpoint, where the booster has empty ones

    def grow(self, gradient: Array, curvature: Array) -> Array | None:
        """Grow one tree per output; see :meth:`TreeGrower.grow`.

        The values are those of the new tree alone: differences of float32 scores lose digits.
        """
        curvature = np.ascontiguousarray(np.broadcast_to(curvature, self._shape), like=gradient)
        gradient = np.ascontiguousarray(gradient, like=gradient)
        self._booster.boost(self._data, self._n_rounds, grad=gradient, hess=curvature)
        self._n_rounds += 1
        values = np.asarray(self._newest_values(), dtype=np.float64, like=gradient)
        tree: Array = values.reshape(self._shape)
        if tree.any():
            return tree
        # On a cluster these are some of the rows: whether the tree is empty, only its dump tells.
        newest = self._booster[self._n_rounds - 1 : self._n_rounds]
        if not all(text.startswith("0:leaf") for text in newest.get_dump()):
            return tree
        self._empty_rounds.append(self._n_rounds - 1)
        return None

    def _newest_values(self) -> Any:
        """Values of the newest trees, on the GPU if the table is there too."""
        newest = (self._n_rounds - 1, self._n_rounds)
        if self._gpu_values is None:
            return self._booster.predict(self._data, output_margin=True, iteration_range=newest)
        # Predictions from bins would go by way of the CPU.
        return self._booster.inplace_predict(
            self._gpu_values, predict_type="margin", iteration_range=newest
        )

    def state(self) -> dict[str, Any]:
        """Return the trees; see :meth:`TreeGrower.state`."""
        for name in ("colsample_bylevel", "colsample_bynode"):
            if self._params.get(name, 1) != 1:
                raise ValueError(
                    f"checkpoint: the random draws of XGBoost with {name}={self._params[name]!r} "
                    "cannot be repeated when a fit resumes; remove it, or fit without a checkpoint."
                )
        model = json.dumps(self._model(self._n_rounds)).encode()
        return {"model": model, "rounds": self._n_rounds, "empty": self._empty_rounds}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a checkpoint, with the column sampler, which no file holds, where it was.

        What it draws does not depend on the gradient: as many rounds with gradient 0 are boosted,
        whose empty trees stand for those of the checkpoint.
        """
        self._n_rounds = state["rounds"]
        self._empty_rounds = state["empty"]
        if not self._n_rounds:
            return
        if self._params["subsample"] == self._params["colsample_bytree"] == 1.0:
            # The model has a base score for each output: XGBoost rejects a scalar besides.
            params = {name: value for name, value in self._params.items() if name != "base_score"}
            model = bytearray(state["model"])
            self._booster = _xgboost().Booster(params, [self._data], model_file=model)
            return
        self._restored = _trees(json.loads(state["model"]))
        zero = np.zeros(self._shape)
        one = np.ones(self._shape)
        for number in range(self._n_rounds):
            self._booster.boost(self._data, number, grad=zero, hess=one)

    def _model(self, n_rounds: int) -> dict[str, Any]:
        """The first rounds in XGBoost's JSON format."""
        if not n_rounds:
            return {}
        model: dict[str, Any] = json.loads(self._booster[:n_rounds].save_raw("json"))
        trees = _trees(model)
        trees[: len(self._restored)] = self._restored[: len(trees)]
        return model

    def compile(self, weights: Sequence[float]) -> "XGBoostEnsemble":
        """Return the weighted sum; see :meth:`TreeGrower.compile`."""
        weights = list(weights)
        for number in self._empty_rounds:
            if number < len(weights):
                weights.insert(number, 0.0)
        weights = weights or [0.0]
        model = self._model(len(weights))
        for index, tree in enumerate(_trees(model)):
            weight = weights[index // self._shape[1]]
            tree["base_weights"] = [weight * value for value in tree["base_weights"]]
            # Thresholds of splits, values of leaves.
            conditions = zip(tree["split_conditions"], tree["left_children"], strict=True)
            tree["split_conditions"] = [
                weight * value if child == -1 else value for value, child in conditions
            ]
        return XGBoostEnsemble(json.dumps(model).encode())


class XGBoostEnsemble(Ensemble):
    """A model in XGBoost's JSON format, parsed when first used."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._boosters: dict[int, Any] = {}

    @property
    def booster(self) -> Any:
        """The ``xgboost.Booster``."""
        return self._booster_with(1)

    def _booster_with(self, n_threads: int) -> Any:
        """A booster of so many threads: to change that of one that others use is not safe."""
        if n_threads not in self._boosters:
            options = {"nthread": n_threads}
            content = bytearray(self._content)
            self._boosters[n_threads] = _xgboost().Booster(options, model_file=content)
        return self._boosters[n_threads]

    def __reduce__(self) -> tuple[type["XGBoostEnsemble"], tuple[bytes]]:
        # Without boosters: those of several threads would hang in a forked process.
        return XGBoostEnsemble, (self._content,)

    def predict(self, table: Table) -> Array:
        """Return scores; see :meth:`Ensemble.predict`."""
        # Not of a DMatrix, which workers of a cluster must create at the same time.
        booster = self._booster_with(threads_to_predict(table))
        scores = booster.inplace_predict(as_matrix(table), predict_type="margin")
        return np.asarray(scores, dtype=np.float64).reshape(table.n_rows, -1)

    def importances(self) -> Array:
        """Return the total gain of the splits on each column."""
        gains = self.booster.get_score(importance_type="total_gain")
        result = np.zeros(self.booster.num_features())
        for key, gain in gains.items():
            result[int(key[1:])] = np.sum(gain)
        return result

    def contributions(self, table: Table) -> Array:
        """Return XGBoost's TreeSHAP values; see :meth:`Ensemble.contributions`."""
        n_threads = threads_to_predict(table)
        kinds = _column_types(table)
        data = _xgboost().DMatrix(as_matrix(table), nthread=n_threads, **kinds)
        flat = self._booster_with(n_threads).predict(data, pred_contribs=True)
        return np.asarray(flat, np.float64).reshape(table.n_rows, -1, len(table.names) + 1)

    def files(self) -> dict[str, bytes]:
        """Return XGBoost's JSON format."""
        return {"trees.json": self._content}

    def check(self, n_columns: int, n_outputs: int, categories: Mapping[int, int]) -> None:
        """Check the JSON before XGBoost parses it; see :meth:`Ensemble.check`."""
        check_xgboost(self._content, n_columns, n_outputs, categories)


def _trees(model: dict[str, Any]) -> list[Any]:
    """The list of trees in XGBoost's JSON format."""
    return model["learner"]["gradient_booster"]["model"]["trees"]


def _column_types(table: Table) -> dict[str, Any]:
    if not table.categorical:
        return {}
    categorical = set(table.categorical)
    kinds = ["c" if column in categorical else "q" for column in range(len(table.names))]
    return {"feature_types": kinds, "enable_categorical": True}


def _block_iterator(table: Table) -> Any:
    """The blocks of a table in files, which XGBoost reads several times."""
    kinds = _column_types(table).get("feature_types")

    class BlockIterator(_xgboost().DataIter):  # type: ignore[misc]
        blocks: Iterator[Table]

        def reset(self) -> None:
            self.blocks = table.blocks()

        def next(self, input_data: Any) -> bool:
            block = next(self.blocks, None)
            if block is not None:
                input_data(data=block.values, feature_types=kinds)
            return block is not None

    return BlockIterator()


def _to_gpu(values: Array) -> Any:
    """The values on the GPU in single precision, as XGBoost stores them, copied in parts."""
    cupy = import_library("cupy", "device='cuda'", "cupy-cuda12x")
    array = cupy.empty(values.shape, dtype=np.float32)
    n_rows = max(COPIED_AT_ONCE // max(values.shape[1], 1), 1)
    for start in range(0, len(values), n_rows):
        part = values[start : start + n_rows]
        array[start : start + n_rows].set(np.ascontiguousarray(part, dtype=np.float32))
    return array
