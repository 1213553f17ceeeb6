import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import matplotlib.style
import networkx as nx
import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge

import ebboost as eb
from ebboost.inspection.report import _html, _nodes, write_report
from tests.browser import COMMAND, Browser
from tests.inspection.models import fitted, fitted_classes
from tests.problems import homophilous

PANELS = [
    "overview",
    "warnings",
    "quality",
    "predicted",
    "graph",
    "map",
    "inspector",
    "columns",
    "to-predict",
    "uncertainty",
    "settings",
]
EVIL = (
    "</script><img src=x onerror=\"document.title='owned'\">"
    "<script>document.title='owned'</script>$title${x}'\"&"
)


class Page(HTMLParser):
    """Elements in the order they open, with their text."""

    def __init__(self, text):
        super().__init__()
        self.opened, self.text = [], []
        self._void = {"meta", "br", "img", "input"}
        self.depth = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.opened.append((tag, dict(attributes)))
        if tag not in self._void:
            self.depth.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.opened.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.depth.pop() == tag, "tags nest"

    def handle_data(self, data):
        self.text.append(data)


def report(model, folder, **options):
    path = folder / "report.html"
    write_report(model, path, **options)
    text = path.read_text(encoding="utf-8")
    data = json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1])
    return text, Page(text), data


def awkward():
    """Names that are long, empty or no text at all."""
    X, y, _ = homophilous(100)
    ids = ["\ud800", "", "a\x00b", "x" * 5000, "مرحبا", *map(str, range(95))]
    frame = pd.DataFrame(X, columns=["y" * 5000, "", "x\n\ty"])
    model = eb.EBBSRegressor(5, labels="field", smoothing=eb.Laplacian(), random_state=0, n_jobs=1)
    return model.fit(frame, y, graph=eb.Graph.from_networkx(nx.path_graph(ids), nodes=ids))


def hostile():
    """A regressor whose every name tries to break out of the page."""
    X, y, _ = homophilous(200)
    ids = [f"{EVIL}{i}" for i in range(200)]
    ends = np.arange(199)
    edges = pd.DataFrame({"a": [ids[i] for i in ends], "b": [ids[i + 1] for i in ends]})
    graph = eb.Graph.from_dataframe(edges, nodes=ids)
    frame = pd.DataFrame(X, columns=[EVIL, "x</style>", "b"]).assign(
        kind=np.where(X[:, 0] > 0, EVIL, "<b>")
    )
    kinds = np.where(y > 0, EVIL, "<i>&amp;")
    model = eb.EBBSClassifier(
        10, labels="field", smoothing=eb.Laplacian(), random_state=0, n_jobs=1
    )
    return model.fit(frame, kinds, graph=graph)


CASES = {
    "numbers": lambda: fitted()[0],
    "classes": lambda: fitted_classes()[0],
    "two classes": lambda: fitted_classes(2)[0],
    "no graph": lambda: eb.EBBSRegressor(10, random_state=0, n_jobs=1).fit(*homophilous(200)[:2]),
    "few labels": lambda: fitted(n_labels=30)[0],
    "very few labels": lambda: fitted(n_labels=5)[0],
    "no stopping": lambda: fitted(early_stopping=False)[0],
    "counts": lambda: eb.EBBSRegressor(10, loss="poisson", random_state=0, n_jobs=1).fit(
        homophilous(200)[0], np.floor(np.exp(homophilous(200)[1])), graph=homophilous(200)[2]
    ),
    "linear": lambda: fitted(
        learner=eb.ScikitLearn(Ridge()), smoothing=eb.Laplacian(), labels="none"
    )[0],
    "masked": lambda: fitted(labels="masked", smoothing=eb.Laplacian())[0],
    "no edges": lambda: eb.EBBSRegressor(10, random_state=0, n_jobs=1).fit(
        *homophilous(100)[:2], graph=eb.Graph.from_edges([], [], n_nodes=100)
    ),
    "relations": lambda: eb.EBBSRegressor(10, labels="field", random_state=0, n_jobs=1).fit(
        *homophilous(200)[:2],
        graph={"near": homophilous(200)[2], "other": eb.Graph.from_edges([0], [1], n_nodes=200)},
    ),
    "one value": lambda: eb.EBBSRegressor(5, labels="field", random_state=0, n_jobs=1).fit(
        homophilous(100)[0], np.ones(100), graph=homophilous(100)[2]
    ),
    "hostile": hostile,
    "awkward": awkward,
}


