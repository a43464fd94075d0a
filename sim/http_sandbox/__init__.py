"""A client of a sandbox on a running server, with the names of `Sandbox`."""

from leyden.http_sandbox.sandbox import HttpSandbox, create_sandbox, delete_sandboxes

__all__ = ["HttpSandbox", "create_sandbox", "delete_sandboxes"]
