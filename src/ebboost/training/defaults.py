"""Every tuned number of the default, with its measurement.

Percentages are the change of the error on the official validation nodes of County, Avazu, House and
Lucas with that number halved (−) and doubled (+), from the least to the greatest of the four data
sets (``python -m benchmarks.defaults``; the table is ``benchmarks/results/defaults.md``).
"""

from dataclasses import dataclass

from ebboost.boosting.callbacks import EarlyStopping
from ebboost.learners import Learner, LightGBM, as_learner
from ebboost.model.candidate import Candidate


@dataclass(frozen=True)
class SizeDefaults:
    """Defaults that depend on the task and on the number of labels."""

    num_leaves: int  # −: −1.2 to +0.3 %, +: −1.4 to +1.0 %
    min_child_samples: int  # −: −0.1 to +0.1 %, +: −0.5 to +0.2 %
    reg_lambda: float  # −: −0.3 to +0.3 %, +: −1.6 to −0.2 %
    min_sum_hessian_in_leaf: float  # −: −0.7 to +0.7 %, +: −2.9 to +0.2 %
    colsample_with_graph: float  # −: −0.4 to +3.5 %, +: −0.3 to −0.1 %
    max_bin_without_graph: int  # no change: LightGBM's own 255, fewer with few labels
    learning_rate: float  # −: −1.5 to +0.2 %, +: −1.5 to +1.1 %
    n_iter_no_change: int  # −: −0.1 to +0.5 %, +: −1.0 to 0 %
    min_improvement: float  # −: −0.7 to −0.4 % for more rounds, +: 0 to +0.2 %
    stages: tuple[int, ...]  # rounds after which candidates are compared; no change


CLASSES = SizeDefaults(15, 10, 5.0, 1.0, 0.3, 127, 0.3, 10, 0.0, (5, 25, 60))
FEW_LABELS = SizeDefaults(15, 10, 5.0, 5.0, 0.5, 127, 0.05, 30, 0.0, (30,))
MANY_LABELS = SizeDefaults(31, 20, 20.0, 20.0, 0.5, 255, 0.1, 15, 0.01, (10,))
#: Number of labels from which on these are many. 1 000: 0 to +0.6 %, 20 000: −1.3 to 0 %.
MANY_LABELS_FROM = 5_000
#: −: −1.8 to +0.2 %, +: −0.8 to 0 %.
MAX_BIN_WITH_GRAPH = 127
#: Rows that determine the bins where labels are many. −: −0.7 to 0 %, all rows: −0.6 to +0.1 %.
BIN_SAMPLE = 10_000
#: Not measured: a sparse table of thousands of columns needs more rounds at 0.05 than it is worth.
SPARSE_LEARNING_RATE = 0.1

#: λ and number of steps of the propagation; those of classes and of [X, P_x X] are the paper's.
#: λ of numbers −: −4.0 to −0.2 %, +: −0.9 to +5.6 %; steps −: −1.3 to +2.1 %, +: −1.1 to 0 %.
#: λ and steps of [X, P_x X]: −1.1 to +0.1 %.
PROPAGATION = (1.0, 2)
CLASS_PROPAGATION = (2.0, 5)
FEATURE_SMOOTHING = (20.0, 5)
#: Singular vectors that replace a sparse table of more than twice as many columns, for classes.
LOW_RANK = 128

#: Neighbour correlation of the labels from which on propagation and field are a candidate, and
#: below which neighbour columns alone are one. No change: the four graphs are homophilous.
MIN_CORRELATION = 0.1
LOW_CORRELATION = 0.3
#: Without validation nodes the graph is used if the correlation exceeds this many times
#: 1/√n_labels.
CORRELATION_STANDARD_ERRORS = 2.0
#: A candidate must beat the model without a graph by this share of the loss, and by this many
#: standard errors of the difference at the first stage and at later ones. Two standard errors cost
#: 17.5 % on Avazu, whose graph is then not used; no change elsewhere.
MIN_GAIN = 0.005
FIRST_STANDARD_ERRORS = 1.0
LATER_STANDARD_ERRORS = 0.5
#: Scores that selection may store: a gigabyte for two candidates.
MAX_STORED_SCORES = 30_000_000

#: Fewest labels of which a share is held out, and labels that must then remain to train on.
MIN_LABELS_TO_HOLD_OUT = 50
MIN_LABELS_TO_TRAIN = 10
#: Folds of cross-fitting below that, and rounds where there are too few labels even for folds.
CROSS_FIT_FOLDS = 5
ROUNDS_WITHOUT_VALIDATION = 50


def for_size(classes: bool, n_labels: int) -> SizeDefaults:
    """Return the defaults for a task and a number of labels."""
    if classes:
        return CLASSES
    return FEW_LABELS if n_labels < MANY_LABELS_FROM else MANY_LABELS


def learner(parameter: object, n_labels: int, candidate: Candidate, classes: bool) -> Learner:
    """Return the learner that the ``learner`` parameter names.

    The name ``"lightgbm"`` gets settings for the number of labels, other values their own defaults.
    """
    if not (isinstance(parameter, str) and parameter == "lightgbm"):
        return as_learner(parameter)
    size = for_size(classes, n_labels)
    params: dict[str, float] = {"min_sum_hessian_in_leaf": size.min_sum_hessian_in_leaf}
    if size is MANY_LABELS:
        params["bin_construct_sample_cnt"] = BIN_SAMPLE
    with_graph = candidate.uses_graph
    return LightGBM(
        size.num_leaves,
        min_child_samples=size.min_child_samples,
        reg_lambda=size.reg_lambda,
        colsample_bytree=size.colsample_with_graph if with_graph else 1.0,
        max_bin=MAX_BIN_WITH_GRAPH if with_graph else size.max_bin_without_graph,
        params=params,
    )


def learning_rate(classes: bool, n_labels: int, is_sparse: bool) -> float:
    """Return the learning rate."""
    size = for_size(classes, n_labels)
    return SPARSE_LEARNING_RATE if size is FEW_LABELS and is_sparse else size.learning_rate


def selection_stages(classes: bool, n_labels: int, n_scores: int) -> list[int]:
    """Return the numbers of rounds after which candidates are compared."""
    first, *later = for_size(classes, n_labels).stages
    return [first, *(rounds for rounds in later if rounds * n_scores <= MAX_STORED_SCORES)]


def early_stopping(classes: bool, n_labels: int) -> EarlyStopping:
    """Return early stopping for that learning rate; with many labels it ends at small gains too."""
    size = for_size(classes, n_labels)
    return EarlyStopping(size.n_iter_no_change, min_improvement=size.min_improvement)