@pytest.mark.parametrize("name", CASES)
def test_every_panel_is_there_and_tags_nest(name, tmp_path):
    text, page, _ = report(CASES[name](), tmp_path)
    assert not page.depth
    ids = [attributes["id"] for tag, attributes in page.opened if "id" in attributes]
    assert [i for i in ids if i in PANELS] == PANELS
    assert len(ids) == len(set(ids))
    assert "nan" not in re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL).lower().split()
    for tag, attributes in page.opened:  # nothing is fetched
        assert "src" not in attributes
        assert attributes.get("href", "#").startswith("#")
        assert not any(key.startswith("on") for key in attributes)
        assert tag not in ("link", "iframe", "object", "img")


def test_names_cannot_become_markup(tmp_path):
    text, page, data = report(hostile(), tmp_path, title=EVIL)
    assert sum(tag == "script" for tag, _ in page.opened) == 2
    assert not any(tag in ("img", "i") for tag, _ in page.opened)
    assert "<img" not in text
    assert EVIL in "".join(page.text)  # it is shown, as text
    assert any(EVIL in entry["name"] for _, nodes in data["inspector"]["groups"] for entry in nodes)


def test_sums_in_the_inspector_add_up(tmp_path):
    model, _, _ = fitted(labels="field", smoothing=eb.Laplacian(1.0, 2))
    _, _, data = report(model, tmp_path)
    entries = [entry for _, nodes in data["inspector"]["groups"] for entry in nodes]
    assert len({entry["node"] for entry in entries}) == len(entries) > 50
    for entry in entries:
        total = entry["base"] + sum(entry["totals"]) + entry["own_label"]
        assert total == pytest.approx(entry["score"], abs=1e-3)
        shown = sum(value for _, value, _ in entry["own"][0]) + entry["own"][2]
        assert shown == pytest.approx(entry["totals"][0], abs=1e-3)


def test_held_out_nodes_are_explained_without_their_own_label(tmp_path):
    model, _, _ = fitted(labels="field", n_folds=1)
    held = dict(
        zip(
            model.validation_nodes_.tolist(),
            model.validation_prediction_[:, 0].tolist(),
            strict=True,
        )
    )
    _, _, data = report(model, tmp_path)
    entries = [
        entry
        for _, nodes in data["inspector"]["groups"]
        for entry in nodes
        if entry["node"] in held
    ]
    assert entries
    for entry in entries:
        assert entry["role"] == _nodes.VALIDATION
        assert entry["own_label"] == 0
        assert entry["score"] == pytest.approx(held[entry["node"]], rel=1e-3, abs=1e-4)


def test_labelled_nodes_of_several_models_have_out_of_fold_residuals(tmp_path):
    model, _, y = fitted()
    residual = y[model.validation_nodes_] - model.validation_prediction_[:, 0]
    expected = dict(zip(model.validation_nodes_.tolist(), residual, strict=True))
    _, _, data = report(model, tmp_path)
    entries = [entry for _, nodes in data["inspector"]["groups"] for entry in nodes]
    labelled = [entry for entry in entries if entry["node"] in expected]
    assert labelled
    for entry in labelled:
        assert entry["role"] == _nodes.LABELLED
        assert float(entry["error"]) == pytest.approx(expected[entry["node"]], rel=0.01, abs=1e-3)


def test_the_effect_of_the_graph_is_measured_where_both_were_compared(tmp_path):
    model, _, _ = fitted()
    record = model.state_.validation
    partly = record.without_graph.copy()
    partly[100:] = np.nan
    state = replace(model.state_, validation=replace(record, without_graph=partly))
    text, _, _ = report(type(model).from_state(state), tmp_path)
    assert "of 100 held-out labels" in text
    assert "Plain boosting without the graph, on 100 labels" in text


def test_a_graph_that_is_not_used_is_stated_in_the_second_sentence(tmp_path):
    X, _, _ = homophilous(200)
    random = eb.Graph.build_knn(np.random.default_rng(5).random((200, 2)), k=3)
    model = eb.EBBSRegressor(5, smoothing=None, random_state=0, n_jobs=1, n_folds=2)
    model.fit(X, X[:, 0], graph=random)
    assert model.best_candidate_ == "none"
    text, _, _ = report(model, tmp_path)
    assert "columns. It does not use its graph: plain boosting is as good." in text


