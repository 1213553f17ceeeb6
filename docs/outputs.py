"""What the Python blocks and the commands of a page print: ``python docs/outputs.py [pages]`` writes it below them.

All blocks of a page are one program, run from top to bottom in an empty folder; the tests compare what they print. A
``console`` block holds commands after ``$`` and, below each, what it prints in a window of 80 columns.
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
OPTIONAL = ("shap",)  # shown on a page, and not worth its size in every set-up


def printed(block: str, names: dict[str, object], where: str) -> str | None:
    """Run a block and return what it printed; None if it needs what is not installed."""
    optional = [name for name in OPTIONAL if f"import {name}\n" in block]
    if any(importlib.util.find_spec(name) is None for name in optional):
        return None
    caught = io.StringIO()
    with contextlib.redirect_stdout(caught), warnings.catch_warnings():
        if optional:  # what they warn of is not ours
            warnings.simplefilter("ignore")
        exec(compile(block, where, "exec"), names)
    return caught.getvalue()


def answered(command: str) -> str:
    """Run a command in the folder we are in and return what it prints, notes and all."""
    words = shlex.split(command)
    if words[0] == "ebboost" and not set(words) & {"|", "||", ">", ";"}:
        # Here, and not in a process of its own, which takes a second to begin.
        done = CliRunner(env={"COLUMNS": "80"}).invoke(app, words[1:], prog_name="ebboost")
        code, output = done.exit_code, done.output
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


def filled(text: str, where: str) -> str:
    """Return a page with what its blocks print below them."""
    names: dict[str, object] = {}

    def with_output(found: re.Match[str]) -> str:
        if found[1] == "console":
            steps = [
                f"$ {step[1]}\n{answered(step[1])}" for step in STEP.finditer(found[2])
            ]
            return f"```console\n{''.join(steps)}```\n"
        output = printed(found[2], names, where)
        if output is None:
            return found[0]
        below = f"\n```text\n{output}```\n" if output else ""
        return f"```python\n{found[2]}```\n{below}"

    return BLOCK.sub(with_output, text)


def main() -> None:
    """Fill the pages named, or all."""
    folder = Path(__file__).resolve().parent
    for name in sys.argv[1:] or sorted(page.name for page in folder.glob("*.md")):
        with tempfile.TemporaryDirectory() as empty:
            os.chdir(empty)
            page = folder / name
            page.write_text(filled(page.read_text(), str(page)))
            os.chdir(folder)


if __name__ == "__main__":
    main()
