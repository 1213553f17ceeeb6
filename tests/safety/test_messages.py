"""Messages name the cause: files that end early, pipes, offsets; copies can be explained."""

import bz2
import copy
import gzip
import lzma
import os
import pickle

import numpy as np
import pytest

import ebboost as eb
from tests.safety.commands import process, run, write_tables
from tests.safety.problems import GRAPH, TABLE, TRUTH, N, labels, regressor

FAST = ("-t", "price", "--preset", "fast", "--rounds", 5)
PACKED = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder, with nodes.csv and edges.csv."""
    write_tables(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("suffix", PACKED)
@pytest.mark.parametrize("name", ["nodes.csv", "edges.csv"])
def test_a_compressed_file_that_is_cut_off_is_named(name, suffix, folder):
    packed = PACKED[suffix]((folder / name).read_bytes())
    words = {"nodes.csv": "nodes.csv", "edges.csv": "edges.csv"} | {name: f"{name}.{suffix}"}
    (folder / f"{name}.{suffix}").write_bytes(packed)
    run("fit", *words.values(), *FAST, "-o", "m.ebb")
    for share in (0.2, 0.9):
        (folder / f"{name}.{suffix}").write_bytes(packed[: int(share * len(packed))])
        for command in ("check", "fit"):
            result = run(command, *words.values(), "-t", "price", code=1)
            assert f"{name}.{suffix} is cut off or damaged" in result.err
            assert "stopped" not in result.err


@pytest.mark.skipif(not os.path.exists("/dev/stdin"), reason="there is no such path")
@pytest.mark.parametrize("packed", [False, True])
def test_a_table_may_come_through_a_pipe(packed, folder):
    content = (folder / "nodes.csv").read_bytes()
    words = ("fit", "/dev/stdin", "edges.csv", *FAST, "-o", "piped.ebb")
    with process(*words, cwd=folder, text=False) as running:
        _, errors = running.communicate(gzip.compress(content) if packed else content, timeout=60)
    assert running.returncode == 0, errors
    run("fit", "nodes.csv", "edges.csv", *FAST, "-o", "m.ebb")
    one, other = (eb.load(name).predict() for name in ("piped.ebb", "m.ebb"))
    np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("value", [1e300, -1e300, 1e20, np.inf, np.nan])
@pytest.mark.parametrize("loss", ["squared_error", "poisson"])
def test_an_offset_that_is_out_of_range_is_named(value, loss):
    offset = np.zeros(N)
    offset[3] = value
    y = np.abs(labels()).round() if loss == "poisson" else labels()
    with pytest.raises(ValueError, match=r"offset.* row 3 is"):
        regressor(loss=loss).fit(TABLE, y, graph=GRAPH, offset=offset)
    classes = np.where(TRUTH > 0, "a", "b")
    with pytest.raises(ValueError, match=r"offset.* row 3 is"):
        eb.EBBSClassifier(n_estimators=5).fit(TABLE, classes, offset=offset)


def test_offsets_that_are_large_as_labels_are_are_taken():
    shifted = regressor().fit(TABLE, labels() + 1e9, graph=GRAPH, offset=np.full(N, 1e9))
    plain = regressor().fit(TABLE, labels(), graph=GRAPH)
    np.testing.assert_allclose(shifted.predict() - 1e9, plain.predict(), atol=0.01)


def pickled(model):
    return pickle.loads(pickle.dumps(model))


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickled])
def test_copies_can_be_explained(copied):
    model = regressor().fit(TABLE, labels(), graph=GRAPH)
    other = copied(model)
    assert other.explain([3, 7]).equals(model.explain([3, 7]))
    np.testing.assert_array_equal(other.predict(), model.predict())
    other.fit(TABLE, -labels(), graph=GRAPH)
    assert not np.array_equal(other.predict(), model.predict())
