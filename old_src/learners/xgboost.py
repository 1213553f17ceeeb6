"""XGBoost trees: one booster on a QuantileDMatrix, boosted with a custom gradient each round."""

import copy
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
        self._n_rounds = 0
        self._empty_rounds: list[int] = []  # without a split, and without a weight
        #: XGBoost's JSON format, and the trees of each round in it.
        self._document: dict[str, Any] = {}
        self._rounds: list[bytes] = []
        # On the GPU one booster for all rounds, whose memory there is costly to allocate.
        on_gpu = self._params["device"] == "cuda"
        self._booster: Any = self._new_booster() if on_gpu else None

    def _new_booster(self) -> Any:
        return _xgboost().Booster(self._params, [self._data])

    def grow(self, gradient: Array, curvature: Array) -> Array | None:
        """Grow one tree per output; see :meth:`TreeGrower.grow`.

        The values are those of the new tree alone: differences of float32 scores lose digits.
        """
        curvature = np.ascontiguousarray(np.broadcast_to(curvature, self._shape), like=gradient)
        gradient = np.ascontiguousarray(gradient, like=gradient)
        booster = self._booster
        if booster is None:
            booster = self._new_booster()
            # A booster that has predicted the rows stores the predictions of its next tree.
            booster.predict(self._data, output_margin=True)
        booster.boost(self._data, self._n_rounds, grad=gradient, hess=curvature)
        self._n_rounds += 1
        if booster is not self._booster:
            self._store(booster)
        values = np.asarray(self._newest_values(booster), dtype=np.float64, like=gradient)
        tree: Array = values.reshape(self._shape)
        if tree.any():
            return tree
        # On a cluster these are some of the rows: whether the tree is empty, only the model tells.
        self._store_all()
        if any(len(one["left_children"]) > 1 for one in json.loads(self._rounds[-1])):
            return tree
        self._empty_rounds.append(self._n_rounds - 1)
        return None

    def _newest_values(self, booster: Any) -> Any:
        """Values of the newest trees, on the GPU if the table is there too."""
        if booster is not self._booster:
            return booster.predict(self._data, output_margin=True)
        newest = (self._n_rounds - 1, self._n_rounds)
        if self._gpu_values is None:
            return booster.predict(self._data, output_margin=True, iteration_range=newest)
        # Predictions from bins would go by way of the CPU.
        return booster.inplace_predict(
            self._gpu_values, predict_type="margin", iteration_range=newest
        )

    def _store(self, booster: Any) -> None:
        """Store the trees of a booster of one round."""
        self._document = json.loads(booster.save_raw("json"))
        self._rounds.append(json.dumps(_trees(self._document)).encode())

    def _store_all(self) -> None:
        """Store the trees of all rounds."""
        for number in range(len(self._rounds), self._n_rounds):
            self._store(self._booster[number : number + 1])

    def state(self) -> dict[str, Any]:
        """Return the trees; see :meth:`TreeGrower.state`."""
        for name in ("colsample_bylevel", "colsample_bynode"):
            if self._booster is not None and self._params.get(name, 1) != 1:
                raise ValueError(
                    f"checkpoint: the random draws of XGBoost with {name}={self._params[name]!r} "
                    "cannot be repeated when a fit resumes; remove it, or fit without a checkpoint."
                )
        self._store_all()
        document = json.dumps(self._document).encode()
        return {"document": document, "trees": self._rounds, "empty": self._empty_rounds}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a checkpoint.

        On the GPU the column sampler, which no file holds, must be where it was. What it draws does
        not depend on the gradient: as many rounds with gradient 0 are boosted.
        """
        self._document = json.loads(state["document"])
        self._rounds = list(state["trees"])
        self._empty_rounds = list(state["empty"])
        self._n_rounds = len(self._rounds)
        if self._booster is None:
            return
        zero = np.zeros(self._shape)
        one = np.ones(self._shape)
        for number in range(self._n_rounds):
            self._booster.boost(self._data, number, grad=zero, hess=one)

    def compile(self, weights: Sequence[float]) -> "XGBoostEnsemble":
        """Return the weighted sum; see :meth:`TreeGrower.compile`."""
        weights = list(weights)
        for number in self._empty_rounds:
            if number < len(weights):
                weights.insert(number, 0.0)
        self._store_all()
        trees = []
        for weight, content in zip(weights or [0.0], self._rounds, strict=False):
            for tree in json.loads(content):
                tree["base_weights"] = [weight * value for value in tree["base_weights"]]
                # Thresholds of splits, values of leaves.
                conditions = zip(tree["split_conditions"], tree["left_children"], strict=True)
                tree["split_conditions"] = [
                    weight * value if child == -1 else value for value, child in conditions
                ]
                trees.append(tree)
        return XGBoostEnsemble(json.dumps(self._joined(trees)).encode())

    def _joined(self, trees: list[dict[str, Any]]) -> dict[str, Any]:
        """The model with other trees, as many for each round as before."""
        model = copy.deepcopy(self._document)
        if not model:
            return model
        n_outputs = self._shape[1]
        part = model["learner"]["gradient_booster"]["model"]
        part["trees"] = [tree | {"id": number} for number, tree in enumerate(trees)]
        part["tree_info"] = [number % n_outputs for number in range(len(trees))]
        part["iteration_indptr"] = list(range(0, len(trees) + 1, n_outputs))
        part["gbtree_model_param"]["num_trees"] = str(len(trees))
        return model


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
