"""Input from and output to other libraries; each is skipped if not installed."""

import joblib
import numpy as np
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import ebboost as eb

N = 240
RANDOM = np.random.default_rng(0)
PLACE = RANDOM.random((N, 2))
SIZE = RANDOM.normal(size=N)
KIND = RANDOM.choice(["flat", "house"], N)
Y = np.sin(6 * PLACE[:, 0]) + 0.3 * SIZE + 0.5 * (KIND == "house")
KNOWN = np.sort(RANDOM.permutation(N)[:150])
HIDDEN = np.setdiff1d(np.arange(N), KNOWN)
GRAPH = eb.Graph.build_knn(PLACE, k=5)
QUICK = {"n_estimators": 30, "random_state": 0, "n_jobs": 1}


def columns():
    return {"size": SIZE, "kind": KIND}


def table():
    return pytest.importorskip("pandas").DataFrame(columns())


def bare(**changes):
    """A model whose trees see the table as it is."""
    fixed = {
        "smoothing": eb.Laplacian(1.0, 2),
        "labels": "field",
        "neighbor_features": None,
        "feature_smoothing": None,
    }
    return eb.EBBSRegressor(**QUICK | fixed | changes)


# ---------------------------------------------------------------------- dataframes


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_a_dataframe_of_labels_edges_and_columns_gives_the_model_of_the_arrays(library):
    module = pytest.importorskip(library)
    frame = module.table if library == "pyarrow" else module.DataFrame
    upper = [(i, j) for i, j in zip(*GRAPH.adjacency.nonzero(), strict=True) if i < j]
    names = [f"node {i}" for i in range(N)]
    edges = frame({"a": [names[i] for i, _ in upper], "b": [names[j] for _, j in upper]})
    nodes = frame({"id": names})
    graph = eb.Graph.from_dataframe(edges, nodes=nodes, node_id="id")
    labels = np.where(np.isin(np.arange(N), KNOWN), Y, np.nan)
    model = eb.EBBSRegressor(**QUICK).fit(frame(columns()), frame({"y": labels})["y"], graph=graph)
    expected = eb.EBBSRegressor(**QUICK).fit(table(), labels, graph=GRAPH)
    np.testing.assert_allclose(model.predict(), expected.predict())
    new = model.predict(frame(columns()), graph=graph, new_labels=(KNOWN, Y[KNOWN]))
    np.testing.assert_allclose(new, model.predict(), rtol=1e-5)


def test_a_lazy_polars_frame_is_refused_with_the_remedy_in_reach():
    polars = pytest.importorskip("polars")
    with pytest.raises(TypeError):
        eb.EBBSRegressor(**QUICK).fit(polars.DataFrame(columns()).lazy(), Y, graph=GRAPH)


# ---------------------------------------------------------------------- maps


