"""What a world keeps in its directory besides the service's rows: its configuration, its time and its network."""
