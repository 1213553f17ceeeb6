"""Ctrl-C while the command line imports its modules, before ``__main__`` runs."""

import os
import signal
import sys
from itertools import pairwise


def stop(*_: object) -> None:
    """End the process with the message of commands and without a traceback."""
    os.write(2, b"ebboost: stopped; no file was changed.\n")
    os._exit(130)


def is_command() -> bool:
    """Whether the process is the command ``ebboost`` or ``python -m ebboost``."""
    is_module = ("-m", "ebboost") in pairwise(sys.orig_argv) and sys.argv[:1] == ["-m"]
    name = os.path.basename(sys.argv[0]) if sys.argv else ""
    return is_module or name in ("ebboost", "ebboost.exe")


if is_command() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, stop)
