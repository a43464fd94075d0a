"""Obligations of the control plane about callbacks: waits, inboxes, replays, secrets and addresses."""
