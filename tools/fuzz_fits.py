"""Fit, predict, save and load random cases: each must end in finite predictions or a clear error.

    python tools/fuzz_fits.py --seconds 300 --seed 0
    python tools/fuzz_fits.py --seed 17 --case 31        # one case again, with its traceback

Cases come from tests/strategies.py and run in a process of their own, a batch at a time, so that a
crash or a hang costs a batch and is reported. What counts as a failure: an error that was not
raised by ebboost (or by scikit-learn's checks of an argument), a warning from numpy, scipy or a
tree library, a prediction that is not finite or of another length, a model that predicts
differently once it was saved and loaded, a crash, a hang.
"""

import argparse
import json
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
from hypothesis import HealthCheck, Phase, given, seed, settings

import ebboost as eb
from ebboost.testing import Case

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.strategies import hard_cases

PACKAGE = str(Path(eb.__file__).parent)
BATCH = 100
# Warnings of ebboost itself, and of regressors that are used as learners.
EXPECTED_WARNINGS = ("Conjugate gradients", "column-vector", "ill-conditioned matrix", "new nodes")


class Failure(Exception):
    """An outcome that must not occur."""


def run(case: Case, folder: str) -> str:
    """Fit and use one case; returns the kind of outcome."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        outcome = _fit_and_use(case, folder)
    for warning in caught:
        if not any(words in str(warning.message) for words in EXPECTED_WARNINGS):
            raise Failure(
                f"{warning.category.__name__} from {warning.filename}:{warning.lineno}: "
                f"{warning.message}"
            )
    return outcome


def _fit_and_use(case: Case, folder: str) -> str:
    model = case.estimator
    n = len(case.y)
    try:
        model.fit(case.X, case.y, graph=case.graph, **case.fit)
    except (ValueError, TypeError) as error:
        return f"fit rejected: {_origin(error)}"
    _finite(model, None, n)
    model.summary()
    _finite_array(model.feature_importances_, model.n_features_in_)
    new: dict[str, Any] = {} if case.graph is None else {"graph": case.new_graph}
    try:
        _finite(model, case.X, n, **new)
    except (ValueError, TypeError) as error:
        return f"fitted; new graph rejected: {_origin(error)}"
    if not (model.predict(nodes=[n - 1, 0]) == model.predict()[[n - 1, 0]]).all():
        raise Failure("some nodes are predicted differently on their own")
    trained = set(model.state_.labels.nodes.tolist())
    if unknown := [node for node in range(n) if node not in trained]:
        known = [
            value for node, value in enumerate(np.asarray(case.y).tolist()) if node in trained
        ][:1]
        try:
            predicted = getattr(model, "predict_proba", model.predict)(
                new_labels=(unknown[:1], known)
            )
            _finite_array(predicted, n)
        except (ValueError, TypeError) as error:
            _origin(error)
    path = os.path.join(folder, "model.ebb")
    try:
        model.save(path)
    except ValueError as error:
        return f"fitted; save rejected: {_origin(error)}"
    again = eb.load(path)
    if not np.array_equal(again.predict(), model.predict()):
        raise Failure("a loaded model predicts differently")
    if not np.array_equal(again.predict(case.X, **new), model.predict(case.X, **new)):
        raise Failure("a loaded model predicts differently on a new graph")
    try:
        for part in model.explanations([0, n - 1] if n > 1 else [0]):
            scale = max(abs(part.score), abs(part.base), 1.0)
            if not abs(part.total - part.score) <= 1e-3 * scale:
                raise Failure(f"an explanation adds up to {part.total}, not to {part.score}")
    except (ValueError, TypeError) as error:
        return f"fitted; explain rejected: {_origin(error)}"
    return "fitted"


def _finite(model: Any, X: Any, n: int, **arguments: Any) -> None:
    if hasattr(model, "predict_proba"):
        probabilities = model.predict_proba(X, **arguments)
        _finite_array(probabilities, n)
        if not np.allclose(probabilities.sum(axis=1), 1.0) or probabilities.min() < 0:
            raise Failure("probabilities do not add up to 1")
        if len(model.predict(X, **arguments)) != n:
            raise Failure("a class for each node was expected")
        return
    _finite_array(model.predict(X, **arguments), n)
    if model.validation_nodes_.size:
        intervals = model.predict(X, interval=0.8, **arguments)
        if not (intervals.lower <= intervals.upper).all():
            raise Failure("an interval ends before it starts")


def _finite_array(values: Any, n: int) -> None:
    if len(values) != n or not np.isfinite(values).all():
        raise Failure(f"expected {n} finite numbers, got {np.asarray(values)!r:.200}")


def _origin(error: Exception) -> str:
    """Where an error was raised, if by ebboost; else a failure."""
    frames = traceback.extract_tb(error.__traceback__)
    last = frames[-1].filename
    checks = ("sklearn/utils/validation.py", "sklearn/utils/_param_validation.py")
    by_learner = any("learners" in frame.filename for frame in frames)
    checked_by_sklearn = last.replace(os.sep, "/").endswith(checks) and not by_learner
    if (not last.startswith(PACKAGE) and not checked_by_sklearn) or not str(error):
        raise Failure(
            f"an error from {last}:{frames[-1].lineno}: {type(error).__name__}: {error}"
        ) from error
    return f"{type(error).__name__} in {Path(last).name}:{frames[-1].lineno}"


def batch(number: int, nodes: int, only: int | None = None) -> None:
    """Run the cases of one batch, a line of JSON before and after each."""
    count = -1

    def emit(**what: Any) -> None:
        print(json.dumps(what), flush=True)

    @seed(number)
    @settings(
        max_examples=BATCH,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(hard_cases(max_nodes=nodes))
    def each(case: Case) -> None:
        nonlocal count
        count += 1
        if only is not None and count != only:
            return
        if only is not None:
            print(_shown(case))
        emit(start=count, case=_shown(case))
        try:
            with tempfile.TemporaryDirectory() as folder:
                outcome = run(case, folder)
        except Exception as error:
            if only is not None:
                traceback.print_exc()
            frames = traceback.extract_tb(error.__traceback__)
            own = [frame for frame in frames if frame.filename.startswith(PACKAGE)]
            where = f" via {Path(own[-1].filename).name}:{own[-1].lineno}" if own else ""
            emit(failure=f"{type(error).__name__}: {str(error)[:400]}{where}")
        else:
            emit(outcome=outcome)

    each()


def _shown(case: Case) -> str:
    X = f"{type(case.X).__name__} {getattr(case.X, 'dtype', '')}"
    y = f"{np.asarray(case.y)!r:.80}"
    text = f"{case.estimator!r} X={X} y={y} graph={case.graph!r:.120} {list(case.fit)}"
    return text.replace("\n", " ")


def supervise(seconds: float, first: int, limit: float, nodes: int) -> int:
    """Run batches until the time is up; return the number of failures."""
    end = time.monotonic() + seconds
    outcomes = Counter[str]()
    failures = []
    number = first
    executed = 0
    while time.monotonic() < end:
        command = [sys.executable, __file__, "--batch", str(number), "--nodes", str(nodes)]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as worker:
            try:
                output, errors = worker.communicate(timeout=limit)
                died = (
                    None
                    if worker.returncode == 0
                    else f"exit code {worker.returncode}: {errors[-300:]}"
                )
            except subprocess.TimeoutExpired:
                worker.kill()
                output, errors = worker.communicate()
                died = f"hang: the batch took more than {limit:g} s"
        running: dict[str, Any] = {}
        for line in output.splitlines():
            event = json.loads(line) if line.startswith("{") else {}
            if "start" in event:
                running = event
                executed += 1
            elif "outcome" in event:
                outcomes[event["outcome"]] += 1
                running = {}
            elif "failure" in event:
                failures.append((number, running["start"], event["failure"], running["case"]))
                running = {}
        if died is not None:
            failures.append((number, running.get("start", -1), died, running.get("case", "")))
        number += 1
    print(f"{executed} cases in batches {first} to {number - 1}")
    for outcome, count in outcomes.most_common():
        print(f"{count:6d}  {outcome}")
    print(f"{len(failures):6d}  failures")
    for batch_number, case, what, shown in failures:
        print(f"\n--seed {batch_number} --case {case}: {what}\n    {shown}")
    return len(failures)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0, help="the first batch")
    parser.add_argument("--limit", type=float, default=120.0, help="seconds for a batch")
    parser.add_argument(
        "--nodes",
        type=int,
        default=70,
        help="nodes of the largest cases; from 1001 on solvers iterate",
    )
    parser.add_argument("--case", type=int, help="run one case of the batch --seed here")
    parser.add_argument("--batch", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.batch is not None:
        batch(arguments.batch, arguments.nodes)
    elif arguments.case is not None:
        batch(arguments.seed, arguments.nodes, arguments.case)
    else:
        sys.exit(supervise(arguments.seconds, arguments.seed, arguments.limit, arguments.nodes) > 0)


if __name__ == "__main__":
    main()
