"""``check_graph``: what is in the data, and what the graph is worth, by one fit."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from html import escape
from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from ebboost._common import Array, IntArray, LabelsLike, TableLike
from ebboost.data.labels import one_hot
from ebboost.data.leakage import MIN_ROWS
from ebboost.data.neighbors import Places
from ebboost.estimators import BaseEBBS, EBBSClassifier, EBBSRegressor
from ebboost.fit import read
from ebboost.formatting import count, percent
from ebboost.graph import Graph
from ebboost.graph.ids import is_missing
from ebboost.inspection.audit import graph_findings, table_findings
from ebboost.model import Gain, Model
from ebboost.summary import gain_text, is_harm

TASKS = ("auto", "regression", "classification")
PERMUTATIONS = (19, 199)  # the fewest and the most
MAX_COMPARISONS = 100_000_000  # edges times permutations
CLEAR = 2.0  # standard errors of a gain that is more than chance


@dataclass(frozen=True)
class Autocorrelation:
    """Similarity of the labels of neighbours.

    ``"Moran's I"`` for numbers; for classes ``"edge agreement"``, the share of edges between equal
    ones.
    """

    name: str
    value: float
    expected: float  # the mean under random permutations of the labels
    p_value: float  # share of random permutations with a value at least as large
    n_edges: int  # with a label at both ends


@dataclass(frozen=True, repr=False)
class GraphCheck:
    """Result of :func:`check_graph`: print it, or read its attributes.

    Attributes
    ----------
    task : str
        ``"regression"`` or ``"classification"``.
    n_rows, n_columns, n_labelled : int
        Sizes of the table.
    n_nodes, n_edges : int
        Sizes of the graph.
    n_isolates : int
        Nodes without an edge.
    n_components, largest_component : int
        Connected components, and the number of nodes of the largest.
    median_neighbors, most_neighbors : float, int
        Number of neighbours of a node.
    missing : dict of str to float
        Share of missing values of the columns that have some.
    autocorrelation : Autocorrelation or None
        None without an edge between labelled nodes, or where all labels are equal.
    warnings : list of str
        Problems in the data, each with advice.
    gain : Gain or None
        Errors without and with the graph at labels that were not trained on; None without a fit.
    uses_graph : bool or None
        Whether the fitted model uses the graph.
    model : EBBSRegressor, EBBSClassifier or None
        The fitted model: there is no need to fit again.
    """

    task: str
    n_rows: int
    n_columns: int
    n_labelled: int
    n_nodes: int
    n_edges: int
    n_isolates: int
    n_components: int
    largest_component: int
    median_neighbors: float
    most_neighbors: int
    missing: dict[str, float] = field(default_factory=dict)
    autocorrelation: Autocorrelation | None = None
    warnings: list[str] = field(default_factory=list)
    gain: Gain | None = None
    uses_graph: bool | None = None
    model: Any = None

    @property
    def verdict(self) -> str | None:
        """The conclusion in one sentence; None without a fit."""
        return None if self.gain is None else verdict(self.gain, bool(self.uses_graph))

    def to_dict(self) -> dict[str, Any]:
        """Return all attributes but the model as dictionaries and lists.

        Returns
        -------
        dict
        """
        own = {name: value for name, value in vars(self).items() if name != "model"}
        own["autocorrelation"] = self.autocorrelation and asdict(self.autocorrelation)
        own["gain"] = self.gain and asdict(self.gain) | {"relative": self.gain.relative}
        return own | {"verdict": self.verdict}

    def facts(self) -> list[tuple[str, str]]:
        """Return pairs of a name and a text, as ``print`` shows them.

        Returns
        -------
        list of (str, str)
        """
        to_predict = self.n_rows - self.n_labelled
        gaps = "no missing values"
        if self.missing:
            worst = sorted(self.missing.items(), key=lambda item: -item[1])
            names = ", ".join(f"{name} {percent(share)}" for name, share in worst[:3])
            more = ", …" if len(worst) > 3 else ""
            gaps = f"{len(worst)} with missing values ({names}{more})"
        rows = [
            ("rows", f"{self.n_rows:,}: {self.n_labelled:,} labelled, {to_predict:,} to predict"),
            ("columns", f"{self.n_columns:,}, {gaps}"),
        ]
        if self.n_nodes:
            isolates = "none"
            if self.n_isolates:
                share = percent(self.n_isolates / self.n_nodes)
                isolates = f"{count(self.n_isolates, 'node')} without an edge ({share})"
            components = f"{self.n_components:,}"
            if self.n_components > 1:
                share = percent(self.largest_component / self.n_nodes)
                components += f", the largest with {share} of the nodes"
            neighbors = f"median {self.median_neighbors:g}, most {self.most_neighbors:,}"
            rows.append(("edges", f"{self.n_edges:,}, neighbours: {neighbors}"))
            rows += [("isolates", isolates), ("components", components)]
        rows.append(("task", self.task))
        if self.autocorrelation is not None:
            one = self.autocorrelation
            test = f"p = {one.p_value:.3f}, {count(one.n_edges, 'edge')}"
            rows.append((one.name, f"{one.value:.3f}, expected {one.expected:.3f} ({test})"))
        if self.gain is not None:
            labels = count(self.gain.n_labels, "label")
            rows.append(("measured at", f"{labels}, each predicted by models not trained on it"))
        return rows

    def __str__(self) -> str:
        lines = [] if self.verdict is None else [self.verdict]
        lines += [f"{name:<15}{text}" for name, text in self.facts()]
        return "\n".join([*lines, *(f"! {warning}" for warning in self.warnings)])

    __repr__ = __str__  # notebooks show what print shows

    def _repr_html_(self) -> str:
        return f'<pre style="white-space:pre-wrap">{escape(str(self))}</pre>'


def verdict(gain: Gain, uses_graph: bool) -> str:
    """Return what the graph is worth in one or two sentences."""
    if not uses_graph:
        return "The graph is not used: members without it are as good."
    text = "The graph helps."
    if is_harm(gain):
        text = "The graph does harm: fit without it."
    elif gain.without - gain.with_graph <= CLEAR * gain.standard_error:
        text = "The graph adds little: the difference is within two standard errors."
    return f"{text} {gain_text(gain)}."


def check_graph(
    X: TableLike,
    y: LabelsLike,
    graph: Graph | None = None,
    *,
    estimator: Any = None,
    estimate: bool = True,
    task: str = "auto",
    random_state: Any = 0,
    **fit: Any,
) -> GraphCheck:
    """Check a table, its labels and its graph, and fit once to see what the graph is worth.

    Parameters
    ----------
    X : table of shape (n_rows, n_features)
        Dataframe, array or sparse matrix, one row for each node.
    y : array-like of shape (n_rows,)
        Labels, NaN or None where unknown.
    graph : Graph, optional
        Its nodes are the rows of X. Without it, pass ``coordinates`` or ``groups``.
    estimator : EBBSRegressor or EBBSClassifier, optional
        What is fitted; default: the default estimator of the task.
    estimate : bool, default=True
        Whether to fit. ``check.model`` is the fitted model, so you need not fit again.
    task : {"auto", "regression", "classification"}, default="auto"
        ``"auto"``: classification if the labels are text, booleans, or two different numbers.
    random_state : int, RandomState, Generator or None, default=0
        Seed of the default estimator and of the permutation test.
    **fit
        Other arguments of :meth:`EBBSRegressor.fit`: ``coordinates``, ``groups``, ``offset``,
        ``callbacks`` and so on.

    Returns
    -------
    GraphCheck

    Examples
    --------
    >>> import ebboost as eb, numpy as np
    >>> coords = np.random.default_rng(0).random((200, 2))
    >>> y = np.sin(6 * coords[:, 0])
    >>> graph = eb.Graph.build_knn(coords, k=5)
    >>> check = eb.check_graph(coords[:, 1:], y, graph, estimate=False)
    >>> check.autocorrelation.name, check.autocorrelation.value > 0.8
    ("Moran's I", True)
    """
    if task not in TASKS:
        raise ValueError(f"task must be one of {', '.join(TASKS)}, got {task!r}.")
    if graph is None and not {"coordinates", "groups"} & set(fit) and not hasattr(X, "crs"):
        raise ValueError("check_graph needs a graph, coordinates= or groups=.")
    if graph is not None and not isinstance(graph, Graph):
        raise TypeError(f"graph must be an ebboost.Graph, got {type(graph)}.")
    allowed = signature(BaseEBBS.fit).parameters
    if unknown := [name for name in fit if name not in allowed]:
        raise TypeError(f"check_graph has no argument {unknown[0]!r}. See help(eb.check_graph).")
    if estimator is None:
        classes = (infer_task(y) if task == "auto" else task) == "classification"
        kind = EBBSClassifier if classes else EBBSRegressor
        estimator = kind(random_state=random_state)
    if estimate:
        estimator.fit(X, y, graph=graph, **fit)
        check = check_data(estimator.model_, random_state, estimator)
        if check.n_labelled < MIN_ROWS:
            few = f"{count(check.n_labelled, 'label')}: too few to see what the graph is worth"
            check.warnings.append(f"{few}, which takes {MIN_ROWS}.")
        return check
    names = ("nodes", "eval_set", "coordinates", "groups", "time", "offset", "exposure")
    given = [fit.get(name) for name in (*names, "sample_weight")]
    data = read(estimator, X, y, hasattr(estimator, "predict_proba"), graph, *given)
    return check_data(data, random_state)


def check_data(source: Any, random_state: Any = 0, estimator: Any = None) -> GraphCheck:
    """Return the check of what a fit reads, or of a fitted model; ``estimator`` is its own."""
    table, places = source.table, source.places
    places = None if places is None else places.in_one_group()
    labels, classes = source.labels, source.output.is_classifier
    values = one_hot(labels.target).argmax(axis=1) if classes else labels.target[:, 0]
    findings = table_findings(table, labels.rows, values.astype(float), classes)
    sizes: dict[str, Any] = dict.fromkeys(
        ("n_nodes", "n_edges", "n_isolates", "n_components", "largest_component"), 0
    )
    sizes |= {"median_neighbors": 0.0, "most_neighbors": 0}
    autocorrelation = None
    if places is not None and (places.are_rows or places.graph.n_edges):
        graph = places.graph
        nodes, on_nodes = labels_of_nodes(places, labels.rows, values.astype(float), classes)
        findings += graph_findings(graph, nodes, on_nodes, classes, source.separation)
        autocorrelation = label_autocorrelation(graph, nodes, on_nodes, classes, random_state)
        n_neighbors = np.diff(graph.adjacency.indptr)
        sizes = {
            "n_nodes": graph.n_nodes,
            "n_edges": graph.n_edges,
            "n_isolates": int(graph.isolates.size),
            "n_components": graph.n_components,
            "largest_component": int(np.bincount(graph.component_labels).max()),
            "median_neighbors": float(np.median(n_neighbors)),
            "most_neighbors": int(n_neighbors.max()),
        }
    gaps = [] if table.is_sparse else np.isnan(table.values).mean(axis=0).tolist()
    fitted = source if isinstance(source, Model) else None
    return GraphCheck(
        task="classification" if classes else "regression",
        n_rows=table.n_rows,
        n_columns=len(table.names),
        n_labelled=labels.size,
        missing={name: gap for name, gap in zip(table.names, gaps, strict=False) if gap > 0},
        autocorrelation=autocorrelation,
        warnings=[str(finding) for finding in findings],
        gain=None if fitted is None else fitted.gain,
        uses_graph=None if fitted is None else fitted.uses_graph,
        model=estimator,
        **sizes,
    )


def infer_task(y: ArrayLike) -> str:
    """Classification if labels are text, booleans, or two different numbers; else regression."""
    values = np.asarray(y.to_numpy() if hasattr(y, "to_numpy") else y)
    if values.dtype.kind in "USb":
        return "classification"
    if values.dtype.kind == "O":
        known = [value for value in values.tolist() if not is_missing(value)]
        if any(isinstance(value, (str, bool, np.bool_)) for value in known):
            return "classification"
        values = np.asarray(known, dtype=np.float64)
    return "classification" if np.unique(values[values == values]).size == 2 else "regression"


def labels_of_nodes(
    places: Places, rows: IntArray, values: Array, classes: bool
) -> tuple[IntArray, Array]:
    """Return labelled nodes and their labels: of several rows the mean, or the commonest class."""
    if places.are_rows:
        return rows, values
    of_rows = places.node_of_row[rows]
    known = of_rows >= 0
    nodes, position = np.unique(of_rows[known], return_inverse=True)
    own = values[known]
    if classes:
        counts = np.zeros((nodes.size, int(values.max()) + 1))
        np.add.at(counts, (position, own.astype(int)), 1.0)
        return nodes, counts.argmax(axis=1).astype(float)
    return nodes, np.bincount(position, own) / np.bincount(position)


def label_autocorrelation(
    graph: Graph, nodes: IntArray, labels: Array, classes: bool, random_state: Any = 0
) -> Autocorrelation | None:
    """Moran's I, (m / Σ w) · Σ w_ij z_i z_j / Σ z_i², or the share of edge weight within classes.

    The p-value is that of a permutation test. None without edges between labelled nodes, or where
    all labels are equal.
    """
    links = sparse.triu(graph.adjacency[nodes][:, nodes], format="coo")
    if links.nnz == 0 or np.ptp(labels) == 0:
        return None
    source, target = links.coords
    weight = links.data / links.data.sum()
    m = labels.size
    if classes:
        name, counts = "edge agreement", np.unique(labels, return_counts=True)[1].astype(float)
        expected = float((counts * (counts - 1)).sum() / (m * (m - 1)))
    else:
        name, expected = "Moran's I", -1.0 / (m - 1)
        labels = (labels - labels.mean()) / labels.std()

    def statistic(values: Array) -> float:
        one, other = values[source], values[target]
        return float(weight @ (one == other if classes else one * other))

    random = np.random.default_rng(random_state if isinstance(random_state, int) else None)
    value = statistic(labels)
    n = int(np.clip(MAX_COMPARISONS // links.nnz, *PERMUTATIONS))
    as_large = sum(statistic(random.permutation(labels)) >= value for _ in range(n))
    return Autocorrelation(name, value, expected, (1 + as_large) / (1 + n), int(links.nnz))
