import signal

import pytest

from tests.training.problems import GRAPH, X, Y, fingerprint, regressor


@pytest.fixture(scope="session")
def uninterrupted():
    """Fingerprint of the regressor fitted without interruption."""
    return fingerprint(regressor().fit(X, Y, graph=GRAPH))


@pytest.fixture(autouse=True)
def _ctrl_c_raises():
    """The handler of an interactive process; one in the background may ignore the signal."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
