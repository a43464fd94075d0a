"""Sweeps: one function run over a grid of scenarios."""
