"""The receiver: the shop's node and its invoices."""
