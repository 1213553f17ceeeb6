"""Fit, predict, save and load random cases: each must end in finite predictions or a clear error.

    python tools/fuzz_fits.py --seconds 300 --seed 0
    python tools/fuzz_fits.py --case 31        # one case again, with its traceback

Cases run in a process of their own, a batch at a time, so that a crash or a hang costs a batch and
is reported. A failure is: an error that was not raised by ebboost (or by scikit-learn's checks of
an argument), a warning of another library, a prediction that is not finite or of another length, a
model that predicts differently once it was saved and loaded, a crash, a hang.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

import ebboost as eb

PACKAGE = str(Path(eb.__file__).parent)
BATCH = 25
MOST_SECONDS = 300  # of a batch
CHECKS = ("sklearn/utils/validation.py", "sklearn/utils/_param_validation.py")


class Failure(Exception):
    """An outcome that must not occur."""


def table(rng: np.random.Generator, n: int) -> Any:
    """Return a table of one kind or another, with missing and constant columns."""
    X = rng.normal(size=(n, rng.integers(1, 6))) * 10.0 ** rng.integers(-8, 9)
    X[rng.random(X.shape) < rng.choice([0.0, 0.0, 0.2])] = np.nan
    kind = rng.integers(4)
    if kind == 0:
        return X
    if kind == 1:
        return sparse.csr_array(np.where(rng.random(X.shape) < 0.5, np.nan_to_num(X), 0.0))
    frame = pd.DataFrame(X, columns=[f"x{number}" for number in range(X.shape[1])])
    frame["kind"] = rng.choice(["a", "b", "ü"], n)
    frame["same"] = 1.0
    return frame if kind == 2 else frame.assign(kind=frame["kind"].astype("category"))


def graph(rng: np.random.Generator, n: int) -> eb.Graph | None:
    """Return no graph, or one with isolated nodes, loops, and weights of any size."""
    if rng.random() < 0.15:
        return None
    ends = rng.integers(0, n, (2, rng.integers(0, 4 * n)))
    weight = 10.0 ** rng.uniform(-6, 6, ends.shape[1]) if rng.random() < 0.3 else None
    return eb.Graph.from_edges(*ends, weight, n_nodes=n)


def case(seed: int) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
    """Return an estimator, its table, labels and graph, and further arguments of fit."""
    rng = np.random.default_rng(seed)
    n = int(rng.choice([1, 2, 5, 12, 40, 120, 300]))
    X, g = table(rng, n), graph(rng, n)

    def one(*values: Any) -> Any:
        return values[rng.integers(len(values))]

    loss = one("auto", "auto", "huber", "quantile", "poisson", "negative_binomial", "gamma")
    settings: dict[str, Any] = {
        "n_estimators": int(rng.integers(1, 15)),
        "n_folds": one("auto", 1, 2, 3),
        "early_stopping": one(True, True, False, 3),
        "learning_rate": one(None, 0.1, 1.0),
        "smoothing": one("auto", "auto", None, eb.Laplacian(2.0, 3)),
        "labels": one("auto", "auto", "none", "field", eb.LatentField(0.5, 0.01)),
        "neighbor_features": one("auto", "auto", None, eb.NeighborFeatures()),
        "spectral_features": one("auto", None, None, eb.SpectralFeatures(3)),
        "learner": one("lightgbm", "lightgbm", "xgboost", eb.RandomNetwork(8)),
    }
    settings |= {"random_state": 0, "n_jobs": 1}
    noise = rng.normal(size=n)
    if rng.random() < 0.3:
        y = np.array(["no", "yes", "maybe"], dtype=object)[rng.integers(0, one(1, 2, 3), n)]
        y[rng.random(n) < 0.3] = None
        model: Any = eb.EBBSClassifier(**settings)
    else:
        counts = loss not in ("auto", "huber", "quantile")
        y = rng.poisson(np.exp(noise)) + (loss == "gamma") * 0.5 if counts else noise
        y = y * (1.0 if counts else 10.0 ** rng.integers(-8, 9))
        y = np.where(rng.random(n) < 0.3, np.nan, y)
        model = eb.EBBSRegressor(loss=loss, **settings)
    more: dict[str, Any] = {}
    if rng.random() < 0.2:
        more["sample_weight"] = rng.choice([0.0, 0.5, 2.0], n)
    if rng.random() < 0.1:
        more["time"] = rng.integers(0, 9, n)
    if rng.random() < 0.2:
        more["offset"] = rng.normal(size=n)
    return model, X, y, g, more


def finite(values: Any, n: int) -> None:
    """Check an array."""
    if len(values) != n or not np.isfinite(values).all():
        raise Failure(f"expected {n} finite numbers, got {np.asarray(values)!r:.200}")


def own_error(error: Exception) -> str:
    """Return where ebboost raised an error; any other error is a failure."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    checked = last.filename.replace(os.sep, "/").endswith(CHECKS)
    if not (last.filename.startswith(PACKAGE) or checked) or not str(error):
        raise error
    return f"{type(error).__name__} in {Path(last.filename).name}:{last.lineno}"


