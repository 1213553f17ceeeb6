"""Rows in another order are noticed wherever an argument has a row for each node."""

import copy
import warnings

import numpy as np
import pandas as pd
import pytest

import ebboost as eb
from tests.safety.problems import (
    CHEAP,
    GRAPH,
    IDS,
    NAMED,
    POINTS,
    TABLE,
    TEST,
    TRAIN,
    TRUTH,
    N,
    classifier,
    labels,
    regressor,
)

X = TABLE.set_axis(IDS)
Y = pd.Series(labels(), index=IDS)
FULL = pd.Series(TRUTH, index=IDS)
OF_TRAIN = FULL.iloc[TRAIN]
OFFSET = pd.Series(np.linspace(0.0, 9.0, N), index=IDS)
PLACE = pd.DataFrame(POINTS, columns=["u", "v"], index=IDS)
GROUP = pd.Series(np.arange(N) % 40, index=IDS)
WHEN = pd.Series(np.arange(N, dtype=float), index=IDS)
ORDER = "lists the (rows|nodes of graph) .*another order"


def shuffled(values):
    return values.sample(frac=1.0, random_state=1)


def counts(**changes):
    return regressor(loss="poisson", **changes)


@pytest.fixture(scope="module")
def model():
    return regressor().fit(X, Y, graph=NAMED)


@pytest.fixture(scope="module")
def of_coordinates():
    return eb.EBBSRegressor(**CHEAP).fit(X, Y, coordinates=PLACE)


# Each with the arguments in order, and one of them shuffled.
FITS = {
    "X": lambda f: regressor().fit(f(X), TRUTH, graph=NAMED),
    "y": lambda f: regressor().fit(X, f(Y), graph=NAMED),
    "y of nodes": lambda f: regressor().fit(X, f(OF_TRAIN), nodes=TRAIN, graph=NAMED),
    "y of nodes by id": lambda f: regressor().fit(X, f(OF_TRAIN), nodes=IDS[TRAIN], graph=NAMED),
    "classes of nodes": lambda f: classifier().fit(X, f(OF_TRAIN > 0), nodes=TRAIN, graph=NAMED),
    "y, X an array": lambda f: regressor().fit(X.to_numpy(), f(Y), graph=NAMED),
    "y, X reset": lambda f: regressor().fit(TABLE, f(Y), graph=NAMED),
    "y, no graph": lambda f: eb.EBBSRegressor(**CHEAP).fit(X, f(FULL)),
    "mask": lambda f: regressor().fit(X, OF_TRAIN, nodes=f(Y.notna()), graph=NAMED),
    "sample_weight": lambda f: regressor().fit(X, Y, f(abs(OFFSET)), graph=NAMED),
    "weight of nodes": lambda f: regressor().fit(
        X, OF_TRAIN, f(OFFSET.iloc[TRAIN]), nodes=TRAIN, graph=NAMED
    ),
    "offset": lambda f: regressor().fit(X, Y, graph=NAMED, offset=f(OFFSET)),
    "exposure": lambda f: counts().fit(X, Y.abs().round(), graph=NAMED, exposure=f(OFFSET + 1)),
    "coordinates": lambda f: eb.EBBSRegressor(**CHEAP).fit(X, Y, coordinates=f(PLACE)),
    "groups": lambda f: eb.EBBSRegressor(**CHEAP).fit(X, Y, groups=f(GROUP)),
    "time": lambda f: regressor().fit(X, Y, graph=NAMED, time=f(WHEN)),
    "eval_set": lambda f: regressor().fit(
        X, OF_TRAIN, nodes=TRAIN, graph=NAMED, eval_set=(TEST, f(FULL.iloc[TEST]))
    ),
    "cross_validate": lambda f: eb.cross_validate(regressor(), X, f(FULL), NAMED, cv=2),
    "cross_validate, weight": lambda f: eb.cross_validate(
        regressor(), X, FULL, NAMED, cv=2, fit_parameters={"sample_weight": f(abs(OFFSET))}
    ),
    "cross_validate, offset": lambda f: eb.cross_validate(
        regressor(), X, FULL, NAMED, cv=2, fit_parameters={"offset": f(OFFSET)}
    ),
    "cross_validate, time": lambda f: eb.cross_validate(
        regressor(), X, FULL, NAMED, cv=eb.TimeSplit(2), time=f(WHEN)
    ),
    "check_graph": lambda f: eb.check_graph(X, f(Y), NAMED, estimate=False),
    "check_graph, X": lambda f: eb.check_graph(f(X), TRUTH, NAMED, estimate=False),
}
OTHER = TABLE.iloc[:50].set_axis(IDS[:50]) + 0.1
NEW_GRAPH = eb.Graph.build_knn(POINTS[:50], k=4)
NEW = eb.Graph(NEW_GRAPH.adjacency, IDS[:50])
EDGES = (np.arange(50), IDS[100:150])
USES = {
    "predict, X": lambda m, f: m.predict(f(X), graph=NAMED),
    "new_labels": lambda m, f: m.predict(new_labels=(TEST[:40], f(FULL.iloc[TEST[:40]]))),
    "new_labels by id": lambda m, f: m.predict(new_labels=(IDS[TEST], f(FULL.iloc[TEST]))),
    "interval_groups": lambda m, f: m.predict(interval=0.9, interval_groups=f(GROUP)),
    "score": lambda m, f: m.score(None, f(FULL)),
    "score of nodes": lambda m, f: m.score(None, f(FULL.iloc[TEST]), nodes=TEST),
    "score of nodes, all labels": lambda m, f: m.score(None, f(FULL), nodes=TEST),
    "score, X": lambda m, f: m.score(X, f(FULL), graph=NAMED),
    "score, metric": lambda m, f: m.score(None, f(FULL), metric="mae"),
    "score, weight": lambda m, f: m.score(None, FULL, f(OFFSET)),
    "explain": lambda m, f: m.explain([3], X=f(X)),
    "explanations": lambda m, f: m.explanations([3], X=f(X)),
    "tree_features": lambda m, f: m.tree_features(f(X)),
    "predictor": lambda m, f: m.predictor(new_labels=(TEST[:40], f(FULL.iloc[TEST[:40]]))),
}


