"""Properties of a table, its labels and its graph before a fit, and what the graph adds."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.random import RandomState
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.utils import check_random_state

from ebboost.boosting.callbacks import Callback, as_callbacks
from ebboost.data import validation as checks
from ebboost.data.reader import TableReader, dense_if_narrow
from ebboost.data.row_order import RowOrder
from ebboost.data.types import Array, TableLike
from ebboost.graph import Graph
from ebboost.graph.ids import is_missing
from ebboost.inspection.data_audit import MIN_ROWS, audit_graph, audit_table
from ebboost.inspection.formatting import count, figure, percent
from ebboost.inspection.graph_gain import Estimate, estimate_gain

Nodes = NDArray[np.int64]
TASKS = ("auto", "regression", "classification")
MIN_PERMUTATIONS = 19
MAX_PERMUTATIONS = 199
MAX_COMPARISONS = 100_000_000  # edges times permutations


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


@dataclass(frozen=True)
class GraphCheck:
    """Result of :func:`check_graph`: ``print`` it, or read its attributes.

    Attributes
    ----------
    task : str
        ``"regression"`` or ``"classification"``.
    n_nodes, n_edges, n_columns, n_labelled : int
        Sizes.
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
    estimate : Estimate or None
        What the graph adds; None where it was not estimated.
    """

    task: str
    n_nodes: int
    n_edges: int
    n_columns: int
    n_labelled: int
    n_isolates: int
    n_components: int
    largest_component: int
    median_neighbors: float
    most_neighbors: int
    missing: dict[str, float] = field(default_factory=dict)
    autocorrelation: Autocorrelation | None = None
    warnings: list[str] = field(default_factory=list)
    estimate: Estimate | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return all attributes as dictionaries and lists.

        Returns
        -------
        dict
        """
        values = asdict(self)
        if self.estimate is not None:
            values["estimate"] |= {"gain": self.estimate.gain, "verdict": self.estimate.verdict}
        return values

    def facts(self) -> list[tuple[str, str]]:
        """Return pairs of a name and a text, as ``print`` shows them.

        Returns
        -------
        list of (str, str)
        """
        to_predict = self.n_nodes - self.n_labelled
        isolates = "none"
        if self.n_isolates:
            share = percent(self.n_isolates / self.n_nodes)
            isolates = f"{count(self.n_isolates, 'node')} without an edge ({share})"
        components = f"{self.n_components:,}"
        if self.n_components > 1:
            share = percent(self.largest_component / self.n_nodes)
            components += f", the largest with {share} of the nodes"
        neighbors = f"median {self.median_neighbors:g}, most {self.most_neighbors:,}"
        rows = [
            ("nodes", f"{self.n_nodes:,}: {self.n_labelled:,} labelled, {to_predict:,} to predict"),
            ("columns", f"{self.n_columns:,}, {self._missing()}"),
            ("edges", f"{self.n_edges:,}, neighbours: {neighbors}"),
            ("isolates", isolates),
            ("components", components),
            ("task", self.task),
        ]
        if self.autocorrelation is not None:
            a = self.autocorrelation
            test = f"p = {a.p_value:.3f}, {count(a.n_edges, 'edge')}"
            rows.append((a.name, f"{a.value:.3f}, expected {a.expected:.3f} ({test})"))
        return rows

    def _missing(self) -> str:
        if not self.missing:
            return "no missing values"
        worst = sorted(self.missing.items(), key=lambda item: -item[1])[:3]
        names = ", ".join(f"{name} {percent(share)}" for name, share in worst)
        more = ", …" if len(self.missing) > 3 else ""
        return f"{len(self.missing)} with missing values ({names}{more})"

    def __str__(self) -> str:
        lines = [f"{name:<15}{text}" for name, text in self.facts()]
        if self.estimate is not None:
            e = self.estimate
            compared = f"{figure(e.without)} without the graph, {figure(e.with_graph)} with it"
            lines = [e.verdict, *lines, f"{e.metric:<15}{compared}"]
            lines.append(f"{'gain':<15}{e.gain_text}, {count(e.n_labels, 'held-out label')}")
            names = e.choice.split("; ")
            lines += [
                f"{'' if number else 'selected':<15}{name}" for number, name in enumerate(names)
            ]
        lines += [f"! {warning}" for warning in self.warnings]
        return "\n".join(lines)


