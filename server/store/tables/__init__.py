"""The rows of tables in memory: unique keys, indexes, tallies, packed rows, and how a commit is rolled back."""
