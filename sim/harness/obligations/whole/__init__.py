"""Obligations of what is done with a whole sandbox: each operation on it with each kind of state that it has."""
