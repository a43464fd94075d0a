"""Generators: the next step and its values, chosen at random."""
