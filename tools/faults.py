"""Interrupt fits on purpose and check that the resumed ones give the same model bit for bit.

    python tools/faults.py --minutes 5 --seed 0

Each fit runs in a process of its own. It is killed (SIGKILL) at a random moment or while it writes
a checkpoint, runs out of disk space, receives Ctrl-C, has a callback that raises, or has its newest
checkpoint damaged. It is then resumed, and interrupted again, until it ends. A table shows how
often each fault was injected and how many models were identical.
"""

import argparse
import hashlib
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.linear_model import Ridge
from sklearn.tree import ExtraTreeRegressor

import ebboost as eb

ROUNDS = 40
MAX_FAULTS = 3  # of one fit
FAULTS = {
    "killed at a random moment": "moment",
    "killed while writing a checkpoint": "writing",
    "newest checkpoint damaged after a kill": "damage",
    "disk full while writing": "full",
    "Ctrl-C": "interrupt",
    "a callback raised": "callback",
}
_SMOOTH = eb.Laplacian(1.0, 2)
_FIXED = {"smoothing": _SMOOTH, "labels": "none"}
_SAMPLING = {"subsample": 0.7, "colsample_bytree": 0.5}
CASES: dict[str, dict[str, Any]] = {
    "model selection": {"n_folds": 2},
    "model selection, classes": {"classes": True},
    "LightGBM": {**_FIXED, "learner": eb.LightGBM(7)},
    "LightGBM drawing rows and columns": {**_FIXED, "learner": eb.LightGBM(7, **_SAMPLING)},
    "LightGBM extra trees": {
        **_FIXED,
        "learner": eb.LightGBM(
            7, **_SAMPLING, params={"extra_trees": True, "feature_fraction_bynode": 0.5}
        ),
    },
    "field": {"smoothing": _SMOOTH, "labels": "field"},
    "leave-one-out, momentum": {"smoothing": _SMOOTH, "labels": "leave-one-out", "momentum": True},
    "masked, corrected momentum": {
        "smoothing": _SMOOTH,
        "labels": "masked",
        "momentum": "corrected",
    },
    "robust": {"smoothing": eb.Robust(), "labels": "field", "momentum": "corrected"},
    "no early stopping": {**_FIXED, "early_stopping": False},
    "few labels": {**_FIXED, "few": True},
    "classes": {
        "smoothing": _SMOOTH,
        "labels": "field",
        "classes": True,
        "learner": eb.LightGBM(7, **_SAMPLING),
    },
    "XGBoost": {**_FIXED, "learner": eb.XGBoost(3)},
    "XGBoost drawing rows and columns": {**_FIXED, "learner": eb.XGBoost(3, **_SAMPLING)},
    "XGBoost classes": {**_FIXED, "classes": True, "learner": eb.XGBoost(3)},
    "CatBoost": {**_FIXED, "learner": eb.CatBoost(3)},
    "scikit-learn": {**_FIXED, "learner": [ExtraTreeRegressor(max_depth=3), Ridge()]},
}


def fitted(case: str, **arguments: Any) -> Any:
    """Fit one of the cases."""
    parameters = dict(CASES[case])
    classes = parameters.pop("classes", False)
    few = parameters.pop("few", False)
    draw = np.random.default_rng(0)
    X = draw.normal(size=(240, 6))
    graph = eb.Graph.build_knn(X[:, :2], k=5)
    y = np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * draw.normal(size=len(X))
    if classes:
        y = np.digitize(y, [-0.5, 0.5]).astype(float)
    y[draw.random(len(X)) < (0.85 if few else 0.3)] = np.nan
    estimator = eb.EBBSClassifier if classes else eb.EBBSRegressor
    return estimator(ROUNDS, n_jobs=1, random_state=0, **parameters).fit(
        X, y, graph=graph, **arguments
    )


