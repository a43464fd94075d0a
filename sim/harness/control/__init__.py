"""Checks of the control plane against its document: lists and their filters, and state that is kept over a restart."""
