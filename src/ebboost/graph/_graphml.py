"""GraphML, read in one pass with expat: no tree is built, so a large file costs its edges and no more."""

import os
from typing import Any
from xml.parsers import expat

import numpy as np
from numpy.typing import NDArray


class _Reader:
    """Collects node ids, edges and edge weights while expat walks the file."""

    def __init__(self, weight: str | None) -> None:
        self.nodes: list[str] = []
        self.source: list[str] = []
        self.target: list[str] = []
        self.weights: list[float] = []
        self.directed = False
        self._weight_name = weight
        self._weight_key: str | None = None
        self._weight_default = 1.0
        self._inside: list[str] = []
        self._text: list[str] = []
        self._data_key: str | None = None
        self._depth_of_graphs = 0

    def start(self, name: str, attributes: dict[str, str]) -> None:
        name = name.rpartition(":")[2]
        self._inside.append(name)
        if name == "node":
            self.nodes.append(attributes["id"])
        elif name == "edge":
            self.source.append(attributes["source"])
            self.target.append(attributes["target"])
            self.weights.append(self._weight_default)
            self.directed |= attributes.get("directed") == "true"
        elif name == "hyperedge":
            raise ValueError(
                "it holds a hyperedge, which ties more than two nodes; write it as ordinary edges"
            )
        elif name == "data":
            self._data_key, self._text = attributes.get("key"), []
        elif name == "default":
            self._text = []
        elif name == "graph":
            self._depth_of_graphs += 1
            if self._depth_of_graphs > 1:
                raise ValueError("it holds more than one graph; keep one per file")
            self.directed |= attributes.get("edgedefault") == "directed"
        elif (
            name == "key"
            and attributes.get("attr.name", attributes.get("id")) == self._weight_name
            and attributes.get("for", "all") in ("edge", "all")
        ):
            self._weight_key = attributes["id"]
            self._data_key = attributes["id"]

    def text(self, text: str) -> None:
        if self._inside and self._inside[-1] in ("data", "default"):
            self._text.append(text)

    def end(self, name: str) -> None:
        name = self._inside.pop()
        parent = self._inside[-1] if self._inside else ""
        if name == "data" and parent == "edge" and self._data_key == self._weight_key is not None:
            self.weights[-1] = float("".join(self._text))
        elif (
            name == "default" and parent == "key" and self._data_key == self._weight_key is not None
        ):
            self._weight_default = float("".join(self._text))
        elif name == "key":
            self._data_key = None


def read_graphml(
    path: str | os.PathLike[str], weight: str | None
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[np.float64] | None, bool]:
    """Return node ids, sources and targets as text, weights (None without that attribute), and if it is directed."""
    reader = _Reader(weight)
    parser = expat.ParserCreate()
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.text
    try:
        with open(path, "rb") as file:
            parser.ParseFile(file)
    except (expat.ExpatError, ValueError, KeyError) as error:
        what = (
            f"an element lacks its attribute {error}" if isinstance(error, KeyError) else str(error)
        )
        line = parser.CurrentLineNumber
        raise ValueError(
            f"{os.fspath(path)} is not a GraphML file we can read, at line {line}: {what}."
        ) from None
    if not reader._depth_of_graphs:
        raise ValueError(f"{os.fspath(path)} is XML but not GraphML: there is no <graph> in it.")
    weights = None if reader._weight_key is None else np.asarray(reader.weights, dtype=np.float64)
    nodes, source, target = (
        np.asarray(t, dtype=object) for t in (reader.nodes, reader.source, reader.target)
    )
    return nodes, source, target, weights, reader.directed


def whole_numbers(texts: NDArray[Any]) -> NDArray[np.int64] | None:
    """GraphML knows only text; ids that are all whole numbers as numbers, otherwise None."""
    try:
        numbers = np.array([int(text) for text in texts.tolist()], dtype=np.int64)
    except (ValueError, OverflowError):
        return None
    same = all(
        str(number) == text for number, text in zip(numbers.tolist(), texts.tolist(), strict=True)
    )
    return numbers if same else None  # "007" is a name, not a number
