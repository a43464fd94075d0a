"""The moves of time of a world: which thread moves it, and how a thread waits for receivers."""
