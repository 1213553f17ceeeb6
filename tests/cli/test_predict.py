"""``ebboost predict``: fitted rows, new tables, attached nodes."""

import errno
import json
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import ebboost as eb
from tests.cli.commands import SIDE, error_line, grid, run


def test_predictions_of_classes_have_a_probability_for_each_class(folder):
    facts = json.loads(run("predict", folder / "kind.ebb", "--json").stdout)
    assert len(facts) == SIDE * SIDE // 4 and set(facts[0]) == {
        "id",
        "prediction",
        "probability_north",
        "probability_south",
    }
    for row in facts:
        assert row["probability_north"] + row["probability_south"] == pytest.approx(1.0)
        assert row[f"probability_{row['prediction']}"] >= 0.5
    stated = eb.load(folder / "kind.ebb").predict_proba()[::4]
    np.testing.assert_allclose(
        [[row["probability_north"], row["probability_south"]] for row in facts], stated
    )


def test_csv_and_parquet_predictions_are_equal(folder, tmp_path):
    for name in ("p.csv", "p.parquet"):
        assert f"{name}: 66 predictions" in run(
            "predict", folder / "price.ebb", "-o", tmp_path / name
        ).stdout.replace("\n", "")
    text, binary = (
        pd.read_csv(tmp_path / "p.csv", dtype={"id": str}),
        pd.read_parquet(tmp_path / "p.parquet"),
    )
    assert text["id"].tolist() == binary["id"].tolist()
    np.testing.assert_allclose(text["prediction"], binary["prediction"])
    assert (
        len(json.loads(run("predict", folder / "price.ebb", "--all", "--json").stdout))
        == SIDE * SIDE
    )


def test_a_new_table_and_its_edges_are_predicted(folder):
    nodes, edges = grid()
    facts = json.loads(
        run(
            "predict",
            folder / "price.ebb",
            "--nodes",
            folder / "nodes.csv",
            "--edges",
            folder / "edges.csv",
            "--json",
        ).stdout
    )
    model = eb.load(folder / "price.ebb")
    graph = eb.Graph.from_dataframe(edges, nodes=nodes["id"])
    known = np.flatnonzero(nodes["price"].notna())
    wanted = model.predict(
        nodes[["size", "rooms", "kind"]], graph=graph, new_labels=(known, nodes["price"][known])
    )
    assert [row["prediction"] for row in facts] == pytest.approx(
        wanted[nodes["price"].isna()].tolist()
    )


def test_attached_nodes_are_predicted_from_fitted_neighbours(folder, tmp_path):
    nodes, _ = grid()
    pd.DataFrame(
        {"id": ["new", "far"], "size": [0.0, 0.0], "rooms": [3, 3], "kind": ["north", "south"]}
    ).to_csv(tmp_path / "new.csv", index=False)
    pd.DataFrame({"from": ["new", "new", "far", "far"], "to": ["004", "005", "190", "191"]}).to_csv(
        tmp_path / "ties.csv", index=False
    )
    words = (
        "predict",
        folder / "price.ebb",
        "--nodes",
        tmp_path / "new.csv",
        "--edges",
        tmp_path / "ties.csv",
    )
    assert "'004' is not in new.csv but the model was fitted on it: pass --attach" in error_line(
        *words
    )
    facts = json.loads(run(*words, "--attach", "--json").stdout)
    assert [row["id"] for row in facts] == ["new", "far"]
    near = nodes.set_index("id")["price"]
    for row, neighbours in zip(facts, (["004", "005"], ["190", "191"]), strict=True):
        assert (
            abs(row["prediction"] - near[neighbours].mean()) < 6.0
        )  # of prices that range over 30
    run(*words, "--attach", "--interval", 0.9)
    assert "name the column of ids" in error_line(*words, "--attach", "--id", "rows")
    pd.DataFrame({"id": ["004"], "size": [0.0], "rooms": [3], "kind": ["north"]}).to_csv(
        tmp_path / "new.csv", index=False
    )
    assert "the model was fitted on node '004': leave it out" in error_line(
        *words, "--attach", "--skip-unknown"
    )


def test_models_saved_from_python_are_predicted(folder, tmp_path):
    nodes, _ = grid()
    plain = eb.EBBSRegressor(3, random_state=0).fit(nodes[["size", "rooms"]], nodes["price"])
    plain.save(tmp_path / "m.ebb")
    facts = json.loads(run("predict", tmp_path / "m.ebb", "--json").stdout)
    assert facts[0]["id"] == "0" and len(facts) == nodes["price"].isna().sum()
    assert "This model has no table" in error_line("explain", tmp_path / "m.ebb", "3")
    words = (
        "predict",
        tmp_path / "m.ebb",
        "--nodes",
        folder / "nodes.csv",
        "--edges",
        folder / "edges.csv",
    )
    assert "fitted without one" in error_line(*words)
    assert "fitted on a graph" in error_line(*words, "--attach")


def test_intervals_of_classes_are_sets(folder):
    rows = json.loads(run("predict", folder / "kind.ebb", "--interval", 0.5, "--json").stdout)
    assert all(str(row["prediction"]) in row["set"].split() for row in rows)


