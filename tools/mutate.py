"""Mutation testing of propagation and boosting: small changes that a test should detect.

    python tools/mutate.py --mutants 150 --seed 1

Mutants are made by cosmic-ray: another operator, number, comparison or constant, a decorator or a
loop less. Positions to change are drawn at random from all there are, one change for each. It is
run in a copy of the tree, by the tests that go through the changed line, the quickest first. What
survives is written to build/mutants/survivors.diff, every verdict to verdicts.jsonl.

Tests draw few examples, and always the same. A process for each mutant is forked from one that has
imported all but ebboost.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import difflib
import json
import os
import random
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from functools import cache
from hashlib import sha256
from itertools import accumulate, islice
from math import sqrt
from pathlib import Path
from typing import Any, NamedTuple

# What every mutant's process needs: imported once, here. None of it may start threads before the
# fork.
import coverage
import hypothesis
import lightgbm  # noqa: F401
import pandas  # noqa: F401
import polars  # noqa: F401
import pytest
import scipy.sparse.linalg  # noqa: F401
import sklearn.ensemble  # noqa: F401
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ["propagation", "boosting"]
TESTS = ["propagation", "boosting", "training", "theory", "graph", "backends/test_backends.py"]
QUIETLY = [
    "-x",
    "-q",
    "-p",
    "no:cacheprovider",
    "--no-header",
    "-W",
    "ignore::pytest.PytestAssertRewriteWarning",
]
EXAMPLES = 8
MEMORY = 3 * 2**30
# Changes that say nothing of the tests: small numbers and words that are equal are the same object,
# and to shift floats is a TypeError that no test has to look for.
TRIVIAL = re.compile(
    "Operator_(Eq_Is|NotEq_IsNot|Is_Eq|IsNot_NotEq|"
    "[A-Za-z]+_(LShift|RShift|Mod|MatMul)|[^B]\\w+_Bit\\w+)$"
)


@cache
def original(path: str) -> str:
    """A file as it was when this began, whatever is done to the tree meanwhile."""
    return (ROOT / path).read_text()


class Mutant(NamedTuple):
    """One change: an operator of cosmic-ray at its n-th position in a file."""

    path: str
    operator: str
    occurrence: int
    line: int
    column: int

    @property
    def position(self) -> tuple[Any, ...]:
        """Position and kind: ten changes of one + are one position, drawn once."""
        return self.path, self.operator.split("_")[0], self.line, self.column

    def code(self, source: str) -> str | None:
        """The file with the change in it."""
        return mutate_code(source, get_operator(self.operator)(), self.occurrence)


class _Meaning(ast.NodeTransformer):
    """Leaves out what never runs: annotations."""

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.annotation = None
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        node.annotation = ast.Constant(None)
        return self.generic_visit(node)


def meaning(source: str) -> str:
    """A text in which two files differ if they run differently."""
    return ast.dump(_Meaning().visit(ast.parse(source)))


def mutants(path: str) -> Iterator[Mutant]:
    """Every mutant of a file."""
    source = original(path)
    tree = get_ast(source)
    for name in sorted(operator_names()):
        kind = get_operator(name)
        if TRIVIAL.search(name) or kind.arguments():  # those with arguments want names of variables
            continue
        positions = [
            start for node in ast_nodes(tree) for start, _ in kind().mutation_positions(node)
        ]
        for occurrence, (line, column) in enumerate(positions):
            yield Mutant(path, name, occurrence, line, column)


def changes_something(mutant: Mutant) -> bool:
    """Whether there is a change, and one that runs."""
    source = original(mutant.path)
    code = mutant.code(source)
    try:
        return code is not None and meaning(code) != meaning(source)
    except SyntaxError:
        return False


def draw(population: list[Mutant], chance: random.Random) -> Iterator[Mutant]:
    """Places in random order, a change that runs at each."""
    positions = defaultdict(list)
    for mutant in population:
        positions[mutant.position].append(mutant)
    for position in chance.sample(sorted(positions), len(positions)):
        changes = chance.sample(positions[position], len(positions[position]))
        yield from islice(filter(changes_something, changes), 1)


def statement_lines(source: str, line: int) -> range:
    """The lines of the statement at a line; of a compound one, those before its body."""
    around = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or 0)
    ]
    if not around:
        return range(line, line + 1)
    innermost = min(around, key=lambda node: (node.end_lineno or 0) - node.lineno)
    body = getattr(innermost, "body", None)
    end = body[0].lineno if body else (innermost.end_lineno or 0) + 1
    return range(innermost.lineno, max(end, innermost.lineno + 1))


class Watch:
    """A pytest plugin: lines and seconds of each test, or the first test that fails."""

    def __init__(self, measure: coverage.Coverage | None = None) -> None:
        self.measure = measure
        self.seconds: dict[str, float] = {}
        self.failed: str | None = None

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Say to the measurement which test this is."""
        if self.measure:
            self.measure.switch_context(item.nodeid)
        start = time.process_time()
        yield
        self.seconds[item.nodeid] = time.process_time() - start

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Remember the first failure."""
        if report.failed and self.failed is None:
            self.failed = report.nodeid


def run_tests(tree: Path, tests: list[str], watch: Watch) -> int:
    """Pytest in the tree, in this process."""
    os.chdir(tree)
    os.environ["PYTHONPATH"] = f"{tree / 'src'}"
    sys.path[:0] = [str(tree / "src"), str(tree)]
    hypothesis.settings.register_profile("mutants", derandomize=True, database=None, deadline=None)
    hypothesis.settings.load_profile("mutants")
    return int(pytest.main([*QUIETLY, *tests], plugins=[watch]))


def in_a_process(work: Callable[[], Any], log: Path, cpu: float, wall: float) -> tuple[Any, str]:
    """Run ``work`` in a forked process with limits; return its result and how it ended."""
    answer = log.with_suffix(".json")
    answer.unlink(missing_ok=True)
    child = os.fork()
    if child == 0:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_CPU, (int(cpu) + 1, int(cpu) + 1))
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
        with log.open("w") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        try:
            answer.write_text(json.dumps(work()))
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(0)
    end = time.monotonic() + wall
    status = None
    while status is None and time.monotonic() < end:
        ended, code = os.waitpid(child, os.WNOHANG)
        if ended:
            status = code
        else:
            time.sleep(0.05)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # its own group: whatever it started goes with it
    if status is None:
        os.waitpid(child, 0)
        return None, "timeout"
    if os.WIFSIGNALED(status):
        return None, "timeout" if os.WTERMSIG(status) in (
            signal.SIGXCPU,
            signal.SIGKILL,
        ) else "crash"
    return (json.loads(answer.read_text()), "done") if answer.exists() else (None, "crash")


def baseline(tree: Path) -> dict[str, Any]:
    """Run the tests on the unchanged tree: CPU seconds of each, and the tests of each line."""
    measure = coverage.Coverage(
        data_file=None, config_file=False, include=[f"{tree}/src/ebboost/*"]
    )
    measure.start()
    watch = Watch(measure)
    code = run_tests(
        tree,
        [f"tests/{name}" for name in TESTS] + [f"src/ebboost/{name}" for name in SOURCES],
        watch,
    )
    measure.stop()
    data = measure.get_data()
    through = {
        str(Path(file).relative_to(tree)): {
            str(line): tests for line, tests in data.contexts_by_lineno(file).items()
        }
        for file in data.measured_files()
    }
    return {"code": code, "failed": watch.failed, "seconds": watch.seconds, "through": through}


def measured(tree: Path, out: Path) -> dict[str, Any] | None:
    """The baseline of a tree, from the last run if nothing has changed since."""
    digest, cache = sha256(), out / "tests.json"
    for file in sorted([*tree.rglob("*.py"), *tree.rglob("*.c")]):
        digest.update(file.read_bytes())
    now = digest.hexdigest()
    if (
        cache.exists()
        and (out / "tests.sha256").exists()
        and (out / "tests.sha256").read_text() == now
    ):
        return dict(json.loads(cache.read_text()))
    before, _ = in_a_process(lambda: baseline(tree), out / "tests.log", 3600, 3600)
    (out / "tests.sha256").write_text(now)
    return before


def tests_of(mutant: Mutant, before: dict[str, Any], budget: float) -> list[str]:
    """Return the tests of the changed statement, the fastest first.

    A test of many parameters sends its quickest ahead, so that each behaviour is tested early. No
    more are run than the budget of CPU seconds pays for: a mutant that outlives those has survived.
    """
    lines = before["through"].get(mutant.path, {})
    source = original(mutant.path)
    here: set[str] = set()
    for line in statement_lines(source, mutant.line):
        here.update(lines.get(str(line), ()))
    if "" in here:
        here = set().union(*lines.values())
    seconds, sent = before["seconds"], Counter[str]()
    cost = {}
    for test in sorted(here - {""}, key=seconds.__getitem__):
        sent[test.split("[")[0]] += 1
        cost[test] = seconds[test] * sent[test.split("[")[0]]
    order = sorted(cost, key=cost.__getitem__)
    spent = accumulate(seconds[test] for test in order)
    return [
        test for test, sum_so_far in zip(order, spent, strict=True) if sum_so_far <= budget
    ] or order[:1]


def copy_tree(tree: Path) -> None:
    """What tests need, with few examples for each property."""
    for name in ["src", "tests", "tools"]:
        shutil.copytree(
            ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__", "golden")
        )
    shutil.copy(ROOT / "pyproject.toml", tree)
    for test in (tree / "tests").rglob("*.py"):
        few = re.sub(
            r"max_examples=(\d+)",
            lambda match: f"max_examples={min(int(match[1]), EXAMPLES)}",
            test.read_text(),
        )
        test.write_text(few)


def judge(
    mutant: Mutant, tree: Path, before: dict[str, Any], budget: float, log: Path
) -> dict[str, Any]:
    """Run a mutant: killed by which test, survived, or stopped because it took too long."""
    source = original(mutant.path)
    code = mutant.code(source) or source
    tests = tests_of(mutant, before, budget)
    diff = "".join(
        difflib.unified_diff(
            source.splitlines(True),
            code.splitlines(True),
            f"a/{mutant.path}",
            f"b/{mutant.path}",
            n=2,
        )
    )
    verdict = {
        "path": mutant.path,
        "operator": mutant.operator,
        "occurrence": mutant.occurrence,
        "line": mutant.line,
    }
    verdict |= {"tests": len(tests), "diff": diff}
    if not tests:
        return verdict | {"verdict": "survived", "by": "no test goes there"}
    target = tree / mutant.path
    for compiled in target.parent.glob(f"__pycache__/{target.stem}.*.pyc"):
        compiled.unlink()
    target.write_text(code)

    def work() -> dict[str, Any]:
        sys.dont_write_bytecode = True
        watch = Watch()
        return {"code": run_tests(tree, tests, watch), "failed": watch.failed}

    seconds = 20 + 5 * sum(before["seconds"][test] for test in tests)
    try:
        result, how = in_a_process(work, log, seconds, 10 * seconds)
    finally:
        target.write_text(source)
    if how == "timeout":
        return verdict | {"verdict": "timeout", "by": None}
    if how == "crash":
        return verdict | {"verdict": "killed", "by": "crash"}
    survived = result["code"] == 0
    return verdict | {
        "verdict": "survived" if survived else "killed",
        "by": result["failed"] or (not survived and "import"),
    }


def interval(killed: int, total: int, z: float = 1.96) -> tuple[float, float]:
    """Wilson's 95 % confidence interval of a share."""
    share, middle = killed / total, z * z / (2 * total)
    half = z * sqrt(share * (1 - share) / total + middle / (2 * total))
    return (share + middle - half) / (1 + 2 * middle), (share + middle + half) / (1 + 2 * middle)


