"""Search for good parameters with Optuna, giving up on poor ones while they are still being fitted."""

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier
from sklearn.utils import check_random_state
from sklearn.utils.validation import _num_samples, has_fit_parameter

from ebboost.boosting.callbacks import Callback, RoundInfo, unless_interrupted
from ebboost.data import validation as checks
from ebboost.graph import Graph, Graphs
from ebboost.learners import LightGBM, as_learner
from ebboost.model_selection.cross_validation import labelled_folds
from ebboost.propagation import Laplacian

Model = TypeVar("Model")
Labelled = tuple[NDArray[np.int64], NDArray[Any]]
Space = Callable[[Any], Mapping[str, Any]]

HELD_OUT = 0.2
# Losses are reported each time the loop has walked this far, rounds × learning rate: every 5 rounds at the usual 0.1.
# Counted in rounds alone, every small learning rate would look poor early on and be given up.
REPORT_EVERY = 0.5
USUAL_RATE = 0.1  # for a model that chooses its own
WARM_UP = 10
AS_GIVEN = "as given"
ROUNDS = "rounds"


def tune(
    model: Model,
    X: Any,
    y: Any,
    graph: Graphs | None = None,
    *,
    n_trials: int = 30,
    timeout: float | None = None,
    space: Space | Mapping[str, Callable[[Any], Any]] | None = None,
    cv: Any = None,
    eval_set: tuple[Any, Any] | None = None,
    nodes: Any = None,
    random_state: Any = None,
    verbose: int = 1,
    study: Any = None,
) -> Model:
    """Search for parameters that lower the model's own loss on held-out nodes, and refit with the best.

    The first trial is the model as given, so what comes back is never worse on the held-out nodes. Trials that fall
    behind the median of the earlier ones are given up before their last round. Only labels in ``y`` and ``eval_set`` are
    looked at: leave those of test nodes out. Needs Optuna: ``pip install 'ebboost[tune]'``.

    Parameters
    ----------
    model : EBBSRegressor or EBBSClassifier
        Parameters that are not searched stay as they are; it is cloned, not changed.
    X, y, graph, nodes
        As in ``model.fit``.
    n_trials : int, default=30
        Sets of parameters to try, the model's own included.
    timeout : float, optional
        Begin no new trial after this many seconds.
    space : function or dict, optional
        What to search: a function of an Optuna trial that returns parameters of the model, or a dict of parameter name
        to a function of the trial. Default: the learning rate, the size and shrinkage of LightGBM's trees and, with a
        graph, whether and how far Laplacian smoothing reaches.
    cv : int, splitter, iterable or GraphBlockFold, optional
        Score each trial by its mean loss over folds, as in :func:`~ebboost.model_selection.cross_validation.cross_validate`.
    eval_set : (nodes, y), optional
        Score each trial on these nodes. Default, without ``cv``: on a fifth of the labelled nodes.
    random_state : int, RandomState or None, default=None
        Fixes the search and the held-out nodes, and the model where it has no ``random_state`` of its own.
    verbose : int, default=1
        1 writes a line for every trial to standard error.
    study : optuna.Study, optional
        A study of yours, to keep trials in a database, to go on with earlier ones, or for another sampler or pruner.

    Returns
    -------
    model
        A clone fitted on all labelled nodes, with two attributes more: ``best_params_``, what was changed in the model
        (nothing if it was best as given), and ``study_``, the Optuna study with every trial. It stops early as
        ``model.fit`` would, on ``eval_set`` if there is one.

    Examples
    --------
    >>> import ebboost as eb, numpy as np
    >>> from ebboost.model_selection.tuning import tune
    >>> place = np.random.default_rng(0).random((200, 2))
    >>> y = np.sin(6 * place[:, 0])
    >>> m = eb.EBBSRegressor(n_estimators=20, n_jobs=1)
    >>> best = tune(m, place, y, eb.Graph.build_knn(place, k=6), n_trials=3, random_state=0, verbose=0)
    >>> len(best.study_.trials), best.predict().shape
    (3, (200,))
    """
    optuna = _optuna()
    if not has_fit_parameter(model, "nodes") or not has_fit_parameter(model, "callbacks"):
        raise TypeError(
            f"model must be an EBBSRegressor or EBBSClassifier, got {type(model).__name__}."
        )
    if cv is not None and eval_set is not None:
        raise ValueError("cv and eval_set both say which nodes to score on: give one of them.")
    if not isinstance(n_trials, (int, np.integer)) or isinstance(n_trials, bool) or n_trials < 1:
        raise ValueError(f"n_trials must be a whole number of at least 1, got {n_trials!r}.")
    random = check_random_state(random_state)
    seed = int(random.randint(np.iinfo(np.int32).max))
    n_rows = _num_samples(X)
    checks.graph_fits(graph, n_rows, X)
    known, values, _ = checks.labelled(
        y, nodes, None, n_rows, is_classifier(model), type(model).__name__
    )
    pairs = _pairs(known, values, model, graph, n_rows, cv, eval_set, seed)
    base: Any = clone(model)
    if base.random_state is None:  # or luck would decide between two trials
        base.set_params(random_state=seed)
    suggest = _space(space, base, checks.whole(graph))

    def objective(trial: Any) -> float:
        changes = _changes(trial, suggest, base)
        losses, rounds = [], []
        for number, ((train, labels), held) in enumerate(pairs):
            candidate = clone(base).set_params(**changes, verbose=0)
            # A fold is enough to see that a trial is poor, and later folds start from other losses.
            watching = (
                [_Pruning(trial, candidate.learning_rate or USUAL_RATE)] if number == 0 else []
            )
            candidate.fit(X, labels, graph=graph, nodes=train, eval_set=held, callbacks=watching)
            losses.append(_kept_loss(unless_interrupted(candidate)))
            rounds.append(candidate.n_iter_)
        trial.set_user_attr(ROUNDS, max(1, round(float(np.mean(rounds)))))
        return float(np.mean(losses))

    with _quiet(optuna):
        if study is None:
            study = optuna.create_study(
                sampler=optuna.samplers.TPESampler(seed=seed),
                pruner=optuna.pruners.MedianPruner(n_startup_trials=5, n_warmup_steps=WARM_UP),
            )
        elif [direction.name for direction in study.directions] != ["MINIMIZE"]:
            raise ValueError(
                "study must minimise one value, the loss: make it with optuna.create_study()."
            )
        if not any(AS_GIVEN in trial.user_attrs for trial in study.trials):
            study.enqueue_trial({}, user_attrs={AS_GIVEN: True})
        watchers = [_Report(int(n_trials))] if verbose else []
        study.optimize(objective, n_trials=int(n_trials), timeout=timeout, callbacks=watchers)

    winner = _best(study)
    changes = _changes(winner, lambda trial: suggest(optuna.trial.FixedTrial(trial.params)), base)
    best = (
        clone(base)
        .set_params(**changes)
        .fit(X, values, graph=graph, nodes=known, eval_set=eval_set)
    )
    if best.early_stopping and not best.history_["validation"]:
        # So few labels that none was held out to stop on: the rounds that the trial needed are the best guess.
        changes["n_estimators"] = winner.user_attrs[ROUNDS]
        best.set_params(**changes).fit(X, values, graph=graph, nodes=known)
    best.study_, best.best_params_ = study, changes
    return best


