"""Zips with a manifest and checksums."""

import json
import os
import resource
import zipfile

import pytest

from ebboost.data import archive
from ebboost.model.container import FileFormat

FORMAT = FileFormat("example file", 3)
ENTRIES = {"a.txt": b"some text", "b.npz": bytes(100)}


@pytest.fixture
def path(tmp_path):
    path = str(tmp_path / "file")
    FORMAT.write(path, {"key": [1, "ü", None]}, ENTRIES)
    return path


def test_manifest_and_entries_survive(path):
    manifest, entries = FORMAT.read(path)
    assert entries == ENTRIES
    assert manifest["key"] == [1, "ü", None]
    assert manifest["format"] == "example file" and manifest["format_version"] == 3


def test_equal_contents_give_equal_bytes(path, tmp_path):
    other = tmp_path / "other"
    FORMAT.write(str(other), {"key": [1, "ü", None]}, ENTRIES)
    with open(path, "rb") as file:
        assert file.read() == other.read_bytes()
    with zipfile.ZipFile(other) as file:
        assert {info.date_time for info in file.infolist()} == {(1980, 1, 1, 0, 0, 0)}


def test_a_truncated_file_is_rejected(path):
    for length in range(os.path.getsize(path) - 1, -1, -1):
        os.truncate(path, length)
        with pytest.raises(ValueError, match="file is not an example file, or it is damaged"):
            FORMAT.read(path)


def test_a_changed_byte_is_detected_or_changes_nothing(path):
    with open(path, "rb") as file:
        content = file.read()
    expected = FORMAT.read(path)
    n_rejected = 0
    for position in range(len(content)):
        changed = bytearray(content)
        changed[position] ^= (0xFF, 0x01, 0x80)[position % 3]
        with open(path, "wb") as file:
            file.write(changed)
        try:
            assert FORMAT.read(path) == expected  # a date or a flag of the zip itself
        except ValueError:
            n_rejected += 1
    assert n_rejected > 0.7 * len(content)


def rewrite(path, change, without=()):
    """Change the manifest of an intact zip, or leave entries out."""
    with zipfile.ZipFile(path) as file:
        contents = {name: file.read(name) for name in file.namelist() if name not in without}
    if "manifest.json" in contents:
        manifest = json.loads(contents["manifest.json"])
        change(manifest)
        contents["manifest.json"] = json.dumps(manifest).encode()
    with zipfile.ZipFile(path, "w") as file:
        for name, content in contents.items():
            file.writestr(name, content)


@pytest.mark.parametrize(
    ("change", "without", "message"),
    [
        (lambda m: m.update(format_version=4), (), r"newer ebboost \(format 4.*upgrade"),
        (lambda m: m.update(format_version="3"), (), "format must be 'example file'"),
        (lambda m: m.update(format="other"), (), "format must be 'example file'"),
        (lambda m: m.pop("format"), (), "'format' is missing"),
        (lambda m: m.update(sha256=3), (), "or it is damaged"),
        (lambda m: None, ("manifest.json",), "'manifest.json' is missing"),
        (lambda m: None, ("a.txt",), "entry 'a.txt' is missing"),
        (
            lambda m: m["sha256"].update({"a.txt": "0" * 64}),
            (),
            "'a.txt' differs from its checksum",
        ),
        (lambda m: m["sha256"].pop("b.npz"), (), "'b.npz' differs from its checksum"),
    ],
)
def test_other_formats_and_wrong_checksums_are_rejected(path, change, without, message):
    rewrite(path, change, without)
    with pytest.raises(ValueError, match=message):
        FORMAT.read(path)


def test_contents_that_compress_as_a_zip_bomb_does_are_stored(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "max_unpacked_size", lambda size: 2 * size)
    path = str(tmp_path / "file")
    FORMAT.write(path, {}, {"zeros": bytes(10**5)})
    assert FORMAT.read(path)[1] == {"zeros": bytes(10**5)}


def test_a_full_disk_leaves_the_old_file_and_nothing_else(path):
    with open(path, "rb") as file:
        before = file.read()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (3_000, limits[1]))
    try:
        with pytest.raises(OSError, match="too large"):
            FORMAT.write(path, {}, {"random": os.urandom(10_000)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    with open(path, "rb") as file:
        assert file.read() == before
    assert os.listdir(os.path.dirname(path)) == ["file"]
