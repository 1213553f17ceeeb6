"""Rows in another order than the table are rejected; ids and row numbers are told apart."""

import networkx as nx
import numpy as np
import pandas as pd
import pytest

import ebboost as eb
from tests.strategies import fixed

N = 60
RNG = np.random.default_rng(0)
IDS = [f"n{i}" for i in range(N)]
X = pd.DataFrame(RNG.normal(size=(N, 2)), columns=["a", "b"], index=IDS)
Y = pd.Series(X["a"] + RNG.normal(size=N), index=IDS)
GRAPH = eb.Graph.from_networkx(nx.path_graph(IDS))
SHUFFLED = RNG.permutation(N)
KNOWN = np.arange(40)
POINTS = pd.DataFrame(RNG.random((N, 2)), index=IDS, columns=["x", "y"])


def model(**changes):
    return fixed(n_estimators=2, **changes)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("y", Y),
        ("sample_weight", abs(Y)),
        ("offset", Y),
        ("time", Y),
        ("groups", Y.round()),
        ("coordinates", POINTS),
    ],
)
def test_pandas_objects_in_another_order_are_rejected(name, values):
    arguments = {"y": Y, name: values}
    if name not in ("groups", "coordinates"):
        arguments["graph"] = GRAPH
    model().fit(X, **arguments)
    with pytest.raises(ValueError, match=f"index of {name} lists the rows in another order"):
        model().fit(X, **arguments | {name: values.iloc[SHUFFLED]})
    array = model().fit(X, **arguments | {name: values.to_numpy()})
    assert np.isfinite(array.predict()).all()


def test_labels_of_listed_rows_and_of_eval_set_are_compared_too():
    own = model().fit(X, Y.iloc[KNOWN], nodes=KNOWN, graph=GRAPH, eval_set=([50, 51], Y.iloc[50:52]))
    assert own.model_.labels.size == 40
    words = "lists the rows in another order"
    with pytest.raises(ValueError, match=f"index of y {words}"):
        model().fit(X, Y.iloc[KNOWN[::-1]], nodes=KNOWN, graph=GRAPH)
    with pytest.raises(ValueError, match=rf"index of eval_set\[1\] {words}"):
        pair = ([50, 51], Y.iloc[[51, 50]])
        model().fit(X, Y.iloc[KNOWN], nodes=KNOWN, graph=GRAPH, eval_set=pair)


def test_the_table_must_have_the_order_of_the_graph():
    with pytest.raises(ValueError, match=r"another order.*X.loc\[graph.node_ids\]"):
        model().fit(X.iloc[SHUFFLED], Y.iloc[SHUFFLED], graph=GRAPH)
    plain = eb.Graph.from_edges(np.arange(N - 1), np.arange(1, N))
    numbered = X.reset_index(drop=True)
    with pytest.raises(ValueError, match=r"X.sort_index\(\)"):
        model().fit(numbered.iloc[SHUFFLED], Y.to_numpy(), graph=plain)
    model().fit(numbered, Y.to_numpy(), graph=plain)


def test_predictions_compare_the_order_of_new_rows():
    fitted = model(labels="field").fit(X, Y, graph=GRAPH, offset=0.0 * Y)
    new = X.iloc[:5] + 0.1
    attach = (np.arange(5), IDS[:5])
    offset = pd.Series(np.arange(5.0), index=new.index)
    fitted.predict(new, attach=attach, offset=offset)
    with pytest.raises(ValueError, match="index of offset lists the rows in another order"):
        fitted.predict(new, attach=attach, offset=offset.iloc[::-1])
    with pytest.raises(ValueError, match=r"index of y lists"):
        fitted.score(None, Y.iloc[SHUFFLED])
    fitted = model(labels="field").fit(X, Y.where(np.arange(N) < 40), graph=GRAPH)
    with pytest.raises(ValueError, match=r"index of new_labels\[1\] lists"):
        fitted.predict(new_labels=([50, 51], Y.iloc[[51, 50]]))


def test_nodes_may_be_ids_everywhere():
    by_rows = model(labels="field").fit(X, Y.iloc[KNOWN], nodes=KNOWN, graph=GRAPH)
    by_ids = model(labels="field").fit(X, Y.iloc[KNOWN], nodes=IDS[:40], graph=GRAPH)
    np.testing.assert_array_equal(by_ids.predict(), by_rows.predict())
    np.testing.assert_array_equal(by_ids.predict(nodes=["n7", "n3"]), by_rows.predict()[[7, 3]])
    one = by_ids.predict(new_labels=(["n50"], [3.0]))
    np.testing.assert_array_equal(one, by_rows.predict(new_labels=([50], [3.0])))
    assert by_ids.explanations(["n7"])[0].node == 7
    with pytest.raises(ValueError, match="entry 0 is 'zz', which is not an id of the graph"):
        by_ids.predict(nodes=["zz"])


def numbered_graph(ids):
    edges = pd.DataFrame({"a": ids[:-1], "b": ids[1:]})
    return eb.Graph.from_dataframe(edges, nodes=ids)


def test_integer_ids_beyond_the_rows_are_ids_and_ambiguous_ones_are_row_numbers_with_a_warning():
    graph = numbered_graph(np.arange(N) + 1000)
    fitted = model().fit(X.to_numpy(), Y.to_numpy()[:2], nodes=[1003, 1001], graph=graph)
    assert fitted.model_.labels.rows.tolist() == [3, 1]
    shifted = numbered_graph((np.arange(N) + 5) % N)
    with pytest.warns(UserWarning, match="row numbers and ids of other nodes"):
        fitted = model().fit(X.to_numpy(), Y.to_numpy()[:2], nodes=[3, 1], graph=shifted)
    assert fitted.model_.labels.rows.tolist() == [3, 1]
    sure = shifted.index_of([3, 1])
    fitted = model().fit(X.to_numpy(), Y.to_numpy()[:2], nodes=sure, graph=shifted)
    assert fitted.model_.labels.rows.tolist() == [58, 56]
    with pytest.raises(ValueError, match=r"attach\[1\].*say which"):
        fitted.predict(X.to_numpy()[:1], attach=([0], [3]))


def test_labels_of_the_index_are_not_row_numbers():
    frame = X.set_axis(np.arange(N) + 20)
    with pytest.raises(ValueError, match=r"pass X.index.get_indexer\(nodes\)"):
        model().fit(frame, Y.to_numpy()[:5], nodes=frame.index[:5])
    rows = frame.index.get_indexer(frame.index[:5])
    model().fit(frame, Y.to_numpy()[:5], nodes=rows)
