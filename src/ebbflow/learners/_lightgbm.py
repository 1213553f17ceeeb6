"""LightGBM trees: one booster, binned once, fed our gradient each round."""

import re
from collections.abc import Sequence
from itertools import chain, repeat
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from ebbflow.learners._base import Array, Ensemble, Growing, Learner, check_device, plain_values
from ebbflow.table import Table


class LightGBM(Learner):
    """Leaf-wise trees of LightGBM (the default learner).

    Parameters
    ----------
    num_leaves : int, default=31
    max_depth : int, default=-1
        No limit by default.
    min_child_samples : int, default=20
        Fewest rows in a leaf. LightGBM counts rows by their share of the curvature, so nodes far from any label
        count less.
    reg_lambda : float, default=0.0
        L2 shrinkage of leaf values.
    colsample_bytree : float, default=1.0
        Share of the columns each tree may use.
    subsample : float, default=1.0
        Share of the rows each tree is grown on.
    max_bin : int, default=255
    params : dict, optional
        Any other LightGBM parameter, by its own name.

    Examples
    --------
    >>> import ebbflow as eb
    >>> eb.EBBSRegressor(learner=eb.LightGBM(num_leaves=15, colsample_bytree=0.5)).get_params()["learner__num_leaves"]
    15
    """

    name = "lightgbm"

    def __init__(
        self,
        num_leaves: int = 31,
        max_depth: int = -1,
        min_child_samples: int = 20,
        reg_lambda: float = 0.0,
        colsample_bytree: float = 1.0,
        subsample: float = 1.0,
        max_bin: int = 255,
        params: dict[str, Any] | None = None,
    ) -> None:
        self.num_leaves = num_leaves
        self.max_depth = max_depth
        self.min_child_samples = min_child_samples
        self.reg_lambda = reg_lambda
        self.colsample_bytree = colsample_bytree
        self.subsample = subsample
        self.max_bin = max_bin
        self.params = params

    def start(self, table: Table, *, n_outputs: int, seed: int, n_jobs: int, device: str) -> "GrowingLightGBM":
        """Bin the table."""
        check_device(device, ("cpu",), self.name)
        own = {
            "objective": "none",
            "metric": "none",
            "num_class": n_outputs,
            "learning_rate": 1.0,  # the loop finds the step
            "boost_from_average": False,
            "feature_pre_filter": False,  # or LightGBM aborts on tables of a few rows
            "num_leaves": self.num_leaves,
            "max_depth": self.max_depth,
            "min_data_in_leaf": self.min_child_samples,
            "min_sum_hessian_in_leaf": 1e-3,
            "lambda_l2": self.reg_lambda,
            "feature_fraction": self.colsample_bytree,
            "bagging_fraction": self.subsample,
            "bagging_freq": int(self.subsample < 1.0),
            "max_bin": self.max_bin,
            "seed": seed,
            # Without these two LightGBM times both ways of building histograms and keeps the faster: the model
            # would then depend on how busy the machine was.
            "deterministic": True,
            "force_col_wise": True,
            "num_threads": n_jobs,
            "verbosity": -1,
        }
        return GrowingLightGBM(table, {**own, **(self.params or {})}, n_outputs)

    @classmethod
    def load(cls, files: dict[str, bytes]) -> "LightGBMEnsemble":
        """Read LightGBM's text format."""
        return LightGBMEnsemble(files["trees.txt"].decode())


class GrowingLightGBM(Growing):
    """A live LightGBM booster and the scores of its last round."""

    def __init__(self, table: Table, params: dict[str, Any], n_outputs: int) -> None:
        import lightgbm

        self._lightgbm, self._params = lightgbm, params
        data = lightgbm.Dataset(
            plain_values(table),
            label=np.zeros(table.n_rows),
            categorical_feature=list(table.categorical),
            params=params,
            free_raw_data=True,
        )
        self._booster = lightgbm.Booster(params, data)
        self._error = lightgbm.basic.LightGBMError
        # LightGBM calls a table of constant columns a fatal error, on the terminal too.
        self._constant = not table.is_sparse and not _varies(table.values)
        self._shape = (table.n_rows, n_outputs)
        self._scores = np.zeros(self._shape)
        self._updates = 0
        self._redrawn = not _DRAWN_AT_SPLITS.isdisjoint(params)

    def grow(self, gradient: Array, curvature: Array) -> Array | None:
        """Add one tree per output to the booster."""
        if self._constant:
            return None
        try:
            finished = self._update(gradient, curvature)
        except self._error as error:
            if "num_features" in str(error):  # every column is constant: LightGBM stops rather than grow a stump
                return None
            raise
        if finished:
            return None
        before, self._scores = self._scores, self._read_scores()
        return self._scores - before

    def _update(self, gradient: Array, curvature: Array) -> bool:
        curvature = np.broadcast_to(curvature, self._shape)
        if self._shape[1] == 1:
            gradient, curvature = gradient[:, 0], curvature[:, 0]

        def fed(_scores: Any, _data: Any) -> tuple[Array, Array]:
            # Here and not before: the first update resets parameters, which draws columns once more.
            if self._redrawn:
                seed = crc32(f"{self._params['seed']} {self._updates}".encode()) >> 1
                self._booster.reset_parameter({"feature_fraction_seed": seed, "extra_seed": seed})
            self._updates += 1
            return gradient, curvature

        return bool(self._booster.update(fobj=fed))

    def state(self) -> dict[str, Any]:
        """Return the trees, their exact scores, and how often columns and rows were drawn."""
        text = self._booster.model_to_string(num_iteration=-1)
        settings = dict(_SETTING.findall(text))
        for name, fine in _DRAWN_AGAIN.items():
            if settings.get(name, fine[0]) not in fine:
                raise ValueError(
                    f"checkpoint: what LightGBM draws with {name}={settings[name]} cannot be drawn again where a fit was "
                    "left; leave it out, or fit without a checkpoint."
                )
        draws = any(float(settings[name]) < 1.0 for name in ("feature_fraction", "bagging_fraction"))
        return {"trees": text.encode(), "scores": self._scores, "updates": self._updates, "draws": draws}

    def restore(self, state: dict[str, Any]) -> None:
        """Make a booster of the trees whose next scores and draws are those of the one that was left.

        Its scores start from the kept ones, to the last bit. Its random numbers, which no file holds, are drawn as often
        as they were: what a round draws does not depend on the gradient, and without one no tree comes of it.
        """
        if not state["updates"]:
            return
        basic, data = self._lightgbm.basic, self._booster.train_set
        earlier = self._lightgbm.Booster(model_str=state["trees"].decode())
        self._scores = state["scores"]
        data.set_init_score(self._scores if self._shape[1] > 1 else self._scores[:, 0])
        self._booster = self._lightgbm.Booster(self._params, data)
        basic._safe_call(basic._LIB.LGBM_BoosterMerge(self._booster._handle, earlier._handle))
        nothing, one = np.zeros(self._shape), np.ones((1, 1))
        for _ in range(state["updates"] if state["draws"] else 0):
            self._update(nothing, one)
        self._updates = state["updates"]

    def _read_scores(self) -> Array:
        """Scores of all rows after the last round: `eval_train` is the public way to them."""
        seen: list[NDArray[np.float64]] = []

        def look(scores: NDArray[np.float64], _data: Any) -> tuple[str, float, bool]:
            seen.append(scores)
            return "seen", 0.0, False

        self._booster.eval_train(feval=look)
        return seen[0].reshape(self._shape).copy()

    def compile(self, weights: Sequence[float]) -> "LightGBMEnsemble":
        """Scale the leaves in the booster's text; on the live booster its score cache would go stale."""
        rounds = len(weights)
        text = self._booster.model_to_string(num_iteration=rounds or -1)
        return LightGBMEnsemble(_weighted(text, [w for w in weights for _ in range(self._shape[1])]))


