"""Seeded defects: a catalogue of defects of a charge service that can be planted to test the harness."""
