"""The commands: they are the library on files, and their errors are one line."""

import io
import os
import re
import shlex

import numpy as np
import pandas as pd
import pytest

import ebboost as eb
from tests.cli.conftest import QUICK
from tests.safety.commands import edit, finite, process, run

COLUMNS = ["a", "b", "c", "lon", "lat", "kind"]
FIT = ("fit", "nodes.csv", "edges.csv", "-t", "price", *QUICK, "-o", "m.ebb")


def library(edges="edges.csv", **fit):
    """The model of the library on the files of the current folder."""
    nodes = pd.read_csv("nodes.csv", dtype={"id": str})
    if edges is not None:
        fit["graph"] = eb.Graph.from_dataframe(pd.read_csv(edges, dtype=str), nodes=nodes["id"])
    model = eb.EBBSRegressor(15, n_folds=2, random_state=0)
    return model.fit(nodes[COLUMNS], nodes["price"], **fit), nodes


def predicted(*words):
    """What ``ebboost predict`` prints, as a table."""
    return pd.read_csv(io.StringIO(run("predict", *words).out), dtype={"id": str})


def error(*words, code=1):
    """The line of an error."""
    result = run(*words, code=code)
    assert result.err.count("ebboost: ") == 1
    return result.err


def test_a_model_of_files_is_that_of_the_library(folder):
    model, nodes = library()
    gaps = np.flatnonzero(nodes["price"].isna())
    table = predicted("price.ebb", "--interval", 0.8)
    assert table["id"].tolist() == nodes["id"][gaps].tolist()
    expected = model.predict(nodes=gaps, interval=0.8)
    for name, values in expected._asdict().items():
        np.testing.assert_allclose(table[name], values)
    assert len(predicted("price.ebb", "--all")) == len(nodes)


def test_fit_says_what_it_understood_and_how_good_it_is(folder):
    out = run(*FIT, "--check").out
    model = eb.load("m.ebb")
    assert "nodes.csv, separated by commas: ids 'id'" in out and "categories  kind (2)" in out
    assert "Moran's I" in out and "The graph helps. RMSE" in out  # of the check
    held_out = np.sqrt(np.mean((model.model_.unseen.target - model.model_.unseen.raw) ** 2))
    assert f"RMSE {held_out:.4f}" in out and "labels not trained on" in out
    assert " ".join(model.summary().split()) in " ".join(out.split())
    assert model.graph_.node_ids[7] == pd.read_csv("nodes.csv")["id"][7]
    commands = [shlex.split(line)[1:] for line in out.partition("Next: ")[2].splitlines()]
    assert [command[0] for command in commands] == ["predict", "report"]
    for command in commands:
        run(*(word for word in command if word != "--open"))


def test_check_is_the_fit_without_a_file(folder):
    before = set(os.listdir())
    out = run("check", "nodes.csv", "edges.csv", "-t", "price", *QUICK).out
    assert set(os.listdir()) == before
    model, nodes = library()
    text = str(eb.check_graph(nodes[COLUMNS], nodes["price"], model.graph_, estimator=model))
    assert " ".join(text.split()[-8:]) in " ".join(out.split())
    assert model.gain_.relative > 0 and "The graph helps" in out
    assert "ebboost fit --check prints the same" in out


def test_check_without_a_fit_names_problems(folder):
    edit("nodes.csv", lambda table: table.assign(country="DE"))
    words = ("check", "nodes.csv", "edges.csv", "-t", "price", "--no-estimate")
    out = run(*words).out
    assert "Constant or empty: 'country'" in out and "The graph" not in out
    positive = pd.read_csv("nodes.csv")["price"].abs().fillna(-999)
    edit("nodes.csv", lambda table: table.assign(price=positive))
    assert "warning: y is -999 in 120 rows" in run(*words).err
    assert "warning: y is -999" not in run(*words, "--missing", "-999").err


def test_options_of_a_fit_are_those_of_the_estimator(folder):
    run(*FIT, "--preset", "fast", "--max-seconds", 100, "--seed", 3, "--loss", "huber")
    parameters = eb.load("m.ebb").get_params()
    expected = {"n_folds": 2, "n_estimators": 15, "max_seconds": 100.0, "random_state": 3}
    assert {name: parameters[name] for name in expected} == expected
    assert isinstance(eb.load("m.ebb").loss_, eb.Huber)
    run("fit", "nodes.csv", "edges.csv", "-t", "price", "--preset", "fast", "-o", "m.ebb")
    assert eb.load("m.ebb").n_folds == 1
    assert "fast" in error(*FIT, "--preset", "slow", code=2)


