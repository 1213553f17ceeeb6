"""LightGBM trees: one booster, binned once, fed our gradient each round."""

import re
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from ctypes import byref, c_int, c_int64, c_void_p
from itertools import chain, repeat
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from ebboost.data.lazy import LazyMatrix
from ebboost.data.parquet import ParquetMatrix
from ebboost.data.table import Table
from ebboost.learners._untrusted import LARGEST, check_tree, refuse_unless
from ebboost.learners.base import (
    Array,
    Ensemble,
    Learner,
    TreeGrower,
    check_device,
    check_params,
    plain_values,
)
from ebboost.propagation import allowed_threads

FEW_ROWS = 200
LOOKED_AT = 4_096  # rows
# Trees that are changed when others come, or averaged, or have lines for leaves; by all names of each parameter.
REFUSED: dict[str, Sequence[Any]] = {
    **dict.fromkeys(("boosting", "boosting_type", "boost"), ("dart", "rf", "random_forest")),
    **dict.fromkeys(("linear_tree", "linear_trees"), (True, "true", "True", "1")),
}


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
        Any other LightGBM parameter, by its own name; not linear leaves, DART or random forests, which are no sums of trees.

    Examples
    --------
    >>> import ebboost as eb
    >>> eb.EBBSRegressor(learner=eb.LightGBM(num_leaves=15, colsample_bytree=0.5)).get_params()["learner__num_leaves"]
    15
    """

    name = "lightgbm"
    takes_blocks = True
    same_from_blocks = True

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

    def start(
        self, table: Table, *, n_outputs: int, seed: int, n_jobs: int, device: str
    ) -> "LightGBMGrower":
        """Bin the table."""
        check_device(device, self.devices, self.name)
        check_params(self.params, REFUSED, self.name)
        drawn = (
            self.subsample if self.subsample * table.n_rows >= 1.0 else 1.0
        )  # LightGBM aborts where it draws no row
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
            "bagging_fraction": drawn,
            "bagging_freq": int(drawn < 1.0),
            "max_bin": self.max_bin,
            "seed": seed,
            # Without these two LightGBM times both ways of building histograms and keeps the faster: the model
            # would then depend on how busy the machine was.
            "deterministic": True,
            "force_col_wise": True,
            "num_threads": n_jobs,
            "verbosity": -1,
        }
        return LightGBMGrower(table, {**own, **(self.params or {})}, n_outputs)

    @classmethod
    def load(cls, files: dict[str, bytes]) -> "LightGBMEnsemble":
        """Read LightGBM's text format."""
        return LightGBMEnsemble(files["trees.txt"].decode("ascii"))


