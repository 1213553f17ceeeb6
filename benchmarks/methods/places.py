"""GPBoost (Sigrist, 2022): trees and a Gaussian process over places, for data sets whose nodes have coordinates."""

import numpy as np

from benchmarks.problem import Outcome, Problem


def gpboost(problem: Problem, learning_rate: float = 0.1, max_depth: int = 6) -> Outcome:
    """Boosted trees as the mean of a Gaussian process with an exponential kernel, approximated by near neighbours."""
    import gpboost

    if problem.n_classes or problem.coordinates is None:
        raise ValueError("GPBoost is run on regression with coordinates.")
    X = problem.X.copy()
    for name in problem.categorical:
        X[name] = X[name].cat.codes
    X = X.to_numpy(dtype=np.float64)
    process = gpboost.GPModel(
        gp_coords=problem.coordinates[problem.train], cov_function="exponential", gp_approx="vecchia", seed=problem.seed
    )
    process.set_prediction_data(vecchia_pred_type="order_obs_first_cond_obs_only")
    settings = {"learning_rate": learning_rate, "max_depth": max_depth, "num_leaves": 63, "verbose": -1}
    settings |= {"objective": "regression_l2", "num_threads": problem.threads, "seed": problem.seed}
    table = gpboost.Dataset(X[problem.train], problem.y[problem.train])
    rounds, best, found = 0, np.inf, None
    model = None
    for rounds in (25, 50, 100, 200):  # chosen by validation error
        process_now = process if model is None else gpboost.GPModel(
            gp_coords=problem.coordinates[problem.train], cov_function="exponential", gp_approx="vecchia",
            seed=problem.seed,
        )  # fmt: skip
        model = gpboost.train(settings, table, num_boost_round=rounds, gp_model=process_now)
        answer = model.predict(data=X, gp_coords_pred=problem.coordinates, predict_var=False, pred_latent=False)
        predicted = np.asarray(answer["response_mean"])
        error = problem.quality(predicted, problem.val, problem.y)
        if error < best:
            best, found, kept = error, predicted, rounds
    return Outcome(np.asarray(found), notes={"rounds": kept})
