"""Run the blocks of pages: ``python docs/outputs.py [pages]`` writes their output below them.

All blocks of a page are one program, run from top to bottom in an empty folder. A ``console`` block
has commands after ``$`` and, below each, what it prints in a terminal of 80 columns. Output that
differs a little between processors is in a block ``text about``.
"""

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from typer.testing import CliRunner

from ebboost.cli.app import app
from ebboost.defaults import PORTFOLIO

BLOCK = re.compile(
    r"^```(python|console)( about)?\n(.*?)^```\n(?:\n```text( about)?\n(.*?)^```\n)?",
    flags=re.DOTALL | re.MULTILINE,
)
STEP = re.compile(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", flags=re.MULTILINE)
MEMBERS = re.compile(r"(<!-- members -->\n).*?(<!-- end -->\n)", flags=re.DOTALL)


def run_block(block: str, names: dict[str, object], where: str) -> str:
    """Run a block of Python and return what it prints."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(block, where, "exec"), names)
    return without_ends(output.getvalue())


def run_command(command: str) -> str:
    """Run a command in the current folder and return what it prints."""
    words = shlex.split(command)
    if words[0] == "ebboost":  # in this process: a new one takes a second to start
        result = CliRunner(env={"COLUMNS": "80"}).invoke(
            app, words[1:], prog_name="ebboost"
        )
        code, output = result.exit_code, result.stdout
    else:
        process = subprocess.run(
            command, shell=True, capture_output=True, text=True, check=False
        )
        code, output = process.returncode, process.stdout
    if code:
        raise RuntimeError(f"{command}\n{output}")
    return without_ends(output)


def without_ends(text: str) -> str:
    """Return text without blanks at the ends of lines, and without messages of XGBoost's clock."""
    text = re.sub(r"^\[\d\d:\d\d:\d\d\] .*\n", "", text, flags=re.MULTILINE)
    lines = "\n".join(line.rstrip() for line in text.splitlines()).rstrip()
    return f"{lines}\n" if lines else ""


def members() -> str:
    """Return the table of members of the default."""
    names = (
        "member",
        "learner",
        "field",
        "propagation",
        "neighbour columns",
        "spectral columns",
        "classes",
    )
    rows = [names, ["---"] * len(names)]
    for one in PORTFOLIO:
        parts = (one.propagates, one.neighbors, one.spectral, one.classes)
        flags = ["yes" if part else "" for part in parts]
        rows.append([one.name, one.learner, one.field, *flags])
    return "".join(
        "|" + "".join(f" {cell} |" if cell else " |" for cell in row) + "\n" for row in rows
    )


def fill(text: str, where: str) -> str:
    """Return a page with the output of its blocks below them."""
    names: dict[str, object] = {}

    def with_output(match: re.Match[str]) -> str:
        kind, about, block, text_about, _ = match.groups(default="")
        if kind == "console":
            steps = [
                f"$ {step[1]}\n{run_command(step[1])}" for step in STEP.finditer(block)
            ]
            return f"```console{about}\n{''.join(steps)}```\n"
        output = run_block(block, names, where)
        below = f"\n```text{text_about}\n{output}```\n" if output else ""
        return f"```python\n{block}```\n{below}"

    text = BLOCK.sub(with_output, text)
    return MEMBERS.sub(lambda match: f"{match[1]}{members()}{match[2]}", text)


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
