"""The panel of the report that explains single rows: each a sum of contributions."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ebboost._common import IntArray
from ebboost.explain import Explanation, explain
from ebboost.formatting import date, number, percent, shorten
from ebboost.inspection.diagnostics import Context, column_kind
from ebboost.inspection.html import Html, bar, folded, joined, missing, table, tag

MAX_EXPLAINED = 8  # of each kind
MAX_PARTS = 8
LARGE_GRAPH = 50_000  # an explanation solves a system on the graph: fewer of a large one
Part = tuple[str, float]


def explained_rows(context: Context, of_user: IntArray) -> Html:
    """Return rows by the reason to explain them, each with its contributions."""
    if context.table is None:
        return missing("Explanations need the table: save the model with table=True, or pass X.")
    groups = rows_to_explain(context, of_user)
    rows = np.array([row for own in groups.values() for row in own], dtype=np.int64)
    parts = {one.node: one for one in explain(context.model, rows, context.table)}
    result = []
    for name, own in groups.items():
        details = [_row(context, parts[row]) for row in own]
        result.append(tag("div", joined(tag("h3", name), *details)))
    return tag("div", joined(*result), "halves")


def rows_to_explain(context: Context, of_user: IntArray, seed: int = 0) -> dict[str, list[int]]:
    """Return rows by the reason to explain them, each row once; those of the user come first."""
    model, held, plain = context.model, context.held, context.plain
    random = np.random.default_rng(seed)
    limit = max(MAX_EXPLAINED * LARGE_GRAPH // max(model.n_rows, LARGE_GRAPH), 2)
    groups: dict[str, list[int]] = {}
    chosen: set[int] = set()

    def add(name: str, rows: IntArray, most: int = limit) -> None:
        new = [row for row in dict.fromkeys(rows.tolist()) if row not in chosen][:most]
        chosen.update(new)
        if new:
            groups[name] = new

    add("Your rows", of_user, of_user.size)
    if held is not None:
        add("Largest errors", held.rows[np.argsort(-np.abs(held.residual), kind="stable")])
        if plain is not None:
            change = np.abs(held.residual) - np.abs(plain.residual)
            add("Graph helped most", held.rows[np.argsort(change, kind="stable")])
            add("Graph hurt most", held.rows[np.argsort(-change, kind="stable")])
        add("Labelled rows at random", random.permutation(held.rows))
    known = np.concatenate([model.labels.rows, model.unseen.rows])
    unknown = np.setdiff1d(np.arange(model.n_rows), known)
    add("Rows to predict at random", random.permutation(unknown))
    if len(chosen) < limit:
        add("At random", random.permutation(model.n_rows))
    return groups


def _row(context: Context, part: Explanation) -> Html:
    """One row: its prediction and label, and tables of contributions."""
    model, row = context.model, part.node
    classes = model.output.classes
    names = set(model.reader.names)
    own: dict[Any, float] = {}
    near: dict[Any, float] = dict(part.neighbors.items())
    place = 0.0
    for name, value in part.own.items():
        kind = column_kind(name, names)
        if kind == "own":
            own[name] = value
        elif kind == "neighbours":
            near[name] = value
        else:
            place += value
    labels = {other: value for other, value in part.labels.items() if other != row}
    predicted = _prediction(context, model.raw[[row]])
    facts = {"Predicted": predicted}
    position = np.flatnonzero(model.unseen.rows == row)
    label = _label(context, row)
    if label:
        facts["True"] = label
    uses_label = bool(part.labels.get(row))
    if position.size:
        unseen = model.unseen.raw[position[:1]]
        name = (
            "Predicted without its own label"
            if uses_label
            else "Predicted by models not trained on it"
        )
        facts[name] = _prediction(context, unseen)
        if classes is None:
            error = float(model.unseen.target[position[0], 0]) - float(
                model.output.decode(unseen)[0]
            )
            facts["Residual of that"] = number(error, 3)
    if model.places is not None and model.places.are_rows:
        facts["Neighbours"] = f"{model.places.graph.neighbors(row).size:,}"
    sums = [("Base, the same for all rows", part.base), ("Offset or exposure", part.offset)]
    sums += [("Own columns", sum(own.values())), ("Columns of neighbours", sum(near.values()))]
    sums += [("Place in the graph", place), ("Labels of other rows", sum(labels.values()))]
    sums.append(("Its own label", part.labels.get(row, 0.0)))
    sums += [(f"Group {name}", effect) for name, effect in part.groups.items()]
    sums = [sums[0], *(one for one in sums[1:] if one[1])]
    total = "Score"
    if classes is not None:
        output = 1 if model.n_outputs == 1 else part.output
        total = f"Score of {shorten(classes[output])}, in log-odds"
    elif model.output.loss.log_link:
        total = "Score, the logarithm of the prediction"
    tables = [_sum_table("Sum of contributions", sums, total)]

    def name_of(key: Any) -> str:
        return shorten(key) if isinstance(key, str) else context.name(key)

    def with_cell(key: Any) -> str:
        return f"{shorten(key)} = {_cell(context, row, key)}" if key in names else shorten(key)

    def with_label(key: Any) -> str:
        return f"{context.name(key)}, labelled {_label(context, key)}"

    tables += [
        _sum_table(title, _largest(parts, one))
        for title, parts, one in (
            ("Own columns", own, with_cell),
            ("Columns of neighbours", near, name_of),
            ("Labels of other rows", labels, with_label),
        )
        if any(parts.values())
    ]
    boxes = [tag("div", joined(tag("dt", key), tag("dd", value))) for key, value in facts.items()]
    after = f", true {label}" if label else ""
    title = f"{context.name(row)}: predicted {predicted}{after}"
    return folded(joined(tag("dl", joined(*boxes), "facts"), *tables), title)


def _prediction(context: Context, raw: Any) -> str:
    """A prediction as text, of a class with its probability."""
    output = context.model.output
    if output.classes is None:
        return number(float(output.decode(raw)[0]))
    probabilities = output.apply_link(raw)[0]
    best = int(probabilities.argmax())
    return f"{shorten(output.classes[best])} ({percent(float(probabilities[best]))})"


def _label(context: Context, row: int) -> str:
    """The known label of a row as text, empty where it is unknown."""
    model = context.model
    for rows, target in (
        (model.labels.rows, model.labels.target),
        (model.unseen.rows, model.unseen.target),
    ):
        (index,) = np.nonzero(rows == row)
        if index.size:
            own = target[index[0]]
            if model.output.classes is None:
                return number(float(own[0]))
            code = int(own[0]) if own.size == 1 else int(own.argmax())
            return shorten(model.output.classes[code])
    return ""


def _cell(context: Context, row: int, name: str) -> str:
    """The value of a column, as the user wrote it."""
    table = context.table
    assert table is not None
    column = table.names.index(name)
    value = float(table.values[row, column])
    if np.isnan(value):
        return "missing"
    categories = context.model.reader.categories.get(column)
    if categories is not None:
        return shorten(categories[int(value)])
    return date(value) if column in table.dates else number(value)


def _largest(parts: Mapping[Any, float], name: Any) -> list[Part]:
    """The largest contributions, and the sum of the others."""
    ranked = sorted(
        ((key, value) for key, value in parts.items() if value), key=lambda p: -abs(p[1])
    )
    shown = [(name(key), value) for key, value in ranked[:MAX_PARTS]]
    if rest := ranked[MAX_PARTS:]:
        shown.append((f"{len(rest):,} more", sum(value for _, value in rest)))
    return shown


def _sum_table(caption: str, parts: list[Part], total: str = "") -> Html:
    """Contributions with the same decimals, rounded so that they add up, and bars.

    Of a sum with a total, the first is the base, which has no bar.
    """
    own_parts = parts[1:] if total else parts
    largest = max((abs(value) for _, value in own_parts), default=0.0) or 1.0
    decimals = int(np.clip(2 - np.floor(np.log10(largest)), 0, 8))
    rounded = round_to_sum([value for _, value in parts], decimals)
    rows: list[list[object]] = [
        [name, f"{own:+,.{decimals}f}", bar(value / largest)]
        for (name, value), own in zip(parts, rounded, strict=True)
    ]
    if total:
        rows[0][2] = Html("")
        rows.append([total, f"{sum(rounded):,.{decimals}f}", Html("")])
    return table(caption, [caption, "adds", ""], rows, "sum total" if total else "sum")


def round_to_sum(values: list[float], decimals: int) -> list[float]:
    """Return rounded numbers that add up to the rounded sum: the largest remainders go up."""
    scaled = np.array(values) * 10.0**decimals
    low = np.floor(scaled)
    n_up = int(round(scaled.sum()) - low.sum())
    low[np.argsort(low - scaled, kind="stable")[:n_up]] += 1.0
    return (low / 10.0**decimals).tolist()
