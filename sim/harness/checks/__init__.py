"""Checks: one response, one observation or a whole run compared with the reference model."""
