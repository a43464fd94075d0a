"""Callbacks in the sandbox: transport, injected faults, built-in receivers and their inboxes."""
