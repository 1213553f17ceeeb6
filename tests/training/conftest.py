import pytest

from tests.training.problems import GRAPH, X, Y, fingerprint, regressor


@pytest.fixture(scope="session")
def uninterrupted():
    """Fingerprint of the regressor fitted without interruption."""
    return fingerprint(regressor().fit(X, Y, graph=GRAPH))
