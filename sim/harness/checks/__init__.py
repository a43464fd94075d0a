"""Checks of single responses, and the violations that they raise."""
