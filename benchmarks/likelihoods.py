"""Likelihoods of counts and shares: log scores at rows that were held out.

python -m benchmarks.likelihoods zeros        each likelihood on counts simulated from each
python -m benchmarks.likelihoods ncovr        homicides in US counties
python -m benchmarks.likelihoods shares       successes in trials, beside LightGBM and GPBoost
python -m benchmarks.likelihoods errors       coverage of 90 % intervals of λ, τ and others
"""

import sys
import time

import numpy as np
from scipy import stats

import ebboost as eb
from ebboost.losses import regression_loss
from ebboost.uncertainty import Likelihood

COUNTS = ["poisson", "negative_binomial", "zero_inflated_poisson"]
COUNTS += ["zero_inflated_negative_binomial", "hurdle_poisson", "hurdle_negative_binomial"]
TRUE = {"theta": 2.0, "share": 0.3, "ratio": 0.4}


def areas(n, seed):
    """Return columns, points, and log means or log-odds that vary over the map."""
    random = np.random.default_rng(seed)
    points, X = random.random((n, 2)), random.normal(size=(n, 4))
    place = np.sin(5.0 * points[:, 0]) + np.cos(4.0 * points[:, 1])
    return random, X, points, 0.5 * X[:, 0] + 0.4 * np.abs(X[:, 1]) + 0.8 * place


def compare(name, X, y, graph, test, exposure=None, losses=COUNTS):
    """Print the mean log probability of held-out counts by each likelihood."""
    nodes, scores = np.flatnonzero(test), {}
    for loss in losses:
        model = eb.EBBSRegressor(loss=loss, random_state=0, n_jobs=1, verbose=-1)
        model.fit(X, np.where(test, np.nan, y), graph=graph, exposure=exposure)
        own = model.predict_distribution(nodes=nodes).logpmf(y[nodes])
        bounds = model.predict(nodes=nodes, interval=0.9)
        inside = (y[nodes] >= bounds.lower) & (y[nodes] <= bounds.upper)
        scores[loss] = own.mean()
        print(f"{name:32} {loss:32} {own.mean():.4f}  covers {inside.mean():.3f}  {model.loss_}")
    return scores


def zeros(n=1000, seeds=(0,)):
    """Counts of each likelihood, fitted by each."""
    for truth in COUNTS:
        for seed in seeds:
            random, X, points, score = areas(n, seed)
            loss = regression_loss(truth)
            given = {key: TRUE[key] for key, one in loss.get_params().items() if one is None}
            y = loss.set_params(**given).sample(random, score[:, None] + 1.0)[:, 0]
            graph, test = eb.Graph.build_knn(points, 6), random.random(n) < 0.4
            scores = compare(truth, X, y, graph, test)
            worse = (max(scores.values()) - scores[truth]) / -max(scores.values())
            print(f"  {truth}: best {max(scores, key=scores.get)}, the true one {worse:.2%} worse")


def ncovr():
    """Homicides in counties, two of the splits of the data set."""
    X, y, graph, splits = eb.datasets.load_ncovr()
    population = X.pop("population")
    for number in range(2):
        test = np.ones(len(y), dtype=bool)
        test[splits[number]["train"]] = False
        compare(f"ncovr {number}", X, np.asarray(y, float), graph, test, population)


