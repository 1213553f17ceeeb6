"""Every tuned number of the default, with its measurement.

Percentages are the change of the error on the official validation nodes of County, Avazu, House and
Lucas with that number halved (−) and doubled (+), from the least to the greatest of the four data
sets (``python -m benchmarks.defaults``; the table is ``benchmarks/results/defaults.md``). They were
measured with one model, before there were folds and a search.
"""

from dataclasses import dataclass

from ebboost.learners import Learner, LightGBM, RandomNetwork, XGBoost, as_learner
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
    n_iter_no_change: int
    # Candidates are compared at a higher rate than the selected one is trained with in the end.
    # Test errors with these rates and with the final ones alone: County 1.050, 1.052 and Avazu
    # .1051, .1054 (5 splits each), House .4318, .4334, King County .1599, .1600, Lucas .2635,
    # .2645, elect80 .0589, .0590, twitch 1.036, 1.032 (one split each), in 40 to 75 % of the time.
    # At .5 tables of many columns lose: R² .8755 instead of .8794 on Lucas without eval_set.
    comparing_rate: float


# Of classes in tables that are not sparse. Log-loss at validation nodes with these, and with the
# numbers and the search for sparse tables (propagation first, no networks): thirds of the labels of
# elect80 .666, .719, of County .635, .665, of King County .336, .346; the upper tenth of elect80
# .113, .136, the upper half of twitch .459, .465. That search at a rate of .1 with .3 and .5 of the
# columns: elect80 .719, .706, County .666, .657, King County .346, .343.
CLASSES_OF_SPARSE = SizeDefaults(15, 10, 5.0, 1.0, 0.3, 127, 0.3, 10, 0.3)
CLASSES = SizeDefaults(15, 10, 5.0, 1.0, 0.5, 127, 0.1, 25, 0.3)
FEWEST_LABELS = SizeDefaults(15, 10, 5.0, 5.0, 0.5, 127, 0.1, 25, 0.3)
FEW_LABELS = SizeDefaults(15, 10, 5.0, 5.0, 0.5, 127, 0.05, 50, 0.15)
MANY_LABELS = SizeDefaults(31, 20, 20.0, 20.0, 0.5, 255, 0.1, 25, 0.2)
MOST_LABELS = SizeDefaults(31, 20, 20.0, 20.0, 0.5, 255, 0.1, 10, 0.3)
#: Number of labels from which on these are many. 1 000: 0 to +0.6 %, 20 000: −1.3 to 0 %.
MANY_LABELS_FROM = 5_000
#: Number of labels beyond which models end sooner, plain boosting is not trained again for the gain
#: of the graph, and a field is compared even where the estimate of its strengths finds no gain.
#: Mean Poisson deviance of Belgian policies (98 000 labels, 5 splits) with a patience of 25 and 10,
#: and candidates compared at .2 and .3: .53717, .53712 on random rows, .53900, .53900 on unseen
#: postcodes, in .7 of the processor time; without such a field .53623, not .53466, on one split.
MOST_LABELS_FROM = 50_000
#: Number of labels from which on a smaller learning rate is worth its rounds; not measured.
FEW_LABELS_FROM = 1_000
#: −: −1.8 to +0.2 %, +: −0.8 to 0 %.
MAX_BIN_WITH_GRAPH = 127
#: Columns that a tree with the graph may split, at most. Wiki has 6 297 columns: a round with half
#: of them takes 99 ms, with 315 of them 23 ms; validation losses are 4.60e8 and 4.64e8.
MAX_COLUMNS_OF_TREE = 300
#: Columns that a tree with the graph may split, at least. A tree without one of two columns whose
#: product matters learns nothing of it: test RMSE of 200 000 points in the unit square, 10 columns,
#: with half of them .3645, with all .3216 (noise .3).
MIN_COLUMNS_OF_TREE = 16
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
#: Columns of the spectral embedding, and nodes up to which they are offered. RMSE at validation
#: nodes with a field and neighbour columns, mean of three splits, with no columns, 32 of Â, 64 of
#: Â, 64 of A, and 32 of each: twitch 1.087, 1.041, 1.024, 1.059, 1.029; County 1.131, 1.132, 1.112,
#: 1.116, 1.118; House .4487, .4474, .4432, .4441, .4436; elect80 .0568, .0576, .0577, .0581, .0573;
#: Avazu .0978, .0974, .0980, .0974, .0971. LightGBM on Wiki with degrees, 64 of Â, 64 of A, 32 of
#: each (five splits): 30 671, 27 254, 26 642. Not offered with singular vectors of a sparse table:
#: Coauthor-CS loses half a point of accuracy.
SPECTRAL_COMPONENTS = 64
MAX_SPECTRAL_NODES = 200_000
#: Singular vectors that replace a sparse table of more than twice as many columns, for classes.
LOW_RANK = 128

