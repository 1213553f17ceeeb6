"""Zip, npy and JSON that the library does not write are rejected before memory is allocated."""

import io
import pickle
import struct
import zipfile

import numpy as np
import pytest

from ebboost.data import archive

CONTENTS = {"a.txt": b"first" * 100, "b.json": b"{}", "c-00001.json": b""}


def zipped(contents=CONTENTS, method=zipfile.ZIP_DEFLATED, **changes):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as file:
        for name, content in contents.items():
            info = zipfile.ZipInfo(name)
            for attribute, value in changes.items():
                setattr(info, attribute, value)
            file.writestr(info, content, method)
    return buffer.getvalue()


def unpack(content, most=10**6):
    return archive.unpack(io.BytesIO(content), most)


def patched(content, signature, offset, replacement):
    """Bytes after the first record with this signature replaced."""
    at = content.index(signature) + offset
    return content[:at] + replacement + content[at + len(replacement) :]


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_plain_zip_is_unpacked(method):
    assert unpack(zipped(method=method)) == CONTENTS
    assert unpack(zipped({})) == {}


def test_npz_files_written_by_numpy_are_read(tmp_path):
    arrays = {
        "x": np.arange(6.0).reshape(2, 3),
        "f": np.asfortranarray(np.ones((3, 2), np.float32)),
        "e": np.zeros((0, 4)),
    }
    arrays |= {"i": np.arange(3, dtype=np.int32), "big": np.arange(3, dtype=">i8")}
    for write in (np.savez, np.savez_compressed):
        buffer = io.BytesIO()
        write(buffer, **arrays)
        arrays_read = {
            name.removesuffix(".npy"): archive.parse_npy(part)
            for name, part in unpack(buffer.getvalue()).items()
        }
        assert arrays_read.keys() == arrays.keys()
        for name, array in arrays.items():
            np.testing.assert_array_equal(arrays_read[name], array, strict=name != "big")
            assert arrays_read[name].flags.writeable and arrays_read[name].dtype.isnative


def test_zip64_records_are_read(monkeypatch):
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 100)
    assert unpack(zipped()) == CONTENTS
    with pytest.raises(zipfile.BadZipFile):
        unpack(patched(zipped(), b"PK\x06\x06", 40, struct.pack("<Q", 10**12)))


def overlapping():
    """Both entries of the directory lead to the same bytes."""
    content = zipped({"a.txt": b"x" * 50, "b.txt": b"x" * 50})
    at = content.rindex(b"PK\x01\x02")
    return content[: at + 42] + struct.pack("<I", 0) + content[at + 46 :]


def crowded(count):
    """A directory of very many entries that all lead to the same one."""
    content = zipped({"a.txt": b""})
    begin, end = content.index(b"PK\x01\x02"), content.index(b"PK\x05\x06")
    directory = content[begin:end] * count
    record = struct.pack(
        "<4s4H2IH", b"PK\x05\x06", 0, 0, count % 65536, count % 65536, len(directory), begin, 0
    )
    return content[:begin] + directory + record


def bomb(method=zipfile.ZIP_DEFLATED):
    return zipped({"a.txt": bytes(2 * 10**6)}, method)


BAD = {
    "nothing": b"",
    "no zip": b"PK\x03\x04" + bytes(100),
    "bytes before": b"x" + zipped(),
    "bytes behind": zipped() + b"x",
    "a comment": patched(zipped(), b"PK\x05\x06", 20, b"\x02\x00") + b"hi",
    "a folder": zipped({"x/": b""}),
    "a path": zipped({"x/y.txt": b""}),
    "an absolute path": zipped({"/etc/passwd": b""}),
    "a path upwards": zipped({"../x.txt": b""}),
    "a drive": zipped({"C:x.txt": b""}),
    "a name with a null": zipped({"xxx.txt": b""}).replace(b"xxx.txt", b"x\x00x.txt"),
    "a long name": zipped({"x" * 300: b""}),
    "a link": zipped({"a.txt": b"/etc/passwd"}, external_attr=0o120777 << 16),
    "a device": zipped({"a.txt": b""}, external_attr=0o020777 << 16),
    "encrypted": patched(zipped(), b"PK\x01\x02", 8, b"\x01\x00"),
    "sizes behind": patched(zipped(), b"PK\x01\x02", 8, b"\x08\x00"),
    "bzip2": zipped(method=zipfile.ZIP_BZIP2),
    "lzma": zipped(method=zipfile.ZIP_LZMA),
    "two of a name": zipped({"a.txt": b"1", "b.txt": b"2"}).replace(b"b.txt", b"a.txt"),
    "overlapping": overlapping(),
    "an entry out of the directory": zipped()[: zipped().rindex(b"PK\x01\x02")]
    + zipped()[zipped().rindex(b"PK\x05\x06") :],
    "too many": crowded(archive.MAX_ENTRIES + 1),
    "far too many": crowded(200_000),
    "a bomb": bomb(),
    "a bomb that says it is small": patched(bomb(), b"PK\x01\x02", 24, struct.pack("<I", 1000)),
    "a bomb not packed": bomb(zipfile.ZIP_STORED),
    "an entry that says it is long": patched(zipped(), b"PK\x01\x02", 24, struct.pack("<I", 5000)),
    "a wrong sum": patched(zipped(), b"PK\x01\x02", 16, b"1234"),
}


@pytest.mark.parametrize("content", BAD.values(), ids=BAD.keys())
def test_unusual_zips_are_rejected(content):
    with pytest.raises((ValueError, zipfile.BadZipFile, EOFError)):
        unpack(content)


def npy(header, data=b"", version=b"\x01\x00"):
    header = header.encode() + b"\n"
    return b"\x93NUMPY" + version + struct.pack("<H", len(header)) + header + data


def pickled():
    buffer = io.BytesIO()
    np.save(buffer, np.array([{}], dtype=object), allow_pickle=True)
    return buffer.getvalue()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        pickle.dumps([1.0]),
        pickled(),
        npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", bytes(8)),
        npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000000,), }", bytes(8)),
        npy(
            "{'descr': '<f8', 'fortran_order': False, 'shape': (0, 1000000000000000,), }", bytes(8)
        ),
        npy("{'descr': '<f8', 'fortran_order': False, 'shape': (-1,), }", bytes(8)),
        npy("{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }", bytes(8)),
        npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1,), }", bytes(16)),
        npy("{'descr': '<f8', 'fortran_order': False, 'shape': (), }", bytes(8)),
        npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1, 1, 1), }", bytes(8)),
        npy("{'descr': [('x', '<f8')], 'fortran_order': False, 'shape': (1,), }", bytes(8)),
        npy("{'descr': '<U2', 'fortran_order': False, 'shape': (1,), }", bytes(8)),
        npy(
            "{'descr': '<f8', 'fortran_order': False, "
            "'shape': (len(__import__('os').listdir()),), }",
            bytes(8),
        ),
        npy("__import__('os').abort()"),
        npy("(" * 5000),
        npy("-" * 9000 + "1"),
        npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1,), }", bytes(8), b"\x02\x00"),
        b"\x93NUMPY\x01\x00\xff\xff{",
    ],
)
def test_arrays_of_anything_but_numbers_are_rejected(content):
    with pytest.raises(ValueError, match="an array"):
        archive.parse_npy(content)


@pytest.mark.parametrize(
    "content",
    [
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"a": 1, "a": 2}',
        b"1" * 5_000,
        b"\xff",
        b'{"a": 1',
        b"",
        b"[1]x",
    ],
)
def test_ambiguous_or_malformed_json_is_rejected(content):
    with pytest.raises(ValueError):
        archive.parse_json(content)
