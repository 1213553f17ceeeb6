"""The boosting loop (Algorithm 1), meta-loss (7), gradient (8), label use (15), momentum."""
