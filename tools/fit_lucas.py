"""Fit the Lucas County houses with their coordinates as columns.

    python tools/fit_lucas.py MODEL.ebb

``make report`` runs it. The report draws its map from the coordinates in the table that the model
file holds.
"""

import sys

import ebboost as eb


def main(path: str) -> None:
    """Fit on the sales up to 1996 and save the model together with its table."""
    X, y, graph, splits = eb.datasets.load_lucas(coordinates=True)
    train = splits[0]["train"]
    model = eb.EBBSRegressor(random_state=0).fit(X, y[train], nodes=train, graph=graph)
    model.save(path, table=True)


if __name__ == "__main__":
    main(sys.argv[1])
