"""``ebboost explain``: a prediction as a sum of what columns, neighbours and labels add."""

from typing import Annotated, Any

import numpy as np
import typer
from rich.text import Text

from ebboost.cli import console, inputs
from ebboost.estimators import EBBSClassifier
from ebboost.inspection.formatting import count, figure, percent
from ebboost.model.explain import Explanation, round_to_sum

SIGNIFICANT_DIGITS = 6
_TOP = "How many parts to list of each kind."
Part = tuple[str, str, float]


def explain(
    model_file: inputs.ModelFile,
    nodes: Annotated[list[str], typer.Argument(metavar="NODE...", help="Ids of nodes.")],
    top: Annotated[int, inputs.option("--top", "NUMBER", _TOP, min=1)] = 8,
    as_json: inputs.Json = False,
) -> None:
    """Explain predictions: base + columns + neighbours' columns + neighbours' labels = score."""
    model = inputs.load_model(model_file)
    ids = inputs.node_ids(model)
    rows = inputs.rows_of(model, model_file, nodes)
    with console.progress("explaining"):
        explanations = model.explanations(rows)
    results = [_as_dict(explanation, model, ids) for explanation in explanations]
    if as_json:
        console.print_json(results)
        return
    for result in results:
        _print_explanation(result, top, model.n_features_in_)


def _as_dict(explanation: Explanation, model: inputs.Model, ids: list[str]) -> dict[str, Any]:
    result: dict[str, Any] = {
        "node": ids[explanation.node],
        "score": explanation.score,
        "base": explanation.base,
        "offset": explanation.offset,
        "own_columns": explanation.own,
        "neighbour_columns": {ids[row]: value for row, value in explanation.neighbors.items()},
        "labels": {ids[row]: value for row, value in explanation.labels.items()},
    }
    if not isinstance(model, EBBSClassifier):
        return result | {"prediction": float(model.predict(nodes=[explanation.node])[0])}
    probabilities = model.predict_proba(nodes=[explanation.node])[0]
    explained = explanation.output if len(model.classes_) > 2 else 1
    return result | {
        "prediction": model.classes_[probabilities.argmax()],
        "probability": float(probabilities.max()),
        "class_explained": model.classes_[explained],
    }


def _print_explanation(result: dict[str, Any], top: int, n_features: int) -> None:
    prediction = result["prediction"]
    if "class_explained" in result:
        probability = percent(result["probability"], 1)
        prediction = f"{prediction} ({probability}); score of {result['class_explained']}"
    else:
        prediction = figure(prediction, SIGNIFICANT_DIGITS)
    own = result["own_columns"]
    neighbours = ", neighbours' columns included" if len(own) > n_features else ""
    parts: list[Part] = [("base", "the same for every node", result["base"])]
    if result["offset"]:
        parts.append(("offset", "of this node", result["offset"]))
    parts += _largest("column", own, top, "other column", neighbours)
    parts += _largest("score of node", result["neighbour_columns"], top, "other node")
    parts += _largest("label of node", result["labels"], top, "other node")
    values = [value for *_, value in parts]
    largest = max(map(abs, [*values, sum(values), 1e-300]))
    decimals = int(np.clip(SIGNIFICANT_DIGITS - 1 - np.floor(np.log10(largest)), 0, 12))
    title = f"node {result['node']}: prediction {prediction}"
    table = console.column_table("", "part", ">adds", title=title)
    rounded = round_to_sum(values, decimals)  # they add up to their rounded sum
    for (kind, name, _), value in zip(parts, rounded, strict=True):
        table.add_row(kind, Text(name), f"{value:+,.{decimals}f}")
    table.add_section()
    table.add_row("sum", "score", f"{sum(values):,.{decimals}f}", style="bold")
    console.terminal().print(table)


def _largest(
    kind: str, values: dict[str, float], top: int, other: str, remark: str = ""
) -> list[Part]:
    """The largest parts of one kind, and the sum of the others."""
    ranked = sorted(values.items(), key=lambda item: -abs(item[1]))
    parts = [(kind, str(name), value) for name, value in ranked[:top]]
    if ranked[top:]:
        rest = sum(value for _, value in ranked[top:])
        parts.append((kind, count(len(ranked) - top, other) + remark, rest))
    return parts
