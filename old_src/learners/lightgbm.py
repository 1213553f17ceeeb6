"""LightGBM trees: one booster on a table binned once, boosted with a custom gradient each round.

Training uses LightGBM's documented interface: ``Booster.update`` takes the gradient, and
``Booster.eval_train`` hands out its buffer of scores, which the next update then uses again. One
private hook, with a fallback, is in :func:`_block_dataset`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from ebboost.data.lazy import LazyMatrix
from ebboost.data.once import lazy_property
from ebboost.data.parquet import ParquetMatrix
from ebboost.data.schema import require
from ebboost.data.table import Table
from ebboost.data.types import IntArray
from ebboost.learners._untrusted import check_lightgbm
from ebboost.learners.base import (
    Array,
    BoosterGrower,
    Ensemble,
    Learner,
    as_matrix,
    import_library,
    threads_to_predict,
)
from ebboost.learners.constraints import translate_constraints
from ebboost.propagation import allowed_threads

# By every name: parameters that draw at each split, whose number depends on the data. Each round
# then gets a seed of its own, or a resumed fit could not repeat the draws.
DRAWS_AT_SPLITS = {
    "extra_trees",
    "extra_tree",
    "feature_fraction_bynode",
    "sub_feature_bynode",
    "colsample_bynode",
}
# Values, as LightGBM writes them, with which the draws of a round do not depend on the gradient.
REPEATABLE = {
    "data_sample_strategy": ("bagging",),
    "use_quantized_grad": ("0",),
    "bagging_freq": ("0", "1"),
}
_SETTING = re.compile(r"^\[(\w+): (.*)\]$", flags=re.MULTILINE)
_SETTINGS = re.compile(r"(?<=\nparameters:\n)(?:\[.*\]\n)*(?=\nend of parameters\n)")
_TREE = re.compile(r"^Tree=\d+\n", flags=re.MULTILINE)
_TREE_SIZES = re.compile(r"^tree_sizes=.*$", flags=re.MULTILINE)
_LEAF_VALUES = re.compile(r"^leaf_value=(.*)$", flags=re.MULTILINE)


@dataclass(eq=False, repr=False)
class LightGBM(Learner):
    """Leaf-wise trees of LightGBM (the default learner).

    Parameters
    ----------
    num_leaves : int, default=31
        Largest number of leaves of a tree.
    max_depth : int, default=-1
        Largest depth of a tree; −1 for no limit.
    min_child_samples : int, default=20
        Smallest number of rows in a leaf. LightGBM estimates it from the sum of curvatures, so
        nodes far from any label count less.
    reg_lambda : float, default=0.0
        L2 penalty on leaf values.
    colsample_bytree : float, default=1.0
        Fraction of the columns that each tree may split.
    subsample : float, default=1.0
        Fraction of the rows that each tree is grown on.
    max_bin : int, default=255
        Largest number of bins of a column.
    params : dict, optional
        Further parameters of LightGBM by its own names; ``linear_tree``, DART and random forests
        are not supported. Constraints name columns of X:
        ``{"monotone_constraints": {"area": 1}, "interaction_constraints": [["x", "y"]]}``.

    Examples
    --------
    >>> import ebboost as eb
    >>> learner = eb.LightGBM(num_leaves=15, colsample_bytree=0.5)
    >>> eb.EBBSRegressor(learner=learner).get_params()["learner__num_leaves"]
    15
    """

    name = "lightgbm"
    takes_blocks = True
    same_from_blocks = True
    is_concurrent = True
    # By every name: trees that later rounds change, averages of trees, linear leaves.
    unsupported: ClassVar[Mapping[str, Sequence[object]]] = {
        **dict.fromkeys(("boosting", "boosting_type", "boost"), ("dart", "rf", "random_forest")),
        **dict.fromkeys(("linear_tree", "linear_trees"), (True, "true", "True", "1")),
    }

    num_leaves: int = 31
    max_depth: int = -1
    min_child_samples: int = 20
    reg_lambda: float = 0.0
    colsample_bytree: float = 1.0
    subsample: float = 1.0
    max_bin: int = 255
    params: dict[str, Any] | None = None

    def start(
        self, table: Table, *, n_outputs: int, seed: int, n_jobs: int, device: str
    ) -> "LightGBMGrower":
        """Bin the table; see :meth:`Learner.start`."""
        self.check(device)
        # LightGBM aborts if it draws no row.
        subsample = self.subsample if self.subsample * table.n_rows >= 1.0 else 1.0
        params = {
            "objective": "none",
            "metric": "none",
            "num_class": n_outputs,
            "learning_rate": 1.0,  # the loop chooses the step
            "boost_from_average": False,
            "feature_pre_filter": False,  # or LightGBM aborts on tables of a few rows
            "num_leaves": self.num_leaves,
            "max_depth": self.max_depth,
            "min_data_in_leaf": self.min_child_samples,
            "min_sum_hessian_in_leaf": 1e-3,
            "lambda_l2": self.reg_lambda,
            "feature_fraction": self.colsample_bytree,
            "bagging_fraction": subsample,
            "bagging_freq": int(subsample < 1.0),
            "max_bin": self.max_bin,
            "seed": seed,
            # Without these two LightGBM times both ways of building histograms and takes the
            # faster: the model would depend on the load of the machine.
            "deterministic": True,
            "force_col_wise": True,
            "num_threads": n_jobs,
            "verbosity": -1,
        }
        return LightGBMGrower(table, params | translate_constraints(self.params, table), n_outputs)

    @classmethod
    def load(cls, files: dict[str, bytes]) -> "LightGBMEnsemble":
        """Return the ensemble in LightGBM's text format; see :meth:`Learner.load`."""
        return LightGBMEnsemble(files["trees.txt"].decode("ascii"))


