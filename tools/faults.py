"""Disturb fits on purpose and see that their results are, bit for bit, those of undisturbed ones.

    python tools/faults.py --minutes 5 --seed 0

Each fit runs in a process of its own. It is killed (SIGKILL) at a random moment or in the midst of writing a checkpoint,
finds the disk full, gets Ctrl-C, has a callback that raises, or finds its newest checkpoint damaged; then it is resumed, and
disturbed again, until it ends. A table says how often, and how many results were identical.
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
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.linear_model import Ridge
from sklearn.tree import ExtraTreeRegressor

import ebboost as eb

ROUNDS = 40
DISTURBANCES = 3  # of one fit, at most
FAULTS = {
    "killed at a random moment": "moment",
    "killed while writing a checkpoint": "writing",
    "newest checkpoint damaged after a kill": "damage",
    "disk full while writing": "full",
    "Ctrl-C": "interrupt",
    "a callback raised": "callback",
}
_SMOOTH = eb.Laplacian(1.0, 2)
_GIVEN = {"smoothing": _SMOOTH, "labels": "none"}
_DRAWING = {"subsample": 0.7, "colsample_bytree": 0.5}
CASES: dict[str, dict[str, Any]] = {
    "model selection": {},
    "model selection, classes": {"classes": True},
    "LightGBM": {**_GIVEN, "learner": eb.LightGBM(7)},
    "LightGBM drawing rows and columns": {**_GIVEN, "learner": eb.LightGBM(7, **_DRAWING)},
    "LightGBM extra trees": {
        **_GIVEN,
        "learner": eb.LightGBM(
            7, **_DRAWING, params={"extra_trees": True, "feature_fraction_bynode": 0.5}
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
    "no early stopping": {**_GIVEN, "early_stopping": False},
    "few labels": {**_GIVEN, "few": True},
    "classes": {
        "smoothing": _SMOOTH,
        "labels": "field",
        "classes": True,
        "learner": eb.LightGBM(7, **_DRAWING),
    },
    "XGBoost": {**_GIVEN, "learner": eb.XGBoost(3)},
    "XGBoost drawing rows and columns": {**_GIVEN, "learner": eb.XGBoost(3, **_DRAWING)},
    "XGBoost classes": {**_GIVEN, "classes": True, "learner": eb.XGBoost(3)},
    "CatBoost": {**_GIVEN, "learner": eb.CatBoost(3)},
    "scikit-learn": {**_GIVEN, "learner": [ExtraTreeRegressor(max_depth=3), Ridge()]},
}


def fitted(case: str, **arguments: Any) -> Any:
    """Fit one of the cases."""
    parameters = dict(CASES[case])
    classes, few = parameters.pop("classes", False), parameters.pop("few", False)
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
    losses = {name: values for name, values in model.history_.items() if name != "seconds"}
    digest.update(
        repr(
            (losses, model.n_iter_, model.stop_reason_, model.selection_, model.best_candidate_)
        ).encode()
    )
    return digest.hexdigest()


# ---------------------------------------------------------------------- what happens inside a process that is disturbed


class Raising(eb.Callback):
    """Raises in a fixed round."""

    def __init__(self, number: int) -> None:
        self.number = number

    def after_round(self, progress: eb.RoundInfo) -> None:
        """Raise if it is time to."""
        if progress.round + 1 == self.number:
            raise RuntimeError("a callback raised")


class Lifting(eb.Callback):
    """Ends the shortage of disk when training ends: CatBoost makes its models by way of files of their own."""

    def after_training(self, model: Any) -> Any:
        """Allow files of any size."""
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        return model


def kill_while_writing(after: int) -> None:
    """Let this process kill itself before or after one of the steps in which a checkpoint is written."""
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
    """Fit, resuming where there is something to resume, and print a hash of the model; never returns."""
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


# ---------------------------------------------------------------------- outside


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
    number = os.fork()
    if number == 0:
        os.close(reading)
        child(case, folder, every, fault, random.Random(seed), writing)
    os.close(writing)
    with os.fdopen(reading, "rb") as answers:
        answers.readline()
        start = time.perf_counter()
        if fault in ("moment", "damage", "interrupt"):
            time.sleep(draw.uniform(0.0, seconds))
            os.kill(number, signal.SIGINT if fault == "interrupt" else signal.SIGKILL)
        answer = answers.read().decode().strip()
    os.waitpid(number, 0)
    took = time.perf_counter() - start
    disturbed = answer in ("", "interrupted") or fault == "full"
    if fault == "damage" and folder is not None and disturbed:
        disturbed = damage(folder, draw)
    return answer, took, disturbed


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


def main() -> int:
    """Disturb fits until the time is over; exit 1 if any result was another."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument(
        "--fits", type=int, help="so many fits that were disturbed, instead of so many minutes"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cases", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    draw = random.Random(options.seed)
    undisturbed = {case: run(case, None, 1, None, draw, 0.0)[:2] for case in options.cases}
    injected, resumed = Counter[str](), Counter[str]()
    fits, identical, others = Counter[str](), Counter[str](), list[str]()
    until = time.monotonic() + 60.0 * options.minutes
    while time.monotonic() < until if options.fits is None else fits.total() < options.fits:
        case, every = draw.choice(options.cases), draw.randint(1, 12)
        name, fault = list(FAULTS.items())[fits.total() % len(FAULTS)]
        truth, seconds = undisturbed[case]
        folder = tempfile.mkdtemp(prefix="ebboost-faults-")
        try:
            hit = n_resumed = 0
            for turn in range(DISTURBANCES + 1):
                n_resumed += bool(checkpoints(folder))
                # Writing takes longer than the undisturbed fit did: kills come anywhere between its start and its end.
                answer, _, disturbed = run(
                    case, folder, every, fault if turn < DISTURBANCES else None, draw, 2.5 * seconds
                )
                hit += disturbed
                if answer not in ("", "interrupted"):
                    break
        finally:
            shutil.rmtree(folder)
        if not hit:  # it ended before its time came
            continue
        injected[name] += hit
        resumed[name] += n_resumed
        fits[name] += 1
        identical[name] += answer == truth
        if answer != truth:
            others.append(f"{case}: {name}, a checkpoint every {every} rounds")
    if options.json:
        print(
            json.dumps(
                {
                    name: [injected[name], resumed[name], fits[name], identical[name]]
                    for name in FAULTS
                }
            )
        )
    else:
        print(
            f"{'fault':40}{'injected':>9}{'resumed from a checkpoint':>27}{'fits':>6}{'identical':>11}"
        )
        for name in FAULTS:
            print(
                f"{name:40}{injected[name]:>9}{resumed[name]:>27}{fits[name]:>6}{identical[name]:>11}"
            )
        print(
            f"{'all':40}{injected.total():>9}{resumed.total():>27}{fits.total():>6}{identical.total():>11}"
        )
    for text in others:
        print("ANOTHER RESULT:", text, file=sys.stderr)
    return 1 if others else 0


if __name__ == "__main__":
    sys.exit(main())
