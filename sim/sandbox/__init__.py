"""The sandbox: the whole charge service with its network, payers, receivers and clock as one Python object."""

from leyden.sandbox.sandbox import Sandbox

__all__ = ["Sandbox"]
