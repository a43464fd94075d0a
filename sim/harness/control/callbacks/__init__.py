"""Checks of the control plane about callbacks: waits, inboxes, replays and secrets."""
