"""Counts with exposure: homicides in US counties against boosting with features made by hand.

    python -m benchmarks.counts [--splits 0 1 …] [--coordinates] [--methods …] [--write FILE]

Half the mean deviance at the test nodes of the five splits, of a negative binomial distribution
whose θ is estimated on training rows around out-of-fold scores of LightGBM. Rivals are LightGBM's
Poisson objective with the logarithm of the exposure as initial score, stopped on the validation
nodes and trained again on all known labels: on the covariates, with means of the neighbours'
covariates, and with their smoothed rates too (counts and exposures of labelled neighbours at one
and two hops, the own label excluded, shrunk towards the overall rate). GPBoost, if it is installed,
adds a Gaussian process of the coordinates. All get the same columns and labels.
"""

import argparse
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import lightgbm
import numpy as np
from numpy.typing import NDArray

import ebboost as eb

Array = NDArray[np.float64]
PARAMETERS = {
    "objective": "poisson",
    "learning_rate": 0.05,
    "num_leaves": 15,
    "min_child_samples": 10,
    "verbose": -1,
    "num_threads": 1,
    "seed": 0,
}
MAX_ROUNDS = 1000
PATIENCE = 50
# Rounds of GPBoost, at least and at most, with its covariance estimated in every round, and once.
GP_ROUNDS = {True: (12, 48), False: (24, 384)}
SHRINKAGE = 5.0  # expected cases that neighbours' rates are shrunk by


class Problem(NamedTuple):
    """A split of the counties."""

    X: Array
    y: Array
    exposure: Array
    graph: eb.Graph
    position: Array
    train: NDArray[np.int64]
    validation: NDArray[np.int64]
    test: NDArray[np.int64]

    @property
    def known(self) -> NDArray[np.int64]:
        """All labelled nodes."""
        return np.concatenate([self.train, self.validation])


def load(split: int, coordinates: bool) -> Problem:
    """Return one of the five splits."""
    table, y, graph, splits = eb.datasets.load_ncovr(coordinates=True)
    position = table[["lon", "lat"]].to_numpy()
    exposure = table.pop("population").to_numpy()
    X = table if coordinates else table.drop(columns=["lon", "lat"])
    parts = splits[split]
    nodes = (parts["train"], parts["val"], parts["test"])
    return Problem(X.to_numpy(), y, exposure, graph, position, *nodes)


def boosted(problem: Problem, X: Array) -> Array:
    """Return the scores of LightGBM: rounds by the validation nodes, then all labels."""
    known = problem.known
    rate = problem.y[known].sum() / problem.exposure[known].sum()
    start = np.log(rate * problem.exposure)

    def data(nodes: NDArray[np.int64]) -> lightgbm.Dataset:
        return lightgbm.Dataset(X[nodes], problem.y[nodes], init_score=start[nodes])

    stopping = [lightgbm.early_stopping(PATIENCE, verbose=False)]
    held_out = data(problem.validation)
    first = lightgbm.train(
        PARAMETERS, data(problem.train), MAX_ROUNDS, [held_out], callbacks=stopping
    )
    model = lightgbm.train(PARAMETERS, data(known), first.best_iteration)
    return start + model.predict(X, raw_score=True)


def neighbor_columns(problem: Problem) -> Array:
    """Return the covariates and their means over neighbours."""
    weights = problem.graph.adjacency
    return np.hstack([problem.X, weights @ problem.X / weights.sum(axis=1)[:, None]])


def neighbor_rates(problem: Problem) -> Array:
    """Return neighbour columns and smoothed rates of labelled neighbours at one and two hops."""
    known = problem.known
    count = np.zeros_like(problem.y)
    exposure = np.zeros_like(problem.y)
    count[known] = problem.y[known]
    exposure[known] = problem.exposure[known]
    rate = count.sum() / exposure.sum()
    one = problem.graph.adjacency
    two = (one @ one).tocsr()
    two.setdiag(0.0)
    rates = [
        np.log((weights @ count + SHRINKAGE) / (weights @ exposure * rate + SHRINKAGE))
        for weights in (one, two)
    ]
    return np.column_stack([neighbor_columns(problem), *rates])


