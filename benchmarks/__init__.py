"""Tables and figures of the paper and its comparisons: ``python -m benchmarks --help``.

A package next to the library that uses its public API. Data flows one way: data → plan → runner
(one process per run) → one SQLite file → tables, figures, page.
"""
