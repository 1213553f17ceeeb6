"""Fits on the workers of a Dask or Ray cluster, from tables that no machine has to hold whole.

:func:`prepare` describes the tables, :func:`fit` trains the preset ``"fast"``, :func:`predict`
predicts on the workers. Each worker has some rows, and the edges of these; what it does is in
``worker.py``, and the core does not know of it.
"""

from ebboost.cluster.dask import Dask
from ebboost.cluster.fit import fit, predict
from ebboost.cluster.ray import Ray
from ebboost.cluster.tables import Prepared, prepare

__all__ = ["Dask", "Prepared", "Ray", "fit", "predict", "prepare"]
