"""Readers of the benchmarks' data sets: three layouts, and what is broken is refused by name."""

import gzip
import json

import numpy as np
import pytest
from scipy import sparse

from benchmarks import data
from benchmarks.__main__ import main
from benchmarks.problem import Problem

from .conftest import N


def test_available_and_missing_data_sets_are_listed(home, capsys):
    assert data.available() == ["county", "slap", "lucas"]
    (home / "vk").mkdir()
    assert "has no graph.graphml" in data.missing("vk")
    assert main(["list"]) == 0
    shown = capsys.readouterr().out
    assert "avazu" in shown and "is not there" in shown
    with pytest.raises(FileNotFoundError, match=r"avazu is not there.*EBBOOST_DATA.*fetch avazu"):
        data.load("avazu")


def test_the_folder_is_an_option_of_the_command_line(home, tmp_path, capsys):
    assert main(["--data", str(tmp_path / "elsewhere"), "list"]) == 0
    assert str(tmp_path / "elsewhere") in capsys.readouterr().out


def test_classes_are_numbered_and_values_unchanged(home):
    assert data.load("county").y.dtype == float and not data.load("county").classes
    classes = data.load("slap")
    assert classes.classes and set(classes.y) == {0, 1}


def test_many_columns_of_zeros_become_sparse(home, monkeypatch):
    monkeypatch.setattr(data, "SPARSE_FROM", 2)
    (home / "county" / "cat_features.txt").unlink()
    rows = "\n".join("0,0,0,0,0,1" for _ in range(N))
    (home / "county" / "X.csv").write_text(f"a,b,c,d,e,f\n{rows}\n")
    assert sparse.issparse(data.load("county").X)


def test_rewiring_keeps_the_number_of_nodes_and_changes_the_neighbours(home):
    plain, shuffled = data.load("county"), data.load("county-rewired")
    assert shuffled.graph.n_nodes == plain.graph.n_nodes
    assert (shuffled.graph.adjacency != plain.graph.adjacency).nnz > 0


def test_lucas_has_coordinates_apart_from_its_columns():
    lucas = data.load("lucas")
    assert lucas.coordinates.shape == (25_357, 2) and not {"x", "y"} & set(lucas.X.columns)


def test_a_problem_hides_the_test_labels(home):
    for name, hidden in (("county", np.isnan), ("slap", lambda y: y == -1)):
        loaded = data.load(name)
        problem = Problem.of(loaded, 1, seed=0)
        assert np.flatnonzero(hidden(problem.y)).tolist() == sorted(loaded.splits[1]["test"])
        known = np.concatenate([problem.train, problem.val])
        np.testing.assert_array_equal(problem.y[known], loaded.y[known])


MASKS = '{"0": {"train": [0, 1, 400], "val": [2], "test": [3]}}'


@pytest.mark.parametrize(
    ("file", "content", "words"),
    [
        ("X.csv", None, ["has no X.csv"]),
        ("masks.json", None, ["has no masks.json"]),
        ("y.csv", "y\n1\n2\n", ["y.csv must have 80 rows", "got 2"]),
        ("masks.json", MASKS, ["masks.json", "split 0", "row 400", "0 to 79"]),
        ("masks.json", '{"0": {"train": [0], "test": [3]}}', ["masks.json", "split 0", "['val']"]),
        ("graph.graphml", "<graphml><graph>", ["graph.graphml", "line 1"]),
    ],
)
def test_an_invalid_folder_is_rejected_by_name(home, capsys, file, content, words):
    broken = home / "county" / file
    broken.unlink() if content is None else broken.write_text(content)
    assert (
        main(
            [
                "run",
                "--datasets",
                "county",
                "--methods",
                "LightGBM",
                "--store",
                str(home / "runs.sqlite"),
            ]
        )
        == 2
    )
    message = capsys.readouterr().err
    assert message.startswith("benchmarks: ") and all(word in message for word in words), message


# ---------------------------------------------------------------------- other layouts


def coauthor(folder, n=30, **changes):
    rng = np.random.default_rng(0)
    adjacency, attributes = (
        sparse.random_array((n, m), density=0.2, format="csr", rng=rng) for m in (n, 7)
    )
    stored = {"labels": rng.integers(0, 3, n)}
    for kind, matrix in (("adj", adjacency), ("attr", attributes)):
        stored |= {
            f"{kind}_{part}": getattr(matrix, part)
            for part in ("data", "indices", "indptr", "shape")
        }
    folder.mkdir()
    np.savez(
        folder / "data.npz",
        **{name: value for name, value in (stored | changes).items() if value is not None},
    )


def test_coauthor_without_masks_gets_splits_that_cover_every_node_once(home):
    coauthor(home / "coauthor_cs")
    loaded = data.load("coauthor_cs")
    assert loaded.classes and loaded.X.shape == (30, 7) and len(loaded.splits) == 5
    for split in loaded.splits:
        assert sorted(np.concatenate(list(split.values()))) == list(range(30))
        assert [len(split[part]) for part in ("train", "val", "test")] == [18, 6, 6]


def test_coauthor_reads_masks_and_rejects_an_invalid_archive(home):
    coauthor(home / "coauthor_cs")
    (home / "coauthor_cs" / "masks.json").write_text(
        json.dumps({"0": {"train": [1], "val": [2], "test": [3]}})
    )
    assert [split["train"].tolist() for split in data.load("coauthor_cs").splits] == [[1]]
    coauthor(home / "coauthor_phy", labels=None)
    with pytest.raises(ValueError, match=r"data\.npz lacks the arrays \['labels'\]"):
        data.load("coauthor_phy")


def arxiv(folder, **changes):
    files = {
        "raw/node-feat": "0.5,1\n1,2\n-1,3\n0,0\n",
        "raw/node-label": "0\n1\n1\n0\n",
        "raw/edge": "0,1\n2,1\n3,0\n",
        "split/time/train": "0\n1\n",
        "split/time/valid": "2\n",
        "split/time/test": "3\n",
    }
    for name, text in (files | changes).items():
        if text is not None:
            path = folder / f"{name}.csv.gz"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(gzip.compress(text.encode()))


def test_arxiv_is_read_in_the_layout_of_ogb(home):
    arxiv(home / "ogbn_arxiv")
    loaded = data.load("ogbn_arxiv")
    assert loaded.X.tolist() == [[0.5, 1], [1, 2], [-1, 3], [0, 0]] and loaded.y.tolist() == [
        0,
        1,
        1,
        0,
    ]
    assert sorted(loaded.graph.neighbors(1)) == [0, 2] and sorted(loaded.graph.neighbors(0)) == [
        1,
        3,
    ]
    assert {part: nodes.tolist() for part, nodes in loaded.splits[0].items()} == {
        "train": [0, 1],
        "val": [2],
        "test": [3],
    }


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"raw/node-label": "0\n1\n"}, "node-label.csv.gz has 2 rows, node-feat.csv.gz has 4"),
        ({"raw/edge": "0,9\n"}, "edge.csv.gz names node 9"),
        ({"split/time/test": "7\n"}, "'test' names row 7"),
        ({"split/time/valid": None}, "has no split/time/valid.csv.gz"),
    ],
)
def test_an_invalid_arxiv_is_rejected_by_name(home, changes, words):
    arxiv(home / "ogbn_arxiv", **changes)
    with pytest.raises((ValueError, FileNotFoundError), match=words):
        data.load("ogbn_arxiv")
