"""Atomic writes; strict readers for zip, npy and JSON from untrusted files.

The readers accept what the writers of this library write and nothing else. Python's own are
lenient: they skip bytes before a zip, let its entries overlap, allocate the sizes that a file
claims, evaluate array headers and keep the last of two equal keys.
"""

import errno
import hashlib
import json
import math
import os
import re
import struct
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

MAX_ENTRIES = 65_535
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}(\.[a-z]{1,8})?")
_HEADER = re.compile(
    rb"\{'descr': '([<>][fiu][48])', 'fortran_order': (True|False), "
    rb"'shape': \(((?:\d{1,18},? ?){0,2})\), \} *\n"
)


@contextmanager
def atomic_write(path: str | os.PathLike[str], suffix: str = ".part") -> Iterator[str]:
    """Yield a temporary path in the folder of ``path``, which replaces ``path`` on success.

    Readers see the old file or all of the new one, also after a power failure.
    """
    if os.path.exists(path) and not os.path.isfile(path):
        raise OSError(errno.EINVAL, "cannot be written: it is not a file", os.fspath(path))
    folder = os.path.dirname(os.path.abspath(path))
    try:
        handle, temporary = tempfile.mkstemp(prefix=".ebboost-", suffix=suffix, dir=folder)
    except OSError as error:  # names the temporary file
        raise OSError(error.errno, error.strerror, os.fspath(path)) from None
    os.close(handle)
    try:
        yield temporary
        _fsync(temporary, os.O_RDWR)
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    if os.name == "posix":  # the new name is an entry of the folder
        with suppress(OSError):  # some file systems cannot
            _fsync(folder, os.O_RDONLY)


def _fsync(path: str, flags: int) -> None:
    handle = os.open(path, flags)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def checksums(entries: Mapping[str, bytes]) -> dict[str, str]:
    """SHA-256 of every entry."""
    return {name: hashlib.sha256(content).hexdigest() for name, content in entries.items()}


def max_unpacked_size(size: int) -> int:
    """Bytes that a file of ``size`` bytes may unpack to; a zip bomb claims a thousandfold."""
    return 2**24 + 64 * size


def unpack(file: IO[bytes], limit: int) -> dict[str, bytes]:
    """Return the entries of a zip, at most ``limit`` bytes in all.

    ValueError or zipfile.BadZipFile if it is damaged or of a kind that this library does not write.
    """
    with zipfile.ZipFile(file) as archive:
        entries = archive.infolist()
        _check_layout(file, archive)
        if sum(entry.file_size for entry in entries) > limit:
            raise ValueError(f"it would unpack to more than {limit / 2**20:,.0f} MiB")
        contents = {entry.filename: archive.read(entry) for entry in entries}
    if any(len(contents[entry.filename]) != entry.file_size for entry in entries):
        raise ValueError("an entry is shorter than its header says")
    return contents


def _check_layout(file: IO[bytes], archive: zipfile.ZipFile) -> None:
    """Check that plain entries and their directory fill the file, each name occurring once."""
    entries = archive.infolist()
    names = {entry.filename for entry in entries}
    if len(entries) > MAX_ENTRIES or len(names) != len(entries):
        raise ValueError(f"it must have at most {MAX_ENTRIES:,} entries, each name once")
    end = 0
    directory_size = 0
    for entry in sorted(entries, key=lambda entry: entry.header_offset):
        is_file = entry.external_attr >> 28 in (0, 8)  # of st_mode: unset, or a regular file
        methods = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
        is_plain = entry.flag_bits == 0 and entry.compress_type in methods
        if not is_file or not is_plain or not _NAME.fullmatch(entry.orig_filename):
            raise ValueError(f"entry {entry.orig_filename[:80]!r} is not of a supported kind")
        if entry.header_offset != end:
            raise ValueError("entries overlap, or have bytes between them")
        file.seek(end + 26)
        name_size, extra_size = struct.unpack("<HH", file.read(4))
        end += 30 + name_size + extra_size + entry.compress_size
        directory_size += 46 + len(entry.orig_filename) + len(entry.extra) + len(entry.comment)
    size = file.seek(0, os.SEEK_END)
    end_sizes = (22, 98)  # of the end record; the second for files beyond 4 GiB
    if end != archive.start_dir or size - end - directory_size not in end_sizes or archive.comment:
        raise ValueError("it has bytes that belong to no entry")


def parse_npy(content: bytes) -> NDArray[Any]:
    """Return the numbers in a file of numpy's format, version 1, of one or two dimensions."""
    if content[:8] != b"\x93NUMPY\x01\x00":
        raise ValueError("an array is not in numpy's format, version 1")
    start = 10 + int.from_bytes(content[8:10], "little")
    header = _HEADER.fullmatch(content[10:start])
    if header is None:
        raise ValueError("an array must hold plain numbers in one or two dimensions")
    dtype = np.dtype(header[1].decode())
    shape = tuple(int(size) for size in re.findall(rb"\d+", header[3]))
    if not shape or math.prod(shape) * dtype.itemsize != len(content) - start:
        raise ValueError("an array is longer or shorter than its header says")
    flat = np.frombuffer(memoryview(content)[start:], dtype).astype(dtype.newbyteorder("="))
    return flat.reshape(shape, order="F" if header[2] == b"True" else "C")


def parse_json(content: bytes) -> Any:
    """Return the value of JSON text in which no object has a key twice."""
    try:
        return json.loads(content.decode(), object_pairs_hook=_unique_keys)
    except RecursionError:
        raise ValueError("the JSON is nested too deeply") from None


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("the JSON has an object with the same key twice")
    return result