# ---------------------------------------------------------------------- what is searched


def _space(space: Any, model: Any, graph: Graph | None) -> Space:
    if space is None:
        return lambda trial: _usual(trial, model, graph)
    if callable(space):
        return space
    if not isinstance(space, Mapping) or not space:
        raise ValueError(
            f"space must be a function of a trial or a dict of parameter name to such, got {space!r}."
        )
    for name, draw in space.items():
        if not callable(draw):
            raise ValueError(
                f"space[{name!r}] must be a function of a trial, such as lambda trial: trial.suggest_float({name!r}, "
                f"0.01, 1.0), got {draw!r}."
            )
    return lambda trial: {name: draw(trial) for name, draw in space.items()}


def _usual(trial: Any, model: Any, graph: Graph | None) -> dict[str, Any]:
    """Parameters that matter on most tables; what the model does not have, or was given another kind of, stays."""
    parameters = model.get_params(deep=False)
    found: dict[str, Any] = {}
    if "learning_rate" in parameters:
        found["learning_rate"] = trial.suggest_float("learning_rate", 0.02, 0.3, log=True)
    learner = as_learner(parameters["learner"]) if "learner" in parameters else None
    if isinstance(learner, LightGBM):
        found["learner"] = clone(learner).set_params(
            num_leaves=trial.suggest_int("num_leaves", 7, 63, log=True),
            min_child_samples=trial.suggest_int("min_child_samples", 5, 100, log=True),
            reg_lambda=trial.suggest_float("reg_lambda", 1e-2, 30.0, log=True),
            colsample_bytree=trial.suggest_float("colsample_bytree", 0.3, 1.0),
        )
    smoothing = parameters.get("smoothing", "no such parameter")
    searchable = isinstance(smoothing, Laplacian) or smoothing in (None, "auto")
    if graph is not None and graph.n_edges and searchable:
        found["smoothing"] = None
        if trial.suggest_categorical("smoothing", ["laplacian", "none"]) == "laplacian":
            kind = smoothing if isinstance(smoothing, Laplacian) else Laplacian()
            found["smoothing"] = clone(kind).set_params(
                lam=trial.suggest_float("lam", 0.1, 30.0, log=True),
                n_steps=trial.suggest_int("n_steps", 1, 8),
            )
    return found


