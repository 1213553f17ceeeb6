"""What commands print and write.

Results go to standard output, notes and warnings to standard error. No file is written that is
read, and every file is written as a whole or not at all.
"""

import io
import os
import shutil
import stat
import sys
import textwrap
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pandas as pd
import typer

import ebboost
from ebboost.files.archive import replace_file

INDENT = 12  # of the texts of facts
# Other files of the same table: of a shape file, and of a database.
SHAPEFILE = (".shp", ".shx", ".dbf", ".prj", ".cpg", ".sbn", ".sbx", ".qix")
DATABASE = ("-wal", "-shm", "-journal")


class Note(UserWarning):
    """Something worth knowing; any other warning may mean that results are wrong."""


def note(text: str) -> None:
    """Say something worth knowing, within :func:`messages`."""
    warnings.warn(text, Note, stacklevel=2)


@contextmanager
def messages() -> Iterator[None]:
    """Print the warnings and notes of a context on standard error, once each; end by Ctrl-C."""
    said = set()

    def show(message: Warning | str, category: type[Warning], *_: object) -> None:
        head = "note" if issubclass(category, Note) else "warning"
        text = wrapped(f"{head}: {' '.join(str(message).split())}")
        if text not in said:
            said.add(text)
            line = "\r\033[K" if sys.stderr.isatty() else ""  # of a progress bar
            print(f"{line}{text}", file=sys.stderr)

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.filterwarnings("ignore", "fit was interrupted")  # commands say so
        warnings.showwarning = show  # type: ignore[assignment]
        try:
            yield
        except KeyboardInterrupt:
            print_error("stopped; no file was changed.")
            raise typer.Exit(130) from None


def wrapped(text: str, indent: int = 0) -> str:
    """Return text in lines that fit on the terminal, without control characters."""
    printable = "".join(one if one.isprintable() else "�" for one in text)
    width = max(shutil.get_terminal_size().columns, 40)
    return textwrap.fill(printable, width, subsequent_indent=" " * indent)


def print_facts(facts: Iterable[tuple[str, str]]) -> None:
    """Print names and texts as two columns."""
    for name, text in facts:
        print(wrapped(f"{name:<{INDENT}}{text}", INDENT))


def print_text(text: str) -> None:
    """Print lines of a name and a text, such as those of a summary."""
    for line in text.splitlines():
        print(wrapped(line, INDENT))


def print_error(text: str) -> None:
    """Print one line on standard error."""
    print("ebboost: " + " ".join(text.split()), file=sys.stderr)


def check_output(output: Path, *inputs: Path | None) -> None:
    """Raise an error if a file cannot be written, or is one of those that are read.

    The same file may have several names: links, relative paths, upper and lower case. Called before
    anything is read.
    """
    if str(output) == "-":
        raise ValueError("- is no file that could be written: name one.")
    if _is_regular(output):
        if Path(ebboost.__file__).resolve().parent in output.resolve().parents:
            raise ValueError(f"{output} belongs to ebboost itself: name another file to write.")
        for path in (path for path in inputs if path is not None):
            others = [path.with_name(path.name + suffix) for suffix in DATABASE]
            if path.suffix.lower() == ".shp":
                others += [path.with_suffix(suffix) for suffix in SHAPEFILE]
            for one in [path, *others]:
                if _is_regular(one) and os.path.samefile(output, one):
                    same = "the file" if one == output else f"the same file as {one},"
                    raise ValueError(f"{output} is {same} that is read: name another to write.")
    folder = output.absolute().parent
    if output.exists() and not _is_regular(output):
        kind = "folder" if output.is_dir() else "device"
        raise ValueError(f"{output} is a {kind}: name a file to write.")
    if not folder.is_dir():
        raise ValueError(f"{output} cannot be written: there is no folder {folder}.")
    if not os.access(output if output.exists() else folder, os.W_OK):
        raise PermissionError(f"{output} cannot be written: no permission.")


def _is_regular(path: Path) -> bool:
    """Whether there is such a file, and it is no device and no pipe."""
    return path.exists() and stat.S_ISREG(path.stat().st_mode)


def write_table(frame: pd.DataFrame, path: Path) -> None:
    """Write Parquet if the name ends in .parquet or .pq, else CSV."""
    content = io.BytesIO()
    if path.suffix.lower() in (".parquet", ".pq"):
        frame.to_parquet(content, index=False)
    else:
        frame.to_csv(content, index=False)
    replace_file(str(path), content.getvalue())
