"""The defect gallery: a catalogue of things that can be wrong with a charge service, each of which can be planted."""
