"""Payers as in LND, LDK and Core Lightning: what each learns, and how it chooses routes."""
