"""The requests of a sandbox over HTTP: its server, its client, and the bytes of a request."""
