"""Downloads against a server of our own: checked, all or nothing."""

import hashlib
import threading
import zipfile
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from benchmarks import data, fetching
from benchmarks.__main__ import main

from .conftest import write_folder


class Silent(SimpleHTTPRequestHandler):
    """Does not log."""

    def log_message(self, *args):
        """Say nothing."""


@pytest.fixture
def server(tmp_path):
    """The address of a folder, and the folder."""
    folder = tmp_path / "served"
    folder.mkdir()
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Silent, directory=folder)) as serving:
        threading.Thread(target=serving.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{serving.server_port}", folder
        serving.shutdown()


@pytest.fixture
def archive(server, tmp_path, monkeypatch):
    """An archive of vk on the server, and an empty data folder without known checksums."""
    address, folder = server
    data_set = write_folder(tmp_path / "vk")
    with zipfile.ZipFile(folder / "datasets.zip", "w") as file:
        for path in data_set.iterdir():
            file.write(path, f"datasets/vk/{path.name}")
    monkeypatch.setenv("EBBOOST_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(fetching, "OURS", tmp_path / "checksums.txt")
    return f"{address}/datasets.zip"


def test_a_data_set_is_fetched_and_can_be_read(archive, capsys):
    assert main(["fetch", "vk", "--from", archive]) == 0
    assert capsys.readouterr().out.strip() == str(data.home() / "vk")
    assert data.load("vk").graph.n_nodes == 80
    noted = (data.home() / "checksums.txt").read_text()
    assert (
        f"{hashlib.sha256((data.home() / 'vk' / 'X.csv').read_bytes()).hexdigest()}  vk/X.csv"
        in noted
    )
    fetching.fetch("vk", archive)  # the same again is no mistake


def test_a_wrong_checksum_is_rejected_and_nothing_is_written(archive):
    fetching.OURS.write_text(f"{'0' * 64}  vk/y.csv\n")
    with pytest.raises(
        ValueError, match=r"vk/y\.csv from http.* has SHA-256 .* expected 0000.*Nothing was written"
    ):
        fetching.fetch("vk", archive)
    assert list(data.home().iterdir()) == []


def test_a_changed_file_is_rejected_and_the_old_one_remains(archive, server, tmp_path):
    fetching.fetch("vk", archive)
    before = (data.home() / "vk" / "y.csv").read_text()
    (tmp_path / "vk" / "y.csv").write_text("y\n1\n")
    with zipfile.ZipFile(server[1] / "datasets.zip", "w") as file:
        for path in (tmp_path / "vk").iterdir():
            file.write(path, f"datasets/vk/{path.name}")
    with pytest.raises(ValueError, match=r"vk/y\.csv"):
        fetching.fetch("vk", archive)
    assert (data.home() / "vk" / "y.csv").read_text() == before


def test_unavailable_data_sets_are_named(archive, server, capsys):
    with pytest.raises(OSError, match=r"absent\.zip could not be downloaded: File not found"):
        fetching.fetch("vk", f"{server[0]}/absent.zip")
    with pytest.raises(ValueError, match=r"has no datasets/county/X\.csv"):
        fetching.fetch("county", archive)
    (server[1] / "page.zip").write_text("<html>")
    with pytest.raises(ValueError, match=r"page\.zip is not a zip archive"):
        fetching.fetch("vk", f"{server[0]}/page.zip")
    assert main(["fetch", "moon"]) == 2 and "no source for 'moon'" in capsys.readouterr().err


def test_a_single_file_is_stored_under_its_name(server, tmp_path, monkeypatch):
    monkeypatch.setenv("EBBOOST_DATA", str(tmp_path / "data"))
    (server[1] / "cs.npz").write_bytes(b"numbers")
    folder = fetching.fetch("coauthor_cs", f"{server[0]}/cs.npz")
    assert (folder / "data.npz").read_bytes() == b"numbers"


def test_checksums_are_of_files_that_can_be_fetched():
    known = {tuple(file.split("/", 1)) for file in fetching._read(fetching.OURS)}
    assert known <= {
        (name, file) for name, source in fetching.SOURCES.items() for file in source.files
    }
