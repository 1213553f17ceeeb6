"""model_selection."""
