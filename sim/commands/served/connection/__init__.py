"""The connection to a served sandbox: its client, and the stream of its events."""