def test_a_graph_that_does_harm_is_stated_first(tmp_path):
    random = np.random.default_rng(0)
    X = random.normal(size=(300, 2))
    graph = eb.Graph.from_edges(*random.integers(0, 300, (2, 900)), n_nodes=300)
    parts = {"smoothing": eb.Laplacian(20.0), "labels": eb.LatentField(50.0, 0.01)}
    model = eb.EBBSRegressor(20, n_folds=2, random_state=0, n_jobs=1, **parts)
    text, _, _ = report(model.fit(X, X[:, 0], graph=graph), tmp_path)
    harm = "The graph does harm: the mean squared error at held-out labels is "
    assert f'<p class="lead">{harm}' in text
    assert text.index('<ul class="warnings">') < text.index(f"<strong>{harm}")


def test_the_effect_of_the_graph_on_counts_is_that_on_their_deviance(tmp_path):
    X, y, graph = homophilous(300)
    counts = np.floor(np.exp(y))
    counts[0] = 10_000.0  # decides the squared error
    parts = {"smoothing": None, "labels": eb.LatentField(5.0, 0.1)}
    model = eb.EBBSRegressor(20, loss="poisson", n_folds=2, random_state=0, n_jobs=1, **parts)
    text, _, _ = report(model.fit(X, counts, graph=graph), tmp_path)
    assert "The mean deviance by group" in text


def test_nodes_of_the_user_are_explained_first_and_sums_contain_the_exposure(tmp_path):
    X, y, graph = homophilous(200)
    model = eb.EBBSRegressor(10, loss="poisson", random_state=0, n_jobs=1, n_folds=2)
    exposure = np.linspace(1.0, 3.0, 200)
    model.fit(X, np.floor(np.exp(y)), graph=graph, exposure=exposure)
    _, _, data = report(model, tmp_path, nodes=[7, 3])
    name, entries = data["inspector"]["groups"][0]
    assert name == "Your nodes"
    assert [entry["node"] for entry in entries] == [7, 3]
    for entry in entries:
        assert entry["offset"] == pytest.approx(np.log(exposure[entry["node"]]))
        parts = entry["base"] + entry["offset"] + sum(entry["totals"]) + entry["own_label"]
        assert parts == pytest.approx(entry["score"], abs=1e-6)


def test_rows_to_predict_are_counted_and_the_least_sure_are_named(tmp_path):
    X, y, graph = homophilous(300)
    nodes = np.arange(250)
    model = eb.EBBSRegressor(10, labels="field", random_state=0, n_jobs=1, n_folds=2)
    text, _, _ = report(model.fit(X, y[nodes], nodes=nodes, graph=graph), tmp_path)
    assert "50 of 300 rows have no label." in text
    least = model.uncertainty(np.arange(250, 300)).sort_values("variance").node.iloc[-1]
    assert f'<th scope="row">row {least}</th>' in text
    text, _, _ = report(model.fit(X, y, graph=graph), tmp_path)
    assert "Every node has a label: there are no rows to predict." in text


def test_two_classes_have_precision_and_recall_by_threshold(tmp_path):
    model = fitted_classes(2)[0]
    text, _, _ = report(model, tmp_path)
    record = model.state_.validation
    stated = model.state_.output.apply_link(record.prediction)[:, 1]
    predicted = stated >= 0.3
    truth = record.target[:, 0] == 1
    cells = [f"{predicted.sum():,}"]
    cells += [f"{100 * truth[predicted].mean():.0f}%", f"{100 * predicted[truth].mean():.0f}%"]
    row = re.search(r'<th scope="row">from 0.3</th>(.*?)</tr>', text)[1]
    assert re.findall(r"<td>(.*?)</td>", row) == cells


def test_the_gain_of_the_graph_is_stated(tmp_path):
    text, _, _ = report(fitted()[0], tmp_path)
    assert "the model reduces the mean squared error by" in text
    text, _, _ = report(CASES["no graph"](), tmp_path)
    assert "It was fitted without a graph." in text


def test_panels_that_need_the_table_name_the_remedy(tmp_path):
    model, X, _ = fitted()
    model.save(tmp_path / "m.ebb")
    bare = eb.load(tmp_path / "m.ebb")
    text, _, data = report(bare, tmp_path)
    assert text.count("save") >= 2 and "table=True" in data["inspector"]
    passed, _, _ = report(bare, tmp_path, X=X)
    model.save(tmp_path / "t.ebb", table=True)
    saved, _, _ = report(eb.load(tmp_path / "t.ebb"), tmp_path)
    assert passed == saved == report(model, tmp_path)[0]  # and it is the same report each time


