"""Settings of all tests."""

import signal

import pytest


@pytest.fixture(scope="session", autouse=True)
def ctrl_c():
    """Handle Ctrl-C, also where the tests were started in the background, with it ignored."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