def _changes(trial: Any, suggest: Space, model: Any) -> dict[str, Any]:
    """Parameters to set on the model: none in the trial that takes it as it is."""
    if AS_GIVEN in trial.user_attrs:
        return {}
    changes = suggest(trial)
    if not isinstance(changes, Mapping):
        raise TypeError(f"space must return a dict of parameters, it returned {type(changes)}.")
    unknown = sorted(set(changes) - set(model.get_params()))
    if unknown:
        raise ValueError(
            f"space sets {unknown[0]!r}, which is no parameter of this {type(model).__name__}; there are "
            f"{sorted(model.get_params())}. Parameters of a part need the part: learner=eb.LightGBM() for "
            "learner__num_leaves."
        )
    if "loss" in changes:
        raise ValueError(
            "space sets 'loss', but values of different losses cannot be compared: tune once for each loss."
        )
    return dict(changes)


# ---------------------------------------------------------------------- where trials are scored


def _pairs(
    known: NDArray[np.int64],
    values: NDArray[Any],
    model: Any,
    graph: Graphs | None,
    n_rows: int,
    cv: Any,
    eval_set: Any,
    seed: int,
) -> list[tuple[Labelled, tuple[Any, Any]]]:
    """What to train on and what to score on: one pair, or one for each fold."""
    if eval_set is not None:
        return [((known, values), eval_set)]
    if cv is None:
        held = _held_out(values, is_classifier(model), seed)
        return [((known[~held], values[~held]), (known[held], values[held]))]
    folds = labelled_folds(
        cv, known, values, graph, n_rows, stratify=is_classifier(model), random_state=seed
    )
    truth: NDArray[Any] = np.empty(n_rows, dtype=values.dtype)
    truth[known] = values
    return [((train, truth[train]), (test, truth[test])) for train, test in folds]


def _held_out(values: NDArray[Any], classes: bool, seed: int) -> NDArray[np.bool_]:
    """Draw a share of the labelled nodes, of every class alike; a class of one or two stays in training."""
    stratum = (
        np.unique(values, return_inverse=True)[1]
        if classes
        else np.zeros(values.size, dtype=np.int64)
    )
    held = np.zeros(values.size, dtype=bool)
    random = np.random.RandomState(seed)
    for number in range(int(stratum.max()) + 1):
        members = random.permutation(np.flatnonzero(stratum == number))
        held[members[: round(HELD_OUT * members.size)]] = True
    if not held.any():
        raise ValueError(
            f"y has {values.size} labels, too few to hold a fifth{' of a class' if classes else ''} out: pass eval_set, "
            "labelled nodes to score on."
        )
    return held


def _kept_loss(fitted: Any) -> float:
    """Validation loss of the round that the model kept; infinite where no tree could be grown."""
    losses = fitted.history_["validation"]
    return float(losses[fitted.n_iter_ - 1]) if losses else float("inf")


def _best(study: Any) -> Any:
    """The best trial of ours; the study may hold others. Of equals the first, which is the model as given."""
    finished = [
        trial
        for trial in study.trials
        if trial.state.name == "COMPLETE" and ROUNDS in trial.user_attrs
    ]
    return min(finished, key=lambda trial: trial.value)


# ---------------------------------------------------------------------- Optuna


class _Pruning(Callback):
    """Tells Optuna how a trial is doing and gives the trial up when Optuna says so."""

    def __init__(self, trial: Any, learning_rate: float) -> None:
        self.trial = trial
        self.learning_rate = learning_rate
        self.reported = 0

    def after_round(self, progress: RoundInfo) -> None:
        """Report now and then; the exception leaves ``fit`` and ends the trial."""
        step = int((progress.round + 1) * self.learning_rate / REPORT_EVERY)
        if progress.validation_loss is None or step <= self.reported:
            return
        self.reported = step
        self.trial.report(progress.validation_loss, step)
        if AS_GIVEN not in self.trial.user_attrs and self.trial.should_prune():
            raise _optuna().TrialPruned()


class _Report:
    """A line for every trial."""

    def __init__(self, n_trials: int) -> None:
        self.n_trials = n_trials
        self.done = 0
        self.start = time.perf_counter()

    def __call__(self, study: Any, trial: Any) -> None:
        self.done += 1
        loss = f"loss {trial.value:.5g}" if trial.state.name == "COMPLETE" else "given up early"
        best = _best(study)
        sys.stderr.write(
            f"trial {self.done}/{self.n_trials}  {loss}  best {best.value:.5g} (trial {best.number})  "
            f"{time.perf_counter() - self.start:.1f} s\n"
        )


@contextmanager
def _quiet(optuna: Any) -> Iterator[None]:
    """Silence Optuna's own line per trial: ours says the same."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(max(before, optuna.logging.WARNING))
    try:
        yield
    finally:
        optuna.logging.set_verbosity(before)


def _optuna() -> Any:
    try:
        import optuna
    except ImportError:
        raise ImportError("tune needs Optuna: pip install 'ebboost[tune]'.") from None
    return optuna
