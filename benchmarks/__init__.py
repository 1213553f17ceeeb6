"""The paper's tables and figures, with its rivals beside us: ``python -m benchmarks --help``.

A package beside the library, which it imports as a user would. Data flows one way: data → plan → runner (one process per
run) → one SQLite file → tables, figures, page.
"""
