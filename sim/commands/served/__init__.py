"""The commands for a served sandbox, each of which sends requests to it."""
