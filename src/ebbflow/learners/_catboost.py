"""CatBoost trees, the paper's learner: one oblivious tree a round on a pool that is quantised once."""

import json
import os
import tempfile
from collections.abc import Sequence
from typing import Any

import numpy as np

from ebbflow.learners._base import Array, Ensemble, Growing, Learner, check_device, plain_values
from ebbflow.table import Table


def _catboost() -> Any:
    try:
        import catboost
    except ImportError:
        raise ImportError("learner='catboost' needs CatBoost: pip install 'ebbflow[catboost]'.") from None
    return catboost


class CatBoost(Learner):
    """Oblivious trees of CatBoost.

    Parameters
    ----------
    depth : int, default=6
    l2_leaf_reg : float, default=3.0
    shrinkage : float, default=1.0
        CatBoost's own learning rate: scales a tree but not the mean that ``from_average`` takes out.
    newton : bool, default=False
        Weigh nodes by their curvature. Off as in the paper, where (11) weighs all nodes alike.
    from_average : bool, default=True
        Take the mean of the residual out before a tree is grown and add it to the tree in full, as CatBoost's own
        ``boost_from_average`` does in the published recipe.
    params : dict, optional
        Any other CatBoost parameter, by its own name.
    """

    name = "catboost"
    takes_categories = False  # its statistics would be taken from a pool that has no labels

    def __init__(
        self,
        depth: int = 6,
        l2_leaf_reg: float = 3.0,
        shrinkage: float = 1.0,
        newton: bool = False,
        from_average: bool = True,
        params: dict[str, Any] | None = None,
    ) -> None:
        self.depth = depth
        self.l2_leaf_reg = l2_leaf_reg
        self.shrinkage = shrinkage
        self.newton = newton
        self.from_average = from_average
        self.params = params

    def start(self, table: Table, *, n_outputs: int, seed: int, n_jobs: int, device: str) -> "GrowingCatBoost":
        """Quantise the pool."""
        check_device(device, ("cpu",), self.name)
        own = {
            "iterations": 1,
            "learning_rate": self.shrinkage,  # the loop finds the step
            "loss_function": "RMSE",
            "boost_from_average": False,  # refused by CatBoost beside a baseline: done here by hand
            "allow_const_label": True,
            "depth": self.depth,
            "l2_leaf_reg": self.l2_leaf_reg,
            "thread_count": n_jobs,
            "verbose": False,
            "allow_writing_files": False,
        }
        return GrowingCatBoost(table, {**own, **(self.params or {})}, n_outputs, seed, self.newton, self.from_average)

    @classmethod
    def load(cls, files: dict[str, bytes]) -> "CatBoostEnsemble":
        """Read CatBoost's JSON format, one file per output."""
        trees = [files[name] for name in sorted(files) if name.startswith("trees-")]
        return CatBoostEnsemble(trees, *json.loads(files["shape.json"]))


