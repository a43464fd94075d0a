"""The sandbox: what a notebook, a test or a program holds in its hand."""

from leyden.sandbox.sandbox import Sandbox

__all__ = ["Sandbox"]
