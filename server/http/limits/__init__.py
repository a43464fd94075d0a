"""Bounds of requests: the length of a body, and the number of requests without a key."""