def test_nothing_is_predicted_where_every_label_is_known(folder, tmp_path):
    run(
        "fit",
        folder / "nodes.csv",
        folder / "edges.csv",
        "-t",
        "kind",
        "-o",
        tmp_path / "m.ebb",
        "--rounds",
        5,
    )
    assert "--all predicts them all" in error_line("predict", tmp_path / "m.ebb")


def test_a_new_table_without_a_column_raises_an_error(folder, tmp_path):
    pd.DataFrame({"id": ["a", "b"], "sise": [1, 2], "rooms": [1, 2]}).to_csv(
        tmp_path / "new.csv", index=False
    )
    (tmp_path / "ties.csv").write_text("from,to\na,b\n")
    line = error_line(
        "predict",
        folder / "price.ebb",
        "--nodes",
        tmp_path / "new.csv",
        "--edges",
        tmp_path / "ties.csv",
    )
    assert "no column 'size' (the model needs it). Did you mean 'sise'?" in line


def test_text_in_a_column_of_numbers_is_reported_with_its_line(folder, tmp_path):
    nodes, _ = grid()
    nodes.assign(size=nodes["size"].astype(object).where(nodes["id"] != "003", "big")).to_csv(
        tmp_path / "new.csv", index=False
    )
    files = ("--nodes", tmp_path / "new.csv", "--edges", folder / "edges.csv")
    line = error_line("predict", folder / "price.ebb", *files)
    assert "new.csv, line 5: column 'size' is 'big', not a number. The model was fitted on" in line


def test_a_damaged_model_file_raises_an_error(folder, tmp_path):
    content = (folder / "price.ebb").read_bytes()
    (tmp_path / "cut.ebb").write_bytes(content[: len(content) // 2])
    assert "not an ebboost model, or it is damaged" in error_line("predict", tmp_path / "cut.ebb")


def test_a_full_disk_leaves_the_old_predictions(folder, tmp_path, monkeypatch):
    out = tmp_path / "p.csv"
    out.write_text("old")

    def full(self, path, **_):
        Path(path).write_text("half")
        raise OSError(errno.ENOSPC, "No space left on device", str(out))

    monkeypatch.setattr(pd.DataFrame, "to_csv", full)
    assert "p.csv: No space left on device." in error_line(
        "predict", folder / "price.ebb", "-o", out
    )
    assert out.read_text() == "old" and [path.name for path in tmp_path.iterdir()] == ["p.csv"]


def test_missing_permission_is_reported_before_loading(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)
    monkeypatch.setattr(eb, "load", None)
    assert "no permission" in error_line("predict", folder / "price.ebb", "-o", tmp_path / "p.csv")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is always full")
def test_a_full_device_is_reported_and_not_replaced(folder):
    assert "No space left on device" in error_line(
        "predict", folder / "price.ebb", "-o", "/dev/full"
    )
    assert not Path("/dev/full").is_file()


def test_attached_classes_are_those_of_a_prediction_by_hand(folder, tmp_path):
    model_file = tmp_path / "kind.ebb"
    words = ("-t", "kind", "--drop", "price", "-o", model_file)
    run("fit", folder / "kinds.csv", folder / "edges.csv", *words)
    new = pd.DataFrame({"id": ["new", "far"], "size": [0.0, 0.0], "rooms": [3, 3]})
    new_edges = pd.DataFrame({"from": ["new", "far", "far"], "to": ["017", "179", "178"]})
    new.to_csv(tmp_path / "new.csv", index=False)
    new_edges.to_csv(tmp_path / "edges.csv", index=False)
    files = ("--nodes", tmp_path / "new.csv", "--edges", tmp_path / "edges.csv")
    rows = json.loads(run("predict", model_file, *files, "--attach", "--json").stdout)

    fitted = pd.read_csv(folder / "kinds.csv", dtype={"id": str})
    table = pd.concat([new, fitted], ignore_index=True)
    edges = pd.concat([new_edges, pd.read_csv(folder / "edges.csv", dtype=str)])
    graph = eb.Graph.from_dataframe(edges, nodes=table["id"])
    labelled = np.flatnonzero(table["kind"].notna())
    probabilities = eb.load(model_file).predict_proba(
        table[["size", "rooms"]], graph=graph, new_labels=(labelled, table["kind"][labelled])
    )
    np.testing.assert_allclose([row["probability_north"] for row in rows], probabilities[:2, 0])


def test_a_table_whose_labels_are_all_known_is_predicted_on_request(folder, tmp_path):
    nodes, _ = grid()
    nodes["price"] = nodes["price"].fillna(100.0)
    nodes.to_csv(tmp_path / "known.csv", index=False)
    words = ("predict", folder / "price.ebb", "--nodes", tmp_path / "known.csv")
    words += ("--edges", folder / "edges.csv")
    assert "known in every row: --all predicts them anyway" in error_line(*words)
    assert len(json.loads(run(*words, "--all", "--json").stdout)) == len(nodes)
