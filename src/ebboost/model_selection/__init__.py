"""Cross-validation, folds, tuning, and estimators for the tools of scikit-learn."""
