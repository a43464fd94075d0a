"""The contract: an OpenAPI document with its overlays, read strictly and compiled once into plain values."""
