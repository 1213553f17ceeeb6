"""Settings of all tests."""

import os
import signal

import pytest

from ebboost.training import defaults

ALL_FOLDS = defaults.FOLDS
FEW_FOLDS = ((10**9, 2),)


@pytest.fixture(scope="session", autouse=True)
def few_folds():
    """Train two models in place of five to eight: most tests are not about their number."""
    with pytest.MonkeyPatch.context() as patch:
        if "EBBOOST_SLOW_TESTS" not in os.environ:
            patch.setattr(defaults, "FOLDS", FEW_FOLDS)
        yield


@pytest.fixture(scope="session", autouse=True)
def ctrl_c():
    """Handle Ctrl-C, also where the tests were started in the background, with it ignored."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def all_folds(monkeypatch):
    """Train as many models as users do."""
    monkeypatch.setattr(defaults, "FOLDS", ALL_FOLDS)


@pytest.fixture(scope="module")
def two_workers():
    """A Dask client with two workers in threads."""
    pytest.importorskip("xgboost")
    distributed = pytest.importorskip("distributed")
    options = {"processes": False, "dashboard_address": ":0", "threads_per_worker": 1}
    with distributed.Client(n_workers=2, **options) as client:
        yield client


@pytest.fixture(scope="module")
def sharded_nodes(two_workers, tmp_path_factory):
    """Nodes whose table and edges workers read."""
    from tests.sharded import Nodes

    return Nodes(tmp_path_factory.mktemp("graph"))
