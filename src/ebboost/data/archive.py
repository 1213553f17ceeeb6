"""Files that are written all or nothing, and files from strangers: zips, arrays and JSON, read only if plain and whole.

Python's own readers are kind: they skip what stands before a zip, let entries overlap, take the sizes that a file claims,
evaluate the headers of arrays and keep the last of two equal keys. Here whatever our own writer would not have written is
refused, before memory is given to it.
"""

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

MOST_ENTRIES = 65_535
MOST_IN_DIRECTORY = 128 * MOST_ENTRIES  # bytes
_END, _LONG_END, _LONG_END_AT = b"PK\x05\x06", b"PK\x06\x06", b"PK\x06\x07"
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}(\.[a-z]{1,8})?")
_HEADER = re.compile(
    rb"\{'descr': '([<>][fiu][48])', 'fortran_order': (True|False), 'shape': \(((?:\d{1,18},? ?){0,2})\), \} *\n"
)


@contextmanager
def atomic_write(path: str | os.PathLike[str], suffix: str = ".part") -> Iterator[str]:
    """Give a place to write to beside ``path``, forced to the disk and renamed when all went well, and removed when not.

    A reader sees the old file or the whole new one, after a power cut too.
    """
    folder = os.path.dirname(os.path.abspath(path))
    handle, temporary = tempfile.mkstemp(prefix=".ebboost-", suffix=suffix, dir=folder)
    os.close(handle)
    try:
        yield temporary
        _force(temporary, os.O_RDWR)
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    if os.name == "posix":  # the new name is on the disk only when the folder is
        with suppress(OSError):  # not every file system can
            _force(folder, os.O_RDONLY)


def _force(path: str, flags: int) -> None:
    handle = os.open(path, flags)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def checksums(entries: Mapping[str, bytes]) -> dict[str, str]:
    """The SHA-256 of every entry."""
    return {name: hashlib.sha256(content).hexdigest() for name, content in entries.items()}


def max_unpacked_size(size: int) -> int:
    """Bytes that a file of ``size`` bytes may unpack to: a bomb needs a thousand times its size, and more if nested."""
    return 2**24 + 64 * size


def unpack(file: IO[bytes], most: int) -> dict[str, bytes]:
    """Every entry of a zip by name, at most ``most`` bytes in all; anything unusual about it is a ``ValueError``."""
    _check_directory(file)
    with zipfile.ZipFile(file) as archive:
        entries = archive.infolist()
        _check_entries(file, entries, archive.start_dir)
        if sum(entry.file_size for entry in entries) > most:
            raise ValueError(
                f"it would unpack to more than {most / 2**20:,.0f} MiB, far more than its size allows"
            )
        contents = {entry.filename: archive.read(entry) for entry in entries}
    if any(len(contents[entry.filename]) != entry.file_size for entry in entries):
        raise ValueError("an entry is shorter than it says")
    return contents


def _check_directory(file: IO[bytes]) -> None:
    """The list of entries stands right before its end record, nothing follows, and it is not too long to be read."""
    size = file.seek(0, 2)
    tail_size = min(size, 98)
    file.seek(size - tail_size)
    tail = file.read(tail_size)
    end = tail[-22:]
    if len(end) < 22 or end[:4] != _END:
        raise ValueError("it is no zip, or its end is missing")
    length, offset, comment = struct.unpack("<12xIIH", end)
    ends_at = size - 22
    if tail[-42:-38] == _LONG_END_AT:  # the records of files beyond 4 GiB
        record, at = tail[:56], struct.unpack("<8xQ4x", tail[-42:-22])[0]
        if len(tail) < 98 or record[:4] != _LONG_END or at != size - 98:
            raise ValueError("its end is damaged")
        length, offset = struct.unpack("<40xQQ", record)
        ends_at = size - 98
    if comment or offset + length != ends_at:
        raise ValueError("there are bytes in it that belong to no entry")
    if length > MOST_IN_DIRECTORY:
        raise ValueError(f"it has more than {MOST_ENTRIES:,} entries")


def _check_entries(file: IO[bytes], entries: list[zipfile.ZipInfo], directory_at: int) -> None:
    """Plain entries, each name once, one after the other without a gap or an overlap."""
    if len(entries) > MOST_ENTRIES:
        raise ValueError(f"it has more than {MOST_ENTRIES:,} entries")
    if len({entry.filename for entry in entries}) != len(entries):
        raise ValueError("two entries have the same name")
    at = 0
    for entry in sorted(entries, key=lambda entry: entry.header_offset):
        kind = entry.external_attr >> 28  # of file, as in st_mode: nothing, or a regular one
        plain = entry.flag_bits == 0 and entry.compress_type in (
            zipfile.ZIP_STORED,
            zipfile.ZIP_DEFLATED,
        )
        if not plain or kind not in (0, 8) or not _NAME.fullmatch(entry.orig_filename):
            raise ValueError(
                f"its entry {entry.orig_filename[:80]!r} is of a kind that no model file has"
            )
        file.seek(entry.header_offset + 26)
        name, extra = struct.unpack("<HH", file.read(4))
        if entry.header_offset != at:
            raise ValueError("its entries overlap, or there are bytes between them")
        at += 30 + name + extra + entry.compress_size
    if at != directory_at:
        raise ValueError("its entries overlap, or there are bytes between them")


def parse_npy(content: bytes) -> NDArray[Any]:
    """An array of numbers in numpy's format, as long as its header says; no header is evaluated, no object made."""
    if content[:8] != b"\x93NUMPY\x01\x00":
        raise ValueError("an array is not in numpy's format, version 1")
    start = 10 + int.from_bytes(content[8:10], "little")
    found = _HEADER.fullmatch(content[10:start])
    if found is None:
        raise ValueError("an array's header is not that of plain numbers in one or two dimensions")
    dtype, order = np.dtype(found[1].decode()), "F" if found[2] == b"True" else "C"
    shape = tuple(int(size) for size in re.findall(rb"\d+", found[3]))
    if not shape or math.prod(shape) * dtype.itemsize != len(content) - start:
        raise ValueError("an array is longer or shorter than its header says")
    numbers = np.frombuffer(memoryview(content)[start:], dtype).reshape(shape, order=order)  # type: ignore[call-overload]
    return np.array(numbers, dtype=dtype.newbyteorder("="), order=order)  # type: ignore[call-overload]


def parse_json(content: bytes) -> Any:
    """JSON in which every key stands once: of two, one reader would take the first and another the last."""
    try:
        return json.loads(content.decode(), object_pairs_hook=_once)
    except RecursionError:
        raise ValueError("its JSON is nested too deeply") from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice in its JSON")
    return found
