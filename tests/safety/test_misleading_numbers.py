"""Numbers that mean what they seem to mean, and inputs that are not changed without a word."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import ebboost as eb
from tests.safety.commands import run, write_tables
from tests.safety.problems import (
    CHEAP,
    GRAPH,
    POINTS,
    TABLE,
    TEST,
    TRAIN,
    TRUTH,
    N,
    labels,
    regressor,
)

FULL_FIT = {"n_folds": 2, "random_state": 0, "n_jobs": 1, "n_estimators": 60}


def half_widths(model):
    _, lower, upper = model.predict(interval=0.9)
    return (upper - lower) / 2.0


def printed(text):
    """The half width that a text states."""
    return float(re.search(r"±([0-9.e+-]+)", text)[1])


def test_the_half_width_is_that_of_the_rows_to_predict(tmp_path):
    smooth = np.sin(6 * POINTS[:, 0]) + np.cos(5 * POINTS[:, 1])  # labelled rows are nearly known
    y = np.where(np.isin(np.arange(N), TRAIN), smooth, np.nan)
    model = eb.EBBSRegressor(**FULL_FIT).fit(TABLE, y, graph=GRAPH)
    widths = half_widths(model)
    assert np.median(widths[TEST]) > 1.5 * np.median(widths[TRAIN])
    line = next(line for line in model.summary().splitlines() if line.startswith("intervals"))
    assert printed(line) == pytest.approx(np.median(widths[TEST]), rel=0.05)
    assert f"the {TEST.size} rows to predict" in line

    nodes, edges = write_tables(tmp_path)
    pd.read_csv(nodes).assign(price=y).to_csv(nodes, index=False)
    out = run("fit", nodes, edges, "-t", "price", "-o", tmp_path / "m.ebb", "--rounds", 60).out
    line = next(line for line in out.splitlines() if line.startswith("intervals"))
    expected = np.median(half_widths(eb.load(tmp_path / "m.ebb"))[TEST])
    assert printed(line) == pytest.approx(expected, rel=0.01)
    assert f"half of the {TEST.size} rows to predict" in line


def test_without_rows_to_predict_it_is_that_of_held_out_labels():
    model = eb.EBBSRegressor(**FULL_FIT).fit(TABLE, TRUTH, graph=GRAPH)
    line = next(line for line in model.summary().splitlines() if line.startswith("intervals"))
    unseen = model.model_.unseen
    held_out = np.abs(unseen.target - unseen.raw)[:, 0]
    assert "labels that were held out" in line
    assert np.mean(held_out <= 1.3 * printed(line)) > 0.8  # labels that are known are nearer


@pytest.mark.parametrize("preset", ["default", "fast"])
def test_all_presets_warn_of_a_column_that_copies_the_labels(preset):
    rng = np.random.default_rng(0)
    points = rng.random((700, 2))
    X = pd.DataFrame(rng.normal(size=(700, 4)), columns=list("abcd"))
    y = np.sin(6 * points[:, 0]) + 3 * X["a"].to_numpy() + 0.2 * rng.normal(size=700)
    y[::4] = np.nan
    graph = eb.Graph.build_knn(points, k=5)
    changes = {"n_estimators": 10, "n_jobs": 1, "random_state": 0}
    estimator = eb.EBBSRegressor(n_folds=2, **changes)
    if preset != "default":
        estimator = eb.EBBSRegressor.from_preset(preset, **changes)
    known = np.nan_to_num(y)
    with pytest.warns(UserWarning, match="Column 'copy' of X nearly copies y: check for target"):
        estimator.fit(X.assign(copy=2 * known), y, graph=graph)
    with pytest.warns(UserWarning, match="Column 'one' of X nearly copies y, and so do 'two'"):
        estimator.fit(X.assign(one=2 * known, two=np.exp(known)), y, graph=graph)


WHERE = {
    "a city": ([0.7, 1.1], [-38.2, 144.4]),
    "a country": ([7.5, 8.0], [47.3, 6.0]),
    "the world": ([150.0, 359.0], [-60.0, -179.5]),
}


@pytest.mark.parametrize("name", WHERE)
def test_degrees_under_other_names_are_a_warning(name):
    scale, origin = WHERE[name]
    where = pd.DataFrame(POINTS * scale + origin, columns=["north", "east"])
    for columns in (["north", "east"], ["east", "north"]):
        with pytest.warns(UserWarning, match="look like degrees.*rename the columns"):
            regressor().fit(TABLE.join(where), labels(), coordinates=columns)
    with pytest.warns(UserWarning, match="look like degrees.*GeoSeries"):
        regressor().fit(TABLE, labels(), coordinates=where.to_numpy())
    named = where.set_axis(["lat", "lon"], axis=1)
    regressor().fit(TABLE.join(named), labels(), coordinates=["lon", "lat"])


def test_degrees_whose_names_are_nearly_right_are_a_warning():
    where = pd.DataFrame(POINTS * [40, 60], columns=["Lattitude", "Longtitude"])
    with pytest.warns(UserWarning, match="rename the columns 'Longtitude' and 'Lattitude'"):
        regressor().fit(TABLE.join(where), labels(), coordinates=["Longtitude", "Lattitude"])


@pytest.mark.parametrize(
    "points",
    [
        POINTS,
        50.0 * POINTS,
        1e5 * POINTS + 4e5,
        POINTS - POINTS.mean(axis=0),
        np.floor(20 * POINTS),
    ],
    ids=["unit square", "kilometres", "metres", "centred", "grid"],
)
def test_points_of_a_plane_are_no_degrees(points):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        regressor().fit(TABLE, labels(), coordinates=points)
    assert [str(one.message) for one in caught if "degrees" in str(one.message)] == []


@pytest.mark.parametrize("kind", [sparse.csr_matrix, sparse.csc_array, sparse.coo_array])
def test_a_narrow_sparse_table_is_the_dense_one(kind, tmp_path):
    X = np.where(np.abs(TABLE.to_numpy()) < 0.4, 0.0, TABLE.to_numpy())
    dense = eb.EBBSRegressor(**FULL_FIT).fit(X, labels(), graph=GRAPH)
    thin = eb.EBBSRegressor(**FULL_FIT).fit(kind(X), labels(), graph=GRAPH)
    np.testing.assert_array_equal(thin.predict(), dense.predict())
    np.testing.assert_array_equal(thin.predict(kind(X)), dense.predict())
    assert thin.rounds_ == dense.rounds_
    new_graph = eb.Graph.build_knn(POINTS[:40], k=4)
    with pytest.warns(UserWarning, match="new nodes"):
        ours = thin.predict(kind(X[:40] + 1.0), graph=new_graph)
    with pytest.warns(UserWarning, match="new nodes"):
        np.testing.assert_array_equal(ours, dense.predict(X[:40] + 1.0, graph=new_graph))
    thin.save(tmp_path / "m.ebb", table=True)
    np.testing.assert_array_equal(eb.load(tmp_path / "m.ebb").predict(kind(X)), dense.predict())
    checks = [eb.check_graph(one, labels(), GRAPH, estimate=False) for one in (X, kind(X))]
    assert str(checks[0]) == str(checks[1])


COMPLEX = np.ones(N) + 1j


@pytest.mark.parametrize(
    ("name", "fit"),
    [
        ("y", lambda: regressor().fit(TABLE, TRUTH + 1j)),
        ("y", lambda: regressor().fit(TABLE, (TRUTH + 0j).tolist())),
        ("y", lambda: eb.EBBSClassifier(**CHEAP).fit(TABLE, np.array([1j, 2j] * (N // 2)))),
        ("sample_weight", lambda: regressor().fit(TABLE, TRUTH, COMPLEX)),
        ("offset", lambda: regressor().fit(TABLE, TRUTH, offset=COMPLEX)),
        ("time", lambda: regressor().fit(TABLE, TRUTH, time=COMPLEX)),
        ("coordinates", lambda: regressor().fit(TABLE, TRUTH, coordinates=POINTS + 1j)),
        (
            r"eval_set\[1\]",
            lambda: regressor().fit(TABLE, labels(), eval_set=(TEST, COMPLEX[TEST])),
        ),
    ],
)
def test_complex_numbers_are_rejected(name, fit):
    with pytest.raises((TypeError, ValueError), match=f"{name} .*(complex numbers|hold numbers)"):
        fit()


@pytest.mark.parametrize("value", [1e-320, 1e-150, 1e150])
def test_exposures_out_of_range_are_rejected(value):
    exposure = np.full(N, 2.0)
    exposure[5] = value
    counts = np.abs(TRUTH).round()
    with pytest.raises(ValueError, match=r"exposure must be from 1e-100 to 1e\+100; row 5 is"):
        regressor(loss="poisson").fit(TABLE, counts, graph=GRAPH, exposure=exposure)


LARGE = np.arange(N) + 2**62


@pytest.mark.parametrize(
    "X",
    [
        pd.DataFrame({"a": LARGE}),
        pd.DataFrame({"a": pd.array(LARGE, dtype="Int64")}),
        pd.DataFrame({"a": LARGE.astype(object)}),
        pd.DataFrame({"a": -LARGE}),
        LARGE[:, None],
        LARGE[:, None].astype(np.uint64),
        [[int(value)] for value in LARGE],
        sparse.csr_array(LARGE[:, None]),
    ],
    ids=["int64", "Int64", "objects", "negative", "array", "uint64", "list", "sparse"],
)
def test_integers_that_floats_cannot_tell_apart_are_rejected(X):
    with pytest.raises(ValueError, match=r"holds integers beyond 2\*\*53, such as -?4611686018427"):
        regressor().fit(X, TRUTH)


def test_large_integers_as_labels_are_rejected_and_as_categories_or_classes_taken():
    with pytest.raises(ValueError, match=r"y holds integers beyond 2\*\*53"):
        regressor().fit(TABLE, LARGE)
    regressor().fit(TABLE, np.arange(N) + 2**53 - N)
    codes = pd.DataFrame({"a": LARGE[np.arange(N) % 5], "b": TABLE["b"]})
    regressor(categorical_features=["a"]).fit(codes, TRUTH)
    classes = LARGE[np.arange(N) % 2]
    model = eb.EBBSClassifier(**CHEAP).fit(TABLE, classes)
    assert set(model.classes_.tolist()) == set(classes.tolist())


def test_text_that_is_no_unicode_is_named():
    text = pd.Series(np.array(["x", "y\ud800"] * (N // 2), dtype=object), dtype=object)
    for fit in (
        lambda: regressor().fit(TABLE.assign(kind=text), TRUTH, graph=GRAPH),
        lambda: regressor(neighbor_features=eb.NeighborFeatures()).fit(
            TABLE.assign(kind=text), TRUTH, graph=GRAPH
        ),
    ):
        with pytest.raises(ValueError, match="column 'kind' has text that is not valid Unicode"):
            fit()
