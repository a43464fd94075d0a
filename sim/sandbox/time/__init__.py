"""The time of a sandbox: moves, spans and instants, scheduled actions, runs whose finished rows go to files."""
