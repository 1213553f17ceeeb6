"""A model behind HTTP: look up nodes, replace their rows, predict new rows by their edges.

    EBBOOST_MODEL=houses.ebb uvicorn service:app

Save the model with its table, ``model.save("houses.ebb", table=True)``, so that rows can change.
Nodes are named by their ids, or by their rows where the graph has none.
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

    nodes: list[int | str]


class NewRows(Rows):
    """Rows that were not fitted, and their edges (row, fitted node, weight)."""

    edges: list[tuple[int, int | str, float]]


def create_app(path: str | Path) -> FastAPI:
    """Return the application for a model file."""
    model = eb.load(path)
    predictor = model.predictor()
    columns = list(model.feature_names_in_)
    ids = range(len(predictor.predict())) if model.graph_ is None else model.graph_.node_ids
    positions = {str(name): position for position, name in enumerate(ids)}
    app = FastAPI(title="ebboost", version=eb.__version__)

    def table(rows: list[dict[str, Any]]) -> pd.DataFrame:
        unknown = {name for row in rows for name in row} - {*columns}
        if unknown:
            raise ValueError(f"rows have columns {sorted(unknown)}, the model has {columns}.")
        return pd.DataFrame(rows, columns=columns)

    def find(nodes: list[int | str]) -> list[int]:
        unknown = [node for node in nodes if str(node) not in positions]
        if unknown:
            raise ValueError(f"The model has no node {unknown[0]!r}.")
        return [positions[str(node)] for node in nodes]

    @app.exception_handler(ValueError)
    def reject(request: object, error: ValueError) -> JSONResponse:
        return JSONResponse({"detail": str(error)}, 422)

    @app.get("/health")
    def health() -> dict[str, Any]:
        return {"version": eb.__version__, "nodes": len(predictor.predict())}

    @app.get("/predictions")
    def look_up(
        node: Annotated[list[str], Query()], interval: float | None = None
    ) -> dict[str, list[Any]]:
        if interval is None:
            return {"prediction": predictor.predict(find(node)).tolist()}
        intervals = predictor.predict(find(node), interval=interval)
        return {name: values.tolist() for name, values in intervals._asdict().items()}

    @app.put("/rows")
    def replace(changed: ChangedRows) -> dict[str, list[Any]]:
        nodes = find(changed.nodes)
        predictor.update(nodes, table(changed.rows))
        return {"prediction": predictor.predict(nodes).tolist()}

    @app.post("/predictions")
    def predict(new: NewRows) -> dict[str, list[Any]]:
        rows, nodes, weight = map(list, zip(*new.edges, strict=True)) if new.edges else ([],) * 3
        attach = (rows, [ids[position] for position in find(nodes)], weight)
        return {"prediction": model.predict(table(new.rows), attach=attach).tolist()}

    return app


if "EBBOOST_MODEL" in os.environ:
    app = create_app(os.environ["EBBOOST_MODEL"])