# Parameters, by all their names, that draw for each split: LightGBM is then given a seed each round, as the number of splits
# depends on the data and a fit taken up again could not draw as often.
_DRAWN_AT_SPLITS = {
    "extra_trees", "extra_tree", "feature_fraction_bynode", "sub_feature_bynode", "colsample_bynode",
}  # fmt: skip
# The values, as LightGBM writes them, with which draws can be repeated; with others they depend on the data.
_DRAWN_AGAIN = {
    "boosting": ("gbdt",),
    "data_sample_strategy": ("bagging",),
    "use_quantized_grad": ("0",),
    "bagging_freq": ("0", "1"),
}
_SETTING = re.compile(r"^\[(\w+): (.*)\]$", flags=re.MULTILINE)
_TREE = re.compile(r"^(?=Tree=\d+$)", flags=re.MULTILINE)
_VALUES = re.compile(r"^(leaf_value|internal_value)=(.*)$", flags=re.MULTILINE)
_SIZES = re.compile(r"^tree_sizes=.*$", flags=re.MULTILINE)


def _weighted(text: str, weights: Sequence[float]) -> str:
    """LightGBM's text with the values of each tree multiplied by its weight, 0 beyond the weights given.

    The header tells the length of each tree's text, by which it is cut up when it is read.
    """
    head, *trees = _TREE.split(text)
    trees[-1:] = re.split(r"^(?=end of trees$)", trees[-1], maxsplit=1, flags=re.MULTILINE) if trees else []
    *trees, rest = trees or [""]

    def scaled(tree: str, weight: float) -> str:
        def line(found: re.Match[str]) -> str:
            return f"{found[1]}=" + " ".join(repr(float(weight * float(value))) for value in found[2].split())

        return _VALUES.sub(line, tree)

    padded = chain(weights, repeat(0.0))
    trees = [scaled(tree, weight) for tree, weight in zip(trees, padded, strict=False)]
    sizes = "tree_sizes=" + " ".join(str(len(tree)) for tree in trees)
    return "".join([_SIZES.sub(sizes, head), *trees, rest])


def _varies(values: NDArray[Any]) -> bool:
    """Whether any column holds two values, a missing one counting as a value."""
    first = values[:1]
    return bool(((values != first) & ~(np.isnan(values) & np.isnan(first))).any())


class LightGBMEnsemble(Ensemble):
    """A booster in LightGBM's text format, parsed when first needed."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._parsed: Any = None

    @property
    def booster(self) -> Any:
        """The ``lightgbm.Booster``: for SHAP and everything else that knows LightGBM."""
        if self._parsed is None:
            import lightgbm

            self._parsed = lightgbm.Booster(model_str=self._text)
        return self._parsed

    def predict(self, table: Table) -> Array:
        """Sum the trees."""
        scores = self.booster.predict(plain_values(table), raw_score=True)
        return np.asarray(scores, dtype=np.float64).reshape(table.n_rows, -1)

    def importances(self) -> Array:
        """Total gain of the splits on each column."""
        return np.asarray(self.booster.feature_importance("gain"), dtype=np.float64)

    def contributions(self, table: Table) -> Array:
        """TreeSHAP values, by LightGBM."""
        values = table.values.toarray() if table.is_sparse else table.values
        flat = np.asarray(self.booster.predict(values, pred_contrib=True))
        return flat.reshape(table.n_rows, -1, len(table.names) + 1)

    def files(self) -> dict[str, bytes]:
        """LightGBM's text format."""
        return {"trees.txt": self._text.encode()}

    def __getstate__(self) -> dict[str, Any]:
        return {"_text": self._text, "_parsed": None}
