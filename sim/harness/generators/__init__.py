"""Generators: which step comes next, and with which values."""
