"""Callbacks of the boosting loop: history, early stopping, Ctrl-C, progress and loggers."""

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, TextIO, TypeVar

from ebboost.boosting.iterate import Iterate
from ebboost.boosting.resumable import Resumable
from ebboost.data.parameters import check_number

Model = TypeVar("Model")


@dataclass(frozen=True)
class RoundInfo:
    """The state of the loop after a round.

    Attributes
    ----------
    round : int
        Number of the round, from 0.
    n_rounds : int
        Rounds to run at most.
    training_loss, validation_loss : float
        Mean losses after this round; ``validation_loss`` is None without validation nodes.
    model : Iterate
        The model so far: ``model.scores``, ``model.smoothed`` and ``model.weights``, one per tree.
        Where scores of nodes without known labels do not matter, they are computed after training.
    step : float
        The step along the new tree, which is grown in units of the spread of the labels.
    cosine : float
        The cosine of the angle between the new tree and the negative gradient that it was grown on
        (of two trees, the smaller).
    candidate : str
        Name of the candidate in training, ``"none"`` for plain boosting.
    fold : int
        The fold whose labels the model is not trained on, from 0.
    """

    round: int
    n_rounds: int
    training_loss: float
    validation_loss: float | None
    model: Iterate
    step: float
    cosine: float
    candidate: str = ""
    fold: int = 0


class Callback(Resumable):
    """Base class of callbacks; override the methods you need.

    Checkpoints store the attributes that ``state_names`` lists. Without any, a callback of a
    resumed fit sees the rounds after the checkpoint only.

    Examples
    --------
    >>> import ebboost as eb
    >>> class StopAfter(eb.Callback):
    ...     def __init__(self, rounds):
    ...         self.rounds = rounds
    ...
    ...     def after_round(self, info):
    ...         return info.round + 1 >= self.rounds
    """

    #: ``stop_reason_`` of a model that this callback stopped.
    reason = "a callback asked to stop"
    #: Whether threads may call its methods at once, each with rounds of its own model. Otherwise
    #: models are trained one after another.
    is_concurrent = False

    def before_training(self, n_rounds: int) -> None:
        """Run before the first round.

        Parameters
        ----------
        n_rounds : int
            Rounds to run at most.
        """

    def after_round(self, info: RoundInfo) -> bool | None:
        """Run after each round.

        Parameters
        ----------
        info : RoundInfo

        Returns
        -------
        bool or None
            True to stop.
        """
        return None

    def after_training(self, model: Iterate) -> Iterate:
        """Run at the end.

        Parameters
        ----------
        model : Iterate
            The model of the last round, or what the callback before this one returned.

        Returns
        -------
        Iterate
            The final model.
        """
        return model


class History(Callback):
    """Records losses, steps, cosines and seconds of every round."""

    state_names = ("losses",)

    def __init__(self) -> None:
        names = ("training", "validation", "step", "cosine", "seconds")
        self.losses: dict[str, list[float]] = {name: [] for name in names}

    def before_training(self, n_rounds: int) -> None:  # noqa: D102
        self._start = time.perf_counter()

    def after_round(self, info: RoundInfo) -> None:  # noqa: D102
        self.losses["training"].append(info.training_loss)
        if info.validation_loss is not None:
            self.losses["validation"].append(info.validation_loss)
        self.losses["step"].append(info.step)
        self.losses["cosine"].append(info.cosine)
        self.losses["seconds"].append(time.perf_counter() - self._start)

    def restore(self, state: dict[str, Any]) -> None:
        """Continue; seconds count the time of the restored rounds too."""
        super().restore(state)
        self._start -= self.losses["seconds"][-1] if self.losses["seconds"] else 0.0


