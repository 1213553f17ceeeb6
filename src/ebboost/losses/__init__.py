"""Losses, which are likelihoods: of differences, of classes, and with a log link."""

from ebboost.losses.base import Loss
from ebboost.losses.classes import LogLoss, Softmax
from ebboost.losses.log_link import Gamma, NegativeBinomial, Poisson, Tweedie
from ebboost.losses.numbers import Huber, Quantile, SquaredError

__all__ = ["REGRESSION_LOSSES", "Gamma", "Huber", "LogLoss", "Loss", "NegativeBinomial", "Poisson"]
__all__ += ["Quantile", "Softmax", "SquaredError", "Tweedie"]

REGRESSION_LOSSES: dict[str, type[Loss]] = {
    "squared_error": SquaredError,
    "huber": Huber,
    "quantile": Quantile,
    "poisson": Poisson,
    "negative_binomial": NegativeBinomial,
    "gamma": Gamma,
    "tweedie": Tweedie,
}
