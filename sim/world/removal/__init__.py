"""Rows that ended and are removed: the bound, the order in which they ended, and how many there were."""
