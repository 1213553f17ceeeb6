import subprocess
import sys

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

import ebboost as eb
from ebboost.inspection import diagnostics
from tests.inspection.models import QUICK, fitted, fitted_classes
from tests.problems import homophilous

matplotlib.use("agg")


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def model():
    return fitted()[0]


@pytest.fixture(scope="module")
def classifier():
    return fitted_classes()[0]


def points(ax):
    return np.asarray(ax.collections[0].get_offsets())


def bars(ax):
    """Width of each bar by its label."""
    labels = [label.get_text() for label in ax.get_yticklabels()]
    widths = [bar.get_width() for bar in ax.patches]  # then those of neighbours, drawn over them
    return dict(zip(labels, widths[: len(labels)], strict=True))


PLOTS = ["losses", "predicted_vs_true", "importances", "candidates", "residual_map", "coverage"]
PLOTS += ["coverage_by_group", "uncertainty_map"]


@pytest.mark.parametrize("name", PLOTS)
def test_every_plot_draws_into_the_axes_that_are_passed(model, name):
    _, ax = plt.subplots()
    assert getattr(eb.plot, name)(model, ax=ax) is ax
    assert ax.has_data()
    assert getattr(eb.plot, name)(model) is not ax


def test_losses_are_those_of_the_fit(model):
    lines = {line.get_label(): line for line in eb.plot.losses(model).get_lines()}
    assert lines["training"].get_ydata().tolist() == model.history_["training"]
    assert lines["validation"].get_ydata().tolist() == model.history_["validation"]
    assert lines["rounds used"].get_xdata()[0] == model.rounds_[0]


def test_losses_that_fall_far_have_a_logarithmic_axis():
    X, _, _ = homophilous(200)
    ax = eb.plot.losses(eb.EBBSRegressor(60, **QUICK).fit(X, X[:, 0]))
    assert ax.get_yscale() == "log"
    ax.figure.canvas.draw()
    assert not any("$" in label.get_text() for label in ax.get_yticklabels())


def test_predictions_are_drawn_against_labels(model):
    held_out = diagnostics.validation(model.state_)
    expected = np.column_stack([held_out.prediction, held_out.truth])
    drawn = points(eb.plot.predicted_vs_true(model))
    assert np.sort(drawn, axis=0) == pytest.approx(np.sort(expected, axis=0))


def test_the_confusion_matrix_has_a_row_for_each_class(classifier):
    ax = eb.plot.predicted_vs_true(classifier)
    share = np.asarray(ax.collections[0].get_array())
    assert share.shape == (3, 3)
    assert share.sum(axis=1) == pytest.approx(100)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["low", "mid", "top"]
    held_out = diagnostics.validation(classifier.state_)
    low = held_out.prediction[held_out.truth == 0]
    assert share[0, 0] == pytest.approx(100 * (low == 0).mean())


def test_importances_are_those_of_the_model(model):
    drawn = bars(eb.plot.importances(model, most=2))
    assert list(drawn.items()) == [
        (name, pytest.approx(share)) for name, share in diagnostics.importances(model)[:2]
    ]


def test_candidates_show_their_losses_and_the_selected_one_in_the_first_color(model):
    ax = eb.plot.candidates(model)
    drawn = bars(ax)
    assert list(drawn.values()) == pytest.approx(model.selection_["loss"])
    errors = ax.collections[0].get_segments()
    lengths = [(high[0] - low[0]) / 2 for low, high in errors]
    assert lengths == pytest.approx(model.selection_["standard_error"])
    colors = {matplotlib.colors.to_hex(bar.get_facecolor()) for bar in ax.patches}
    assert colors == {"#0b6e75", "#c4c9cc"}
    plain = model.selection_["candidate"].index("none")
    assert drawn["without the graph"] == pytest.approx(model.selection_["loss"][plain])
    with pytest.raises(ValueError, match="no model selection"):
        eb.plot.candidates(fitted(smoothing=None, labels="none")[0])


@pytest.mark.parametrize("classes", [False, True])
def test_residuals_are_colors_on_a_map_of_all_nodes(model, classifier, classes):
    shown = classifier if classes else model
    ax = eb.plot.residual_map(shown)
    held_out = diagnostics.validation(shown.state_)
    everything, residuals = ax.collections
    assert len(everything.get_offsets()) == 600
    assert np.asarray(residuals.get_array()) == pytest.approx(held_out.residual)
    assert residuals.get_clim()[0] == (0 if classes else -residuals.get_clim()[1])


