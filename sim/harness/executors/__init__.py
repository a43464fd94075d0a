"""Executors: how each step of a case is carried out on the model and on the service."""
