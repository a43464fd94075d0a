"""Documents as they are written: strict YAML, overlays, and the check of every keyword."""
