"""The connection to a served sandbox: its client, and the time limit of its requests."""
