"""CatBoost trees, the learner of the paper: one tree a round on a pool that is quantised once."""

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ebboost.data.archive import parse_json
from ebboost.data.once import lazy_property
from ebboost.data.schema import match, require
from ebboost.data.table import Table
from ebboost.learners._untrusted import check_catboost
from ebboost.learners.base import (
    Array,
    Ensemble,
    Learner,
    TreeGrower,
    as_matrix,
    import_library,
    newton_target,
    threads_to_predict,
)
from ebboost.learners.constraints import MONOTONE, translate_constraints
from ebboost.propagation import allowed_threads


def _catboost() -> Any:
    return import_library("catboost", "learner='catboost'", "catboost")


@dataclass(eq=False, repr=False)
class CatBoost(Learner):
    """Oblivious trees of CatBoost.

    Parameters
    ----------
    depth : int, default=6
        Depth of a tree.
    l2_leaf_reg : float, default=3.0
        L2 penalty on leaf values.
    shrinkage : float, default=1.0
        CatBoost's own learning rate: scales a tree, but not the mean that ``from_average`` adds.
    newton : bool, default=False
        Weight nodes by their curvature. The paper does not: (11) weights all nodes equally.
    from_average : bool, default=True
        Subtract the mean of the negative gradient before a tree is grown and add it to the tree,
        as CatBoost's ``boost_from_average`` does in the published implementation.
    params : dict, optional
        Further parameters of CatBoost by its own names; ``monotone_constraints`` as for
        :class:`LightGBM`.

    Examples
    --------
    >>> import ebboost as eb
    >>> model = eb.EBBSRegressor(learner=eb.CatBoost(depth=4, newton=True))
    """

    name = "catboost"
    takes_categories = False  # CatBoost's statistics need labels, which the pool does not have

    depth: int = 6
    l2_leaf_reg: float = 3.0
    shrinkage: float = 1.0
    newton: bool = False
    from_average: bool = True
    params: dict[str, Any] | None = None

    def start(
        self, table: Table, *, n_outputs: int, seed: int, n_jobs: int, device: str
    ) -> "CatBoostGrower":
        """Quantise the table; see :meth:`Learner.start`."""
        self.check(device)
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
        if params.get(MONOTONE) is not None:  # CatBoost would shrink models, and cannot here
            params.setdefault("model_shrink_rate", 0.0)
        return CatBoostGrower(table, params, n_outputs, seed, self.newton, self.from_average)

    @classmethod
    def load(cls, files: dict[str, bytes]) -> "CatBoostEnsemble":
        """Return the ensemble in CatBoost's JSON format; see :meth:`Learner.load`."""
        models = [files[name] for name in sorted(files) if name.startswith("trees-")]
        n_outputs, n_columns = parse_json(files["shape.json"])
        return CatBoostEnsemble(models, n_outputs, n_columns)


class CatBoostGrower(TreeGrower):
    """A quantised pool and the models of one tree grown on it, a list for each output."""

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
        self._params = params
        self._seed = seed
        self._newton = newton
        self._from_average = from_average
        self._shape = (table.n_rows, n_outputs)
        self._n_columns = len(table.names)
        self._trees: list[list[Any]] = [[] for _ in range(n_outputs)]
        self._saved: list[list[bytes]] = [[] for _ in range(n_outputs)]  # each tree written once
        self._pool = self._catboost.Pool(as_matrix(table), label=np.zeros(table.n_rows))
        self._constant = False
        try:
            self._pool.quantize()
        except self._catboost.CatBoostError as error:
            self._constant = _has_nothing_to_split(error)

    def grow(self, gradient: Array, curvature: Array) -> Array | None:
        """Grow one tree per output; see :meth:`TreeGrower.grow`."""
        if self._constant or not gradient.any():
            return None
        curvature = np.broadcast_to(curvature, self._shape)
        values = np.zeros(self._shape)
        n_before = len(self._trees[0])
        try:
            for output, trees in enumerate(self._trees):
                weight = curvature[:, output] if self._newton else None
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
        mean = float(np.average(target, weights=weight)) if self._from_average else 0.0
        self._pool.set_baseline(mean - target)
        params = {**self._params, "random_seed": self._seed + len(trees)}
        tree = self._catboost.CatBoost(params).fit(self._pool)
        tree.set_scale_and_bias(1.0, mean)
        trees.append(tree)
        self._pool.set_baseline(np.zeros(target.size))
        return np.asarray(tree.predict(self._pool))

    def state(self) -> dict[str, Any]:
        """Return the trees; each is seeded by its number, so that nothing else is needed."""
        for trees, saved in zip(self._trees, self._saved, strict=True):
            saved += [_write_model(tree, "cbm") for tree in trees[len(saved) :]]
        contents = [content for saved in self._saved for content in saved]
        lengths = np.array([len(content) for content in contents], dtype=np.int64)
        return {"trees": b"".join(contents), "lengths": lengths}

    def restore(self, state: dict[str, Any]) -> None:
        """Load the trees; see :meth:`TreeGrower.restore`."""
        ends = np.cumsum(state["lengths"]).tolist()
        contents = [state["trees"][a:b] for a, b in zip([0, *ends], ends, strict=False)]
        n_rounds = len(contents) // len(self._trees)
        for output in range(len(self._trees)):
            saved = contents[output * n_rounds : (output + 1) * n_rounds]
            self._saved[output] = saved
            self._trees[output] = [self._catboost.CatBoost().load_model(blob=c) for c in saved]

    def compile(self, weights: Sequence[float]) -> "CatBoostEnsemble":
        """Return the weighted sum by ``catboost.sum_models``; see :meth:`TreeGrower.compile`."""
        rounds = [trees[: len(weights)] for trees in self._trees] if weights else []
        sums = [self._catboost.sum_models(trees, weights=list(weights)) for trees in rounds]
        models = [_write_json(model) for model in sums]
        return CatBoostEnsemble(models, len(self._trees), self._n_columns)


class CatBoostEnsemble(Ensemble):
    """One model per output in CatBoost's JSON format, parsed when first used."""

    def __init__(self, contents: list[bytes], n_outputs: int, n_columns: int) -> None:
        self._contents = contents
        self._n_outputs = n_outputs
        self._n_columns = n_columns

    @lazy_property
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
        pool = _catboost().Pool(as_matrix(table))
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
        match([self._n_outputs, self._n_columns], [n_outputs, n_columns], "shape.json")
        complete = len(self._contents) in (0, n_outputs)
        require(complete, f"there must be {n_outputs} files of trees, got {len(self._contents)}")
        for content in self._contents:
            check_catboost(content, n_columns)


def _has_nothing_to_split(error: Exception) -> bool:
    """True for CatBoost's errors that no column varies or no row has weight; raise any other."""
    if "constant" in str(error) or "sampling units" in str(error):
        return True
    raise error


def _write_model(model: Any, kind: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:  # CatBoost writes to paths only
        path = os.path.join(folder, "model")
        try:
            model.save_model(path, format=kind)
        except _catboost().CatBoostError as error:
            raise OSError(f"CatBoost could not write a temporary file: {error}") from None
        with open(path, "rb") as file:
            return file.read()


def _write_json(model: Any) -> bytes:
    content = json.loads(_write_model(model, "json"))
    # How each tree was trained, with a date: most of the file, and CatBoost would read it back.
    del content["model_info"]
    return json.dumps(content).encode()


def _read_json(content: bytes) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.json")
        with open(path, "wb") as file:
            file.write(content)
        return _catboost().CatBoost().load_model(path, format="json")
