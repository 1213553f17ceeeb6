"""Tables made from the database, and the pages that show them."""

import pytest

import ebboost as eb
from benchmarks import database, report


def row(data="county", split=0, method="ebboost", error=1.0, **changes):
    own = {"experiment": "accuracy", "data": data, "split": split, "method": method}
    own |= {"error": error, "metric": "RMSE", "labels": 100, "seconds": 1.0}
    own |= {"processor_seconds": 2.0, "version": f"ebboost {eb.__version__}", "machine": "here"}
    return own | changes


def rows_of(*rows):
    return {database.key_of(one): one for one in rows}


def test_the_later_of_two_runs_counts(tmp_path):
    path = tmp_path / "rows.jsonl"
    for error in (2.0, 1.0):
        database.add(row(error=error), path)
    database.add(row(split=1), path)
    assert [one["error"] for one in database.read(path).values()] == [1.0, 1.0]
    database.write(database.read(path).values(), path)
    assert len(path.read_text().splitlines()) == 2


def test_rows_of_another_machine_are_merged(tmp_path):
    ours, theirs = tmp_path / "ours.jsonl", tmp_path / "theirs.jsonl"
    database.write([row(), row(method="LightGBM")], ours)
    database.write([row(method="GNN"), row(error=3.0)], theirs)
    assert database.merge(theirs, ours) == 2
    merged = {one["method"]: one["error"] for one in database.read(ours).values()}
    assert merged == {"ebboost": 3.0, "LightGBM": 1.0, "GNN": 1.0}


def test_errors_are_means_over_all_splits_and_the_best_is_bold():
    rows = rows_of(
        *(row(split=split, error=1.0 + split) for split in range(3)),
        *(row(split=split, method="LightGBM", error=4.0) for split in range(3)),
        row(method="CatBoost", error=0.1),  # one of three splits
    )
    line = report.tables(rows)["numbers"].splitlines()[-1]
    assert line == "| County: unemployment rate | RMSE | 3 | 4 | – | **2** |"


def test_a_graph_that_knows_nothing_is_compared_with_lightgbm_without_it():
    rows = rows_of(row(method="LightGBM", error=2.0), row("rewired county", error=1.9))
    assert report.tables(rows)["rewired"].endswith("| 2 | – | 1.9 | 0.95 |")


def test_numbers_have_four_digits():
    assert list(map(report.number, (0.123456, 12.3456, 29572.4))) == ["0.1235", "12.35", "29,572"]


def test_marks_are_filled_and_the_rest_of_a_page_stays():
    rows = rows_of(row(error=1.25))
    page = (
        "A\n\n<!-- table: numbers -->\nold\n<!-- end -->\n\nB "
        "<!-- value: county, ebboost -->9<!-- end --> in "
        "<!-- value: county, ebboost, seconds --><!-- end --> s.\n"
    )
    text = report.filled(page, rows)
    assert text.startswith("A\n\n<!-- table: numbers -->\n| ") and "old" not in text
    assert (
        "**1.25** |\n<!-- end -->\n\nB <!-- value: county, ebboost -->1.25<!-- end --> in" in text
    )
    assert text.endswith("seconds -->2<!-- end --> s.\n")
    assert report.filled(text, rows) == text
    with pytest.raises(ValueError, match="no table 'nonsense'"):
        report.filled("<!-- table: nonsense --><!-- end -->", rows)


def test_a_changed_page_and_an_older_version_are_found(tmp_path):
    rows = rows_of(row())
    page = tmp_path / "page.md"
    page.write_text(report.filled("<!-- table: seconds --><!-- end -->", rows))
    assert report.check([page], rows) == []
    page.write_text(page.read_text().replace("2", "1"))
    assert report.check([page], rows) == ["page.md differs: run python -m benchmarks report"]
    old = rows_of(row(version="ebboost 0.2.0"))
    assert report.check([], old) == ["there are runs of ebboost 0.2.0"]


def test_the_pages_of_the_project_show_the_database():
    assert report.check() == []
