"""Benchmarks, each compared with a ceiling or another implementation in the same run: `python -m tests.benchmarks`."""
