"""Runs: the service under test, its configuration, and cases saved as files."""
