"""Checkpoints: what a fit needs to be taken up again after a crash, in a folder, and to end as if nothing had happened.

The parts of a fit say what must be kept of them (``state``) and go on from it (``restore``); this room writes and reads it.
A checkpoint is one file, a zip of plain formats: ``manifest.json`` with the state, the SHA-256 of every other entry and a
fingerprint of data, graph and parameters; arrays as ``.npy``; trees in their library's own format. It is written beside its
place, forced to the disk and then renamed, so that a file with the name of a checkpoint is a whole one, and the one before
it is kept.
"""

import errno
import hashlib
import io
import json
import os
import pickle
import re
import time
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from ebboost.boosting.callbacks import Callback, Interrupt, RoundInfo
from ebboost.boosting.iterate import Iterate
from ebboost.boosting.objective import Objective
from ebboost.data.archive import atomic_write, checksums, max_unpacked_size, parse_json, unpack
from ebboost.learners import Pickled
from ebboost.model.environment import versions

try:
    import fcntl
except ImportError:  # Windows: two fits in one folder are not noticed
    fcntl = None  # type: ignore[assignment]

FORMAT_VERSION = 1
KEPT = 2
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
def checkpoint_session(checkpoint: Any, resume: bool) -> Iterator["CheckpointCallback | None"]:
    """Have the folder for this fit alone; None if there is no ``checkpoint``."""
    if checkpoint is None:
        if resume:
            raise ValueError("resume=True needs to know where: pass checkpoint=folder too.")
        yield None
        return
    recipe = as_checkpoint(checkpoint)
    handle = _opened(recipe.folder)
    try:
        yield CheckpointCallback(recipe, resume)
    finally:
        if handle is not None:
            os.close(handle)