def gpboosted(problem: Problem) -> Array:
    """Return the scores of GPBoost with a Gaussian process over the coordinates.

    Covariance and dispersion are estimated in every round, or once, without trees, which allows
    more rounds. Which of both, and the number of rounds, doubled as long as that gains, is chosen
    at the validation nodes; then all labels are used.
    """
    import gpboost

    known = problem.known
    rate = problem.y[known].sum() / problem.exposure[known].sum()
    start = np.log(rate * problem.exposure)
    names = ("min_child_samples", "num_leaves", "verbose", "num_threads")
    parameters = {"learning_rate": 0.1} | {name: PARAMETERS[name] for name in names}
    validation = problem.validation

    def fitted(nodes: NDArray[np.int64], each_round: bool, n_rounds: int) -> Array:
        process = gpboost.GPModel(
            gp_coords=problem.position[nodes],
            cov_function="exponential",
            likelihood="negative_binomial",
            gp_approx="vecchia",
            num_neighbors=10,
            num_parallel_threads=1,
            matrix_inversion_method="cholesky",
        )
        if not each_round:
            process.fit(y=problem.y[nodes], offset=start[nodes])
        data = gpboost.Dataset(problem.X[nodes], problem.y[nodes], init_score=start[nodes])
        covariance = {"gp_model": process, "train_gp_model_cov_pars": each_round}
        model = gpboost.train(parameters, data, n_rounds, **covariance)
        result = model.predict(data=problem.X, gp_coords_pred=problem.position)
        return start + np.log(result["response_mean"])

    def deviance(each_round: bool, n_rounds: int) -> float:
        scores = fitted(problem.train, each_round, n_rounds)[validation, None]
        return float(eb.NegativeBinomial(5.0).deviance(scores, problem.y[validation, None]).mean())

    choices = []
    for each_round, (n_rounds, most) in GP_ROUNDS.items():
        least = deviance(each_round, n_rounds)
        while n_rounds < most and (after := deviance(each_round, 2 * n_rounds)) < least:
            n_rounds *= 2
            least = after
        choices.append((least, each_round, n_rounds))
    print("GPBoost: deviance at validation nodes, covariance of each round, rounds", choices)
    return fitted(known, *min(choices)[1:])


def ours(problem: Problem) -> Array:
    """Return logarithms of the means that the default predicts with the negative binomial loss."""
    model = eb.EBBSRegressor(loss="negative_binomial", random_state=0, n_jobs=1)
    y = problem.y[problem.known]
    model.fit(problem.X, y, graph=problem.graph, nodes=problem.known, exposure=problem.exposure)
    return np.log(model.predict())


METHODS: dict[str, Callable[[Problem], Array]] = {
    "LightGBM": lambda problem: boosted(problem, problem.X),
    "+ neighbour columns": lambda problem: boosted(problem, neighbor_columns(problem)),
    "+ neighbours' rates": lambda problem: boosted(problem, neighbor_rates(problem)),
    "ebboost": ours,
}


def dispersion(problem: Problem, n_folds: int = 5) -> eb.NegativeBinomial:
    """Return the distribution with θ estimated from out-of-fold scores of LightGBM."""
    known = problem.known
    fold = np.random.default_rng(0).permutation(known.size) % n_folds
    scores = np.zeros((known.size, 1))
    for number in range(n_folds):
        held_out = fold == number
        inner = problem._replace(train=known[~held_out][::2], validation=known[~held_out][1::2])
        scores[held_out, 0] = boosted(inner, problem.X)[known[held_out]]
    labelled = (problem.y[known, None], np.ones(known.size))
    return eb.NegativeBinomial().prepared(*labelled, scores)


def measure(splits: list[int], coordinates: bool, names: list[str] | None = None) -> str:
    """Return the table of mean half deviances."""
    methods = dict(METHODS)
    if find_spec("gpboost") is not None:
        methods["GPBoost, coordinates"] = gpboosted
    methods = {name: method for name, method in methods.items() if name in (names or methods)}
    deviances: dict[str, list[float]] = {name: [] for name in methods}
    seconds: dict[str, list[float]] = {name: [] for name in methods}
    for split in splits:
        problem = load(split, coordinates)
        loss = dispersion(problem)
        for name, method in methods.items():
            start = time.perf_counter()
            scores = method(problem)[problem.test, None]
            seconds[name].append(time.perf_counter() - start)
            half = 0.5 * loss.deviance(scores, problem.y[problem.test, None])
            deviances[name].append(float(half.mean()))
            print(f"split {split}  θ {loss.theta:.2f}  {name:22}{half.mean():.4f}", flush=True)
    rows = ["| method | half deviance | by split | seconds |", "|---|---|---|---|"]
    for name, values in deviances.items():
        each = ", ".join(f"{value:.4f}" for value in values)
        mean_seconds = f"{np.mean(seconds[name]):.1f}"
        rows.append(f"| {name} | {np.mean(values):.4f} | {each} | {mean_seconds} |")
    return "\n".join(rows) + "\n"


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, nargs="*", default=list(range(5)))
    parser.add_argument("--coordinates", action="store_true")
    parser.add_argument("--methods", nargs="*", help="names of methods; default: all")
    parser.add_argument("--write", type=Path)
    arguments = parser.parse_args()
    table = measure(arguments.splits, arguments.coordinates, arguments.methods)
    print(table)
    if arguments.write is not None:
        arguments.write.write_text(table, encoding="utf-8")


if __name__ == "__main__":
    main()
