"""Features made from the graph: smoothed copies [X, P_x X] of the numeric columns, as in the paper's regressions."""

import numpy as np

from ebbflow.smoothing import SmoothingOperator
from ebbflow.table import Table


def with_smoothed_columns(table: Table, smoother: SmoothingOperator) -> Table:
    """Append P_x X. Where values are missing, the known ones around stand in: (P x₀/P m)·P1 with m the known mask.

    Columns of category codes have no P_x X and are left alone.
    """
    columns = [column for column in range(len(table.names)) if column not in table.categorical]
    names = [f"smoothed({table.names[column]})" for column in columns]
    origin = [table.origin[column] for column in columns]
    values = table.values if not table.categorical else table.values[:, columns]
    if table.is_sparse:
        return table.with_columns(smoother.apply(values), names, origin)
    known = ~np.isnan(values)
    if known.all():
        return table.with_columns(smoother.apply(values), names, origin)
    reached = smoother.apply(known.astype(values.dtype))
    total = smoother.apply(np.where(known, values, 0.0))
    level = smoother.apply(np.ones((table.n_rows, 1), dtype=values.dtype))
    smoothed = np.full_like(total, np.nan)
    np.divide(total * level, reached, out=smoothed, where=np.abs(reached) > 1e-12)
    return table.with_columns(smoothed, names, origin)
