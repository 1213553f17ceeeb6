"""LightGBM trees: one booster on a table binned once, boosted with a custom gradient each round.

Training uses LightGBM's documented interface: ``Booster.update`` takes the gradient, and
``Booster.eval_train`` hands out its buffer of scores, which the next update then uses again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ebboost._common import Array, IntArray
from ebboost.data.table import Table
from ebboost.learners.base import Binned, Ensemble, Grower, Learner, as_matrix, threads_to_predict
from ebboost.learners.constraints import INTERACTION, MONOTONE, translate_constraints

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
        rows far from any label count less.
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

    def bin(
        self, table: Table, rows: IntArray, *, n_outputs: int, n_jobs: int, device: str
    ) -> LightGBMBinned:
        """Bin the rows; see :meth:`Learner.bin`."""
        self.check(device)
        table = table.subset(rows) if rows.size < table.n_rows else table
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
            # Without these two LightGBM times both ways of building histograms and takes the
            # faster: the model would depend on the load of the machine.
            "deterministic": True,
            "force_col_wise": True,
            "num_threads": n_jobs,
            "verbosity": -1,
        }
        own = dict(self.params or {})
        if MONOTONE in own or INTERACTION in own:
            own = translate_constraints(own, table)
        return LightGBMBinned(table, params | own, n_outputs)

    @classmethod
    def load(cls, files: dict[str, bytes]) -> LightGBMEnsemble:
        """Return the ensemble in LightGBM's text format; see :meth:`Learner.load`."""
        return LightGBMEnsemble(files["trees.txt"].decode("ascii"))


class LightGBMBinned(Binned):
    """A LightGBM data set."""

    def __init__(self, table: Table, params: dict[str, Any], n_outputs: int) -> None:
        import lightgbm

        self.params = params
        self.shape = (table.n_rows, n_outputs)
        self.data = lightgbm.Dataset(
            as_matrix(table),
            label=np.zeros(table.n_rows, dtype=np.float32),
            categorical_feature=list(table.categorical),
            params=params,
        ).construct()
        # A table without a column to split on is a fatal error to LightGBM, printed as one too.
        columns = range(table.values.shape[1])
        self.is_constant = not any(map(self.data.feature_num_bin, columns))

    def grower(self, seed: int) -> LightGBMGrower:
        """Return a booster without trees; see :meth:`Binned.grower`."""
        return LightGBMGrower(self, seed)


class LightGBMGrower(Grower):
    """A LightGBM booster in training and the scores after its last round."""

    def __init__(self, binned: LightGBMBinned, seed: int) -> None:
        import lightgbm

        self._is_constant = binned.is_constant
        self._shape = binned.shape
        self._booster = lightgbm.Booster(binned.params | {"seed": seed}, binned.data)
        n_trees = self._booster.num_model_per_iteration()
        if n_trees != self._shape[1]:
            raise ValueError(
                f"params: with num_class={binned.params['num_class']!r}, LightGBM grows {n_trees} "
                f"trees a round, not the {self._shape[1]} expected; remove it."
            )
        self._scores = np.zeros(self._shape, order="F")  # as LightGBM's buffer
        self._n_empty = 0  # rounds without a split at the start, whose trees LightGBM keeps
        self._n_grown = 0

    def grow(self, gradient: Array, curvature: Array) -> Array | None:
        """Grow one tree per output; see :meth:`Grower.grow`."""
        if self._is_constant:
            return None
        booster = self._booster
        flat = (self._flat(gradient), self._flat(curvature))
        if booster.update(fobj=lambda *_: flat):
            if not self._n_grown:
                self._n_empty = booster.current_iteration()
            return None
        self._n_grown += 1
        tree = np.empty(self._shape)

        def read_scores(scores: Array, _: object) -> list[object]:
            scores = scores.reshape(self._shape)
            np.subtract(scores, self._scores, out=tree)
            np.copyto(self._scores, scores)
            return []

        booster.eval_train(read_scores)
        return tree

    def _flat(self, values: Array) -> NDArray[np.float32]:
        """One output after the other, in single precision."""
        by_output = np.broadcast_to(values, self._shape).T
        return np.ascontiguousarray(by_output, dtype=np.float32).ravel()

    def compile(self, weights: Sequence[float]) -> LightGBMEnsemble:
        """Return the weighted sum; see :meth:`Grower.compile`."""
        text = self._booster.model_to_string(len(weights) or -1, self._n_empty)
        return LightGBMEnsemble(text, np.repeat(weights, self._shape[1]))


