"""The files that commands write: never one that they read, and all of it or nothing."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import ebboost
from ebboost.data.archive import atomic_write

#: What the running command has written, to say so if it is stopped.
written: list[str] = []
# A table in several files: ends of their names, and what is appended to the name of a database.
_SHAPEFILE = (".shp", ".shx", ".dbf", ".prj", ".cpg", ".sbn", ".sbx", ".qix")
_DATABASE = ("-wal", "-shm", "-journal")


def check_output(output: Path, *inputs: Path | None) -> None:
    """Raise ValueError if a file that is to be written is one of those that are read.

    The same file may have several names: links, relative paths, upper and lower case. Also if it
    cannot be written. Called before anything is read.
    """
    if str(output) == "-":
        raise ValueError("- is no file that could be written: name one.")
    if is_regular(output):
        package = Path(ebboost.__file__).resolve().parent
        if package in output.resolve().parents:
            raise ValueError(f"{output} belongs to ebboost itself: name another file to write.")
        for path in inputs:
            for one in [] if path is None else [path, *_companions(path)]:
                if is_regular(one) and os.path.samefile(output, one):
                    same = "the file" if one == output else f"the same file as {one},"
                    raise ValueError(f"{output} is {same} that is read: name another to write.")
    check_writable(output)


def check_new(files: list[Path]) -> None:
    """Raise ValueError if one of the files exists."""
    for path in files:
        if path.exists() or path.is_symlink():
            raise ValueError(f"{path} exists: name another folder, or remove that file.")


def check_writable(path: Path) -> None:
    """Raise an error if a file cannot be written, before the work is done."""
    folder = path.absolute().parent
    if path.is_dir():
        raise ValueError(f"{path} is a folder: name a file to write.")
    if not folder.is_dir():
        raise ValueError(f"{path} cannot be written: there is no folder {folder}.")
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise PermissionError(f"{path} cannot be written: no permission.")


def is_regular(path: Path) -> bool:
    """Whether there is such a file, and it is no device and no pipe."""
    return path.exists() and stat.S_ISREG(path.stat().st_mode)


def is_special(path: Path) -> bool:
    """Whether a path is a device or a pipe, which must not be replaced by a file."""
    return path.exists() and not is_regular(path)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a path beside ``path`` to write to; it is renamed on success and removed on error."""
    check_writable(path)
    if is_special(path):
        yield path
        return
    with atomic_write(path, path.suffix) as temporary:
        yield Path(temporary)
    written.append(f"{path} is written")


def _companions(path: Path) -> list[Path]:
    """Other files of the same table."""
    names = [path.with_suffix(suffix) for suffix in _SHAPEFILE] if _is_shapefile(path) else []
    return [*names, *(path.with_name(path.name + suffix) for suffix in _DATABASE)]


def _is_shapefile(path: Path) -> bool:
    return path.suffix.lower() == ".shp"
