"""Training: model selection, boosting, and everything between ``fit`` and a fitted state."""
