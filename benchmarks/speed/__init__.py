"""Time and memory of a fit, as ratios within one run: ``python -m benchmarks.speed --help``.

Data flows one way: plan (which cases) → measuring (each fit in a process of its own) → one JSON
file → report.
"""
