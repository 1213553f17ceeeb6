"""Download data sets for users who have a network, and check every file by its SHA-256.

``checksums.txt`` (in sha256sum's format) is that of the copies our results were made with. For
files that are not in it the first download is noted in ``checksums.txt`` in the data folder, and
later ones are held to that.
"""

import hashlib
import shutil
import tempfile
import urllib.error
import urllib.request
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.data import home

OURS = Path(__file__).parent / "checksums.txt"
TIMEOUT = 60.0  # seconds without an answer
_BGNN = "https://raw.githubusercontent.com/nd7141/bgnn/master/datasets.zip"
_COAUTHOR = "https://raw.githubusercontent.com/shchur/gnn-benchmark/master/data/npz"
_FILES = ("X.csv", "y.csv", "graph.graphml", "masks.json")


@dataclass(frozen=True)
class Source:
    """Source of a data set: file names with their paths in the archive, "" for a single file."""

    url: str
    files: Mapping[str, str]


def _folder(name: str, *more: str) -> Source:
    return Source(_BGNN, {file: f"datasets/{name}/{file}" for file in (*_FILES, *more)})


_ARXIV = [f"raw/{part}.csv.gz" for part in ("edge", "node-feat", "node-label")]
_ARXIV += [f"split/time/{part}.csv.gz" for part in ("train", "valid", "test")]
SOURCES: dict[str, Source] = {
    **{name: _folder(name) for name in ("county", "house", "wiki", "house_class", "slap", "dblp")},
    **{name: _folder(name, "cat_features.txt") for name in ("avazu", "vk", "vk_class")},
    "coauthor_cs": Source(f"{_COAUTHOR}/ms_academic_cs.npz", {"data.npz": ""}),
    "coauthor_phy": Source(f"{_COAUTHOR}/ms_academic_phy.npz", {"data.npz": ""}),
    "ogbn_arxiv": Source(
        "http://snap.stanford.edu/ogb/data/nodeproppred/arxiv.zip",
        {file: f"arxiv/{file}" for file in _ARXIV},
    ),
}


def fetch(name: str, url: str | None = None) -> Path:
    """Download a data set into the data folder; ``url`` for a mirror of its archive."""
    if name not in SOURCES:
        raise ValueError(f"There is no source for {name!r}; there are: {', '.join(SOURCES)}.")
    source, folder, noted = SOURCES[name], home() / name, home() / OURS.name
    source = source if url is None else replace(source, url=url)
    expected = _read(noted) | _read(OURS)
    home().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=home(), prefix=f".{name}-") as work:
        archive, unpacked = Path(work, "archive"), Path(work, name)
        _download(source.url, archive)
        checksums = {
            f"{name}/{file}": checksum
            for file, checksum in _unpack(archive, source, unpacked).items()
        }
        for file, checksum in checksums.items():
            if expected.get(file, checksum) != checksum:
                raise ValueError(
                    f"{file} from {source.url} has SHA-256 {checksum}, expected {expected[file]}: "
                    "not the data that was used before. Nothing was written."
                )
        if folder.exists():
            shutil.rmtree(folder)
        unpacked.rename(folder)
    lines = [f"{checksum}  {file}" for file, checksum in sorted((_read(noted) | checksums).items())]
    noted.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def _read(path: Path) -> dict[str, str]:
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    return {file: checksum for checksum, file in (line.split(maxsplit=1) for line in lines)}


def _download(url: str, path: Path) -> None:
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT) as answer, path.open("wb") as file:
            shutil.copyfileobj(answer, file)
    except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
        raise OSError(
            f"{url} could not be downloaded: {getattr(error, 'reason', error)}."
        ) from None


def _unpack(archive: Path, source: Source, folder: Path) -> dict[str, str]:
    """Unpack the files and return their checksums."""
    checksums = {}
    for file, member in source.files.items():
        target = folder / file
        target.parent.mkdir(parents=True, exist_ok=True)
        if member:
            try:
                with (
                    zipfile.ZipFile(archive) as opened,
                    opened.open(member) as inside,
                    target.open("wb") as out,
                ):
                    shutil.copyfileobj(inside, out)
            except zipfile.BadZipFile as error:
                raise ValueError(f"{source.url} is not a zip archive: {error}.") from None
            except KeyError:
                raise ValueError(f"{source.url} has no {member}.") from None
        else:
            shutil.copyfile(archive, target)
        checksums[file] = hashlib.sha256(target.read_bytes()).hexdigest()
    return checksums
