"""Injected faults of callbacks: what they match, what they do to an attempt, and what has become of it."""
