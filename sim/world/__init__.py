"""One simulated world: its configuration, clock, random streams, event journal, transactions and snapshots."""
