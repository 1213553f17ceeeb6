"""Write src/ebboost/datasets/ncovr.npz from files of the US county homicides of 1990.

Source: data set `ncovr` of the R package geodaData, 3 085 counties of the United States with their
borders; in the public domain (CC0). Homicides are three-year means there and stored as counts of
three years. Covariates are stored with seven digits.

    python tools/make_ncovr.py FOLDER     # FOLDER holds nodes.csv, edges.csv and masks.json
"""

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd

TARGET = Path(__file__).parent.parent / "src" / "ebboost" / "datasets" / "ncovr.npz"
COVARIATES = (
    *("RD90", "PS90", "UE90", "DV90", "MA90", "DNL90", "MFIL89", "FP89", "BLK90", "GI89", "FH90"),
    *("lon", "lat"),
)
PARTS = ("train", "val", "test")


def main(folder: Path) -> None:
    """Pack every column into the smallest type that holds it."""
    nodes = pd.read_csv(folder / "nodes.csv", dtype={"FIPS": str})
    row = {code: position for position, code in enumerate(nodes["FIPS"])}
    edges = pd.read_csv(folder / "edges.csv", dtype=str)
    ends = np.sort([edges["source"].map(row), edges["target"].map(row)], axis=0)
    ends = ends[:, np.lexsort(ends[::-1])]
    arrays = {name: nodes[name].to_numpy(np.float32) for name in COVARIATES}
    arrays["fips"] = nodes["FIPS"].astype(int).to_numpy(np.uint16)
    arrays["homicides"] = np.round(3 * nodes["HC90"]).to_numpy(np.uint16)
    arrays["population"] = nodes["PO90"].to_numpy(np.uint32)
    arrays["edge_source_steps"] = np.diff(ends[0], prepend=0).astype(np.uint16)
    arrays["edge_length"] = (ends[1] - ends[0]).astype(np.int16)
    splits = json.loads((folder / "masks.json").read_text())
    parts = np.zeros((len(splits), len(nodes)), dtype=np.uint8)
    for number, split in splits.items():
        for code, part in enumerate(PARTS):
            parts[int(number), split[part]] = code
    arrays["splits:part"] = parts
    np.savez_compressed(TARGET, **arrays)
    print(f"{TARGET}: {TARGET.stat().st_size / 1e3:.0f} kB, {len(nodes)} nodes, {len(edges)} edges")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