def fingerprint(model: Any) -> str:
    """A hash of a fitted model: trees, scores, losses, predictions."""
    digest = hashlib.sha256()
    try:
        texts = model.ensemble_.files()
    except ValueError:  # of scikit-learn: its predictions must do
        texts = {}
    for name, text in sorted(texts.items()):
        if name.startswith("trees-"):  # CatBoost numbers its models at random and notes the time
            text = json.dumps(json.loads(text) | {"model_info": None}).encode()
        digest.update(text)
    digest.update(model.scores_.tobytes() + np.ascontiguousarray(model.raw_predictions_).tobytes())
    tables = (model.history_, model.selection_)
    untimed = [{name: table[name] for name in table if name != "seconds"} for table in tables]
    facts = (untimed, model.state_.rounds, model.stop_reason_, model.best_candidate_)
    digest.update(repr(facts).encode())
    return digest.hexdigest()


class Raising(eb.Callback):
    """Raises after a number of rounds, those of all models together."""

    def __init__(self, number: int) -> None:
        self.number = number

    def after_round(self, progress: eb.RoundInfo) -> None:
        """Raise in that round."""
        self.number -= 1
        if not self.number:
            raise RuntimeError("a callback raised")


class Lifting(eb.Callback):
    """Lifts the limit on file sizes when training ends: CatBoost writes its models to files."""

    def after_training(self, model: Any) -> Any:
        """Allow files of any size."""
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        return model


def kill_while_writing(after: int) -> None:
    """Kill this process before or after one of the steps in which a checkpoint is written."""
    left = [after]

    def step(work: Callable[..., Any]) -> Callable[..., Any]:
        def stepped(*arguments: Any, **options: Any) -> Any:
            for moment in (True, False):
                left[0] -= 1
                if left[0] == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                if moment:
                    result = work(*arguments, **options)
            return result

        return stepped

    for name in ("fsync", "replace", "unlink"):
        setattr(os, name, step(getattr(os, name)))
    zipfile = sys.modules["zipfile"]
    zipfile.ZipFile.writestr = step(zipfile.ZipFile.writestr)


def child(
    case: str, folder: str | None, every: int, fault: str | None, draw: random.Random, answer: int
) -> None:
    """Fit or resume, write a fingerprint of the model to the pipe, and end the process."""
    try:
        warnings.simplefilter("ignore")
        arguments: dict[str, Any] = {}
        if folder is not None:
            checkpoint = eb.Checkpoint(
                folder, every=every, seconds=None, pickle=case == "scikit-learn"
            )
            arguments = {"checkpoint": checkpoint, "resume": True}
        if fault == "writing":
            kill_while_writing(draw.randint(1, 60))
        if fault == "full":
            arguments["callbacks"] = [Lifting()]
            resource.setrlimit(
                resource.RLIMIT_FSIZE, (draw.randint(1, 200_000), resource.RLIM_INFINITY)
            )
        if fault == "callback":
            arguments["callbacks"] = [Raising(draw.randint(1, ROUNDS))]
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.write(answer, b"begun\n")
        model = fitted(case, **arguments)
        ended = "interrupted" if model.stop_reason_ == "it was interrupted" else fingerprint(model)
        os.write(answer, f"{ended}\n".encode())
    except KeyboardInterrupt:  # before the first round, or in what comes after the last
        pass
    except BaseException as error:
        if str(error) != "a callback raised":
            traceback.print_exc()
            os.write(answer, b"failed\n")
    finally:
        os._exit(0)


