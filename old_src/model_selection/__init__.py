"""Cross-validation, folds, hyperparameter search, and estimators for tools of scikit-learn."""
