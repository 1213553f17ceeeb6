"""Atomic writes of zip files, and strict readers of zip, npy and JSON that are not trusted.

The readers accept what the writers here write and nothing else. Python's own are lenient: they skip
bytes before a zip, let its entries overlap, allocate the sizes that a file claims, evaluate the
headers of arrays and keep the last of two equal keys.
"""

import errno
import io
import json
import math
import os
import re
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from secrets import token_hex
from typing import Any

import numpy as np
from numpy.typing import NDArray

LEVEL = 1  # of compression: higher ones take three times as long for 3 % less
ZIP64 = 2**31  # bytes from which on a zip has longer records
_NAME = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")
_HEADER = re.compile(
    rb"\{'descr': '([<>|][fiub][1248])', 'fortran_order': (True|False), "
    rb"'shape': \(((?:\d{1,18},? ?){0,2})\), \} *\n"
)


def write_zip(path: str, entries: Mapping[str, bytes]) -> None:
    """Write a zip; the same entries give the same bytes."""
    if os.path.exists(path) and not os.path.isfile(path):
        raise OSError(errno.EINVAL, "cannot be written: it is a folder or a device", path)
    content = _zipped(entries, zipfile.ZIP_DEFLATED)
    if sum(map(len, entries.values())) > max_unpacked_size(len(content)):
        content = _zipped(entries, zipfile.ZIP_STORED)  # or it would be rejected as a zip bomb
    replace_file(path, content)


def replace_file(path: str, content: bytes) -> None:
    """Write a file that replaces ``path``: others see the old file or all of the new one."""
    temporary = f"{path}.{token_hex(4)}.part"
    try:
        with open(temporary, "xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def _zipped(entries: Mapping[str, bytes], method: int) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in entries.items():
            archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), content, method, LEVEL)
    return buffer.getvalue()


def max_unpacked_size(size: int) -> int:
    """Return to how many bytes a file may unpack; a zip bomb claims a thousand times its size."""
    return 2**24 + 64 * size


def read_zip(content: bytes) -> dict[str, bytes]:
    """Return the entries of a zip; an error of some type if it is not one that is written here."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        entries = archive.infolist()
        for one in entries:
            is_plain = one.flag_bits == 0 and one.compress_type in (0, zipfile.ZIP_DEFLATED)
            is_file = one.external_attr >> 28 in (0, 8)  # of st_mode: unset, or a regular file
            name = one.orig_filename
            if not (is_plain and is_file and len(name) <= 200 and _NAME.fullmatch(name)):
                raise ValueError(f"entry {name[:80]!r} is not of a supported kind")
        if len({one.filename for one in entries}) != len(entries):
            raise ValueError("it has two entries of the same name")
        # A header and an entry of the directory for each, and the end of the directory.
        sizes = [76 + 2 * len(one.filename) + one.compress_size for one in entries]
        rest = len(content) - sum(sizes) - 22
        if rest != 0 and not (len(content) > ZIP64 and 0 < rest <= 76 + 48 * len(entries)):
            raise ValueError("its entries overlap, or it has bytes that belong to none")
        limit = max_unpacked_size(len(content))
        if sum(one.file_size for one in entries) > limit:
            raise ValueError(f"it would unpack to more than {limit / 2**20:,.0f} MiB")
        contents = {one.filename: archive.read(one) for one in entries}
        if any(len(contents[one.filename]) != one.file_size for one in entries):
            raise ValueError("an entry is shorter than its header says")
    return contents


def npy_bytes(array: NDArray[Any]) -> bytes:
    """Return an array in numpy's format, version 1."""
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.asarray(array), version=(1, 0), allow_pickle=False)
    return buffer.getvalue()


def parse_npy(content: bytes) -> NDArray[Any]:
    """Return the numbers in numpy's format, version 1, of at most two dimensions."""
    start = 10 + int.from_bytes(content[8:10], "little")
    header = _HEADER.fullmatch(content[10:start])
    if content[:8] != b"\x93NUMPY\x01\x00" or header is None:
        raise ValueError("an array must hold plain numbers in at most two dimensions")
    dtype = np.dtype(header[1].decode())
    shape = tuple(int(size) for size in re.findall(rb"\d+", header[3]))
    if math.prod(shape) * dtype.itemsize != len(content) - start:
        raise ValueError("an array is longer or shorter than its header says")
    flat = np.frombuffer(memoryview(content)[start:], dtype).astype(dtype.newbyteorder("="))
    return flat.reshape(shape, order="F" if header[2] == b"True" else "C")


def parse_json(content: bytes) -> Any:
    """Return the value of JSON text in which no object has a key twice."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        result = dict(pairs)
        if len(result) != len(pairs):
            raise ValueError("the JSON has an object with the same key twice")
        return result

    return json.loads(content.decode(), object_pairs_hook=unique)
