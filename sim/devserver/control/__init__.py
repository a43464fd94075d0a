"""The control plane: the operations of `specs/sandbox.openapi.yaml`."""
