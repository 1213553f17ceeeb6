"""``ebboost fit``: the model is that of the library, and metrics of held-out labels are printed."""

import errno
import json
import os
import shlex
import signal
import subprocess
import sys
import zipfile

import numpy as np
import pandas as pd
import pytest

import ebboost as eb
import ebboost.__main__
from ebboost.training import defaults
from tests.cli.commands import ENVIRONMENT, error_line, grid, run


def test_fit_resumes_from_a_checkpoint_to_the_same_model(folder, tmp_path):
    words = [
        "fit",
        folder / "nodes.csv",
        folder / "edges.csv",
        "-t",
        "price",
        "--rounds",
        30,
        "-o",
        tmp_path / "m.ebb",
    ]
    words += ["--checkpoint", tmp_path / "kept"]
    run(*words)
    assert "--resume" not in error_line(*words[:-2], "--checkpoint", folder / "nodes.csv")  # a file
    assert "holds checkpoints of an earlier fit" in error_line(*words)
    run(*words, "--resume")
    again, ours = eb.load(tmp_path / "m.ebb"), eb.load(folder / "price.ebb")
    assert (again.predict() == ours.predict()).all()
    assert "--resume needs --checkpoint" in error_line(*words[:-2], "--resume", code=2)


def test_a_fitted_file_predicts_what_the_library_predicts(folder):
    nodes, edges = grid()
    graph = eb.Graph.from_dataframe(edges, nodes=nodes["id"])
    ours = eb.EBBSRegressor(30, random_state=0).fit(
        nodes[["size", "rooms", "kind"]], nodes["price"], graph=graph
    )
    written = pd.read_csv(
        pd.io.common.StringIO(run("predict", folder / "price.ebb", "--interval", 0.8).stdout),
        dtype={"id": str},
    )
    gaps = np.flatnonzero(nodes["price"].isna())
    assert written["id"].tolist() == nodes["id"][gaps].tolist()
    for name, values in zip(
        ("prediction", "lower", "upper"), ours.predict(nodes=gaps, interval=0.8), strict=True
    ):
        np.testing.assert_allclose(written[name], values)


def test_fit_prints_held_out_metrics(folder, tmp_path):
    out = tmp_path / "m.ebb"
    facts = json.loads(
        run(
            "fit",
            folder / "nodes.csv",
            folder / "edges.csv",
            "-t",
            "price",
            "-o",
            out,
            "--rounds",
            30,
            "--json",
        ).stdout
    )
    model = eb.load(out)
    errors = model.validation_target_[:, 0] - model.validation_prediction_[:, 0]
    assert (
        facts["rmse"] == pytest.approx(np.sqrt(np.mean(errors**2)))
        and facts["rmse"] < facts["rmse_of_mean"]
    )
    assert facts["held_out"] == model.validation_nodes_.size and facts["task"] == "regression"
    assert model.state_.source == {"id": "id", "target": "price"}
    assert model.graph_.node_ids[7] == "007"
    printed = run(
        "fit", folder / "nodes.csv", folder / "edges.csv", "-t", "price", "-o", out, "--rounds", 30
    ).stdout
    assert (
        "held-out RMSE" in printed
        and "optimistic" in printed
        and "Next: ebboost predict" in printed
    )
    assert "without the graph," in printed and "with it: -" in printed
    assert facts["rounds"] == list(model.rounds_) and facts["gain"] == vars(model.gain_)
    for name in model.selection_["candidate"]:
        assert name == "none" or name.partition(" + ")[0] in printed


def test_presets_are_those_of_the_library(folder, tmp_path):
    words = ("fit", folder / "nodes.csv", folder / "edges.csv", "-t", "price", "--rounds", 5)
    run(*words, "-o", tmp_path / "m.ebb", "--preset", "fast")
    model = eb.load(tmp_path / "m.ebb")
    assert (model.selection, model.n_folds, len(model.rounds_)) == ("rules", 1, 1)
    assert "fast" in run(*words, "--preset", "slow", code=2).stderr


