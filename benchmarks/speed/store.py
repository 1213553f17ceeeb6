"""The JSON file of raw numbers: cases with seconds and memory, import times, versions."""

import json
import os
import platform
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path

from benchmarks.speed.measuring import Case, Measured

PACKAGES = (
    "ebboost",
    "numpy",
    "scipy",
    "scikit-learn",
    "lightgbm",
    "catboost",
    "torch",
    "torch-geometric",
    "gpboost",
)


@dataclass
class Store:
    """Measurements so far; written after every case."""

    path: Path
    runs: dict[Case, Measured] = field(default_factory=dict)
    imports: dict[str, list[float]] = field(default_factory=dict)
    made_with: dict[str, str] = field(default_factory=dict)

    @classmethod
    def at(cls, path: Path) -> "Store":
        """Read a file, if it is there."""
        if not path.exists():
            return cls(path)
        stored = json.loads(path.read_text(encoding="utf-8"))
        runs = [Measured(**run | {"case": Case.of(run["case"])}) for run in stored["runs"]]
        return cls(path, {run.case: run for run in runs}, stored["imports"], stored["made_with"])

    def add(self, run: Measured, again: bool = False) -> None:
        """Store a measurement instead of an earlier one, or, with ``again``, in addition."""
        self.runs[run.case] = self.runs[run.case].with_more(run) if again else run
        self.write()

    def write(self) -> None:
        """Write the file, in one step."""
        self.made_with = versions()
        stored = {"made_with": self.made_with, "imports": self.imports}
        lines = ",\n".join(json.dumps(asdict(run)) for run in self.runs.values())
        text = json.dumps(stored, indent=1)[:-2] + f',\n "runs": [\n{lines}\n]}}\n'
        self.path.parent.mkdir(parents=True, exist_ok=True)
        part = self.path.with_suffix(".part")
        part.write_text(text, encoding="utf-8")
        part.replace(self.path)


def versions() -> dict[str, str]:
    """Return versions of what was run, and of what it ran on."""
    installed = {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": str(os.cpu_count()),
    }
    for name in PACKAGES:
        try:
            installed[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return installed
