"""Simulated customers: who they are, when they come, what they request from the service, and how they pay."""