class EarlyStopping(Callback):
    """Stop when the validation loss no longer improves, and return the model of the best round.

    Parameters
    ----------
    n_iter_no_change : int, default=50
        Rounds to wait for an improvement.
    min_improvement : float, default=0.0
        Also stop when the best loss fell by less than this share over the last ``n_iter_no_change``
        rounds. The last percent can cost as many rounds as all the rest.

    Examples
    --------
    >>> import ebboost as eb
    >>> eb.EarlyStopping(20, min_improvement=0.01)
    EarlyStopping(20, min_improvement=0.01)
    """

    reason = "the validation loss no longer improved"
    state_names = ("best_loss", "best_round", "_best", "_best_losses")

    def __init__(self, n_iter_no_change: int = 50, min_improvement: float = 0.0) -> None:
        check_number("n_iter_no_change", n_iter_no_change, integer=True, low=1)
        check_number("min_improvement", min_improvement, low=0.0, high=1.0, closed="left")
        self.n_iter_no_change = n_iter_no_change
        self.min_improvement = min_improvement

    def __repr__(self) -> str:
        return f"EarlyStopping({self.n_iter_no_change}, min_improvement={self.min_improvement})"

    def before_training(self, n_rounds: int) -> None:  # noqa: D102
        self.reason = type(self).reason
        self.best_loss = float("inf")
        self.best_round: int | None = None
        self._best: Iterate | None = None
        self._best_losses: list[float] = []

    def after_round(self, info: RoundInfo) -> bool:  # noqa: D102
        if info.validation_loss is None:
            return False
        if info.validation_loss < self.best_loss:
            self.best_loss = info.validation_loss
            self.best_round = info.round
            self._best = info.model
        self._best_losses.append(self.best_loss)
        patience = self.n_iter_no_change
        if self.best_round is not None and info.round - self.best_round >= patience:
            return True
        if self.best_round is None and info.round + 1 >= patience:
            raise ValueError(
                f"The validation loss, or eval_metric, was {info.validation_loss} in each of the "
                f"first {info.round + 1} rounds: it must be a finite number for some model."
            )
        if not self.min_improvement or len(self._best_losses) <= patience:
            return False
        before = self._best_losses[-1 - patience]
        if before - self.best_loss >= self.min_improvement * abs(before):
            return False
        self.reason = (
            f"the last {patience} rounds lowered the validation loss by less than "
            f"{100 * self.min_improvement:g} %"
        )
        return True

    def after_training(self, model: Iterate) -> Iterate:  # noqa: D102
        return model if self._best is None else self._best


class StopBehind(Callback):
    """Stop a model whose validation loss cannot come down to that of another candidate.

    It has no chance where ``horizon`` times ``patience`` rounds, each ``patience`` of them with the
    gain of the last, would not be enough. Gains decrease, so that this is cautious.
    """

    reason = "its loss could not come down to that of another candidate"
    state_names = ("_best_losses",)
    horizon = 10

    def __init__(self, loss: float, patience: int) -> None:
        self.loss = loss
        self.patience = patience

    def before_training(self, n_rounds: int) -> None:  # noqa: D102
        self._best_losses: list[float] = []

    def after_round(self, info: RoundInfo) -> bool:  # noqa: D102
        if info.validation_loss is None:
            return False
        best = min([info.validation_loss, *self._best_losses[-1:]])
        self._best_losses.append(best)
        if len(self._best_losses) <= 2 * self.patience:
            return False
        gain = self._best_losses[-1 - self.patience] - best
        return best - self.horizon * gain > self.loss


class Stopped(Exception):
    """A fit was interrupted, and what has been trained so far is enough for a model."""


class Interrupt(Callback):
    """Context of a fit in which Ctrl-C ends the training; a second Ctrl-C raises at once.

    From the first round on, the first Ctrl-C sets ``is_set``, and the fit makes a model of what has
    been trained. Before, it raises KeyboardInterrupt. Only in the main thread, and only if no other
    handler of SIGINT is installed. Contexts may be nested.
    """

    reason = "it was interrupted"
    #: A second Ctrl-C within so many seconds raises even if another fit has begun: it ends loops
    #: over fits.
    grace_seconds = 2.0
    _last = -grace_seconds
    _entered: ClassVar[list["Interrupt"]] = []

    def __init__(self) -> None:
        self.is_set = False
        #: Whether there is something to make a model of.
        self.has_model = False
        #: Whether rounds are those of a model: some fits train others before.
        self.counts_rounds = True

    def __enter__(self) -> "Interrupt":
        main = threading.current_thread() is threading.main_thread()
        handler = signal.getsignal(signal.SIGINT) if main else None
        self._installed = handler is signal.default_int_handler
        outer = self._entered[0] if self._entered else None
        self._is_active = self._installed or (outer is not None and handler == outer._handle)
        if self._is_active:
            self._entered.append(self)
        if self._installed:
            signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(self, *error: object) -> None:
        if self._installed:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        if self._is_active:
            self._entered.remove(self)
            if self._entered and error[0] is None:
                self._entered[-1].has_model |= self.has_model

    def _handle(self, number: int, frame: object) -> None:
        now = time.monotonic()
        is_second = now - self._last < self.grace_seconds
        type(self)._last = now
        for one in self._entered:
            is_second |= one.is_set
            one.is_set = True  # threads end after their round
        if is_second or not any(one.has_model for one in self._entered):
            raise KeyboardInterrupt

    def check(self) -> None:
        """Raise :class:`Stopped`, or KeyboardInterrupt without a model, if Ctrl-C was pressed."""
        if self.is_set:
            raise Stopped if self.has_model else KeyboardInterrupt

    def after_round(self, info: RoundInfo) -> bool:  # noqa: D102
        self.has_model |= self.counts_rounds
        return self.is_set


def unless_interrupted(model: Model) -> Model:
    """Return a fitted model, or raise KeyboardInterrupt if its fit was interrupted."""
    if getattr(model, "stop_reason_", None) == Interrupt.reason:
        raise KeyboardInterrupt
    return model


