"""Every row of the tables of docs/inputs.md has a test."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
#: How a row begins, and the test of what it says.
TESTS = {
    "CSV": "cli/test_graph_files.py::test_every_delimiter_is_read_and_ids_stay_as_written",
    "Parquet, Feather": "cli/test_formats.py::test_dataframes_in_binary_files_are_read",
    "Excel": "cli/test_formats.py::test_dataframes_in_binary_files_are_read",
    "GeoPackage": "cli/test_formats.py::test_geometry_becomes_two_columns_of_coordinates",
    "SQLite": "cli/test_formats.py::test_the_command_line_reads_queries",
    "edges: any": "cli/test_graph_files.py::test_edges_without_a_header_lose_none",
    "numbers, booleans": "data/test_reader.py::test_columns_of_every_type_become_numbers_or_codes",
    "text, categories": "data/test_reader.py::test_later_tables_get_the_codes_of_the_first",
    "dates": "cli/test_text_columns.py::test_common_dates_are_dates",
    "text that is always": "cli/test_text_columns.py::"
    "test_a_column_of_written_numbers_is_numbers_with_a_note",
    "one cell that is no": "safety/test_bad_cells.py::"
    "test_a_word_among_numbers_is_an_error_with_its_line",
    "text that is different": "cli/test_roles.py::"
    "test_features_are_all_columns_but_target_dropped_ones_and_names",
    "empty cells": "data/test_validation.py::test_every_marker_of_a_missing_label_is_unknown",
    "labels of": "cli/test_check.py::test_warnings_of_the_library_become_notes",
    "a list of pairs": "graph/test_edges.py::test_swapping_the_ends_of_every_edge_changes_nothing",
    "a column `weight`": "cli/test_graph_files.py::"
    "test_a_column_named_like_weights_is_used_unless_declined",
    "a column `distance`": "cli/test_graph_files.py::test_distances_become_weights",
    "other numeric columns": "cli/test_graph_files.py::test_other_columns_of_edges_are_offered",
    "edge lists, dataframes": "graph/test_convert.py::test_dataframes_place_edges_by_id",
    "a directed matrix": "graph/test_convert.py::test_directed_networkx_is_averaged_with_a_warning",
    "`directed=True`": "data/test_graph_columns.py::"
    "test_directed_graphs_have_columns_of_incoming_and_outgoing_neighbours",
    "a boolean mask": "safety/test_row_order.py::"
    "test_nodes_are_rows_a_mask_or_ids_in_every_argument",
    "integers |": "safety/test_row_order.py::test_nodes_are_rows_a_mask_or_ids_in_every_argument",
    "integers that are row": "safety/test_row_order.py::"
    "test_integers_that_may_be_ids_or_rows_are_not_taken_silently",
    "text and other": "safety/test_row_order.py::"
    "test_nodes_are_rows_a_mask_or_ids_in_every_argument",
    "categories among": "data/test_graph_columns.py::"
    "test_text_among_neighbours_has_the_share_of_each_frequent_level",
    "edges from new rows": "model/test_attach.py::"
    "test_attached_rows_are_predicted_as_in_the_joined_table",
    "`fit(X, y, groups=node": "estimators/test_groups.py::"
    "test_new_rows_of_known_groups_have_the_effect_of_their_group",
    '`fit(X, y, groups="account")`': "estimators/test_groups.py::"
    "test_groups_may_be_a_column_of_any_dataframe",
    "`predict(X_new, groups": "estimators/test_groups.py::"
    "test_a_group_without_rows_is_informed_by_its_neighbours",
    "`--groups": "cli/test_fit.py::test_rows_in_groups_are_fitted_and_new_rows_predicted",
    "neighbour columns": "estimators/test_groups.py::"
    "test_columns_of_groups_are_means_over_their_rows",
    "`coordinates=": "data/test_coordinates.py::test_rows_are_connected_to_their_nearest",
    "`EBBSRegressor(neighbors": "training/test_coordinate_graph.py::"
    "test_the_graph_may_be_named_then_only_weights_are_compared",
    "columns named `lat`": "data/test_coordinates.py::"
    "test_columns_of_latitude_and_longitude_are_degrees_in_either_order",
    "an array of shape": "data/test_coordinates.py::"
    "test_an_array_of_points_is_appended_to_the_table",
    "a GeoDataFrame": "data/test_coordinates.py::test_the_geometry_of_a_geodataframe_is_used",
    "several rows at one": "data/test_coordinates.py::test_several_rows_at_one_point_are_accepted",
    "new rows: `predict": "data/test_coordinates.py::test_new_rows_need_only_their_coordinates",
    "`Graph.build_knn`": "graph/test_neighbors.py::"
    "test_distance_weights_fall_with_the_length_of_an_edge",
    "`fit(X, y, graph=g, time": "estimators/test_time.py::"
    "test_the_latest_labels_are_held_out_in_blocks_and_then_trained_on",
    "`causal=True`": "estimators/test_time.py::"
    "test_causal_predictions_do_not_depend_on_later_labels",
    "new rows of a causal": "estimators/test_time.py::"
    "test_new_rows_join_a_causal_model_with_their_time",
    "`cross_validate(": "model_selection/test_cross_validation.py::"
    "test_time_split_needs_the_time_and_passes_it_to_fit",
    "`eval_set` with": "estimators/test_time.py::"
    "test_with_time_the_labels_of_eval_set_alone_are_held_out",
}


def test_every_row_of_the_page_has_a_test():
    lines = (ROOT / "docs" / "inputs.md").read_text().splitlines()
    tables = [line for line in lines if line.startswith("| ")]
    headings = {lines[i - 1] for i, line in enumerate(lines) if line.startswith("|---")}
    rows = [line.removeprefix("| ") for line in tables if line not in headings]
    untested = [row for row in rows if not any(row.startswith(start) for start in TESTS)]
    assert not untested
    unused = [start for start in TESTS if not any(row.startswith(start) for row in rows)]
    assert not unused


def test_the_tests_of_the_page_exist():
    for test in TESTS.values():
        file, name = test.split("::")
        source = (ROOT / "tests" / file).read_text()
        assert re.search(rf"^def {name}\(", source, re.MULTILINE), test
