"""Does your graph need a confidence boost? What the data look like, what looks wrong, and what the graph would add.

The estimate is a short cross-validation of the same trees with and without the graph, on the same folds, and its standard
error comes from the paired differences: the larger of that over nodes and that over folds.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse import csgraph
from scipy.stats import rankdata
from sklearn.base import is_classifier
from sklearn.utils import check_random_state

from ebboost.boosting.callbacks import unless_interrupted
from ebboost.data import validation as checks
from ebboost.data.table import Table, TableReader
from ebboost.estimators import EBBSClassifier, EBBSRegressor
from ebboost.graph import Graph
from ebboost.graph._ids import is_missing
from ebboost.model_selection.cross_validation import GraphBlockFold, labelled_folds

Array = NDArray[np.float64]
TASKS = ("auto", "regression", "classification")
LEAST_DEALS, MOST_DEALS, MOST_COMPARISONS = (
    19,
    199,
    100_000_000,
)  # of labels dealt out at random; of ends of edges
COPY, SUSPICIOUS = 0.99, 0.9  # share of the labels' variation that one column explains by itself
ONE_CLASS_EDGES = 0.995
ROUNDS = 300
MOST_NODES = 20_000  # in the estimate
LEAST_LABELS = 30


@dataclass(frozen=True)
class Autocorrelation:
    """How alike the labels of neighbours are.

    Attributes
    ----------
    name : str
        ``"Moran's I"`` for numbers; ``"edge agreement"``, the share of edges between equal classes, for classes.
    value, expected : float
        Its value, and the mean if labels were dealt out at random.
    p_value : float
        Share of random deals at least as alike.
    n_edges : int
        Edges with a label at both ends.
    """

    name: str
    value: float
    expected: float
    p_value: float
    n_edges: int


@dataclass(frozen=True)
class Estimate:
    """What the graph adds on labels that were hidden.

    Attributes
    ----------
    metric : str
        ``"RMSE"`` (less is better) or ``"accuracy"``.
    without, with_graph : float
        Over all folds.
    gain, standard_error : float
        By how much the graph is better; negative: worse.
    choices : list of str
        How the graph was used in each fold; ``"none"``: not at all.
    folds : str
        ``"random"`` or ``"blocks"``.
    n_nodes, n_labels : int
        How much of the data it was made on.
    """

    metric: str
    without: float
    with_graph: float
    gain: float
    standard_error: float
    choices: list[str]
    folds: str
    n_nodes: int
    n_labels: int

    @property
    def gain_text(self) -> str:
        """The gain and its standard error, to the same place."""
        if self.standard_error <= 0:
            return f"{figure(self.gain, 3)} ± 0"
        decimals = max(1 - int(np.floor(np.log10(self.standard_error))), 0)
        return f"{self.gain:,.{decimals}f} ± {self.standard_error:,.{decimals}f}"

    @property
    def verdict(self) -> str:
        """One sentence."""
        share = (
            f"{abs(self.gain) / self.without:.0%}".replace("%", " %")
            if self.metric == "RMSE"
            else ""
        )
        less = f"{share} less error" if share else f"{100 * self.gain:.1f} points more accuracy"
        if set(self.choices) == {"none"}:
            return "The graph was not used in any fold: plain boosting did as well."
        if self.gain > 2.0 * self.standard_error:
            return f"The graph helps: {less} on labels that were hidden."
        if self.gain < -2.0 * self.standard_error:
            return "The graph does harm here: use plain boosting."
        return "No difference that could be told from chance: the graph adds little here."


@dataclass(frozen=True)
class GraphCheck:
    """What :func:`check_graph` found; ``print`` it, or read its attributes."""

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
        """All of it as plain dictionaries and lists."""
        found = asdict(self)
        if self.estimate is not None:
            found["estimate"]["verdict"] = self.estimate.verdict
        return found

    def facts(self) -> list[tuple[str, str]]:
        """Pairs of a name and what there is to say of it."""
        to_predict, alone = self.n_nodes - self.n_labelled, self.n_isolates
        most = _percent(self.largest_component / self.n_nodes)
        rows = [
            (
                "nodes",
                f"{self.n_nodes:,}: {self.n_labelled:,} with a label, {to_predict:,} to predict",
            ),
            ("columns", f"{self.n_columns:,}{self._missing()}"),
            (
                "edges",
                f"{self.n_edges:,}, neighbours: median {self.median_neighbors:g}, most {self.most_neighbors:,}",
            ),
            (
                "isolates",
                f"{alone:,} {'node' if alone == 1 else 'nodes'} without an edge ({_percent(alone / self.n_nodes)})"
                if alone
                else "none",
            ),
            (
                "components",
                "1"
                if self.n_components == 1
                else f"{self.n_components:,}, the largest with {most} of the nodes",
            ),
            ("task", self.task),
        ]
        if self.autocorrelation is not None:
            a = self.autocorrelation
            rows.append(
                (
                    a.name,
                    f"{a.value:.3f}, at random {a.expected:.3f} (p = {a.p_value:.3f}, {a.n_edges:,} edges)",
                )
            )
        return rows

    def _missing(self) -> str:
        if not self.missing:
            return ", nothing missing"
        worst = sorted(self.missing.items(), key=lambda item: -item[1])[:3]
        shown = ", ".join(f"{name} {_percent(share)}" for name, share in worst)
        return f", {len(self.missing)} with gaps ({shown}{', …' if len(self.missing) > 3 else ''})"

    def __str__(self) -> str:
        lines = [f"{name:<15}{text}" for name, text in self.facts()]
        lines += [f"! {warning}" for warning in self.warnings]
        if self.estimate is not None:
            e = self.estimate
            lines.append(
                f"{e.metric:<15}{figure(e.without)} without the graph, {figure(e.with_graph)} with it"
            )
            lines.append(f"{'gain':<15}{e.gain_text}")
            lines.append(e.verdict)
        return "\n".join(lines)


def check_graph(
    X: Any,
    y: Any,
    graph: Graph,
    *,
    task: str = "auto",
    estimate: bool = True,
    n_folds: int = 3,
    random_state: Any = 0,
    progress: Callable[[int, int], None] | None = None,
) -> GraphCheck:
    """Look at a table, its labels and its graph before you fit.

    Parameters
    ----------
    X : table of shape (n_nodes, n_features)
    y : array-like of shape (n_nodes,)
        Labels, NaN or None where unknown.
    graph : Graph
    task : {"auto", "regression", "classification"}
        ``"auto"``: classes if the labels are text, truth values, or numbers of which there are two.
    estimate : bool, default=True
        Whether to cross-validate with and without the graph. More than 20 000 nodes: on a connected piece of that size.
    n_folds : int, default=3
        Random folds; whole regions where the nodes to predict have few labelled neighbours.
    random_state : int, RandomState or None, default=0
    progress : callable, optional
        Called as ``progress(done, total)`` after every fit of the estimate.

    Returns
    -------
    GraphCheck

    Examples
    --------
    >>> import ebboost as eb, numpy as np
    >>> place = np.random.default_rng(0).random((200, 2))
    >>> y = np.sin(6 * place[:, 0])
    >>> found = eb.check_graph(place[:, 1:], y, eb.Graph.build_knn(place, k=5), estimate=False)
    >>> found.autocorrelation.name, found.autocorrelation.value > 0.8
    ("Moran's I", True)
    """
    if task not in TASKS:
        raise ValueError(f"task must be one of {', '.join(TASKS)}, got {task!r}.")
    if not isinstance(graph, Graph):
        raise TypeError(
            f"graph must be an ebboost.Graph, got {type(graph)}. Several relations are made one by Graph.mix."
        )
    task = task_of(y) if task == "auto" else task
    model: Any = EBBSClassifier() if task == "classification" else EBBSRegressor()
    table = TableReader().fit(X)
    checks.graph_fits(graph, table.n_rows, X)
    nodes, values, _ = checks.labelled(
        y, None, None, table.n_rows, is_classifier(model), type(model).__name__
    )
    random = check_random_state(random_state)
    if task == "classification":
        labels = np.unique(values, return_inverse=True)[1].astype(np.float64)
    else:
        labels = np.asarray(values, dtype=np.float64)
    counts = np.diff(graph.adjacency.indptr)
    autocorrelation = label_autocorrelation(graph, nodes, labels, task, random)
    share, usual = _known_neighbors(graph, nodes)
    blocks = share is not None and share < 0.5 * usual * (1.0 - 1.0 / n_folds)
    warnings = [
        *_column_warnings(table, nodes, labels, task),
        *_graph_warnings(graph, nodes, autocorrelation),
    ]
    if blocks:
        warnings.append(
            f"The nodes to predict lie together: {_percent(share or 0.0)} of their neighbours have a label, "
            f"{_percent(usual)} around labelled nodes. The estimate holds out whole regions."
        )
    found = None
    if estimate and nodes.size >= LEAST_LABELS:
        found = _estimate(table, nodes, values, graph, task, n_folds, blocks, random, progress)
    elif estimate:
        warnings.append(
            f"{nodes.size} labels are too few to estimate what the graph adds: that takes {LEAST_LABELS}."
        )
    gaps = np.zeros(len(table.names)) if table.is_sparse else np.isnan(table.values).mean(axis=0)
    return GraphCheck(
        task=task,
        n_nodes=graph.n_nodes,
        n_edges=graph.n_edges,
        n_columns=len(table.names),
        n_labelled=nodes.size,
        n_isolates=int(graph.isolates.size),
        n_components=graph.n_components,
        largest_component=int(np.bincount(graph.component_labels).max()),
        median_neighbors=float(np.median(counts)),
        most_neighbors=int(counts.max()),
        missing={name: float(gap) for name, gap in zip(table.names, gaps, strict=True) if gap > 0},
        autocorrelation=autocorrelation,
        warnings=warnings,
        estimate=found,
    )


def task_of(y: Any) -> str:
    """Classes if the labels are text, truth values, or numbers of which there are two; else numbers."""
    values = np.asarray(y.to_numpy() if hasattr(y, "to_numpy") else y)
    if values.dtype.kind in "USb":
        return "classification"
    if values.dtype.kind == "O":
        known = [value for value in values.tolist() if not is_missing(value)]
        if any(isinstance(value, (str, bool, np.bool_)) for value in known):
            return "classification"
        values = np.asarray(known, dtype=np.float64)
    return "classification" if np.unique(values[values == values]).size == 2 else "regression"


# ---------------------------------------------------------------------- labels on the graph


def label_autocorrelation(
    graph: Graph, nodes: NDArray[np.int64], labels: Array, task: str, random_state: Any = 0
) -> Autocorrelation | None:
    """Moran's I, (m / Σ w) · Σ w_ij z_i z_j / Σ z_i², or the weighted share of edges between equal classes.

    The p-value comes from dealing the labels out at random. None without edges between labelled nodes, or where all
    labels are the same.
    """
    among = sparse.triu(graph.adjacency[nodes][:, nodes], format="coo")
    if among.nnz == 0 or np.ptp(labels) == 0:
        return None
    (source, target), weight = among.coords, among.data / among.data.sum()
    m = labels.size
    if task == "classification":
        name, values = "edge agreement", labels
        counts = np.unique(labels, return_counts=True)[1].astype(np.float64)
        expected = float((counts * (counts - 1)).sum() / (m * (m - 1)))
    else:
        name, expected = "Moran's I", -1.0 / (m - 1)
        values = (labels - labels.mean()) / labels.std()

    def alike(dealt: Array) -> float:
        one, other = dealt[source], dealt[target]
        return float(weight @ (one == other if task == "classification" else one * other))

    random = check_random_state(random_state)
    value = alike(values)
    deals = int(np.clip(MOST_COMPARISONS // among.nnz, LEAST_DEALS, MOST_DEALS))
    by_chance = sum(alike(random.permutation(values)) >= value for _ in range(deals))
    return Autocorrelation(name, value, expected, (1 + by_chance) / (1 + deals), int(among.nnz))


def _known_neighbors(graph: Graph, nodes: NDArray[np.int64]) -> tuple[float | None, float]:
    """Share of labelled nodes among the neighbours of nodes to predict (None if there are none), and of labelled ones."""
    known = np.zeros(graph.n_nodes)
    known[nodes] = 1.0
    pattern = graph.adjacency
    pattern = sparse.csr_array(
        (np.ones(pattern.nnz), pattern.indices, pattern.indptr), shape=pattern.shape
    )
    counts = np.diff(pattern.indptr)
    share = np.divide(pattern @ known, counts, out=np.zeros(graph.n_nodes), where=counts > 0)
    wanted, labelled = (known == 0) & (counts > 0), (known == 1) & (counts > 0)
    usual = float(share[labelled].mean()) if labelled.any() else 0.0
    return (float(share[wanted].mean()) if wanted.any() else None), usual


# ---------------------------------------------------------------------- what looks wrong


def _graph_warnings(
    graph: Graph, nodes: NDArray[np.int64], alike: Autocorrelation | None
) -> list[str]:
    found = []
    unlabelled = np.setdiff1d(np.arange(graph.n_nodes), nodes)
    cut_off = np.intersect1d(unlabelled, graph.isolates).size
    if cut_off:
        found.append(
            f"Without any edge: {cut_off:,} of the {unlabelled.size:,} nodes to predict. The graph cannot help there."
        )
    if (
        alike is not None
        and alike.name == "edge agreement"
        and alike.value > ONE_CLASS_EDGES
        and alike.n_edges >= 50
    ):
        found.append(
            "Edges tie nodes of the same class only: were they made from the labels? That would be a leak."
        )
    if alike is None:
        found.append(
            "No edge joins two nodes with different labels known: whether neighbours are alike cannot be told."
        )
    return found


def _column_warnings(table: Table, nodes: NDArray[np.int64], labels: Array, task: str) -> list[str]:
    if table.is_sparse:
        return []
    found: list[str] = []
    values, n_rows = np.asarray(table.values), table.n_rows
    unlabelled = np.setdiff1d(np.arange(n_rows), nodes)
    for position, name in enumerate(table.names):
        column, categorical = values[:, position], position in table.categorical
        known = column[~np.isnan(column)]
        n_different = np.unique(known).size
        if n_different <= 1:
            found.append(
                f"Column {name!r} says nothing: {'it is empty' if not known.size else 'all its values are equal'}."
            )
            continue
        if n_different == n_rows > LEAST_LABELS and (categorical or _counts_up(column)):
            found.append(f"Column {name!r} is different in every row, like an id: leave it out.")
            continue
        share = explained_by(column[nodes], labels, categorical, task)
        if share >= COPY:
            found.append(
                f"Column {name!r} nearly copies the target ({_percent(share)} explained by it alone): a leak?"
            )
        elif share >= SUSPICIOUS:
            found.append(
                f"Column {name!r} explains {_percent(share)} of the target by itself: would you know it before the target?"
            )
        if unlabelled.size >= LEAST_LABELS:
            gaps, usual = np.isnan(column[unlabelled]).mean(), np.isnan(column[nodes]).mean()
            if gaps > 0.5 and usual < 0.1:
                found.append(
                    f"Column {name!r} is empty in {_percent(gaps)} of the rows to predict, {_percent(usual)} of the others."
                )
    repeated = n_rows - np.unique(_row_hashes(values)).size
    if repeated > 0.01 * n_rows:
        found.append(f"{repeated:,} rows repeat another row in all columns.")
    return found


def _row_hashes(values: Array) -> NDArray[np.uint64]:
    """One number for each row, the same for rows that are the same: sorting whole rows would take far longer."""
    bits = (np.nan_to_num(values, nan=np.inf) + 0.0).view(np.uint64)  # + 0.0: minus zero is zero
    odd = np.random.default_rng(0).integers(
        0, 2**63, size=bits.shape[1], dtype=np.uint64
    ) * np.uint64(2) + np.uint64(1)
    mixed = (bits ^ (bits >> np.uint64(32))) * odd  # wraps around, exactly
    hashes: NDArray[np.uint64] = mixed.sum(axis=1, dtype=np.uint64)
    return hashes


def _counts_up(column: Array) -> bool:
    ordered = np.sort(column)
    return bool((ordered % 1 == 0).all() and (np.diff(ordered) == 1).mean() > 0.9)


def explained_by(column: Array, labels: Array, categorical: bool, task: str) -> float:
    """Share of the labels' variation that one column explains out of sample, 0 to 1.

    Labels are predicted by their mean (or commonest class) among rows of the other half whose value falls into the same
    of √n bins; for numbers also by their rank, so that a monotone copy counts in full.
    """
    known = ~np.isnan(column)
    column, labels = column[known], labels[known]
    if column.size < LEAST_LABELS or np.ptp(labels) == 0:
        return 0.0
    if categorical:
        bins = column.astype(np.int64)
    else:
        edges = np.unique(
            np.quantile(column, np.linspace(0, 1, int(np.sqrt(column.size)) + 1)[1:-1])
        )
        bins = np.searchsorted(edges, column, side="right")
    n_bins, half = int(bins.max()) + 1, np.random.default_rng(0).permutation(column.size) % 2
    predicted = np.empty(column.size)
    for held in (0, 1):
        rest = half != held
        if task == "classification":
            codes = labels.astype(np.int64)
            seen = np.zeros((n_bins, codes.max() + 1))
            np.add.at(seen, (bins[rest], codes[rest]), 1.0)
            seen += 1e-3 * np.bincount(codes[rest], minlength=seen.shape[1]) / rest.sum()
            predicted[~rest] = seen.argmax(axis=1)[bins[~rest]]
        else:
            count = np.bincount(bins[rest], minlength=n_bins)
            total = np.bincount(bins[rest], labels[rest], minlength=n_bins)
            mean = np.where(count > 0, total / np.maximum(count, 1), labels[rest].mean())
            predicted[~rest] = mean[bins[~rest]]
    if task == "classification":
        commonest = np.bincount(labels.astype(np.int64)).max() / labels.size
        return max(float((predicted == labels).mean() - commonest) / (1.0 - commonest), 0.0)
    share = 1.0 - float(((labels - predicted) ** 2).mean() / labels.var())
    if not categorical and np.ptp(column) > 0:
        share = max(share, float(np.corrcoef(rankdata(column), rankdata(labels))[0, 1]) ** 2)
    return max(share, 0.0)


# ---------------------------------------------------------------------- what the graph adds


def _estimate(
    table: Table,
    nodes: NDArray[np.int64],
    values: NDArray[Any],
    graph: Graph,
    task: str,
    n_folds: int,
    blocks: bool,
    random: Any,
    progress: Callable[[int, int], None] | None,
) -> Estimate:
    X, truth = table.values, np.empty(table.n_rows, dtype=values.dtype)
    truth[nodes] = values
    if table.n_rows > MOST_NODES:
        piece = _piece(graph, nodes, random)
        X, truth, nodes = X[piece], truth[piece], np.flatnonzero(np.isin(piece, nodes))
        graph = Graph(sparse.csr_array(graph.adjacency[piece][:, piece]))
    classes = task == "classification"
    seed = int(random.randint(np.iinfo(np.int32).max))
    cv = GraphBlockFold(n_folds, seed) if blocks else n_folds
    stratify = classes and int(np.unique(truth[nodes], return_counts=True)[1].min()) >= n_folds
    folds = labelled_folds(
        cv, nodes, truth[nodes], graph, len(truth), stratify=stratify, random_state=seed
    )
    kind = EBBSClassifier if classes else EBBSRegressor
    losses: dict[bool, list[Array]] = {False: [], True: []}
    choices = []
    for number, (train, test) in enumerate(folds):
        for uses_graph in (False, True):
            model: Any = kind(
                ROUNDS, categorical_features=list(table.categorical), random_state=seed
            )
            model.fit(X, truth[train], nodes=train, graph=graph if uses_graph else None)
            answer = unless_interrupted(model).predict(nodes=test)
            losses[uses_graph].append(
                (answer != truth[test]).astype(float)
                if classes
                else (answer - truth[test].astype(float)) ** 2
            )
            if progress is not None:
                progress(2 * number + 1 + uses_graph, 2 * len(folds))
        choices.append(model.best_candidate_)
    gain, error, (without, with_graph) = paired_gain(losses[False], losses[True], root=not classes)
    if classes:
        without, with_graph = 1.0 - without, 1.0 - with_graph
    metric, how = "accuracy" if classes else "RMSE", "blocks" if blocks else "random"
    return Estimate(metric, without, with_graph, gain, error, choices, how, len(truth), nodes.size)


def paired_gain(
    before: list[Array], after: list[Array], root: bool
) -> tuple[float, float, tuple[float, float]]:
    """Return how much less loss there is after, its standard error, and the two losses; ``root``: of the mean's root.

    The error is the larger of two: over nodes, from the paired differences (for a root, of its first-order influence),
    which takes nodes as independent; and over folds, which does not but has few of them.
    """
    one, other = np.concatenate(before), np.concatenate(after)
    levels = float(one.mean()), float(other.mean())
    by_node = one - other
    by_fold = np.array([a.mean() - b.mean() for a, b in zip(before, after, strict=True)])
    if root:
        levels = float(np.sqrt(levels[0])), float(np.sqrt(levels[1]))
        by_node = one / (2.0 * max(levels[0], 1e-300)) - other / (2.0 * max(levels[1], 1e-300))
        by_fold = np.array(
            [np.sqrt(a.mean()) - np.sqrt(b.mean()) for a, b in zip(before, after, strict=True)]
        )
    error = max(
        by_node.std(ddof=1) / np.sqrt(by_node.size), by_fold.std(ddof=1) / np.sqrt(by_fold.size)
    )
    return levels[0] - levels[1], float(error), levels


def _piece(graph: Graph, nodes: NDArray[np.int64], random: Any) -> NDArray[np.int64]:
    """Whole neighbourhoods of labelled nodes, breadth first, until there are enough."""
    taken = np.zeros(graph.n_nodes, dtype=bool)
    for start in random.permutation(nodes):
        if taken[start]:
            continue
        room = MOST_NODES - int(taken.sum())
        if room <= 0:
            break
        order = csgraph.breadth_first_order(
            graph.adjacency, start, directed=False, return_predecessors=False
        )
        taken[order[:room]] = True
    return np.flatnonzero(taken)


def figure(value: float, digits: int = 4) -> str:
    """Return a number with so many significant digits, in full unless it is very large or small: 18,410 or 0.05358."""
    if not 1e-4 <= abs(value) < 1e9:
        return f"{value:.{digits}g}"
    decimals = digits - 1 - int(np.floor(np.log10(abs(value))))
    rounded = round(value, decimals)
    return f"{rounded:,.{max(decimals, 0)}f}"


def _percent(share: float) -> str:
    if 0.99 <= share < 1:  # not quite all is not all
        return f"{min(100 * share, 99.9):.1f} %"
    return f"{100 * share:.3g} %" if 0 < share < 0.1 else f"{100 * share:.0f} %"
