"""What may watch the boosting loop, and stop it: history, early stopping, a progress bar, or a class of your own."""

import signal
import sys
import threading
import time
from dataclasses import dataclass
from typing import Any, TextIO

from ebboost.boosting.iterate import Iterate


@dataclass(frozen=True)
class RoundInfo:
    """Where the loop stands after a round.

    Attributes
    ----------
    round : int
        Rounds done before this one.
    n_rounds : int
        Rounds asked for.
    training_loss, validation_loss : float
        Mean losses after this round; ``validation_loss`` is None without validation nodes.
    model : Iterate
        The model so far: ``model.scores``, ``model.smoothed`` and ``model.weights``, one number per tree.
    step : float
        How far the loop went along the new tree.
    cosine : float
        The cosine of the angle between the new tree and the residual it was grown on (of two trees, the smaller).
    """

    round: int
    n_rounds: int
    training_loss: float
    validation_loss: float | None
    model: Iterate
    step: float
    cosine: float


class Callback:
    """Base of all callbacks; override what you need.

    Examples
    --------
    >>> import ebboost as eb
    >>> class StopAfter(eb.Callback):
    ...     def __init__(self, rounds):
    ...         self.rounds = rounds
    ...
    ...     def after_round(self, progress):
    ...         return progress.round + 1 >= self.rounds
    """

    #: What a model says of why it stopped, if this callback stopped it.
    reason = "a callback asked to stop"

    def before_training(self, n_rounds: int) -> None:
        """Run before the first round."""

    def after_round(self, progress: RoundInfo) -> bool | None:
        """Run after each round; return True to stop."""
        return None

    def after_training(self, model: Iterate) -> Iterate:
        """Run at the end; return the model to keep."""
        return model

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint should keep of this callback: numbers, text, lists and dicts of them, arrays, iterates.

        Without it, a callback of a fit that is resumed sees the rounds after the checkpoint alone.
        """
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """Take up what :meth:`state` returned; comes after ``before_training``."""


class History(Callback):
    """Keeps the losses of every round."""

    def __init__(self) -> None:
        names = ("training", "validation", "step", "cosine", "seconds")
        self.losses: dict[str, list[float]] = {name: [] for name in names}

    def before_training(self, n_rounds: int) -> None:
        """Start the clock."""
        self._start = time.perf_counter()

    def after_round(self, progress: RoundInfo) -> None:
        """Note the round."""
        self.losses["training"].append(progress.training_loss)
        if progress.validation_loss is not None:
            self.losses["validation"].append(progress.validation_loss)
        self.losses["step"].append(progress.step)
        self.losses["cosine"].append(progress.cosine)
        self.losses["seconds"].append(time.perf_counter() - self._start)

    def state(self) -> dict[str, Any]:
        """Return the losses."""
        return {"losses": self.losses}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on with them; seconds count the time spent in rounds that are kept."""
        self.losses = state["losses"]
        self._start -= self.losses["seconds"][-1] if self.losses["seconds"] else 0.0


