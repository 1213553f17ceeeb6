"""Parquet files, opened in order and read a block of rows at a time."""

import re
from collections.abc import Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyarrow import Table
    from pyarrow.parquet import ParquetFile


def parquet_files(path: str | PathLike[str]) -> "list[ParquetFile]":
    """Open the Parquet file at ``path``, or all of a folder in the order of their names.

    Digits in names are compared as numbers: many programs write part.2 and part.10, and rows in
    another order would belong to other nodes.
    """
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise ImportError("Reading Parquet files needs pyarrow: pip install pyarrow.") from None
    folder = Path(path)
    if not folder.exists():
        raise FileNotFoundError(f"{path} does not exist: name a Parquet file, or a folder of them.")
    names = sorted(folder.glob("*.parquet"), key=_natural_order) if folder.is_dir() else [folder]
    if not names:
        raise FileNotFoundError(f"{folder} is a folder without any file named *.parquet.")
    files: list[ParquetFile] = []
    for name in names:
        try:
            files.append(pyarrow.parquet.ParquetFile(name, pre_buffer=False))
        except pyarrow.ArrowInvalid as error:
            raise ValueError(f"{name} cannot be read as a Parquet file: {error}") from None
        columns = files[-1].schema_arrow.names
        if columns != files[0].schema_arrow.names:
            raise ValueError(f"{name} has other columns than {names[0]}: {columns}.")
    return files


def read_blocks(
    files: "list[ParquetFile]", columns: Sequence[str], n_rows: int, part: tuple[int, int] = (0, 1)
) -> "Iterator[Table]":
    """Yield tables of at most ``n_rows`` rows, in order; of part i of k, every k-th row group."""
    import pyarrow

    number, count = part
    first = 0
    for file in files:
        last = first + file.metadata.num_row_groups
        groups = [group - first for group in range(first, last) if group % count == number]
        first = last
        options = {"row_groups": groups, "columns": list(columns), "use_threads": False}
        for batch in file.iter_batches(n_rows, **options):
            if batch.num_rows:
                yield pyarrow.Table.from_batches([batch])


def _natural_order(path: Path) -> list[str | int]:
    """Return the text and numbers of a name in turn, to sort by."""
    parts = re.split(r"([0-9]+)", path.name)
    return [int(part) if i % 2 else part for i, part in enumerate(parts)] + [path.name]