@pytest.mark.parametrize("name", FITS)
def test_a_fit_rejects_rows_in_another_order_and_takes_those_in_order(name):
    FITS[name](lambda values: values)
    with pytest.raises(ValueError, match=ORDER):
        FITS[name](shuffled)


@pytest.mark.parametrize("name", USES)
def test_a_model_rejects_rows_in_another_order_and_takes_those_in_order(name, model):
    USES[name](model, lambda values: values)
    with pytest.raises(ValueError, match=ORDER):
        USES[name](model, shuffled)


@pytest.mark.parametrize("method", ["predict", "predict_distribution"])
def test_new_rows_are_compared_with_their_own_table(method, of_coordinates):
    of_offset = regressor().fit(X, Y, graph=NAMED, offset=OFFSET)
    grouped = eb.EBBSRegressor(**CHEAP).fit(X, Y, groups=GROUP)
    calls = (
        lambda f: getattr(of_offset, method)(OTHER, graph=NEW, offset=f(OFFSET.iloc[:50])),
        lambda f: getattr(of_offset, method)(OTHER, attach=EDGES, offset=f(OFFSET.iloc[:50])),
        lambda f: getattr(of_coordinates, method)(OTHER, coordinates=f(PLACE.iloc[:50])),
        lambda f: getattr(grouped, method)(OTHER, groups=f(GROUP.iloc[:50])),
    )
    for call in calls:
        call(lambda values: values)
        with pytest.raises(ValueError, match=ORDER):
            call(shuffled)


def test_probabilities_are_compared_too():
    model = classifier().fit(X, FULL > 0, graph=NAMED, offset=OFFSET)
    model.predict_proba(OTHER, graph=NEW, offset=OFFSET.iloc[:50])
    with pytest.raises(ValueError, match=ORDER):
        model.predict_proba(OTHER, graph=NEW, offset=shuffled(OFFSET.iloc[:50]))


def test_rows_of_a_predictor_are_those_of_the_nodes(model):
    predictor = model.predictor(X, graph=NAMED)
    predictor.update([4, 9], X.iloc[[4, 9]] + 1.0)
    predictor.update([IDS[4], IDS[9]], X.iloc[[4, 9]] + 2.0)
    with pytest.raises(ValueError, match=ORDER):
        predictor.update([4, 9], X.iloc[[9, 4]] + 1.0)


def test_tuning_compares_labels_and_offsets():
    pytest.importorskip("optuna")

    def tune(y=Y, offset=OFFSET, **options):
        options |= {"n_trials": 1, "random_state": 0, "verbose": 0}
        return eb.tune(regressor(), X, y, NAMED, offset=offset, **options)

    tune()
    wrong = ({"y": shuffled(Y)}, {"offset": shuffled(OFFSET)})
    wrong += ({"y": shuffled(OF_TRAIN), "nodes": TRAIN},)
    wrong += ({"eval_set": (TEST, shuffled(FULL.iloc[TEST]))},)
    for options in wrong:
        with pytest.raises(ValueError, match=ORDER):
            tune(**options)