#: Without held-out labels the graph is used if the neighbour correlation of the labels exceeds this
#: many times 1/√n_labels, of which √2 are due to pairs that are each other's neighbours.
CORRELATION_STANDARD_ERRORS = 3.0
#: Without a search: labels that a few trees are grown on, and as many that they are compared at,
#: their rounds and learning rate, and by how many standard errors columns must lower the loss.
QUICK_LABELS = 2_000
QUICK_ROUNDS = 30
QUICK_RATE = 0.2
QUICK_STANDARD_ERRORS = 2.0
#: Share of the default τ that a field has then, for numbers. RMSE at validation nodes with the
#: default and with this share, columns of neighbours and no propagation: County 1.183, 1.167, Avazu
#: .1000, .1004, House .451, .447, Lucas .270, .270, elect80 .0570, .0565, King County .158, .159,
#: twitch 1.107, 1.109. Classes: walls of Lucas .971, 1.010, thirds of elect80 .677, .653.
SHARE_OF_TAU = 0.2
#: Parts that the search adds or removes, in this order. Where no field of estimated strengths was
#: added, one of the default's is compared: trees without a field learn from columns of places what
#: they would leave to it. Log-loss at held-out labels of King County in three classes of prices:
#: .3606 without, .3575 with it. The columns of a wide sparse table of numbers are left out first,
#: and added again in the end: their noise may cost more than they tell. Test RMSE on Wiki of
#: LightGBM with degrees and spectral columns alone 29 774, with singular vectors of the table, too,
#: 43 656 (5 splits).
SEARCH_ORDER = (
    "own_columns",
    "labels",
    "strengths",
    "loss",
    "neighbor_features",
    "spectral_features",
    "smoothing",
    "labels",
    "default_field",
    "similarity",
    "feature_smoothing",
    "strengths",
    "strengths",
    "random_splits",
    "smaller_trees",
    "own_columns",
)
#: Standard deviation of labels of 0 and more, in units of their mean, from which on training with
#: the Poisson loss is compared, for the same squared errors. Test RMSE (5 splits) without and with
#: it: County 1.035, 1.010 in twice the time, Avazu .1054, .1054. The limit itself is not tuned.
LOG_LINK_FROM = 0.25
#: Fewest held-out labels to whose mean predictions are then scaled. RMSE with scaling on simulated
#: labels, without 1: 2 held-out labels 1.259, 4 1.001, 8 1.019, 16 1.011, 20 .986, 40 .959, 80
#: .962, 160 .941.
MIN_LABELS_FOR_FACTOR = 20
#: Share of the deviance by which a field over neighbours lowers it, at most, for a field over nodes
#: with similar neighbours to be compared. Out-of-fold RMSE of trees on columns of neighbours with a
#: field over neighbours and over similar nodes, without a field 1: Wiki .990, .751, twitch .996, 1,
#: Avazu .973, 1, County .842, .901, elect80 .817, .864.
MAX_GAIN_OF_NEIGHBORS = 0.05
#: Numbers of nearest rows of coordinates that are compared with 8, and by how many standard errors,
#: and which share of the deviance, one of them or equal weights must be better. The mean squared
#: error at validation nodes of plain boosting with a field on 5 to 30 nearest rows or Delaunay
#: triangles, weighted or not, differs from that on 8 nearest by −.6 to +1.1 % in King County (3
#: splits) and Lucas County, and a fit with 20 nearest takes 40 % longer. In blocks of six flats, 5
#: nearest lower the RMSE by 15 % (mean of 5 draws).
COMPARED_NEIGHBORS = (5, 20)
COMPARED_NEIGHBORS_ERRORS = 2.0
COMPARED_NEIGHBORS_GAIN = 0.01
#: Smaller trees, and splits at random thresholds, are compared for numbers up to
#: so many labels, and in a thorough search. Change of the loss at held-out labels: County −2.4 %,
#: twitch −1.5 %, elect80 −.9 %, King County −.6 %, House −.1 %, Lucas 0; of the test RMSE: County
#: 1.050 to 1.046, Avazu .1051 to .1050 (5 splits), twitch 1.036 to 1.032, King County .1599 to
#: .1597, elect80, Lucas and House + .1 % (one split); time + 15 to 45 %.
COMPARE_TREES_UP_TO = 10_000
#: A part is added if it lowers the loss by more than this many standard errors of the difference,
#: and by this share of the loss; the first part that uses the graph by more than that many. One
#: standard error for all parts costs 2.3 % on County.
STANDARD_ERRORS = 0.5
GRAPH_STANDARD_ERRORS = 1.0
MIN_GAIN = 0.001
#: Losses at ``eval_set`` count alone if they contradict those at held-out labels by more than this
#: many standard errors: with two, one of three fits would have such a comparison by chance.
CONTRADICTION = 3.0
#: Searches of ``selection="thorough"``, each with other folds; their candidates are all averaged.
#: Error of the mean of four over that of one, at validation nodes of two splits: County .994, .995,
#: elect80 .997, .997, Avazu .999, .998, twitch (one split) .992.
SEARCHES = 4
#: Candidates that are averaged at most, and scores that are stored for it: a quarter of a gigabyte.
MAX_AVERAGED = 4
MAX_STORED_SCORES = 30_000_000
#: Networks are compared up to so many labels, and with more than so many only averaged with trees
#: if they are as good. Where few of many folds are compared, they replace trees or are left out:
#: test RMSE of 80 000 simulated points, 48 000 labels, .335 with trees, .321 with networks. Test
#: RMSE without and with networks: County 1.046, 1.032, elect80 .0570, .0564, Avazu .1050, .1052,
#: twitch 1.043, 1.038, King County .1551, .1537 (5 splits). On House and Lucas they are worse than
#: trees by 20 and 6 % of the loss at held-out labels; averaged with trees all the same they lower
#: that loss by .2 and .6 %, but raise the test RMSE of one split from .4318 to .4341 and from .2633
#: to .2680.
NETWORKS_UP_TO = 50_000
AVERAGE_WORSE_UP_TO = 10_000
#: Parts that the search adds to networks, in this order; their learning rate and patience. On
#: elect80 and County the errors at validation nodes with rates .1 and .3, 32 and 64 units and
#: penalties of .001 and .01 are within .5 % of each other.
NETWORK_ORDER = ("field", "strengths", "spectral_features", "neighbor_features", "strengths")
NETWORK_RATE = 0.3
NETWORK_PATIENCE = 20
#: Units of a round where labels are many. RMSE at validation nodes with 64 and with these: King
#: County .1526, .1527, House .460, .457, Lucas .275, .270, twitch 1.090, 1.088, 20 000 and 80 000
#: simulated points .333, .331 and .321, .322, in .7 to 1.9 of the processor time.
MANY_UNITS = 128
#: Candidates are compared at this many held-out labels if there are as many. The first many are
#: enough if the difference is clear: more than so many standard errors. It need not be so many for
#: one that is worse.
ENOUGH_HELD_OUT = 16_000
ENOUGH_IF_CLEAR = 4_000
CLEAR = 3.0

