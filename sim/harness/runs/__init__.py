"""Runs: steps done with all checks, cases in files, and their descriptions."""