class GrowingCatBoost(Growing):
    """The quantised pool and a list of one-tree models per output."""

    def __init__(
        self,
        table: Table,
        params: dict[str, Any],
        n_outputs: int,
        seed: int,
        newton: bool,
        from_average: bool,
    ) -> None:
        self._catboost = _catboost()
        self._params, self._seed, self._newton, self._from_average = params, seed, newton, from_average
        self._shape = (table.n_rows, n_outputs)
        self._trees: list[list[Any]] = [[] for _ in range(n_outputs)]
        self._written: list[list[bytes]] = [[] for _ in range(n_outputs)]  # each tree once, in CatBoost's own format
        self._pool = self._catboost.Pool(plain_values(table), label=np.zeros(table.n_rows))
        self._n_columns = len(table.names)
        self._constant = False
        try:
            self._pool.quantize()
        except self._catboost.CatBoostError as error:
            self._constant = _nothing_to_split(error)

    def grow(self, gradient: Array, curvature: Array) -> Array | None:
        """Fit one tree per output; label 0 and baseline −r make the residual r without quantising again."""
        if self._constant or not gradient.any():
            return None
        curvature = np.broadcast_to(curvature, self._shape)
        values = np.empty(self._shape)
        for output, trees in enumerate(self._trees):
            weight = curvature[:, output] if self._newton else None
            try:
                values[:, output] = self._grow_one(gradient[:, output], weight, trees)
            except self._catboost.CatBoostError as error:
                if _nothing_to_split(error):
                    return None
        return values if values.any() else None

    def _grow_one(self, gradient: Array, weight: Array | None, trees: list[Any]) -> Array:
        residual = -gradient
        if weight is not None:
            heard = weight > 1e-12 * weight.max()
            residual = np.divide(residual, weight, out=np.zeros_like(residual), where=heard)
            self._pool.set_weight(np.where(heard, weight, 0.0))
        average = float(np.average(residual, weights=weight)) if self._from_average else 0.0
        self._pool.set_baseline(average - residual)
        tree = self._catboost.CatBoost({**self._params, "random_seed": self._seed + len(trees)}).fit(self._pool)
        tree.set_scale_and_bias(1.0, average)
        trees.append(tree)
        self._pool.set_baseline(np.zeros(residual.size))
        return np.asarray(tree.predict(self._pool))

    def state(self) -> dict[str, Any]:
        """Return the trees; each is seeded by its number, so that nothing else is needed."""
        for trees, written in zip(self._trees, self._written, strict=True):
            written += [_to_bytes(tree, "cbm") for tree in trees[len(written) :]]
        texts = [text for written in self._written for text in written]
        return {
            "trees": b"".join(texts),
            "lengths": np.array([len(text) for text in texts], dtype=np.int64),
            "counts": [len(trees) for trees in self._trees],
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Read the trees."""
        ends = np.cumsum(state["lengths"]).tolist()
        texts = iter([state["trees"][start:end] for start, end in zip([0, *ends], ends, strict=False)])
        self._written = [[next(texts) for _ in range(count)] for count in state["counts"]]
        self._trees = [
            [self._catboost.CatBoost().load_model(blob=text) for text in written] for written in self._written
        ]

    def compile(self, weights: Sequence[float]) -> "CatBoostEnsemble":
        """Sum the models with CatBoost's own tool."""
        rounds = len(weights)
        models = [self._catboost.sum_models(trees[:rounds], weights=list(weights)) for trees in self._trees if rounds]
        return CatBoostEnsemble([_to_bytes(model, "json") for model in models], len(self._trees), self._n_columns)


class CatBoostEnsemble(Ensemble):
    """One CatBoost model per output, in CatBoost's JSON format, parsed when first needed; none if it has no trees."""

    def __init__(self, texts: list[bytes], n_outputs: int, n_columns: int) -> None:
        self._texts, self._n_outputs, self._n_columns = texts, n_outputs, n_columns
        self._parsed: list[Any] | None = None

    @property
    def models(self) -> list[Any]:
        """The ``catboost.CatBoost`` models, one per output."""
        if self._parsed is None:
            self._parsed = [_from_json(text) for text in self._texts]
        return self._parsed

    def predict(self, table: Table) -> Array:
        """Sum the trees."""
        if not self._texts:
            return np.zeros((table.n_rows, self._n_outputs))
        values = plain_values(table)
        return np.column_stack([model.predict(values) for model in self.models])

    def importances(self) -> Array:
        """How much the prediction changes with each column, summed over outputs."""
        total = np.zeros(self._n_columns)
        for model in self.models:
            total += model.get_feature_importance(type="PredictionValuesChange")
        return total

    def contributions(self, table: Table) -> Array:
        """TreeSHAP values, by CatBoost."""
        if not self._texts:
            return np.zeros((table.n_rows, self._n_outputs, self._n_columns + 1))
        pool = _catboost().Pool(plain_values(table))
        return np.stack([model.get_feature_importance(pool, type="ShapValues") for model in self.models], axis=1)

    def files(self) -> dict[str, bytes]:
        """CatBoost's JSON format, one file per output."""
        shape = json.dumps([self._n_outputs, self._n_columns]).encode()
        return {"shape.json": shape} | {f"trees-{output:05d}.json": text for output, text in enumerate(self._texts)}

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_parsed": None}


def _nothing_to_split(error: Exception) -> bool:
    """Whether CatBoost gave up because no column varies or no residual is left; any other error is raised again."""
    if "constant" in str(error) or "sampling units" in str(error):
        return True
    raise error


def _to_bytes(model: Any, kind: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:  # CatBoost writes to paths only
        path = os.path.join(folder, "model")
        try:
            model.save_model(path, format=kind)
        except _catboost().CatBoostError as error:
            raise OSError(f"CatBoost could not write a temporary file: {error}") from None
        with open(path, "rb") as file:
            return file.read()


def _from_json(text: bytes) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.json")
        with open(path, "wb") as file:
            file.write(text)
        return _catboost().CatBoost().load_model(path, format="json")
