"""The default: a portfolio of members, and every tuned number.

Each row of ``PORTFOLIO`` is trained on all folds, and weighed by its predictions of labels that it
was not trained on. What a row says:

learner      trees of LightGBM, or a network of random units
field        none, the default strengths, or those estimated from the first row
propagates   whether scores are propagated over the edges
neighbors    columns with statistics of the neighbours' columns
spectral     whether there are columns of the graph's spectral embedding
classes      whether it is trained for three classes and more, too
process      whether a Gaussian process of the coordinates takes the place of the field at the end,
             where rows to predict are far from labels
hides_coordinates   whether the learner does not see the coordinates
"""

from dataclasses import dataclass
from math import inf
from typing import Any, NamedTuple

from ebboost.learners import Learner, LightGBM, RandomNetwork, XGBoost


@dataclass(frozen=True)
class Member:
    """One row of the portfolio."""

    name: str
    learner: str = "trees"
    field: str = ""  # "default" or "estimated"
    propagates: bool = False
    neighbors: bool = False
    spectral: bool = False
    classes: bool = True
    hides_coordinates: bool = False
    process: bool = False

    @property
    def uses_graph(self) -> bool:
        """Whether any part needs the graph."""
        return bool(self.field or self.propagates or self.neighbors or self.spectral)


FIRST = Member("trees + default field", field="default")  # the strengths are estimated from it

PORTFOLIO = (
    FIRST,
    Member("trees + field + neighbours", field="estimated", neighbors=True, classes=False),
    Member(
        "propagated trees + field + neighbours", "trees", "estimated", True, True, classes=False
    ),
    Member("propagated trees + neighbours", propagates=True, neighbors=True),
    Member("network + field", "network", "estimated"),
    Member("network + field + neighbours + spectral", "network", "estimated", False, True, True),
    Member("trees"),
    Member("network", "network"),
)

# In their place where rows belong to several groups, and no graph connects levels.
SEVERAL = (
    FIRST,
    Member("trees + field", field="estimated"),
    Member("network + field", "network", "estimated"),
    Member("trees"),
    Member("network", "network"),
)

# In their place where rows to predict are far from labels and have coordinates: the first one, for
# the strengths; those with a process, which are weighed; and plain trees, for the gain.
FAR = (
    FIRST,
    Member("trees + Gaussian process", field="default", process=True),
    Member(
        "trees without coordinates + Gaussian process",
        field="estimated",
        hides_coordinates=True,
        process=True,
    ),
    Member("network + Gaussian process", "network", "estimated", process=True),
    Member("trees"),
)


class Size(NamedTuple):
    """What depends on the number of labels: up to so many, folds, learning rate of trees."""

    up_to: float
    folds: int
    rate: float


SMALL, MEDIUM, LARGE = Size(5_000, 8, 0.15), Size(50_000, 4, 0.2), Size(inf, 3, 0.3)
# Trees of few labels and of classes, and of many labels: leaves, rows of a leaf, and penalty, which
# is the least curvature in a leaf, too.
SMALL_TREES = (15, 7, 1.0)
LARGE_TREES = (31, 20, 20.0)
# Share of the columns that a tree may split, and the fewest and most columns.
COLUMN_SHARE = 0.5
COLUMNS = (16, 300)
NETWORK_RATE = 0.5
# Training stops when the validation loss has not improved for PATIENCE / rate rounds.
PATIENCE = 2.5
NETWORK_PATIENCE = 5.0
UNITS = (64, 128)  # of a network, where trees are small and where they are large
PROPAGATION = (1.0, 2)  # λ and steps
SPECTRAL_COLUMNS = 64
SPECTRAL_UP_TO = 200_000  # nodes
# Singular vectors in place of a sparse table of more than twice as many columns.
DIRECTIONS = 128
# Standard deviation over mean of labels of 0 and more, beyond which networks are trained with the
# Poisson loss.
POISSON_FROM = 0.25
# With time: blocks of the latest labels that are predicted from those before, and their share;
# models of a member that are trained on all labels then; least share of labels that forecasts are
# made from.
BLOCKS_IN_TIME = (4, 0.2)
MODELS_IN_TIME = 2
SHARE_BEFORE_FORECAST = 0.3
# Share held out for one model; fewest labels for folds, and rounds with fewer.
HELD_OUT_SHARE = 0.1
FEWEST_LABELS = 10
ROUNDS_WITHOUT_VALIDATION = 50


def size(n_labels: int) -> Size:
    """Return what depends on the number of labels."""
    return SMALL if n_labels <= SMALL.up_to else MEDIUM if n_labels <= MEDIUM.up_to else LARGE


def trees(library: str, n_labels: int, classes: bool, n_columns: int) -> Learner:
    """Return the trees of a library for a number of labels and of columns."""
    is_large = n_labels > SMALL.up_to and not classes
    leaves, rows, penalty = LARGE_TREES if is_large else SMALL_TREES
    fewest, most = COLUMNS
    columns = min(max(COLUMN_SHARE * n_columns, fewest), most)
    shared: dict[str, Any] = {}
    if columns < n_columns:
        shared["colsample_bytree"] = columns / n_columns
    if library == "xgboost":
        depth = leaves.bit_length()  # with as many leaves and one more
        return XGBoost(depth, max(rows, penalty), penalty, **shared)
    return LightGBM(
        leaves,
        min_child_samples=rows,
        reg_lambda=penalty,
        params={"min_sum_hessian_in_leaf": penalty},
        **shared,
    )


def network(n_labels: int, classes: bool) -> Learner:
    """Return the network for a number of labels."""
    few, many = UNITS
    return RandomNetwork(few if classes or n_labels <= SMALL.up_to else many)
