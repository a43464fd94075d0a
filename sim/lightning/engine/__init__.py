"""The network engine: HTLCs that move from hop to hop, event by event."""
