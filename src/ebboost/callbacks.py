"""Callbacks of the boosting loop: early stopping, Ctrl-C and time limits, progress."""

from __future__ import annotations

import math
import signal
import sys
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ebboost._common import Array, check_number
from ebboost.formatting import duration

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
    model: Point
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

    def after_training(self, model: Point) -> Point:
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

    def after_training(self, model: Point) -> Point:  # noqa: D102
        return model if self._best is None else self._best


class Watch(Callback):
    """What a fit shows while it runs, and what ends it early.

    The first Ctrl-C, or ``max_seconds``, ends it. A second Ctrl-C raises at once. Ctrl-C is noticed
    in the main thread only, and if no other handler of SIGINT is installed. On terminals and in
    notebooks there is a bar, elsewhere a line: after :attr:`silent_seconds`, or with ``verbose``
    from the start. −1: nothing is shown.
    """

    is_concurrent = True
    #: A second Ctrl-C within so many seconds raises even if another fit has begun: it ends loops
    #: over fits.
    grace_seconds = 2.0
    silent_seconds = 10.0
    _last = -grace_seconds
    _has_explained = False  # in this process

    def __init__(self, max_seconds: float | None = None, verbose: int = 0) -> None:
        self.start = time.monotonic()
        self.max_seconds = max_seconds
        self.interrupted = False
        self.verbose = verbose
        self.stream = sys.stderr
        kind = type(self.stream).__module__
        self.is_live = bool(self.stream) and (self.stream.isatty() or kind.startswith("ipykernel"))
        self.n_models = self.n_done = 0  # of the fit
        self.best, self.least = "", math.inf  # error of the best member so far
        self._width = 0  # of the bar
        self._next = self.start + (0.0 if verbose > 0 and self.is_live else self.silent_seconds)
        if verbose < 0 or not self.stream or (verbose > 0 and not self.is_live):
            self._next = math.inf

    @property
    def reason(self) -> str:  # type: ignore[override]
        """Why the fit is to end; empty if it is not."""
        if self.interrupted:
            return INTERRUPTED
        seconds = self.max_seconds
        has_time = seconds is None or time.monotonic() <= self.start + seconds
        return "" if has_time else f"max_seconds={seconds:g}"

    def __enter__(self) -> Watch:
        is_main = threading.current_thread() is threading.main_thread()
        self._installed = is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if self._installed:
            signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(self, *error: object) -> None:
        if self._installed:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        if self._width:
            self.write("", "")

    def _handle(self, number: int, frame: object) -> None:
        now = time.monotonic()
        if self.interrupted or now - self._last < self.grace_seconds:
            raise KeyboardInterrupt
        self.interrupted = True
        type(self)._last = now

    def after_round(self, info: RoundInfo) -> bool:  # noqa: D102
        if (now := time.monotonic()) >= self._next:
            self.show(now)
        return bool(self.reason)

    def show(self, now: float) -> None:
        """Draw the bar, or say once that the fit takes long: best when a model is done."""
        if not (self.n_done or self.is_live or now > self.start + 3 * self.silent_seconds):
            return
        parts = [f"{self.n_done} of {self.n_models} models"]
        parts += [f"best {self.best}"] if self.best else []
        if self.n_done:
            left = (now - self.start) * (self.n_models / self.n_done - 1.0)
            if self.max_seconds is not None:
                left = min(left, self.start + self.max_seconds - now)
            parts.append(f"about {duration(max(left, 0.0))} left")
        text = ", ".join(parts)
        if self.is_live:
            filled = round(20 * self.n_done / max(self.n_models, 1))
            self.write(f"[{'#' * filled}{'-' * (20 - filled)}] {text}", "")
            self._next = now + 0.2
        else:
            options = "max_seconds= ends a fit earlier, verbose=1 shows more, verbose=-1 nothing"
            self.write(f"ebboost: {text}" + ("" if Watch._has_explained else f" ({options})"))
            Watch._has_explained = True
            self._next = math.inf

    def write(self, text: str, end: str = "\n") -> None:
        """Write a line in place of the bar; with no ``end`` it is the bar, until the next one."""
        start = f"\r{' ' * self._width}\r" if self._width else ""
        self._width = 0 if end else len(text)
        self.stream.write(f"{start}{text}{end}")
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