def run(seed: int) -> str:
    """Fit and use one case; return the kind of outcome."""
    model, X, y, g, more = case(seed)
    n = len(y)
    try:
        model.fit(X, y, graph=g, **more)
    except (ValueError, TypeError) as error:
        return f"rejected: {own_error(error)}"
    model.summary()
    predict = getattr(model, "predict_proba", model.predict)
    fitted = predict()
    finite(fitted, n)
    again = predict(nodes=[n - 1, 0])
    if not np.allclose(again, fitted[[n - 1, 0]], rtol=1e-6, atol=1e-9 * np.abs(fitted).max()):
        raise Failure("some rows are predicted differently on their own")
    new = {} if g is None else {"graph": g}
    new |= {name: more[name] for name in ("offset",) if name in more}
    finite(predict(X, **new), n)
    try:
        found = model.predict(interval=0.8)
        if hasattr(found, "lower") and not (found.lower <= found.upper).all():
            raise Failure("an interval ends before it starts")
    except (ValueError, TypeError) as error:
        own_error(error)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.ebb")
        try:
            model.save(path)
        except ValueError as error:
            return f"fitted; not saved: {own_error(error)}"
        loaded = eb.load(path)
    loaded_predict = getattr(loaded, "predict_proba", loaded.predict)
    if not np.array_equal(loaded_predict(), fitted):
        raise Failure("a loaded model predicts differently")
    return "fitted"


def batch(first: int) -> None:
    """Run the cases of a batch; print a line before and after each."""
    for seed in range(first, first + BATCH):
        print(f"start {seed}", flush=True)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                outcome = run(seed)
            except Exception as error:
                frames = traceback.extract_tb(error.__traceback__)
                places = [frame for frame in frames if frame.filename.startswith(PACKAGE)]
                where = (
                    f" via {Path(places[-1].filename).name}:{places[-1].lineno}" if places else ""
                )
                outcome = f"FAILED: {type(error).__name__}: {str(error)[:300]}{where}"
        strange = [one for one in caught if not issubclass(one.category, UserWarning)]
        if strange and not outcome.startswith("FAILED"):
            outcome = f"FAILED: warning {strange[0].message} from {strange[0].filename}"
        print(f"end {' '.join(outcome.split())}", flush=True)


def supervise(seconds: float, first: int) -> int:
    """Run batches until the time is up; return the number of failures."""
    end = time.monotonic() + seconds
    outcomes = Counter[str]()
    failures = []
    while time.monotonic() < end:
        command = [sys.executable, __file__, "--batch", str(first)]
        with tempfile.TemporaryFile("w+") as out:
            try:
                done = subprocess.run(command, stdout=out, timeout=MOST_SECONDS, check=False)
                died = f"exit code {done.returncode}" if done.returncode else ""
            except subprocess.TimeoutExpired:
                died = f"hang: more than {MOST_SECONDS} s"
            out.seek(0)
            lines = out.read().splitlines()
        for start, stop in zip(lines[::2], [*lines[1::2], f"end FAILED: {died}"], strict=False):
            outcome = stop.removeprefix("end ")
            outcomes[outcome.partition(":")[0]] += 1
            if outcome.startswith("FAILED"):
                failures.append(f"--case {start.removeprefix('start ')}: {outcome}")
        first += BATCH
    print("\n".join(f"{count:6d}  {outcome}" for outcome, count in outcomes.most_common()))
    print("\n".join(failures))
    return len(failures)


def main() -> int:
    """Read the command line; return 1 if a case failed."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0, help="number of the first case")
    parser.add_argument("--case", type=int, help="run one case here")
    parser.add_argument("--batch", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.batch is not None:
        batch(options.batch)
    elif options.case is not None:
        print(*case(options.case), sep="\n")
        print(run(options.case))
    else:
        return 1 if supervise(options.seconds, options.seed) else 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
