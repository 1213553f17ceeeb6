"""A fitted model: predictions for all nodes, for a few, and for tables that lie elsewhere; what it says of itself."""

import os
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, is_classifier
from sklearn.utils.validation import _check_feature_names, check_is_fitted

from ebboost.backends import threads as cores
from ebboost.backends.dask import gathered, is_dask, scores_of
from ebboost.backends.devices import Cpu
from ebboost.boosting.latent_field import LatentField
from ebboost.data import validation as checks
from ebboost.data.labels import Labels
from ebboost.data.parquet import ParquetTable
from ebboost.data.reader import count_rows, rows_of
from ebboost.data.table import Table
from ebboost.graph import Graph, Graphs
from ebboost.model import serialization as modelfile
from ebboost.model.explain import Explanation, explain
from ebboost.model.serving import Predictor
from ebboost.propagation import (
    EdgeWeights,
    IdentityOperator,
    Propagation,
    Robust,
    Smoother,
    threads,
)

Array = NDArray[np.float64]
ONE_THREAD_UP_TO = 4_000_000  # entries of a table
MOST_THREADS = 4 * (os.cpu_count() or 1)  # asked for twenty thousand, LightGBM ends the process


class Fitted(BaseEstimator):
    """What a model can do with what :class:`BaseEBBS` has found."""

    #: Where fields are solved for: during a fit, where it trains.
    _device = Cpu()

    def predictor(
        self, X: Any = None, *, graph: Graphs | None = None, new_labels: Any = None
    ) -> Predictor:
        """Return an object that keeps the predictions of every node and answers for a few of them at once.

        Parameters
        ----------
        X, graph, new_labels
            As in :meth:`predict`; default: the fitted nodes.

        Returns
        -------
        Predictor
            ``predict(nodes)`` looks predictions up, ``update(nodes, rows)`` takes rows that have changed; any number of
            threads may share one.

        Examples
        --------
        >>> import ebboost as eb, numpy as np
        >>> X = np.random.default_rng(0).normal(size=(300, 3))
        >>> g = eb.Graph.build_knn(X[:, :1], k=5)
        >>> m = eb.EBBSRegressor(20, smoothing=eb.Laplacian(), labels="none", random_state=0).fit(X, X[:, 0], graph=g)
        >>> predictor = m.predictor()
        >>> before = predictor.predict([7])
        >>> predictor.update([7], X[[7]] + 1.0)
        >>> bool(predictor.predict([7]) > before)
        True
        """
        return Predictor(self, X, graph, new_labels)

    def _predicted(self, X: Any, graph: Graphs | None, nodes: Any, new_labels: Any) -> Array:
        """Predictions, of the nodes asked for; of another table, what they do not need is not computed."""
        check_is_fitted(self, "ensemble_")
        if X is None and graph is None and new_labels is None:
            predicted = self.raw_predictions_
        elif X is not None and nodes is not None and new_labels is None:
            return self._predicted_near(X, graph, nodes)
        else:
            scores, smoothed, one = self._uncorrected(X, graph)
            predicted = self._finished(
                scores, smoothed, one, self._known(X, new_labels, len(scores))
            )
        return (
            predicted
            if nodes is None
            else predicted[checks.node_positions(nodes, len(predicted), repeats=True)]
        )

    def _predicted_near(self, X: Any, graph: Graphs | None, nodes: Any) -> Array:
        """Predictions of some rows of another table, from those rows alone that they are made of."""
        _check_feature_names(self, named(X), reset=False)
        n_rows = count_rows(X)
        one = None if n_rows is None else self._graph_of(X, n_rows, graph)
        columns, scores_from = self._preparation.hops(one), self._smoothing_hops(one)
        if n_rows is None or columns is None or scores_from is None:
            scores, smoothed, one = self._uncorrected(X, graph)
            rows = checks.node_positions(nodes, len(scores), repeats=True)
            return self._finished(scores, smoothed, one, None)[rows]
        rows = checks.node_positions(nodes, n_rows, repeats=True)
        centre = (
            np.unique(rows) if rows.size else np.zeros(1, dtype=np.int64)
        )  # no table is without a row
        if one is None:
            scores = self._scores(self._preparation.apply(self._read_rows(X, centre), None))
            return self._finished(scores, self.init_score_ + scores, None, None)[
                np.searchsorted(centre, rows)
            ]
        wide = one.neighborhood(centre, columns + scores_from)
        table = self._read_rows(X, wide.nodes)
        with threads(self._threads(table)):
            seen = self._preparation.apply(table, wide.graph)
            near = one.neighborhood(centre, scores_from) if columns else wide
            scores = self._scores(seen.subset(wide.distance <= scores_from) if columns else seen)
            smoothed = self.init_score_ + self._operator(
                self.smoothing_, near.graph, len(scores)
            ).apply(scores)
        return self._finished(scores, smoothed, near.graph, None)[np.searchsorted(near.nodes, rows)]

    def _uncorrected(self, X: Any, graph: Graphs | None) -> tuple[Array, Array, Graph | None]:
        """Base scores f, smoothed scores and graph: of the fitted nodes, or of another table and graph."""
        check_is_fitted(self, "ensemble_")
        if X is None:
            if graph is not None:
                raise ValueError(
                    "graph was given without X: pass predict(X_new, graph=g_new), or neither."
                )
            return self.scores_, self.init_score_ + self.propagated_scores_, self.graph_
        if is_dask(X) and not self._preparation.uses_graph:
            return self._uncorrected_blocks(X, graph)
        (X,) = gathered(X)  # columns of neighbours are made here, not where the blocks are
        table = self._read(X)
        one = self._graph_of(X, table.n_rows, graph)
        with threads(self._threads(table)):
            scores = self._scores(self._preparation.apply(table, one))
            smoothed = self._operator(self.smoothing_, one, table.n_rows).apply(scores)
        return scores, self.init_score_ + smoothed, one

    def _uncorrected_blocks(
        self, X: Any, graph: Graphs | None
    ) -> tuple[Array, Array, Graph | None]:
        """The same of a Dask collection, whose trees are summed where its blocks are."""
        _check_feature_names(self, named(X), reset=False)
        scores = scores_of(X, self)
        one = self._graph_of(None, len(scores), graph)
        return (
            scores,
            self.init_score_ + self._operator(self.smoothing_, one, len(scores)).apply(scores),
            one,
        )

    def _scores(self, table: Table) -> Array:
        """Scores f of a prepared table."""
        return np.vstack([self.ensemble_.predict(block) for block in table.blocks()])

    def _read(self, X: Any) -> Table:
        """Another table, refused if its columns are not those fitted on."""
        _check_feature_names(self, named(X), reset=False)
        table = self._reader.read(*gathered(X))
        checks.check_n_features(table, self.n_features_in_, type(self).__name__)
        return table

    def _read_rows(self, X: Any, rows: NDArray[np.int64]) -> Table:
        """Some rows of another table."""
        try:
            return self._read(rows_of(X, rows))
        except (TypeError, ValueError):
            self._read(X)  # to name the place as the user counts
            raise

    def _graph_of(self, X: Any, n_rows: int, graph: Graphs | None) -> Graph | None:
        """The graph of another table, refused if it is missing, does not fit, or is one too many."""
        if self.graph_ is not None and graph is None:
            raise ValueError(
                "This model was fitted on a graph, so a prediction needs one: call predict() for the fitted nodes, or "
                "predict(X_new, graph=g_new) with the graph of the new rows."
            )
        if self.graph_ is None and graph is not None:
            raise ValueError(
                "graph was given, but this model was fitted without one: call predict(X)."
            )
        checks.check_graph(graph, n_rows, X)
        return self._one_graph(graph)

    def _one_graph(self, graph: Graphs | None) -> Graph | None:
        """The graph itself, or the fitted mixture of its relations."""
        fitted = self.relation_strengths_
        if graph is None or (isinstance(graph, Graph) and fitted is None):
            return graph
        if fitted is None:
            raise TypeError(f"This model was fitted on one graph, got the relations {list(graph)}.")  # type: ignore[arg-type]
        if isinstance(graph, Graph):
            raise TypeError(
                f"This model was fitted on the relations {list(fitted)}: pass a dict with a graph for each."
            )
        return Graph.mix(graph, fitted)

    @staticmethod
    def _operator(smoothing: Smoother | None, graph: Graph | None, n_rows: int) -> Propagation:
        return (
            IdentityOperator(n_rows)
            if smoothing is None or graph is None
            else smoothing.operator(graph)
        )

    def _smoothing_hops(self, graph: Graph | None) -> int | None:
        return 0 if graph is None or self.smoothing_ is None else self.smoothing_.hops(graph)

    def _field(self, graph: Graph | None, known: Labels | None) -> Any:
        """The field of known labels, if there are any and the model uses it."""
        if graph is None or known is None or not isinstance(self.labels_, LatentField):
            return None
        return self._device.field(self.labels_, graph, known)

    def _known(self, X: Any, new_labels: Any, n_rows: int) -> Labels | None:
        """Labels that a prediction may use: the training labels of fitted nodes, and those handed over."""
        own = self._training if X is None and self.labels_ is not None else None
        if new_labels is None:
            return own
        if self.labels_ is None:
            raise ValueError(
                "new_labels was given, but this model makes no use of labels at prediction (labels='none', or "
                "'auto' chose no field). Fit with labels='field'."
            )
        taken = np.zeros(0, dtype=np.int64) if own is None else own.nodes
        nodes, values = checks.extra_labels(
            new_labels, taken, n_rows, is_classifier(self), "new_labels"
        )
        handed = Labels(nodes, self._target(values, "new_labels"), np.ones(nodes.size))
        if own is None:
            return handed
        return own.concat(Labels(nodes, handed.target, np.full(nodes.size, own.weight.mean())))

    def _threads(self, table: Table) -> int:
        """A number that was given; otherwise the cores that are ours, or one where threads cost more than they bring."""
        if self.n_jobs is None:
            small = table.values.size < ONE_THREAD_UP_TO
            return 1 if small else cores.usable(only_physical=True)
        return cores.usable() if self.n_jobs == -1 else min(int(self.n_jobs), MOST_THREADS)

    def explain(self, nodes: Any, X: Any = None) -> list[Explanation]:
        """Take the predictions of fitted nodes apart, each as an exact sum.

        Parameters
        ----------
        nodes : array-like of int
            Rows to explain.
        X : table, optional
            The table fitted on; needed after loading from a file or a pickle, which do not keep it.

        Returns
        -------
        list of Explanation
            For each node what its own columns, its neighbours' columns and its neighbours' labels add to the score, which
            together with the base are the score itself.
        """
        check_is_fitted(self, "ensemble_")
        table = self._fitted_table
        if X is not None:
            table = self._read(X)
            checks.check_n_rows(table, len(self.scores_))
        with threads(1 if table is None else self._threads(table)):
            return explain(
                self, checks.node_positions(np.atleast_1d(nodes), len(self.scores_)), table
            )

    def edge_weights(self) -> EdgeWeights:
        """Which edges robust smoothing trusts: the attention weight of each, the mean of ρ' over the steps.

        Returns
        -------
        EdgeWeights(source, target, weight)
            Each edge of the fitted graph once, source < target, by rows. 1 leaves it as it is, 0 cuts it.

        Examples
        --------
        >>> import ebboost as eb, numpy as np
        >>> X = np.repeat([[0.0], [1.0]], 30, axis=0)  # two groups, each a path, and one edge between them
        >>> g = eb.Graph.from_edges(np.arange(59), np.arange(1, 60))
        >>> robust = eb.Robust(penalty="geman-mcclure", scale=0.5)
        >>> m = eb.EBBSRegressor(50, smoothing=robust, labels="none", random_state=0).fit(X, 10 * X[:, 0], graph=g)
        >>> source, target, weight = m.edge_weights()
        >>> int(source[weight.argmin()]), int(target[weight.argmin()])
        (29, 30)
        """
        check_is_fitted(self, "ensemble_")
        if not isinstance(self.smoothing_, Robust) or self.graph_ is None:
            raise ValueError(
                f"Only robust smoothing gives edges weights of their own, and this model was fitted with {self.smoothing_}: "
                "use smoothing=eb.Robust(...) and a graph."
            )
        return self.smoothing_.operator(self.graph_).edge_weights(self.scores_)

    @property
    def feature_importances_(self) -> Array:
        """Share of each column of X in the gain of the trees, what was made of it included; adds up to 1."""
        check_is_fitted(self, "ensemble_")
        folded = self._preparation.folded(
            self.ensemble_.importances(), self._column_origin, self.n_features_in_
        )
        total = folded.sum()
        return folded / total if total > 0 else folded

    def summary(self) -> str:
        """Describe the fitted model in a few lines: what was chosen and why, and which labels a prediction uses."""
        check_is_fitted(self, "ensemble_")
        lines = [f"{type(self).__name__}: {self.n_iter_} rounds, {self.stop_reason_}"]
        how = {"none": "not used", "as given": "used as given"}.get(
            self.best_candidate_, f"used ({self.best_candidate_})"
        )
        lines.append(f"graph       {'none given' if self.graph_ is None else how}")
        if self.relation_strengths_ is not None:
            shares = ", ".join(
                f"{name} {strength:.3g}" for name, strength in self.relation_strengths_.items()
            )
            lines.append(
                f"relations   {shares}; {'read off the labels' if self.relations == 'auto' else 'as given'}"
            )
        if self.selection_:
            reached = ", ".join(
                f"{name} {loss:.4g}"
                for name, loss in sorted(self.selection_.items(), key=lambda kv: kv[1])
            )
            lines.append(f"chosen by   validation loss after a few rounds: {reached}")
        if self.graph_ is not None and getattr(self, "_from_disk", False):
            lines.append(
                "columns     those of the file: what is made from neighbours' needs the table in memory"
            )
        told = getattr(self, "cluster_", None)  # a file does not keep it
        if told is not None:
            lines.append(
                f"trained by  {told['n_workers']} workers; {told['calls']:,} sums of {told['bytes']:,} bytes"
            )
        lines.append(f"smoothing   {self.smoothing_}")
        uses = "the labels given to fit, and what predict(new_labels=...) adds"
        lines.append(
            f"labels      {self.labels_}; at prediction: {uses if self.labels_ is not None else 'none'}"
        )
        return "\n".join(lines + self._summary_lines())

    def _repr_html_inner(self) -> str:
        """scikit-learn's diagram and, once fitted, the summary below it."""
        diagram: str = super()._repr_html_inner()
        if not hasattr(self, "ensemble_"):
            return diagram
        return f'{diagram}<pre style="margin:0.5em 0 0;font-size:85%;white-space:pre-wrap">{escape(self.summary())}</pre>'

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)
        return bundle | ({"text/html": self._repr_html_inner()} if "text/html" in bundle else {})

    def save(self, path: str | os.PathLike[str], *, table: bool = False) -> None:
        """Write the fitted model to one file, without pickle; read it back with ``ebboost.load``.

        Parameters
        ----------
        path : path
        table : bool, default=False
            Whether the file also holds the table fitted on, so that predictions can be explained without it. The graph and
            the labels are always in it.
        """
        check_is_fitted(self, "ensemble_")
        if table and self._fitted_table is None:
            raise ValueError(
                "table=True, but this model has no table: it was loaded from a file or a pickle without one, or trained on "
                "a ParquetTable or a Dask collection, which stay where they are."
            )
        modelfile.save(self, path, table)

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        return (
            state | {"_fitted_table": None, "_fitted_columns": None}
            if "_fitted_table" in state
            else state
        )


def named(X: Any) -> Any:
    """What scikit-learn reads the names of columns from."""
    return X.empty if isinstance(X, ParquetTable) else X._meta if is_dask(X) else X
