"""The page of results of fits on a cluster, and the model of their costs."""

import numpy as np
import pytest

pytest.importorskip("pyarrow")
cluster = pytest.importorskip("benchmarks.cluster")


def test_a_run_replaces_its_own_block_of_the_page():
    page = "<!-- fits -->\n\na table\n\n<!-- halo -->\n\na sentence\n"
    changed = cluster.replace_block(page, "halo", "another")
    assert cluster.block_of(changed, "fits") == "a table"
    assert cluster.block_of(changed, "halo") == "another"
    added = cluster.replace_block(changed, "model", "costs")
    assert [cluster.block_of(added, one) for one in ("fits", "halo", "model")] == [
        "a table",
        "another",
        "costs",
    ]
    assert cluster.block_of("", "fits") == ""


def test_rows_of_other_fits_stay_in_the_table():
    def row(nodes, workers, rounds, seconds):
        cluster_ = {"halo_bytes": 100}
        result = {"client": 1, "worker": 2, "seconds": seconds, "round": 0.1, "processor": 0.1}
        return cluster.table_row(nodes, workers, result | {"cluster": cluster_}, None, rounds)

    old = cluster.merge_rows("", [row(3_000_000, 2, 30, 7.0), row(1_000_000, 2, 30, 5.0)])
    rows = cluster.merge_rows(old, [row(3_000_000, 2, 30, 9.0), row(1_000_000, 0, 30, 4.0)])
    seconds = [line.split("|")[6].strip() for line in rows.splitlines()[2:]]
    assert seconds == ["4.0", "5.0", "9.0"]


def test_costs_of_terms_are_found_and_predict_larger_fits():
    costs = {"trees": [0.01, 0.05], "field": [0.001, 0.003, 0.0007], "messages": [3e-5, 2e-4]}
    costs |= {"propagation": [0.0, 0.002, 0.0005], "rest": [0.0, 0.02]}

    def part(name, nodes, n_edges, n_workers):
        each = np.dot(cluster.terms(name, nodes / n_workers, n_edges), costs[name])
        count = {"field": 6, "propagation": 4, "messages": 25}.get(name, 1)
        return [count * each, count]

    measured = {
        (size, n_edges, n_workers): {
            name: part(name, size, n_edges, n_workers) for name in cluster.PARTS
        }
        for size in (400_000, 800_000, 1_600_000)
        for n_edges in (5, 10)
        for n_workers in (1, 2)
    }
    found = cluster.fit_costs(measured, 1_600_000)
    for name, expected in costs.items():
        np.testing.assert_allclose(found[name], expected, atol=1e-9)
    text = cluster.cost_model(measured, 1_600_000)
    ratios = [line.split("|")[-2].strip() for line in text.splitlines() if line.startswith("| ")]
    assert set(ratios[1:]) == {"1.00"} and len(ratios) == 19
