"""How good is a model on nodes it was not told about? Folds hide labels; the graph and the table stay whole.

scikit-learn's ``cross_validate`` slices rows, which would cut a graph to pieces. Here a fold only sets aside the labels
of its nodes: the model is fitted on the whole graph and asked about the nodes whose labels were hidden.
"""

import heapq
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.sparse import csgraph
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.metrics import check_scoring, log_loss, make_scorer
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.utils import _safe_indexing, check_random_state, get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import _check_method_params, _num_samples, has_fit_parameter

from ebboost.boosting.callbacks import unless_interrupted
from ebboost.data import validation as checks
from ebboost.graph import Graph, Graphs

Positions = NDArray[np.int64]
Fold = tuple[Positions, Positions]


def cross_validate(
    model: Any,
    X: Any,
    y: Any,
    graph: Graphs | None = None,
    *,
    cv: Any = 5,
    scoring: Any = None,
    groups: ArrayLike | None = None,
    random_state: Any = None,
    fit_parameters: Mapping[str, Any] | None = None,
    return_predictions: bool = False,
    verbose: int = 0,
) -> dict[str, NDArray[Any]]:
    """Fit and score a model on folds that hide labels and leave the graph whole.

    Parameters
    ----------
    model : estimator
        An ``EBBSRegressor`` or ``EBBSClassifier``, or without a graph any scikit-learn estimator. It is cloned.
    X : table of shape (n_nodes, n_features)
        Every node, labelled or not.
    y : array-like of shape (n_nodes,)
        Labels, NaN or None where unknown; such nodes are never scored.
    graph : Graph or dict of Graph, optional
        Which rows influence each other.
    cv : int, splitter, iterable or GraphBlockFold, default=5
        A number of random folds (stratified for classifiers), a scikit-learn splitter such as ``GroupKFold(5)``, pairs
        (train, test) of row positions or masks, or :class:`GraphBlockFold` to learn how well the model predicts a new
        region rather than gaps between known nodes.
    scoring : str, callable, list or dict, optional
        Names of scikit-learn scorers, scorers from ``make_scorer``, functions ``scorer(estimator, nodes, y)`` where
        ``nodes`` are the held-out rows, a list of these or a dict of name to scorer. Default: R² and root mean squared
        error, or accuracy and log loss. As in scikit-learn greater is better, so that errors are negative.
    groups : array-like of shape (n_nodes,), optional
        The group of each node, for a grouped splitter.
    random_state : int, RandomState or None, default=None
        Fixes the random folds that a whole number in ``cv`` asks for.
    fit_parameters : dict, optional
        More arguments of ``model.fit``. Those with an entry for each row of X, such as ``sample_weight``, are taken at
        the rows trained on.
    return_predictions : bool, default=False
        Also return what was predicted for each labelled node while its label was hidden.
    verbose : int, default=0
        1 writes a line for every fold to standard error.

    Returns
    -------
    dict of ndarray
        ``"fit_time"``, ``"score_time"`` and ``"test_<name>"``, an entry per fold; with a single scorer
        ``"test_score"`` too. If asked, ``"predictions"``, an entry per node: NaN (None for classes) where there is no
        label.

    Examples
    --------
    >>> import ebboost as eb, numpy as np
    >>> from ebboost.model_selection.cross_validation import GraphBlockFold, cross_validate
    >>> place = np.random.default_rng(0).random((300, 2))
    >>> y = np.sin(6 * place[:, 0])
    >>> g = eb.Graph.build_knn(place, k=6)
    >>> m = eb.EBBSRegressor(n_estimators=30, n_jobs=1, random_state=0)
    >>> gaps = cross_validate(m, place[:, :1], y, g, scoring="r2", random_state=0)
    >>> bool(gaps["test_score"].mean() > 0.9)
    True
    >>> regions = cross_validate(m, place[:, :1], y, g, scoring="r2", cv=GraphBlockFold(4, random_state=0))
    >>> regions["test_score"].shape
    (4,)
    """
    n_rows = _num_samples(X)
    checks.graph_fits(graph, n_rows, X)
    by_node = has_fit_parameter(model, "nodes")
    if graph is not None and not by_node:
        raise TypeError(
            f"{type(model).__name__}.fit takes no graph: use EBBSRegressor or EBBSClassifier, or leave graph out."
        )
    extra = _fit_parameters(fit_parameters, by_node)
    nodes, values, _ = checks.labelled(
        y, None, None, n_rows, is_classifier(model), type(model).__name__
    )
    folds = labelled_folds(
        cv,
        nodes,
        values,
        graph,
        n_rows,
        stratify=is_classifier(model),
        groups=groups,
        random_state=random_state,
    )
    truth: NDArray[Any] = np.empty(n_rows, dtype=values.dtype)
    truth[nodes] = values
    classes = np.unique(values) if is_classifier(model) else None
    scorers = _scorers(scoring, model, classes)
    if return_predictions:
        _refuse_repeats(folds)

    times: dict[str, list[float]] = {"fit_time": [], "score_time": []}
    scores: dict[str, list[float]] = {name: [] for name in scorers}
    predictions: NDArray[Any] = (
        np.full(n_rows, np.nan) if classes is None else np.full(n_rows, None, dtype=object)
    )
    for number, (train, test) in enumerate(folds, start=1):
        try:
            start = time.perf_counter()
            fitted = clone(model)
            given = _check_method_params(X, extra, train)
            if by_node:
                fitted.fit(X, truth[train], graph=graph, nodes=train, **given)
            else:
                fitted.fit(_safe_indexing(X, train), truth[train], **given)
            unless_interrupted(fitted)
            fit_end = time.perf_counter()
            answers = _Answers(fitted, None if by_node else X, test, classes)
            if return_predictions:
                predictions[test] = answers.predict(test)
            for name, scorer in scorers.items():
                scores[name].append(_score(scorer, name, answers, test, truth[test]))
        except Exception as error:
            error.add_note(
                f"This happened in fold {number} of {len(folds)} ({train.size} training nodes)."
            )
            raise
        times["fit_time"].append(fit_end - start)
        times["score_time"].append(time.perf_counter() - fit_end)
        if verbose:
            found = "  ".join(f"{name} {scores[name][-1]:.4g}" for name in scorers)
            sys.stderr.write(
                f"fold {number}/{len(folds)}  {found}  {time.perf_counter() - start:.1f} s\n"
            )

    result = {name: np.array(values) for name, values in times.items()}
    result |= {f"test_{name}": np.array(values) for name, values in scores.items()}
    if isinstance(scoring, str):
        result["test_score"] = result[f"test_{scoring}"]
    if return_predictions:
        result["predictions"] = predictions
    return result


