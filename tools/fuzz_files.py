"""Fuzz model files: every changed file must be rejected with ModelFileError or predict numbers.

    python tools/fuzz_files.py [--seconds 600] [--files 20000] [--seed 0] [--keep FOLDER]

Files of tests/golden are cut, spliced and flipped bit by bit; and, with checksums put right again,
values of their JSON, entries of their arrays, lines of their trees and members of the zip are
changed. A process of its own loads each, describes it and predicts. It must say ModelFileError when
it loads, or give numbers, and with wrong checksums those of the unchanged file: a signal, any other
error, ten seconds of work or a gigabyte more than the process began with is a finding.
Findings are stored, the summary is printed as JSON, and the exit code is 1 if there are any.
"""

import argparse
import copy
import hashlib
import io
import json
import math
import os
import random
import selectors
import subprocess
import sys
import time
import zipfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

GOLDEN = Path(__file__).parents[1] / "tests" / "golden"
PATIENCE = 10.0  # seconds of CPU time
LONGEST = 60.0  # seconds on the clock
MORE_MEMORY = 2**30  # bytes
HOSTILE = (
    None,
    True,
    False,
    0,
    1,
    -1,
    2,
    3,
    7,
    64,
    255,
    65_536,
    2**31 - 1,
    2**31,
    -(2**31) - 1,
    2**63,
    -(2**63),
    10**30,
    0.5,
    -0.0,
    1e-320,
    1e30,
    1e150,
    1e308,
    float("nan"),
    float("inf"),
    float("-inf"),
    "",
    "0",
    "-1",
    "auto",
    "nan",
    "../x",
    "\u0000",
    "x" * 5_000,
    [],
    {},
    [0],
    [[]],
    {"class": "Laplacian", "parameters": {}},
    {"class": "Robust", "parameters": {}},
    {"class": "Kernel", "parameters": {"degree": 500}},
    {"class": "Laplacian", "parameters": {"n_steps": 10**9}},
    {"class": "Poisson", "parameters": {}},
    {"class": "Softmax", "parameters": {}},
    {"class": "LatentField", "parameters": {}},
    {"class": "MaskedLabels", "parameters": {}},
    {"class": "EBBSRegressor", "parameters": {}},
    {"tuple": []},
    {"dict": []},
    {"array": [1], "dtype": "<U999999999"},
    {"array": ["a"] * 9, "dtype": "|O"},
    {"array": [0], "dtype": "<f8"},
)
NAMES = ("../x", "/tmp/x", "C:\\x", "trees.txt/", "a/../b", "\u0000", "ü" * 9_000, "", ".", "nul")
#: Deep JSON, and members that are small in the file and large in memory.
MEMBERS = (b"[" * 100_000, b'{"a":' * 50_000 + b"1" + b"}" * 50_000, bytes(2**26), b"9" * 2**20)


def unpacked(content: bytes) -> dict[str, bytes]:
    """The entries of a sound zip."""
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        return {name: file.read(name) for name in file.namelist()}


def packed(entries: dict[str, bytes]) -> bytes:
    """A zip with checksums that are right."""
    try:
        manifest = json.loads(entries["manifest.json"])
        manifest["sha256"] = {
            name: hashlib.sha256(content).hexdigest()
            for name, content in entries.items()
            if name != "manifest.json"
        }
        entries = entries | {"manifest.json": json.dumps(manifest).encode()}
    except (KeyError, TypeError, ValueError, RecursionError):
        pass  # the manifest itself is what was broken
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in entries.items():
            file.writestr(zipfile.ZipInfo(name), content)
    return buffer.getvalue()


