"""Checkpoints: the state of a fit in a folder, from which it is resumed bit for bit.

The parts of a fit return their state and restore it; this module writes and reads it, with a
fingerprint of data, graph and parameters. A file that has the name of a checkpoint is complete.
"""

import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ebboost.backends.dask.sharding import RowOrders
from ebboost.boosting.callbacks import Callback, Interrupt, RoundInfo
from ebboost.boosting.objective import Objective
from ebboost.data.parameters import check_number
from ebboost.data.warn import warn_caller
from ebboost.model.codec import StateCodec
from ebboost.model.container import FileFormat
from ebboost.model.environment import versions

try:
    import fcntl
except ImportError:  # Windows: two fits in one folder are not noticed
    fcntl = None  # type: ignore[assignment]

MAX_FILES = 2  # a damaged newest checkpoint leaves the one before
_NAME = re.compile(r"round-\d{8}\.ckpt")
_TEMPORARY = ".ckpt.part"
FORMAT = FileFormat("ebboost checkpoint", 1, compress=False, suffix=_TEMPORARY)


class Checkpoint:
    """Where and how often a fit writes its state, to be resumed from.

    Parameters
    ----------
    folder : path
        Created if it does not exist. Each fit needs a folder of its own; the newest two checkpoints
        remain when it has ended.
    every : int, optional
        Write after this many rounds.
    seconds : float, optional, default=30.0
        Write after this many seconds, at the end of a round, or after ``every`` if that is first.
    pickle : bool, default=False
        Allow pickle for objects without a plain format, which are regressors of scikit-learn.
        Reading a pickle can run code: resume with this only from a folder that nobody else can
        write to.

    Raises
    ------
    ValueError
        If ``every`` or ``seconds`` is not a number in its range.

    Examples
    --------
    >>> import ebboost as eb, numpy as np, tempfile
    >>> X = np.arange(200.0)[:, None]
    >>> folder = tempfile.TemporaryDirectory()
    >>> checkpoint = eb.Checkpoint(folder.name, every=10)
    >>> model = eb.EBBSRegressor(30, random_state=0)
    >>> first = model.fit(X, X[:, 0], checkpoint=checkpoint).predict()
    >>> second = model.fit(X, X[:, 0], checkpoint=checkpoint, resume=True).predict()
    >>> bool((first == second).all())
    True
    >>> folder.cleanup()
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        every: int | None = None,
        seconds: float | None = 30.0,
        *,
        pickle: bool = False,
    ) -> None:
        if every is not None:
            check_number("every of Checkpoint", every, integer=True, low=1)
        if seconds is not None:
            check_number("seconds of Checkpoint", seconds, low=0.0)
        self.folder = os.fspath(folder)
        self.every = every
        self.seconds = seconds
        self.pickle = pickle

    def __repr__(self) -> str:
        return f"Checkpoint({self.folder!r}, every={self.every}, seconds={self.seconds})"


def as_checkpoint(checkpoint: object, resume: bool) -> Checkpoint | None:
    """Return the ``checkpoint`` argument of ``fit``, a path or a Checkpoint, as a Checkpoint."""
    if checkpoint is None and resume:
        raise ValueError("resume=True needs a folder: pass checkpoint=folder too.")
    if checkpoint is None or isinstance(checkpoint, Checkpoint):
        return checkpoint
    if isinstance(checkpoint, (str, os.PathLike)):
        return Checkpoint(checkpoint)
    text = f"checkpoint must be a folder or eb.Checkpoint(folder, ...), got {checkpoint!r}."
    raise TypeError(text)


@contextmanager
def checkpoint_session(
    checkpoint: str | os.PathLike[str] | Checkpoint | None, resume: bool
) -> Iterator["CheckpointSession | None"]:
    """Lock the folder for one fit and read its newest checkpoint; None without a ``checkpoint``."""
    settings = as_checkpoint(checkpoint, resume)
    if settings is None:
        yield None
        return
    lock = _open_folder(settings.folder)
    try:
        yield CheckpointSession(settings, *_newest(settings.folder, resume))
    finally:
        if lock is not None:
            os.close(lock)


class CheckpointSession:
    """The checkpoints of one fit: the one to resume from, and those that are written.

    ``manifest`` and ``entries`` are empty for a fit that starts from the beginning; ``paths`` are
    the files of this fit, oldest first. On a cluster the first worker writes the rows of all.
    """

    def __init__(
        self,
        settings: Checkpoint,
        manifest: dict[str, Any],
        entries: dict[str, bytes],
        paths: Sequence[str] = (),
        orders: RowOrders | None = None,
    ) -> None:
        self.settings = settings
        self._orders = orders
        self.folder = settings.folder
        self.manifest = manifest
        self.entries = entries
        self.paths = list(paths)
        self._fingerprint: dict[str, Any] = {}
        self._last_round = self.n_rounds
        self._last_time = time.monotonic()

    @property
    def candidate(self) -> str | None:
        """The candidate that was in training; None for a fit that starts from the beginning."""
        return self.manifest.get("candidate")

    @property
    def fold(self) -> int:
        """The fold of the model that was in training."""
        return int(self.manifest.get("fold", 0))

    @property
    def n_rounds(self) -> int:
        """Rounds of all models of the checkpoint to resume from."""
        return int(self.manifest.get("round", 0))

    def seed(self, drawn: int) -> int:
        """Return the seed of the fit that is resumed, or else the one just drawn."""
        if not self.manifest:
            return drawn
        return int(self.manifest["fingerprint"]["random_state"])

    def check_fingerprint(self, fingerprint: dict[str, Any]) -> None:
        """Raise if data, graph or parameters differ from those of the checkpoint; store them."""
        self._fingerprint = fingerprint
        if not self.manifest:
            return
        differences = _differences(self.manifest["fingerprint"], fingerprint)
        if differences:
            raise ValueError(
                f"checkpoint: {self.folder} is of another fit: {'; '.join(differences)}. Resume "
                "with the data and parameters of that fit, or pass another folder."
            )
        now = versions()
        old = self.manifest["versions"]
        changed = [name for name in old if now.get(name) != old[name]]
        if changed:
            texts = ", ".join(f"{name} {old[name]} (now {now.get(name)})" for name in changed)
            warn_caller(
                f"The checkpoint was written with {texts}: the model may differ from an "
                "uninterrupted one in rounding."
            )

    def load(self, part: str, objective: Objective | None = None) -> Any:
        """Return a part of the state to resume from, its iterates as points of this objective."""
        codec = StateCodec(self.entries, self.settings.pickle, objective, self._orders)
        return codec.decode(self.manifest["state"][part]) if self.manifest else []

    def is_due(self, n_rounds: int) -> bool:
        """Return whether the fit has run for long enough since the last checkpoint."""
        every = self.settings.every
        seconds = self.settings.seconds
        is_due = every is not None and n_rounds - self._last_round >= every
        is_due |= seconds is not None and time.monotonic() - self._last_time >= seconds
        is_due |= not self._last_round
        return is_due if self._orders is None else self._orders.agree(is_due)

    def check_state(self, state: dict[str, Any]) -> None:
        """Raise for a state that cannot be stored, before the training begins."""
        StateCodec({}, self.settings.pickle).encode(state, "the learner")

    def write(self, n_rounds: int, candidate: str, fold: int, state: dict[str, Any]) -> None:
        """Write a checkpoint and delete all but the newest two; a failure is a warning."""
        entries: dict[str, bytes] = {}
        codec = StateCodec(entries, self.settings.pickle, orders=self._orders)
        manifest = {
            "round": n_rounds,
            "candidate": candidate,
            "fold": fold,
            "fingerprint": self._fingerprint,
            "versions": versions(),
            "state": codec.encode_items(state),
        }
        self._last_round = n_rounds
        if self._orders is None or self._orders.is_first:
            self._save(n_rounds, manifest, entries)
        self._last_time = time.monotonic()  # without the time that writing took

    def _save(self, n_rounds: int, manifest: dict[str, Any], entries: dict[str, bytes]) -> None:
        """Write the file and delete older ones."""
        path = os.path.join(self.folder, f"round-{n_rounds:08d}.ckpt")
        try:
            FORMAT.write(path, manifest, entries)
            others = [other for other in self.paths if other != path]
            self.paths = [*others, path][-MAX_FILES:]
            for other in _checkpoint_paths(self.folder):
                if other not in self.paths:
                    os.unlink(other)
        except OSError as error:
            previous = "the previous one is intact" if self.paths else "there is no previous one"
            warn_caller(
                f"A checkpoint could not be written to {self.folder} ({error.strerror or error}): "
                f"the fit continues, {previous}."
            )


@dataclass
class CheckpointCallback(Callback):
    """Writes the state that ``collect`` returns when a checkpoint is due, or on an interrupt.

    ``n_rounds`` are the rounds of the models before the one of ``candidate`` and ``fold``.
    """

    session: CheckpointSession
    collect: Callable[[], dict[str, Any]]
    interrupt: Interrupt
    candidate: str
    fold: int
    n_rounds: int

    def after_round(self, info: RoundInfo) -> None:
        """Write if it is due; a fit from the beginning writes after its first round."""
        n_rounds = self.n_rounds + info.round + 1
        if self.session.is_due(n_rounds) or self.interrupt.is_set:
            self.session.write(n_rounds, self.candidate, self.fold, self.collect())


def _differences(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """Texts of what two fingerprints differ in; hashes are not shown."""
    texts = []
    for name in {**old, **new}:
        before = old.get(name)
        after = new.get(name)
        if name == "parameters":
            texts += _differences(before or {}, after or {})
        elif before != after:
            # The seed in the fingerprint is drawn with random_state, and unknown to the user.
            is_hash = any(re.fullmatch("[0-9a-f]{64}", str(side)) for side in (before, after))
            is_hidden = is_hash or name == "random_state"
            texts.append(f"{name} differs" if is_hidden else f"{name} was {before} and is {after}")
    return texts


def _newest(folder: str, resume: bool) -> tuple[dict[str, Any], dict[str, bytes], list[str]]:
    """Manifest, entries and path of the newest intact checkpoint; empty if there is none."""
    paths = _checkpoint_paths(folder)
    if paths and not resume:
        raise ValueError(
            f"checkpoint: {folder} holds checkpoints of an earlier fit. Pass resume=True "
            "(--resume) to continue it, or pass another folder, or delete this one."
        )
    for path in reversed(paths):
        try:
            return *FORMAT.read(path), [path]
        except (OSError, ValueError) as error:
            is_oldest = path == paths[0]
            older = "the fit starts from the beginning" if is_oldest else "an older one is used"
            warn_caller(f"{error}: {older}.")
    return {}, {}, []


def _checkpoint_paths(folder: str) -> list[str]:
    """The files with the names of checkpoints, oldest first."""
    names = sorted(filter(_NAME.fullmatch, os.listdir(folder)))
    return [os.path.join(folder, name) for name in names]


def _open_folder(folder: str) -> int | None:
    """Create the folder, check that this fit alone can write to it, and return its lock."""
    lock = None
    try:
        os.makedirs(folder, exist_ok=True)
        lock = _lock(folder)
        for name in os.listdir(folder):
            if name.endswith(_TEMPORARY):  # of a fit that was killed while it wrote
                os.unlink(os.path.join(folder, name))
        probe = os.path.join(folder, f"probe{_TEMPORARY}")
        with open(probe, "wb"):
            pass
        os.unlink(probe)
        return lock
    except OSError as error:
        if lock is not None:
            os.close(lock)
        if isinstance(error, (FileExistsError, NotADirectoryError)):
            text = f"checkpoint: {folder} is a file, or below one: pass a folder."
            raise NotADirectoryError(text) from None
        text = f"checkpoint: {folder} cannot be written to ({error.strerror})."
        raise type(error)(text) from None


def _lock(folder: str) -> int | None:
    """The folder, opened and locked until it is closed or the process ends."""
    if fcntl is None:
        return None
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        text = f"checkpoint: another fit is writing to {folder}: pass a folder of its own."
        raise ValueError(text) from None
    except OSError:  # a file system without locks
        pass
    return handle
