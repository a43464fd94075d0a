"""Payers: payment requests, payment sessions and scripted payments."""
