"""Obligations of machines that fail: disks, power cuts and processes, and what is pending when they do."""
