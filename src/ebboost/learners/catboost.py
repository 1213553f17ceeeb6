"""CatBoost trees, the paper's learner: one oblivious tree a round on a pool that is quantised once."""

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ebboost.data.archive import parse_json
from ebboost.data.table import Table
from ebboost.learners._untrusted import keys, numbers, refuse_unless, whole_numbers
from ebboost.learners.base import Array, Ensemble, Learner, TreeGrower, check_device, plain_values
from ebboost.propagation import allowed_threads


def _catboost() -> Any:
    try:
        import catboost
    except ImportError:
        raise ImportError(
            "learner='catboost' needs CatBoost: pip install 'ebboost[catboost]'."
        ) from None
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

    def start(
        self, table: Table, *, n_outputs: int, seed: int, n_jobs: int, device: str
    ) -> "CatBoostGrower":
        """Quantise the pool."""
        check_device(device, self.devices, self.name)
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
        return CatBoostGrower(
            table, {**own, **(self.params or {})}, n_outputs, seed, self.newton, self.from_average
        )

    @classmethod
    def load(cls, files: dict[str, bytes]) -> "CatBoostEnsemble":
        """Read CatBoost's JSON format, one file per output."""
        trees = [files[name] for name in sorted(files) if name.startswith("trees-")]
        n_outputs, n_columns = parse_json(files["shape.json"])
        return CatBoostEnsemble(trees, n_outputs, n_columns)


class CatBoostGrower(TreeGrower):
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
        self._params, self._seed, self._newton, self._from_average = (
            params,
            seed,
            newton,
            from_average,
        )
        self._shape = (table.n_rows, n_outputs)
        self._trees: list[list[Any]] = [[] for _ in range(n_outputs)]
        self._written: list[list[bytes]] = [
            [] for _ in range(n_outputs)
        ]  # each tree once, in CatBoost's own format
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
        values, before = np.zeros(self._shape), len(self._trees[0])
        try:
            for output, trees in enumerate(self._trees):
                weight = curvature[:, output] if self._newton else None
                values[:, output] = self._grow_one(gradient[:, output], weight, trees)
        except self._catboost.CatBoostError as error:
            if _nothing_to_split(error):
                values[:] = 0.0
        if values.any():
            return values
        for trees in self._trees:  # what came to nothing has no place among the weights
            del trees[before:]
        return None

    def _grow_one(self, gradient: Array, weight: Array | None, trees: list[Any]) -> Array:
        residual = -gradient
        if weight is not None:
            heard = weight > 1e-12 * weight.max()
            residual = np.divide(residual, weight, out=np.zeros_like(residual), where=heard)
            self._pool.set_weight(np.where(heard, weight, 0.0))
        average = float(np.average(residual, weights=weight)) if self._from_average else 0.0
        self._pool.set_baseline(average - residual)
        tree = self._catboost.CatBoost(
            {**self._params, "random_seed": self._seed + len(trees)}
        ).fit(self._pool)
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
        texts = iter(
            [state["trees"][start:end] for start, end in zip([0, *ends], ends, strict=False)]
        )
        self._written = [[next(texts) for _ in range(count)] for count in state["counts"]]
        self._trees = [
            [self._catboost.CatBoost().load_model(blob=text) for text in written]
            for written in self._written
        ]

    def compile(self, weights: Sequence[float]) -> "CatBoostEnsemble":
        """Sum the models with CatBoost's own tool."""
        rounds = len(weights)
        models = [
            self._catboost.sum_models(trees[:rounds], weights=list(weights))
            for trees in self._trees
            if rounds
        ]
        return CatBoostEnsemble(
            [_to_json(model) for model in models], len(self._trees), self._n_columns
        )


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
        return np.column_stack(
            [model.predict(values, thread_count=allowed_threads()) for model in self.models]
        )

    def importances(self) -> Array:
        """How much the prediction changes with each column, summed over outputs."""
        total = np.zeros(self._n_columns)
        for model in self.models:
            total += model.get_feature_importance(type="PredictionValuesChange")
        return np.nan_to_num(total)  # NaN where no prediction changes with any column

    def contributions(self, table: Table) -> Array:
        """TreeSHAP values, by CatBoost."""
        if not self._texts:
            return np.zeros((table.n_rows, self._n_outputs, self._n_columns + 1))
        pool, count = _catboost().Pool(plain_values(table)), allowed_threads()
        found = [
            model.get_feature_importance(pool, type="ShapValues", thread_count=count)
            for model in self.models
        ]
        return np.stack(found, axis=1)

    def files(self) -> dict[str, bytes]:
        """CatBoost's JSON format, one file per output."""
        shape = json.dumps([self._n_outputs, self._n_columns]).encode()
        return {"shape.json": shape} | {
            f"trees-{output:05d}.json": text for output, text in enumerate(self._texts)
        }

    def check(self, n_columns: int, n_outputs: int, categories: Mapping[int, int]) -> None:
        """Check every part of the JSON; it has no part but those that a prediction needs."""
        shape = whole_numbers([self._n_outputs, self._n_columns], 1, 2**31, "shape").tolist()
        refuse_unless(shape == [n_outputs, n_columns], f"they are not for {n_columns} columns")
        refuse_unless(len(self._texts) in (0, n_outputs), f"there must be {n_outputs} models")
        for text in self._texts:
            model = parse_json(text)
            kind = (
                "oblivious_trees"
                if isinstance(model, dict) and "oblivious_trees" in model
                else "trees"
            )
            keys(model, ("features_info", "scale_and_bias", kind), "the file")
            features = keys(model["features_info"], ("float_features",), "features")[
                "float_features"
            ]
            borders = _borders(features, n_columns)
            told = model["scale_and_bias"]
            refuse_unless(
                isinstance(told, list) and len(told) == 2 and isinstance(told[1], list),
                "scale_and_bias",
            )
            scale_and_bias = numbers([told[0], *told[1]], "scale_and_bias")
            refuse_unless(scale_and_bias.size == 2 and scale_and_bias[0] == 1.0, "scale_and_bias")
            refuse_unless(isinstance(model[kind], list) and model[kind], "there are none")
            for tree in model[kind]:
                _check_oblivious(tree, borders) if kind == "oblivious_trees" else _check_branches(
                    tree, borders
                )

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_parsed": None}


