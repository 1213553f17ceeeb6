"""Settings of all tests."""

import signal

import pytest
from hypothesis import settings

settings.register_profile("busy machine", deadline=None)
settings.load_profile("busy machine")


@pytest.fixture(scope="session", autouse=True)
def ctrl_c():
    """Handle Ctrl-C, also where the tests were started in the background, with it ignored."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
