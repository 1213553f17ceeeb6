"""GPBoost (Sigrist, 2022): trees and a Gaussian process, for data sets with coordinates."""

import numpy as np

from benchmarks.problem import Outcome, Problem

ROUNDS, PATIENCE = 1000, 20


def gpboost(problem: Problem, learning_rate: float) -> Outcome:
    """Trees as the mean of a Gaussian process, exponential kernel, Vecchia approximation."""
    import gpboost

    X = problem.X.copy()
    coordinates = problem.coordinates
    for name in problem.categorical:
        X[name] = X[name].cat.codes
    X = X.to_numpy(dtype=np.float64)
    process = gpboost.GPModel(
        gp_coords=coordinates[problem.train],
        cov_function="exponential",
        gp_approx="vecchia",
        seed=problem.seed,
        num_parallel_threads=problem.threads,
    )
    process.set_prediction_data(gp_coords_pred=coordinates[problem.val])
    settings = {
        "learning_rate": learning_rate,
        "metric": "rmse",
        "verbose": -1,
        "num_threads": problem.threads,
        "seed": problem.seed,
    }
    train = gpboost.Dataset(X[problem.train], problem.y[problem.train])
    held = gpboost.Dataset(X[problem.val], problem.y[problem.val], reference=train)
    model = gpboost.train(
        settings,
        train,
        ROUNDS,
        gp_model=process,
        valid_sets=held,
        early_stopping_rounds=PATIENCE,
        verbose_eval=False,
        use_gp_model_for_validation=True,
    )
    response = model.predict(
        data=X, gp_coords_pred=coordinates, predict_var=False, pred_latent=False
    )
    return Outcome(np.asarray(response["response_mean"]), notes={"rounds": model.best_iteration})
