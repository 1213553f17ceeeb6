"""A model of a sharded fit as a folder: ``model.ebb``, a file of each worker, and a manifest.

``model.ebb`` is the model without nodes. Each worker writes the arrays of its own nodes and labels,
under the names that a model file of one process has for them, and the rows of its graph. The
manifest is written last: a folder without it is not complete.
"""

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ebboost.backends.dask.cluster import Membership
from ebboost.backends.dask.groups import StoredRows
from ebboost.backends.dask.halo import StoredGraph
from ebboost.backends.dask.worker import communicator
from ebboost.data import archive
from ebboost.data.schema import require
from ebboost.graph import Graph
from ebboost.model import _untrusted as untrusted
from ebboost.model.container import FileFormat, pack_arrays, unpack_arrays
from ebboost.model.shards import Shards, SpreadShard
from ebboost.model.state import FittedState, ValidationRecord

MODEL = "model.ebb"
MANIFEST = "manifest.json"
FORMAT = {"format": "ebboost model folder", "format_version": 1}
SHARD = FileFormat("ebboost shard", 1)
NODE_ARRAYS = ("scores", "propagated_scores", "raw_predictions")
SPREAD_NODES = ("factor", "field_variance")
SPREAD_LABELS = ("deviation", "size")


@contextmanager
def save_shards(shards: Shards, folder: str) -> Iterator[FittedState]:
    """Have every worker write its nodes to a folder; yields the model without nodes, to be saved.

    The manifest is written afterwards.
    """
    os.makedirs(folder, exist_ok=True)
    if os.path.exists(os.path.join(folder, MANIFEST)):
        raise FileExistsError(f"{folder} holds a model: remove it, or name another folder.")
    spread = shards.spread
    task = (os.path.abspath(folder), str(uuid4()))
    cluster = shards.cluster
    columns = {"spread": [[one] for one in spread.local]}
    tasks = [task] * len(cluster.blocks)
    names = cluster.client.gather(cluster.run(_save_in_worker, tasks, columns, {}))
    document = FORMAT | {"save": task[1], "n_nodes": shards.n_nodes, "shards": names}
    state = spread.state
    if state.spread is not None:
        none: dict[str, Any] = dict.fromkeys((*SPREAD_NODES, *SPREAD_LABELS), np.zeros(0))
        light = replace(state.spread, **none)
        state = replace(state, spread=light)
    yield replace(state, validation=ValidationRecord.empty(state.n_outputs), shards=None)
    with archive.atomic_write(os.path.join(folder, MANIFEST)) as temporary:
        Path(temporary).write_text(json.dumps(document))


def _save_in_worker(
    task: tuple[str, str], blocks: Sequence[Any], columns: dict[str, Any], membership: Membership
) -> str:
    """Write the nodes of this worker; return the name of the file."""
    folder, save = task
    own = membership.partition.positions(membership.rank)
    state: FittedState = blocks[0].nodes.state
    spread: SpreadShard = columns["spread"][0]
    arrays: dict[str, Any] = {"nodes": own, "is_evaluation": spread.is_evaluation.astype(int)}
    arrays |= _edges(blocks[0].nodes.graph, own, membership)
    for number, one in enumerate(state.candidates):
        prefix = f"member{number}-" if number else ""
        arrays |= {f"{prefix}{name}": getattr(one, name) for name in NODE_ARRAYS}
    if state.offset is not None:
        arrays["offset"] = state.offset
    labels = replace(state.labels, nodes=own[state.labels.nodes])
    records: dict[str, Any] = {"label": labels, "validation": spread.sample.validation}
    for prefix, record in records.items():
        arrays |= {f"{prefix}_{one.name}": getattr(record, one.name) for one in fields(record)}
    if spread.sample.spread is not None:
        arrays |= {f"spread_{name}": getattr(spread, name)[:, 0] for name in SPREAD_NODES}
        of_labels = {name: getattr(spread.sample.spread, name) for name in SPREAD_LABELS}
        arrays |= {f"spread_{name}": values for name, values in of_labels.items()}
    name = f"shard-{membership.rank:05d}.ebb"
    content = {"arrays.npz": pack_arrays({name: np.asarray(one) for name, one in arrays.items()})}
    SHARD.write(os.path.join(folder, name), {"save": save}, content)
    return name


def _edges(
    stored: StoredGraph | StoredRows, own: NDArray[np.int64], membership: Membership
) -> dict[str, Any]:
    """The rows of the graph, or the group of each row; groups and their edges are in the model."""
    if isinstance(stored, StoredRows):
        return {"group_of": stored.group_of}
    with communicator(membership) as workers:
        graph = stored.connect(workers)
        neighbors = graph.halo.extend(own)
    rows = graph.adjacency.tocsr()
    arrays = {"graph_data": rows.data.astype(np.float64), "graph_indptr": rows.indptr}
    if stored.vectors is not None:
        arrays["vectors"] = stored.vectors
    return arrays | {"graph_indices": neighbors[rows.indices]}


def read_shards(folder: str, model: untrusted.Arrays) -> untrusted.Arrays:
    """Return the arrays of all nodes, under their names in a model file, from those of workers.

    ``model`` are those of the model without nodes.
    """
    document = archive.parse_json(Path(folder, MANIFEST).read_bytes())
    is_known = isinstance(document, dict) and FORMAT.items() <= document.items()
    require(is_known, f"{MANIFEST} must say {FORMAT}")
    parts = []
    for name in document["shards"]:
        path = os.path.join(folder, os.path.basename(name))
        manifest, entries = SHARD.read(path)
        require(manifest["save"] == document["save"], f"{name} is of another model")
        limit = archive.max_unpacked_size(os.path.getsize(path))
        parts.append(unpack_arrays(entries["arrays.npz"], limit))
    names = set(parts[0])
    require(all(set(part) == names for part in parts), "shards must have the same arrays")
    n_nodes = document["n_nodes"]
    nodes = np.concatenate([untrusted.node_indices(one, "nodes", n_nodes) for one in parts])
    require(np.unique(nodes).size == nodes.size == n_nodes, "shards must have each node once")
    orders = {
        "label_": np.argsort(np.concatenate([one["label_nodes"] for one in parts])),
        "validation_": np.argsort(
            np.concatenate([one["is_evaluation"] for one in parts]), kind="stable"
        ),
    }
    orders |= {f"spread_{name}": orders["validation_"] for name in SPREAD_LABELS}
    orders[""] = np.argsort(nodes)
    arrays: untrusted.Arrays = {}
    for name in names - {"nodes", "is_evaluation", "graph_data", "graph_indices", "graph_indptr"}:
        order = next(order for prefix, order in orders.items() if name.startswith(prefix))
        values = np.concatenate([one[name] for one in parts])
        require(len(values) == order.size, f"{name} must have {order.size} rows")
        arrays[name] = values[order]
    if "group_of" in arrays:
        groups = Graph(untrusted.csr(model, "groups", (model["groups_indptr"].size - 1,) * 2))
        graph = Graph.from_groups(arrays["group_of"], groups).adjacency
        return arrays | {f"graph_{part}": getattr(graph, part) for part in untrusted.CSR}
    shapes = [(len(one["nodes"]), n_nodes) for one in parts]
    rows = [untrusted.csr(one, "graph", shape) for one, shape in zip(parts, shapes, strict=True)]
    graph = sparse.csr_array(sparse.vstack(rows, format="csr")[orders[""]])
    graph.sort_indices()
    return arrays | {f"graph_{part}": getattr(graph, part) for part in untrusted.CSR}
