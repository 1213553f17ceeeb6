"""Cross-validation, folds and hyperparameter search."""
