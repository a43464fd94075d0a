"""The client check: runs a user's client once for each fault of the service, and grades what it does."""
