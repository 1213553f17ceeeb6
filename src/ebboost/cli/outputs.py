"""The files that commands write: never one that they read, and all of it or nothing."""

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pandas as pd

import ebboost

PARQUET_SUFFIXES = (".parquet", ".pq")
#: What the running command has written, to say so if it is stopped.
written: list[str] = []
# Other files of the same table: of a shape file, and of a database.
_SHAPEFILE = (".shp", ".shx", ".dbf", ".prj", ".cpg", ".sbn", ".sbx", ".qix")
_DATABASE = ("-wal", "-shm", "-journal")


def check_output(output: Path, *inputs: Path | None) -> None:
    """Raise an error if a file cannot be written, or is one of those that are read.

    The same file may have several names: links, relative paths, upper and lower case. Called before
    anything is read.
    """
    if str(output) == "-":
        raise ValueError("- is no file that could be written: name one.")
    if is_regular(output):
        if Path(ebboost.__file__).resolve().parent in output.resolve().parents:
            raise ValueError(f"{output} belongs to ebboost itself: name another file to write.")
        for path in (path for path in inputs if path is not None):
            others = [path.with_name(path.name + suffix) for suffix in _DATABASE]
            if path.suffix.lower() == ".shp":
                others += [path.with_suffix(suffix) for suffix in _SHAPEFILE]
            for one in [path, *others]:
                if is_regular(one) and os.path.samefile(output, one):
                    same = "the file" if one == output else f"the same file as {one},"
                    raise ValueError(f"{output} is {same} that is read: name another to write.")
    folder = output.absolute().parent
    if output.is_dir():
        raise ValueError(f"{output} is a folder: name a file to write.")
    if not folder.is_dir():
        raise ValueError(f"{output} cannot be written: there is no folder {folder}.")
    if not os.access(output if output.exists() else folder, os.W_OK):
        raise PermissionError(f"{output} cannot be written: no permission.")


def is_regular(path: Path) -> bool:
    """Whether there is such a file, and it is no device and no pipe."""
    return path.exists() and stat.S_ISREG(path.stat().st_mode)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a path to write to, which replaces ``path`` on success and is removed on error."""
    if path.exists() and not is_regular(path):  # a device or a pipe
        yield path
        return
    try:
        handle, name = tempfile.mkstemp(prefix=".ebboost-", suffix=path.suffix, dir=path.parent)
    except OSError as error:  # names the temporary file
        raise OSError(error.errno, error.strerror, str(path)) from None
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    written.append(f"{path} is written")


def write_table(frame: pd.DataFrame, path: Path) -> None:
    """Write Parquet if the name ends in .parquet or .pq, else CSV."""
    with replacing(path) as temporary:
        if path.suffix.lower() not in PARQUET_SUFFIXES:
            frame.to_csv(temporary, index=False)
            return
        try:
            frame.to_parquet(temporary, index=False)
        except ImportError:
            raise ImportError("Parquet files need pyarrow: pip install pyarrow.") from None
