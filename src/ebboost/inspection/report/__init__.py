"""One HTML file about a fitted model: what it learned, how well, and why for single nodes; it fetches nothing."""

import base64
import hashlib
import json
import os
from html import escape
from importlib import resources
from string import Template
from typing import Any

import numpy as np

from ebboost.inspection import diagnostics as diagnosis
from ebboost.inspection.report import _nodes, _sections
from ebboost.inspection.report._context import Known
from ebboost.inspection.report._warnings import warnings

__all__ = ["write_report"]


def write_report(
    model: Any, path: str | os.PathLike[str], *, X: Any = None, title: str | None = None
) -> None:
    """Write a report about a fitted model: one HTML file for a browser, with nothing to install and nothing to fetch.

    Parameters
    ----------
    model : EBBSRegressor or EBBSClassifier
        Fitted, or loaded from a file. A file written by ``model.save(path, table=True)`` has all that the report needs.
    path : path
        The file to write.
    X : table, optional
        The table fitted on, for a model that was loaded without it. Where neither is at hand, the panels that need it
        say so.
    title : str, optional
        The heading.

    Examples
    --------
    >>> import ebboost as eb, numpy as np, pathlib, tempfile
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> m = eb.EBBSRegressor(20, random_state=0).fit(X, X[:, 0], graph=eb.Graph.build_knn(X, k=4))
    >>> path = pathlib.Path(tempfile.mkdtemp(), "report.html")
    >>> eb.write_report(m, path, title="First steps")
    >>> path.read_text(encoding="utf-8")[:15]
    '<!DOCTYPE html>'
    """
    path = os.fspath(path)
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder):
        raise FileNotFoundError(f"{path} cannot be written: there is no folder {folder}.")
    page = _page(model, X, title or f"{type(model).__name__}: what it learned")
    with open(path, "w", encoding="utf-8", errors="backslashreplace", newline="\n") as file:
        file.write(page)


def _page(model: Any, X: Any, title: str) -> str:
    table = diagnosis.fitted_table(model, X)
    held, plain = diagnosis.held_out(model), None
    if held is not None and table is not None and diagnosis.uses_graph(model):
        plain = diagnosis.without_graph(model, table)
    known = Known(
        model,
        table,
        held,
        plain,
        {} if held is None else diagnosis.quality(held),
        {} if plain is None else diagnosis.quality(plain),
    )
    groups = _nodes.chosen(model, held, plain)
    inspected = _nodes.explanations(model, table, X, groups)
    always = np.asarray([node for nodes in groups.values() for node in nodes], dtype=np.int64)
    mapped = _nodes.node_map(model, table, held, plain, always)
    script = _file("page.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    from ebboost import __version__

    return Template(_file("page.html")).substitute(
        title=escape(title),
        policy=f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'",
        style=_file("page.css"),
        script=script,
        data=_embedded({"map": mapped, "inspector": inspected}),
        learned=_sections.learned(known),
        tiles=_sections.tiles(known),
        warnings=warnings(known),
        quality=_sections.quality(known),
        predicted=_sections.predicted_against_true(known),
        losses=_sections.losses(known),
        effect=_sections.graph_effect(known),
        residuals=_sections.residuals_note(known, mapped),
        columns=_sections.columns(known),
        intervals_title="Are the probabilities right?"
        if known.classes
        else "Do intervals hold what they state?",
        intervals=_sections.intervals(known),
        settings=_sections.settings(known),
        version=escape(__version__),
    )


def _file(name: str) -> str:
    return resources.files("ebboost.inspection.report").joinpath(name).read_text(encoding="utf-8")


def _embedded(data: Any) -> str:
    """JSON that cannot end the element it stands in, whatever text it holds."""
    text = json.dumps(data, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
