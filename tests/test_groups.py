"""Several groups: rows at several nodes, against dense matrices and simulated effects."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multivariate_normal

import ebboost as eb
from ebboost.data.labels import Labels
from ebboost.field import FieldEnergy, Posterior, at, posterior_variances
from ebboost.groups import group_places, read_groups
from ebboost.uncertainty import Likelihood
from tests import dense
from tests.strategies import LOSSES, fixed, loss_data, quick

SIZES = {"shop": 7, "product": 5, "town": 4}
TOWNS = eb.Graph.from_edges([0, 1, 2], [1, 2, 3])
FIELDS = eb.GroupFields(
    (eb.LatentField(0.5, 0.1), eb.LatentField(2.0, 0.3), eb.LatentField(4.0, 0.05)),
    tuple(SIZES.values()),
)


def crossed(n_rows, seed=0, names=tuple(SIZES)):
    """Levels of rows in groups, each level at least once; town has a graph."""
    random = np.random.default_rng(seed)
    groups = {}
    for name in names:
        every = np.arange(SIZES[name])
        groups[name] = np.concatenate([every, random.integers(0, every.size, n_rows - every.size)])
    return groups


def places_of(groups):
    graphs = {"town": TOWNS}
    return group_places({name: (own, graphs.get(name)) for name, own in groups.items()})


def dense_parts(places, fields):
    """S of the rows, and Q of all groups."""
    S = np.zeros((len(places.node_of_row), places.graph.n_nodes))
    for nodes in places.node_of_row.T:
        S[np.arange(len(S)), nodes] = 1.0
    Q, start = np.zeros((S.shape[1],) * 2), 0
    for (name, size), field in zip(places.groups.items(), fields.fields, strict=True):
        graph = TOWNS if name == "town" else eb.Graph.from_edges([], [], n_nodes=size)
        Q[start : start + size, start : start + size] = dense.precision(graph, field)
        start += size
    return S, Q


# ---------------------------------------------------------------------- the field


@given(
    count=st.integers(2, 3),
    seed=st.integers(0, 1000),
    strengths=st.lists(st.builds(eb.LatentField, st.floats(0.0, 9.0), st.floats(0.01, 2.0)))
    .filter(lambda own: len(own) > 2),
)  # fmt: skip
@settings(max_examples=40, deadline=None)
def test_crossed_groups_have_their_closed_form(count, seed, strengths):
    groups = crossed(20, seed, tuple(SIZES)[-count:])
    places = places_of(groups)
    fields = eb.GroupFields(strengths[:count], tuple(places.groups.values()))
    S, Q = dense_parts(places, fields)
    random = np.random.default_rng(seed)
    weight, target = random.random(20) + 0.2, random.normal(size=(20, 1))
    labels = Labels(np.arange(20), target, weight).relative()
    posterior = Posterior(fields.prior(places.graph), places.node_of_row)
    np.testing.assert_allclose(posterior.prior.matrix @ np.eye(len(Q)), Q, atol=1e-12)
    system = S.T @ np.diag(labels.weight) @ S + Q
    expected = np.linalg.solve(system, S.T @ (labels.weight[:, None] * (target - 0.3)))
    z = FieldEnergy(posterior, eb.SquaredError(), labels).mode(np.full((20, 1), 0.3))
    np.testing.assert_allclose(z, expected, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(at(z, places.node_of_row), S @ z, atol=1e-12)
    two = random.random((20, 2)) + 0.1  # curvatures of two outputs
    right = random.normal(size=(len(Q), 2))
    solved = posterior.solve(two, right, 1e-12)
    for column in range(2):
        matrix = S.T @ np.diag(two[:, column]) @ S + Q
        np.testing.assert_allclose(matrix @ solved[:, column], right[:, column], atol=1e-8)
    variance = posterior_variances(posterior, labels.weight[:, None], None)
    np.testing.assert_allclose(variance, np.linalg.inv(system).diagonal(), rtol=1e-4)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_the_mode_of_every_loss_has_no_gradient(loss):
    places = places_of(crossed(30))
    scores, target = loss_data(loss, 0, 30)
    labels = Labels(np.arange(30), target, np.ones(30))
    posterior = Posterior(FIELDS.prior(places.graph), places.node_of_row)
    z = FieldEnergy(posterior, loss, labels).mode(0.5 * scores)
    S, Q = dense_parts(places, FIELDS)
    slopes = [S.T @ loss.gradient(0.5 * scores + S @ own, target) + Q @ own for own in (0 * z, z)]
    assert np.linalg.norm(slopes[1]) <= 1e-5 * max(np.linalg.norm(slopes[0]), 1.0)


def test_variances_of_many_levels_are_near_the_exact_ones():
    random = np.random.default_rng(0)
    groups = {"a": np.arange(6_000) % 900, "b": random.permutation(6_000) % 300}
    places = group_places({name: (own, None) for name, own in groups.items()})
    fields = eb.GroupFields((eb.LatentField(1.0, 0.5), eb.LatentField(2.0, 0.5)), (900, 300))
    posterior = Posterior(fields.prior(places.graph), places.node_of_row)
    some = np.array([0, 10, 899, 900, 1199])
    exact = posterior_variances(posterior, np.ones((6_000, 1)), some)
    drawn = posterior_variances(posterior, np.ones((6_000, 1)), None)[some]
    np.testing.assert_allclose(drawn, exact, rtol=0.1)
    rows = np.column_stack([places.node_of_row[:3, 0], [-1, -1, -1]])
    every = posterior_variances(posterior, np.ones((6_000, 1)), None)
    sums = posterior_variances(posterior, np.ones((6_000, 1)), rows)
    np.testing.assert_allclose(sums, every[rows[:, 0]])


def test_the_likelihood_of_variances_is_that_of_a_normal_distribution():
    groups = crossed(40, names=("shop", "product"))
    places = places_of(groups)
    S, _ = dense_parts(places, eb.GroupFields(FIELDS.fields[:2], FIELDS.sizes[:2]))
    random = np.random.default_rng(0)
    target = S @ np.r_[random.normal(0, 1.5, 7), random.normal(0, 0.5, 5)] + random.normal(size=40)
    labels = Labels(np.arange(40), target[:, None], np.ones(40))
    fields = eb.GroupFields(FIELDS.fields[:2], FIELDS.sizes[:2])
    parts = (places, labels, np.zeros((40, 1)), eb.SquaredError(), fields, [])
    likelihood = Likelihood(*parts, dispersion=0.8)
    assert likelihood.names == ["variance of shop", "variance of product", "noise"]
    np.testing.assert_allclose(np.exp(likelihood.start), [0.8 / 0.6, 0.8 / 2.3, 0.8])

    def exact(shop, product, noise):
        variance = S @ np.diag(np.repeat([shop, product], [7, 5])) @ S.T + noise * np.eye(40)
        return -multivariate_normal(np.zeros(40), variance).logpdf(target)

    points = [(1.0, 0.5, 1.0), (3.0, 0.1, 0.7), (0.2, 2.0, 1.5)]
    own, expected = (
        np.array([function(*point) for point in points])
        for function in (lambda *one: likelihood.minus_log(np.log(one)), exact)
    )
    np.testing.assert_allclose(np.diff(own), np.diff(expected), rtol=1e-6)
    shop, product, noise = likelihood.estimates()
    assert shop.lower < 2.0 < shop.upper and product.lower < 0.3 < product.upper
    assert noise.lower < 1.0 < noise.upper


# ---------------------------------------------------------------------- fit and predict


def table(n=900, seed=0):
    """Columns and levels of crossed groups, expected values, labels, and effects."""
    random = np.random.default_rng(seed)
    X = pd.DataFrame(random.normal(size=(n, 3)), columns=["a", "b", "c"])
    X["shop"] = [f"s{k}" for k in random.integers(0, 60, n)]
    X["product"] = random.integers(0, 25, n)
    effects = {"shop": random.normal(0.0, 1.0, 60), "product": random.normal(0.0, 0.7, 25)}
    truth = X["a"] + effects["shop"][X["shop"].str[1:].astype(int)]
    truth += effects["product"][X["product"]]
    return X, truth.to_numpy(), truth + random.normal(0.0, 0.3, n), effects


X, TRUTH, Y, EFFECTS = table()
LEVELS = {"shop": X["shop"], "product": X["product"]}
OWN = X[["a", "b", "c"]]
OLD = np.arange(700)
NEW = np.arange(700, 900)
PARTS = eb.GroupFields((eb.LatentField(0.1, 0.01), eb.LatentField(0.2, 0.01)), (60, 25))


def test_a_fit_is_the_closed_form_and_new_levels_have_no_effect():
    labels = Y[OLD]
    model = fixed(labels=PARTS).fit(
        OWN.iloc[OLD], labels, groups={n: v[OLD] for n, v in LEVELS.items()}
    )
    fitted = model.model_
    assert dict(fitted.places.groups) == {"shop": 60, "product": 25}
    assert {"shop=s3", "product=7"} < set(fitted.graph.node_ids)
    one, nodes = fitted.components[0], fitted.places.node_of_row
    S, Q = dense_parts(fitted.places, PARTS)
    base = one.init_score + one.scores
    z = np.linalg.solve(S.T @ S + Q, S.T @ (labels.to_numpy()[:, None] - base))
    np.testing.assert_allclose(model.predict(), (base + at(z, nodes))[:, 0], rtol=1e-6, atol=1e-6)
    new = OWN.iloc[NEW]
    known = model.predict(new, groups={name: own[NEW] for name, own in LEVELS.items()})
    shop = model.predict(new, groups={"shop": LEVELS["shop"][NEW], "product": np.full(200, 99)})
    none = model.predict(new, groups={"shop": np.full(200, "?"), "product": np.full(200, 99)})
    effect = dict(zip(fitted.graph.node_ids, z[:, 0], strict=True))
    expected = [effect[f"product={k}"] for k in LEVELS["product"][NEW]]
    np.testing.assert_allclose(known - shop, expected, atol=1e-6)
    expected = [effect[f"shop={k}"] for k in LEVELS["shop"][NEW]]
    np.testing.assert_allclose(shop - none, expected, atol=1e-6)


def test_names_frames_and_arrays_are_the_same_groups():
    by_name = fixed(labels=PARTS).fit(X, Y, groups=["shop", "product"])
    others = (
        LEVELS,
        X[["shop", "product"]],
        {"shop": None, "product": LEVELS["product"].to_numpy()},
    )
    for groups in others:
        model = fixed(labels=PARTS).fit(X, Y, groups=groups)
        np.testing.assert_array_equal(model.predict(), by_name.predict())
        floats = {"shop": X["shop"], "product": X["product"].astype(float)}  # 3.0 is 3
        np.testing.assert_allclose(model.predict(X, groups=floats), by_name.predict())
    same = fixed(labels=eb.LatentField()).fit(X, Y, groups={"shop": None})
    one = fixed(labels=eb.LatentField()).fit(X, Y, groups="shop")
    np.testing.assert_array_equal(same.predict(), one.predict())


@pytest.mark.parametrize("kind", [eb.EBBSRegressor, eb.EBBSClassifier])
def test_effects_of_crossed_groups_are_found_with_their_variances(kind):
    groups = {name: own[OLD] for name, own in LEVELS.items()}
    new = {name: own[NEW] for name, own in LEVELS.items()}
    if kind is eb.EBBSClassifier:
        labels = np.array(["low", "high"])[(Y > 0).astype(int)]
        model = quick(kind, n_estimators=30).fit(OWN.iloc[OLD], labels[OLD], groups=groups)
        assert (model.predict(OWN.iloc[NEW], groups=new) == labels[NEW]).mean() > 0.82
        assert "groups      shop: variance" in model.summary()
        return
    model = quick(n_estimators=40).fit(OWN.iloc[OLD], Y[OLD], groups=groups)
    interval = model.predict(OWN.iloc[NEW], groups=new, interval=0.9)
    assert np.sqrt(np.mean((interval.prediction - TRUTH[NEW]) ** 2)) < 0.3
    assert 0.82 < np.mean((interval.lower <= Y[NEW]) & (Y[NEW] <= interval.upper)) < 0.97
    nobody = {"shop": np.full(200, "?"), "product": np.full(200, 99)}
    wide = model.predict(OWN.iloc[NEW], groups=nobody, interval=0.9)
    assert (wide.upper - wide.lower).mean() > 2.0 * (interval.upper - interval.lower).mean()
    lines = model.summary().splitlines()
    line = next(i for i, one in enumerate(lines) if one.startswith("groups"))
    words = [lines[line].split(), ["groups", *lines[line + 1].split()]]
    assert [one[1] for one in words] == ["shop:", "product:"]
    shop, product = (float(one[3].rstrip(",")) for one in words)
    drawn = [EFFECTS[name].var() for name in LEVELS]
    np.testing.assert_allclose([shop, product], drawn, rtol=0.35)
    table = model.estimates_.set_index("parameter")
    for name, effects in EFFECTS.items():  # fitted ones may be far from those of least deviance
        assert 0.5 < table.loc[f"variance of {name}", "fitted"] / effects.var() < 2.0
    rows = model.explain([0, 5])
    assert set(rows.loc[rows["part"] == "group", "name"]) == {
        f"{name}={LEVELS[name][row]}" for name in LEVELS for row in (0, 5)
    }
    sums = rows.groupby("node", sort=False)["contribution"].sum()
    np.testing.assert_allclose(sums, model.predict()[[0, 5]], atol=1e-5)
    assert "group shop=" in str(model.explanations([0])[0])


def test_nested_groups_share_the_effect_of_the_outer_one():
    random = np.random.default_rng(0)
    region = np.repeat(np.arange(20), 40)
    store = 2 * region + random.integers(0, 2, 800)
    truth = random.normal(0, 2, 20)[region] + random.normal(0, 0.3, 40)[store]
    y = truth + random.normal(0.0, 0.5, 800)
    y[(store % 2 == 1) & (region > 4)] = np.nan  # whose other store is known
    noise = random.normal(size=(800, 2))
    known = np.flatnonzero(~np.isnan(y))
    model = quick(n_estimators=20).fit(noise, y, groups={"region": region, "store": store})
    alone = quick(n_estimators=20).fit(noise, y, groups=store)
    hidden = np.setdiff1d(np.arange(800), known)
    errors = [np.sqrt(np.mean((one.predict() - truth)[hidden] ** 2)) for one in (model, alone)]
    assert errors[0] < 0.7 < 1.5 < errors[1]


def test_a_graph_of_one_group_informs_its_levels_without_rows():
    random = np.random.default_rng(0)
    commune, client = random.integers(0, 60, 900), random.integers(0, 40, 900)
    smooth = 2.0 * np.sin(np.arange(60) / 6)
    truth = smooth[commune] + random.normal(0, 1, 40)[client]
    y = truth + 0.3 * random.normal(size=900)
    known = np.flatnonzero(commune % 6 != 0)
    path = eb.Graph.from_edges(range(59), range(1, 60))
    noise = random.normal(size=(900, 2))
    groups = {"commune": (commune, path), "client": client}
    model = quick(n_estimators=20).fit(noise, y[known], nodes=known, groups=groups)
    apart = quick(n_estimators=20).fit(
        noise, y[known], nodes=known, groups=groups | {"commune": commune}
    )
    hidden = np.setdiff1d(np.arange(900), known)
    errors = [np.sqrt(np.mean((one.predict() - truth)[hidden] ** 2)) for one in (model, apart)]
    assert errors[0] < 0.5 * errors[1]
    assert "commune: variance" in model.summary() and "59 edges" in model.summary()
    eb.check_graph(noise, y, **{"groups": groups})
    columns = quick(neighbor_features=eb.NeighborFeatures(), n_estimators=2)
    columns = columns.fit(noise, y[known], nodes=known, groups=groups)
    alone = quick(neighbor_features=eb.NeighborFeatures(), n_estimators=2)
    alone = alone.fit(noise, y[known], nodes=known, groups=commune, graph=path)
    names = [one.model_.components[0].columns for one in (columns, alone)]
    assert names[0] == names[1] and "mean(x0)" in names[0]
    new = columns.predict(noise[:3], groups={"commune": [3, 59, 99], "client": [1, 2, 99]})
    assert np.isfinite(new).all()
    scores = eb.cross_validate(
        eb.EBBSRegressor.from_preset("fast", random_state=0), noise, y, groups=groups, cv=2
    )
    assert np.isfinite(scores["test_rmse"]).all()


WRONG = [
    ({"groups": ["shop", "colour"]}, "groups\\['colour'\\]='colour' is not a column of X"),
    ({"groups": {"shop": None, "product": [1, 2]}}, r"groups\['product'\] has 2 entries"),
    ({"groups": {}}, "groups must have names"),
    ({"groups": {"shop": None, 3: X["product"]}}, "groups must have names"),
    ({"groups": ["shop", "product"], "graph": TOWNS}, r"graph= needs one group.*groups=\{'shop'"),
    ({"groups": {"shop": None, "product": [None] * 900}}, "no node id at row 0"),
    ({"groups": LEVELS, "coordinates": ["a", "b"]}, "no coordinates"),
    ({"groups": {"shop": X["shop"][::-1], "product": None}}, r"index of groups\['shop'\]"),
]


@pytest.mark.parametrize(("arguments", "words"), WRONG)
def test_wrong_groups_are_met_by_a_message(arguments, words):
    with pytest.raises(ValueError, match=words):
        quick(n_estimators=2).fit(X, Y, **arguments)


def test_wrong_parts_and_new_rows_are_met_by_a_message():
    with pytest.raises(ValueError, match="do not fit 85 nodes"):
        fixed(labels=FIELDS).fit(X, Y, groups=LEVELS)
    with pytest.warns(UserWarning, match="No group is a node of graph"):
        group_places(read_groups(X, {"shop": TOWNS, "product": None}, 900))
    model = fixed(labels=PARTS, n_estimators=2).fit(OWN, Y, groups=LEVELS)
    for arguments, words in (
        ({}, "fitted with groups"),
        ({"groups": {"shop": X["shop"][:3]}}, r"those of the fit, \['shop', 'product'\]"),
        ({"groups": "a"}, "those of the fit"),
        ({"attach": ([0], [0])}, "fitted with groups"),
    ):
        with pytest.raises(ValueError, match=words):
            model.predict(OWN.iloc[:3], **arguments)
    one = fixed(labels=eb.LatentField(), n_estimators=2).fit(X, Y, groups="shop")
    with pytest.raises(ValueError, match="those of the fit"):
        one.predict(X[:3], groups=["shop", "product"])
