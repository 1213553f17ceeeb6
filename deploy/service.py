"""A model behind HTTP: look up nodes, replace their rows, predict new rows by their edges.

    EBBOOST_MODEL=houses.ebb uvicorn service:app

Save the model with its table, ``model.save("houses.ebb", table=True)``, so that rows can change.
Threads share one predictor. Changed rows are in the memory of one process: start one worker, or
send updates to all of them.
"""

import os
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
from fastapi import FastAPI, Query
from fastapi.responses import JSONResponse
from pydantic import BaseModel

import ebboost as eb


class Rows(BaseModel):
    """Rows of the table by column name; missing columns and nulls are missing values."""

    rows: list[dict[str, Any]]


class ChangedRows(Rows):
    """New contents of the rows of fitted nodes."""

    nodes: list[int]


class NewRows(Rows):
    """Rows that were not fitted, and their edges (row, fitted node, weight)."""

    edges: list[tuple[int, int | str, float]]


def create_app(path: str | Path) -> FastAPI:
    """Return the application for a model file."""
    model = eb.load(path)
    predictor = model.predictor()
    app = FastAPI(title="ebboost", version=eb.__version__)

    def table(rows: list[dict[str, Any]]) -> pd.DataFrame:
        return pd.DataFrame(rows, columns=list(model.feature_names_in_))

    @app.exception_handler(ValueError)
    def reject(request: object, error: ValueError) -> JSONResponse:
        return JSONResponse({"detail": str(error)}, 422)

    @app.get("/health")
    def health() -> dict[str, Any]:
        return {"version": eb.__version__, "nodes": len(predictor.predict())}

    @app.get("/predictions")
    def look_up(
        node: Annotated[list[int], Query()], interval: float | None = None
    ) -> dict[str, list[Any]]:
        if interval is None:
            return {"prediction": predictor.predict(node).tolist()}
        intervals = predictor.predict(node, interval=interval)
        return {name: values.tolist() for name, values in intervals._asdict().items()}

    @app.put("/rows")
    def replace(changed: ChangedRows) -> dict[str, list[Any]]:
        predictor.update(changed.nodes, table(changed.rows))
        return {"prediction": predictor.predict(changed.nodes).tolist()}

    @app.post("/predictions")
    def predict(new: NewRows) -> dict[str, list[Any]]:
        attach = tuple(map(list, zip(*new.edges, strict=True)))
        return {"prediction": model.predict(table(new.rows), attach=attach).tolist()}

    return app


if "EBBOOST_MODEL" in os.environ:
    app = create_app(os.environ["EBBOOST_MODEL"])
