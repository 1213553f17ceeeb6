"""Folders of a model whose nodes were on workers."""

import json

import numpy as np
import pytest

import ebboost as eb
from tests.sharded import COLUMNS, SETTINGS


@pytest.fixture(scope="module")
def folder(sharded_nodes, tmp_path_factory):
    """The folder of a saved model."""
    path = tmp_path_factory.mktemp("saved") / "model"
    sharded_nodes.fit(eb.EBBSRegressor(3, **SETTINGS)).save(path)
    return path


def test_its_model_file_is_the_model_without_nodes(folder, sharded_nodes):
    model = eb.load(folder / "model.ebb")
    assert model.state_.n_nodes == 0
    nodes, edges = sharded_nodes.lazy
    new = {"graph": sharded_nodes.graph, "new_labels": ([], [])}
    np.testing.assert_allclose(
        model.predict(nodes[COLUMNS], graph=edges).compute(),
        model.predict(sharded_nodes.frame[COLUMNS], **new),
    )


@pytest.mark.parametrize("change", ["without a shard", "of another save", "half a shard"])
def test_a_folder_that_is_not_complete_is_rejected(folder, change):
    manifest = folder / "manifest.json"
    shard = folder / "shard-00001.ebb"
    text, content = manifest.read_text(), shard.read_bytes()
    document = json.loads(text)
    try:
        if change == "without a shard":
            manifest.write_text(json.dumps(document | {"shards": document["shards"][:1]}))
        elif change == "of another save":
            manifest.write_text(json.dumps(document | {"save": "another"}))
        else:
            shard.write_bytes(content[: len(content) // 2])
        with pytest.raises(eb.ModelFileError):
            eb.load(folder)
    finally:
        manifest.write_text(text)
        shard.write_bytes(content)
