"""Checks of data, diagnostics of fitted models, plots and the report."""