def test_weights_categories_and_dropped_columns_reach_the_model(folder, tmp_path):
    nodes, edges = grid()
    rooms = (
        nodes["rooms"].astype(float).where(nodes.index % 7 > 0)
    )  # a gap makes floats of whole numbers
    nodes.assign(rooms=rooms).to_csv(tmp_path / "gaps.csv", index=False)
    edges.assign(km=2.0).to_csv(tmp_path / "edges.csv", index=False)
    with (tmp_path / "edges.csv").open("a") as file:
        file.write("000,elsewhere,1.0\n")
    words = (
        "-t",
        "price",
        "--weight",
        "km",
        "--skip-unknown",
        "--categorical",
        "rooms",
        "--drop",
        "size",
        "--rounds",
        5,
    )
    run(
        "fit",
        folder / "nodes.csv",
        tmp_path / "edges.csv",
        *words,
        "-o",
        tmp_path / "m.ebb",
        "--edge-from",
        "from",
    )
    model = eb.load(tmp_path / "m.ebb")
    assert set(model.graph_.adjacency.data) == {2.0} and model.state_.reader.names == (
        "rooms",
        "kind",
    )
    assert model.state_.reader.categories == {0: ["1", "2", "3", "4", "5"], 1: ["north", "south"]}
    words = (
        "predict",
        tmp_path / "m.ebb",
        "--nodes",
        tmp_path / "gaps.csv",
        "--edges",
        folder / "edges.csv",
        "--all",
        "--json",
    )
    assert len(json.loads(run(*words).stdout)) == len(nodes)


def test_fit_names_the_next_commands_and_they_run(folder, copy, monkeypatch):
    monkeypatch.chdir(copy)
    monkeypatch.setattr("webbrowser.open", lambda address: True)
    nodes, _ = grid()
    nodes.assign(id="no. " + nodes["id"], price=nodes["price"].fillna(100.0)).to_csv(
        "all.csv", index=False
    )
    pd.read_csv("edges.csv", dtype=str).map(lambda end: "no. " + end).to_csv(
        "ends.csv", index=False
    )
    for table, edges in (("nodes.csv", "edges.csv"), ("all.csv", "ends.csv")):
        printed = run(
            "fit", table, edges, "-t", "price", "--rounds", 5, "-o", "my model.ebb"
        ).stdout
        commands = [shlex.split(line)[1:] for line in printed.partition("Next: ")[2].splitlines()]
        assert [command[0] for command in commands] == [
            "predict" if table == "nodes.csv" else "explain",
            "report",
        ]
        for command in commands:
            run(*command)


