"""Data sets come as pandas dataframes; the library itself needs none."""

from typing import Any


def pandas_for(caller: str) -> Any:
    """Return pandas, or say who needs it."""
    try:
        import pandas
    except ImportError:
        raise ImportError(
            f"ebboost.datasets.{caller} gives dataframes and needs pandas: pip install pandas."
        ) from None
    return pandas
