"""Losses, which are likelihoods: of differences, of classes, with a log link, of shares."""

from importlib import import_module
from typing import Any

from ebboost.losses.base import Loss
from ebboost.losses.classes import LogLoss, Softmax
from ebboost.losses.log_link import Gamma, NegativeBinomial, Poisson, Tweedie
from ebboost.losses.numbers import Huber, Quantile, SquaredError

__all__ = ["REGRESSION_LOSSES", "Gamma", "Huber", "LogLoss", "Loss", "NegativeBinomial", "Poisson"]
__all__ += ["Quantile", "Softmax", "SquaredError", "Tweedie", "regression_loss"]

POISSON = 1e9  # θ of negative binomial counts that are Poisson
#: Classes and parameters of the losses that a regressor knows by name.
REGRESSION_LOSSES: dict[str, tuple[str, dict[str, float]]] = {
    "squared_error": ("numbers.SquaredError", {}),
    "huber": ("numbers.Huber", {}),
    "quantile": ("numbers.Quantile", {}),
    "poisson": ("log_link.Poisson", {}),
    "negative_binomial": ("log_link.NegativeBinomial", {}),
    "zero_inflated_poisson": ("zeros.ZeroInflated", {"theta": POISSON}),
    "zero_inflated_negative_binomial": ("zeros.ZeroInflated", {}),
    "hurdle_poisson": ("zeros.Hurdle", {"theta": POISSON}),
    "hurdle_negative_binomial": ("zeros.Hurdle", {}),
    "gamma": ("log_link.Gamma", {}),
    "tweedie": ("log_link.Tweedie", {}),
    "binomial": ("shares.Binomial", {}),
    "beta": ("shares.Beta", {}),
}


def regression_loss(name: str) -> Loss:
    """Return the loss of a name; modules that few fits need are imported then."""
    (path, parameters) = REGRESSION_LOSSES[name]
    module, kind = path.split(".")
    loss: Any = getattr(import_module(f"ebboost.losses.{module}"), kind)
    return loss(**parameters)
