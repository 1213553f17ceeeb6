import subprocess
import sys

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

import ebboost as eb
from tests.inspection.test_diagnostics import fitted, fitted_classes
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


ALL = ["losses", "predicted_vs_true", "importances", "residual_map", "coverage"]


@pytest.mark.parametrize("name", ALL)
def test_every_plot_draws_into_the_axes_given(model, name):
    _, ax = plt.subplots()
    assert getattr(eb.plot, name)(model, ax=ax) is ax
    assert getattr(eb.plot, name)(model) is not ax
    ax.figure.canvas.draw()


@pytest.mark.parametrize(
    "name", ["losses", "predicted_vs_true", "importances", "residual_map", "calibration"]
)
def test_every_plot_takes_a_classifier(classifier, name):
    getattr(eb.plot, name)(classifier).figure.canvas.draw()


def test_losses_are_those_of_the_fit(model):
    lines = {line.get_label(): line for line in eb.plot.losses(model).get_lines()}
    assert lines["training"].get_ydata().tolist() == model.history_["training"]
    assert lines["held out"].get_ydata().tolist() == model.history_["validation"]
    assert lines["kept"].get_xdata()[0] == model.n_iter_


def test_confusion_has_a_row_per_class(classifier):
    share = np.asarray(eb.plot.predicted_vs_true(classifier).images[0].get_array())
    assert share.shape == (3, 3)
    assert share.sum(axis=1) == pytest.approx(100)


def test_an_explanation_is_drawn_part_by_part(model):
    explained = model.explain([5])[0]
    ax = eb.plot.explanation(explained, most=4)
    assert len(ax.patches) == 5
    assert sum(bar.get_width() for bar in ax.patches) == pytest.approx(
        explained.score - explained.base
    )
    with pytest.raises(TypeError, match="one Explanation"):
        eb.plot.explanation(model.explain([5]))


def test_names_are_no_formulas():
    X, y, graph = homophilous(100)
    frame = pd.DataFrame(X, columns=["$^{", "b", "c"])
    m = eb.EBBSRegressor(5, random_state=0, n_jobs=1).fit(frame, y, graph=graph)
    eb.plot.importances(m).figure.canvas.draw()


def test_wrong_kinds_of_models_are_refused_with_a_remedy(model, classifier):
    with pytest.raises(ValueError, match=r"plot\.calibration"):
        eb.plot.coverage(classifier)
    with pytest.raises(ValueError, match="coverage"):
        eb.plot.calibration(model)
    with pytest.raises(ValueError, match="eval_set"):
        eb.plot.predicted_vs_true(fitted(n_labels=30)[0])
    X, y, _ = homophilous(100)
    with pytest.raises(ValueError, match="X="):
        eb.plot.residual_map(eb.EBBSRegressor(5, random_state=0, n_jobs=1).fit(X, y))


def test_matplotlib_is_imported_only_when_drawing():
    code = "import sys, ebboost; assert 'matplotlib' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
