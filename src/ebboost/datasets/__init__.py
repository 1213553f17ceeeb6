"""Data sets: three that ship with the package, and a reader for folders of GNN benchmarks."""

from __future__ import annotations

from ebboost.datasets._folder import load_folder
from ebboost.datasets._spdata import load_elect80, load_lucas, load_ncovr

__all__ = ["load_elect80", "load_folder", "load_lucas", "load_ncovr"]
