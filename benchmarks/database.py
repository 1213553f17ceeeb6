"""The database of results: a file of JSON lines, one for each run."""

import json
import os
import platform
import time
from collections.abc import Callable, Iterable
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

Row = dict[str, Any]
Key = tuple[str, str, int, str]
RESULTS = Path(__file__).parent / "results"
DATABASE = RESULTS / "results.jsonl"


def key_of(row: Row) -> Key:
    """Return what identifies a run: experiment, data, split and method."""
    return row["experiment"], row["data"], row["split"], row["method"]


def read(path: Path = DATABASE) -> dict[Key, Row]:
    """Return the rows of a file; of two rows with the same key the later one."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return {key_of(row): row for row in map(json.loads, lines)}


def write(rows: Iterable[Row], path: Path = DATABASE) -> None:
    """Write a file anew, sorted, so that versions of it can be compared."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(row) + "\n" for row in sorted(rows, key=key_of))
    path.write_text(text, encoding="utf-8")


def add(row: Row, path: Path = DATABASE) -> None:
    """Append a row: a killed run loses no other run."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def merge(other: Path, path: Path = DATABASE) -> int:
    """Take in the rows of another file and return how many there are."""
    rows = read(other)
    write((read(path) | rows).values(), path)
    return len(rows)


def version(package: str) -> str:
    """Return the version of a package; of ebboost that of the source that is imported."""
    if package == "ebboost":
        import ebboost

        return ebboost.__version__
    return metadata.version(package)


@cache
def machine() -> str:
    """Return the processor, the number of cores and the version of Python."""
    name = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [line for line in info.read_text().splitlines() if line.startswith("model name")]
        name = names[0].partition(":")[2].strip() if names else name
    return f"{name}, {os.cpu_count()} cores, Python {platform.python_version()}"


def timed(work: Callable[[], Any]) -> tuple[Any, dict[str, float]]:
    """Return the result of a function, its seconds and its processor seconds."""
    wall, processor = time.perf_counter(), time.process_time()
    result = work()
    seconds = {
        "seconds": round(time.perf_counter() - wall, 2),
        "processor_seconds": round(time.process_time() - processor, 2),
    }
    return result, seconds
