"""Constraints on columns of X as constraints on the table that trees are grown on."""

from collections.abc import Mapping, Sequence
from typing import Any

from ebboost.data.table import Table

MONOTONE = "monotone_constraints"
INTERACTION = "interaction_constraints"


def translate_constraints(params: Mapping[str, Any] | None, table: Table) -> dict[str, Any]:
    """Return parameters of a library with their constraints by position in the table.

    Constraints name columns of X. A monotone constraint holds for that column; columns computed
    from it have none. They belong to its groups of columns that may interact, and all columns in no
    group are a further group, as in scikit-learn.
    """
    params = dict(params or {})
    own: dict[int, int] = {}  # position in the table of each column of X
    for position, origin in enumerate(table.origin):
        own.setdefault(origin, position)
    own.pop(-1, None)
    if params.get(MONOTONE) is not None:
        params[MONOTONE] = _directions(params[MONOTONE], table, own)
    if params.get(INTERACTION) is not None:
        params[INTERACTION] = _groups(params[INTERACTION], table, own)
    return params


def _directions(constraints: Any, table: Table, own: Mapping[int, int]) -> list[int]:
    """The direction of each column of the table: 1, −1 or 0."""
    if not isinstance(constraints, Mapping):
        raise ValueError(
            f"params: {MONOTONE} must be a dict of columns of X with 1, -1 or 0, such as "
            f"{{{table.names[0]!r}: 1}}, got {constraints!r}."
        )
    directions = [0] * len(table.names)
    for column, direction in constraints.items():
        if direction not in (-1, 0, 1):
            raise ValueError(
                f"params: {MONOTONE} of column {column!r} must be 1, -1 or 0, got {direction!r}."
            )
        position = own[_origin(column, table, own, MONOTONE)]
        if position in table.categorical and direction:
            raise ValueError(
                f"params: {MONOTONE}: column {column!r} has categories, which have no order. "
                "Leave it out, or pass the column as numbers."
            )
        directions[position] = int(direction)
    return directions


def _groups(constraints: Any, table: Table, own: Mapping[int, int]) -> list[list[int]]:
    """The positions of columns of each group, with those computed from them."""
    is_list = isinstance(constraints, Sequence) and not isinstance(constraints, str)
    if not is_list or any(isinstance(group, (str, int)) for group in constraints):
        raise ValueError(
            f"params: {INTERACTION} must be a list of groups of columns of X that may interact, "
            f"such as [[{table.names[0]!r}]], got {constraints!r}."
        )
    groups = [{_origin(one, table, own, INTERACTION) for one in group} for group in constraints]
    groups.append(set(table.origin).difference(*groups))
    positions = [[i for i, one in enumerate(table.origin) if one in group] for group in groups]
    return [group for group in positions if group]


def _origin(column: Any, table: Table, own: Mapping[int, int], option: str) -> int:
    """The position in X of a column given by name or position."""
    names = {table.names[position]: origin for origin, position in own.items()}
    if column in names:
        return names[column]
    if isinstance(column, int) and column in own:
        return column
    raise ValueError(
        f"params: {option}: X has no column {column!r} that trees split; there are "
        f"{', '.join(map(repr, names)) or 'none'}."
    )
