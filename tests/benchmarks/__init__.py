"""What Leyden costs, each figure beside its ceiling or its rival of the same run: `python -m tests.benchmarks`."""