class ProgressBar(Callback):
    """One line on the terminal for each model. In other streams, a line now and then.

    The line has the model's number, candidate and fold, the round and the losses. How many models
    and rounds are to come is not known: it depends on the losses.

    Parameters
    ----------
    every : float, default=0.1
        Seconds between two updates on a terminal; in other streams a line comes every 50 updates.
    stream : file, optional
        Where to write; default: standard error.
    """

    is_concurrent = True

    def __init__(self, every: float = 0.1, stream: TextIO | None = None) -> None:
        self.every = every
        self.stream = stream
        self.n_models = 0
        self._model = threading.local()  # models may be trained at once

    def before_training(self, n_rounds: int) -> None:  # noqa: D102
        self.n_models += 1
        self._model.number = self.n_models
        self._model.start = time.perf_counter()
        self._model.last = None
        self._last_update = self._model.start
        self._out = self.stream or sys.stderr
        self._is_terminal = self._out.isatty()

    def after_round(self, info: RoundInfo) -> None:  # noqa: D102
        self._model.last = info
        now = time.perf_counter()
        if now - self._last_update >= (self.every if self._is_terminal else 50 * self.every):
            self._last_update = now
            self._write(info, now)

    def after_training(self, model: Iterate) -> Iterate:  # noqa: D102
        if self._model.last is not None:
            self._write(self._model.last, time.perf_counter(), done=True)
        return model

    def _write(self, info: RoundInfo, now: float, done: bool = False) -> None:
        parts = [model_text(self._model.number, info), f"round {info.round + 1}"]
        parts.append(f"loss {info.training_loss:.5g}")
        if info.validation_loss is not None:
            parts.append(f"validation {info.validation_loss:.5g}")
        parts.append(f"{now - self._model.start:.1f} s")
        line = "  ".join(parts)
        if self._is_terminal:
            self._out.write(f"\r\033[K{line}" + ("\n" if done else ""))
        else:
            self._out.write(line + "\n")
        self._out.flush()


class LogMetrics(Callback):
    """Hands the losses of every round to a logger of experiments, such as MLflow or W&B.

    Metrics are named ``model_1/training`` and ``model_1/validation``, with the number of the model
    within the fit; steps count the rounds of all models.

    Parameters
    ----------
    log : callable
        Called as ``log(metrics, step=step)`` with a dict of numbers: ``mlflow.log_metrics``, the
        ``log`` of a W&B run, the ``log_metrics`` of a logger of Lightning, or a function that calls
        ``add_scalar`` of TensorBoard for each.
    every : int, default=1
        Log one round out of so many.

    Examples
    --------
    >>> import ebboost as eb
    >>> logged = {}
    >>> logger = eb.LogMetrics(lambda metrics, step: logged.update({step: metrics}), every=10)
    >>> model = eb.EBBSRegressor(25, early_stopping=False)
    >>> X = [[float(row)] for row in range(50)]
    >>> model = model.fit(X, range(50), callbacks=[logger])
    >>> list(logged), list(logged[10])
    ([0, 10, 20], ['model_1/training'])
    """

    def __init__(self, log: Callable[..., object], every: int = 1) -> None:
        check_number("every", every, integer=True, low=1)
        if not callable(log):
            raise TypeError(f"log must be called as log(metrics, step=...), got {log!r}.")
        self.log = log
        self.every = every
        self._n_models = 0
        self._step = 0

    def before_training(self, n_rounds: int) -> None:  # noqa: D102
        self._n_models += 1

    def after_round(self, info: RoundInfo) -> None:  # noqa: D102
        if info.round % self.every == 0:
            losses = {"training": info.training_loss, "validation": info.validation_loss}
            named = {f"model_{self._n_models}/{name}": loss for name, loss in losses.items()}
            known = {name: loss for name, loss in named.items() if loss is not None}
            self.log(known, step=self._step)
        self._step += 1


def model_text(number: int, info: RoundInfo) -> str:
    """Return which model of a fit is in training."""
    candidate = "no graph" if info.candidate == "none" else info.candidate
    return f"model {number} ({candidate}, fold {info.fold + 1})"


def as_callbacks(callbacks: Callback | Iterable[Callback]) -> list[Callback]:
    """Return callbacks as a list; a single one becomes a list of one."""
    if not isinstance(callbacks, (Callback, Iterable)):
        raise TypeError(f"callbacks must be a list of eb.Callback, got {callbacks!r}.")
    listed = [callbacks] if isinstance(callbacks, Callback) else list(callbacks)
    for position, callback in enumerate(listed):
        if not isinstance(callback, Callback):
            raise TypeError(f"callbacks[{position}] must be an eb.Callback, got {callback!r}.")
    return listed