def test_rows_that_were_shuffled_do_not_fit_a_graph_without_ids():
    mixed = TABLE.assign(y=TRUTH).sample(frac=1.0, random_state=0)
    with pytest.raises(ValueError, match=r"X\.sort_index\(\).*X\.reset_index\(drop=True\)"):
        regressor().fit(mixed[["a"]], mixed["y"], graph=GRAPH)
    in_order = mixed.sort_index()
    regressor().fit(in_order[["a"]], in_order["y"], graph=GRAPH)
    said = mixed.reset_index(drop=True)
    regressor().fit(said[["a"]], said["y"], graph=GRAPH)
    plain = eb.EBBSRegressor(**CHEAP).fit(mixed[["a"]], mixed["y"])  # any order is right
    assert plain.predict(TABLE[["a"]].iloc[::-1]).shape == (N,)


@pytest.mark.parametrize(
    "y",
    [
        OF_TRAIN.to_numpy(),
        OF_TRAIN.tolist(),
        OF_TRAIN.reset_index(drop=True),
        OF_TRAIN.set_axis([f"sale {i}" for i in range(TRAIN.size)]),
        OF_TRAIN.set_axis(pd.RangeIndex(1000, 1000 + TRAIN.size)),
    ],
    ids=["array", "list", "reset", "other labels", "other numbers"],
)
@pytest.mark.parametrize("table", [X, TABLE, X.to_numpy()], ids=["ids", "numbers", "array"])
def test_labels_without_the_labels_of_rows_are_taken_in_their_order(y, table):
    expected = regressor().fit(X, OF_TRAIN, nodes=TRAIN, graph=NAMED).predict()
    np.testing.assert_array_equal(
        regressor().fit(table, y, nodes=TRAIN, graph=NAMED).predict(), expected
    )


def test_labels_of_a_selection_keep_the_labels_of_its_rows():
    late = TABLE.set_axis(np.arange(1000, 1000 + N))
    y = pd.Series(TRUTH, index=late.index)
    regressor().fit(late, y.iloc[TRAIN], nodes=TRAIN, graph=GRAPH)
    with pytest.raises(ValueError, match=ORDER):
        regressor().fit(late, shuffled(y.iloc[TRAIN]), nodes=TRAIN, graph=GRAPH)
    with pytest.raises(ValueError, match=ORDER):  # of other rows
        regressor().fit(late, y.iloc[TEST], nodes=TRAIN[: TEST.size], graph=GRAPH)


def test_a_model_from_a_file_knows_its_ids(model, tmp_path):
    model.save(tmp_path / "model.ebb")
    for other in (eb.load(tmp_path / "model.ebb"), copy.deepcopy(model)):
        assert other.score(None, FULL) == model.score(None, FULL)
        with pytest.raises(ValueError, match=ORDER):
            other.score(None, shuffled(FULL))


# ---------------------------------------------------------------------- ids and row numbers

NUMBERS = np.arange(N) + 1  # ids that are row numbers of the next rows
COUNTED = eb.Graph(GRAPH.adjacency, NUMBERS)
FAR = eb.Graph(GRAPH.adjacency, NUMBERS + 5000)
SOME = TRAIN[TRAIN > 0]


@pytest.mark.parametrize(
    ("graph", "nodes"),
    [
        (NAMED, TRAIN),
        (NAMED, IDS[TRAIN]),
        (NAMED, IDS[TRAIN].tolist()),
        (NAMED, pd.Index(IDS[TRAIN])),
        (NAMED, np.isin(np.arange(N), TRAIN)),
        (FAR, TRAIN),
        (FAR, FAR.node_ids[TRAIN]),
        (COUNTED, COUNTED.index_of(NUMBERS[TRAIN])),
        (COUNTED, np.isin(np.arange(N), TRAIN)),
        (GRAPH, TRAIN),
    ],
    ids=[
        "rows",
        "ids",
        "list of ids",
        "index of ids",
        "mask",
        "rows, far ids",
        "far ids",
        "index_of",
        "mask, near ids",
        "no ids",
    ],
)
def test_nodes_are_rows_a_mask_or_ids_in_every_argument(graph, nodes):
    def predictions(graph, nodes):
        model = regressor().fit(TABLE, TRUTH[TRAIN], nodes=nodes, graph=graph)
        labelled = (TABLE, labels(TEST))
        held_out = regressor().fit(*labelled, graph=graph, eval_set=(nodes, TRUTH[TRAIN]))
        later = regressor().fit(*labelled, graph=graph)
        new_labels = (nodes, TRUTH[TRAIN])
        return model.predict(nodes=nodes), held_out.predict(), later.predict(new_labels=new_labels)

    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        results = predictions(graph, nodes)
    for one, other in zip(results, predictions(GRAPH, TRAIN), strict=True):
        np.testing.assert_array_equal(one, other)


