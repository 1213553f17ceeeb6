"""Where the predictions of a fitted model come from."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ebboost.backends.threads import threads_for
from ebboost.data import validation as checks
from ebboost.data.types import TableLike
from ebboost.model.attributes import LearnedAttributes
from ebboost.model.explain import Explanation, contribution_rows, explain, tree_table
from ebboost.model.frames import as_frame
from ebboost.model.inputs import fitted_table
from ebboost.model.shards import explain_shards
from ebboost.propagation import EdgeWeights, Robust, threads


class ExplainedModel(LearnedAttributes):
    """A model whose predictions are sums of contributions."""

    def explain(self, nodes: ArrayLike, X: TableLike = None, *, decimals: int | None = None) -> Any:
        """Return the predictions of fitted nodes as a table of contributions that add up to them.

        Parameters
        ----------
        nodes : array-like of int
            Rows to explain.
        X : table, optional
            The table fitted on; needed after loading from a file or a pickle, which do not hold it.
        decimals : int, optional
            Round so that the contributions to a node add up to its rounded score, to the digit.

        Returns
        -------
        dataframe of pandas, polars or pyarrow, whichever is installed
            ``node``; ``part``: ``"base"``, ``"offset"``, ``"column"`` (the node's own, by
            TreeSHAP), ``"column of neighbours"``, ``"score of node"`` (the columns of another node,
            through the smoothing) or ``"label of node"`` (through the latent field); ``name`` of
            the column or row of the node; ``contribution`` to the score, that is before the inverse
            link.

        Examples
        --------
        >>> import ebboost as eb, numpy as np
        >>> X = np.arange(60.0)[:, None]
        >>> model = eb.EBBSRegressor(20, labels="none", random_state=0).fit(X, X[:, 0])
        >>> table = model.explain([30], decimals=2)
        >>> bool(np.isclose(table["contribution"].sum(), np.round(model.predict()[30], 2)))
        True
        """
        return as_frame(contribution_rows(self.explanations(nodes, X), self.state_, decimals))

    def explanations(self, nodes: ArrayLike, X: TableLike = None) -> list[Explanation]:
        """Return the predictions of fitted nodes as exact sums of contributions, to print or plot.

        Parameters
        ----------
        nodes : array-like of int
            Rows to explain.
        X : table, optional
            The table fitted on; needed after loading from a file or a pickle, which do not hold it.

        Returns
        -------
        list of Explanation
            For each node the contributions of its own columns, of its neighbours' columns and of
            its neighbours' labels to the score.

        Examples
        --------
        >>> import ebboost as eb, numpy as np
        >>> X = np.arange(60.0)[:, None]
        >>> model = eb.EBBSRegressor(20, labels="none", random_state=0).fit(X, X[:, 0])
        >>> one = model.explanations([30])[0]
        >>> bool(np.isclose(one.base + sum(one.own.values()), model.predict()[30]))
        True
        """
        state = self.state_
        if state.shards is not None:
            rows = checks.node_positions(np.atleast_1d(nodes), state.shards.n_nodes)
            return explain_shards(state.shards, rows)
        table = fitted_table(state, X)
        rows = checks.node_positions(np.atleast_1d(nodes), state.n_nodes)
        with threads(threads_for(state.n_jobs, table)):
            return explain(state, rows, table)

    def tree_features(self, X: TableLike = None) -> Any:
        """Return the columns that the trees of ``ensemble_`` use, by name: those of X and others.

        Parameters
        ----------
        X : table, optional
            The table fitted on; needed after loading from a file or a pickle, which do not hold it.

        Returns
        -------
        dataframe of pandas, polars or pyarrow, whichever is installed
            A row for each fitted node; categories are codes. For tools that read boosters, e.g.
            ``shap.TreeExplainer(model.ensemble_.booster)(model.tree_features())``.

        Examples
        --------
        >>> import ebboost as eb, pandas as pd
        >>> X = pd.DataFrame({"size": range(60)}, dtype=float)
        >>> g = eb.Graph.build_knn(X, k=2)
        >>> parts = {"neighbor_features": eb.NeighborFeatures(("mean",)), "random_state": 0}
        >>> model = eb.EBBSRegressor(5, **parts).fit(X, X["size"], graph=g)
        >>> "mean(size)" in model.tree_features().columns
        True
        """
        state = self.state_
        table = tree_table(state, fitted_table(state, X))
        values = table.values.toarray() if table.is_sparse else np.asarray(table.values)
        return as_frame(dict(zip(table.names, values.T, strict=True)))

    def edge_weights(self) -> EdgeWeights:
        """Return how robust smoothing weights each edge: the mean of ρ' over its steps.

        Returns
        -------
        EdgeWeights(source, target, weight)
            Each edge of the fitted graph once, source < target. 1: as it is, 0: removed.

        Examples
        --------
        >>> import ebboost as eb, numpy as np
        >>> X = np.repeat([[0.0], [1.0]], 30, axis=0)  # two paths, and one edge between them
        >>> g = eb.Graph.from_edges(np.arange(59), np.arange(1, 60))
        >>> robust = eb.Robust(penalty="geman-mcclure", scale=0.5)
        >>> m = eb.EBBSRegressor(50, smoothing=robust, labels="none", random_state=0)
        >>> source, target, weight = m.fit(X, 10 * X[:, 0], graph=g).edge_weights()
        >>> int(source[weight.argmin()]), int(target[weight.argmin()])
        (29, 30)
        """
        state = self.state_
        smoothing = state.candidate.smoothing
        if not isinstance(smoothing, Robust) or state.graph is None:
            text = "edge_weights needs smoothing=eb.Robust(...) and a graph; this model has"
            raise ValueError(f"{text} {smoothing}.")
        return smoothing.operator(state.graph).edge_weights(state.scores)