def paths_in(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Paths to every value of some JSON."""
    paths = [path] if path else []
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, item in items:
        paths += paths_in(item, (*path, key))
    return paths


def json_changed(content: bytes, draw: random.Random) -> bytes:
    """Replace, remove, repeat or swap values; short lists are as likely as long arrays."""
    root = json.loads(content)
    for _ in range(draw.choice((1, 1, 1, 2, 4))):
        by_depth: dict[int, list[tuple[Any, ...]]] = {}
        for path in paths_in(root):
            by_depth.setdefault(len(path), []).append(path)
        if not by_depth:
            break
        path = draw.choice(by_depth[draw.choice(sorted(by_depth))])
        holder = root
        for key in path[:-1]:
            holder = holder[key]
        what = draw.randrange(6)
        if what == 0:
            del holder[path[-1]]
        elif what == 1 and isinstance(holder, list):
            holder.insert(path[-1], copy.deepcopy(holder[path[-1]]))
        elif what == 2 and len(holder) > 1:
            other = draw.choice(list(holder) if isinstance(holder, dict) else range(len(holder)))
            holder[path[-1]], holder[other] = holder[other], holder[path[-1]]
        elif what == 3 and type(holder[path[-1]]) in (int, float):
            old = holder[path[-1]]
            holder[path[-1]] = draw.choice(
                (old + 1, old - 1, -old, old * 2, old * 1e6, float(old), str(old))
            )
        else:
            holder[path[-1]] = copy.deepcopy(draw.choice(HOSTILE))
    return json.dumps(root).encode()


def arrays_changed(content: bytes, draw: random.Random) -> bytes:
    """Replace entries, types and shapes of arrays, or entire arrays."""
    with np.load(io.BytesIO(content)) as stored:
        arrays = {name: stored[name] for name in stored.files}
    for _ in range(draw.choice((1, 1, 2))):
        name = draw.choice(list(arrays))
        array, what = arrays[name], draw.randrange(8)
        if what <= 2 and array.size:
            array = array.copy()
            for _ in range(draw.choice((1, 1, 3))):
                limits = (
                    (np.iinfo(array.dtype).min, np.iinfo(array.dtype).max)
                    if array.dtype.kind in "iu"
                    else ()
                )
                values: tuple[Any, ...] = (
                    0,
                    1,
                    -1,
                    2,
                    array.size,
                    *map(len, arrays.values()),
                    *limits,
                )
                if array.dtype.kind == "f":
                    values += (np.nan, np.inf, 1e308, 1e200, -1e150, 1e-320)
                with np.errstate(over="ignore"):
                    array.reshape(-1)[draw.randrange(array.size)] = draw.choice(values)
            arrays[name] = array
        elif what == 3:
            with np.errstate(all="ignore"):
                arrays[name] = array.astype(
                    draw.choice(("f4", "f8", "i4", "i8", "u8", "c16", "bool", "U3", "f2"))
                )
        elif what == 4:
            arrays[name] = array[: draw.randrange(len(array) + 1)] if array.ndim else array
        elif what == 5:
            arrays[name] = draw.choice(
                (array.reshape(-1), array.T, array[None], np.concatenate([array, array]))
            )
        elif what == 6:
            arrays[name] = arrays[draw.choice(list(arrays))]
        else:
            del arrays[name]
            arrays = arrays or {"x": array}
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


def text_changed(content: bytes, draw: random.Random) -> bytes:
    """Change numbers in lines of text, and lines."""
    lines = content.decode().split("\n")
    for _ in range(draw.choice((1, 1, 1, 2, 5))):
        at, what = draw.randrange(len(lines)), draw.randrange(8)
        if draw.random() < 0.7:  # where there are numbers
            at = draw.choice([i for i, line in enumerate(lines) if "=" in line] or [at])
        if what <= 4:
            key, _, values = lines[at].partition("=")
            tokens = values.split(" ")
            tokens[draw.randrange(len(tokens))] = draw.choice(
                (
                    "0",
                    "1",
                    "-1",
                    "-2",
                    "2",
                    "3",
                    "7",
                    "99",
                    "-99",
                    "2147483647",
                    "-2147483648",
                    "4294967296",
                    "1e308",
                    "nan",
                    "inf",
                    "",
                    "x",
                    "1_0",
                    "+1",
                    "0x10",
                    "١",
                    "1.5",
                    "9" * 400,
                )
            )
            lines[at] = f"{key}={' '.join(tokens)}"
        elif what == 5:
            del lines[at]
            lines = lines or [""]
        elif what == 6:
            lines.insert(draw.randrange(len(lines) + 1), lines[at])
        else:
            other = draw.randrange(len(lines))
            lines[at], lines[other] = lines[other], lines[at]
    text = "\n".join(lines)
    if draw.random() < 0.7 and "tree_sizes=" in text:  # an attacker can count
        trees = text.partition("end of trees")[0].split("\nTree=")[1:]
        sizes = [len("Tree=\n") + len(tree) for tree in trees[:-1]] + [
            len("Tree=") + len(tree) for tree in trees[-1:]
        ]
        text = "\n".join(
            "tree_sizes=" + " ".join(map(str, sizes)) if line.startswith("tree_sizes=") else line
            for line in text.split("\n")
        )
    return text.encode()


def bytes_changed(content: bytes, other: bytes, draw: random.Random) -> bytes:
    """Flip bits, cut, splice, repeat."""
    changed, what = bytearray(content), draw.randrange(6)
    at = draw.randrange(len(changed) + 1)
    length = min(draw.choice((1, 2, 4, 16, 256, 4096)), len(changed) - at)
    if what <= 1:
        for _ in range(draw.choice((1, 1, 2, 8)) if changed else 0):
            changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
    elif what == 2:
        del changed[at:]
    elif what == 3:
        start = draw.randrange(len(other) + 1)
        changed[at : at + length] = other[start : start + length]
    elif what == 4:
        del changed[at : at + length]
    else:
        changed[at:at] = changed[at : at + length]
    return bytes(changed)


def mutated(seed: bytes, other: bytes, draw: random.Random) -> tuple[str, bytes]:
    """How a file was changed, and the file."""
    if draw.random() < 0.15:
        return "bytes", bytes_changed(seed, other, draw)
    entries, others = unpacked(seed), unpacked(other)
    trees = [name for name in entries if name not in ("manifest.json", "arrays.npz")]
    name = draw.choice(["manifest.json", "arrays.npz", *trees, *trees])
    what = draw.random()
    if what < 0.05:
        del entries[name]
    elif what < 0.1:
        entries[draw.choice((name, "extra.json"))] = others.get(name, b"")
    elif what < 0.12:
        entries[draw.choice(NAMES)] = entries[name] if draw.random() < 0.5 else entries.pop(name)
    elif what < 0.14:
        entries[name] = draw.choice(MEMBERS)
    elif what < 0.2:
        entries[name] = bytes_changed(entries[name], others.get(name, entries[name]), draw)
        return f"bytes of {name[:5]}", packed(entries)
    elif name.endswith(".npz"):
        if draw.random() < 0.2:  # a header, say
            inner = unpacked(entries[name])
            part = draw.choice(list(inner))
            inner[part] = bytes_changed(inner[part][:128], inner[part], draw) + inner[part][128:]
            entries[name] = packed(inner)
        else:
            entries[name] = arrays_changed(entries[name], draw)
    elif name.endswith(".npy"):  # of a network: one of its arrays
        buffer = io.BytesIO()
        stored = {one: np.load(io.BytesIO(entries[one])) for one in trees if one.endswith(".npy")}
        np.savez(buffer, **{one.removesuffix(".npy"): array for one, array in stored.items()})
        changed = unpacked(arrays_changed(buffer.getvalue(), draw))
        for one in stored:
            entries.pop(one)
        entries |= changed
    elif name.endswith(".txt"):
        entries[name] = text_changed(entries[name], draw)
    else:
        entries[name] = json_changed(entries[name], draw)
    return name[:5], packed(entries)


# ---------------------------------------------------------------------- the process that reads them

WORKER = """
import hashlib, json, resource, sys, warnings
import numpy as np
from scipy import sparse
import catboost, lightgbm, xgboost
import ebboost as eb
from ebboost.model import serialization as modelfile

warnings.simplefilter("ignore")
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
N = 5


def rows(model):
    random, reader = np.random.default_rng(0), model.state_.reader
    if reader.is_sparse:
        shape = (N, len(reader.names))
        return sparse.csr_array(random.random(shape) * (random.random(shape) < 0.2))
    kind = object if reader.categories else float
    table = random.normal(size=(N, len(reader.names))).astype(kind)
    for position in range(table.shape[1]):
        if position in reader.categories:
            table[:, position] = [*reader.categories[position], *[None] * N][:N]
    places = model.state_.coordinates
    missing = np.arange(table.shape[1])
    missing = missing if places is None else np.setdiff1d(missing, places.columns)
    table[N - 1, missing] = None
    return table


def new_graph(model):
    fitted = model.graph_
    if fitted is None:
        return None
    directed = fitted.outgoing is not None
    graph = eb.Graph.from_edges(range(N - 1), range(1, N), n_nodes=N, directed=directed)
    strengths = model.relation_strengths_
    return graph if strengths is None else dict.fromkeys(strengths, graph)


def checked(predictions):
    assert predictions.dtype.kind == "f" and not np.isnan(predictions).any(), predictions


def tried(path):
    try:
        modelfile.describe(path)
        is_described = True
    except eb.ModelFileError:
        is_described = False
    try:
        model = eb.load(path)
    except eb.ModelFileError as error:
        assert len(str(error)) < 2000
        return "refused"
    assert is_described, "loaded, but describe() rejects it"
    state = model.state_
    call = getattr(model, "predict_proba", model.predict)
    fitted = call()
    checked(fitted)
    model.predict()
    model.summary()
    repr(model.graph_)
    model.feature_importances_
    graph = new_graph(model)
    arguments = {"graph": graph}
    if state.graph is not None and state.graph.groups is not None:
        arguments = {"groups": state.graph.groups.graph.node_ids[[0] * N]}
    elif state.coordinates is not None and not state.coordinates.columns:
        arguments = {"coordinates": np.zeros((N, 2))}
    elif state.coordinates is not None:
        arguments = {}
    elif state.is_causal:
        arguments["time"] = np.arange(N)
    if state.offset is not None:
        arguments["offset"] = np.zeros(N)
    checked(call(rows(model), **arguments))
    masked = isinstance(model.labels_, eb.MaskedLabels)  # has no such sum
    if state.table is not None and not masked and not state.is_causal:
        model.explanations([0])
    if not state.is_causal:
        predictor = model.predictor()
        predictor.predict([0])
        try:
            predictor.update([0], rows(model)[:1])
        except ValueError as error:
            if "cannot change" not in str(error):
                raise
    if state.is_classifier:
        model.predict_distribution()
    elif state.spread is not None:
        checked(model.predict(interval=0.8).lower)
        checked(model.predict_distribution().quantile([0.1, 0.9]))
        checked(model.predict_distribution(rows(model), **arguments).variance)
        model.uncertainty([0])
    if "graph" in arguments and isinstance(graph, eb.Graph) and model.labels_ is not None:
        y = model.classes_[:1] if hasattr(model, "classes_") else [0.5]
        checked(call(rows(model), **arguments, new_labels=([0], y)))
    return "predicts " + hashlib.sha256(fitted.tobytes()).hexdigest()


for path in sys.argv[2:]:  # libraries reserve a gigabyte for the stacks of their threads
    tried(path)
with open("/proc/self/status") as status:
    used = next(int(line.split()[1]) for line in status if line.startswith("VmSize")) * 1024
resource.setrlimit(resource.RLIMIT_AS, (used + int(sys.argv[1]),) * 2)
print("ready", flush=True)
for line in sys.stdin:
    try:
        outcome = tried(line.strip())
    except BaseException as error:
        outcome = f"FINDING {type(error).__name__}: {str(error)[:300]}"
        import traceback
        place = traceback.extract_tb(error.__traceback__)[-1]
        outcome = f"{outcome} ({place.filename.rsplit('/', 1)[-1]}:{place.lineno})"
    print(json.dumps(outcome), flush=True)
"""


class Reader:
    """A process that loads files on request and is restarted when it dies."""

    def __init__(self, seeds: Sequence[Path]) -> None:
        self.seeds = seeds
        self.process: Any = None
        self.count = 0

    def start(self) -> None:
        """Begin, and wait until the libraries are there."""
        self.process = subprocess.Popen(
            [sys.executable, "-c", WORKER, str(MORE_MEMORY), *map(str, self.seeds)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
        )
        self.received = b""
        self.answer(120.0)

    def answer(self, timeout: float) -> bytes | None:
        """The next line, empty if the process is gone, or None if there is none in time."""
        end = time.monotonic() + timeout
        with selectors.DefaultSelector() as waiting:
            waiting.register(self.process.stdout, selectors.EVENT_READ)
            while b"\n" not in self.received:
                if not waiting.select(max(end - time.monotonic(), 0.0)):
                    return None
                more = self.process.stdout.read(65_536)
                if not more:
                    return b""
                self.received += more
        line, _, self.received = self.received.partition(b"\n")
        return line

    def tried(self, path: Path) -> str:
        """What became of one file."""
        self.count += 1
        if (
            self.process is None or self.process.poll() is not None or self.count % 500 == 0
        ):  # libraries leak a little
            self.stop()
            self.start()
        self.process.stdin.write(f"{path}\n".encode())
        line: bytes | None
        end, done, line = time.monotonic() + LONGEST, self.worked(), b"-"
        while (
            line is None or (line and not line.startswith(b'"'))
        ) and time.monotonic() < end:  # libraries print too
            line = self.answer(1.0)
            if line is None and self.worked() - done > PATIENCE:
                break
        if line:
            return str(json.loads(line))
        if line is None:
            spent = self.worked() - done
            self.stop()
            return f"FINDING no answer after {spent:.0f} seconds of work"
        return f"FINDING died with {self.process.wait()}"

    def worked(self) -> float:
        """Seconds that its threads have computed."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self) -> None:
        """End it."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process.stdin.close()
            self.process.stdout.close()


def fuzz(seconds: float, seed: int, keep: Path, most: int | None = None) -> dict[str, Any]:
    """Try changed files for so long, or so many; keep those that are findings, and count."""
    seeds = sorted(GOLDEN.glob("*/*.ebb"))
    draw, reader = random.Random(seed), Reader(seeds)
    keep.mkdir(parents=True, exist_ok=True)
    path = keep / "now.ebb"
    outcomes: Counter[str] = Counter()
    findings: dict[str, str] = {}
    end = time.monotonic() + seconds
    slowest = 0.0
    try:
        reader.start()
        unchanged = {seed: reader.tried(seed) for seed in seeds}
        while time.monotonic() < end and (most is None or sum(outcomes.values()) < most):
            source, other = draw.choice(seeds), draw.choice(seeds)
            how, content = mutated(source.read_bytes(), other.read_bytes(), draw)
            path.write_bytes(content)
            began = time.monotonic()
            outcome = reader.tried(path)
            slowest = max(slowest, time.monotonic() - began)
            if how == "bytes" and outcome not in ("refused", unchanged[source]):
                outcome = f"FINDING other predictions than {source.name}: {outcome}"
            if outcome.startswith("FINDING"):
                name = f"{seed}-{sum(outcomes.values())}.ebb"
                path.replace(keep / name)
                findings[name] = f"{how}: {outcome}"
                print(name, findings[name], file=sys.stderr, flush=True)
            outcomes[f"{how}: {outcome.partition(' ')[0]}"] += 1
    except KeyboardInterrupt:
        pass  # the summary of the files so far
    finally:
        reader.stop()
        path.unlink(missing_ok=True)
    summary = {"executions": sum(outcomes.values()), "slowest": round(slowest, 2)}
    return summary | dict(sorted(outcomes.items())) | {"findings": findings}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, help="default: 60, or as long as --files takes")
    parser.add_argument("--files", type=int, help="end after so many files")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--keep", type=Path, default=Path("build/fuzz-files"), help="folder for findings"
    )
    options = parser.parse_args()
    seconds = options.seconds or (60.0 if options.files is None else math.inf)
    summary = fuzz(seconds, options.seed, options.keep, options.files)
    print(json.dumps(summary, indent=1))
    sys.exit(1 if summary["findings"] else 0)
