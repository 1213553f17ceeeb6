"""Losses, which are likelihoods: of differences, of classes, and with a log link."""

from ebboost.boosting.losses.base import Loss
from ebboost.boosting.losses.classes import LogLoss, Softmax
from ebboost.boosting.losses.log_link import Gamma, NegativeBinomial, Poisson, Tweedie
from ebboost.boosting.losses.numbers import Huber, Quantile, SquaredError

__all__ = ["REGRESSION_LOSSES", "Gamma", "Huber", "LogLoss", "Loss", "NegativeBinomial", "Poisson"]
__all__ += ["Quantile", "Softmax", "SquaredError", "Tweedie", "regression_loss"]

REGRESSION_LOSSES: dict[str, type[Loss]] = {
    "squared_error": SquaredError,
    "huber": Huber,
    "quantile": Quantile,
    "poisson": Poisson,
    "negative_binomial": NegativeBinomial,
    "gamma": Gamma,
    "tweedie": Tweedie,
}


def regression_loss(loss: object) -> Loss:
    """Return the loss that the ``loss`` parameter of a regressor stands for."""
    if isinstance(loss, Loss):
        return loss
    if loss is None or loss == "auto":
        return SquaredError()
    if isinstance(loss, str) and loss in REGRESSION_LOSSES:
        return REGRESSION_LOSSES[loss]()
    raise ValueError(
        f"loss must be one of {sorted(REGRESSION_LOSSES)}, 'auto' or a Loss, got {loss!r}."
    )
