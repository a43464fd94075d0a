"""Leyden's own version; the contract's stands in its document."""

VERSION = "0.1.0"
