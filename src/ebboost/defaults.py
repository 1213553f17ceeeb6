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
from typing import Any

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


PORTFOLIO = (
    Member("trees + default field", field="default"),
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

# In their place where rows to predict are far from labels and have coordinates: the first one, for
# the strengths; those with a process, which are weighed; and plain trees, for the gain.
FAR = (
    PORTFOLIO[0],
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

# Trees of few labels and of classes, and of many labels: leaves, rows of a leaf, penalty, least
# curvature in a leaf.
FEW_LABELS_TREES = (15, 7, 1.0, 1.0)
MANY_LABELS_TREES = (31, 20, 20.0, 20.0)
# Of XGBoost, of few and of many labels: depth, least curvature in a leaf, penalty.
XGBOOST_TREES = ((4, 5.0, 1.0), (6, 20.0, 20.0))
MANY_LABELS_FROM = 5_000
MAX_BIN = 127
# Share of the columns that a tree may split, and the fewest and most columns.
COLUMN_SHARE = 0.5
COLUMNS = (16, 300)
# Learning rates by number of labels, for classes and for networks. Training stops when the
# validation loss has not improved for PATIENCE / rate rounds.
RATES = ((1_000, 0.1), (5_000, 0.15), (50_000, 0.2))
RATE_BEYOND = 0.3
CLASS_RATE = 0.3
NETWORK_RATE = 0.5
PROPAGATED_RATE = 1.5  # times that of other trees
PATIENCE = 2.5
NETWORK_PATIENCE = 5.0
UNITS = (64, 128)  # of a network, with few labels and with many
# λ and steps of the propagation of numbers and of classes.
PROPAGATION = (1.0, 2)
CLASS_PROPAGATION = (2.0, 5)
SPECTRAL_COLUMNS = 64
SPECTRAL_UP_TO = 200_000  # nodes
# Singular vectors in place of a sparse table of more than twice as many columns.
DIRECTIONS = 128
# Standard deviation over mean of labels of 0 and more, beyond which networks are trained with the
# Poisson loss.
POISSON_FROM = 0.25
# Folds by number of labels.
FOLDS = ((5_000, 8), (50_000, 5))
FOLDS_BEYOND = 3
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


def n_folds(n_labels: int) -> int:
    """Return the number of folds."""
    folds = FOLDS_BEYOND
    for most, number in reversed(FOLDS):
        folds = number if n_labels <= most else folds
    return min(folds, n_labels // 2)


def learning_rate(n_labels: int, classes: bool, network: bool, propagates: bool) -> float:
    """Return the learning rate."""
    if network:
        return NETWORK_RATE
    rate = RATE_BEYOND
    for below, own in reversed(RATES):
        rate = own if n_labels < below else rate
    rate = CLASS_RATE if classes else rate
    return rate * PROPAGATED_RATE if propagates else rate


def patience(rate: float, network: bool) -> int:
    """Return for how many rounds without an improvement training goes on."""
    return max(round((NETWORK_PATIENCE if network else PATIENCE) / rate), 1)


def trees(library: str, n_labels: int, classes: bool, n_columns: int) -> Learner:
    """Return the trees of a library for a number of labels and of columns."""
    many = n_labels >= MANY_LABELS_FROM
    fewest, most = COLUMNS
    share = min(max(COLUMN_SHARE * n_columns, fewest), most, n_columns) / max(n_columns, 1)
    shared: dict[str, Any] = {"colsample_bytree": share, "max_bin": MAX_BIN}
    if library == "xgboost":
        depth, curvature, penalty = XGBOOST_TREES[many and not classes]
        return XGBoost(depth, curvature, penalty, **shared)
    numbers = MANY_LABELS_TREES if many and not classes else FEW_LABELS_TREES
    leaves, rows, penalty, curvature = numbers
    return LightGBM(
        leaves,
        min_child_samples=rows,
        reg_lambda=penalty,
        params={"min_sum_hessian_in_leaf": curvature},
        **shared,
    )


def network(n_labels: int, classes: bool) -> Learner:
    """Return the network for a number of labels."""
    few, many = UNITS
    return RandomNetwork(many if n_labels >= MANY_LABELS_FROM and not classes else few)