def test_a_time_limit_leaves_a_model(folder):
    run("fit", "nodes.csv", "edges.csv", "-t", "price", "--max-seconds", 0.2, "-o", "m.ebb")
    model = eb.load("m.ebb")
    assert "max_seconds" in model.stop_reason_ and finite(model.predict())


def test_weights_categories_and_dropped_columns_reach_the_model(folder):
    edit("nodes.csv", lambda table: table.assign(rooms=["1", "2", ""] * 100))
    edit("edges.csv", lambda table: table.assign(km="2"))
    with open("edges.csv", "a") as file:
        file.write("n000,elsewhere,1.0\n")
    words = ("--weight", "km", "--categorical", "rooms", "--drop", "b", "--edge-from", "source")
    message = r"line \d+: 1 edge to nodes that are not in the table, such as 'elsewhere'"
    assert re.search(message, error(*FIT, *words))
    assert "Skipped 1 edge" in run(*FIT, *words, "--skip-unknown").err
    model = eb.load("m.ebb")
    assert set(model.graph_.adjacency.data) == {2.0}
    assert "b" not in model.feature_names_in_
    categories = model.model_.reader.categories
    assert ["1", "2"] in categories.values() and ["high", "low"] in categories.values()


GRAPHS = {
    "ids elsewhere": lambda t, e: (t.rename(columns={"id": "tag"}), e),
    "row numbers": lambda t, e: (
        t.drop(columns="id"),
        e.apply(lambda end: end.map(dict(zip(t["id"], range(len(t)), strict=True)))),
    ),
    "other names": lambda t, e: (t, e.set_axis(["u", "v"], axis=1)),
    "reversed": lambda t, e: (t, e[["target", "source"]]),
    "ids that lost their zeros": lambda t, e: (
        t.assign(id=t["id"].str[1:].astype(int)),
        e.apply(lambda end: end.str[1:]),
    ),
    "ids that are floats": lambda t, e: (
        t.assign(id=t["id"].str[1:]),
        e.apply(lambda end: end.str[1:].astype(float)),
    ),
    "distances": lambda t, e: (t, e.assign(distance=1.0)),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_the_same_edges_written_in_other_ways_are_the_same_graph(name, folder):
    expected, _ = library()
    table, edges = (pd.read_csv(file, dtype=str) for file in ("nodes.csv", "edges.csv"))
    table, edges = GRAPHS[name](table, edges)
    table.to_csv("nodes.csv", index=False)
    edges.to_csv("edges.csv", index=False)
    run(*FIT)
    ours = eb.load("m.ebb").graph_.adjacency
    scale = ours.data[0] / expected.graph_.adjacency.data[0]
    assert abs(ours - scale * expected.graph_.adjacency).max() < 1e-12


def test_edges_without_a_header_lose_none(folder):
    lines = (folder / "edges.csv").read_text().splitlines(keepends=True)
    (folder / "edges.csv").write_text("".join(lines[1:]))
    run(*FIT)
    assert eb.load("m.ebb").graph_.n_edges == len(lines) - 1


def test_coordinates_take_the_place_of_edges(folder):
    words = ("nodes.csv", "-t", "price", "--coordinates", "lon", "lat", *QUICK)
    out = run("fit", *words, "-o", "m.ebb").out
    assert "lon and lat: latitude and longitude in degrees" in out
    expected, nodes = library(edges=None, coordinates=["lon", "lat"])
    new = nodes.iloc[:20].assign(lon=lambda table: table["lon"] + 0.01, price=np.nan)
    new.assign(id=[f"new {i}" for i in range(20)]).to_csv("new.csv", index=False)
    table = predicted("m.ebb", "--nodes", "new.csv")
    assert table["id"].tolist() == [f"new {i}" for i in range(20)]
    np.testing.assert_allclose(table["prediction"], expected.predict(new[COLUMNS]), rtol=1e-5)
    assert nodes["id"][7] in run("explain", "m.ebb", nodes["id"][7]).out
    assert "pass either EDGES or --coordinates" in error("fit", *words[:3], code=2)
    words = ("predict", "m.ebb", "--nodes", "new.csv", "--edges", "edges.csv")
    assert "fitted on coordinates" in error(*words) and "Leave --edges out" in error(*words)
    words = ("nodes.csv", "-t", "price", *QUICK)
    assert "no column 'log'" in error("fit", *words[:3], "--coordinates", "log", "lat")


def test_folds_are_a_number_or_drawn_by_name(folder):
    words = ("fit", "nodes.csv", "-t", "price", "--rounds", 5, "-o", "m.ebb", "--folds")
    out = run(*words, "blocks", "--coordinates", "lon", "lat").out
    assert eb.load("m.ebb").n_folds == "blocks" and "blocks of labels were held out" in out
    table = pd.read_csv(io.StringIO(run("predict", "m.ebb", "--applicability").out))
    assert table.columns[-3:].tolist() == ["distance", "dissimilarity", "outside"]
    assert "from 1 up, random, distance or blocks, got 'block'" in error(
        *words, "block", "--coordinates", "lon", "lat", code=2
    )
    assert "needs coordinates" in error(*words[:2], "edges.csv", *words[2:], "blocks")


def test_maps_need_no_coordinates(folder):
    geopandas = pytest.importorskip("geopandas")
    nodes = pd.read_csv("nodes.csv", dtype={"id": str})
    points = geopandas.points_from_xy(nodes.pop("lon"), nodes.pop("lat"))
    geopandas.GeoDataFrame(nodes, geometry=points, crs=4326).to_file("nodes.gpkg")
    run("fit", "nodes.gpkg", "-t", "price", *QUICK, "-o", "m.ebb")
    model = eb.load("m.ebb")
    assert model.coordinates_ is not None and "longitude" in model.feature_names_in_


@pytest.mark.parametrize("edges", ["towns.csv", None])
def test_rows_in_groups_are_fitted_and_new_rows_predicted(edges, folder):
    rows = pd.read_csv("nodes.csv", dtype={"id": str}).drop(columns="price")
    rows["town"] = [f"town {int(10 * lon)}" for lon in rows.pop("lon")]
    rows["cost"] = rows["a"] + 3.0 * np.sin(rows["town"].str[5:].astype(int))
    rows.iloc[:200].to_csv("rows.csv", index=False)
    rows.iloc[200:].drop(columns="cost").to_csv("new.csv", index=False)
    names = [f"town {i}" for i in range(10)]
    pd.DataFrame({"from": names[:-1], "to": names[1:]}).to_csv("towns.csv", index=False)
    files = ["rows.csv"] if edges is None else ["rows.csv", edges]
    words = ("-t", "cost", "--groups", "town", "--folds", 2, "--drop", "id", "-o", "m.ebb")
    run("fit", *files, *words)
    assert "town" not in eb.load("m.ebb").feature_names_in_
    table = predicted("m.ebb", "--nodes", "new.csv")
    assert np.corrcoef(table["prediction"], rows["cost"][200:])[0, 1] > 0.9
    assert "excludes" in error("fit", *files, *words, "--id", "a", code=2)


def test_rows_in_several_groups_are_fitted_and_new_rows_predicted(folder):
    random = np.random.default_rng(0)
    town, client = random.integers(0, 10, 400), random.integers(0, 8, 400)
    cost = 3.0 * np.sin(town) + random.normal(0, 1, 8)[client] + random.normal(0, 0.1, 400)
    rows = pd.DataFrame(
        {"a": random.normal(size=400), "town": town, "client": client, "cost": cost}
    )
    rows.iloc[:300].to_csv("rows.csv", index=False)
    rows.iloc[300:].drop(columns="cost").to_csv("new.csv", index=False)
    pd.DataFrame({"from": range(9), "to": range(1, 10)}).to_csv("towns.csv", index=False)
    words = ("-t", "cost", "--groups", "town, client", "--folds", 2, "-o", "m.ebb")
    run("fit", "rows.csv", "towns.csv", *words)
    model = eb.load("m.ebb")
    assert list(model.feature_names_in_) == ["a"] and model.graph_.n_edges == 9
    table = predicted("m.ebb", "--nodes", "new.csv")
    assert np.corrcoef(table["prediction"], rows["cost"][300:])[0, 1] > 0.95
    assert "group town=" in run("explain", "m.ebb", 3).out
    words = ("-t", "cost", "--groups", "town,colour", "-o", "m.ebb")
    assert "'colour'" in error("fit", "rows.csv", *words)


def test_counts_are_fitted_and_predicted_with_their_exposure(folder):
    random = np.random.default_rng(0)
    nodes = pd.read_csv("nodes.csv", dtype={"id": str}).drop(columns="price")
    nodes["people"] = random.integers(50, 2000, len(nodes))
    nodes["cases"] = random.poisson(nodes["people"] * np.exp(0.5 * nodes["a"] - 4)).astype(float)
    nodes.loc[::4, "cases"] = np.nan
    nodes.to_csv("nodes.csv", index=False)
    words = ("fit", "nodes.csv", "edges.csv", "-t", "cases", "--exposure", "people", *QUICK)
    assert "deviance" in run(*words, "-o", "m.ebb").out
    model = eb.load("m.ebb")
    assert isinstance(model.loss_, eb.NegativeBinomial)
    assert "people" not in model.feature_names_in_
    new = nodes.assign(id=nodes["id"] + "x").drop(columns="cases")
    new.to_csv("new.csv", index=False)
    edges = pd.read_csv("edges.csv", dtype=str) + "x"
    edges.to_csv("new_edges.csv", index=False)
    words = ("m.ebb", "--nodes", "new.csv", "--edges", "new_edges.csv")
    once = predicted(*words)["prediction"]
    new.assign(people=2 * new["people"]).to_csv("new.csv", index=False)
    np.testing.assert_allclose(predicted(*words)["prediction"], 2.0 * once)
    new.drop(columns="people").to_csv("new.csv", index=False)
    assert "people" in error("predict", *words)


def test_the_latest_labels_are_held_out(folder):
    days = pd.date_range("2020-01-01", periods=300).strftime("%d/%m/%Y")
    edit("nodes.csv", lambda table: table.assign(sold=days, price=table["a"]))
    run("fit", "nodes.csv", "edges.csv", "-t", "price", "--time", "sold", *QUICK[:2], "-o", "m.ebb")
    assert eb.load("m.ebb").model_.unseen.rows.min() >= 200


# ---------------------------------------------------------------------- predict


def new_files(edges):
    """Write rows like the first ten, with other ids, and edges between ids."""
    nodes = pd.read_csv("nodes.csv", dtype={"id": str}).iloc[:10]
    new = nodes.assign(id=[f"new{i}" for i in range(10)], price=np.nan)
    new.to_csv("new.csv", index=False)
    pd.DataFrame(edges, columns=["source", "target"]).to_csv("ties.csv", index=False)
    return new


def test_new_rows_with_edges_to_fitted_rows_are_added_to_their_graph(folder):
    model, nodes = library()
    ends = nodes["id"][20:30].tolist()
    new = new_files([(f"new{i}", end) for i, end in enumerate(ends)])
    result = run("predict", "price.ebb", "--nodes", "new.csv", "--edges", "ties.csv")
    assert "10 edges of ties.csv lead to rows that the model was fitted on" in result.err
    table = pd.read_csv(io.StringIO(result.out))
    expected = model.predict(new[COLUMNS], attach=(range(10), ends))
    np.testing.assert_allclose(table["prediction"], expected)
    new_files([(nodes["id"][3], "new1")])
    pd.read_csv("nodes.csv", dtype=str).to_csv("new.csv", index=False)
    words = ("predict", "price.ebb", "--nodes", "new.csv", "--edges", "edges.csv")
    assert finite(pd.read_csv(io.StringIO(run(*words).out))["prediction"])  # the same ids


def test_labels_of_new_rows_inform_the_others(folder):
    new = new_files([("new0", "new1"), ("new1", "new2")])
    words = ("price.ebb", "--nodes", "new.csv", "--edges", "ties.csv")
    before = predicted(*words)
    new.loc[1, "price"] = 100.0
    new.to_csv("new.csv", index=False)
    after = predicted(*words)
    assert len(before) == 10 and len(after) == 9
    assert after["prediction"][0] > before["prediction"][0] + 1.0
    assert np.isclose(after["prediction"].iloc[-1], before["prediction"].iloc[-1])


def test_classes_have_probabilities_and_sets(folder):
    table = predicted("kind.ebb", "--interval", 0.5)
    assert np.allclose(table["probability_high"] + table["probability_low"], 1.0)
    assert all(
        one in named.split() for one, named in zip(table["prediction"], table["set"], strict=True)
    )


def test_what_cannot_be_predicted_is_said(folder):
    words = ("predict", "price.ebb", "--nodes", "new.csv")
    new = new_files([("new0", "new1")])
    assert "--nodes needs --edges" in error(*words, code=2)
    assert "belong together" in error("predict", "price.ebb", "--edges", "ties.csv", code=2)
    new.assign(price=1.0).to_csv("new.csv", index=False)
    assert "--all predicts them anyway" in error(*words, "--edges", "ties.csv")
    new.drop(columns="a").to_csv("new.csv", index=False)
    assert "no column 'a' (the model needs it)" in error(*words, "--edges", "ties.csv")
    assert "not an ebboost model" in error("predict", "nodes.csv")
    for command in (("predict",), ("report",), ("explain", "n001")):
        message = error(command[0], "prise.ebb", *command[1:])
        assert "There is no file prise.ebb. Did you mean 'price.ebb'?" in message
    edit("nodes.csv", lambda table: table.assign(price="1"))
    run("fit", "nodes.csv", "edges.csv", "-t", "a", *QUICK, "-o", "m.ebb")
    assert "--all predicts them all" in error("predict", "m.ebb")


def test_a_full_disk_leaves_the_old_file(folder, monkeypatch):
    (folder / "p.csv").write_text("old")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert error("predict", "price.ebb", "-o", "p.csv") == "ebboost: No space left on device."
    assert error(*FIT[:-1], "p.csv").endswith("No space left on device.")
    assert (folder / "p.csv").read_text() == "old"
    assert not [path for path in folder.iterdir() if path.suffix == ".part"]


# ---------------------------------------------------------------------- explain, report, demo


def test_an_explanation_names_rows_by_their_ids_and_adds_up(folder):
    model = eb.load("price.ebb")
    name = model.graph_.node_ids[5]
    out = run("explain", "price.ebb", name).out
    first, *lines = out.splitlines()
    prediction = float(first.removeprefix("prediction "))
    assert prediction == pytest.approx(model.predict(nodes=[5])[0], rel=1e-4)
    assert f"row {name}: score" in lines[0] and re.search(r"label of row n\d{3}", out)
    parts = [float(line.split()[-1]) for line in lines[1:]]
    assert sum(parts) == pytest.approx(prediction, abs=0.01)
    assert "score of low" in run("explain", "kind.ebb", name).out
    assert "no row 'n9999'" in error("explain", "price.ebb", "n9999")


def test_a_report_is_written_and_opened(folder, monkeypatch):
    shown = []
    monkeypatch.setattr("webbrowser.open", lambda address: not shown.append(address))
    assert run("report", "price.ebb", "--title", "Mine", "--open").out == "price.html\n"
    assert "<h1>Mine</h1>" in (folder / "price.html").read_text(encoding="utf-8")
    assert shown == [(folder / "price.html").as_uri()]
    run("report", "price.ebb", "-o", "other.html", "--node", "n007")
    text = (folder / "other.html").read_text(encoding="utf-8")
    assert "price: what the model learned" in text and "Your rows" in text


def test_the_demo_writes_files_that_the_other_commands_take(tmp_path):
    out = run("demo", "--files", tmp_path / "counties").out
    command = shlex.split(out.partition("Next: ebboost ")[2])
    nodes = pd.read_csv(tmp_path / "counties" / "nodes.csv", dtype={"fips": str})
    assert len(nodes) == 3107 and nodes["pc_turnout"].isna().sum() == 1243
    words = [word for word in command[1:] if word != "--check"]
    assert "3,107: 1,864 labelled" in run("check", *words, "--no-estimate").out
    assert "exclude each other" in error(
        "demo", "--files", tmp_path, "-o", tmp_path / "m.ebb", code=2
    )


def test_the_demo_compares_with_lightgbm(tmp_path, monkeypatch):
    X, y, graph, splits = eb.datasets.load_lucas()
    rows = np.sort(np.random.default_rng(0).permutation(len(X))[:600])
    small = eb.Graph.from_scipy(graph.adjacency[rows][:, rows])
    parts = {name: np.flatnonzero(np.isin(rows, part)) for name, part in splits[0].items()}
    houses = (X.iloc[rows].reset_index(drop=True), y[rows], small, [parts])
    monkeypatch.setattr("ebboost.cli.demo.load_lucas", lambda: houses)
    out = run("demo", "-o", tmp_path / "m.ebb").out
    table = [line.split() for line in out.splitlines() if re.search(r"%\s+\d+\s", line)]
    assert [" ".join(line[:-5]) for line in table] == [
        "LightGBM",
        "LightGBM + columns of neighbours",
        "ebboost",
    ]
    test, model = parts["test"], eb.load(tmp_path / "m.ebb")
    rmse = np.sqrt(np.mean((model.predict(nodes=test) - houses[1][test]) ** 2))
    assert float(table[2][-5]) == pytest.approx(rmse, abs=6e-4)
    assert int(table[2][-2]) == len(model.rounds_)


# ---------------------------------------------------------------------- the command line itself


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["fit", "nodes.csv", "edges.csv"], "Missing option '--target'"),
        (["fti"], "No such command 'fti'"),
        ([*FIT, "--task", "ranking"], "ranking"),
        ([*FIT, "--loss", "mse"], "'mse' is not one of"),
        ([*FIT, "--rounds", "0"], "--rounds"),
        (["predict", "m.ebb", "--interval", "90"], "--interval"),
    ],
)
def test_a_wrong_command_line_is_one_line_and_exit_code_2(words, expected, folder):
    assert expected in error(*words, code=2)