def run(
    case: str,
    folder: str | None,
    every: int,
    fault: str | None,
    draw: random.Random,
    seconds: float,
) -> tuple[str, float, bool]:
    """Run one process; return its answer, its seconds, and whether it was interrupted."""
    reading, writing = os.pipe()
    seed = draw.random()
    process = os.fork()
    if process == 0:
        os.close(reading)
        child(case, folder, every, fault, random.Random(seed), writing)
    os.close(writing)
    with os.fdopen(reading, "rb") as answers:
        answers.readline()
        start = time.perf_counter()
        if fault in ("moment", "damage", "interrupt"):
            time.sleep(draw.uniform(0.0, seconds))
            os.kill(process, signal.SIGINT if fault == "interrupt" else signal.SIGKILL)
        answer = answers.read().decode().strip()
    os.waitpid(process, 0)
    duration = time.perf_counter() - start
    was_hit = answer in ("", "interrupted") or fault == "full"
    if fault == "damage" and folder is not None and was_hit:
        was_hit = damage(folder, draw)
    return answer, duration, was_hit


def checkpoints(folder: str) -> list[str]:
    """The names of the checkpoints in a folder, oldest first."""
    return sorted(name for name in os.listdir(folder) if name.endswith(".ckpt"))


def damage(folder: str, draw: random.Random) -> bool:
    """Change a byte of the newest checkpoint, or cut it short; whether there was one."""
    files = checkpoints(folder)
    if not files:
        return False
    path = os.path.join(folder, files[-1])
    with open(path, "r+b") as file:
        size = os.path.getsize(path)
        offset = draw.randrange(size)
        if draw.random() < 0.5:
            file.truncate(offset)
        else:
            file.seek(offset)
            byte = file.read(1)[0]
            file.seek(offset)
            file.write(bytes([byte ^ draw.randint(1, 255)]))
    return True


def interrupt_and_resume(
    case: str, every: int, fault: str, draw: random.Random, seconds: float
) -> tuple[str, int, int]:
    """Fit until the end; return the fingerprint, and the numbers of faults and of resumptions."""
    n_faults = 0
    n_resumed = 0
    folder = tempfile.mkdtemp(prefix="ebboost-faults-")
    try:
        for turn in range(MAX_FAULTS + 1):
            n_resumed += bool(checkpoints(folder))
            injected = fault if turn < MAX_FAULTS else None
            answer, _, was_hit = run(case, folder, every, injected, draw, seconds)
            n_faults += was_hit
            if answer not in ("", "interrupted"):
                break
    finally:
        shutil.rmtree(folder)
    return answer, n_faults, n_resumed


def main() -> int:
    """Interrupt fits until the time is over; return 1 if any model differs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--fits", type=int, help="number of interrupted fits, instead of minutes")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cases", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    draw = random.Random(options.seed)
    expected = {case: run(case, None, 1, None, draw, 0.0)[:2] for case in options.cases}
    columns = ("injected", "resumed", "fits", "identical")
    counts = {name: dict.fromkeys(columns, 0) for name in FAULTS}
    n_fits = 0
    differences = []
    until = time.monotonic() + 60.0 * options.minutes
    while time.monotonic() < until if options.fits is None else n_fits < options.fits:
        case = draw.choice(options.cases)
        every = draw.randint(1, 12)
        name, fault = list(FAULTS.items())[n_fits % len(FAULTS)]
        truth, seconds = expected[case]
        # Writing takes time: kills come anywhere between the start and the end of a fit.
        answer, n_faults, n_resumed = interrupt_and_resume(case, every, fault, draw, 2.5 * seconds)
        if not n_faults:  # the fit ended before the fault
            continue
        n_fits += 1
        values = (n_faults, n_resumed, 1, int(answer == truth))
        for column, value in zip(columns, values, strict=True):
            counts[name][column] += value
        if answer != truth:
            differences.append(f"{case}: {name}, a checkpoint every {every} rounds")
    if options.json:
        print(json.dumps({name: list(row.values()) for name, row in counts.items()}))
    else:
        total = {column: sum(row[column] for row in counts.values()) for column in columns}
        print(f"{'fault':40}" + "".join(f"{column:>11}" for column in columns))
        for name, row in {**counts, "all": total}.items():
            print(f"{name:40}" + "".join(f"{row[column]:>11}" for column in columns))
    for text in differences:
        print("DIFFERENT MODEL:", text, file=sys.stderr)
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
