"""``ebboost explain``: the parts add up to the score."""

import json
import re

import pytest

import ebboost as eb
from tests.cli.commands import error_line, grid, run


def test_an_explanation_adds_up_and_names_nodes_by_their_ids(folder):
    facts = json.loads(run("explain", folder / "price.ebb", "004", "101", "--json").stdout)
    assert [one["node"] for one in facts] == ["004", "101"]
    for one in facts:
        parts = [
            *one["own_columns"].values(),
            *one["neighbour_columns"].values(),
            *one["labels"].values(),
        ]
        assert one["base"] + sum(parts) == pytest.approx(one["score"]) == one["prediction"]
        assert all(
            re.fullmatch(r"\d{3}", node) for node in [*one["neighbour_columns"], *one["labels"]]
        )
    printed = run("explain", folder / "price.ebb", "004").stdout
    assert "node 004" in printed and "sum" in printed
    assert "score of" in run("explain", folder / "kind.ebb", "004").stdout


def test_labels_are_parts_of_the_score_of_a_class(folder, tmp_path):
    run(
        "fit",
        folder / "kinds.csv",
        folder / "edges.csv",
        "-t",
        "kind",
        "-o",
        tmp_path / "m.ebb",
        "--drop",
        "price",
    )
    facts = json.loads(run("explain", tmp_path / "m.ebb", "004", "--json").stdout)[0]
    parts = [*facts["own_columns"].values(), *facts["neighbour_columns"].values()]
    total = facts["base"] + sum(parts) + sum(facts["labels"].values())
    assert facts["labels"] and total == pytest.approx(facts["score"], abs=1e-4)
    assert "label of node" in run("explain", tmp_path / "m.ebb", "004").stdout.split("sum ")[0]


def test_an_unknown_node_is_reported_with_the_nearest(folder):
    assert "no node '0441'. Did you mean '044'?" in error_line(
        "explain", folder / "price.ebb", "0441"
    )


def test_printed_parts_add_up_to_the_printed_score(folder):
    for node in ("004", "101", "150"):
        _, *lines = run("explain", folder / "price.ebb", node, "--top", 3).stdout.splitlines()
        numbers = [re.search(r" ([+-]?[\d,]+\.\d+)\s*$", line) for line in lines]
        *parts, score = [match.group(1).replace(",", "") for match in numbers if match]
        decimals = len(score.partition(".")[2])
        assert decimals >= 3
        assert round(sum(map(float, parts)), decimals) == float(score)


def test_the_sum_of_other_columns_says_that_neighbours_columns_are_included(tmp_path):
    nodes, edges = grid()
    graph = eb.Graph.from_dataframe(edges, nodes=nodes["id"])
    parts = {"smoothing": None, "labels": "none", "neighbor_features": eb.NeighborFeatures()}
    model = eb.EBBSRegressor(5, random_state=0, **parts)
    model.fit(nodes[["size", "rooms", "kind"]], nodes["price"], graph=graph)
    path = tmp_path / "m.ebb"
    model.save(path, table=True, source={"id": "id", "target": "price"})
    own = json.loads(run("explain", path, "004", "--json").stdout)[0]["own_columns"]
    printed = run("explain", path, "004", "--top", 1).stdout
    assert len(own) > 3
    assert f"{len(own) - 1} other columns, neighbours' columns included" in printed