@pytest.mark.parametrize(
    ("change", "words", "expected"),
    [
        (None, ["-t", "id"], "'id' is the column of node ids"),
        (None, ["-t", "price", "--id", "idd"], "'idd' (--id). Did you mean 'id'"),
        (None, ["-t", "price", "--edge-from", "form"], "(--edge-from)"),
        (None, ["-t", "price", "--weight", "w"], "'w' (--weight)"),
        (None, ["-t", "price", "--drop", "bb"], "'bb' (--drop). Did you mean 'b'"),
        (None, ["-t", "kind", "--task", "regression"], "line 2: the target 'kind' is"),
        (
            lambda t: t.assign(id=t["id"].where(t.index != 1, t["id"][0])),
            ["-t", "price"],
            "lines 2 and 3: ids must differ",
        ),
        (lambda t: t.assign(id=t["id"].where(t.index != 3, "")), ["-t", "price"], "line 5: column"),
        (lambda t: t.assign(kind="one"), ["-t", "kind"], "only one class"),
        (lambda t: t.assign(id="x" + t["id"]), ["-t", "price"], "pass --id COLUMN"),
        (lambda t: t.assign(a="inf"), ["-t", "price"], "column 'a'"),
    ],
)
def test_wrong_data_is_one_line_and_leaves_no_file(change, words, expected, folder):
    if change is not None:
        edit("nodes.csv", change)
    before = set(os.listdir())
    assert expected in error("fit", "nodes.csv", "edges.csv", *words, *QUICK, "-o", "m.ebb")
    assert set(os.listdir()) == before


