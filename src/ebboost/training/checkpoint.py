"""Checkpoints: the state of a fit in a folder, from which it can be resumed bit for bit.

The parts of a fit return their state and restore it; this module writes and reads it. A checkpoint is
a zip of plain formats: ``manifest.json`` with the state, the SHA-256 of every other entry and a
fingerprint of data, graph and parameters; arrays as ``.npy``; trees in their library's format. It is
written under another name, flushed to the disk and renamed: a file with the name of a checkpoint is
complete.
"""

import errno
import io
import json
import os
import pickle
import re
import time
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from ebboost.boosting.callbacks import Callback, Interrupt, RoundInfo
from ebboost.boosting.iterate import Iterate
from ebboost.boosting.objective import Objective
from ebboost.data.archive import atomic_write, checksums, max_unpacked_size, parse_json, unpack
from ebboost.data.fingerprint import fingerprint_of
from ebboost.learners import Pickled
from ebboost.model.environment import versions

try:
    import fcntl
except ImportError:  # Windows: two fits in one folder are not noticed
    fcntl = None  # type: ignore[assignment]

FORMAT_VERSION = 1
MAX_FILES = 2  # a damaged newest checkpoint leaves the one before
_NAME = re.compile(r"round-(\d+)\.ckpt")


class Checkpoint:
    """Where a fit keeps what it needs to be resumed, and how often.

    Parameters
    ----------
    folder : path
        NewColumns if it is not there. One folder for each fit; what is in it stays when the fit has ended.
    every : int, optional
        Rounds after which to write.
    seconds : float, optional
        Seconds after which to write, at the end of a round; default: 30. What comes first counts.
    pickle : bool, default=False
        Whether what has no plain format, which is regressors of scikit-learn, may be pickled. Reading a pickle runs what is
        in it: resume with this only from a folder that nobody else can write to.

    Examples
    --------
    >>> import ebboost as eb, numpy as np, tempfile
    >>> X, folder = np.arange(200.0)[:, None], tempfile.TemporaryDirectory()
    >>> often = eb.Checkpoint(folder.name, every=10)
    >>> one = eb.EBBSRegressor(30, random_state=0).fit(X, X[:, 0], checkpoint=often)
    >>> again = eb.EBBSRegressor(30, random_state=0).fit(X, X[:, 0], checkpoint=often, resume=True)  # at once
    >>> bool((one.predict() == again.predict()).all())
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
        if every is not None and (
            isinstance(every, bool) or not isinstance(every, Integral) or every < 1
        ):
            raise ValueError(
                f"Checkpoint's every must be a number of rounds of at least 1, or None, got {every!r}."
            )
        if seconds is not None and not (isinstance(seconds, Real) and seconds >= 0.0):
            raise ValueError(
                f"Checkpoint's seconds must be a number of at least 0, or None, got {seconds!r}."
            )
        self.folder = os.fspath(folder)
        self.every = every
        self.seconds = seconds
        self.pickle = pickle

    def __repr__(self) -> str:
        return f"Checkpoint({self.folder!r}, every={self.every}, seconds={self.seconds})"


def as_checkpoint(checkpoint: Any) -> Checkpoint:
    """Turn the ``checkpoint`` argument, a path or a Checkpoint, into the latter."""
    if isinstance(checkpoint, Checkpoint):
        return checkpoint
    if isinstance(checkpoint, (str, os.PathLike)):
        return Checkpoint(checkpoint)
    raise TypeError(
        f"checkpoint must be a folder or eb.Checkpoint(folder, ...), got {checkpoint!r}."
    )


@contextmanager
def checkpoint_session(
    checkpoint: str | os.PathLike[str] | Checkpoint | None, resume: bool
) -> Iterator["CheckpointSession | None"]:
    """Lock the folder for one fit; None without a ``checkpoint``."""
    if checkpoint is None:
        if resume:
            raise ValueError("resume=True needs a folder: pass checkpoint=folder too.")
        yield None
        return
    recipe = as_checkpoint(checkpoint)
    handle = _opened(recipe.folder)
    try:
        yield CheckpointSession(recipe, *_newest(recipe.folder, resume))
    finally:
        if handle is not None:
            os.close(handle)


def _newest(folder: str, resume: bool) -> tuple[dict[str, Any], dict[str, bytes], list[str]]:
    """Manifest, entries and path of the newest intact checkpoint; empty if there is none."""
    paths = _checkpoints(folder)
    if paths and not resume:
        raise ValueError(
            f"checkpoint: {folder} holds checkpoints of an earlier fit. Pass resume=True "
            "(--resume) to continue it, or name another folder, or delete this one."
        )
    for path in reversed(paths):
        try:
            return *_read(path), [path]
        except (OSError, ValueError) as error:
            is_oldest = path == paths[0]
            older = "the fit starts from the beginning" if is_oldest else "an older one is used"
            warnings.warn(f"The checkpoint {path} is damaged ({error}): {older}.", stacklevel=7)
    return {}, {}, []


class CheckpointSession:
    """The checkpoints of one fit: what an earlier run wrote, and where to write.

    Parameters
    ----------
    recipe : Checkpoint
    manifest, entries : dict
        The checkpoint to resume from; empty for a fit that starts from the beginning.
    paths : list of str
        Files of this fit, oldest first.
    """

    def __init__(
        self,
        recipe: Checkpoint,
        manifest: dict[str, Any],
        entries: dict[str, bytes],
        paths: Sequence[str] = (),
    ) -> None:
        self.recipe = recipe
        self.folder = recipe.folder
        self._manifest = manifest
        self._entries = entries
        self._paths = list(paths)
        self._fingerprint: dict[str, Any] = {}

    @property
    def content(self) -> tuple[dict[str, Any], dict[str, bytes]]:
        """The manifest and the entries to resume from."""
        return self._manifest, self._entries

    @property
    def candidate(self) -> str | None:
        """The candidate that was selected before; None if this fit starts from the beginning."""
        return self._manifest["state"]["dict"]["candidate"] if self._manifest else None

    @property
    def n_rounds(self) -> int:
        """Rounds of the checkpoint to resume from."""
        return int(self._manifest.get("round", 0))

    def seed(self, drawn: int) -> int:
        """Return the seed of the fit that is resumed, or else the one just drawn."""
        if not self._manifest:
            return drawn
        return int(self._manifest["fingerprint"]["random_state"])

    def check_fingerprint(self, fingerprint: dict[str, Any]) -> None:
        """Raise if data, graph or parameters differ from those of the checkpoint; store them."""
        self._fingerprint = fingerprint
        if not self._manifest:
            return
        current = json.loads(json.dumps(fingerprint))
        differences = _differences(self._manifest["fingerprint"], current)
        if differences:
            raise ValueError(
                f"checkpoint: {self.folder} is of another fit: {'; '.join(differences)}. Resume "
                "with the data and parameters it was begun with, or name another folder."
            )
        now = versions()
        stored = self._manifest["versions"].items()
        others = [
            f"{name} {old} (now {now.get(name)})" for name, old in stored if now.get(name) != old
        ]
        if others:
            warnings.warn(
                f"The checkpoint was written with {', '.join(others)}: the model may differ from "
                "an uninterrupted one in rounding.",
                stacklevel=5,
            )

    def load(self, objective: Objective) -> dict[str, Any]:
        """Return the stored state, its iterates as points of this objective."""
        state: dict[str, Any] = _revived(
            self._manifest["state"], self._entries, objective, self.recipe.pickle
        )
        self._entries = {}
        return state

    def check_state(self, state: dict[str, Any]) -> None:
        """Raise for a state that could not be stored, before the training begins."""
        _flat(state, {}, {}, self.recipe.pickle)

    def write(self, n_rounds: int, state: dict[str, Any]) -> None:
        """Write a checkpoint; a failure is a warning."""
        entries: dict[str, bytes] = {}
        content = _flat(state, entries, {}, self.recipe.pickle)
        manifest = {
            "format": "ebboost checkpoint",
            "format_version": FORMAT_VERSION,
            "round": n_rounds,
            "fingerprint": self._fingerprint,
            "versions": versions(),
            "state": content,
            "sha256": checksums(entries),
        }
        entries["manifest.json"] = json.dumps(manifest).encode()
        try:
            self._store(os.path.join(self.folder, f"round-{n_rounds:08d}.ckpt"), entries)
        except OSError as error:
            previous = "the previous one is intact" if self._paths else "there is no previous one"
            warnings.warn(
                f"A checkpoint could not be written to {self.folder} ({error.strerror or error}): "
                f"the fit continues, {previous}.",
                stacklevel=2,
            )

    def _store(self, path: str, entries: dict[str, bytes]) -> None:
        """Write atomically, then delete all but this checkpoint and the one before."""
        with atomic_write(path, ".ckpt.part") as part, zipfile.ZipFile(part, "w") as file:
            for name, content in entries.items():
                file.writestr(name, content)
        self._paths = [*(other for other in self._paths if other != path), path][-MAX_FILES:]
        for other in _checkpoints(self.folder):
            if other not in self._paths:
                os.unlink(other)


class CheckpointFollower(CheckpointSession):
    """The session of a worker that does not write: it resumes from what the first worker has read."""

    def write(self, n_rounds: int, state: dict[str, Any]) -> None:
        """Do nothing: the first worker writes."""


class CheckpointCallback(Callback):
    """Writes a checkpoint when it is due.

    Parameters
    ----------
    session : CheckpointSession
    collect : callable
        Returns the state to store.
    interrupt : Interrupt
        A checkpoint is also written when it was triggered.
    """

    def __init__(
        self,
        session: CheckpointSession,
        collect: Callable[[], dict[str, Any]],
        interrupt: Interrupt,
    ) -> None:
        self._session = session
        self._collect = collect
        self._interrupt = interrupt
        self._is_first = session.candidate is None
        self._last_round = session.n_rounds
        self._last_time = time.monotonic()

    def before_training(self, n_rounds: int) -> None:
        """Start the clock."""
        self._last_time = time.monotonic()

    def after_round(self, progress: RoundInfo) -> None:
        """Write if it is due; a fit from the beginning writes after its first round."""
        recipe = self._session.recipe
        n_rounds = progress.round + 1
        due = recipe.every is not None and n_rounds - self._last_round >= recipe.every
        elapsed = time.monotonic() - self._last_time
        due |= recipe.seconds is not None and elapsed >= recipe.seconds
        if due or self._is_first or self._interrupt.is_set:
            self._session.write(n_rounds, self._collect())
            self._is_first = False
            self._last_round = n_rounds
            self._last_time = time.monotonic()  # without the time that writing took


def describe_parameters(value: Any) -> Any:
    """Return parameters as JSON that two fits can be compared by."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or (isinstance(value, (bool, int, float, str)) and value == value):
        return value
    if isinstance(value, BaseEstimator):
        return {"": type(value).__name__} | {
            k: describe_parameters(v) for k, v in value.get_params(deep=False).items()
        }
    if isinstance(value, Mapping):
        return {str(key): describe_parameters(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [describe_parameters(item) for item in value]
    if isinstance(value, np.ndarray):
        return fingerprint_of(value)
    if callable(value):
        name, code = (
            getattr(value, "__qualname__", type(value).__name__),
            getattr(value, "__code__", None),
        )
        if code is None:
            return name
        told = [str(part) for part in code.co_consts if not hasattr(part, "co_code")]
        return f"{name} (code {fingerprint_of(code.co_code.hex(), code.co_names, told)[:8]})"
    return repr(value) if type(value).__repr__ is not object.__repr__ else type(value).__name__


def _differences(then: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """What is not the same, in words; hashes are not shown."""
    found = []
    for name in {**then, **now}:
        before, after = then.get(name), now.get(name)
        if name == "parameters":
            found += _differences(before or {}, after or {})
        elif before != after:
            # Of random_state the fingerprint has the seed drawn with it, which says nothing to whoever gave a number.
            hidden = name == "random_state" or any(
                isinstance(side, str) and re.fullmatch("[0-9a-f]{64}", side)
                for side in (before, after)
            )
            found.append(
                f"{name} differs"
                if hidden
                else f"{name} was {_shown(before)} and is {_shown(after)}"
            )
    return found


def _shown(value: Any) -> str:
    if isinstance(value, dict) and "" in value:
        inside = ", ".join(f"{key}={_shown(item)}" for key, item in value.items() if key)
        return f"{value['']}({inside})"
    return repr(value)


# ---------------------------------------------------------------------- files


def _opened(folder: str) -> int | None:
    """Make the folder, see that it can be written to and that no other fit does so; return what holds the lock."""
    try:
        os.makedirs(folder, exist_ok=True)
        handle = _locked(folder)
        for name in os.listdir(folder):
            if name.endswith(".ckpt.part"):  # of a fit that was killed while it wrote
                os.unlink(os.path.join(folder, name))
        probe = os.path.join(folder, "probe.ckpt.part")
        with open(probe, "wb"):
            pass
        os.unlink(probe)
        return handle
    except (FileExistsError, NotADirectoryError):
        raise NotADirectoryError(
            f"checkpoint: {folder} is a file, or below one: name a folder."
        ) from None
    except OSError as error:
        raise type(error)(
            f"checkpoint: {folder} cannot be written to ({error.strerror})."
        ) from None


def _locked(folder: str) -> int | None:
    """The folder opened, and locked for as long as it is: the system lets go of it when a process dies."""
    if fcntl is None:
        return None
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            os.close(handle)
            raise ValueError(
                f"checkpoint: another fit is writing to {folder}: one folder for each fit."
            ) from None
    return handle


def _checkpoints(folder: str) -> list[str]:
    """The files with the names of checkpoints, oldest first."""
    rounds = {
        int(match[1]): match[0] for match in map(_NAME.fullmatch, os.listdir(folder)) if match
    }
    return [os.path.join(folder, rounds[number]) for number in sorted(rounds)]


def _read(path: str) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The manifest and all other entries, each of them as it was written."""
    try:
        with open(path, "rb") as file:
            entries = unpack(file, max_unpacked_size(file.seek(0, 2)))
        manifest = parse_json(entries.pop("manifest.json"))
        told = manifest["format"], manifest["format_version"], manifest["sha256"]
    except (OSError, MemoryError):
        raise
    except (
        Exception
    ) as error:  # zipfile lets through whatever it runs into when bytes are changed at random
        raise ValueError(str(error) or "it is not a checkpoint") from None
    name, format_version, sums = told
    if name != "ebboost checkpoint" or format_version != FORMAT_VERSION:
        raise ValueError(
            f"format {format_version!r} of {name!r} is not {FORMAT_VERSION} of 'ebboost checkpoint'"
        )
    if sums != checksums(entries):
        raise ValueError("its entries are not those that were written")
    return manifest, entries


# ---------------------------------------------------------------------- state as JSON and entries of a zip


def _flat(
    value: Any, entries: dict[str, bytes], known: dict[int, tuple[Any, str]], may_pickle: bool
) -> Any:
    """A state as JSON; arrays and bytes become entries, each once: iterates share their arrays."""

    def entry(content: Any, kind: str, write: Callable[[], bytes]) -> dict[str, str]:
        if id(content) not in known:
            known[id(content)] = (
                content,
                f"{len(entries)}.{kind}",
            )  # held, so that its id stays its own
            entries[known[id(content)][1]] = write()
        return {kind: known[id(content)][1]}

    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return entry(value, "npy", lambda: _array_bytes(value))
    if hasattr(value, "__cuda_array_interface__"):
        return entry(value, "npy", lambda: _array_bytes(value.get()))
    if isinstance(value, bytes):
        return entry(value, "bin", lambda: value)
    if isinstance(value, Iterate):
        propagated = None if callable(value.propagated) else value.propagated
        parts = (value.scores, propagated, np.array(value.weights, dtype=np.float64))
        return {"iterate": [_flat(part, entries, known, may_pickle) for part in parts]}
    if isinstance(value, Pickled):
        if not may_pickle:
            raise ValueError(
                "checkpoint: regressors of scikit-learn can only be kept by pickle, which could run code when it is read. "
                "If nobody else can write to the folder, pass checkpoint=eb.Checkpoint(folder, pickle=True)."
            )
        return {"pickle": entry(value, "bin", lambda: pickle.dumps(value.content))["bin"]}
    if isinstance(value, Mapping):
        return {
            "dict": {
                str(key): _flat(item, entries, known, may_pickle) for key, item in value.items()
            }
        }
    if isinstance(value, (list, tuple)):
        return [_flat(item, entries, known, may_pickle) for item in value]
    raise TypeError(
        f"checkpoint: a state() holds {value!r}; it may hold numbers, text, lists, dicts and arrays."
    )


def _array_bytes(array: Any) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def _revived(value: Any, entries: dict[str, bytes], objective: Objective, may_pickle: bool) -> Any:
    """What :func:`_flat` took apart."""
    if isinstance(value, list):
        return [_revived(item, entries, objective, may_pickle) for item in value]
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "dict":
        return {
            key: _revived(item, entries, objective, may_pickle) for key, item in content.items()
        }
    if kind == "npy":
        array = np.lib.format.read_array(io.BytesIO(entries[content]), allow_pickle=False)
        return np.asarray(
            array, like=objective.labels.target
        )  # on the GPU if that is where the labels are
    if kind == "bin":
        return entries[content]
    if kind == "pickle":
        if not may_pickle:
            raise ValueError(
                "checkpoint: this one holds a pickle, which could run code when it is read: resume with "
                "eb.Checkpoint(folder, pickle=True) if nobody else can write to the folder."
            )
        return pickle.loads(entries[content])
    scores, propagated, weights = (
        _revived(part, entries, objective, may_pickle) for part in content
    )
    return Iterate(
        scores,
        objective.start().propagated if propagated is None else propagated,
        tuple(weights.tolist()),
    )
