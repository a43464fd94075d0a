"""TinyDB's own interface over the store: ordinary TinyDB tables, queries and files. The service does not need it."""
