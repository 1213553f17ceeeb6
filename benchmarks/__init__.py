"""What ebboost is worth: its error and time beside those of other methods.

``python -m benchmarks --help``. Every run is one line of ``results/results.jsonl``, and every table
of the README and the pages is made from that file.
"""
