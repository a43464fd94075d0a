"""Topologies: channel graphs, generated or imported, and channels that open and close."""
