"""Callbacks of the boosting loop: early stopping, Ctrl-C and time limits, progress."""

import signal
import sys
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

from ebboost._common import Array, check_number

if TYPE_CHECKING:
    from ebboost.boosting import Point


#: ``stop_reason_`` of a fit that Ctrl-C ended.
INTERRUPTED = "it was interrupted"


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
        Mean losses after this round; ``validation_loss`` is None without validation labels.
    model : Point
        The model so far: ``model.scores`` f and ``model.smoothed`` P f of the rows that are trained
        on, and ``model.weights``, one for each tree.
    step : float
        The step along the new tree, which is grown in units of the spread of the labels.
    grown : tuple of ndarray
        The gradient and the curvature that the tree was grown on, and its values.
    member : str
        The member of the portfolio in training.
    fold : int
        The fold whose labels the model is not trained on, from 0.
    """

    round: int
    n_rounds: int
    training_loss: float
    validation_loss: float | None
    model: "Point"
    step: float
    grown: tuple[Array, Array, Array]
    member: str = ""
    fold: int = 0


class Callback:
    """Base class of callbacks; override the methods you need.

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
        """Run before the first round of each model.

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

    def after_training(self, model: "Point") -> "Point":
        """Run at the end of each model.

        Parameters
        ----------
        model : Point
            The model of the last round, or what the callback before this one returned.

        Returns
        -------
        Point
            The final model.
        """
        return model


class EarlyStopping(Callback):
    """Stop when the validation loss no longer improves, and return the model of the best round.

    Parameters
    ----------
    n_iter_no_change : int, default=50
        Rounds to wait for an improvement.

    Examples
    --------
    >>> import ebboost as eb
    >>> stopping = eb.EarlyStopping(5)
    >>> X = [[float(row)] for row in range(100)]
    >>> _ = eb.EBBSRegressor(50, n_folds=1).fit(X, range(100), callbacks=[stopping])
    >>> bool(stopping.best_round < 50)
    True
    """

    reason = "the validation loss no longer improved"

    def __init__(self, n_iter_no_change: int = 50) -> None:
        check_number("n_iter_no_change", n_iter_no_change, integer=True, low=1)
        self.n_iter_no_change = n_iter_no_change

    def before_training(self, n_rounds: int) -> None:  # noqa: D102
        self.best_loss = float("inf")
        self.best_round: int | None = None
        self._best: Point | None = None

    def after_round(self, info: RoundInfo) -> bool:  # noqa: D102
        if info.validation_loss is None:
            return False
        if info.validation_loss < self.best_loss:
            self.best_loss = info.validation_loss
            self.best_round = info.round
            self._best = info.model
        if self.best_round is not None:
            return info.round - self.best_round >= self.n_iter_no_change
        if info.round + 1 < self.n_iter_no_change:
            return False
        raise ValueError(
            f"The validation loss was {info.validation_loss} in each of the first "
            f"{info.round + 1} rounds: it must be a finite number for some model."
        )

    def after_training(self, model: "Point") -> "Point":  # noqa: D102
        return model if self._best is None else self._best


class Limit(Callback):
    """What ends a fit early: the first Ctrl-C, or ``max_seconds``. A second Ctrl-C raises at once.

    Ctrl-C is noticed in the main thread only, and if no other handler of SIGINT is installed.
    """

    is_concurrent = True
    #: A second Ctrl-C within so many seconds raises even if another fit has begun: it ends loops
    #: over fits.
    grace_seconds = 2.0
    _last = -grace_seconds

    def __init__(self, max_seconds: float | None = None) -> None:
        self.start = time.monotonic()
        self.max_seconds = max_seconds
        self.interrupted = False

    @property
    def reason(self) -> str:  # type: ignore[override]
        """Why the fit is to end; empty if it is not."""
        if self.interrupted:
            return INTERRUPTED
        seconds = self.max_seconds
        has_time = seconds is None or time.monotonic() <= self.start + seconds
        return "" if has_time else f"max_seconds={seconds:g}"

    def __enter__(self) -> "Limit":
        is_main = threading.current_thread() is threading.main_thread()
        self._installed = is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if self._installed:
            signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(self, *error: object) -> None:
        if self._installed:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def _handle(self, number: int, frame: object) -> None:
        now = time.monotonic()
        if self.interrupted or now - self._last < self.grace_seconds:
            raise KeyboardInterrupt
        self.interrupted = True
        type(self)._last = now

    def after_round(self, info: RoundInfo) -> bool:  # noqa: D102
        return bool(self.reason)


class ProgressBar(Callback):
    """One line on the terminal for the model in training; elsewhere one line for each member.

    Parameters
    ----------
    every : float, default=0.1
        Seconds between two updates on a terminal.
    stream : file, optional
        Where to write; default: standard error.
    """

    is_concurrent = True

    def __init__(self, every: float = 0.1, stream: TextIO | None = None) -> None:
        self.every = every
        self.stream = stream or sys.stderr
        self._last = 0.0

    def after_round(self, info: RoundInfo) -> None:  # noqa: D102
        now = time.monotonic()
        if self.stream.isatty() and now - self._last >= self.every:
            self._last = now
            loss = info.validation_loss if info.validation_loss is not None else info.training_loss
            text = f"{info.member}, fold {info.fold + 1}  round {info.round + 1}  loss {loss:.5g}"
            self.write(f"\r\033[K{text}")

    def member_done(self, text: str) -> None:
        """Write what one member of the portfolio has reached.

        Parameters
        ----------
        text : str
        """
        self.write(f"\r\033[K{text}\n" if self.stream.isatty() else f"{text}\n")

    def write(self, text: str) -> None:
        """Write text to the stream.

        Parameters
        ----------
        text : str
        """
        self.stream.write(text)
        self.stream.flush()


def as_callbacks(callbacks: Callback | Iterable[Callback]) -> list[Callback]:
    """Return callbacks as a list; a single one becomes a list of one."""
    if not isinstance(callbacks, (Callback, Iterable)):
        raise TypeError(f"callbacks must be a list of eb.Callback, got {callbacks!r}.")
    listed = [callbacks] if isinstance(callbacks, Callback) else list(callbacks)
    for position, callback in enumerate(listed):
        if not isinstance(callback, Callback):
            raise TypeError(f"callbacks[{position}] must be an eb.Callback, got {callback!r}.")
    return listed
