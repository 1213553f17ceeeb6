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
    """Predicts rows; the column ``neighbors`` lists the fitted nodes that each is connected to."""

    def load_context(self, context: Any) -> None:
        """Read the model file."""
        self.model = eb.load(context.artifacts["model"])

    def predict(self, context: Any, model_input: Any, params: dict[str, Any] | None = None) -> Any:
        """Return predictions with the labels of the neighbours."""
        neighbors = model_input["neighbors"]
        rows = np.repeat(np.arange(len(neighbors)), [len(nodes) for nodes in neighbors])
        nodes = [node for nodes in neighbors for node in nodes]
        return self.model.predict(model_input.drop(columns="neighbors"), attach=(rows, nodes))


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
