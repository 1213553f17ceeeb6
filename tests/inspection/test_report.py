"""The report: one valid page that loads nothing, with the facts of the model; and the plots."""

import re
from html.parser import HTMLParser

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import ebboost as eb
from ebboost.inspection import diagnostics
from ebboost.inspection.graph_check import verdict
from tests.inspection.conftest import CHEAP, IDS, KNOWN, LABELS, TABLE, N

VOID = {"meta", "link", "br", "hr", "img", "input", "col"}


class Page(HTMLParser):
    """Reads a page: its text, its tables, what it links to; tags must be closed in their order."""

    def __init__(self, text):
        super().__init__()
        self.open, self.words, self.links, self.tags, self.ids = [], [], [], set(), []
        self.rows = []
        self.feed(text)
        self.close()
        self.text = " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        values = dict(attributes)
        self.links += [values[name] for name in ("src", "href", "data", "action") if name in values]
        self.ids += [values["id"]] if "id" in values else []
        self.rows += [[]] if tag == "tr" else []
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        if not {"style", "title"} & set(self.open):
            self.words.append(data)
        if self.open and self.open[-1] in ("td", "th"):
            self.rows[-1].append(data)


def write(model, tmp_path, **options):
    path = tmp_path / "report.html"
    eb.write_report(model, path, **options)
    text = path.read_text(encoding="utf-8")
    page = Page(text)
    assert not page.open and text.startswith("<!DOCTYPE html>")
    assert len(page.ids) == len(set(page.ids))
    inside = all(link.startswith(("#", "data:image/png;base64,")) for link in page.links)
    assert inside and "url(http" not in text and "@import" not in text
    assert not page.tags & {"script", "iframe", "object", "embed", "b"}
    shown = page.text.partition("Parameters that differ")[0]
    assert not re.search(r"\$\w|\bNone\b|\bnan\b", shown)
    return page


@pytest.mark.parametrize("name", ["numbers", "classes", "pairs", "counts", "plain"])
def test_a_report_is_a_valid_page_that_loads_nothing(name, request, tmp_path):
    model = request.getfixturevalue(name)
    page = write(model, tmp_path, title="Prices <2024> & more")
    assert "Prices <2024> & more" in page.text
    held = diagnostics.held_out(model.model_)
    assert f"{held.rows.size} labels" in page.text and f"{N} rows" in page.text
    summary = " ".join(model.summary().split())
    assert summary in page.text
    if name != "plain":
        assert "<b>bold</b>" in page.text and "<n" in page.text  # names as they are
        gain = model.gain_
        assert f"{gain.metric} {gain.without:#.4g}".rstrip(".") in page.text


def test_a_report_says_the_facts(numbers, tmp_path):
    page = write(numbers, tmp_path, nodes=[5])
    held, model = diagnostics.held_out(numbers.model_), numbers.model_
    assert f"R² {held.metrics['r2']:.3f}" in page.text
    assert f"{model.graph.n_edges:,} edges" in page.text and verdict(model.gain, True) in page.text
    assert f"{(~KNOWN).sum()} of {N} rows have no label" in page.text
    rows = {row[0]: row[1:] for row in page.rows if row}
    assert rows["This model"][0] == f"{held.metrics['rmse']:#.3g}"
    constant = np.sqrt(np.mean((held.truth - LABELS[KNOWN].mean()) ** 2))
    assert rows["The mean of the labels"][0] == f"{constant:#.3g}"
    for row in numbers.selection_.to_dict("records"):
        assert rows[row["member"]][0] == f"{row['weight']:.3f}"
    assert f"Your rows {IDS[5]}: predicted" in page.text


def test_explained_rows_add_up_to_the_prediction(numbers, tmp_path):
    page = write(numbers, tmp_path, nodes=[5, 17])
    totals, total = [], 0.0
    for name, *cells in page.rows:
        if name == "Sum of contributions":
            total = 0.0
        elif name == "Score":
            assert total == pytest.approx(float(cells[0]), abs=1e-9)
            totals.append(total)
        elif cells and re.fullmatch(r"[+-][\d.,]+", cells[0]):
            total += float(cells[0])
    np.testing.assert_allclose(totals[:2], numbers.predict(nodes=[5, 17]), rtol=0.01)
    assert len(totals) > 10


def test_a_model_without_its_table_is_reported_with_it(numbers, tmp_path):
    numbers.save(tmp_path / "m.ebb", table=False)
    loaded = eb.load(tmp_path / "m.ebb")
    assert "The table is not in this model" in write(loaded, tmp_path).text
    page = write(loaded, tmp_path, X=TABLE)
    assert "not in this model" not in page.text and "Own columns" in page.text
    with pytest.raises(ValueError, match="pass the table fitted on"):
        write(loaded, tmp_path, X=TABLE[:9])


def test_odd_models_are_reported(tmp_path):
    few = eb.EBBSRegressor(5, early_stopping=False, random_state=0)
    page = write(few.fit(TABLE[["two"]], LABELS), tmp_path)
    assert "Every label was trained on" in page.text
    sparse = eb.EBBSRegressor(**CHEAP).fit(np.eye(N), LABELS)
    sparse.report(tmp_path / "own.html", title="Mine")
    assert "<h1>Mine</h1>" in (tmp_path / "own.html").read_text(encoding="utf-8")
    with pytest.raises(IsADirectoryError, match="name a file"):
        eb.write_report(few, tmp_path)


