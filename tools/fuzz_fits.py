"""Fit, predict, save and load whatever `ebboost.testing` draws: each must end in finite predictions or in our own error.

    python tools/fuzz_fits.py --seconds 300 --seed 0
    python tools/fuzz_fits.py --seed 17 --case 31        # one case of one batch again, with its traceback

Cases are run in a process of their own, a batch at a time, so that a crash or a hang costs a batch and is reported. What
counts as a mistake: an error that was not raised by ebboost (or by scikit-learn's checks of an argument, in its words), a
warning from numpy, scipy or a tree library, a prediction that is not finite or of another length, a model that predicts
otherwise once it was saved and loaded, a crash, a hang.
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
from ebboost.testing import Case, cases

OURS = str(Path(eb.__file__).parent)
BATCH = 100
# Our own, and what a regressor of the user's says of the columns it is given.
WORDS_OF_WARNINGS = ("Conjugate gradients", "directions", "column-vector", "ill-conditioned matrix")


class Mistake(Exception):
    """What a user must never meet."""


def run(case: Case, folder: str) -> str:
    """Fit and use one case; the kind of outcome."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        outcome = _fitted_and_used(case, folder)
    for warning in caught:
        if not any(words in str(warning.message) for words in WORDS_OF_WARNINGS):
            raise Mistake(
                f"{warning.category.__name__} from {warning.filename}:{warning.lineno}: {warning.message}"
            )
    return outcome


def _fitted_and_used(case: Case, folder: str) -> str:
    model, n = case.estimator, len(case.y)
    try:
        model.fit(case.X, case.y, graph=case.graph, **case.fit)
    except (ValueError, TypeError) as error:
        return f"fit refused: {_named(error)}"
    _finite(model, None, n)
    model.summary()
    _finite_array(model.feature_importances_, model.n_features_in_)
    new: dict[str, Any] = {} if case.graph is None else {"graph": case.new_graph}
    try:
        _finite(model, case.X, n, **new)
    except (ValueError, TypeError) as error:
        return f"fitted; new graph refused: {_named(error)}"
    if not (model.predict(nodes=[n - 1, 0]) == model.predict()[[n - 1, 0]]).all():
        raise Mistake("some nodes are predicted otherwise than all are")
    trained = set(model._training.nodes.tolist())
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
            _named(error)
    path = os.path.join(folder, "model.ebb")
    try:
        model.save(path)
    except ValueError as error:
        return f"fitted; save refused: {_named(error)}"
    again = eb.load(path)
    if not np.array_equal(again.predict(), model.predict()):
        raise Mistake("a loaded model predicts otherwise")
    if not np.array_equal(again.predict(case.X, **new), model.predict(case.X, **new)):
        raise Mistake("a loaded model predicts otherwise on a new graph")
    try:
        for part in model.explain([0, n - 1] if n > 1 else [0]):
            scale = max(abs(part.score), abs(part.base), 1.0)
            if not abs(part.total - part.score) <= 1e-3 * scale:
                raise Mistake(f"an explanation adds up to {part.total}, not to {part.score}")
    except (ValueError, TypeError) as error:
        return f"fitted; explain refused: {_named(error)}"
    return "fitted"


def _finite(model: Any, X: Any, n: int, **arguments: Any) -> None:
    if hasattr(model, "predict_proba"):
        probabilities = model.predict_proba(X, **arguments)
        _finite_array(probabilities, n)
        if not np.allclose(probabilities.sum(axis=1), 1.0) or probabilities.min() < 0:
            raise Mistake("probabilities do not add up to 1")
        if len(model.predict(X, **arguments)) != n:
            raise Mistake("a class for each node was expected")
        return
    _finite_array(model.predict(X, **arguments), n)
    if model.conformity_scores_.size:
        told = model.predict(X, interval=0.8, **arguments)
        if not (told.lower <= told.prediction).all() or not (told.upper >= told.prediction).all():
            raise Mistake("a prediction lies outside of its interval")


def _finite_array(values: Any, n: int) -> None:
    if len(values) != n or not np.isfinite(values).all():
        raise Mistake(f"expected {n} finite numbers, got {np.asarray(values)!r:.200}")