def summary(verdicts: list[dict[str, Any]], seed: int, population: int) -> str:
    """A table of files, and the share killed with its interval."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for verdict in verdicts:
        counts[verdict["path"]][verdict["verdict"]] += 1
    lines = [f"{'file':44}{'killed':>8}{'timeout':>9}{'survived':>10}"]
    lines += [
        f"{path:44}{c['killed']:8}{c['timeout']:9}{c['survived']:10}"
        for path, c in sorted(counts.items())
    ]
    killed, total = sum(v["verdict"] != "survived" for v in verdicts), len(verdicts)
    low, high = interval(killed, total)
    lines.append(
        f"{killed} of {total} killed: {killed / total:.1%}, 95 % confidence {low:.1%} to {high:.1%}"
    )
    lines.append(f"drawn with seed {seed} from {population} positions")
    return "\n".join(lines)


def main() -> int:
    """Draw, run, report."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mutants", type=int, default=150, help="how many to draw (default 150)")
    parser.add_argument("--seed", type=int, default=1, help="which ones (default 1)")
    parser.add_argument("--minutes", type=float, default=1e9, help="stop after so many minutes")
    parser.add_argument(
        "--budget", type=float, default=10.0, help="CPU seconds of tests for a mutant (default 10)"
    )
    parser.add_argument(
        "--at-least", type=float, default=0.85, help="the share that must be killed (default 0.85)"
    )
    parser.add_argument(
        "--again", type=Path, help="run the survivors in this verdicts.jsonl once more instead"
    )
    parser.add_argument(
        "--out", type=Path, default=ROOT / "build" / "mutants", help="where to write"
    )
    options = parser.parse_args()
    end = time.monotonic() + 60 * options.minutes
    out = options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)

    paths = [ROOT / "src" / "ebboost" / name for name in SOURCES]
    files = sorted(
        file for path in paths for file in (path.rglob("*.py") if path.is_dir() else [path])
    )
    files = [file for file in files if file.name != "_cuda_graph.py"]  # needs a GPU
    population = [mutant for file in files for mutant in mutants(str(file.relative_to(ROOT)))]
    drawn = draw(population, random.Random(options.seed))
    if options.again:
        old = [json.loads(line) for line in options.again.read_text().splitlines()]
        positions = {
            (v["path"], v["operator"], v["occurrence"]) for v in old if v["verdict"] == "survived"
        }
        drawn = (m for m in population if (m.path, m.operator, m.occurrence) in positions)

    verdicts: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder).resolve() / "tree"
        tree.mkdir()
        copy_tree(tree)
        before = measured(tree, out)
        if before is None or before["code"] != 0:
            print(f"The tests fail on the unchanged tree: {out / 'tests.log'}")
            return 2
        print(
            f"{len(before['seconds'])} tests, {sum(before['seconds'].values()):.0f} s of CPU time",
            flush=True,
        )
        with (out / "verdicts.jsonl").open("w") as record:
            for mutant in drawn:
                if len(verdicts) == options.mutants or time.monotonic() > end:
                    break
                verdict = judge(mutant, tree, before, options.budget, out / "mutant.log")
                verdicts.append(verdict)
                record.write(json.dumps(verdict) + "\n")
                record.flush()
                print(
                    f"{len(verdicts):4} {verdict['verdict']:9}{mutant.path}:{mutant.line} "
                    f"{verdict['by'] or ''}",
                    flush=True,
                )
    survivors = [verdict for verdict in verdicts if verdict["verdict"] == "survived"]
    (out / "survivors.diff").write_text("\n".join(verdict["diff"] for verdict in survivors))
    text = summary(verdicts, options.seed, len({mutant.position for mutant in population}))
    (out / "summary.txt").write_text(text + "\n")
    print(text)
    killed = len(verdicts) - len(survivors)
    return 0 if killed >= options.at_least * len(verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