class LightGBMGrower(TreeGrower):
    """A live LightGBM booster and the scores of its last round."""

    def __init__(self, table: Table, params: dict[str, Any], n_outputs: int) -> None:
        import lightgbm

        self._lightgbm, self._params = lightgbm, params
        dataset, values = (
            _in_blocks(table.values) if table.in_blocks else (lightgbm.Dataset, plain_values(table))
        )
        self._data = dataset(
            values,
            label=np.zeros(table.n_rows, dtype=np.float32),
            categorical_feature=list(table.categorical),
            params=params,
            free_raw_data=True,
        )
        # LightGBM calls a table without a column to split by a fatal error, on the terminal too: one of zeros, or nearly so.
        self._data.construct()
        split_by = any(
            self._data.feature_num_bin(column) > 0 for column in range(table.values.shape[1])
        )
        self._constant = not split_by or (not table.is_sparse and not _varies(table))
        self._shape = (table.n_rows, n_outputs)
        self._start()

    def _start(self) -> None:
        self._booster: Any = self._new_booster()
        self._scores: Any = np.zeros(self._shape)
        self._updates = 0
        self._redrawn = not _DRAWN_AT_SPLITS.isdisjoint(self._params)
        self._last_curvature: Any = None, None

    def _new_booster(self) -> Any:
        booster = self._lightgbm.Booster(self._params, self._data)
        grown, n_outputs = booster.num_model_per_iteration(), self._shape[1]
        if grown != n_outputs:  # LightGBM would read and write beyond gradients and scores
            raise ValueError(
                f"params: with num_class={self._params['num_class']!r}, LightGBM grows {grown} trees a round, not the "
                f"{n_outputs} that are asked for; leave it out."
            )
        # As LightGBM itself does before it takes the first gradient: what it draws from then on depends on it.
        return booster if self._constant else booster.reset_parameter({"objective": "none"})

    def clone_with_shared_bins(self) -> "LightGBMGrower":
        """Return another booster on the same bins, which take as long to find as many trees to grow."""
        other = copy(self)
        other._start()
        return other

    def free(self) -> None:
        """Drop the booster and keep the bins."""
        self._booster = self._scores = self._last_curvature = None

    def grow(self, gradient: Array, curvature: Array) -> Array | None:
        """Add one tree per output to the booster."""
        if self._constant:
            return None
        if self._update(gradient, curvature):
            return None
        before, self._scores = self._scores, self._read_scores()
        return self._scores - before

    def _update(self, gradient: Array, curvature: Array) -> bool:
        """Hand a gradient over, as LightGBM's ``Booster.update`` does, which reads the scores of all rows before."""
        if self._redrawn:
            seed = crc32(f"{self._params['seed']} {self._updates}".encode()) >> 1
            self._booster.reset_parameter({"feature_fraction_seed": seed, "extra_seed": seed})
        self._updates += 1
        if self._last_curvature[0] is not curvature or curvature.flags.writeable:
            self._last_curvature = curvature, self._as_fed(curvature)
        parts, finished = (self._as_fed(gradient), self._last_curvature[1]), c_int(0)
        self._call(
            "BoosterUpdateOneIterCustom",
            *(c_void_p(part.ctypes.data) for part in parts),
            byref(finished),
        )
        return finished.value == 1

    def _as_fed(self, values: Array) -> NDArray[np.float32]:
        """One output after the other."""
        return np.ascontiguousarray(np.broadcast_to(values, self._shape).T, dtype=np.float32)

    def _call(self, name: str, *arguments: Any) -> None:
        """Call LightGBM's C interface for the booster."""
        basic = self._lightgbm.basic
        basic._safe_call(getattr(basic._LIB, f"LGBM_{name}")(self._booster._handle, *arguments))

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
        draws = any(
            float(settings[name]) < 1.0 for name in ("feature_fraction", "bagging_fraction")
        )
        return {
            "trees": text.encode(),
            "scores": self._scores,
            "updates": self._updates,
            "draws": draws,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Make a booster of the trees whose next scores and draws are those of the one that was left.

        Its scores start from the kept ones, to the last bit. Its random numbers, which no file holds, are drawn as often
        as they were: what a round draws does not depend on the gradient, and without one no tree comes of it.
        """
        if not state["updates"]:
            return
        earlier = self._lightgbm.Booster(model_str=state["trees"].decode())
        self._scores = state["scores"]
        self._data.set_init_score(self._scores if self._shape[1] > 1 else self._scores[:, 0])
        self._booster = self._new_booster()
        self._call("BoosterMerge", earlier._handle)
        nothing, one = np.zeros(self._shape), np.ones((1, 1))
        for _ in range(state["updates"] if state["draws"] else 0):
            self._update(nothing, one)
        self._updates = state["updates"]

    def _read_scores(self) -> Array:
        """Scores of all rows after the last round."""
        scores, training, count = np.empty(self._shape[::-1]), c_int(0), c_int64(0)
        self._call("BoosterGetPredict", training, byref(count), c_void_p(scores.ctypes.data))
        return np.ascontiguousarray(scores.T)

    def compile(self, weights: Sequence[float]) -> "LightGBMEnsemble":
        """Scale the leaves in the booster's text; on the live booster its score cache would go stale."""
        rounds = len(weights)
        text = self._booster.model_to_string(num_iteration=rounds or -1)
        return LightGBMEnsemble(text, [w for w in weights for _ in range(self._shape[1])])


# Parameters, by all their names, that draw for each split: LightGBM is then given a seed each round, as the number of splits
# depends on the data and a fit taken up again could not draw as often.
_DRAWN_AT_SPLITS = {
    "extra_trees",
    "extra_tree",
    "feature_fraction_bynode",
    "sub_feature_bynode",
    "colsample_bynode",
}
# The values, as LightGBM writes them, with which draws can be repeated; with others they depend on the data.
_DRAWN_AGAIN = {
    "data_sample_strategy": ("bagging",),
    "use_quantized_grad": ("0",),
    "bagging_freq": ("0", "1"),
}
_SETTING = re.compile(r"^\[(\w+): (.*)\]$", flags=re.MULTILINE)
_TREE = re.compile(r"^(?=Tree=\d+$)", flags=re.MULTILINE)
_END = re.compile(r"^(?=end of trees$)", flags=re.MULTILINE)
_VALUES = re.compile(r"^(leaf_value|internal_value)=(.*)$", flags=re.MULTILINE)
_SIZES = re.compile(r"^tree_sizes=.*$", flags=re.MULTILINE)
_WHOLE = re.compile(r"-?\d{1,9}(?: -?\d{1,9})*", flags=re.ASCII)
_REAL = re.compile(
    rf"{(_TOKEN := r'-?(?:[0-9]{1,24}(?:[.][0-9]{1,24})?(?:e[-+]?[0-9]{1,3})?|inf)')}(?: {_TOKEN})*"
)
_REST = re.compile(
    r"end of trees\n\nfeature_importances:\n(?:[^\s=]+=[^\s=]+\n)*"
    r"\nparameters:\n\nend of parameters\n\npandas_categorical:null\n",
    flags=re.ASCII,
)
_PARAMETERS = re.compile(r"(?<=\nparameters:\n)(?:\[.*\]\n)*(?=\nend of parameters\n)")
_HEAD_KEYS = (
    "version",
    "num_class",
    "num_tree_per_iteration",
    "label_index",
    "max_feature_idx",
    "feature_names",
    "monotone_constraints",
    "feature_infos",
    "tree_sizes",
)
_TREE_KEYS = (
    "num_leaves",
    "num_cat",
    "split_feature",
    "split_gain",
    "threshold",
    "decision_type",
    "left_child",
    "right_child",
    "leaf_value",
    "leaf_weight",
    "leaf_count",
    "internal_value",
    "internal_weight",
    "internal_count",
    "cat_boundaries",
    "cat_threshold",
    "is_linear",
    "shrinkage",
)


def _weighted(text: str, weights: Sequence[float]) -> str:
    """LightGBM's text with the values of each tree multiplied by its weight, 0 beyond the weights given.

    The header tells the length of each tree's text, by which it is cut up when it is read.
    """
    head, trees, rest = _parts(text)

    def scaled(tree: str, weight: float) -> str:
        def line(found: re.Match[str]) -> str:
            return f"{found[1]}=" + " ".join(
                repr(float(weight * float(value))) for value in found[2].split()
            )

        return _VALUES.sub(line, tree)

    padded = chain(weights, repeat(0.0))
    trees = [scaled(tree, weight) for tree, weight in zip(trees, padded, strict=False)]
    sizes = "tree_sizes=" + " ".join(str(len(tree)) for tree in trees)
    return "".join([_SIZES.sub(sizes, head), *trees, rest])


def _parts(text: str) -> tuple[str, list[str], str]:
    """What stands before the trees, each tree, and what comes after."""
    before, *rest = _END.split(text, maxsplit=1)
    head, *trees = _TREE.split(before)
    return head, trees, "".join(rest)


def _told(lines: list[str], keys: Sequence[str], optional: Sequence[str]) -> dict[str, str]:
    """Lines ``key=value`` in the order of LightGBM's writer, none twice, none but these."""
    told = dict(line.partition("=")[::2] for line in lines)
    wanted = [key for key in keys if key in told or key not in optional]
    refuse_unless(
        len(told) == len(lines) and list(told) == wanted, f"lines must be {', '.join(wanted)}"
    )
    return told


def _check_one(text: str, number: int, n_columns: int) -> None:
    """A tree of LightGBM: internal nodes 0 … n-2 and leaves −1 … −n, splits on numbers and on sets of categories."""
    name, lines = f"tree {number}", text.rstrip("\n").split("\n")
    refuse_unless(lines[0] == f"Tree={number}", f"{name} is called {lines[0][:20]!r}")
    told = _told(lines[1:], _TREE_KEYS, optional=("cat_boundaries", "cat_threshold"))

    def whole(key: str, size: int | None, least: int, most: int) -> NDArray[np.int64]:
        refuse_unless(
            _WHOLE.fullmatch(told[key]) or not (told[key] or size),
            f"{key} of {name} must be whole numbers",
        )
        found = np.array(told[key].split(), dtype=np.int64)
        refuse_unless(size is None or found.size == size, f"{key} of {name} must be {size} numbers")
        refuse_unless(((found >= least) & (found <= most)).all(), f"{key} of {name} out of range")
        return found

    def real(key: str, size: int, finite: bool = True) -> NDArray[np.float64]:
        # Not whatever Python would read: of "1_0", LightGBM makes an end of the process.
        refuse_unless(
            _REAL.fullmatch(told[key]) or not (told[key] or size),
            f"{key} of {name} must be numbers",
        )
        found = np.array(told[key].split(), dtype=np.float64)
        refuse_unless(found.size == size, f"{key} of {name} must be {size} numbers")
        refuse_unless(not finite or (np.abs(found) <= LARGEST).all(), f"{key} of {name} not finite")
        return found

    n_leaves = int(whole("num_leaves", 1, 1, 131_072)[0])
    n_splits, counted = n_leaves - 1, n_leaves if n_leaves > 1 or told["leaf_weight"] else 0
    n_sets = int(whole("num_cat", 1, 0, n_splits)[0])
    refuse_unless(
        told["is_linear"] == "0", f"{name} has linear leaves, which model files do not hold"
    )
    whole("split_feature", n_splits, 0, n_columns - 1)
    threshold, kind = (
        real("threshold", n_splits, finite=False),
        whole("decision_type", n_splits, 0, 11),
    )
    real("split_gain", n_splits, finite=False)
    left, right = (
        whole(key, n_splits, -n_leaves, n_splits - 1) for key in ("left_child", "right_child")
    )
    nodes = np.full((2, n_splits + n_leaves), -1)
    for side, children in enumerate((left, right)):
        nodes[side, :n_splits] = np.where(children < 0, n_splits + ~children, children)
    check_tree(nodes[0], nodes[1], name)
    for key, size in (("leaf_value", n_leaves), ("leaf_weight", counted), ("shrinkage", 1)):
        real(key, size)
    for key in ("internal_value", "internal_weight"):
        real(key, n_splits)
    whole("leaf_count", counted, 0, 2**31 - 1)
    whole("internal_count", n_splits, 0, 2**31 - 1)
    by_set = kind % 2 == 1
    refuse_unless(
        np.isin(threshold[by_set], np.arange(n_sets)).all(),
        f"a split of {name} names no set of categories",
    )
    refuse_unless(
        ("cat_boundaries" in told) == ("cat_threshold" in told) == (n_sets > 0),
        f"num_cat of {name}",
    )
    if n_sets:
        boundaries = whole("cat_boundaries", n_sets + 1, 0, 2**31 - 1)
        refuse_unless(
            boundaries[0] == 0 and (np.diff(boundaries) >= 0).all(), f"cat_boundaries of {name}"
        )
        words = told["cat_threshold"].split(" ")
        sound = len(words) == boundaries[-1] and all(
            word.isdecimal() and int(word) < 2**32 for word in words
        )
        refuse_unless(sound, f"cat_threshold of {name}")


def _varies(table: Table) -> bool:
    """Whether any column holds two values, a missing one counting as a value."""
    first: Any = None
    for block in table.blocks():
        first = block.values[:1] if first is None else first
        for start in range(0, block.n_rows, LOOKED_AT):  # nearly always, the first few tell
            values = block.values[start : start + LOOKED_AT]
            if ((values != first) & ~(np.isnan(values) & np.isnan(first))).any():
                return True
    return False


def _in_blocks(values: ParquetMatrix | LazyMatrix) -> tuple[Any, Any]:
    """A kind of LightGBM's Dataset for values that come in blocks, and the rows as it asks for them: a sample, then all."""
    import lightgbm

    class Rows(lightgbm.Sequence):
        batch_size = values.rows_per_block
        sample: Iterator[tuple[int, NDArray[np.float64]]] = iter(())

        def __len__(self) -> int:
            return int(values.shape[0])

        def __getitem__(self, place: Any) -> NDArray[np.float64]:
            if isinstance(place, slice):
                self.sample = iter(())
                return values.rows(place.start, place.stop)
            row, found = next(self.sample, (-1, None))
            if found is None or row != place:  # not asked for as foretold: one at a time, then
                found = values.rows(int(place), int(place) + 1)[0]
            return found.astype(np.float64, copy=False)

    rows = Rows()

    class InBlocks(lightgbm.Dataset):
        def get_params(self) -> dict[str, Any]:
            return dict(
                self.params
            )  # to sample rows with, it needs all of them: seed and silence too

        def _create_sample_indices(
            self, *told: Any, **named: Any
        ) -> Any:  # positions or names, by version
            indices = super()._create_sample_indices(*told, **named)
            rows.sample = _sampled(values, indices)
            return indices

    return InBlocks, rows


def _sampled(
    values: ParquetMatrix | LazyMatrix, indices: NDArray[np.int32]
) -> Iterator[tuple[int, NDArray[np.float64]]]:
    """The rows that will be asked for one by one, which is a slow way to make columns from neighbours: some at a time."""
    if isinstance(values, LazyMatrix):
        for start in range(0, indices.size, values.rows_per_block):
            asked = indices[start : start + values.rows_per_block]
            yield from zip(asked.tolist(), values[asked], strict=True)


class LightGBMEnsemble(Ensemble):
    """A booster in LightGBM's text format, parsed when first needed.

    Parameters
    ----------
    text : str
    weights : sequence of float, optional
        What to multiply each tree by: written into the text when that is first read, as it takes longer than some rounds.
    """

    def __init__(self, text: str, weights: Sequence[float] | None = None) -> None:
        self._told = text, weights
        self._parsed: Any = None

    @property
    def _text(self) -> str:
        text, weights = self._told  # both at once: another thread may be writing them
        if weights is not None:
            text = _weighted(text, weights)
            self._told = text, None
        return text

    @property
    def booster(self) -> Any:
        """The ``lightgbm.Booster``: for SHAP and everything else that knows LightGBM."""
        if self._parsed is None:
            import lightgbm

            self._parsed = lightgbm.Booster(model_str=self._text)
            self._parsed.params.setdefault("objective", "custom")  # not in files; SHAP looks for it
        return self._parsed

    def predict(self, table: Table) -> Array:
        """Sum the trees."""
        # For a few rows, waking a second thread takes longer than the rows.
        threads = 1 if table.n_rows <= FEW_ROWS else allowed_threads()
        scores = self.booster.predict(plain_values(table), raw_score=True, num_threads=threads)
        return np.asarray(scores, dtype=np.float64).reshape(table.n_rows, -1)

    def importances(self) -> Array:
        """Total gain of the splits on each column."""
        return np.asarray(self.booster.feature_importance("gain"), dtype=np.float64)

    def contributions(self, table: Table) -> Array:
        """TreeSHAP values, by LightGBM."""
        values = table.values.toarray() if table.is_sparse else table.values
        flat = np.asarray(
            self.booster.predict(values, pred_contrib=True, num_threads=allowed_threads())
        )
        return flat.reshape(table.n_rows, -1, len(table.names) + 1)

    def files(self) -> dict[str, bytes]:
        """LightGBM's text format, without the settings of training: they are in the manifest, and LightGBM reads them."""
        return {"trees.txt": _PARAMETERS.sub("", self._text).encode()}

    def check(self, n_columns: int, n_outputs: int, categories: Mapping[int, int]) -> None:
        """Read the text by its grammar, line by line: LightGBM itself checks how many numbers there are, not which."""
        head, trees, rest = _parts(self._text)
        refuse_unless(
            self._text.isascii() and "\r" not in self._text and "\0" not in self._text,
            "not plain text",
        )
        lines = head.split("\n")
        refuse_unless(lines[0] == "tree" and lines[-2:] == ["", ""], "the head")
        told = _told(lines[1:-2], _HEAD_KEYS, optional=("monotone_constraints",))
        for key, value in (
            ("num_class", n_outputs),
            ("num_tree_per_iteration", n_outputs),
            ("label_index", 0),
        ):
            refuse_unless(told[key] == str(value), f"{key} must be {value}")
        refuse_unless(told["version"] == "v4", "version must be v4")
        refuse_unless(
            told["max_feature_idx"] == str(n_columns - 1), f"they are not for {n_columns} columns"
        )
        for key in ("feature_names", "feature_infos", "monotone_constraints"):
            words = told[key].split(" ") if key in told else ["0"] * n_columns
            refuse_unless(len(words) == n_columns and all(words), f"{key} for {n_columns} columns")
        refuse_unless(
            told["tree_sizes"] == " ".join(str(len(tree)) for tree in trees), "tree_sizes"
        )
        refuse_unless(len(trees) % n_outputs == 0, f"there are not {n_outputs} in each round")
        refuse_unless(_REST.fullmatch(rest), "what follows the last tree")
        for number, tree in enumerate(trees):
            _check_one(tree, number, n_columns)

    def __getstate__(self) -> dict[str, Any]:
        return {"_told": self._told, "_parsed": None}
