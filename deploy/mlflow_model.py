"""A model in MLflow: log it with its file, load it as a pyfunc, predict new rows by their edges.

MLflow runs this file when it loads the model ("models from code"): nothing is pickled.
"""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import mlflow
import numpy as np

import ebboost as eb


class GraphModel(mlflow.pyfunc.PythonModel):
    """Predicts rows by their edges to fitted nodes.

    The column ``neighbors`` lists the nodes that each row is connected to; the column ``weights``,
    if there is one, the weights of these edges.
    """

    def load_context(self, context: Any) -> None:
        """Read the model file."""
        self.model = eb.load(context.artifacts["model"])

    def predict(self, context, model_input, params=None):  # MLflow warns of hints
        """Return predictions with the labels of the neighbours."""
        if "neighbors" not in model_input:
            raise ValueError("The column 'neighbors' is missing: a list of fitted nodes per row.")
        edges = model_input[["neighbors", *{"weights"} & {*model_input.columns}]]
        rows = np.repeat(np.arange(len(edges)), edges["neighbors"].map(len))
        attach = (rows, *([one for part in edges[name] for one in part] for name in edges))
        return self.model.predict(model_input.drop(columns=[*edges]), attach=attach)


def log_model(model: Any, name: str = "model") -> Any:
    """Log a fitted model in the active run and return what MLflow says of it."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "model.ebb")
        model.save(path, table=True)  # neighbour columns of new rows are computed from it
        return mlflow.pyfunc.log_model(
            name=name,
            python_model=str(Path(__file__).resolve()),
            artifacts={"model": str(path)},
            pip_requirements=[f"ebboost=={eb.__version__}", "pandas"],
        )


mlflow.models.set_model(GraphModel())
