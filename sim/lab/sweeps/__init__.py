"""Sweeps: one function executed over a grid of scenarios."""
