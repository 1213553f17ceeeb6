"""``ebboost demo``."""

import json

import pandas as pd

from tests.cli.commands import error_line, run


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
