"""Every tuned number of the default, with the measurement that chose it.

``benchmarks/defaults.py`` measures the validation loss with each number halved and doubled; its
table is ``benchmarks/results/defaults.md``.
"""

from ebboost.boosting.callbacks import EarlyStopping
from ebboost.boosting.latent_field import LatentField
from ebboost.learners import Learner, LightGBM, as_learner
from ebboost.model.candidate import Candidate
from ebboost.propagation import Laplacian, Smoother

#: Labelled nodes below which trees are smaller and steps shorter.
FEW_LABELS = 5_000
#: Fewest labels of which a share is held out; below, rounds come from cross-fitting.
MIN_LABELS_TO_HOLD_OUT = 50
#: Labels that must remain to train on after holding out.
MIN_LABELS_TO_TRAIN = 10
#: Folds of cross-fitting, and rounds where there are too few labels even for that.
CROSS_FIT_FOLDS = 5
ROUNDS_WITHOUT_VALIDATION = 50
#: Neighbour correlation of the labels below which propagation and field are no candidates.
MIN_CORRELATION = 0.1
#: Neighbour correlation below which neighbour columns alone are a candidate too.
LOW_CORRELATION = 0.3
#: Share of the loss by which a candidate must improve on the model without a graph.
MIN_GAIN = 0.005
#: Standard errors of the difference by which it must improve, at the first and at later stages.
FIRST_STANDARD_ERRORS = 1.0
LATER_STANDARD_ERRORS = 0.5
#: Rounds after which candidates are compared: of classes, of few and of many labels.
CLASS_STAGES = (5, 25, 60)
FEW_LABELS_STAGES = (30,)
MANY_LABELS_STAGES = (10,)
#: Scores that selection may keep: a gigabyte for two candidates.
MAX_STORED_SCORES = 30_000_000
#: Singular vectors that replace a sparse table of more than twice as many columns, for classes.
LOW_RANK = 128
#: Without validation nodes the graph is used if the neighbour correlation exceeds 2/√n_labels.
CORRELATION_STANDARD_ERRORS = 2.0


def propagation(classes: bool) -> Smoother:
    """Return the propagation of the scores."""
    return Laplacian(2.0, 5) if classes else Laplacian(1.0, 2)


def feature_smoothing() -> Smoother:
    """Return P_x of the columns [X, P_x X]: λ = 20 and 5 steps are the paper's for regression."""
    return Laplacian(20.0, 5)


def latent_field() -> LatentField:
    """Return the latent field."""
    return LatentField()


def learner(parameter: object, n_labels: int, candidate: Candidate, classes: bool) -> Learner:
    """Return the learner that the ``learner`` parameter names.

    The name ``"lightgbm"`` gets settings for the number of labels, other values their own defaults.
    """
    if not (isinstance(parameter, str) and parameter == "lightgbm"):
        return as_learner(parameter)
    few = classes or n_labels < FEW_LABELS
    columns = 1.0 if not candidate.uses_graph else 0.3 if classes else 0.5
    params: dict[str, float] = {"min_sum_hessian_in_leaf": 1.0 if classes else 5.0 if few else 20.0}
    if not few:  # 10 000 rows determine the bins
        params["bin_construct_sample_cnt"] = 10_000
    return LightGBM(
        15 if few else 31,
        min_child_samples=10 if few else 20,
        reg_lambda=5.0 if few else 20.0,
        colsample_bytree=columns,
        max_bin=127 if few or candidate.uses_graph else 255,
        params=params,
    )


def learning_rate(classes: bool, n_labels: int, is_sparse: bool) -> float:
    """Return the learning rate."""
    if classes:
        return 0.3
    return 0.05 if n_labels < FEW_LABELS and not is_sparse else 0.1


def selection_stages(classes: bool, n_labels: int, n_scores: int) -> list[int]:
    """Return the numbers of rounds after which candidates are compared."""
    few = FEW_LABELS_STAGES if n_labels < FEW_LABELS else MANY_LABELS_STAGES
    stages = CLASS_STAGES if classes else few
    return [
        rounds for rounds in stages if rounds == stages[0] or rounds * n_scores <= MAX_STORED_SCORES
    ]


def early_stopping(classes: bool, n_labels: int) -> EarlyStopping:
    """Return early stopping for that learning rate; with many labels it ends at small gains too."""
    if classes:
        return EarlyStopping(10)
    return EarlyStopping(30) if n_labels < FEW_LABELS else EarlyStopping(15, min_improvement=0.01)