class CheckpointCallback(Callback):
    """The checkpoints of one fit, asked after each round whether it is time to write one.

    Parameters
    ----------
    recipe : Checkpoint
    resume : bool
        Whether to read the newest checkpoint that is whole.
    """

    #: What to keep: race, choice and out_of_fold as found, and the states of the boosting and of its callbacks.
    collect: Callable[[], dict[str, Any]]
    #: Written too when this was asked to stop.
    interrupt: Interrupt

    def __init__(self, recipe: Checkpoint, resume: bool) -> None:
        self.recipe, self.folder = recipe, recipe.folder
        self._paths: list[str] = []  # whole ones, oldest first
        self._manifest: dict[str, Any] = {}
        self._fingerprint: dict[str, Any] = {}
        found = _checkpoints(self.folder)
        if found and not resume:
            raise ValueError(
                f"checkpoint: {self.folder} holds checkpoints of an earlier fit already. Pass resume=True (--resume) to "
                "go on from there, or name another folder, or delete this one."
            )
        self._find(found)

    def _find(self, found: list[str]) -> None:
        for path in reversed(found):
            try:
                self._manifest, self._entries = _read(path)
            except (OSError, ValueError) as error:
                older = (
                    "the one before it is used"
                    if path != found[0]
                    else "the fit starts from the beginning"
                )
                warnings.warn(f"The checkpoint {path} is damaged ({error}): {older}.", stacklevel=6)
            else:
                self._paths = [path]
                break

    @property
    def read(self) -> tuple[dict[str, Any], dict[str, bytes]]:
        """The manifest and the entries that were found, for others to go on from too."""
        return self._manifest, self._entries if self._manifest else {}

    @property
    def choice(self) -> str | None:
        """The way of using the graph that was found before; None if this fit starts from the beginning."""
        return self._manifest["state"]["dict"]["choice"] if self._manifest else None

    def seed(self, drawn: int) -> int:
        """Return the seed that was used before, or else the one just drawn."""
        return int(self._manifest["fingerprint"]["random_state"]) if self._manifest else drawn

    def same(self, fingerprint: dict[str, Any]) -> None:
        """Refuse to go on if data, graph or parameters are others than those of the checkpoint; remember them."""
        self._fingerprint = fingerprint
        if not self._manifest:
            return
        differing = _differences(self._manifest["fingerprint"], json.loads(json.dumps(fingerprint)))
        if differing:
            raise ValueError(
                f"checkpoint: {self.folder} is of another fit: {'; '.join(differing)}. Resume with what it was begun with, "
                "or name another folder."
            )
        now = versions()
        written = self._manifest["versions"].items()
        others = [
            f"{name} {then} (now {now.get(name)})"
            for name, then in written
            if now.get(name) != then
        ]
        if others:
            warnings.warn(
                f"The checkpoint was written with {', '.join(others)}: the model may differ from an undisturbed one in "
                "rounding.",
                stacklevel=4,
            )

    def loaded(self, objective: Objective) -> dict[str, Any]:
        """Return the state that was kept, its iterates as points of this objective."""
        found: dict[str, Any] = _revived(
            self._manifest["state"], self._entries, objective, self.recipe.pickle
        )
        self._entries = {}
        return found

    def check(self, state: dict[str, Any]) -> None:
        """Refuse what could not be kept, before the work begins."""
        _flat(state, {}, {}, self.recipe.pickle)

    def before_training(self, n_rounds: int) -> None:
        """Start counting; whoever starts from the beginning is kept after the first round, with all that came before it."""
        self._never = not self._manifest
        self._written_round, self._written_at = self._manifest.get("round", 0), time.monotonic()

    def after_round(self, progress: RoundInfo) -> None:
        """Write if it is time to."""
        recipe, done = self.recipe, progress.round + 1
        due = recipe.every is not None and done - self._written_round >= recipe.every
        due |= recipe.seconds is not None and time.monotonic() - self._written_at >= recipe.seconds
        if due or self._never or self.interrupt.is_set:
            self._write(done)

    def _write(self, done: int) -> None:
        try:
            self._store(os.path.join(self.folder, f"round-{done:08d}.ckpt"), self._entries_of(done))
        except OSError as error:
            kept = "the one before it is kept" if self._paths else "there is none before it"
            warnings.warn(
                f"A checkpoint could not be written to {self.folder} ({error.strerror or error}): the fit goes on, {kept}.",
                stacklevel=2,
            )
        self._never = False
        self._written_round, self._written_at = (
            done,
            time.monotonic(),
        )  # not counting the time it took

    def _entries_of(self, done: int) -> dict[str, bytes]:
        entries: dict[str, bytes] = {}
        state = _flat(self.collect(), entries, {}, self.recipe.pickle)
        manifest = {
            "format": "ebboost checkpoint",
            "format_version": FORMAT_VERSION,
            "round": done,
            "fingerprint": self._fingerprint,
            "versions": versions(),
            "state": state,
            "sha256": checksums(entries),
        }
        return entries | {"manifest.json": json.dumps(manifest).encode()}

    def _store(self, path: str, entries: dict[str, bytes]) -> None:
        """Write beside the place, force it to the disk, rename, and only then delete all but this and the one before."""
        with atomic_write(path, ".ckpt.part") as place, zipfile.ZipFile(place, "w") as file:
            for name, content in entries.items():
                file.writestr(name, content)
        self._paths = [*(other for other in self._paths if other != path), path][-KEPT:]
        for other in _checkpoints(self.folder):
            if other not in self._paths:
                os.unlink(other)


def fingerprint_of(*arrays: Any) -> str:
    """Return a SHA-256 of arrays, sparse matrices and texts."""
    digest = hashlib.sha256()
    for array in arrays:
        if hasattr(array, "indptr"):
            digest.update(fingerprint_of(array.data, array.indices, array.indptr).encode())
            continue
        array = np.asarray(array)
        if array.dtype == object:
            array = np.asarray([repr(item) for item in array.ravel()])
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        if array.size:
            digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


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