#: Folds of cross-fitting up to a number of labels; more models average out more noise.
FOLDS = ((500, 5), (5_000, 8), (MOST_LABELS_FROM, 5))
FOLDS_BEYOND = 3
#: With time: blocks of the latest labels that are held out one after the other, and their share.
#: RMSE of the latest houses of Lucas and King County: .2504 and .1637, one block of a tenth and no
#: further models .2517 and .1813, random folds .2516 and .1639; 90 % intervals contain 89 and 91 %
#: of the prices, with random folds 87 and 89 %.
FOLDS_IN_TIME = 4
MAX_SHARE_IN_TIME = 0.2
#: Where rows are later than all labels: share of the labels that a model is trained on to forecast
#: the others, for intervals, at least. Not tuned.
MIN_SHARE_BEFORE_FORECAST = 0.3
#: Power of the ratio of variances of the field, of forecasts over later rows, that the latter are
#: multiplied by. Coverage of 90 % intervals and log density of later labels with 0, 1/2 and 1 by
#: the default 87.5, 88.4, 89.3 % and .205, .208, .208; by rules 88.8, 90.1, 91.3 % and .167, .169,
#: .167: means over five times of the last label of Lucas, up to 1996, and four of King County.
FORECAST_VARIANCE_POWER = 0.5
#: Fewest labels for folds, below which this many rounds are trained on all; and labels that must
#: remain to train on where a share is held out.
MIN_LABELS_FOR_FOLDS = 10
ROUNDS_WITHOUT_VALIDATION = 50
MIN_LABELS_TO_HOLD_OUT = 50
MIN_LABELS_TO_TRAIN = 10
#: Largest share of rows with known labels to train on these alone, where nothing is propagated.
#: Lucas with 1 000 and 300 labels takes 17 and 8 processor seconds, on all rows 25 and 10.
MOST_ROWS_NEEDED = 2 / 3
#: Fewest held-out labels that probabilities are calibrated on; not tuned.
MIN_LABELS_TO_CALIBRATE = 50
#: Trees and networks of the size of residuals: fewest labels, folds, leaves, rows of a leaf,
#: rounds, learning rate and patience; units, learning rate and patience of networks. Log density at
#: held-out labels with trees, with networks and with the mean of both: elect80 1.568, 1.573, 1.572;
#: County −1.174, −1.163, −1.165; Avazu 1.864, 1.776, 1.878; King County .616, .619, .620; House
#: −.178, −.176, −.173; Lucas .187, .184, .191. Interval scores with the mean are .5 to 1.4 % less
#: than with trees. Trees of eight leaves are within .008 of these.
MIN_LABELS_OF_SPREAD = 200
SPREAD_FOLDS = 3
SPREAD_LEAVES = 4
SPREAD_MIN_LEAF = 20
SPREAD_ROUNDS = 100
SPREAD_RATE = 0.15
SPREAD_PATIENCE = 10
SPREAD_UNITS = 32
SPREAD_NETWORK_RATE = 0.1
SPREAD_NETWORK_PATIENCE = 15
#: Fewest labels of each group of predictions whose residuals have a shape, and groups at most. Log
#: density at validation nodes, which were not trained on, mean over splits, with one, three, five,
#: seven and ten groups: County −1.236, −1.233, −1.235, −1.239, −1.248; House −.185, −.184, −.183,
#: −.181, −.179; King County .579, .581, .582, .582, .582; elect80 1.492, 1.496, 1.495, 1.494,
#: 1.492; Lucas (later sales) .065, .075, .076, .070, .066. Avazu has 800 labels: 1.531, with three
#: groups 1.775; five of 100 labels 1.787 ± .04, seven 1.058.
SHAPE_LABELS = 200
SHAPE_GROUPS = 5