# ---------------------------------------------------------------------- folds


@dataclass(frozen=True)
class GraphBlockFold:
    """Folds that are blocks of the graph: most neighbours of a held-out node are held out with it.

    Random folds leave a held-out node among neighbours whose labels are known: they tell how well gaps are filled.
    Blocks tell how well a new region is predicted. The graph is halved again and again along a breadth-first sweep
    from its rim, so that blocks hang together and differ by a tenth in size at the most; small components, isolated
    nodes among them, stay whole and are dealt out to the folds.

    Parameters
    ----------
    n_splits : int, default=5
        Number of folds, at least 2.
    random_state : int, RandomState or None, default=None
        Fixes where the sweeps begin.

    Examples
    --------
    >>> import ebboost as eb
    >>> from ebboost.model_selection.cross_validation import GraphBlockFold
    >>> path = eb.Graph.from_edges([0, 1, 2, 3, 4], [1, 2, 3, 4, 5])
    >>> sorted(test.tolist() for train, test in GraphBlockFold(3, random_state=0).split(path))
    [[0, 1], [2, 3], [4, 5]]
    """

    n_splits: int = 5
    random_state: Any = None

    def __post_init__(self) -> None:
        _check_n_splits(self.n_splits, "n_splits")

    def blocks(self, graph: Graph, nodes: ArrayLike | None = None) -> Positions:
        """Return the number of the block, 0 … n_splits-1, that each node of ``graph`` belongs to.

        Parameters
        ----------
        graph : Graph
        nodes : array-like of int or bool, optional
            The nodes that count for the size of a block, such as those with a label; default: all.
        """
        if not isinstance(graph, Graph):
            raise TypeError(f"GraphBlockFold cuts an ebboost.Graph into blocks, got {type(graph)}.")
        counted = np.ones(graph.n_nodes, dtype=np.int64)
        if nodes is not None:
            chosen = checks.node_positions(nodes, graph.n_nodes)
            counted[:] = 0
            counted[chosen] = 1
        _check_enough(
            int(counted.sum()),
            self.n_splits,
            "n_splits",
            "node" if nodes is None else "labelled node",
        )
        random = check_random_state(self.random_state)
        component = graph.component_labels
        size = np.bincount(component, counted, minlength=graph.n_components)
        # Cutting a component this small would gain little balance and lose the neighbours of its nodes.
        stays_whole = size <= 0.1 * size.sum() / self.n_splits

        block = np.empty(graph.n_nodes, dtype=np.int64)
        to_cut = random.permutation(np.flatnonzero(~stays_whole[component]))
        for number, part in enumerate(
            _halved(graph.adjacency, to_cut, counted, self.n_splits, random)
        ):
            block[part] = number
        taken = np.bincount(block[to_cut], counted[to_cut], self.n_splits)
        n_members = np.bincount(component, minlength=graph.n_components)
        emptiest = [(int(count), 0, number) for number, count in enumerate(taken)]
        heapq.heapify(emptiest)
        home = np.zeros(graph.n_components, dtype=np.int64)
        for whole in np.flatnonzero(stays_whole)[np.argsort(-size[stays_whole], kind="stable")]:
            count, members, number = emptiest[0]
            home[whole] = number
            heapq.heapreplace(
                emptiest, (count + int(size[whole]), members + int(n_members[whole]), number)
            )
        dealt = stays_whole[component]
        block[dealt] = home[component[dealt]]
        return block

    def split(self, graph: Graph, nodes: ArrayLike | None = None) -> Iterator[Fold]:
        """Yield (train, test) positions for every block in turn; with ``nodes``, positions of those alone."""
        block = self.blocks(graph, nodes)
        chosen = (
            np.arange(graph.n_nodes)
            if nodes is None
            else checks.node_positions(nodes, graph.n_nodes)
        )
        for number in range(self.n_splits):
            held = block[chosen] == number
            yield chosen[~held], chosen[held]


