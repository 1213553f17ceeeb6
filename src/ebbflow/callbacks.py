"""What may watch the boosting loop, and stop it: history, early stopping, a progress bar, or a class of your own."""

import sys
import time
from dataclasses import dataclass
from typing import Any, TextIO

from ebbflow.objective import Iterate


@dataclass(frozen=True)
class Progress:
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
    >>> import ebbflow as eb
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

    def after_round(self, progress: Progress) -> bool | None:
        """Run after each round; return True to stop."""
        return None

    def after_training(self, model: Iterate) -> Iterate:
        """Run at the end; return the model to keep."""
        return model


class History(Callback):
    """Keeps the losses of every round."""

    def __init__(self) -> None:
        names = ("training", "validation", "step", "cosine", "seconds")
        self.losses: dict[str, list[float]] = {name: [] for name in names}

    def before_training(self, n_rounds: int) -> None:
        """Start the clock."""
        self._start = time.perf_counter()

    def after_round(self, progress: Progress) -> None:
        """Note the round."""
        self.losses["training"].append(progress.training_loss)
        if progress.validation_loss is not None:
            self.losses["validation"].append(progress.validation_loss)
        self.losses["step"].append(progress.step)
        self.losses["cosine"].append(progress.cosine)
        self.losses["seconds"].append(time.perf_counter() - self._start)


class EarlyStopping(Callback):
    """Stop when the validation loss has not improved for ``patience`` rounds, and keep the best round's model.

    Parameters
    ----------
    patience : int, default=50
        Rounds to wait for an improvement.
    least_gain : float, default=0.0
        By what share the best loss must have fallen over the last ``patience`` rounds to go on. The last percent can
        cost as many rounds as all the rest.
    """

    reason = "the validation loss no longer improved"

    def __init__(self, patience: int = 50, least_gain: float = 0.0) -> None:
        if patience < 1:
            raise ValueError(f"patience must be at least 1 round, got {patience!r}.")
        if not 0.0 <= least_gain < 1.0:
            raise ValueError(f"least_gain must be a share from 0 to 1, such as 0.01, got {least_gain!r}.")
        self.patience = patience
        self.least_gain = least_gain

    def before_training(self, n_rounds: int) -> None:
        """Forget an earlier run."""
        self.reason = type(self).reason
        self.best_loss = float("inf")
        self.best_round: int | None = None
        self._best: Iterate | None = None
        self._best_losses: list[float] = []

    def after_round(self, progress: Progress) -> bool:
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
        if self.best_round is not None and progress.round - self.best_round >= self.patience:
            return True
        if not self.least_gain or len(self._best_losses) <= self.patience:
            return False
        before = self._best_losses[-1 - self.patience]
        if before - self.best_loss >= self.least_gain * abs(before):
            return False
        self.reason = (
            f"the last {self.patience} rounds lowered the validation loss by less than {100 * self.least_gain:g} %"
        )
        return True

    def after_training(self, model: Iterate) -> Iterate:
        """Restore the best round."""
        return model if self._best is None else self._best


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
        self._last: Progress | None = None

    def after_round(self, progress: Progress) -> None:
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

    def _write(self, progress: Progress, now: float, done: bool = False) -> None:
        ready, wanted = progress.round + 1, progress.n_rounds
        spent = now - self._start
        filled = 20 * ready // wanted
        parts = [f"round {ready:>{len(str(wanted))}}/{wanted} |{'█' * filled}{'·' * (20 - filled)}|"]
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
