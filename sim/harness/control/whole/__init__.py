"""Checks of a whole sandbox: copies of it, and rows that end until a bound removes them."""
