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
MAX_RATIO = 64  # of sizes unpacked and packed; a zip bomb has a thousand
ZIP64 = 2**31  # bytes from which on a zip has longer records
_NAME = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")
_HEADER = re.compile(
    rb"\{'descr': '([<>|][fiub][1248])', 'fortran_order': (True|False), "
    rb"'shape': \(((?:\d{1,18},? ?){0,2})\), \} *\n"
)


class ModelFileError(ValueError):
    """A file is not a model file, is damaged, or its parts do not fit each other."""


def write_zip(path: str, entries: Mapping[str, bytes]) -> None:
    """Write a zip; the same entries give the same bytes."""
    if os.path.exists(path) and not os.path.isfile(path):
        raise OSError(errno.EINVAL, "cannot be written: it is a folder or a device", path)
    content = _zipped(entries, zipfile.ZIP_DEFLATED)
    if sum(map(len, entries.values())) > MAX_RATIO * len(content):
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
        # A header and an entry of the directory for each, and the end of the directory.
        sizes = [76 + 2 * len(one.filename) + one.compress_size for one in entries]
        rest = len(content) - sum(sizes) - 22
        is_whole = rest == 0 or (len(content) > ZIP64 and 0 < rest <= 76 + 48 * len(entries))
        if not is_whole or len({one.filename for one in entries}) != len(entries):
            raise ValueError("entries overlap or have the same name, or bytes belong to none")
        limit = MAX_RATIO * len(content)
        if sum(one.file_size for one in entries) > limit:
            raise ValueError(f"it would unpack to more than {limit / 2**20:,.0f} MiB")
        return {one.filename: archive.read(one) for one in entries}


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
