"""The conformance run: a fixed list of cases that covers every declared item."""
