"""The rows of a world itself in its directory, besides the service's: its configuration, its time and its network."""
