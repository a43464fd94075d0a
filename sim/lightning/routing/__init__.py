"""Routing: edge costs, paths, and what payers remember of failures."""