def test_integers_that_may_be_ids_or_rows_are_not_taken_silently():
    message = "row numbers and ids of other nodes"
    with pytest.warns(UserWarning, match=message):
        model = regressor().fit(TABLE, TRUTH[SOME], nodes=SOME, graph=COUNTED)
    expected = regressor().fit(TABLE, TRUTH[SOME], nodes=SOME, graph=GRAPH)
    np.testing.assert_array_equal(model.predict(), expected.predict())  # they are rows
    with pytest.warns(UserWarning, match=message):
        model.predict(nodes=SOME)
    with pytest.warns(UserWarning, match=message):
        model.predict(new_labels=(TEST[TEST > 0], TRUTH[TEST[TEST > 0]]))
    with pytest.warns(UserWarning, match=message):
        regressor().fit(
            TABLE, labels(SOME), graph=COUNTED, eval_set=(TEST[TEST > 0], TRUTH[TEST[TEST > 0]])
        )
    by_id = pd.Series(TRUTH, index=NUMBERS)
    X = TABLE.set_axis(NUMBERS)
    with pytest.warns(UserWarning, match=message), pytest.raises(ValueError, match=ORDER):
        regressor().fit(X, by_id.loc[SOME], nodes=SOME, graph=COUNTED)  # they are ids


def test_ids_of_a_county_table_that_are_row_numbers_of_others_are_noticed():
    ids = np.sort(np.random.default_rng(1).permutation(3 * N)[:N]) + N // 4  # a fifth are rows
    graph = eb.Graph(GRAPH.adjacency, ids)
    near = ids[ids < N]
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        regressor().fit(TABLE, TRUTH[TRAIN], nodes=TRAIN, graph=graph)  # not all are ids
    with pytest.warns(UserWarning, match="row numbers and ids of other nodes"):
        regressor().fit(TABLE, TRUTH[: near.size], nodes=near, graph=graph)


def test_new_rows_are_attached_to_ids_or_rows_that_cannot_be_mistaken():
    new = TABLE.iloc[:30] + 0.1
    ends = np.arange(60, 90)
    expected = regressor().fit(TABLE, labels(), graph=GRAPH)
    expected = expected.predict(new, attach=(np.arange(30), ends))
    for graph, named in (
        (NAMED, IDS[ends]),
        (NAMED, ends),
        (FAR, FAR.node_ids[ends]),
        (FAR, ends),
        (COUNTED, COUNTED.index_of(NUMBERS[ends])),
    ):
        model = regressor().fit(TABLE, labels(), graph=graph)
        result = model.predict(new, attach=(np.arange(30), named))
        np.testing.assert_array_equal(result, expected)
    model = regressor().fit(TABLE, labels(), graph=COUNTED)
    with pytest.raises(ValueError, match=r"attach\[1\] holds integers .*graph\.index_of\(ids\)"):
        model.predict(new, attach=(np.arange(30), NUMBERS[ends]))


def test_a_graph_of_all_nodes_has_the_fitted_ones_in_their_order(model):
    all_ids = np.array([*IDS, *(f"new {i}" for i in range(20))], dtype=object)
    points = np.vstack([POINTS, POINTS[:20] + 0.01])
    joined = eb.Graph.build_knn(points, k=6)
    new = X.iloc[:20].set_axis(all_ids[N:])
    model.predict(new, attach=eb.Graph(joined.adjacency, all_ids))
    other = np.concatenate([all_ids[:N][::-1], all_ids[N:]])
    with pytest.raises(ValueError, match="attach must begin with the fitted nodes in their order"):
        model.predict(new, attach=eb.Graph(joined.adjacency, other))
    with pytest.raises(ValueError, match=ORDER):
        model.predict(new.iloc[::-1], attach=eb.Graph(joined.adjacency, all_ids))


def test_unknown_ids_are_named(model):
    for call in (
        lambda: regressor().fit(X, [1.0, 2.0], nodes=["n001", "m002"], graph=NAMED),
        lambda: model.predict(nodes=["n001", "m002"]),
        lambda: model.predict(new_labels=(["m002"], [1.0])),
        lambda: model.explain("m002"),
    ):
        with pytest.raises(ValueError, match="'m002', which is not an id of the graph"):
            call()
    assert model.explain("n001")["node"].tolist()[0] == IDS.tolist().index("n001")


def test_labels_of_an_index_are_no_row_numbers():
    kept = TABLE.drop(index=[3, 40])  # the index has gaps
    graph = eb.Graph.build_knn(POINTS[kept.index], k=6)
    late = kept.index[kept.index > 100]
    y = TRUTH[late]
    with pytest.raises(ValueError, match=r"X\.index\.get_indexer"):
        regressor().fit(kept, y, nodes=late, graph=graph)
    regressor().fit(kept, y, nodes=kept.index.get_indexer(late), graph=graph)
