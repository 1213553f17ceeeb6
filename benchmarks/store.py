"""One SQLite file with every run: settings, scores, cost, seed and versions.

A run is known by data set, method, configuration, split and seed. It is written once, when it has
ended, so that a runner that is killed leaves nothing half done, and files of several machines can
be merged.
"""

import json
import sqlite3
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SCHEMA = """
CREATE TABLE IF NOT EXISTS runs (
    dataset TEXT, method TEXT, configuration TEXT, split INTEGER, seed INTEGER,
    status TEXT CHECK (status IN ('done', 'failed')), measure TEXT, validation REAL, test REAL,
    seconds REAL, memory_mb REAL, device TEXT, notes TEXT, curve BLOB, error TEXT, versions TEXT,
    finished TEXT,
    PRIMARY KEY (dataset, method, configuration, split, seed)
)"""
KEY = ("dataset", "method", "configuration", "split", "seed")


@dataclass(frozen=True)
class Run:
    """What is to be run: the key of the file."""

    dataset: str
    method: str
    configuration: str
    split: int
    seed: int

    @property
    def settings(self) -> dict[str, Any]:
        """The configuration as keyword arguments."""
        return json.loads(self.configuration)

    def __str__(self) -> str:
        settings = " ".join(f"{name}={value}" for name, value in self.settings.items())
        return f"{self.dataset} {self.method} split {self.split} {settings}".rstrip()


def written(settings: dict[str, Any]) -> str:
    """Return a configuration as text, the same for the same settings."""
    return json.dumps(settings, sort_keys=True)


@dataclass(frozen=True)
class Result:
    """What came out of a run."""

    run: Run
    status: str
    measure: str = ""
    validation: float | None = None
    test: float | None = None
    seconds: float | None = None
    memory_mb: float | None = None
    device: str = "cpu"
    notes: dict[str, Any] = field(default_factory=dict)
    curve: dict[str, list[float]] = field(default_factory=dict)
    error: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    finished: str = ""


class Store:
    """The file.

    Examples
    --------
    >>> run = Run("county", "CatBoost", written({"depth": 6}), split=0, seed=0)
    >>> store = Store(":memory:")
    >>> store.add(Result(run, "done", "RMSE", validation=1.3, test=1.4))
    >>> [result.test for result in store.results()], run in store.ended()
    ([1.4], True)
    """

    def __init__(self, path: str | Path) -> None:
        if str(path) != ":memory:":
            Path(path).parent.mkdir(parents=True, exist_ok=True)
        self._file = sqlite3.connect(path, timeout=60.0)
        try:
            self._file.execute(SCHEMA)
        except sqlite3.DatabaseError as error:
            raise ValueError(f"{path} is not a file of benchmark runs: {error}.") from None

    def add(self, result: Result) -> None:
        """Write a run that has ended; one that failed before is replaced."""
        values = {name: getattr(result.run, name) for name in KEY}
        values |= {
            name: getattr(result, name)
            for name in ("status", "measure", "validation", "test", "seconds")
        }
        values |= {
            name: getattr(result, name) for name in ("memory_mb", "device", "error", "finished")
        }
        values |= {"notes": json.dumps(result.notes), "versions": json.dumps(result.versions)}
        values["curve"] = zlib.compress(json.dumps(result.curve).encode()) if result.curve else None
        columns, marks = ", ".join(values), ", ".join(f":{name}" for name in values)
        with self._file:
            self._file.execute(f"INSERT OR REPLACE INTO runs ({columns}) VALUES ({marks})", values)

    def ended(self, failed_too: bool = True) -> set[Run]:
        """Return the runs that need not be done again."""
        where = "" if failed_too else "WHERE status = 'done'"
        return {
            Run(*row) for row in self._file.execute(f"SELECT {', '.join(KEY)} FROM runs {where}")
        }

    def results(self, dataset: str | None = None, method: str | None = None) -> list[Result]:
        """Return what is written, in a fixed order."""
        columns = (
            *KEY,
            "status",
            "measure",
            "validation",
            "test",
            "seconds",
            "memory_mb",
            "device",
            "notes",
            "curve",
        )
        query = f"SELECT {', '.join(columns)}, error, versions, finished FROM runs "
        query += "WHERE (?1 IS NULL OR dataset = ?1) AND (?2 IS NULL OR method = ?2) "
        rows = self._file.execute(query + f"ORDER BY {', '.join(KEY)}", (dataset, method))
        return [_result(row) for row in rows]

    def merge(self, others: Iterable[str | Path]) -> int:
        """Import runs of other files that are missing or failed here; return how many."""
        taken = 0
        for path in others:
            if not Path(path).is_file():
                raise FileNotFoundError(f"There is no file {path} to merge.")
            done, ended = self.ended(failed_too=False), self.ended()
            for result in Store(path).results():
                if result.run not in done and (result.status == "done" or result.run not in ended):
                    self.add(result)
                    taken += 1
        return taken


def _result(row: tuple[Any, ...]) -> Result:
    run, rest = Run(*row[:5]), list(row[5:])
    notes, curve, error, versions, finished = rest[7:]
    losses = json.loads(zlib.decompress(curve)) if curve else {}
    return Result(run, *rest[:7], json.loads(notes), losses, error, json.loads(versions), finished)