def _halved(
    adjacency: sparse.csr_array, nodes: Positions, counted: Positions, n_parts: int, random: Any
) -> list[Positions]:
    """Cut ``nodes`` into parts whose counts differ by one at the most."""
    if n_parts == 1 or nodes.size == 0:
        return [nodes] * n_parts
    swept = nodes[_sweep(adjacency[nodes][:, nodes], random)]
    n_left = n_parts // 2
    running = np.cumsum(counted[swept])
    share, rest = divmod(int(running[-1]), n_parts)
    wanted = share * n_left + min(rest, n_left)
    cut = int(np.searchsorted(running, wanted)) + 1 if wanted else 0
    left = _halved(adjacency, swept[:cut], counted, n_left, random)
    return left + _halved(adjacency, swept[cut:], counted, n_parts - n_left, random)


def _sweep(adjacency: sparse.csr_array, random: Any) -> Positions:
    """Breadth-first order from the rim of each component, one component after the other."""
    n_components, component = csgraph.connected_components(adjacency, directed=False)
    shuffled = random.permutation(adjacency.shape[0])
    starts = shuffled[np.unique(component[shuffled], return_index=True)[1]]
    order = _breadth_first(adjacency, starts)
    # The node reached last from anywhere lies on the rim; a sweep that starts there crosses the component lengthwise.
    rim = np.empty(n_components, dtype=np.int64)
    rim[component[order]] = order
    order = _breadth_first(adjacency, rim)
    return order[np.argsort(component[order], kind="stable")]


def _breadth_first(adjacency: sparse.csr_array, starts: Positions) -> Positions:
    """All nodes in breadth-first order from one start per component, by way of an extra node that leads to them."""
    n = adjacency.shape[0]
    indices = np.concatenate([adjacency.indices, starts])
    indptr = np.concatenate([adjacency.indptr, [indices.size]])
    led = sparse.csr_array((np.ones(indices.size), indices, indptr), shape=(n + 1, n + 1))
    order = csgraph.breadth_first_order(led, n, directed=True, return_predecessors=False)
    return np.asarray(order[1:], dtype=np.int64)


