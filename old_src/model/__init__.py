"""The fitted model: its state, predictions, explanations, intervals and files."""
