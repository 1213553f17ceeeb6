"""Where a fit trains: the CPU, an NVIDIA GPU, or the workers of a cluster.

The graph and the labels are moved before the first round, and with them all scores and gradients,
as CuPy's arrays answer to numpy's functions. The learner moves the table.
"""

from ebboost.backends.cpu import Backend


def as_backend(device: str) -> Backend:
    """Return the backend that the parameter ``device``, "cpu" or "cuda", stands for."""
    if device == "cpu":
        return Backend()
    from ebboost.backends.cuda import CudaBackend

    return CudaBackend()


__all__ = ["Backend", "as_backend"]