def labelled_folds(
    cv: Any,
    nodes: Positions,
    values: NDArray[Any],
    graph: Graphs | None,
    n_rows: int,
    *,
    stratify: bool,
    groups: ArrayLike | None = None,
    random_state: Any = None,
) -> list[Fold]:
    """Positions to train on and to hold out, fold by fold: labelled nodes alone, none in both."""
    if groups is not None and (
        isinstance(cv, (Integral, GraphBlockFold)) or not hasattr(cv, "split")
    ):
        raise ValueError(
            f"groups only means something to a grouped splitter such as GroupKFold(5), cv is {cv!r}."
        )
    if isinstance(cv, GraphBlockFold):
        if graph is None:
            raise ValueError("cv=GraphBlockFold(...) cuts the graph into blocks: pass graph.")
        return list(cv.split(checks.whole(graph), nodes))
    if isinstance(cv, Integral):
        n_splits = _check_n_splits(cv, "cv")
        _check_enough(nodes.size, n_splits, "cv", "labelled node")
        kind = StratifiedKFold if stratify else KFold
        cv = kind(n_splits, shuffle=True, random_state=random_state)
    if hasattr(cv, "split") and not isinstance(cv, str):
        folds = [
            (nodes[train], nodes[test]) for train, test in _split(cv, nodes, values, groups, n_rows)
        ]
    elif isinstance(cv, Iterable) and not isinstance(cv, (str, bytes, Mapping)):
        folds = [_given_fold(pair, number, nodes, n_rows) for number, pair in enumerate(cv)]
    else:
        raise ValueError(
            "cv must be a number of folds, a scikit-learn splitter, an iterable of (train, test) row positions or "
            f"GraphBlockFold(), got {cv!r}."
        )
    if not folds:
        raise ValueError("cv holds no fold: give at least one pair (train, test).")
    for number, (train, test) in enumerate(folds):
        for part, name in ((train, "trains on"), (test, "holds out")):
            if not part.size:
                raise ValueError(
                    f"Fold {number} of cv {name} no labelled node: y must have some there."
                )
        shared = np.intersect1d(train, test)
        if shared.size:
            raise ValueError(
                f"Fold {number} of cv has {shared.size} node(s), such as row {int(shared[0])}, in both train and test: a "
                "label trained on tells nothing about new ones. Leave them out of one."
            )
    return folds


def _split(
    splitter: Any, nodes: Positions, values: NDArray[Any], groups: ArrayLike | None, n_rows: int
) -> list[tuple[Any, Any]]:
    if groups is not None:
        groups = np.asarray(groups)
        if groups.shape != (n_rows,):
            raise ValueError(
                f"groups has shape {groups.shape}, X has {n_rows} rows: give the group of every row."
            )
        groups = groups[nodes]
    try:
        return list(splitter.split(nodes[:, None], values, groups))
    except ValueError as error:
        if groups is None and "groups" in str(error):
            raise ValueError(
                f"cv={splitter!r} needs groups: pass groups=, the group of every row of X."
            ) from None
        raise ValueError(
            f"cv={splitter!r} cannot split the {nodes.size} labelled nodes: {error}"
        ) from None


def _given_fold(pair: Any, number: int, nodes: Positions, n_rows: int) -> Fold:
    if isinstance(pair, Mapping) or not isinstance(pair, (tuple, list)) or len(pair) != 2:
        raise ValueError(
            f"cv[{number}] must be a pair (train, test) of row positions, got {type(pair)}."
        )
    train, test = (
        checks.node_positions(part, n_rows, f"cv[{number}][{side}]")
        for side, part in enumerate(pair)
    )
    return train[np.isin(train, nodes)], test[np.isin(test, nodes)]


def _check_n_splits(n_splits: Any, name: str) -> int:
    if not isinstance(n_splits, Integral) or isinstance(n_splits, bool) or n_splits < 2:
        raise ValueError(f"{name} must be a whole number of at least 2 folds, got {n_splits!r}.")
    return int(n_splits)


def _check_enough(n_nodes: int, n_splits: int, name: str, what: str) -> None:
    if n_nodes < n_splits:
        raise ValueError(
            f"{name}={n_splits} folds need at least a {what} each, there are {n_nodes}: ask for fewer folds."
        )


def _refuse_repeats(folds: list[Fold]) -> None:
    nodes, times = np.unique(np.concatenate([test for _, test in folds]), return_counts=True)
    if times.max() > 1:
        raise ValueError(
            f"return_predictions needs each node held out once, cv holds out row {int(nodes[times.argmax()])} "
            f"{int(times.max())} times: use folds that do not share test nodes, or leave return_predictions out."
        )


