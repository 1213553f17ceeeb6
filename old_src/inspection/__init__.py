"""Checks, diagnostics, plots and reports of data and fitted models."""