# ---------------------------------------------------------------------- plots

NAMES = ["coverage_by_group", "importances", "losses", "map", "predicted_vs_true"]


@pytest.mark.parametrize("kind", ["numbers", "counts", "classes"])
def test_every_plot_draws_into_axes_and_returns_them(kind, request):
    model = request.getfixturevalue(kind)
    for name in (*NAMES, "calibration" if kind == "classes" else "coverage"):
        axes = Figure().subplots()
        assert model.plot(name, axes) is axes and axes.has_data(), name
        assert name == "map" or axes.get_xlabel()


def test_plots_draw_the_numbers_of_the_model(numbers, classes):
    held = diagnostics.held_out(numbers.model_)
    drawn = eb.plot.predicted_vs_true(numbers, Figure().subplots()).collections[0].get_offsets()
    assert {tuple(row) for row in drawn} == set(zip(held.prediction, held.truth, strict=True))
    lines = eb.plot.losses(numbers, Figure().subplots()).get_lines()
    validation = np.sqrt(2 * np.array(numbers.history_["validation"]))
    np.testing.assert_allclose(lines[1].get_ydata(), validation)
    bars = eb.plot.importances(numbers, Figure().subplots(), most=3)
    names = [one.name for one in diagnostics.importances(numbers.model_)[:3]]
    assert [label.get_text() for label in bars.get_yticklabels()] == names
    table = eb.plot.predicted_vs_true(classes, Figure().subplots())
    assert [label.get_text() for label in table.get_yticklabels()] == ["<low>", "high", "mid"]


@pytest.mark.parametrize("kind", ["numbers", "classes", "pairs"])
def test_maps_draw_predictions_residuals_and_uncertainty(kind, request):
    model = request.getfixturevalue(kind)
    held = diagnostics.held_out(model.model_)
    values = {
        name: eb.plot.map(model, Figure().subplots(), values=name).collections[1].get_array()
        for name in ("prediction", "residual", "uncertainty")
    }
    np.testing.assert_allclose(values["residual"], held.residual)
    if kind == "numbers":
        np.testing.assert_allclose(values["prediction"], model.predict())
        np.testing.assert_allclose(values["uncertainty"], model.predict_distribution().std())
    else:
        stated = model.predict_proba()
        np.testing.assert_allclose(values["uncertainty"], 1 - stated.max(axis=1))
        assert any(np.allclose(values["prediction"], column) for column in stated.T)


def test_areas_are_drawn_as_such(plain):
    geopandas = pytest.importorskip("geopandas")
    squares = geopandas.GeoSeries.from_xy(*np.random.default_rng(0).random((2, N))).buffer(0.02)
    X = geopandas.GeoDataFrame(TABLE[["two", "kind"]].reset_index(drop=True), geometry=squares)
    axes = eb.plot.map(plain, Figure().subplots(), X=X)
    assert len(axes.collections[-1].get_paths()) == N
    with pytest.raises(ValueError, match="nothing to draw on a map"):
        eb.plot.map(plain, axes)
    with pytest.raises(ValueError, match="'residual', 'uncertainty' or 'distance'"):
        eb.plot.map(plain, axes, values="mean", X=X)
    with pytest.raises(ValueError, match="name must be one of"):
        plain.plot("maps")


def test_an_explanation_is_drawn_and_shown(numbers):
    one = numbers.explanations([5])[0]
    axes = eb.plot.explanation(one, Figure().subplots(), most=4)
    assert isinstance(axes, Axes) and len(axes.patches) == 5
    total = sum(bar.get_width() for bar in axes.patches)
    assert one.base + total == pytest.approx(numbers.predict(nodes=[5])[0])
    assert repr(one) == str(one) and len(repr(one)) < 2000
    assert "<b>" in str(one) and "<b>" not in one._repr_html_()


def test_tables_of_a_model_have_the_index_of_its_rows(numbers, classes):
    frame = numbers.predict(interval=0.9).to_frame()
    assert frame.index.tolist() == IDS.tolist() and list(frame) == ["prediction", "lower", "upper"]
    some = numbers.predict(nodes=[7, 3], interval=0.9)
    assert some.to_frame().equals(frame.loc[["<n7>", "<n3>"]])
    assert "&lt;n7&gt;" in some._repr_html_()
    sets = classes.predict(interval=0.9).to_frame()
    assert list(sets) == ["prediction", *classes.classes_]
    new = TABLE[:3].set_axis(["p", "q", "r"])
    ends = (range(3), range(3))
    assert numbers.predict(new, attach=ends, interval=0.9).to_frame().index.tolist() == list("pqr")
    table = numbers.explain([5, 9])
    sums = table.groupby("node")["contribution"].sum()
    np.testing.assert_allclose(sums, numbers.predict(nodes=[5, 9]))


def test_groups_without_edges_are_called_groups(tmp_path):
    random = np.random.default_rng(0)
    X, groups = random.normal(size=(120, 2)), np.repeat(np.arange(12), 10)
    y = X[:, 0] + random.normal(size=12)[groups]
    model = eb.EBBSRegressor(**CHEAP).fit(X, y, groups=groups)
    text = write(model, tmp_path).text
    assert "from 2 columns and 12 groups without edges." in text and "0 edges" not in text
