"""The charge service: it receives requests and events, writes one row for each change, and requests what follows."""
