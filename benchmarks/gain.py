"""The gain that a fit reports against what the graph is worth on rows whose labels were hidden.

    python -m benchmarks.gain simulated [draws]
    python -m benchmarks.gain ncovr [draws]

Simulated: counts of 1 000 areas like those of a disease, of which six in ten are 0, with a
population as exposure; a third is hidden. The truth is the mean over new counts of the hidden
areas. ncovr: homicides, half of the counties hidden. The fit without a graph is the default, too.
"""

import sys
import time
import warnings

import numpy as np

import ebboost as eb
from benchmarks.far import field

COUNTS_OF_TRUTH = 200  # new counts of each hidden area
LEVEL = 1.645  # standard errors, for 90 %


def simulated(seed: int) -> tuple:
    """Return columns, counts, graph, exposure, known areas, and new counts."""
    rng = np.random.default_rng(seed)
    n_areas = 1_000
    points = rng.random((n_areas, 2))
    X = rng.normal(size=(n_areas, 5))
    X[:, 0] += field(points, rng)
    people = np.exp(rng.normal(9.5, 1.0, n_areas))
    score = 0.6 * X[:, 0] + 0.4 * X[:, 1] * (X[:, 2] > 0.0) + 1.2 * field(points, rng)
    mean = people * np.exp(score - 10.0)
    draws = rng.gamma(0.6, mean / 0.6, (COUNTS_OF_TRUTH + 1, n_areas))
    counts = rng.poisson(draws).astype(float)
    known = rng.random(n_areas) < 2 / 3
    return X, counts[0], eb.Graph.build_delaunay(points), people, known, counts[1:]


def ncovr(seed: int) -> tuple:
    """Return the homicides of the counties with a random half that is known."""
    X, y, graph, _ = eb.datasets.load_ncovr()
    people = X.pop("population").to_numpy()
    known = np.random.default_rng(seed).random(len(y)) < 0.5
    return X, y, graph, people, known, y[None]


def main(name: str, draws: int = 20) -> None:
    """Print reported and true gains of every draw in percent, and how they agree."""
    rows = []
    for seed in range(draws):
        X, y, graph, people, known, truth = {"simulated": simulated, "ncovr": ncovr}[name](seed)
        labels = np.where(known, y, np.nan)
        settings = {"loss": "negative_binomial", "n_jobs": 1, "random_state": 0}
        start = time.process_time()
        model, plain = (
            eb.EBBSRegressor(**settings).fit(X, labels, graph=one, exposure=people)
            for one in (graph, None)
        )
        seconds = time.process_time() - start
        hidden, loss = ~known, model.loss_
        errors = [
            np.mean([loss.deviance(one.model_.raw[hidden], y[hidden, None]) for y in truth], axis=0)
            for one in (plain, model)
        ]
        without = errors[0].mean()
        own = (errors[0] - errors[1]).std() / np.sqrt(hidden.sum())
        gain = model.gain_
        row = (gain.relative, gain.standard_error / gain.without)
        rows.append((*row, 1.0 - errors[1].mean() / without, own / without))
        numbers = ", ".join(f"{100 * number:.1f}" for number in rows[-1])
        zeros = (y == 0).mean()
        print(f"{name} {seed}: reported, ±, true, ± {numbers}; {zeros:.0%} zeros, {seconds:.0f} s")
    reported, error, true, own = np.array(rows).T
    difference = reported - true
    within = [np.abs(difference) <= LEVEL * one for one in (error, np.hypot(error, own))]
    print(f"mean reported {100 * reported.mean():.1f}, true {100 * true.mean():.1f} points")
    print(f"mean difference {100 * difference.mean():.2f} ± ", end="")
    print(f"{100 * difference.std() / np.sqrt(draws):.2f} points")
    print(f"within 1.65 standard errors: {within[0].mean():.0%}; ", end="")
    print(f"with that of the truth added: {within[1].mean():.0%}")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(sys.argv[1], *map(int, sys.argv[2:]))