def test_warnings_are_about_the_data(tmp_path):
    X, y, _ = homophilous(300)
    X[:150, 1] = np.nan
    X[:, 2] = 1.0
    graph = eb.Graph.from_edges([0, 200], [1, 201], n_nodes=300)
    model = eb.EBBSRegressor(5, smoothing=eb.Laplacian(), labels="none", random_state=0, n_jobs=1)
    model.fit(
        pd.DataFrame(X, columns=["a", "holes", "flat"]), y[:100], nodes=np.arange(100), graph=graph
    )
    text, _, _ = report(model, tmp_path)
    for expected in (
        "296 of 300 nodes have no edge, 198 of them to predict",
        "2 nodes in components without any label",
        "Only 100 of 300 nodes are labelled",
        "Only 10 held-out labels",
        "holes&#x27; (50%)",
        "Constant or empty: &#x27;flat&#x27;",
    ):
        assert expected in text


def test_a_loss_that_still_falls_is_a_warning_and_one_that_does_not_is_none(tmp_path):
    X = homophilous(300)[0]
    model = eb.EBBSRegressor(5, random_state=0, n_jobs=1, n_folds=2)
    text, _, _ = report(model.fit(X, X[:, 0]), tmp_path)
    assert "The validation loss of 2 of 2 models was least in the last of 5 rounds." in text
    noise = np.random.default_rng(0).normal(size=300)
    text, _, _ = report(model.set_params(n_estimators=40).fit(X, noise), tmp_path)
    assert max(model.state_.rounds) < 40
    assert "The validation loss of" not in text


def test_a_wide_table_with_categories_and_missing_values(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(600, 60))).rename(columns=str)
    frame["3"] = frame["3"].where(rng.random(600) < 0.7)
    frame["kind"] = rng.choice(["brick", "wood"], 600)
    _, y, graph = homophilous(600)
    y = y + 5.0 * (frame["kind"] == "wood")
    model = eb.EBBSRegressor(20, labels="field", random_state=0, n_jobs=1)
    text, _, data = report(model.fit(frame, y, graph=graph), tmp_path)
    assert "kind = brick" in text and "kind = wood" in text
    assert "11 more columns" in text and "Often missing: &#x27;3&#x27;" in text
    entries = [entry for _, nodes in data["inspector"]["groups"] for entry in nodes]
    details = {detail for entry in entries for _, _, detail in entry["own"][0]}
    assert {"brick", "wood"} <= details


def test_dates_are_shown_as_dates_also_by_a_model_from_a_file(tmp_path):
    X, _, graph = homophilous(300)
    frame = pd.DataFrame(X).rename(columns=str)
    frame["sold"] = pd.date_range("2020-01-01", periods=300)
    y = np.sin(np.arange(300) / 30)
    model = eb.EBBSRegressor(20, labels="none", smoothing=None, random_state=0, n_jobs=1)
    model.fit(frame, y, graph=graph).save(tmp_path / "m.ebb", table=True)
    _, _, data = report(eb.load(tmp_path / "m.ebb"), tmp_path)
    entries = [entry for _, nodes in data["inspector"]["groups"] for entry in nodes]
    details = [detail for entry in entries for name, _, detail in entry["own"][0] if name == "sold"]
    assert details and all(re.fullmatch(r"2020-\d\d-\d\d", detail) for detail in details)


def test_a_large_graph_is_sampled(tmp_path, monkeypatch):
    monkeypatch.setattr(_nodes, "MAX_NODES", 200)
    monkeypatch.setattr(_nodes, "MAX_EDGES", 10)
    model = fitted()[0]
    text, _, data = report(model, tmp_path)
    assert data["map"]["n"] == 200
    assert "200 of 600 nodes are shown" in text
    assert data["map"]["edges"] == "" and data["map"]["hidden_edges"] > 10


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="no folder"):
        write_report(fitted()[0], tmp_path / "none" / "r.html")


