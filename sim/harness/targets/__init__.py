"""Targets: the services that the harness tests, in process or over HTTP."""