class LightGBMGrower(BoosterGrower):
    """A LightGBM booster in training and the scores after its last round."""

    def __init__(self, table: Table, params: dict[str, Any], n_outputs: int) -> None:
        self._lightgbm = import_library("lightgbm", "learner='lightgbm'", "lightgbm")
        self._params = params
        self._shape = (table.n_rows, n_outputs)
        dataset = self._lightgbm.Dataset
        values = as_matrix(table)
        if table.in_blocks:
            dataset, values = _block_dataset(table.values)
        label = np.zeros(table.n_rows, dtype=np.float32)
        categories = list(table.categorical)
        data = dataset(values, label=label, categorical_feature=categories, params=params)
        self._data = data.construct()
        self._data.is_binned = True
        # A table without a column to split on is a fatal error to LightGBM, printed as one too.
        columns = range(table.values.shape[1])
        self._constant = not any(self._data.feature_num_bin(column) for column in columns)
        self._all_rows = (self._data, self._shape)
        self._subsets: list[tuple[IntArray, Any]] = []  # the last one, for all that share the bins
        self._start()

    def on_rows(self, rows: IntArray) -> "LightGBMGrower":
        """Return a booster on some rows; see :meth:`TreeGrower.on_rows`."""
        if not self._subsets or not np.array_equal(self._subsets[0][0], rows):
            subset = self._all_rows[0].subset(rows).construct()
            self._subsets[:] = [(rows, subset)]
        other = copy(self)
        other._data = self._subsets[0][1]
        other._shape = (rows.size, self._shape[1])
        other._start()
        return other

    def clone_with_shared_bins(
        self, seed: int, changes: Mapping[str, object] = MappingProxyType({})
    ) -> "LightGBMGrower":
        """Return a new booster on all rows of the same bins."""
        other = copy(self)
        other._data, other._shape = self._all_rows
        return BoosterGrower.clone_with_shared_bins(other, seed, changes)

    def _start(self) -> None:
        params = dict(self._params)
        n_rows = self._shape[0]
        n_all = self._all_rows[1][0]
        if n_rows < n_all:
            # LightGBM estimates the rows of a leaf by its share of the curvature; the same share.
            least = params["min_data_in_leaf"] * n_rows / n_all
            params["min_data_in_leaf"] = max(round(least), 1)
            if params["bagging_fraction"] * n_rows < 1.0:  # or LightGBM aborts
                params["bagging_fraction"] = 1.0
        self._booster: Any = self._lightgbm.Booster(params, self._data)
        n_trees = self._booster.num_model_per_iteration()
        if n_trees != self._shape[1]:
            raise ValueError(
                f"params: with num_class={self._params['num_class']!r}, LightGBM grows {n_trees} "
                f"trees a round, not the {self._shape[1]} expected; remove it."
            )
        self._scores = np.zeros(self._shape, order="F")  # as LightGBM's buffer
        self._n_updates = 0
        self._n_empty = 0  # rounds without a split at the start, whose trees LightGBM keeps
        self._n_grown = 0
        self._restored: list[str] = []  # trees from a checkpoint
        self._last_curvature: tuple[Array, NDArray[np.float32]] | None = None

    def grow(self, gradient: Array, curvature: Array) -> Array | None:
        """Grow one tree per output; see :meth:`TreeGrower.grow`."""
        if self._constant or not self._update(gradient, curvature):
            return None
        tree = np.empty(self._shape)

        def read_scores(scores: Array, _: object) -> list[object]:
            scores = scores.reshape(self._shape)
            np.subtract(scores, self._scores, out=self._scores)
            np.copyto(tree, self._scores)
            np.copyto(self._scores, scores)
            return []

        self._booster.eval_train(read_scores)
        return tree

    def _update(self, gradient: Array, curvature: Array) -> bool:
        """Boost one round and return whether any tree has a split."""
        booster = self._booster
        if not DRAWS_AT_SPLITS.isdisjoint(self._params):
            seed = crc32(f"{self._params['seed']} {self._n_updates}".encode()) >> 1
            booster.reset_parameter({"feature_fraction_seed": seed, "extra_seed": seed})
        self._n_updates += 1
        last = self._last_curvature
        if last is None or last[0] is not curvature or curvature.flags.writeable:
            last = self._last_curvature = (curvature, self._flat(curvature))
        flat_gradient = self._flat(gradient)
        flat_curvature = last[1]
        # A checkpoint of another booster on the same bins may have set scores to start from:
        # LightGBM would otherwise read the table, and them, again.
        booster.train_set_version = self._data.version
        if booster.update(fobj=lambda *_: (flat_gradient, flat_curvature)):
            if not self._n_grown:
                self._n_empty = booster.current_iteration()
            return False
        self._n_grown += 1
        return True

    def _flat(self, values: Array) -> NDArray[np.float32]:
        """One output after the other, in single precision."""
        by_output = np.broadcast_to(values, self._shape).T
        return np.ascontiguousarray(by_output, dtype=np.float32).ravel()

    def _text(self, n_rounds: int) -> str:
        """The first rounds in LightGBM's text format; all rounds if ``n_rounds`` is 0."""
        n_own = n_rounds - len(self._restored) // self._shape[1]
        text: str = self._booster.model_to_string(n_own if n_own > 0 else -1, self._n_empty)
        if not self._restored:
            return text
        head, trees, rest = split_text(text)
        trees = self._restored + (trees if n_own > 0 or not n_rounds else [])
        return join_text(head, trees[: n_rounds * self._shape[1] or None], rest)

    def state(self) -> dict[str, Any]:
        """Return the trees, their exact scores and how many rounds drew columns and rows."""
        text = self._text(0)
        settings = dict(_SETTING.findall(text))
        for name, repeatable in REPEATABLE.items():
            if settings.get(name, repeatable[0]) not in repeatable:
                raise ValueError(
                    f"checkpoint: the random draws of LightGBM with {name}={settings[name]} cannot "
                    "be repeated when a fit resumes; remove it, or fit without a checkpoint."
                )
        fractions = ("feature_fraction", "bagging_fraction")
        return {
            "trees": text.encode(),
            "scores": np.array(self._scores, order="C"),
            "updates": self._n_updates,
            "draws": any(float(settings[name]) < 1.0 for name in fractions),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Start a booster whose next scores and draws are those of the one in the checkpoint.

        The scores are exact because the booster starts from them. Random numbers, which no file
        holds, are drawn as often as before: a round with gradient 0 draws, and grows nothing.
        """
        if not state["updates"]:
            return
        self._set_init_score(state["scores"])
        self._start()
        self._set_init_score(np.zeros(self._shape))  # for boosters that share the bins
        np.copyto(self._scores, state["scores"])
        self._restored = split_text(state["trees"].decode())[1]
        for _ in range(state["updates"] if state["draws"] else 0):
            self._update(np.zeros(self._shape), np.ones((1, 1)))
        self._n_updates = state["updates"]

    def _set_init_score(self, scores: Array) -> None:
        self._data.set_init_score(scores if self._shape[1] > 1 else scores[:, 0])

    def compile(self, weights: Sequence[float]) -> "LightGBMEnsemble":
        """Return the weighted sum; see :meth:`TreeGrower.compile`."""
        weight_of_tree = [weight for weight in weights for _ in range(self._shape[1])]
        return LightGBMEnsemble(self._text(len(weights)), weight_of_tree)


class LightGBMEnsemble(Ensemble):
    """A model in LightGBM's text format, parsed when first used.

    Leaf values are then multiplied by the ``weights`` of the trees, 0 for trees beyond them; values
    of inner nodes, which no prediction uses, stay as they are.
    """

    def __init__(self, text: str, weights: Sequence[float] | None = None) -> None:
        self._text = text
        self._weights = weights

    @property
    def weighted_text(self) -> tuple[str, Sequence[float]]:
        """LightGBM's text, and the weight of each of its trees."""
        n_trees = len(_LEAF_VALUES.findall(self._text))
        weights = [1.0] * n_trees if self._weights is None else [*self._weights, *[0.0] * n_trees]
        return self._text, weights[:n_trees]

    @lazy_property
    def booster(self) -> Any:
        """The ``lightgbm.Booster``, for SHAP and other tools that read LightGBM models."""
        lightgbm = import_library("lightgbm", "learner='lightgbm'", "lightgbm")
        booster = lightgbm.Booster(model_str=self._text)
        booster.params.setdefault("objective", "custom")  # SHAP expects it
        if self._weights is not None:
            leaves = _LEAF_VALUES.findall(self._text)
            weights = [*self._weights, *[0.0] * len(leaves)]
            for tree, (leaf_values, weight) in enumerate(zip(leaves, weights, strict=False)):
                for leaf, value in enumerate(leaf_values.split()):
                    booster.set_leaf_output(tree, leaf, weight * float(value))
        return booster

    def predict(self, table: Table) -> Array:
        """Return scores; see :meth:`Ensemble.predict`."""
        options = {"raw_score": True, "num_threads": threads_to_predict(table)}
        scores = self.booster.predict(as_matrix(table), **options)
        return np.asarray(scores, dtype=np.float64).reshape(table.n_rows, -1)

    def importances(self) -> Array:
        """Return the total gain of the splits on each column."""
        return np.asarray(self.booster.feature_importance("gain"), dtype=np.float64)

    def contributions(self, table: Table) -> Array:
        """Return LightGBM's TreeSHAP values; see :meth:`Ensemble.contributions`."""
        values = table.values.toarray() if table.is_sparse else table.values
        flat = self.booster.predict(values, pred_contrib=True, num_threads=allowed_threads())
        return np.asarray(flat).reshape(table.n_rows, -1, len(table.names) + 1)

    def files(self) -> dict[str, bytes]:
        """Return LightGBM's text without its parameters of training, which are in the manifest."""
        text = self._text if self._weights is None else self.booster.model_to_string()
        return {"trees.txt": _SETTINGS.sub("", text).encode()}

    def check(self, n_columns: int, n_outputs: int, categories: Mapping[int, int]) -> None:
        """Check the text before LightGBM parses it; see :meth:`Ensemble.check`."""
        parts = split_text(self._text)
        plain = re.fullmatch(r"[\n -~]*", self._text) and join_text(*parts) == self._text
        require(plain, "trees.txt: malformed text, or tree_sizes are wrong")
        check_lightgbm(*parts, n_columns, n_outputs)


def split_text(text: str) -> tuple[str, list[str], str]:
    """LightGBM's text before the trees, the lines of each tree, and the text after them."""
    before, end, rest = text.partition("end of trees\n")
    head, *trees = _TREE.split(before)
    return head, trees, end + rest


def join_text(head: str, trees: Sequence[str], rest: str) -> str:
    """LightGBM's text of these trees; its head lists the length of each."""
    numbered = [f"Tree={number}\n{tree}" for number, tree in enumerate(trees)]
    sizes = " ".join(str(len(tree)) for tree in numbered)
    return "".join([_TREE_SIZES.sub(f"tree_sizes={sizes}", head), *numbered, rest])


def joined_text(
    models: Sequence[tuple[str, Sequence[float]]], share: float
) -> tuple[str, list[float]]:
    """The trees of several models in one text, and their weights times the share of a model."""
    parts = [split_text(text) for text, _ in models]
    trees = [tree for _, own, _ in parts for tree in own]
    weights = [weight * share for _, own in models for weight in own]
    head, _, rest = parts[0]
    return join_text(head, trees, rest), weights


def _block_dataset(values: ParquetMatrix | LazyMatrix) -> tuple[Any, Any]:
    """A kind of LightGBM's Dataset for values in blocks, and the data to hand it.

    LightGBM asks for a sample of rows one by one and then for all rows by slices. The hook
    ``_create_sample_indices`` is private: it says which rows come next, so that columns made from
    those of neighbours are made for many rows at once. If LightGBM does not call it, each row of
    the sample is made on its own.
    """
    import lightgbm

    class BlockSequence(lightgbm.Sequence):
        batch_size = values.rows_per_block
        sample: Iterator[tuple[int, NDArray[np.float64]]] = iter(())

        def __len__(self) -> int:
            return int(values.shape[0])

        def __getitem__(self, index: Any) -> NDArray[np.float64]:
            if isinstance(index, slice):
                return values.rows(index.start, index.stop)
            row, row_values = next(self.sample, (-1, np.empty(0)))
            if row != index:
                row_values = values.rows(int(index), int(index) + 1)[0]
            return row_values.astype(np.float64, copy=False)

    sequence = BlockSequence()

    class BlockDataset(lightgbm.Dataset):
        is_binned = False

        def get_params(self) -> dict[str, Any]:
            # All of them, so that rows are sampled as from a table in memory. Boosters on the same
            # bins have parameters of their own.
            return super().get_params() if self.is_binned else self.params

        def _create_sample_indices(self, *args: Any, **kwargs: Any) -> NDArray[np.int32]:
            indices: NDArray[np.int32] = super()._create_sample_indices(*args, **kwargs)
            if isinstance(values, LazyMatrix):
                sequence.sample = _rows_at(values, indices)
            return indices

    return BlockDataset, sequence


def _rows_at(
    values: LazyMatrix, indices: NDArray[np.int32]
) -> Iterator[tuple[int, NDArray[np.float64]]]:
    """Rows with their indices, made a block at a time."""
    for start in range(0, indices.size, values.rows_per_block):
        block = indices[start : start + values.rows_per_block]
        yield from zip(block.tolist(), values[block], strict=True)
