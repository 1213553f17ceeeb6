"""The boosting loop (Algorithm 1), the meta-loss (7) and its gradient (8), label use (15), momentum."""
