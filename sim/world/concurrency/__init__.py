"""Requests and moves of time that meet in one world of a server."""