def test_a_full_disk_leaves_the_old_model(folder, copy, monkeypatch):
    out = copy / "m.ebb"
    out.write_text("old")

    def full(self, name, *_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(zipfile.ZipFile, "writestr", full)
    before = sorted(path.name for path in copy.iterdir())
    words = ("fit", copy / "nodes.csv", copy / "edges.csv", "-t", "price", "-o", out, "--rounds", 3)
    assert error_line(*words) == "ebboost: No space left on device."
    assert out.read_text() == "old" and sorted(path.name for path in copy.iterdir()) == before


@pytest.mark.skipif(os.name == "nt", reason="signals differ")
def test_ctrl_c_stops_a_fit_and_leaves_no_file(tmp_path):
    for name, frame in zip(("nodes.csv", "edges.csv"), grid(), strict=True):
        frame.to_csv(tmp_path / name, index=False)
    slowly = (
        "import sys, time; from ebboost.cli.app import app\n"
        "from ebboost.cli.console import ModelsBar\n"
    )
    slowly += "def slow(self, progress): print('round', flush=True); time.sleep(0.2)\n"
    slowly += "ModelsBar.after_round = slow; app(sys.argv[1:], prog_name='ebboost')"
    words = ["fit", "nodes.csv", "edges.csv", "-t", "price", "-o", "m.ebb"]
    with subprocess.Popen(
        [sys.executable, "-c", slowly, *words],
        cwd=tmp_path,
        env=ENVIRONMENT,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as running:
        assert running.stdout.readline() == "round\n"
        running.send_signal(signal.SIGINT)
        _, errors = running.communicate(timeout=60)
    assert running.returncode == 130
    assert errors.splitlines() == ["ebboost: stopped; no file was changed."]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["edges.csv", "nodes.csv"]


def test_new_rows_of_a_file_with_coordinates_have_spectral_columns(tmp_path, monkeypatch):
    monkeypatch.setattr(defaults, "SEARCH_ORDER", ("spectral_features",))
    monkeypatch.setattr(defaults, "NETWORKS_UP_TO", 0)
    for limit in ("GRAPH_STANDARD_ERRORS", "MIN_GAIN"):  # whatever its loss
        monkeypatch.setattr(defaults, limit, -1e9)
    nodes, _ = grid()
    nodes["y"], nodes["x"] = np.divmod(np.arange(len(nodes)), int(len(nodes) ** 0.5))
    nodes[:150].to_csv(tmp_path / "old.csv", index=False)
    nodes[150:].drop(columns="price").to_csv(tmp_path / "new.csv", index=False)
    words = (tmp_path / "old.csv", "-t", "price", "--coordinates", "x", "y", "--neighbors")
    run("fit", *words, 4, "-o", tmp_path / "m.ebb", "--rounds", 5)
    model = eb.load(tmp_path / "m.ebb")
    assert "spectral" in model.best_candidate_ and model.coordinates_.neighbors == 4
    new = run("predict", tmp_path / "m.ebb", "--nodes", tmp_path / "new.csv", "--json").stdout
    assert [row["id"] for row in json.loads(new)] == nodes["id"][150:].tolist()
    assert "--neighbors must be auto, delaunay" in error_line("fit", *words, "few", code=2)
    edges = (tmp_path / "old.csv", tmp_path / "old.csv", "-t", "price", "--neighbors", 3)
    assert "--neighbors needs --coordinates" in error_line("fit", *edges, code=2)


def test_coordinates_take_the_place_of_edges(tmp_path):
    nodes, _ = grid()
    side = int(len(nodes) ** 0.5)
    nodes["lat"], nodes["lon"] = np.divmod(np.arange(len(nodes)), side)
    nodes[:150].to_csv(tmp_path / "old.csv", index=False)
    nodes[150:].drop(columns="price").to_csv(tmp_path / "new.csv", index=False)
    words = (tmp_path / "old.csv", "-t", "price", "--coordinates", "lon", "lat")
    checked = json.loads(run("check", *words, "--no-estimate", "--json").stdout)
    assert checked["n_nodes"] == 150 and checked["n_isolates"] == 0
    model_file = tmp_path / "m.ebb"
    run("fit", *words, "-o", model_file, "--rounds", 20)
    X = nodes[["size", "rooms", "kind", "lat", "lon"]]
    ours = eb.EBBSRegressor(20, random_state=0)
    ours.fit(X[:150], nodes["price"][:150], coordinates=["lon", "lat"])
    new = json.loads(run("predict", model_file, "--nodes", tmp_path / "new.csv", "--json").stdout)
    assert [row["id"] for row in new] == nodes["id"][150:].tolist()
    np.testing.assert_allclose([row["prediction"] for row in new], ours.predict(X[150:]))
    rows = json.loads(run("explain", model_file, "007", "--json").stdout)
    assert rows[0]["node"] == "007"
    assert "pass either EDGES or --coordinates" in error_line("fit", *words[:3], code=2)
    assert "no column 'log'" in error_line("fit", *words[:4], "log", "lat")
    nodes.assign(lon=nodes["lon"].where(nodes.index != 7)).to_csv(tmp_path / "old.csv")
    assert "old.csv, line 9: column 'lon' must be a number in every row" in error_line(
        "fit", *words
    )


def test_new_rows_without_edges_need_a_model_with_coordinates(folder):
    line = error_line("predict", folder / "price.ebb", "--nodes", folder / "nodes.csv", code=2)
    assert "--nodes needs --edges: the model has no coordinates" in line


@pytest.fixture
def counts(tmp_path):
    """Files of a table with counts, a column they are proportional to, and edges."""
    nodes, edges = grid()
    random = np.random.default_rng(0)
    nodes["people"] = random.integers(50, 2000, len(nodes))
    nodes["cases"] = random.poisson(nodes["people"] * np.exp(0.5 * nodes["size"] - 4)).astype(float)
    nodes.loc[::4, "cases"] = np.nan
    nodes.drop(columns="price").to_csv(tmp_path / "nodes.csv", index=False)
    edges.to_csv(tmp_path / "edges.csv", index=False)
    return tmp_path


def test_counts_are_fitted_and_predicted_with_their_exposure(counts):
    files = (counts / "nodes.csv", counts / "edges.csv")
    words = ["fit", *files, "-t", "cases", "--exposure", "people", "-o", counts / "m.ebb"]
    facts = json.loads(run(*words, "--rounds", 20, "--json").stdout)
    assert facts["task"] == "regression" and facts["deviance"] > 0 and facts["d2"] <= 1
    model = eb.load(counts / "m.ebb")
    nodes = pd.read_csv(files[0], dtype={"id": str})
    assert isinstance(model.loss_, eb.NegativeBinomial)
    assert "people" not in model.feature_names_in_
    np.testing.assert_allclose(np.exp(model.state_.offset[:, 0]), nodes["people"])
    assert "held-out D²" in run(*words, "--rounds", 20, "--loss", "poisson").stdout
    new = ("predict", counts / "m.ebb", "--nodes", files[0], "--edges", files[1])
    written = pd.read_csv(pd.io.common.StringIO(run(*new, "--all").stdout))
    nodes["people"] *= 2
    nodes.to_csv(files[0], index=False)
    doubled = pd.read_csv(pd.io.common.StringIO(run(*new, "--all").stdout))
    assert doubled["prediction"].sum() > 1.3 * written["prediction"].sum()
    nodes.drop(columns="people").to_csv(files[0], index=False)
    assert "people" in error_line(*new)


def test_an_unknown_exposure_is_reported_before_the_files_are_read(counts):
    words = ["fit", counts / "nodes.csv", counts / "edges.csv", "-t", "cases"]
    assert "no column 'peple'" in error_line(*words, "--exposure", "peple")
    assert "'normal' is not one of 'poisson', " in error_line(*words, "--loss", "normal", code=2)


def test_metrics_of_two_classes_are_printed(folder, tmp_path):
    words = ["fit", folder / "kinds.csv", folder / "edges.csv", "-t", "kind", "--drop", "price"]
    facts = json.loads(run(*words, "--rounds", 20, "-o", tmp_path / "m.ebb", "--json").stdout)
    assert 0.0 <= facts["brier"] <= 1.0 and 0.5 < facts["roc_auc"] <= 1.0
    assert facts["log_loss"] > 0.0 and facts["average_precision"] > 0.5


@pytest.fixture
def policies(tmp_path):
    """Rows in towns, whose effects vary along a path of towns, and edges between these."""
    random = np.random.default_rng(0)
    town = random.integers(0, 20, 300)
    rows = pd.DataFrame({"town": [f"{one:02d}" for one in town], "age": random.normal(size=300)})
    rows["sold"] = pd.Timestamp("2020-01-01") + pd.to_timedelta(np.arange(300) // 10, unit="D")
    rows["cost"] = 3.0 * np.sin(town / 3.0) + rows["age"] + 0.1 * random.normal(size=300)
    rows[rows["town"] != "07"].iloc[:250].to_csv(tmp_path / "rows.csv", index=False)
    rows.iloc[250:].to_csv(tmp_path / "new.csv", index=False)
    names = [f"{one:02d}" for one in range(20)]
    towns = pd.DataFrame({"from": names[:-1], "to": names[1:]})
    towns.to_csv(tmp_path / "towns.csv", index=False)
    return tmp_path


@pytest.mark.parametrize("edges", [["towns.csv"], []])
def test_rows_in_groups_are_fitted_and_new_rows_predicted(policies, edges):
    words = ["fit", policies / "rows.csv", *(policies / name for name in edges), "-t", "cost"]
    words += ["--groups", "town", "--rounds", 30, "--preset", "fast", "-o", policies / "m.ebb"]
    sizes = ", 20 groups, 19 edges," if edges else ", 19 groups, 0 edges,"
    assert sizes in run(*words).stdout
    model = eb.load(policies / "m.ebb")
    assert "town" not in model.feature_names_in_
    new = pd.read_csv(policies / "new.csv", dtype={"town": str}, parse_dates=["sold"])
    output = run("predict", policies / "m.ebb", "--nodes", policies / "new.csv", "--all").stdout
    predicted = pd.read_csv(pd.io.common.StringIO(output))["prediction"]
    known = new["town"] != "07"
    assert np.corrcoef(predicted[known], new["cost"][known])[0, 1] > 0.8
    expected = model.predict(new[["age", "sold"]], groups=new["town"], new_labels=([], []))
    assert np.corrcoef(predicted, expected)[0, 1] > 0.9


def test_a_column_of_times_holds_out_the_latest_rows(policies):
    words = ["fit", policies / "rows.csv", policies / "towns.csv", "-t", "cost", "--groups", "town"]
    words += ["--rounds", 10, "--time", "sold", "--causal", "-o", policies / "m.ebb"]
    run(*words)
    model = eb.load(policies / "m.ebb")
    assert model.validation_nodes_.min() >= 0.75 * len(model.scores_)
    assert model.state_.is_causal
    assert "of 2 folds" not in model.summary() and model.state_.n_compared_folds == 4
    new = ("predict", policies / "m.ebb", "--nodes", policies / "new.csv", "--all")
    assert len(run(*new).stdout.splitlines()) == 51


def test_wrong_groups_and_times_are_reported(policies):
    words = ["fit", policies / "rows.csv", policies / "towns.csv", "-t", "cost"]
    assert "no column 'twn'" in error_line(*words, "--groups", "twn")
    assert "--causal needs --time" in error_line(*words, "--causal", code=2)
    assert "excludes" in error_line(*words, "--groups", "town", "--directed", code=2)
    assert "names no group" in error_line(*words, "--groups", "age")
    rows = pd.read_csv(policies / "rows.csv")
    rows.assign(sold=rows["sold"].where(rows.index != 3)).to_csv(policies / "gap.csv", index=False)
    words[1] = policies / "gap.csv"
    message = "gap.csv, line 5: column 'sold' (--time) must be a number or a date in every row"
    assert message in error_line(*words, "--groups", "town", "--time", "sold")
    assert "several rows belong to a node: ebboost fit --groups 'town'" in error_line(
        *words, "--id", "town"
    )


def test_fit_says_that_a_column_copies_the_target(folder, tmp_path):
    nodes = pd.read_csv(folder / "nodes.csv", dtype={"id": str})
    nodes.assign(asked=3.0 * nodes["price"]).to_csv(tmp_path / "nodes.csv", index=False)
    words = ["fit", tmp_path / "nodes.csv", folder / "edges.csv", "-t", "price", "--rounds", 5]
    note = run(*words, "--preset", "fast", "-o", tmp_path / "m.ebb").stderr
    assert "copies the target: 'asked'" in " ".join(note.split())