def _named(error: Exception) -> str:
    """Our own message, or a mistake."""
    frames = traceback.extract_tb(error.__traceback__)
    last = frames[-1].filename
    checked_by_sklearn = "sklearn/utils/validation.py" in last.replace(
        os.sep, "/"
    ) and "learners" not in "".join(frame.filename for frame in frames)
    if (not last.startswith(OURS) and not checked_by_sklearn) or not str(error):
        raise Mistake(
            f"an error from {last}:{frames[-1].lineno}: {type(error).__name__}: {error}"
        ) from error
    return f"{type(error).__name__} in {Path(last).name}:{frames[-1].lineno}"


def batch(number: int, nodes: int, only: int | None = None) -> None:
    """Run the cases of one batch, a line of JSON before and after each."""
    count = -1

    def say(**what: Any) -> None:
        print(json.dumps(what), flush=True)

    @seed(number)
    @settings(
        max_examples=BATCH,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(cases(extreme=True, max_nodes=nodes))
    def each(case: Case) -> None:
        nonlocal count
        count += 1
        if only is not None and count != only:
            return
        if only is not None:
            print(_shown(case))
        say(start=count, case=_shown(case))
        try:
            with tempfile.TemporaryDirectory() as folder:
                outcome = run(case, folder)
        except Exception as error:
            if only is not None:
                traceback.print_exc()
            place = [
                f for f in traceback.extract_tb(error.__traceback__) if f.filename.startswith(OURS)
            ]
            where = f" via {Path(place[-1].filename).name}:{place[-1].lineno}" if place else ""
            say(mistake=f"{type(error).__name__}: {str(error)[:400]}{where}")
        else:
            say(outcome=outcome)

    each()


def _shown(case: Case) -> str:
    X = f"{type(case.X).__name__} {getattr(case.X, 'dtype', '')}"
    return f"{case.estimator!r} X={X} y={np.asarray(case.y)!r:.80} graph={case.graph!r:.120} {list(case.fit)}".replace(
        "\n", " "
    )


def supervise(seconds: float, first: int, limit: float, nodes: int) -> int:
    """Run batches until the time is up; the number of mistakes."""
    end, outcomes, mistakes, number, executed = (
        time.monotonic() + seconds,
        Counter[str](),
        [],
        first,
        0,
    )
    while time.monotonic() < end:
        command = [sys.executable, __file__, "--batch", str(number), "--nodes", str(nodes)]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as worker:
            try:
                said, errors = worker.communicate(timeout=limit)
                died = (
                    None
                    if worker.returncode == 0
                    else f"exit code {worker.returncode}: {errors[-300:]}"
                )
            except subprocess.TimeoutExpired:
                worker.kill()
                said, errors = worker.communicate()
                died = f"hang: the batch took more than {limit:g} s"
        running: dict[str, Any] = {}
        for line in said.splitlines():
            told = json.loads(line) if line.startswith("{") else {}
            if "start" in told:
                running, executed = told, executed + 1
            elif "outcome" in told:
                outcomes[told["outcome"]] += 1
                running = {}
            elif "mistake" in told:
                mistakes.append((number, running["start"], told["mistake"], running["case"]))
                running = {}
        if died is not None:
            mistakes.append((number, running.get("start", -1), died, running.get("case", "")))
        number += 1
    print(f"{executed} cases in batches {first} to {number - 1}")
    for outcome, count in outcomes.most_common():
        print(f"{count:6d}  {outcome}")
    print(f"{len(mistakes):6d}  mistakes")
    for found_in, case, what, shown in mistakes:
        print(f"\n--seed {found_in} --case {case}: {what}\n    {shown}")
    return len(mistakes)


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
    given_to = parser.parse_args()
    if given_to.batch is not None:
        batch(given_to.batch, given_to.nodes)
    elif given_to.case is not None:
        batch(given_to.seed, given_to.nodes, given_to.case)
    else:
        sys.exit(supervise(given_to.seconds, given_to.seed, given_to.limit, given_to.nodes) > 0)


if __name__ == "__main__":
    main()