class EarlyStopping(Callback):
    """Stop when the validation loss has not improved for ``n_iter_no_change`` rounds, and keep the best round's model.

    Parameters
    ----------
    n_iter_no_change : int, default=50
        Rounds to wait for an improvement.
    min_improvement : float, default=0.0
        By what share the best loss must have fallen over the last ``n_iter_no_change`` rounds to go on. The last percent can
        cost as many rounds as all the rest.
    """

    reason = "the validation loss no longer improved"

    def __init__(self, n_iter_no_change: int = 50, min_improvement: float = 0.0) -> None:
        if n_iter_no_change < 1:
            raise ValueError(
                f"n_iter_no_change must be at least 1 round, got {n_iter_no_change!r}."
            )
        if not 0.0 <= min_improvement < 1.0:
            raise ValueError(
                f"min_improvement must be a share from 0 to 1, such as 0.01, got {min_improvement!r}."
            )
        self.n_iter_no_change = n_iter_no_change
        self.min_improvement = min_improvement

    def __repr__(self) -> str:
        return f"EarlyStopping({self.n_iter_no_change}, min_improvement={self.min_improvement})"

    def before_training(self, n_rounds: int) -> None:
        """Forget an earlier run."""
        self.reason = type(self).reason
        self.best_loss = float("inf")
        self.best_round: int | None = None
        self._best: Iterate | None = None
        self._best_losses: list[float] = []

    def after_round(self, progress: RoundInfo) -> bool:
        """Compare with the best round so far."""
        if progress.validation_loss is None:
            return False
        if progress.validation_loss < self.best_loss:
            self.best_loss, self.best_round, self._best = (
                progress.validation_loss,
                progress.round,
                progress.model,
            )
        self._best_losses.append(self.best_loss)
        if (
            self.best_round is not None
            and progress.round - self.best_round >= self.n_iter_no_change
        ):
            return True
        if not self.min_improvement or len(self._best_losses) <= self.n_iter_no_change:
            return False
        before = self._best_losses[-1 - self.n_iter_no_change]
        if before - self.best_loss >= self.min_improvement * abs(before):
            return False
        self.reason = f"the last {self.n_iter_no_change} rounds lowered the validation loss by less than {100 * self.min_improvement:g} %"
        return True

    def after_training(self, model: Iterate) -> Iterate:
        """Restore the best round."""
        return model if self._best is None else self._best

    def state(self) -> dict[str, Any]:
        """Return the best round so far."""
        return {
            "best_loss": self.best_loss,
            "best_round": self.best_round,
            "best": self._best,
            "best_losses": self._best_losses,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from there."""
        self.best_loss, self.best_round = state["best_loss"], state["best_round"]
        self._best, self._best_losses = state["best"], state["best_losses"]


class Interrupt(Callback):
    """Ctrl-C while this is entered: the first is noted and stops after the round, the second raises at once.

    Whoever has a handler of their own keeps it, and threads other than the main one have none.
    """

    reason = "it was interrupted"
    #: A second Ctrl-C within so many seconds raises too if another fit has begun since: loops over fits can be left.
    soon = 2.0
    _last = -soon

    def __init__(self) -> None:
        self.asked = False

    def __enter__(self) -> "Interrupt":
        main = threading.current_thread() is threading.main_thread()
        self._installed = main and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if self._installed:
            signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, *error: object) -> None:
        if self._installed:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def _note(self, number: int, frame: Any) -> None:
        now = time.monotonic()
        if self.asked or now - Interrupt._last < self.soon:
            raise KeyboardInterrupt
        self.asked, Interrupt._last = True, now

    def after_round(self, progress: RoundInfo) -> bool:
        """Stop if asked to."""
        return self.asked


def unless_interrupted(model: Any) -> Any:
    """Return a fitted model; raise KeyboardInterrupt if its fit was interrupted: for loops over fits, which then end too."""
    if getattr(model, "stop_reason_", None) == Interrupt.reason:
        raise KeyboardInterrupt
    return model


class ProgressBar(Callback):
    """One line on the terminal: round, losses, time left. Away from a terminal, a line now and then.

    Parameters
    ----------
    every : float, default=0.1
        Seconds between two updates on a terminal; elsewhere a line comes every 50 updates.
    stream : file, optional
        Where to write; default: standard error.
    """

    def __init__(self, every: float = 0.1, stream: TextIO | None = None) -> None:
        self.every = every
        self.stream = stream

    def before_training(self, n_rounds: int) -> None:
        """Start the clock."""
        self._out: Any = self.stream or sys.stderr
        self._terminal = self._out.isatty()
        self._start = time.perf_counter()
        self._shown = self._start
        self._last: RoundInfo | None = None

    def after_round(self, progress: RoundInfo) -> None:
        """Show the round if it is time to."""
        self._last = progress
        now = time.perf_counter()
        if now - self._shown >= (self.every if self._terminal else 50 * self.every):
            self._shown = now
            self._write(progress, now)

    def after_training(self, model: Iterate) -> Iterate:
        """Show the last round."""
        if self._last is not None:
            self._write(self._last, time.perf_counter(), done=True)
        return model

    def _write(self, progress: RoundInfo, now: float, done: bool = False) -> None:
        ready, wanted = progress.round + 1, progress.n_rounds
        spent = now - self._start
        filled = 20 * ready // wanted
        parts = [
            f"round {ready:>{len(str(wanted))}}/{wanted} |{'█' * filled}{'·' * (20 - filled)}|"
        ]
        parts.append(f"loss {progress.training_loss:.5g}")
        if progress.validation_loss is not None:
            parts.append(f"validation {progress.validation_loss:.5g}")
        parts.append(f"{spent:.1f} s" if done else f"{spent / ready * (wanted - ready):.0f} s left")
        line = "  ".join(parts)
        if self._terminal:
            self._out.write(f"\r\033[K{line}" + ("\n" if done else ""))
        else:
            self._out.write(line + "\n")
        self._out.flush()
