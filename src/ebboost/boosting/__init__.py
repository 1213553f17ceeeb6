"""boosting."""