def test_a_map_uses_coordinates_of_the_table():
    X, y, graph = homophilous(200)
    frame = pd.DataFrame(X, columns=["a", "lon", "lat"])
    shown = eb.EBBSRegressor(5, **QUICK).fit(frame, y, graph=graph)
    assert points(eb.plot.residual_map(shown)) == pytest.approx(
        diagnostics.coordinates(shown.state_.table)[0]
    )


def test_coverage_and_calibration_draw_their_points(model, classifier):
    observed = diagnostics.coverage(model.state_)
    line = eb.plot.coverage(model).get_lines()[1]
    assert line.get_xdata().tolist() == list(observed.levels)
    assert line.get_ydata() == pytest.approx(observed.share)
    stated, accuracy, _ = diagnostics.calibration(diagnostics.validation(classifier.state_))
    line = eb.plot.calibration(classifier).get_lines()[1]
    assert line.get_xdata() == pytest.approx(stated)
    assert line.get_ydata() == pytest.approx(accuracy)


def test_uncertainty_is_the_deviation_of_labels_or_the_chance_of_another_class(model, classifier):
    colors = [
        eb.plot.uncertainty_map(one).collections[1].get_array() for one in (model, classifier)
    ]
    np.testing.assert_allclose(colors[0] ** 2, model.uncertainty()["variance"])
    np.testing.assert_allclose(colors[1], 1.0 - classifier.predict_proba().max(axis=1))


def test_coverage_of_groups_is_drawn_with_its_range_by_chance(model):
    ax = eb.plot.coverage_by_group(model)
    share = ax.get_lines()[0].get_xdata()
    covered = diagnostics.coverage(model.state_).covered
    assert share[0] == covered.mean()
    low, high = diagnostics.share_range(0.9, covered.size)
    assert ax.patches[0].get_x() == low
    assert ax.patches[0].get_width() == pytest.approx(high - low)
    names = [label.get_text() for label in ax.get_yticklabels()]
    assert "3 or more labelled neighbours" in names


def test_an_explanation_is_drawn_part_by_part(model):
    explained = model.explanations([5])[0]
    ax = eb.plot.explanation(explained, most=4)
    assert len(ax.patches) == 5
    drawn = sum(bar.get_width() for bar in ax.patches)
    assert drawn == pytest.approx(explained.score - explained.base)
    with pytest.raises(TypeError, match="one Explanation"):
        eb.plot.explanation(model.explanations([5]))


def test_names_are_not_parsed_as_formulas():
    X, y, graph = homophilous(100)
    frame = pd.DataFrame(X, columns=["$^{", "a\n b", "x" * 100])
    ax = eb.plot.importances(eb.EBBSRegressor(5, **QUICK).fit(frame, y, graph=graph))
    ax.figure.canvas.draw()
    assert set(bars(ax)) == {"$^{", "a b", "x" * 32 + "…"}


def test_plots_of_the_wrong_kind_of_model_raise_with_a_remedy(model, classifier):
    with pytest.raises(ValueError, match=r"plot\.calibration"):
        eb.plot.coverage(classifier)
    with pytest.raises(ValueError, match=r"plot\.coverage"):
        eb.plot.calibration(model)
    with pytest.raises(NotFittedError):
        eb.plot.losses(eb.EBBSRegressor())
    with pytest.raises(ValueError, match="eval_set"):
        eb.plot.predicted_vs_true(fitted(early_stopping=False)[0])
    X, y, _ = homophilous(100)
    with pytest.raises(ValueError, match="X="):
        eb.plot.residual_map(eb.EBBSRegressor(5, **QUICK).fit(X, y))


def test_matplotlib_is_imported_by_plots_alone_and_named_where_it_is_missing():
    code = """
import sys
import numpy as np
import ebboost as eb
assert 'matplotlib' not in sys.modules
sys.modules['matplotlib'] = None
X = np.arange(60.0)[:, None]
m = eb.EBBSRegressor(2, random_state=0, n_folds=1).fit(X, X[:, 0])
for draw in (eb.plot.losses, lambda model: eb.write_report(model, 'r.html')):
    try:
        draw(m)
    except ImportError as error:
        print(error)
"""
    shown = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert shown.stdout.count("pip install matplotlib") == 2