@dataclass(frozen=True)
class Task:
    """What the defaults depend on: whether y holds classes, how many, whether X is sparse."""

    classes: bool
    n_labels: int
    is_sparse: bool


def for_size(task: Task) -> SizeDefaults:
    """Return the defaults for a task and a number of labels."""
    n_labels = task.n_labels
    if task.classes:
        return CLASSES_OF_SPARSE if task.is_sparse else CLASSES
    if n_labels < FEW_LABELS_FROM:
        return FEWEST_LABELS
    if n_labels < MANY_LABELS_FROM:
        return FEW_LABELS
    return MANY_LABELS if n_labels <= MOST_LABELS_FROM else MOST_LABELS


def learner(parameter: object, task: Task, candidate: Candidate, n_columns: int = 1) -> Learner:
    """Return the learner that the ``learner`` parameter names.

    The name ``"lightgbm"`` gets settings for the numbers of labels and columns, other values their
    own defaults.
    """
    if candidate.network:
        is_many = task.n_labels >= MANY_LABELS_FROM and not task.classes
        return RandomNetwork(MANY_UNITS) if is_many else RandomNetwork()
    if isinstance(parameter, str) and parameter == "xgboost":
        trees = XGBoost()
        trees.max_depth -= bool(candidate.smaller_trees)  # half as many leaves
        return trees
    if not (isinstance(parameter, str) and parameter == "lightgbm"):
        return as_learner(parameter)
    size = for_size(task)
    params: dict[str, float] = {"min_sum_hessian_in_leaf": size.min_sum_hessian_in_leaf}
    if candidate.random_splits:
        params["extra_trees"] = True
    if size in (MANY_LABELS, MOST_LABELS):
        params["bin_construct_sample_cnt"] = BIN_SAMPLE
    with_graph = candidate.uses_graph
    share = max(size.colsample_with_graph, min(MIN_COLUMNS_OF_TREE / n_columns, 1.0))
    share = min(share, MAX_COLUMNS_OF_TREE / n_columns)
    return LightGBM(
        size.num_leaves // (2 if candidate.smaller_trees else 1),
        min_child_samples=size.min_child_samples,
        reg_lambda=size.reg_lambda,
        colsample_bytree=share if with_graph else 1.0,
        max_bin=MAX_BIN_WITH_GRAPH if with_graph else size.max_bin_without_graph,
        params=params,
    )


def tree_changes(learner: Learner) -> dict[str, object]:
    """Return the parameters of libraries in which candidates on the same bins may differ."""
    if isinstance(learner, XGBoost):
        return {"max_depth": learner.max_depth}
    if not isinstance(learner, LightGBM):
        return {}
    extra_trees = (learner.params or {}).get("extra_trees")
    return {"num_leaves": learner.num_leaves, "extra_trees": extra_trees}


def learning_rate(task: Task) -> float:
    """Return the learning rate."""
    size = for_size(task)
    return SPARSE_LEARNING_RATE if size is FEW_LABELS and task.is_sparse else size.learning_rate


def n_folds(n_labels: int) -> int:
    """Return the number of folds of cross-fitting; 0 for too few labels."""
    if n_labels < MIN_LABELS_FOR_FOLDS:
        return 0
    return next((folds for most, folds in FOLDS if n_labels <= most), FOLDS_BEYOND)
