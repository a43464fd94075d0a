"""The console: one static page that operates a served sandbox."""
