"""The network as a user holds it: balances, operations, tables, snapshots and its rows on disk."""
