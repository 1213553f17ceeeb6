"""What the Python blocks of a page print: ``python docs/outputs.py [pages]`` writes it below them; the tests compare.

All blocks of a page are one program, run from top to bottom in an empty folder.
"""

import contextlib
import importlib.util
import io
import os
import re
import sys
import tempfile
import warnings
from pathlib import Path

BLOCK = re.compile(
    r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", flags=re.DOTALL | re.MULTILINE
)
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


def filled(text: str, where: str) -> str:
    """Return a page with what its blocks print below them."""
    names: dict[str, object] = {}

    def with_output(found: re.Match[str]) -> str:
        output = printed(found[1], names, where)
        if output is None:
            return found[0]
        below = f"\n```text\n{output}```\n" if output else ""
        return f"```python\n{found[1]}```\n{below}"

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
