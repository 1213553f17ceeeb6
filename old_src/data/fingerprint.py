"""A hash of arrays, to compare the data of two fits."""

import hashlib

import numpy as np

from ebboost.data.types import AnyArray


def fingerprint_of(*arrays: AnyArray) -> str:
    """Return a SHA-256 of arrays, sparse matrices and texts."""
    digest = hashlib.sha256()
    for array in arrays:
        if hasattr(array, "indptr"):
            digest.update(fingerprint_of(array.data, array.indices, array.indptr).encode())
            continue
        array = np.asarray(array)
        if array.dtype == object:
            array = np.asarray([repr(item) for item in array.ravel()])
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        if array.size:
            digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()
