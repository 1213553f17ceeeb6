"""GraphML, read in one pass with expat: memory is needed for the edges, not for a document tree."""

import os
from typing import NamedTuple
from xml.parsers import expat

import numpy as np
from numpy.typing import NDArray


class GraphML(NamedTuple):
    """Nodes and edges of a GraphML file; ids are text, weight is None if there is no such key."""

    nodes: NDArray[np.object_]
    source: NDArray[np.object_]
    target: NDArray[np.object_]
    weight: NDArray[np.float64] | None
    directed: bool


class _Handler:
    """Callbacks of expat that collect node ids, edges and edge weights."""

    def __init__(self, weight: str | None) -> None:
        self.nodes: list[str] = []
        self.source: list[str] = []
        self.target: list[str] = []
        self.weights: list[float] = []
        self.weight_key: str | None = None
        self.directed = False
        self.n_graphs = 0
        self._weight_name = weight
        self._default = 1.0
        self._path: list[str] = []
        self._key: str | None = None  # of the <key> or <data> that is being read
        self._text = ""

    def start(self, name: str, attributes: dict[str, str]) -> None:
        name = name.rpartition(":")[2]
        self._path.append(name)
        self._text = ""
        if name == "node":
            self.nodes.append(attributes["id"])
        elif name == "edge":
            self.source.append(attributes["source"])
            self.target.append(attributes["target"])
            self.weights.append(self._default)
            self.directed |= attributes.get("directed") == "true"
        elif name == "data":
            self._key = attributes.get("key")
        elif name == "key":
            self._key = attributes["id"]
            is_weight = attributes.get("attr.name", self._key) == self._weight_name
            if is_weight and attributes.get("for", "all") in ("edge", "all"):
                self.weight_key = self._key
        elif name == "graph":
            self.n_graphs += 1
            self.directed |= attributes.get("edgedefault") == "directed"
            if self.n_graphs > 1:
                raise ValueError("there is more than one graph; write one file for each")
        elif name == "hyperedge":
            raise ValueError("hyperedges are not supported; write them as edges of two nodes")

    def text(self, text: str) -> None:
        if self._path[-1] in ("data", "default"):
            self._text += text

    def end(self, _: str) -> None:
        element = self._path[-2:]
        self._path.pop()
        if self._key is None or self._key != self.weight_key:
            return
        if element == ["edge", "data"]:
            self.weights[-1] = float(self._text)
        elif element == ["key", "default"]:
            self._default = float(self._text)

    def doctype(self, *_: object) -> None:
        raise ValueError("document type declarations, which may define entities, are not supported")


def read_graphml(path: str | os.PathLike[str], weight: str | None) -> GraphML:
    """Read the nodes and edges of a GraphML file; ``weight`` names the edge attribute to read."""
    handler = _Handler(weight)
    parser = expat.ParserCreate()
    parser.StartElementHandler = handler.start
    parser.EndElementHandler = handler.end
    parser.CharacterDataHandler = handler.text
    parser.StartDoctypeDeclHandler = handler.doctype
    try:
        with open(path, "rb") as file:
            parser.ParseFile(file)
    except (expat.ExpatError, ValueError, KeyError) as error:
        reason = f"an element lacks its attribute {error}" if type(error) is KeyError else error
        where = f"{os.fspath(path)} cannot be read as GraphML, line {parser.CurrentLineNumber}"
        raise ValueError(f"{where}: {reason}.") from None
    if not handler.n_graphs:
        raise ValueError(f"{os.fspath(path)} is XML but not GraphML: it has no <graph>.")
    ids = (handler.nodes, handler.source, handler.target)
    weights = None if handler.weight_key is None else np.asarray(handler.weights, dtype=float)
    nodes, source, target = (np.asarray(text, dtype=object) for text in ids)
    return GraphML(nodes, source, target, weights, handler.directed)


def integer_ids(texts: NDArray[np.object_]) -> NDArray[np.int64] | None:
    """Return ids as integers if all of them are written as such ("007" is not), otherwise None."""
    try:
        numbers = np.array([int(text) for text in texts.tolist()], dtype=np.int64)
    except (ValueError, OverflowError):
        return None
    return numbers if [str(number) for number in numbers.tolist()] == texts.tolist() else None
