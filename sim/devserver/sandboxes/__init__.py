"""Sandboxes that a running server creates, lists, resets and removes over HTTP: `specs/server.openapi.yaml`."""
