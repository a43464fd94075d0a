"""Engines: the random walk, the state machine, Schemathesis, and the campaign that runs them."""
