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
