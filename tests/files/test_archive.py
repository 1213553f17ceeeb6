"""Zip, npy and JSON that the library does not write are rejected before memory is allocated."""

import io
import pickle
import struct
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from ebboost.files import archive

CONTENTS = {"a.txt": b"first" * 100, "b.json": b"{}", "c-00001.x.json": b""}


def zipped(contents=CONTENTS, method=zipfile.ZIP_DEFLATED, **changes):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as file:
        for name, content in contents.items():
            info = zipfile.ZipInfo(name)
            for attribute, value in changes.items():
                setattr(info, attribute, value)
            file.writestr(info, content, method)
    return buffer.getvalue()


def patched(content, signature, offset, replacement):
    """Bytes after the first record with this signature replaced."""
    at = content.index(signature) + offset
    return content[:at] + replacement + content[at + len(replacement) :]


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_plain_zip_is_read(method):
    assert archive.read_zip(zipped(method=method)) == CONTENTS
    assert archive.read_zip(zipped({})) == {}


def test_what_is_written_is_read(tmp_path):
    archive.write_zip(str(tmp_path / "a"), CONTENTS)
    assert archive.read_zip((tmp_path / "a").read_bytes()) == CONTENTS
    constant = {"a.npy": bytes(2**25)}  # too regular to be compressed
    archive.write_zip(str(tmp_path / "a"), constant)
    assert archive.read_zip((tmp_path / "a").read_bytes()) == constant


def overlapping():
    """Both entries of the directory lead to the same bytes."""
    content = zipped({"a.txt": b"x" * 50, "b.txt": b"x" * 50})
    at = content.rindex(b"PK\x01\x02")
    return content[: at + 42] + struct.pack("<I", 0) + content[at + 46 :]


def crowded(count):
    """A directory of very many entries that all lead to the same one."""
    content = zipped({"a.txt": b""})
    begin, end = content.index(b"PK\x01\x02"), content.index(b"PK\x05\x06")
    size = count * (end - begin)
    record = (b"PK\x05\x06", 0, 0, count % 65536, count % 65536, size, begin, 0)
    return content[:begin] + content[begin:end] * count + struct.pack("<4s4H2IH", *record)


def bomb(method=zipfile.ZIP_DEFLATED):
    return zipped({"a.txt": bytes(2**26)}, method)


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
    "an entry out of the directory": zipped()[: zipped().rindex(b"PK\x01\x02")]
    + zipped()[zipped().rindex(b"PK\x05\x06") :],
    "overlapping": overlapping(),
    "many of a name": crowded(1_000),
    "a bomb": bomb(),
    "a bomb that says it is small": patched(bomb(), b"PK\x01\x02", 24, struct.pack("<I", 1000)),
    "a wrong sum": patched(zipped(), b"PK\x01\x02", 16, b"1234"),
}


@pytest.mark.parametrize("content", BAD.values(), ids=BAD.keys())
def test_unusual_zips_are_rejected(content):
    with pytest.raises((ValueError, zipfile.BadZipFile, EOFError)):
        archive.read_zip(content)


NUMBERS = st.sampled_from(["<f4", "<f8", "<i4", "<i8", "|b1", "|u1", ">f8", ">i8"])


SHAPES = arrays.array_shapes(min_dims=0, max_dims=2, min_side=0)


@given(NUMBERS.flatmap(lambda kind: arrays.arrays(kind, SHAPES)))
def test_arrays_survive(array):
    for own in (array, np.asarray(array, order="F")):
        read = archive.parse_npy(archive.npy_bytes(own))
        np.testing.assert_array_equal(read, array)
        assert read.shape == array.shape and read.dtype == array.dtype.newbyteorder("=")
        assert read.flags.writeable and read.flags.f_contiguous == own.flags.f_contiguous


def npy(header, data=b"", version=b"\x01\x00"):
    header = header.encode() + b"\n"
    return b"\x93NUMPY" + version + struct.pack("<H", len(header)) + header + data


def pickled():
    buffer = io.BytesIO()
    np.save(buffer, np.array([{}], dtype=object), allow_pickle=True)
    return buffer.getvalue()


F8 = "{'descr': '<f8', 'fortran_order': False, 'shape': "


@pytest.mark.parametrize(
    "content",
    [
        b"",
        pickle.dumps([1.0]),
        pickled(),
        npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", bytes(8)),
        npy(f"{F8}(1000000000000000,), }}", bytes(8)),
        npy(f"{F8}(0, 1000000000000000,), }}", bytes(8)),
        npy(f"{F8}(-1,), }}", bytes(8)),
        npy(f"{F8}(2,), }}", bytes(8)),
        npy(f"{F8}(1,), }}", bytes(16)),
        npy(f"{F8}(1, 1, 1), }}", bytes(8)),
        npy("{'descr': [('x', '<f8')], 'fortran_order': False, 'shape': (1,), }", bytes(8)),
        npy("{'descr': '<U2', 'fortran_order': False, 'shape': (1,), }", bytes(8)),
        npy(f"{F8}(len(__import__('os').listdir()),), }}", bytes(8)),
        npy("__import__('os').abort()"),
        npy("(" * 5000),
        npy("-" * 9000 + "1"),
        npy(f"{F8}(1,), }}", bytes(8), b"\x02\x00"),
        b"\x93NUMPY\x01\x00\xff\xff{",
    ],
)
def test_arrays_of_anything_but_numbers_are_rejected(content):
    with pytest.raises(ValueError, match="an array"):
        archive.parse_npy(content)


@pytest.mark.parametrize(
    "content",
    [b"[" * 100_000, b'{"a": 1, "a": 2}', b"1" * 5_000, b"\xff", b'{"a": 1', b"", b"[1]x"],
    ids=["deep", "two keys", "a long number", "no text", "half", "nothing", "more"],
)
def test_ambiguous_or_malformed_json_is_rejected(content):
    with pytest.raises((ValueError, RecursionError)):
        archive.parse_json(content)
