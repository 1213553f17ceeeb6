"""The page that tells how the default works agrees with what a fit does."""

import re
import runpy
from pathlib import Path

import numpy as np
import pytest

import ebboost as eb
from ebboost import defaults

PAGE = Path(__file__).parents[2] / "docs" / "default.md"
TEXT = PAGE.read_text()


def table():
    """Rows of the table of members, by name."""
    inside = re.search(r"<!-- members -->\n(.*?)<!-- end -->", TEXT, flags=re.DOTALL)[1]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in inside.splitlines()]
    return {row[0]: dict(zip(rows[0], row, strict=True)) for row in rows[2:]}


def fitted(n_rows, graph=True, **settings):
    """A quick default fit: two rounds of each model."""
    random = np.random.default_rng(0)
    X = random.normal(size=(n_rows, 3))
    y = X[:, 0] + random.normal(size=n_rows)
    edges = eb.Graph.build_knn(X[:, :2], k=3) if graph else None
    return eb.EBBSRegressor(2, random_state=0, **settings).fit(X, y, graph=edges)


def test_the_procedure_has_ten_steps():
    numbers = re.findall(r"^(\d+)\. ", TEXT, flags=re.MULTILINE)
    assert [int(number) for number in numbers] == list(range(1, 11))


def test_the_table_is_made_from_the_code():
    members = runpy.run_path(str(PAGE.parent / "outputs.py"))["members"]
    assert members() in TEXT


def test_a_fit_trains_the_members_of_the_table_in_its_order():
    model = fitted(120)
    assert model.selection_["member"].tolist() == list(table())


def test_components_have_the_parts_of_the_table():
    rows = table()
    for one in fitted(300).model_.components:
        row = rows[one.member.name]
        assert (one.field is not None) == (row["field"] != "")
        assert (one.smoothing is not None) == (row["propagation"] == "yes")
        assert (one.features.neighbors is not None) == (row["neighbour columns"] == "yes")
        assert (one.features.spectral is not None) == (row["spectral columns"] == "yes")
        is_network = type(one.ensemble).__name__.startswith("Network")
        assert is_network == (row["learner"] == "network")


def test_members_without_a_graph_are_those_that_do_not_use_it():
    names = ("field", "propagation", "neighbour columns", "spectral columns")
    plain = [name for name, row in table().items() if not any(row[part] for part in names)]
    assert fitted(120, graph=False).selection_["member"].tolist() == plain


def test_networks_without_the_graph_are_left_out_from_so_many_labels():
    stated = int(re.search(r"With more than ([\d ]+) labels: no network", TEXT)[1].replace(" ", ""))
    assert stated == defaults.SMALL.up_to
    assert "network" in fitted(stated, n_folds=2).selection_["member"].tolist()
    assert "network" not in fitted(stated + 1, n_folds=2).selection_["member"].tolist()


@pytest.mark.parametrize("n_labels", [120, 600])
def test_there_are_as_many_folds_as_stated(n_labels):
    text = re.search(r"into folds: (.*)\.", TEXT)[1].replace(" 000", "000")
    rules = [(int(most), int(n)) for n, most in re.findall(r"(\d+) up to (\d+)", text)]
    otherwise = int(re.search(r"else (\d+)", text)[1])
    for many in (16, 500, 501, 5000, 5001, 50_000, 50_001):
        stated = next((n for most, n in rules if many <= most), otherwise)
        assert defaults.size(many).folds == stated
    stated = next(n for most, n in rules if n_labels <= most)
    assert {len(one.rounds) for one in fitted(n_labels).model_.components} == {stated}


def test_spectral_columns_end_at_the_stated_number_of_nodes():
    stated = re.search(r"With more than ([\d ]+) nodes: no spectral", TEXT)[1]
    assert int(stated.replace(" ", "")) == defaults.SPECTRAL_UP_TO


def test_fast_trains_the_two_members_that_the_page_names():
    random = np.random.default_rng(0)
    X = random.normal(size=(200, 2))
    model = eb.EBBSRegressor.from_preset("fast", n_estimators=3, random_state=0)
    model.fit(X, X[:, 0], graph=eb.Graph.build_knn(X, k=3))
    assert model.selection_["member"].tolist() == ["trees", "trees + field + neighbours"]
    assert len(model.model_.unseen.rows) == 20


def test_a_learner_of_the_user_replaces_all_trees_and_leaves_no_networks():
    names = fitted(120, learner=eb.LightGBM(num_leaves=5)).selection_["member"].tolist()
    assert names == [name for name, row in table().items() if row["learner"] == "trees"]


def test_a_part_of_the_user_is_the_same_in_all_members():
    own = eb.LatentField(3.0, 0.01)
    fields = {repr(one.field) for one in fitted(120, labels=own).model_.components}
    assert fields == {repr(own)}
    model = fitted(120, labels="none", neighbor_features=None).model_
    assert all(one.field is None and one.features.neighbors is None for one in model.components)