def check_graph(
    X: TableLike,
    y: ArrayLike,
    graph: Graph,
    *,
    task: str = "auto",
    estimate: bool = True,
    random_state: int | RandomState | None = 0,
    callbacks: Sequence[Callback] = (),
) -> GraphCheck:
    """Check a table, its labels and its graph before a fit.

    Parameters
    ----------
    X : table of shape (n_nodes, n_features)
        Dataframe, array or sparse matrix, one row for each node.
    y : array-like of shape (n_nodes,)
        Labels, NaN or None where unknown.
    graph : Graph
        Its nodes are the rows of X.
    task : {"auto", "regression", "classification"}, default="auto"
        ``"auto"``: classification if the labels are text, booleans, or two different numbers.
    estimate : bool, default=True
        Whether to fit the default estimator, which compares models without and with the graph;
        above 20,000 nodes on a connected part of that size.
    random_state : int, RandomState or None, default=0
        Seed of the fit and of the permutation test.
    callbacks : sequence of Callback, optional
        Callbacks of that fit.

    Returns
    -------
    GraphCheck

    Raises
    ------
    ValueError
        If ``task`` is unknown, or the graph and the table differ in size.
    TypeError
        If ``graph`` is not a :class:`Graph`.

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
    if not isinstance(graph, Graph):
        remedy = "Combine several relations with Graph.mix."
        raise TypeError(f"graph must be an ebboost.Graph, got {type(graph)}. {remedy}")
    task = infer_task(y) if task == "auto" else task
    classes = task == "classification"
    table = TableReader().fit(dense_if_narrow(X))
    checks.check_graph(graph, table.n_rows, X)
    RowOrder(X, graph).check(y=y)
    nodes, values, _ = checks.labelled_nodes(y, None, None, table.n_rows, classes, "check_graph")
    codes = np.unique(values, return_inverse=True)[1]
    labels = (codes if classes else values).astype(np.float64)
    random = check_random_state(random_state)
    autocorrelation = label_autocorrelation(graph, nodes, labels, task, random)
    findings = audit_table(table, nodes, labels, classes)
    findings += audit_graph(graph, nodes, labels, classes)
    warnings = [str(finding) for finding in findings]
    share, usual = _labelled_neighbor_share(graph, nodes)
    if share is not None and share < 0.5 * usual:
        warnings.append(
            f"Nodes to predict are neighbours of each other: {percent(share)} of their neighbours "
            f"are labelled, {percent(usual)} of those of labelled nodes. Held-out labels "
            "overstate what the graph is worth there: compare with "
            "eb.cross_validate(cv=eb.GraphBlockFold())."
        )
    gain = None
    if estimate and nodes.size < MIN_ROWS:
        few = f"{count(nodes.size, 'label')}: too few to estimate what the graph adds"
        warnings.append(f"{few}, which takes {MIN_ROWS}.")
    elif estimate and np.ptp(labels) > 0:
        options = (classes, random_state, as_callbacks(callbacks))
        gain = estimate_gain(table, nodes, values, graph, *options)
    missing = [] if table.is_sparse else np.isnan(table.values).mean(axis=0).tolist()
    return GraphCheck(
        task=task,
        n_columns=len(table.names),
        n_labelled=nodes.size,
        missing={name: gap for name, gap in zip(table.names, missing, strict=False) if gap > 0},
        autocorrelation=autocorrelation,
        warnings=warnings,
        estimate=gain,
        **_graph_sizes(graph),
    )


def _graph_sizes(graph: Graph) -> dict[str, Any]:
    n_neighbors = np.diff(graph.adjacency.indptr)
    return {
        "n_nodes": graph.n_nodes,
        "n_edges": graph.n_edges,
        "n_isolates": int(graph.isolates.size),
        "n_components": graph.n_components,
        "largest_component": int(np.bincount(graph.component_labels).max()),
        "median_neighbors": float(np.median(n_neighbors)),
        "most_neighbors": int(n_neighbors.max()),
    }


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


def label_autocorrelation(
    graph: Graph, nodes: Nodes, labels: Array, task: str, random_state: int | RandomState | None = 0
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
    if task == "classification":
        name = "edge agreement"
        counts = np.unique(labels, return_counts=True)[1].astype(np.float64)
        expected = float((counts * (counts - 1)).sum() / (m * (m - 1)))
    else:
        name = "Moran's I"
        expected = -1.0 / (m - 1)
        labels = (labels - labels.mean()) / labels.std()

    def statistic(values: Array) -> float:
        if task == "classification":
            return float(weight @ (values[source] == values[target]))
        return float(weight @ (values[source] * values[target]))

    random = check_random_state(random_state)
    value = statistic(labels)
    n = int(np.clip(MAX_COMPARISONS // links.nnz, MIN_PERMUTATIONS, MAX_PERMUTATIONS))
    as_large = sum(statistic(random.permutation(labels)) >= value for _ in range(n))
    return Autocorrelation(name, value, expected, (1 + as_large) / (1 + n), int(links.nnz))


def _labelled_neighbor_share(graph: Graph, nodes: Nodes) -> tuple[float | None, float]:
    """Share of labelled nodes among the neighbours of nodes to predict, and of labelled nodes."""
    labelled = np.zeros(graph.n_nodes)
    labelled[nodes] = 1.0
    n_neighbors = np.diff(graph.adjacency.indptr)
    links = (graph.adjacency != 0).astype(np.float64)
    share = (links @ labelled) / np.maximum(n_neighbors, 1)
    to_predict = share[(labelled == 0) & (n_neighbors > 0)]
    usual = share[(labelled == 1) & (n_neighbors > 0)]
    usual_share = float(usual.mean()) if usual.size else 0.0
    return float(to_predict.mean()) if to_predict.size else None, usual_share
