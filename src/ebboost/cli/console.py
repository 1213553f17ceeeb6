"""What commands print: results on standard output, notes and warnings on standard error."""

import json
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import numpy as np
from rich.box import SIMPLE_HEAD, Box
from rich.console import Console
from rich.table import Table
from rich.text import Text


class Note(UserWarning):
    """Something worth knowing; any other warning may mean that results are wrong."""


def note(text: str) -> None:
    """Say something worth knowing, at the end of :func:`messages`."""
    warnings.warn(text, Note, stacklevel=2)


@contextmanager
def messages() -> Iterator[None]:
    """Print the warnings and notes of a context on standard error, once each."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        warnings.filterwarnings("ignore", "fit was interrupted")  # commands say so
        try:
            yield
        finally:
            for kind, text in dict.fromkeys((one.category, str(one.message)) for one in caught):
                is_note = issubclass(kind, Note)
                head = ("note: ", "yellow") if is_note else ("warning: ", "bold red")
                terminal(stderr=True).print(Text.assemble(head, " ".join(text.split())))


def terminal(stderr: bool = False) -> Console:
    """Return a terminal that prints text as it is."""
    return Console(stderr=stderr, markup=False, highlight=False, soft_wrap=False)


def print_error(text: str) -> None:
    """Print one line on standard error."""
    print("ebboost: " + " ".join(text.split()), file=sys.stderr)


def print_json(value: object) -> None:
    """Print JSON; NaN and infinity, which JSON lacks, become null."""
    print(json.dumps(_json_value(value), ensure_ascii=False, indent=1, allow_nan=False))


def _json_value(value: object) -> object:
    if isinstance(value, (np.generic, np.ndarray)):
        return _json_value(value.tolist())
    if isinstance(value, dict):
        return {str(key): _json_value(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_json_value(item) for item in value]
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)


def print_facts(title: str, facts: Iterable[tuple[str, str]]) -> None:
    """Print names and texts as two columns, without control characters."""
    table = column_table(title=title, box=None)
    table.show_header = False
    table.add_column(style="cyan", no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in facts:
        printable = "".join(character if character.isprintable() else "�" for character in text)
        table.add_row(Text(name), Text(printable))
    terminal().print(table)


def column_table(*columns: str, title: str = "", box: Box | None = SIMPLE_HEAD) -> Table:
    """Return an empty table; the columns whose names start with ">" are aligned right."""
    heading = Text(title) if title else None
    table = Table(title=heading, title_justify="left", title_style="bold", box=box, pad_edge=False)
    for name in columns:
        table.add_column(name.lstrip(">"), justify="right" if name.startswith(">") else "left")
    return table
