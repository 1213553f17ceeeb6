"""Warnings that point at the user's line."""

import contextlib
import inspect
import os
import warnings

_PACKAGE = os.path.join(os.path.dirname(os.path.dirname(__file__)), "")


def warn_caller(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the innermost line outside of this package, such as ``model.fit(...)``."""
    inside = (_PACKAGE, contextlib.__file__)
    frame = inspect.currentframe()
    level = 1
    while frame is not None and frame.f_code.co_filename.startswith(inside):
        frame = frame.f_back
        level += 1
    warnings.warn(message, category, stacklevel=level)