@pytest.fixture
def cells():
    geopandas, geometry = pytest.importorskip("geopandas"), pytest.importorskip("shapely.geometry")
    shapes = [geometry.box(i % 15, i // 15, i % 15 + 1, i // 15 + 1) for i in range(225)]
    green = np.random.default_rng(1).random(225)
    frame = geopandas.GeoDataFrame(
        {"green": green}, geometry=shapes, index=[f"cell {i}" for i in range(225)]
    )
    return frame.assign(rent=np.sin(np.arange(225) % 15 / 3.0) + green)


def test_a_map_goes_in_and_a_map_with_predictions_comes_out(cells):
    libpysal = pytest.importorskip("libpysal")
    contiguity = libpysal.graph.Graph.build_contiguity(cells, rook=False)
    hidden = np.random.default_rng(2).random(225) < 0.5
    model = eb.EBBSRegressor(60, random_state=0, n_jobs=1)
    model.fit(
        cells[["green"]], cells["rent"].where(~hidden), graph=eb.Graph.from_libpysal(contiguity)
    )
    cells["predicted"], cells["low"], cells["high"] = model.predict(interval=0.9)
    assert type(cells).__name__ == "GeoDataFrame" and cells.geometry.is_valid.all()
    assert np.corrcoef(cells["predicted"][hidden], cells["rent"][hidden])[0, 1] > 0.9
    assert (cells["low"] < cells["predicted"]).all() and (cells["predicted"] < cells["high"]).all()


def test_the_shapes_of_a_map_are_no_column(cells):
    graph = eb.Graph.build_knn(np.column_stack([np.arange(225) % 15, np.arange(225) // 15]), k=4)
    X = cells.drop(columns="rent")
    model = eb.EBBSRegressor(**QUICK).fit(X, cells["rent"], graph=graph)
    assert "geometry" in X and "geometry" not in model.feature_names_in_


def test_a_map_in_another_order_than_its_graph_is_refused(cells):
    libpysal = pytest.importorskip("libpysal")
    graph = eb.Graph.from_libpysal(libpysal.graph.Graph.build_contiguity(cells))
    turned = cells.iloc[::-1]
    with pytest.raises(ValueError, match="order"):
        eb.EBBSRegressor(**QUICK).fit(turned[["green"]], turned["rent"], graph=graph)


def test_libpysal_graph_and_w_of_one_map_are_the_same_graph(cells):
    libpysal = pytest.importorskip("libpysal")
    graph = eb.Graph.from_libpysal(libpysal.graph.Graph.build_contiguity(cells, rook=True))
    weights = libpysal.weights.Rook.from_dataframe(cells, use_index=True)
    other = eb.Graph.from_libpysal(weights)
    assert graph.node_ids.tolist() == other.node_ids.tolist() == cells.index.tolist()
    assert (graph.adjacency != other.adjacency).nnz == 0


# ---------------------------------------------------------------------- graphs


def test_networkx_nodes_in_any_order_meet_their_rows():
    networkx = pytest.importorskip("networkx")
    names = [f"node {i}" for i in range(N)]
    theirs = networkx.Graph()
    theirs.add_nodes_from(reversed(names))
    theirs.add_edges_from(
        (names[i], names[j]) for i, j in zip(*GRAPH.adjacency.nonzero(), strict=True)
    )
    ours = eb.Graph.from_networkx(theirs, nodes=names)
    assert (ours.adjacency != GRAPH.adjacency).nnz == 0
    model = eb.EBBSRegressor(**QUICK).fit(SIZE[:, None], Y[KNOWN], nodes=KNOWN, graph=ours)
    networkx.set_node_attributes(
        theirs, dict(zip(names, model.predict().tolist(), strict=True)), "predicted"
    )
    assert theirs.nodes["node 7"]["predicted"] == model.predict()[7]


def test_pyg_data_with_its_masks_is_fitted_as_it_is():
    torch = pytest.importorskip("torch")
    Data = pytest.importorskip("torch_geometric.data").Data
    mask = torch.zeros(N, dtype=torch.bool)
    mask[torch.from_numpy(KNOWN)] = True
    index = torch.from_numpy(np.vstack(GRAPH.adjacency.nonzero())).long()
    classes = torch.from_numpy(np.digitize(Y, [0.0, 0.7]))
    data = Data(x=torch.from_numpy(SIZE[:, None]), edge_index=index, y=classes, train_mask=mask)
    graph = eb.Graph.from_pyg(data)
    assert (graph.adjacency != GRAPH.adjacency).nnz == 0
    model = eb.EBBSClassifier(**QUICK)
    model.fit(data.x.numpy(), data.y.numpy()[mask], nodes=data.train_mask.numpy(), graph=graph)
    assert model.predict().shape == (N,)


# ---------------------------------------------------------------------- scikit-learn


def test_a_pipeline_with_a_column_transformer_trains_through_the_graph():
    encoded = ColumnTransformer(
        [("number", StandardScaler(), ["size"]), ("kind", OneHotEncoder(), ["kind"])]
    )
    steps = make_pipeline(encoded, eb.EBBSRegressor(**QUICK))
    steps.fit(table(), Y[KNOWN], ebbsregressor__graph=GRAPH, ebbsregressor__nodes=KNOWN)
    model = steps[-1]
    assert (model.graph_.adjacency != GRAPH.adjacency).nnz == 0
    predicted = steps.predict(table(), graph=GRAPH, new_labels=(KNOWN, Y[KNOWN]))
    np.testing.assert_allclose(predicted, model.predict(), rtol=1e-5)
    assert np.corrcoef(predicted[HIDDEN], Y[HIDDEN])[0, 1] > 0.8


def test_neighbour_features_feed_any_model():
    columns = eb.NeighborFeatures(["mean"]).set_output(transform="default")
    around = columns.fit_transform(np.column_stack([SIZE, PLACE]), graph=GRAPH)
    alone = Ridge().fit(np.column_stack([SIZE, PLACE])[KNOWN], Y[KNOWN])
    both = Ridge().fit(around[KNOWN], Y[KNOWN])
    assert both.n_features_in_ == 2 * alone.n_features_in_ + 2


def test_cross_validation_takes_scikit_learns_splitters_and_scorers_and_leaves_the_graph_whole():
    labels = np.where(np.isin(np.arange(N), KNOWN), Y, np.nan)
    found = eb.cross_validate(
        eb.EBBSRegressor(**QUICK),
        table(),
        labels,
        GRAPH,
        cv=GroupKFold(3),
        groups=(9 * PLACE[:, 0]).astype(int),
        scoring=["neg_mean_absolute_error", "r2"],
    )
    assert found["test_r2"].shape == found["test_neg_mean_absolute_error"].shape == (3,)


def test_scikit_learns_search_would_cut_the_graph_and_says_what_to_use():
    search = GridSearchCV(
        eb.EBBSRegressor(**QUICK), {"learning_rate": [0.1, 0.2]}, cv=2, error_score="raise"
    )
    with pytest.raises(ValueError, match=r"ebboost\.tune"):
        search.fit(SIZE[:, None], Y, graph=GRAPH)
    assert search.fit(SIZE[:, None], Y).best_params_  # without a graph it is plain boosting


def test_tuning_searches_parameters_of_the_parts_by_scikit_learns_names():
    pytest.importorskip("optuna")
    model, search = (
        bare(learner=eb.LightGBM(num_leaves=7)),
        {"n_trials": 3, "random_state": 0, "verbose": 0},
    )
    space = {
        "learner__num_leaves": lambda trial: trial.suggest_int("leaves", 3, 9),
        "smoothing__lam": lambda trial: trial.suggest_float("lam", 0.1, 5.0),
    }
    best = eb.tune(model, table(), Y[KNOWN], GRAPH, nodes=KNOWN, space=space, **search)
    assert {"leaves", "lam"} <= set(best.study_.trials[1].params)
    assert best.predict().shape == (N,)


# ---------------------------------------------------------------------- explanations and files


@pytest.mark.filterwarnings("ignore")  # what SHAP warns of is not ours
@pytest.mark.parametrize("momentum", [False, "corrected"])
def test_shap_of_the_booster_adds_up_to_the_scores_before_they_are_shared(momentum):
    shap = pytest.importorskip("shap")
    model = bare(momentum=momentum).fit(
        np.column_stack([SIZE, PLACE]), Y[KNOWN], nodes=KNOWN, graph=GRAPH
    )
    told = shap.TreeExplainer(model.ensemble_.booster)(np.column_stack([SIZE, PLACE]))
    np.testing.assert_allclose(
        told.values.sum(axis=1) + told.base_values, model.scores_[:, 0], atol=1e-9
    )


def test_the_booster_is_an_ordinary_one_that_knows_the_trees_of_the_model():
    model = bare().fit(np.column_stack([SIZE, PLACE]), Y[KNOWN], nodes=KNOWN, graph=GRAPH)
    booster = model.ensemble_.booster
    assert booster.num_trees() == model.n_iter_
    np.testing.assert_allclose(
        booster.predict(np.column_stack([SIZE, PLACE])), model.scores_[:, 0], atol=1e-9
    )


def test_joblib_keeps_the_model_and_leaves_the_table_out(tmp_path):
    model = eb.EBBSRegressor(**QUICK).fit(table(), Y[KNOWN], nodes=KNOWN, graph=GRAPH)
    joblib.dump(model, tmp_path / "model.joblib")
    again = joblib.load(tmp_path / "model.joblib")
    assert (again.predict() == model.predict()).all()
    with pytest.raises(ValueError, match="explain"):
        again.explanations([3])
    assert again.explanations([3], X=table())[0].total == pytest.approx(
        model.explanations([3])[0].total
    )


def test_models_fitted_in_joblib_workers_are_those_fitted_here():
    def fitted(seed):
        return bare(random_state=seed).fit(table(), Y[KNOWN], nodes=KNOWN, graph=GRAPH).predict()

    together = joblib.Parallel(n_jobs=2, prefer="threads")(
        joblib.delayed(fitted)(seed) for seed in (0, 1)
    )
    np.testing.assert_array_equal(together, [fitted(0), fitted(1)])


def test_exported_trees_are_explained_by_named_columns():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"size": SIZE, "x": PLACE[:, 0]})
    neighbors = eb.NeighborFeatures(["mean"])
    parts = {"neighbor_features": neighbors, "smoothing": None, "labels": "field"}
    model = eb.EBBSRegressor(**QUICK, **parts).fit(table, Y, graph=eb.Graph.build_knn(PLACE, k=5))
    columns = model.tree_features()
    assert columns.columns[:3].tolist() == ["size", "x", "mean(size)"]
    booster = model.ensemble_.booster
    np.testing.assert_allclose(booster.predict(columns), model.scores_[:, 0])
    values = pytest.importorskip("shap").TreeExplainer(booster)(columns)
    assert values.feature_names[:3] == ["size", "x", "mean(size)"]
    np.testing.assert_allclose(values.values.sum(1) + values.base_values, model.scores_[:, 0])
