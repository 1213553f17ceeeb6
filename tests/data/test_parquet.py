"""Tables in Parquet files give the models that they give in memory."""

import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.base import clone

import ebboost as eb
from ebboost.data import lazy
from ebboost.data import table as table_module
from ebboost.training import defaults
from tests.strategies import random_graph

BARE = {"neighbor_features": None, "feature_smoothing": None, "random_state": 0, "n_jobs": 1}


def frame(n=600, seed=0):
    rng = np.random.default_rng(seed)
    kinds = np.where(np.arange(n) < n // 2, "early", "late")  # no block has them all
    table = pd.DataFrame(
        {
            "x": rng.normal(size=n),
            "count": rng.integers(0, 9, n),
            "gaps": np.where(rng.random(n) < 0.3, np.nan, rng.normal(size=n)),
            "kind": np.where(rng.random(n) < 0.5, kinds, "ever"),
            "flag": rng.random(n) < 0.5,
        }
    )
    y = table["x"] + (table["kind"] == "late") * table["count"] + table["flag"]
    return table, y.to_numpy(dtype=float)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(lazy, "BLOCK_SIZE", 5 * 64)


@pytest.fixture
def files(tmp_path):
    table, y = frame()
    pq.write_table(pa.Table.from_pandas(table[:350]), tmp_path / "0.parquet", row_group_size=100)
    pq.write_table(pa.Table.from_pandas(table[350:]), tmp_path / "1.parquet", row_group_size=90)
    return eb.ParquetTable(tmp_path), table, y


@pytest.mark.parametrize(
    ("kind", "labels", "learner"),
    [
        (eb.EBBSRegressor, "none", eb.LightGBM(7, params={"bin_construct_sample_cnt": 300})),
        (eb.EBBSRegressor, "field", eb.LightGBM(7)),
        (eb.EBBSClassifier, "field", "lightgbm"),
        (eb.EBBSRegressor, "none", eb.XGBoost(3)),
    ],
)
def test_a_fit_from_files_is_the_fit_in_memory(files, kind, labels, learner):
    X, table, y = files
    graph = random_graph(600, 1500)
    y = y if kind is eb.EBBSRegressor else np.digitize(y, [1.0])
    settings = {"smoothing": eb.Laplacian(), "labels": labels, "learner": learner, **BARE}
    disk, memory = (kind(15, **settings).fit(given, y, graph=graph) for given in (X, table))
    # XGBoost finds its bins from blocks by merging sketches, and they may end elsewhere by a
    # little.
    equal = np.allclose if isinstance(learner, eb.XGBoost) else np.array_equal
    assert equal(disk.predict(), memory.predict())
    assert equal(disk.predict(X, graph=graph), memory.predict(table, graph=graph))
    assert equal(disk.predict(table, graph=graph), disk.predict(X, graph=graph))
    nodes = [599, 3, 3, 340]
    assert equal(
        disk.predict(X, graph=graph, nodes=nodes), memory.predict(table, graph=graph, nodes=nodes)
    )
    assert equal(disk.feature_importances_, memory.feature_importances_)
    assert disk.feature_names_in_.tolist() == list(table.columns)


def test_a_fit_from_files_can_be_resumed_on_the_same_files_alone(files, tmp_path):
    X, table, y = files
    often = eb.Checkpoint(tmp_path / "kept", every=4)
    fits = [
        eb.EBBSRegressor(9, random_state=0, n_jobs=1).fit(X, y, checkpoint=often, resume=again)
        for again in (False, True)
    ]
    np.testing.assert_array_equal(*(m.predict() for m in fits))
    table.assign(x=-table["x"]).to_parquet(tmp_path / "0.parquet")
    (tmp_path / "1.parquet").unlink()
    with pytest.raises(ValueError, match="X differs"):
        eb.EBBSRegressor(9, random_state=0, n_jobs=1).fit(
            eb.ParquetTable(tmp_path), y, checkpoint=often, resume=True
        )


def test_columns_can_be_chosen_and_put_in_order(files):
    X, table, y = files
    named = eb.ParquetTable(X.path, columns=["count", "x"])
    disk = eb.EBBSRegressor(5, random_state=0).fit(named, y)
    assert np.array_equal(
        disk.predict(), eb.EBBSRegressor(5, random_state=0).fit(table[["count", "x"]], y).predict()
    )
    assert (
        named.take(np.array([7, 400, 7]))
        .to_pandas()
        .equals(table[["count", "x"]].iloc[[7, 400, 7]].reset_index(drop=True))
    )
    with pytest.raises(ValueError, match="'z' is not a column"):
        eb.ParquetTable(X.path, columns=["z"])
    with pytest.raises(ValueError, match="named twice"):
        eb.ParquetTable(X.path, columns=["x", "x"])
    with pytest.raises(ValueError, match="feature names"):
        disk.predict(X)


def test_dictionaries_that_differ_between_groups_are_one_set_of_categories(tmp_path):
    table, y = frame()
    coded = table.assign(kind=table["kind"].astype("category"))
    writer = None
    for part in (coded[:200], coded[200:]):
        batch = pa.Table.from_pandas(
            part.assign(kind=part["kind"].cat.remove_unused_categories()), preserve_index=False
        )
        writer = writer or pq.ParquetWriter(tmp_path / "t.parquet", batch.schema)
        writer.write_table(batch)
    writer.close()
    X = eb.ParquetTable(tmp_path / "t.parquet")
    disk, memory = (eb.EBBSRegressor(10, random_state=0).fit(given, y) for given in (X, table))
    assert np.array_equal(disk.predict(), memory.predict())
    assert np.array_equal(disk.predict(X, nodes=[5, 500]), memory.predict(table, nodes=[5, 500]))


def test_learners_that_need_the_table_in_memory_are_rejected(files):
    X, _, y = files
    message = "learner='catboost' cannot read block by block: use 'lightgbm'"
    with pytest.raises(ValueError, match=message):
        eb.EBBSRegressor(5, learner="catboost", **BARE).fit(X, y, graph=random_graph(600, 1500))


def test_functions_without_blocks_raise_an_error_that_names_the_table(files):
    X, _, y = files
    graph = random_graph(600, 1500)
    for call in (
        lambda: eb.NeighborFeatures().fit_transform(X, graph=graph),
        lambda: eb.check_graph(X, y, graph),
        lambda: np.asarray(X),
    ):
        with pytest.raises(
            TypeError, match="needs the table in memory, and X is a ParquetTable: read it"
        ):
            call()


@pytest.mark.parametrize("learner", ["lightgbm", "xgboost"])
def test_columns_of_neighbours_from_files_are_those_in_memory(files, learner, monkeypatch):
    X, table, y = files
    graph = random_graph(600, 1500)
    monkeypatch.setattr(table_module, "EAGER_LIMIT", 0)  # as in a large table
    monkeypatch.setattr(defaults, "NETWORKS_UP_TO", 0)  # they need a table in memory
    columns = {
        "neighbor_features": eb.NeighborFeatures(),
        "feature_smoothing": eb.Laplacian(20.0, 5),
        "spectral_features": eb.SpectralFeatures(3, random_state=0),
    }
    model = eb.EBBSRegressor(9, smoothing=None, learner=learner, **BARE | columns)
    disk, memory = (clone(model).fit(given, y, graph=graph) for given in (X, table))
    np.testing.assert_allclose(disk.predict(), memory.predict(), rtol=1e-9)
    assert disk.state_.pipeline.levels.keys() == memory.state_.pipeline.levels.keys()
    np.testing.assert_allclose(disk.predict(X, graph=graph), memory.predict(table, graph=graph))


def test_the_default_of_a_table_in_files_is_that_in_memory(files, monkeypatch):
    X, table, y = files
    monkeypatch.setattr(defaults, "NETWORKS_UP_TO", 0)  # they need a table in memory
    graph = random_graph(600, 1500)
    model = eb.EBBSRegressor(20, random_state=0, n_folds=2)
    disk, memory = (clone(model).fit(given, y, graph=graph) for given in (X, table))
    assert disk.selection_["candidate"] == memory.selection_["candidate"]
    np.testing.assert_array_equal(disk.predict(), memory.predict())


def test_a_model_with_columns_of_neighbours_predicts_some_nodes_of_a_file(files):
    X, table, y = files
    graph = random_graph(600, 700)
    settings = {**BARE, "neighbor_features": eb.NeighborFeatures()}
    model = eb.EBBSRegressor(5, smoothing=eb.Laplacian(1.0, 1), labels="none", **settings).fit(
        table, y, graph=graph
    )
    assert np.array_equal(
        model.predict(X, graph=graph, nodes=[8, 1]), model.predict(table, graph=graph)[[8, 1]]
    )
    assert np.array_equal(model.predict(X, graph=graph), model.predict(table, graph=graph))


def test_a_model_fitted_from_files_is_saved_and_explained_as_one_that_was_loaded(files, tmp_path):
    X, table, y = files
    graph = random_graph(600, 1500)
    settings = {"smoothing": eb.Laplacian(), "labels": "none", **BARE}
    model = eb.EBBSRegressor(10, **settings).fit(X, y, graph=graph)
    with pytest.raises(ValueError, match="Pass it, explain"):
        model.explanations([5])
    explanation = model.explanations([5, 400], X=X)[1]
    assert explanation.own == model.explanations([400], X=table)[0].own
    model.save(tmp_path / "m.ebb")
    assert np.array_equal(
        eb.load(tmp_path / "m.ebb").predict(X, graph=graph), model.predict(X, graph=graph)
    )


def test_invalid_files_raise_errors_with_row_and_column(tmp_path):
    table, y = frame()
    table.loc[130, "x"] = np.inf
    table.to_parquet(tmp_path / "t.parquet")
    with pytest.raises(ValueError, match=r"counted from row 128: .*infinity.*row 2, column 'x'"):
        eb.EBBSRegressor(5).fit(eb.ParquetTable(tmp_path / "t.parquet"), y)
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match="without any file"):
        eb.ParquetTable(tmp_path / "empty")
    table[:0].to_parquet(tmp_path / "none.parquet")
    with pytest.raises(ValueError, match="is empty: a table needs a row"):
        eb.EBBSRegressor(5).fit(eb.ParquetTable(tmp_path / "none.parquet"), [])
    pd.DataFrame({"other": [1.0]}).to_parquet(tmp_path / "empty" / "a.parquet")
    pd.DataFrame({"z": [1.0]}).to_parquet(tmp_path / "empty" / "b.parquet")
    with pytest.raises(ValueError, match="has other columns"):
        eb.ParquetTable(tmp_path / "empty")


