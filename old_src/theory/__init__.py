"""The lemmas, Theorem 1 and Corollary 1 of the paper as functions, and reports on fitted models."""