def test_text_of_a_plot_is_escaped_and_its_numbers_stay(tmp_path):
    def draw(ax):
        ax.set(xlabel="<b>#0b6e75 1.23456</b>", ylabel="font-family: x; $y$")
        ax.plot([0, 1], [0, 1], color="#0b6e75")

    svg = _html.plot(draw, 'a "label" <i>')
    page = Page(svg)
    assert not page.depth and "b" not in {tag for tag, _ in page.opened}
    assert "<b>#0b6e75 1.23456</b>" in page.text and "font-family: x; $y$" in page.text
    assert dict(page.opened[0][1])["aria-label"] == 'a "label" <i>'
    assert "stroke: var(--first)" in svg and "#0b6e75;" not in svg


def test_plots_do_not_depend_on_the_style_of_the_session():
    def draw(ax):
        ax.plot([0, 1], [0, 1])

    plain = _html.plot(draw, "a line")
    with matplotlib.style.context("dark_background"):
        assert _html.plot(draw, "a line") == plain


def test_templates_escape_everything_but_markup():
    text = _html.render("finding.html", problem="<b>", advice=_html.Html("<i>x</i>"))
    assert "&lt;b&gt;" in text and "<i>x</i>" in text


# ---------------------------------------------------------------------- in a browser

PAINTED = """(() => {
  const canvas = document.getElementById('canvas');
  const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
  return pixels.filter((value, i) => i % 4 === 3 && value > 0).length;
})()"""
# The least contrast of text with its card, as WCAG defines it; it asks for 4.5.
CONTRAST = """(() => {
  const linear = (v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  const shine = (colour) => {
    const [r, g, b] = colour.match(/[0-9.]+/g).map((v) => linear(v / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const card = shine(getComputedStyle(document.querySelector('section')).backgroundColor);
  const selector = 'section p, section th, section td, section summary, dt, dd';
  const texts = [...document.querySelectorAll(selector)];
  return Math.min(...texts.map((e) => {
    const ink = shine(getComputedStyle(e).color);
    return (Math.max(ink, card) + 0.05) / (Math.min(ink, card) + 0.05);
  }));
})()"""
needs_browser = pytest.mark.skipif(COMMAND is None, reason="chromium is not installed")


@pytest.fixture(scope="module")
def browser():
    with Browser() as page:
        yield page


@pytest.fixture(autouse=True)
def _no_errors(request):
    yield
    if "browser" in request.fixturenames:
        errors = request.getfixturevalue("browser").errors
        messages = errors.copy()
        errors.clear()
        assert messages == []


@needs_browser
@pytest.mark.parametrize(
    "name", ["numbers", "classes", "few labels", "no graph", "masked", "awkward"]
)
def test_panels_render_at_every_width_without_errors(browser, tmp_path, name):
    write_report(CASES[name](), tmp_path / "r.html")
    for width, dark in ((1280, False), (390, True)):
        browser.open(tmp_path / "r.html", width, dark=dark, phone=width < 500)
        heights = browser.run(
            "[...document.querySelectorAll('main > section')].map((s) => s.offsetHeight)"
        )
        assert len(heights) == len(PANELS) and min(heights) > 40
        assert browser.run("document.documentElement.scrollWidth <= window.innerWidth")
        smallest = browser.run(
            "Math.min(...[...document.querySelectorAll('main *')]"
            ".filter((e) => e.childNodes.length && e.offsetHeight > 2)"
            ".map((e) => parseFloat(getComputedStyle(e).fontSize)))"
        )
        assert smallest >= 11


@needs_browser
def test_hostile_names_do_not_run(browser, tmp_path):
    write_report(hostile(), tmp_path / "r.html")
    browser.open(tmp_path / "r.html")
    assert browser.run("document.title") == "Report on an EBBSClassifier"
    assert browser.run("document.querySelectorAll('img').length") == 0
    assert EVIL in browser.run("document.getElementById('explained').textContent")


@needs_browser
def test_the_inspector_works_by_keyboard(browser, tmp_path):
    write_report(fitted(labels="field")[0], tmp_path / "r.html")
    browser.open(tmp_path / "r.html")
    text = "document.getElementById('status').textContent"
    first = browser.run(text)
    browser.run("document.getElementById('next').focus()")
    browser.press("Enter", "\r")
    second = browser.run(text)
    assert second != first
    browser.run("document.getElementById('node').focus()")
    browser.press("ArrowDown")
    assert browser.run(text) not in (first, second)
    assert browser.run("document.querySelectorAll('#explained table').length") >= 2
    totals = "[...document.querySelectorAll('#explained table')][0].innerText"
    numbers = [float(n) for n in re.findall(r"[-+]?\d+\.\d+", browser.run(totals))]
    assert sum(numbers[:-1]) == pytest.approx(numbers[-1], abs=0.01)


