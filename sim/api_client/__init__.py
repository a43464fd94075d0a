"""What all clients of a service over HTTP share: its document, the header of its key, and bounds of its responses."""
