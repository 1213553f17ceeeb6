"""Ctrl-C while the command line imports its modules: a message in place of a traceback."""

import os
import signal
import sys
from itertools import pairwise


def stop(*_: object) -> None:
    """End the process."""
    os.write(2, b"ebboost: stopped; no file was changed.\n")
    os._exit(130)


def is_command() -> bool:
    """Whether the process is the command ``ebboost`` or ``python -m ebboost``."""
    name = os.path.basename(sys.argv[0]) if sys.argv else ""
    is_module = name == "-m" and ("-m", "ebboost") in pairwise(sys.orig_argv)
    return is_module or name in ("ebboost", "ebboost.exe")


if is_command() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, stop)
