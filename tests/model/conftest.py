import pytest

import ebboost as eb
from tests.model.problems import fit


@pytest.fixture(scope="session")
def model_file(tmp_path_factory):
    """The bytes of a model file."""
    path = tmp_path_factory.mktemp("models") / "model.ebb"
    fit().save(path)
    return path.read_bytes()


@pytest.fixture(scope="session")
def small_file(tmp_path_factory):
    """The bytes of a model file with a graph, as few as there can be."""
    path = tmp_path_factory.mktemp("small") / "model.ebb"
    model = eb.EBBSRegressor(1, smoothing=None, labels="none", n_jobs=1, random_state=0)
    graph = eb.Graph.from_edges([0, 1], [1, 2], n_nodes=4)
    model.fit([[0.0], [1.0], [2.0], [3.0]], [0.0, 1.0, 2.0, 3.0], graph=graph).save(path)
    return path.read_bytes()