def shares(n=1500, seeds=(0, 1, 2), correlation=0.0):
    """Successes in trials of areas of very different size."""
    import lightgbm

    for seed in seeds:
        random, X, points, score = areas(n, seed)
        trials = np.exp(random.normal(5.0, 1.5, n)).round().clip(5.0)
        share = 1.0 / (1.0 + np.exp(1.0 - score))
        if correlation:
            precision = 1.0 / correlation - 1.0
            share = random.beta(share * precision, (1.0 - share) * precision)
        y = random.binomial(trials.astype(int), share) / trials
        test = random.random(n) < 0.4
        train, nodes = np.flatnonzero(~test), np.flatnonzero(test)
        size, k = trials[nodes], np.rint(y * trials)[nodes]
        Z = np.hstack([X, points])
        stated = {}
        start = time.process_time()
        model = eb.EBBSRegressor(loss="binomial", random_state=0, n_jobs=1, verbose=-1)
        model.fit(
            Z, np.where(test, np.nan, y), graph=eb.Graph.build_knn(points, 6), exposure=trials
        )
        own = model.predict_distribution(nodes=nodes).logpmf(y[nodes]).mean()
        print(f"seed {seed}: ebboost {model.loss_}, {time.process_time() - start:.1f} s")
        bounds = model.predict(nodes=nodes, interval=0.9)
        inside = (y[nodes] >= bounds.lower) & (y[nodes] <= bounds.upper)
        print(f"  its predictive distribution {own:.4f}, 90 % intervals cover {inside.mean():.3f}")
        stated["ebboost"] = model.predict(nodes=nodes)
        fold = random.permutation(train.size) % 5
        params = {"objective": "cross_entropy", "learning_rate": 0.05, "num_leaves": 15}
        params |= {"verbosity": -1, "num_threads": 1, "min_data_in_leaf": 10}
        start, raw = time.process_time(), np.zeros(nodes.size)
        for number in range(5):
            parts = [
                lightgbm.Dataset(Z[train][own], y[train][own], weight=trials[train][own])
                for own in (fold != number, fold == number)
            ]
            stop = lightgbm.early_stopping(50, verbose=False)
            booster = lightgbm.train(params, parts[0], 2000, [parts[1]], callbacks=[stop])
            raw += booster.predict(Z[nodes], raw_score=True) / 5.0
        stated["LightGBM"] = 1.0 / (1.0 + np.exp(-raw))
        print(f"  LightGBM {time.process_time() - start:.1f} s")
        try:
            start = time.process_time()
            stated["GPBoost"] = gpboost_shares(Z, points, y, trials, train, nodes, fold)
            print(f"  GPBoost {time.process_time() - start:.1f} s")
        except ImportError:
            print("  GPBoost is not installed")
        for name, one in stated.items():
            one = one.clip(1e-9, 1.0 - 1e-9)
            error = np.sqrt(np.average((one - share[nodes]) ** 2))
            print(f"  {name:10} {stats.binom.logpmf(k, size, one).mean():.4f}  RMSE {error:.4f}")
            if name != "ebboost":  # with the correlation of greatest likelihood at the test rows
                grid = np.geomspace(1e-5, 0.3, 60)
                best = max(
                    stats.betabinom.logpmf(
                        k, size, one * (1.0 / r - 1.0), (1.0 - one) * (1.0 / r - 1.0)
                    ).mean()
                    for r in grid
                )
                print(f"  {name:10} {best:.4f}  as beta-binomial, its best at the test rows")


def gpboost_shares(Z, points, y, trials, train, nodes, fold):
    """Return shares by GPBoost: trees and a Gaussian process, rounds by one fold."""
    import gpboost

    params = {"learning_rate": 0.05, "num_leaves": 15, "min_data_in_leaf": 10, "verbose": -1}
    params |= {"num_threads": 1}

    def process(rows):
        return gpboost.GPModel(
            gp_coords=points[rows],
            cov_function="matern",
            cov_fct_shape=1.5,
            gp_approx="vecchia",
            likelihood="binomial_logit",
            weights=trials[rows],
            matrix_inversion_method="cholesky",
            num_parallel_threads=1,
        )

    known, held = train[fold > 0], train[fold == 0]
    best, least = 1, np.inf
    for rounds in (20, 60):
        model = process(known)
        data = gpboost.Dataset(Z[known], y[known])
        booster = gpboost.train(params, data, rounds, gp_model=model)
        stated = booster.predict(Z[held], gp_coords_pred=points[held], pred_latent=False)
        one = np.clip(stated["response_mean"], 1e-9, 1.0 - 1e-9)
        loss = -np.mean(trials[held] * (y[held] * np.log(one) + (1 - y[held]) * np.log1p(-one)))
        best, least = (rounds, loss) if loss < least else (best, least)
    booster = gpboost.train(
        params, gpboost.Dataset(Z[train], y[train]), best, gp_model=process(train)
    )
    stated = booster.predict(Z[nodes], gp_coords_pred=points[nodes], pred_latent=False)
    return np.asarray(stated["response_mean"])


def errors(n=576, repeats=200, per_node=2):
    """Coverage of 90 % intervals, labels simulated around known scores."""
    from tests.test_strengths import simulated

    losses = [eb.SquaredError(), eb.Poisson(), eb.NegativeBinomial(4.0), eb.LogLoss()]
    for loss in [*losses, eb.ZeroInflated(1e9, 0.3), eb.Beta(8.0)]:
        own = [name for name, one in loss.get_params().items() if one != 1e9]
        inside: dict[str, list[bool]] = {}
        for seed in range(repeats):
            places, labels, scores = simulated(loss, 1.0, 0.2, n, seed, per_node=per_node)
            start = eb.LatentField(1.5, 0.1)
            found = Likelihood(places, labels, scores, loss, start, own).estimates()
            for one in found:
                true = {"λ": 1.0, "τ": 0.2, "noise": 1.0} | loss.get_params()
                is_inside = one.lower <= true[one.parameter] <= one.upper
                inside.setdefault(one.parameter, []).append(is_inside)
        print(loss, {name: round(float(np.mean(one)), 3) for name, one in inside.items()})


if __name__ == "__main__":
    {"zeros": zeros, "ncovr": ncovr, "shares": shares, "errors": errors}[sys.argv[1]](
        **{name: eval(value) for name, value in (one.split("=") for one in sys.argv[2:])}
    )
