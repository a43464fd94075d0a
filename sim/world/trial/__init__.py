"""The trial of an edited document before it is served, and the paths that no document can have."""
