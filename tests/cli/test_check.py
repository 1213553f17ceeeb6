"""``ebboost check``: warnings about the data, and the estimated gain of the graph."""

import json

import numpy as np

from tests.cli.commands import SIDE, grid, run


def test_check_warns_of_a_target_leak_and_estimates_the_gain(folder, tmp_path):
    nodes, _ = grid()
    nodes["asked"] = np.exp(nodes["price"] / 50)
    nodes["country"] = "DE"
    nodes.to_csv(tmp_path / "nodes.csv", index=False)
    words = ("check", tmp_path / "nodes.csv", folder / "edges.csv", "-t", "price", "--json")
    warnings = "\n".join(json.loads(run(*words, "--no-estimate").stdout)["warnings"])
    assert "copies the target: 'asked'" in warnings and "or empty: 'country'" in warnings
    result = json.loads(run(*words, "--drop", "asked").stdout)
    assert (
        result["estimate"]["with_graph"] < result["estimate"]["without"]
        and result["estimate"]["standard_error"] > 0
    )
    assert result["autocorrelation"]["value"] > 0.5 and result["n_nodes"] == SIDE * SIDE
    printed = run(
        "check", tmp_path / "nodes.csv", folder / "edges.csv", "-t", "price", "--drop", "asked"
    ).stdout
    assert printed.startswith("The graph helps")
    assert "Moran's I" in printed and "±" in printed and "selected" in printed


def test_warnings_of_the_library_become_notes(folder, tmp_path):
    nodes, _ = grid()
    nodes["price"] = nodes["price"].fillna(-999)
    nodes.to_csv(tmp_path / "nodes.csv", index=False)
    words = ("check", tmp_path / "nodes.csv", folder / "edges.csv", "-t", "price", "--no-estimate")
    note = " ".join(run(*words).stderr.split())
    assert "y is -999 in 66 rows and negative nowhere else" in note and "--missing -999" in note
    result = run(*words, "--missing", "-999", "--json")
    assert not result.stderr
    assert json.loads(result.stdout)["n_labelled"] == nodes["price"].ne(-999).sum()


def test_an_equal_target_is_reported(folder, tmp_path):
    nodes, _ = grid()
    nodes["price"] = 1.5
    nodes.to_csv(tmp_path / "nodes.csv", index=False)
    words = ("check", tmp_path / "nodes.csv", folder / "edges.csv", "-t", "price")
    assert "All labels are equal" in run(*words).stdout
