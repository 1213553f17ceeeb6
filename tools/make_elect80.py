"""Write src/ebboost/datasets/elect80.npz from two CSV files of the 1980 presidential election.

Source: data set `elect80` of the R package spData (Debian: r-cran-spdata), 3 107 counties of the
United States with its neighbour list; in the public domain (CC0). Shares and incomes are stored
with seven digits.

    python tools/make_elect80.py FOLDER     # FOLDER holds nodes.csv and edges.csv
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd

TARGET = Path(__file__).parent.parent / "src" / "ebboost" / "datasets" / "elect80.npz"


def main(folder: Path) -> None:
    """Pack every column into the smallest type that holds it."""
    nodes = pd.read_csv(folder / "nodes.csv", dtype={"FIPS": str})
    edges = pd.read_csv(folder / "edges.csv").sort_values(["src", "dst"])
    arrays = {
        str(name): column.to_numpy(np.float32) for name, column in nodes.items() if name != "FIPS"
    }
    arrays["fips"] = nodes["FIPS"].astype(int).to_numpy(np.uint16)
    # Differences of successive entries compress better than the entries.
    arrays["edge_source_steps"] = np.diff(edges["src"].to_numpy(), prepend=0).astype(np.uint16)
    arrays["edge_length"] = (edges["dst"] - edges["src"]).to_numpy().astype(np.int16)
    np.savez_compressed(TARGET, **arrays)
    print(f"{TARGET}: {TARGET.stat().st_size / 1e3:.0f} kB, {len(nodes)} nodes, {len(edges)} edges")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
