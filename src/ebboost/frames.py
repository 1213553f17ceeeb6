"""Tables that methods return: dataframes of whichever library is installed."""

from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import narwhals as nw

LIBRARIES = ("pandas", "polars", "pyarrow")


def as_frame(columns: Mapping[str, Any]) -> Any:
    """Return columns as a dataframe of pandas, polars or pyarrow."""
    for name in LIBRARIES:
        if find_spec(name) is not None:
            return nw.from_dict(dict(columns), backend=import_module(name)).to_native()
    raise ImportError("A table needs a dataframe library: install pandas, polars or pyarrow.")
