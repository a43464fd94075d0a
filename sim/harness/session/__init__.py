"""Sessions: a target and the reference model side by side, and the comparison of the two."""
