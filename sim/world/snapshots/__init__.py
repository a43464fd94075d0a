"""Copies of a world: what a snapshot contains, how a fork is made, how a saved sandbox is read."""
