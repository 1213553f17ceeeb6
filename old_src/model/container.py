"""The container of model files and checkpoints: a zip with a manifest and checksums."""

import io
import json
import os
import stat
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from ebboost.data import archive
from ebboost.data.archive import atomic_write, checksums
from ebboost.data.schema import require

MANIFEST = "manifest.json"


@dataclass(frozen=True)
class FileFormat:
    """A kind of file: a zip of ``manifest.json``, which has all checksums, and other entries."""

    name: str
    version: int  # that is written, and the newest that is read
    compress: bool = True
    suffix: str = ".part"  # of the name of a file while it is written
    remedy: str = ""  # for a file that is none, or damaged

    def write(self, path: str, manifest: dict[str, Any], entries: Mapping[str, bytes]) -> None:
        """Write a file atomically."""
        head = {"format": self.name, "format_version": self.version}
        document = head | manifest | {"sha256": checksums(entries)}
        contents = {**entries, MANIFEST: json.dumps(document).encode()}
        method = zipfile.ZIP_DEFLATED if self.compress else zipfile.ZIP_STORED
        with atomic_write(path, self.suffix) as temporary, open(temporary, "wb") as file:
            _write_zip(file, contents, method)
            size = sum(map(len, contents.values()))
            if size > archive.max_unpacked_size(file.tell()):  # would be rejected as a zip bomb
                file.seek(0)
                file.truncate()
                _write_zip(file, contents, zipfile.ZIP_STORED)

    def read(self, path: str) -> tuple[dict[str, Any], dict[str, bytes]]:
        """Return the manifest and the other entries of a file; ``ValueError`` if it is damaged."""
        mode = os.stat(path).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(f"{path} is a folder, not an {self.name}: name a file.")
        if not stat.S_ISREG(mode):  # a device or pipe may have no end
            raise ValueError(f"{path} is not an {self.name}, but a device, pipe or socket")
        with open(path, "rb") as file:
            try:
                entries = archive.unpack(file, archive.max_unpacked_size(file.seek(0, os.SEEK_END)))
                manifest = archive.parse_json(entries.pop(MANIFEST))
                self._check(manifest, entries)
            except MemoryError:
                raise
            except Exception as error:  # zipfile raises whatever changed bytes lead it to
                problem = f"{path} is not an {self.name}, or it is damaged ({error_text(error)})"
                raise ValueError(problem + self.remedy) from None
        if manifest["format_version"] > self.version:
            raise ValueError(
                f"{path} was written by a newer ebboost (format {manifest['format_version']}, this "
                f"one reads up to {self.version}): upgrade ebboost to read it"
            )
        return manifest, entries

    def _check(self, manifest: dict[str, Any], entries: dict[str, bytes]) -> None:
        fits = manifest["format"] == self.name and type(manifest["format_version"]) is int
        require(fits, f"format must be {self.name!r}")
        expected = manifest["sha256"]
        actual = checksums(entries)
        for name in sorted({*expected, *actual}):
            require(name in actual, f"entry {name[:80]!r} is missing")
            same = expected.get(name) == actual[name]
            require(same, f"entry {name!r} differs from its checksum")


def _write_zip(file: IO[bytes], contents: Mapping[str, bytes], method: int) -> None:
    with zipfile.ZipFile(file, "w", method) as archive_file:
        for name, content in contents.items():
            # A fixed date, so that the same contents give the same bytes.
            info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            is_compressed = name.endswith(".npz")
            archive_file.writestr(info, content, zipfile.ZIP_STORED if is_compressed else method)


def pack_arrays(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Return arrays as an npz file, compressed unless they are too regular for that."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]
    size = sum(array.nbytes + 4096 for array in arrays.values())
    if size > archive.max_unpacked_size(buffer.tell()):  # would be rejected as a zip bomb
        buffer = io.BytesIO()
        np.savez(buffer, **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()


def unpack_arrays(content: bytes, limit: int) -> dict[str, NDArray[Any]]:
    """Return the arrays of an npz file by name, at most ``limit`` bytes in all."""
    parts = archive.unpack(io.BytesIO(content), limit)
    parsed = {name: archive.parse_npy(part) for name, part in parts.items()}
    return {name.removesuffix(".npy"): array for name, array in parsed.items()}


def error_text(error: Exception) -> str:
    """Return the message of an error in one line, whatever text of a file is in it."""
    text = f"{error} is missing" if isinstance(error, KeyError) else str(error)
    if isinstance(error, RecursionError):
        text = "its JSON is nested too deeply"
    return "".join(c if c.isprintable() else "\ufffd" for c in text[:500]).rstrip(".")