MOST_DEPTH = 16  # CatBoost's own
FEATURE_PARTS = (
    "borders",
    "feature_id",
    "feature_index",
    "flat_feature_index",
    "has_nans",
    "nan_value_treatment",
)


def _borders(features: Any, n_columns: int) -> list[tuple[int, float]]:
    """Column and value of every border, in the order in which splits count them."""
    refuse_unless(
        isinstance(features, list) and len(features) == n_columns,
        f"they are not for {n_columns} columns",
    )
    borders: list[tuple[int, float]] = []
    for column, feature in enumerate(features):
        keys(feature, FEATURE_PARTS, "a feature")
        places = whole_numbers(
            [feature["feature_index"], feature["flat_feature_index"]], 0, n_columns - 1, "features"
        )
        values = numbers(feature["borders"], "borders", float(np.finfo(np.float32).max))
        refuse_unless((np.diff(values) > 0).all(), "borders must increase")
        sound = (places == column).all() and feature["feature_id"] == ""
        refuse_unless(sound and isinstance(feature["has_nans"], bool), "a feature")
        refuse_unless(
            feature["nan_value_treatment"] in ("AsIs", "AsFalse", "AsTrue"), "nan_value_treatment"
        )
        borders += [(column, value) for value in values.tolist()]
    return borders


def _check_split(split: Any, borders: list[tuple[int, float]]) -> None:
    told = keys(split, ("border", "float_feature_index", "split_index", "split_type"), "a split")
    at = int(whole_numbers([told["split_index"]], 0, len(borders) - 1, "split_index")[0])
    column, value = told["float_feature_index"], told["border"]
    same = type(column) is int and type(value) in (int, float) and borders[at] == (column, value)
    refuse_unless(told["split_type"] == "FloatFeature" and same, "a split at no border")


def _check_oblivious(tree: Any, borders: list[tuple[int, float]]) -> None:
    """One split for each level."""
    splits = keys(tree, ("leaf_values", "leaf_weights", "splits"), "a tree")["splits"]
    splits = [] if splits is None else splits  # how CatBoost writes a tree that is one leaf
    refuse_unless(
        isinstance(splits, list) and len(splits) <= MOST_DEPTH, f"more than {MOST_DEPTH} levels"
    )
    for split in splits:
        _check_split(split, borders)
    for part in ("leaf_values", "leaf_weights"):
        refuse_unless(
            numbers(tree[part], part).size == 2 ** len(splits), f"{part} for {len(splits)} splits"
        )


def _check_branches(tree: Any, borders: list[tuple[int, float]], depth: int = 0) -> None:
    """A tree that branches: CatBoost's policies Depthwise and Lossguide."""
    refuse_unless(isinstance(tree, dict) and depth <= MOST_DEPTH, f"more than {MOST_DEPTH} levels")
    if "split" not in tree:
        numbers(list(keys(tree, ("value", "weight"), "a leaf").values()), "a leaf")
        return
    _check_split(keys(tree, ("left", "right", "split"), "a tree")["split"], borders)
    for side in ("left", "right"):
        _check_branches(tree[side], borders, depth + 1)


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


def _to_json(model: Any) -> bytes:
    told = json.loads(_to_bytes(model, "json"))
    # The rest is how each tree was trained: most of the file, with a date in it, and CatBoost would read it back.
    del told["model_info"]
    return json.dumps(told).encode()


def _from_json(text: bytes) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.json")
        with open(path, "wb") as file:
            file.write(text)
        return _catboost().CatBoost().load_model(path, format="json")