def test_an_internal_error_is_reported_as_such(folder, monkeypatch):
    monkeypatch.setattr(eb, "load", lambda path: {}["x"])
    assert "internal error, KeyError" in error("predict", "price.ebb")


def test_help_and_version():
    assert run("--version").out == f"ebboost {eb.__version__}\n"
    out = run(code=2).out
    for command in ("demo", "check", "fit", "predict", "explain", "report"):
        assert command in out and run(command, "--help").out


def test_the_process_exits_with_a_code_and_one_line(folder):
    with process("fit", "nodes.csv", "edges.csv", "-t", "prise", cwd=folder) as running:
        out, errors = running.communicate(timeout=60)
    expected = "nodes.csv has no column 'prise' (--target). Did you mean 'price'?"
    assert (running.returncode, out, errors) == (1, "", f"ebboost: {expected}\n")


@pytest.mark.parametrize("name", ["typer", "pandas"])
def test_a_missing_library_is_named(name, tmp_path):
    (tmp_path / f"{name}.py").write_text(f"raise ModuleNotFoundError('no', name='{name}')")
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"}
    source = os.path.dirname(os.path.dirname(eb.__file__))
    environment["PYTHONPATH"] += f":{source}"
    with process("--version", env=environment) as running:
        _, errors = running.communicate(timeout=60)
    assert running.returncode == 1 and "pip install typer rich pandas" in errors
