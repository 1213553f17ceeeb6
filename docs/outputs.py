"""Run the blocks of pages: ``python docs/outputs.py [pages]`` writes their output below them.

All blocks of a page are one program, run from top to bottom in an empty folder; tests compare the
output. A ``console`` block has commands after ``$`` and, below each, its output in a terminal of 80
columns.
"""

import contextlib
import importlib.util
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

from typer.testing import CliRunner

from ebboost.cli.app import app

BLOCK = re.compile(
    r"^```(python|console)\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?",
    flags=re.DOTALL | re.MULTILINE,
)
STEP = re.compile(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", flags=re.MULTILINE)
TRACKER = re.compile(r"^\[\d\d:\d\d:\d\d\] Task .*\n", flags=re.MULTILINE)  # of XGBoost
OPTIONAL = ("shap",)  # used on a page, not installed for the tests


def run_block(block: str, names: dict[str, object], where: str) -> str | None:
    """Run a block and return its output; None if it needs a library that is not installed."""
    optional = [name for name in OPTIONAL if f"import {name}\n" in block]
    if any(importlib.util.find_spec(name) is None for name in optional):
        return None
    output = io.StringIO()
    with contextlib.redirect_stdout(output), warnings.catch_warnings():
        if optional:  # warnings of these libraries
            warnings.simplefilter("ignore")
        exec(compile(block, where, "exec"), names)
    return TRACKER.sub("", output.getvalue())


def run_command(command: str) -> str:
    """Run a command in the current folder and return its output, standard error included."""
    words = shlex.split(command)
    if words[0] == "ebboost" and not set(words) & {"|", "||", ">", ";"}:
        # In this process: a new one takes a second to start.
        result = CliRunner(env={"COLUMNS": "80"}).invoke(
            app, words[1:], prog_name="ebboost"
        )
        code, output = result.exit_code, result.output
    else:
        shell = f'set -o pipefail; ebboost() {{ "{sys.executable}" -m ebboost "$@"; }}\n{command}'
        source = str(Path(__file__).resolve().parents[1] / "src")
        process = subprocess.run(
            ["bash", "-c", shell],
            env={**os.environ, "COLUMNS": "80", "PYTHONPATH": source},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        code, output = process.returncode, process.stdout
    if code:
        raise RuntimeError(f"{command}\n{output}")
    lines = "\n".join(line.rstrip() for line in output.splitlines()).rstrip()
    return f"{lines}\n" if lines else ""


def fill(text: str, where: str) -> str:
    """Return a page with the output of its blocks below them."""
    names: dict[str, object] = {}

    def with_output(match: re.Match[str]) -> str:
        if match[1] == "console":
            steps = [
                f"$ {step[1]}\n{run_command(step[1])}" for step in STEP.finditer(match[2])
            ]
            return f"```console\n{''.join(steps)}```\n"
        output = run_block(match[2], names, where)
        if output is None:
            return match[0]
        below = f"\n```text\n{output}```\n" if output else ""
        return f"```python\n{match[2]}```\n{below}"

    return BLOCK.sub(with_output, text)


def main() -> None:
    """Fill the pages named on the command line, or all."""
    folder = Path(__file__).resolve().parent
    for name in sys.argv[1:] or sorted(page.name for page in folder.glob("*.md")):
        with tempfile.TemporaryDirectory() as empty:
            os.chdir(empty)
            page = folder / Path(name).with_suffix(".md").name
            page.write_text(fill(page.read_text(), str(page)))
            os.chdir(folder)


if __name__ == "__main__":
    main()