MEASURED = """
import sys
import numpy as np
import ebboost as eb

def peak():
    lines = open("/proc/self/status")
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) * 1024

settings = {"smoothing": eb.Laplacian(), "labels": "none", "early_stopping": False}
settings |= {"random_state": 0, "n_jobs": 1}
for path in sys.argv[1:]:  # the first is small: memory of the libraries
    X = eb.ParquetTable(path)
    n = len(X)
    graph = eb.Graph.from_edges(np.arange(n - 1), np.arange(1, n))
    before = peak()
    eb.EBBSRegressor(2, **settings).fit(X, np.arange(n) % 97.0, graph=graph).predict(X, graph=graph)
print(8 * X.shape[0] * X.shape[1], peak() - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the peak is read from /proc")
def test_memory_stays_below_a_share_of_the_decoded_table(tmp_path):
    rng = np.random.default_rng(0)
    paths = [tmp_path / "small.parquet", tmp_path / "large.parquet"]
    for path, n in zip(paths, (6_000, 200_000), strict=True):
        columns = {f"x{i}": rng.integers(0, 99, n, dtype=np.int8) for i in range(80)}
        pq.write_table(pa.table(columns), path, row_group_size=20_000)
    source = os.path.dirname(os.path.dirname(eb.__file__))
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, *paths],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": source},
    )
    assert not done.returncode, done.stderr
    decoded, grown = map(int, done.stdout.split())
    assert grown < 0.65 * decoded, f"{grown / decoded:.2f}"


def in_files(folder, *frames):
    folder.mkdir()
    for number, part in enumerate(frames):
        part.to_parquet(folder / f"part.{number}.parquet")
    return eb.ParquetTable(folder)


@pytest.mark.parametrize("learner", ["lightgbm", "xgboost"])
def test_a_fit_from_files_resumes_only_on_equal_files(files, learner, tmp_path):
    class Raising(eb.Callback):
        def after_round(self, progress):
            if progress.round == 35:
                raise RuntimeError("the lights went out")

    X, table, y = files
    graph = random_graph(600, 1500)
    checkpoint = eb.Checkpoint(tmp_path / "kept", every=2)
    model = eb.EBBSRegressor(40, n_folds=1, learner=learner, random_state=0)
    expected = model.fit(X, y, graph=graph).predict()
    with pytest.raises(RuntimeError, match="lights"):
        model.fit(X, y, graph=graph, checkpoint=checkpoint, callbacks=[Raising()])
    table.loc[590, "x"] += 1.0
    other = in_files(tmp_path / "other", table[:350], table[350:])
    with pytest.raises(ValueError, match="of another fit: X differs"):
        model.fit(other, y, graph=graph, checkpoint=checkpoint, resume=True)
    assert np.array_equal(
        model.fit(X, y, graph=graph, checkpoint=checkpoint, resume=True).predict(), expected
    )


def test_files_are_read_in_the_order_of_their_numbers(tmp_path):
    X = in_files(tmp_path / "t", *(pd.DataFrame({"x": [float(number)]}) for number in range(12)))
    assert [block.column("x").to_pylist() for block in X.blocks()] == [
        [float(number)] for number in range(12)
    ]


def test_the_index_of_pandas_is_not_a_column(tmp_path):
    table, _ = frame()
    table[table["flag"]].to_parquet(tmp_path / "left.parquet")
    assert eb.ParquetTable(tmp_path / "left.parquet").names == tuple(table.columns)
    table[table["flag"]].rename_axis("id").to_parquet(tmp_path / "named.parquet")
    assert eb.ParquetTable(tmp_path / "named.parquet").names == tuple(table.columns)
    assert eb.ParquetTable(tmp_path / "named.parquet", ["id"]).names == ("id",)


TEXT, NUMBERS = pd.Series(["a", "b"] * 50), pd.Series(np.arange(100.0) % 3)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (NUMBERS.astype(int), NUMBERS.where(NUMBERS > 0)),
        (pd.Series([None] * 100), TEXT),
        (TEXT, pd.Series([None] * 100)),
        (pd.Series([None] * 100), NUMBERS),
        (TEXT.astype("category"), TEXT + "c"),
    ],
)
def test_a_column_may_be_of_another_type_in_another_file(first, second, tmp_path):
    parts = [pd.DataFrame({"x": np.arange(100.0), "k": column}) for column in (first, second)]
    X, y = in_files(tmp_path / "t", *parts), np.arange(200) % 7.0
    k = pd.Series([*first, *second], dtype=float if first is NUMBERS or second is NUMBERS else None)
    table = pd.DataFrame({"x": np.tile(np.arange(100.0), 2), "k": k})
    disk, memory = (eb.EBBSRegressor(10, random_state=0).fit(given, y) for given in (X, table))
    assert np.array_equal(disk.predict(), memory.predict())
    assert np.array_equal(disk.predict(X, nodes=[3, 150]), memory.predict(table, nodes=[3, 150]))


def test_integers_that_floats_round_are_rejected_as_in_memory(tmp_path):
    table = pd.DataFrame({"id": pd.array([None, *(2**53 + 2 * np.arange(99) + 1)], dtype="Int64")})
    X, y = in_files(tmp_path / "t", table), np.arange(100.0)
    for given in (X, table, pa.Table.from_pandas(table)):
        with pytest.raises(ValueError, match=r"column 'id' holds integers beyond 2\*\*53"):
            eb.EBBSRegressor(5, random_state=0).fit(given, y)


def test_columns_without_a_common_type_raise_an_error_with_their_name(tmp_path):
    parts = (pd.DataFrame({"x": [1.0]}), pd.DataFrame({"x": ["a"]}))
    with pytest.raises(
        ValueError, match=r"column 'x' is double and .*string: write it as one type"
    ):
        in_files(tmp_path / "t", *parts)
    (tmp_path / "text.parquet").write_text("x,y")
    with pytest.raises(ValueError, match=r"text\.parquet cannot be read as a Parquet file"):
        eb.ParquetTable(tmp_path / "text.parquet")


@pytest.mark.parametrize("learner", ["lightgbm", "xgboost"])
def test_a_file_with_other_rows_is_rejected(learner, tmp_path):
    table, y = frame()
    table.to_parquet(tmp_path / "t.parquet")
    X = eb.ParquetTable(tmp_path / "t.parquet")
    model = eb.EBBSRegressor(5, learner=learner).fit(X, y)
    table[:500].to_parquet(tmp_path / "t.parquet")
    for use in (
        lambda: model.fit(X, y),
        lambda: model.predict(X),
        lambda: model.predict(X, nodes=[3]),
    ):
        with pytest.raises(ValueError, match=r"600 rows, 5 columns.* has 500 rows now"):
            use()


@pytest.mark.parametrize(
    "read", [lambda X: list(X.blocks()), lambda X: X.take(np.array([3]))], ids=["all", "some"]
)
def test_a_file_without_a_used_column_is_rejected(read, tmp_path):
    table, _ = frame(100)
    table[["x", "count"]].to_parquet(tmp_path / "table.parquet")
    X = eb.ParquetTable(tmp_path / "table.parquet")
    table[["x"]].assign(other=1.0).to_parquet(tmp_path / "table.parquet")
    with pytest.raises(ValueError, match=r"has no column 'count' now: create a new ParquetTable"):
        read(X)
