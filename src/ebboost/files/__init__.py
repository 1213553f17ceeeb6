"""Model files: a fitted model as a zip of plain formats, without pickle, written atomically.

``manifest.json`` is the model; its arrays are entries in numpy's format, so that ``numpy.load``
reads them, and its trees are entries in the text or JSON of their library. Nothing in a file is
run. Checksums of a zip detect accidents; as anyone can compute them, everything is checked: layout
and sizes (``archive``), types and numbers (``codec``), trees (``trees``), and that all parts belong
together (``checks``).
"""

import json
import os
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from ebboost.files.archive import ModelFileError, parse_json, read_zip, write_zip
from ebboost.files.checks import check_model
from ebboost.files.codec import Decoder, Encoder, find_class
from ebboost.files.trees import require
from ebboost.model import Model

FORMAT = "ebboost model"
VERSION = 2  # that is written, and the only one that is read; 0.2.0 wrote 1

__all__ = ["ModelFileError", "load", "save"]


def save(model: Model, path: str | os.PathLike[str], table: bool) -> None:
    """Write a model to one file, with or without the table fitted on."""
    import ebboost

    encoder = Encoder()
    model = replace(model, geometry=None, table=model.table if table else None)
    encoded = encoder.encode(model, "model")
    head = {"format": FORMAT, "format_version": VERSION, "ebboost": ebboost.__version__}
    manifest = json.dumps({**head, "model": encoded}).encode()
    write_zip(os.fspath(path), {"manifest.json": manifest, **encoder.entries})


def load(path: str | os.PathLike[str], classes: Iterable[type]) -> Any:
    """Read an estimator with its model; ``classes`` are the user's own."""
    path = os.fspath(path)
    kinds = {kind.__name__: kind for kind in classes}
    if os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path):
        raise ModelFileError(f"{path} is not an ebboost model, but a device, pipe or socket.")
    with open(path, "rb") as file:
        content = file.read()
    try:
        entries = read_zip(content)
        manifest = parse_json(entries.pop("manifest.json"))
        require(manifest["format"] == FORMAT, "it has another format")
        version = manifest["format_version"]
        require(type(version) is int and version > 0, "format_version must be a number")
        if version != VERSION:
            remedy = "upgrade ebboost to read it" if version > VERSION else "fit the model again"
            text = f"{path} was written by {'a newer' if version > VERSION else 'an older'} ebboost"
            raise ModelFileError(f"{text} (format {version}; this one reads {VERSION}): {remedy}.")
        with np.errstate(all="ignore"):
            model = Decoder(entries, kinds).decode(manifest["model"])
            require(isinstance(model, Model), "it holds no model")
            kind = find_class(model.estimator, kinds)
            require(hasattr(kind, "from_model"), f"{model.estimator} is no estimator")
            kind(**model.parameters)._validate_params()
            same = kind._classes == (model.output.classes is not None)
            require(same, "classes must be those of a classifier")
            check_model(model)
    except (ModelFileError, MemoryError, ImportError):  # the last of a library that it needs
        raise
    except Exception as error:  # whatever changed bytes lead to
        text = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        text = "".join(c if c.isprintable() else "\ufffd" for c in text[:500]).rstrip(".")
        raise ModelFileError(
            f"{path} is not an ebboost model, or it is damaged ({text}): pass a complete file that "
            "model.save wrote."
        ) from error
    return kind.from_model(model)