@needs_browser
def test_the_focus_goes_through_the_page_in_order(browser, tmp_path):
    write_report(fitted()[0], tmp_path / "r.html")
    browser.open(tmp_path / "r.html")
    seen = []
    for _ in range(40):
        browser.press("Tab")
        seen.append(
            browser.run(
                "document.activeElement.id || document.activeElement.textContent.slice(0, 20)"
            )
        )
    assert seen[:2] == ["Skip to the report", "theme"]
    wanted = ["canvas", "layer", "zoom-in", "node", "previous", "next"]
    assert [name for name in seen if name in wanted] == wanted
    unnamed = browser.run(
        "[...document.querySelectorAll('button, select, canvas, a, summary')]"
        ".filter((e) => !(e.textContent.trim() || e.getAttribute('aria-label') "
        "|| e.labels?.length)).length"
    )
    assert unnamed == 0


@needs_browser
def test_light_and_dark(browser, tmp_path):
    write_report(fitted()[0], tmp_path / "r.html")
    paper = "getComputedStyle(document.body).backgroundColor"
    browser.open(tmp_path / "r.html", dark=False)
    light = browser.run(paper)
    browser.run("document.getElementById('theme').click()")
    dark = browser.run(paper)
    browser.open(tmp_path / "r.html", dark=True)
    assert browser.run(paper) == dark != light
    for theme in ("dark", "light"):
        browser.run(f"document.documentElement.dataset.theme = '{theme}'")
        assert browser.run(CONTRAST) >= 4.5


@needs_browser
def test_the_map_is_drawn_and_a_click_inspects(browser, tmp_path):
    X, y, graph = homophilous(300)
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(
        lon=np.arange(300.0) % 20, lat=np.arange(300.0) // 20
    )
    write_report(
        eb.EBBSRegressor(20, random_state=0, n_jobs=1).fit(frame, y, graph=graph),
        tmp_path / "r.html",
    )
    browser.open(tmp_path / "r.html")
    assert "columns lon and lat" in browser.run("document.getElementById('map').textContent")
    assert browser.run(PAINTED) > 1000
    layers = browser.run("document.getElementById('layer').options.length")
    for layer in range(layers):
        browser.run(f"document.getElementById('layer').value = {layer}")
        browser.run("document.getElementById('layer').dispatchEvent(new Event('change'))")
        assert browser.run(PAINTED) > 1000
    browser.run("document.getElementById('canvas').scrollIntoView({behavior: 'instant'})")
    before = browser.run("document.getElementById('status').textContent")
    box = browser.run("document.getElementById('canvas').getBoundingClientRect().toJSON()")
    selected = set()
    for share in (0.35, 0.5, 0.65):
        where = {
            "x": box["x"] + share * box["width"],
            "y": box["y"] + share * box["height"],
            "button": "left",
            "clickCount": 1,
        }
        browser.send("Input.dispatchMouseEvent", type="mousePressed", **where)
        browser.send("Input.dispatchMouseEvent", type="mouseReleased", **where)
        selected.add(browser.run("document.getElementById('status').textContent"))
    assert len(selected | {before}) >= 3
    everything = browser.run("document.getElementById('canvas').toDataURL()")
    browser.run("document.getElementById('zoom-node').click()")
    closer = browser.run("document.getElementById('canvas').toDataURL()")
    browser.run("document.getElementById('canvas').focus({preventScroll: true})")
    browser.press("ArrowLeft")
    moved = browser.run("document.getElementById('canvas').toDataURL()")
    browser.run("document.getElementById('zoom-all').click()")
    assert len({everything, closer, moved}) == 3
    assert browser.run("document.getElementById('canvas').toDataURL()") == everything


@needs_browser
def test_25_000_nodes_stay_under_3_megabytes(browser, tmp_path):
    X, y, graph, splits = eb.datasets.load_lucas(coordinates=True)
    train = splits[0]["train"]
    fast = eb.EBBSRegressor.from_preset("fast", n_estimators=8, random_state=0, n_jobs=1)
    model = fast.fit(X, y[train], nodes=train, graph=graph)
    write_report(model, tmp_path / "r.html")
    assert (tmp_path / "r.html").stat().st_size < 3_000_000
    browser.open(tmp_path / "r.html")
    assert browser.run("document.getElementById('canvas').getAttribute('aria-label')").startswith(
        "Map of 25,357 nodes"
    )
