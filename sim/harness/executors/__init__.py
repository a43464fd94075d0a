"""Executors: how each step is done to the model and to the service."""
