"""The default against the stored table: what is compared, and when it fails."""

import json

import pytest

import ebboost as eb
from benchmarks import default
from benchmarks.tasks import NUMBERS, TASKS


def rows(factor=1.0, groups=NUMBERS):
    stored = default.read_rows(default.STORED)
    return {
        key: row | {"error": factor * row["error"], "seconds": 0.5 * row["seconds"]}
        for key, row in stored.items()
        if key[0] in groups
    }


def test_the_stored_table_has_every_split_of_its_groups():
    stored = default.read_rows(default.STORED)
    groups = {group for group, _ in stored}
    assert set(NUMBERS) <= groups <= set(TASKS)
    for group in groups:
        splits = sorted(split for name, split in stored if name == group)
        assert splits == list(range(TASKS[group][0]))
    assert all(row["error"] > 0 and row["seconds"] > 0 for row in stored.values())


def test_ratios_are_those_of_means_and_sums():
    table = default.compare(rows(0.9), default.read_rows(default.STORED))
    assert table["county"][1:] == pytest.approx((0.9, 0.5))
    assert table["mean of the seven"][1:] == pytest.approx((0.9, 0.5))
    assert "mean of classes" not in table


@pytest.mark.parametrize(("factor", "n_worse"), [(1.0, 0), (1.004, 0), (1.01, 1), (1.03, 8)])
def test_more_error_is_named(factor, n_worse):
    table = default.compare(rows(factor), default.read_rows(default.STORED))
    assert len(default.verdict(table)) == n_worse


def test_one_bad_group_is_named():
    table = default.compare(rows() | rows(1.03, ["avazu"]), default.read_rows(default.STORED))
    assert [line.partition(":")[0] for line in default.verdict(table)] == ["avazu"]


def test_a_run_of_other_source_code_counts_as_missing(tmp_path):
    path = tmp_path / "rows.jsonl"
    row = {"group": "avazu", "split": 0, "error": 1.0, "seconds": 1.0, "on": "test"}
    lines = [row | {"source": "another"}, row | {"source": default.source_code(), "error": 0.5}]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert default.measure(["avazu"], [0], "test", path)["avazu", 0]["error"] == 0.5


def test_a_table_is_recorded_once(tmp_path):
    path = default.record(rows(), tmp_path)
    assert path.name == f"default-{eb.__version__}.jsonl"
    assert default.read_rows(path).keys() == rows().keys()
    with pytest.raises(FileExistsError):
        default.record(rows(), tmp_path)
