"""One simulated world: its configuration, clock, event journal, transactions and snapshots."""
