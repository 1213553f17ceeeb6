"""What commands print: results on standard output, notes and progress on standard error."""

import json
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import numpy as np
from rich.box import SIMPLE_HEAD, Box
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from ebboost.boosting.callbacks import Callback, RoundInfo, model_text
from ebboost.inspection.formatting import figure

Update = Callable[..., None]


class LoudWarning(UserWarning):
    """A warning of what may make results wrong, which is no mere note."""


class ModelsBar(Callback):
    """Shows the model in training, its round and its loss next to the progress bar."""

    def __init__(self, update: Update) -> None:
        self.update = update
        self.n_models = 0

    def before_training(self, n_rounds: int) -> None:
        """Count the model."""
        self.n_models += 1

    def after_round(self, info: RoundInfo) -> None:
        """Show the round and its loss."""
        loss = info.training_loss if info.validation_loss is None else info.validation_loss
        where = model_text(self.n_models, info)
        self.update(description=f"{where}, round {info.round + 1}, loss {figure(loss)}")


def terminal(stderr: bool = False) -> Console:
    """Return a terminal that prints text as it is."""
    return Console(stderr=stderr, markup=False, highlight=False, soft_wrap=False)


def print_error(text: str) -> None:
    """Print one line on standard error."""
    print("ebboost: " + " ".join(text.split()), file=sys.stderr)


def print_note(text: str) -> None:
    """Print a note on standard error."""
    terminal(stderr=True).print(Text.assemble(("note: ", "yellow"), " ".join(text.split())))


def print_warning(text: str) -> None:
    """Print a warning that should not be overlooked on standard error."""
    terminal(stderr=True).print(Text.assemble(("warning: ", "bold red"), " ".join(text.split())))


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


@contextmanager
def progress(text: str) -> Iterator[Update]:
    """Show a bar on standard error, if that is a terminal; yield a function that moves it.

    Warnings are printed at the end, once each, as notes unless they are loud.
    """
    description = TextColumn("{task.description}", markup=False)
    parts = (SpinnerColumn(), description, BarColumn(20), TimeElapsedColumn())
    screen = terminal(stderr=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        off = not screen.is_terminal
        with Progress(*parts, console=screen, transient=True, disable=off) as bar:
            task = bar.add_task(text, total=None)
            yield lambda **changes: bar.update(task, **changes)
    for category, message in dict.fromkeys((one.category, str(one.message)) for one in caught):
        (print_warning if issubclass(category, LoudWarning) else print_note)(message)
