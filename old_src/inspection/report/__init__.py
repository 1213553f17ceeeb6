"""A report on a fitted model: one HTML file that works offline."""

import base64
import hashlib
import json
import os

import numpy as np
from numpy.typing import ArrayLike

from ebboost.data.types import IntArray, TableLike
from ebboost.data.validation import node_positions
from ebboost.inspection.diagnostics import Model
from ebboost.inspection.report import _nodes, _panels, _uncertainty
from ebboost.inspection.report._context import Context
from ebboost.inspection.report._html import Html, missing, render, template

__all__ = ["write_report"]
NO_MAP = (
    "The model has no graph with edges, and its table no columns named like coordinates (x and y, "
    "lon and lat): there is nothing to draw."
)


def write_report(
    model: Model,
    path: str | os.PathLike[str],
    *,
    X: TableLike = None,
    title: str | None = None,
    nodes: ArrayLike | None = None,
) -> None:
    """Write a report on a fitted model: one HTML file for a browser that loads nothing else.

    Parameters
    ----------
    model : EBBSRegressor or EBBSClassifier
        Fitted, or loaded from a file. A file written by ``model.save(path, table=True)`` has all
        that the report needs.
    path : path
        The file to write.
    X : table, optional
        The table fitted on, for a model that was loaded without it. Without a table, the panels
        that need it are empty.
    title : str, optional
        The heading.
    nodes : array-like of int, optional
        Rows to explain besides those that the report chooses.

    Raises
    ------
    FileNotFoundError
        If the folder of ``path`` does not exist.
    ImportError
        If matplotlib is not installed.

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
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise ImportError("Writing a report needs matplotlib: pip install matplotlib.") from None
    context = Context.from_model(model, X)
    of_user = node_positions([] if nodes is None else nodes, context.state.n_nodes, repeats=True)
    page = _page(context, title or f"Report on an {type(model).__name__}", of_user)
    with open(path, "w", encoding="utf-8", errors="backslashreplace", newline="\n") as file:
        file.write(page)


def _page(context: Context, title: str, of_user: IntArray) -> str:
    """The page: every panel, the data of the map and the inspector, the script and its hash."""
    groups = _nodes.nodes_to_explain(context, of_user)
    explained = np.asarray([node for group in groups.values() for node in group], dtype=np.int64)
    node_map = _nodes.node_map(context, explained)
    data = {"map": node_map, "inspector": _nodes.explanations(context, groups)}
    script = template("page.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    script_source = f"script-src 'sha256-{digest}'"
    from ebboost import __version__

    policy = f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; {script_source}"
    map_note = missing(NO_MAP)
    if node_map is not None:
        map_note = _panels.map_note(context, node_map["source"], node_map["n"])
    uncertainty_title = "Coverage of prediction intervals"
    if context.classes is not None:
        uncertainty_title = "Calibration of probabilities, coverage of prediction sets"
    return render(
        "page.html",
        title=title,
        policy=Html(policy),
        style=Html(template("page.css")),
        script=Html(script),
        data=_embedded(data),
        overview=_panels.overview(context),
        warnings=_panels.warnings(context),
        quality=_panels.quality(context),
        predicted=_panels.predicted(context),
        losses=_panels.losses(context),
        effect=_panels.graph_effect(context),
        map_note=map_note,
        columns=_panels.columns(context),
        uncertainty_title=uncertainty_title,
        to_predict=_uncertainty.to_predict(context),
        uncertainty=_uncertainty.uncertainty(context),
        settings=_panels.selection(context),
        version=__version__,
    )


def _embedded(data: object) -> Html:
    """JSON that cannot end the element it stands in, whatever text it holds."""
    text = json.dumps(data, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return Html(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))
