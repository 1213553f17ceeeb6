"""A table, its labels and its edges in Parquet, for fits whose nodes stay on workers."""

import numpy as np
import pandas as pd

import ebboost as eb

N = 600
COLUMNS = list("abc")
PARTS = {"smoothing": eb.Laplacian(1.0, 2), "labels": "field", "early_stopping": False}
SETTINGS = {"learner": "xgboost", "random_state": 0, **PARTS}


class Nodes:
    """The data in memory, and as Dask and Parquet have it."""

    def __init__(self, folder):
        random = np.random.default_rng(0)
        X = random.integers(0, 40, size=(N, 3)) / 10.0
        self.graph = eb.Graph.build_knn(X[:, :2] + 0.01 * random.normal(size=(N, 2)), k=4)
        ids = np.array([f"node {i}" for i in random.permutation(N)], dtype=object)
        source, target = self.graph.adjacency.nonzero()
        self.path = folder / "edges.parquet"
        edges = pd.DataFrame({"from": ids[source], "to": ids[target]})
        edges.to_parquet(self.path, row_group_size=500)
        self.frame = pd.DataFrame(X, columns=COLUMNS).assign(id=ids)
        self.truth = np.sin(2 * X[:, 0]) + X[:, 2] + 0.2 * random.normal(size=N)
        self.frame["y"] = np.where(random.random(N) < 0.5, np.nan, self.truth)

    @property
    def lazy(self):
        """The table as a Dask dataframe, and the graph that its workers read."""
        import dask.dataframe as dd

        nodes = dd.from_pandas(self.frame, npartitions=5)
        return nodes, eb.ParquetGraph(self.path, ids=nodes["id"])

    def fit(self, model, **arguments):
        """Fit on the workers."""
        nodes, edges = self.lazy
        arguments = {"y": nodes["y"], "graph": edges, **arguments}
        return model.fit(nodes[COLUMNS], **arguments)

    def fit_here(self, model, **arguments):
        """Fit in this process."""
        arguments = {"y": self.frame["y"], "graph": self.graph, **arguments}
        return model.fit(self.frame[COLUMNS], **arguments)
