"""Tables that methods return: dataframes of whichever library is installed."""

from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import narwhals as nw

LIBRARIES = ("pandas", "polars", "pyarrow")


def as_frame(columns: Mapping[str, Any], index: Any = None) -> Any:
    """Return columns as a dataframe of pandas, polars or pyarrow.

    ``index`` names the rows: it is that of a pandas dataframe, else a column ``row``.
    """
    for name in LIBRARIES:
        if find_spec(name) is not None:
            if index is not None and name == "pandas":
                return import_module(name).DataFrame(dict(columns), index)
            columns = columns if index is None else {"row": list(index), **columns}
            return nw.from_dict(dict(columns), backend=import_module(name)).to_native()
    raise ImportError("A table needs a dataframe library: install pandas, polars or pyarrow.")