def _fit_parameters(given: Mapping[str, Any] | None, by_node: bool) -> dict[str, Any]:
    own = {"nodes", "graph", "eval_set"} if by_node else set()
    clash = sorted(own & set(given or {}))
    if clash:
        raise ValueError(
            f"fit_parameters may not hold {clash[0]!r}: cross_validate itself says what each fold may see. Validation "
            "nodes are drawn from the training nodes of a fold."
        )
    if by_node and not {"checkpoint", "resume"}.isdisjoint(given or {}):
        raise ValueError(
            "fit_parameters may not hold 'checkpoint' or 'resume': a folder of checkpoints is of one fit, and every fold is "
            "another."
        )
    return dict(given or {})


# ---------------------------------------------------------------------- scores


def _scorers(
    scoring: Any, model: Any, classes: NDArray[Any] | None
) -> dict[str, Callable[..., float]]:
    """Scorers by name."""
    if scoring is None:
        scoring = ["r2", "neg_root_mean_squared_error"]
        if classes is not None:
            scoring = ["accuracy", *(["neg_log_loss"] if hasattr(model, "predict_proba") else [])]
    if isinstance(scoring, str):
        scoring = {scoring: scoring}
    elif callable(scoring):
        scoring = {"score": scoring}
    elif isinstance(scoring, (list, tuple)):
        names = [one if isinstance(one, str) else getattr(one, "__name__", None) for one in scoring]
        if None in names or len(set(names)) < len(names):
            raise ValueError(
                "scoring lists scorers without a name or twice the same: use a dict of name to scorer."
            )
        scoring = dict(zip(names, scoring, strict=True))
    if not isinstance(scoring, Mapping) or not scoring:
        raise ValueError(
            "scoring must be a scorer's name such as 'r2', a function scorer(estimator, nodes, y), or a list or dict of "
            f"them, got {scoring!r}."
        )
    found = {}
    for name, one in scoring.items():
        if not isinstance(one, str) and not callable(one):
            raise ValueError(
                f"scoring[{name!r}] must be a scorer's name or a function, got {one!r}."
            )
        if one == "neg_log_loss":
            # The scorer of that name stops where a fold lacks one of the classes, as a block of a graph often does.
            found[name] = make_scorer(
                log_loss, greater_is_better=False, response_method="predict_proba", labels=classes
            )
        else:
            found[name] = check_scoring(model, scoring=one)
    return found


def _score(
    scorer: Callable[..., Any], name: str, answers: Any, nodes: Positions, truth: NDArray[Any]
) -> float:
    value = scorer(answers, nodes, truth)
    if not isinstance(value, Real):
        raise ValueError(f"scoring {name!r} must return a number, it returned {type(value)}.")
    return float(value)


def _can(method: str) -> Callable[[Any], bool]:
    return lambda answers: hasattr(answers.fitted, method)


class _Answers(BaseEstimator):
    """Stands before a scorer in place of the fitted model: where the scorer would pass rows, it passes nodes."""

    def __init__(
        self, fitted: Any, X: Any, held_out: Positions, classes: NDArray[Any] | None
    ) -> None:
        self.fitted = fitted
        self.X = X
        self.held_out = held_out
        self.classes = classes
        self._known: dict[str, NDArray[Any]] = {}
        if classes is not None:
            self.classes_ = classes

    def predict(self, nodes: Positions) -> NDArray[Any]:
        return self._answer("predict", nodes)

    @available_if(_can("predict_proba"))
    def predict_proba(self, nodes: Positions) -> NDArray[Any]:
        """Probabilities of all classes of y: 0 for those the fold was not trained on."""
        given = self._answer("predict_proba", nodes)
        if self.classes is None or given.shape[1] == self.classes.size:
            return given
        padded = np.zeros((len(given), self.classes.size))
        padded[:, np.searchsorted(self.classes, self.fitted.classes_)] = given
        return padded

    @available_if(
        # Unlike a probability, the decision for a class that was not trained on has no value.
        lambda answers: (
            _can("decision_function")(answers)
            and (answers.classes is None or len(answers.fitted.classes_) == answers.classes.size)
        )
    )
    def decision_function(self, nodes: Positions) -> NDArray[Any]:
        return self._answer("decision_function", nodes)

    def _answer(self, method: str, nodes: Positions) -> NDArray[Any]:
        """Ask the model; once for the held-out nodes, however many scorers want to know."""
        if nodes is self.held_out and method in self._known:
            return self._known[method]
        ask = getattr(self.fitted, method)
        answer = np.asarray(
            ask(nodes=nodes) if self.X is None else ask(_safe_indexing(self.X, nodes))
        )
        if nodes is self.held_out:
            self._known[method] = answer
        return answer

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Any:
        return get_tags(self.fitted)
