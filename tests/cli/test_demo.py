"""``ebboost demo``."""

import json

import pandas as pd
import pytest

import ebboost as eb
from tests.cli.commands import error_line, few_houses, run


def test_demo_writes_files_that_the_other_commands_take(tmp_path):
    folder = tmp_path / "counties"
    assert "Next: ebboost check" in run("demo", "--files", folder).stdout
    assert "exclude each other" in error_line(
        "demo", "--files", folder, "-o", tmp_path / "m.ebb", code=2
    )
    nodes = pd.read_csv(folder / "nodes.csv", dtype={"fips": str})
    assert len(nodes) == 3107 and nodes["pc_turnout"].isna().sum() == 1243
    facts = json.loads(
        run(
            "check",
            folder / "nodes.csv",
            folder / "edges.csv",
            "-t",
            "pc_turnout",
            "--no-estimate",
            "--json",
        ).stdout
    )
    assert (facts["n_nodes"], facts["n_edges"], facts["n_isolates"]) == (3107, 9063, 4)


def test_demo_compares_without_and_with_the_graph_and_writes_the_model(tmp_path, monkeypatch):
    houses = few_houses()
    _, y, _, [parts] = houses
    monkeypatch.setattr("ebboost.cli.demo.load_lucas", lambda: houses)
    out = tmp_path / "houses.ebb"
    facts = json.loads(run("demo", "-o", out, "--json").stdout)
    assert facts["houses"] == 500 and facts["to_predict"] == parts["test"].size
    predicted = eb.load(out).predict(nodes=parts["test"])
    residuals = y[parts["test"]] - predicted
    explained = 1 - (residuals**2).mean() / y[parts["test"]].var()
    assert facts["models"][1]["r2"] == pytest.approx(explained)
    assert sum(group["houses"] for group in facts["groups"]) >= parts["test"].size
    printed = run("demo", "-o", out).stdout
    assert f"The model is in {out}." in printed.replace("\n", " ") and "typical error" in printed
