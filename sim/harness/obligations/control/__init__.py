"""Obligations of the control plane, derived from `specs/sandbox.openapi.yaml`."""
