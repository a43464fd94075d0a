"""Mutation testing: a module is changed in one small place at a time, and something must notice each time."""
