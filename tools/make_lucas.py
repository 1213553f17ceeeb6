"""Write src/ebboost/datasets/lucas.npz from the two CSV files of the Lucas County house sales.

Source: data set `house` of the R package spData (Debian: r-cran-spdata), 25 357 single-family homes
sold in Lucas County, Ohio, 1993 to 1998, with its neighbour list; in the public domain (CC0). Left
out are `avalue`, the county's assessment of the price, which leaks the target, and `age`, which
repeats yrbuilt.

    python tools/make_lucas.py FOLDER     # FOLDER holds nodes.csv and edges.csv
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd

TARGET = Path(__file__).parent.parent / "src" / "ebboost" / "datasets" / "lucas.npz"


def main(folder: Path) -> None:
    """Pack every column into the smallest type that holds it."""
    nodes = pd.read_csv(folder / "nodes.csv").drop(columns=["avalue", "age"])
    edges = pd.read_csv(folder / "edges.csv").sort_values(["src", "dst"])
    arrays: dict[str, np.ndarray] = {}
    for name, column in nodes.items():
        if column.dtype.kind in "OU" or str(column.dtype) == "str":
            categories, codes = np.unique(column.to_numpy(dtype=str), return_inverse=True)
            arrays[f"{name}:categories"] = categories
            arrays[str(name)] = codes.astype(np.uint8)
        else:
            rounded = np.rint(column.to_numpy()).astype(np.int64)  # coordinates to the metre
            arrays[str(name)] = rounded.astype(np.min_scalar_type(int(rounded.max())))
    # Differences of successive entries compress better than the entries.
    arrays["edge_source_steps"] = np.diff(edges["src"].to_numpy(), prepend=0).astype(np.uint16)
    arrays["edge_length"] = (edges["dst"] - edges["src"]).to_numpy().astype(np.int32)
    np.savez_compressed(TARGET, **arrays)
    print(f"{TARGET}: {TARGET.stat().st_size / 1e3:.0f} kB, {len(nodes)} nodes, {len(edges)} edges")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
