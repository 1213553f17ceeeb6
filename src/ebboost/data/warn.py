"""Warnings that point at the user's line."""

import contextlib
import inspect
import os
import warnings

_PACKAGE = os.path.join(os.path.dirname(os.path.dirname(__file__)), "")


def warn_caller(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the innermost line outside of this package, such as ``model.fit(...)``."""
    inside = (_PACKAGE, contextlib.__file__)
    frames = inspect.stack(context=0)
    outside = (level for level, frame in enumerate(frames) if not frame.filename.startswith(inside))
    warnings.warn(message, category, stacklevel=next(outside, 0) + 1)