class LightGBMEnsemble(Ensemble):
    """A model in LightGBM's text format, parsed when first used.

    Leaf values are multiplied by the ``weights`` of the trees, 0 for trees beyond them.
    """

    learner = "LightGBM"

    def __init__(self, text: str, weights: Array | None = None) -> None:
        self._parts = [(text, weights)]

    @cached_property
    def text(self) -> str:
        """The trees of all folds, weighted, in LightGBM's format."""
        trees: list[str] = []
        for text, weights in self._parts:
            head, own, rest = split_text(text)
            if weights is not None:
                factors = [*weights, *[0.0] * len(own)]
                own = [_scaled(tree, factor) for tree, factor in zip(own, factors, strict=False)]
            trees += own
        return _SETTINGS.sub("", join_text(head, trees, rest))

    @cached_property
    def booster(self) -> Any:
        """The ``lightgbm.Booster``, for SHAP and other tools that read LightGBM models."""
        import lightgbm

        booster = lightgbm.Booster(model_str=self.text)
        booster.params.setdefault("objective", "custom")  # SHAP expects it
        return booster

    @classmethod
    def mean(cls, ensembles: Sequence[Ensemble]) -> Ensemble:
        """Return one model with the trees of all; see :meth:`Ensemble.mean`."""
        result = cls("")
        result._parts = []
        for one in ensembles:
            assert isinstance(one, LightGBMEnsemble)
            for text, weights in one._parts:
                own = np.ones(len(_LEAF_VALUES.findall(text))) if weights is None else weights
                result._parts.append((text, own / len(ensembles)))
        return result

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
        threads = threads_to_predict(table)
        flat = self.booster.predict(values, pred_contrib=True, num_threads=threads)
        return np.asarray(flat).reshape(table.n_rows, -1, len(table.names) + 1)

    def files(self) -> dict[str, bytes]:
        """Return LightGBM's text."""
        return {"trees.txt": self.text.encode()}

    def check(self, n_columns: int, n_outputs: int, categories: Mapping[int, int]) -> None:
        """Check the text before LightGBM parses it; see :meth:`Ensemble.check`."""
        from ebboost.files.trees import check_lightgbm

        check_lightgbm(self._parts[0][0], n_columns, n_outputs)


def _scaled(tree: str, factor: float) -> str:
    """The lines of a tree with leaf values times a factor."""
    values = _LEAF_VALUES.search(tree)
    assert values is not None
    scaled = " ".join(repr(float(factor) * float(value)) for value in values[1].split())
    return f"{tree[: values.start(1)]}{scaled}{tree[values.end(1) :]}"


def split_text(text: str) -> tuple[str, list[str], str]:
    """Return LightGBM's text before the trees, the lines of each tree, and the text after them."""
    before, end, rest = text.partition("end of trees\n")
    head, *trees = _TREE.split(before)
    return head, trees, end + rest


def join_text(head: str, trees: Sequence[str], rest: str) -> str:
    """Return LightGBM's text of these trees; its head lists the length of each."""
    numbered = [f"Tree={number}\n{tree}" for number, tree in enumerate(trees)]
    sizes = " ".join(str(len(tree)) for tree in numbered)
    return "".join([_TREE_SIZES.sub(f"tree_sizes={sizes}", head), *numbered, rest])
