"""Injected faults of the service: what goes wrong with the requests of a client."""
