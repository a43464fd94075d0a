"""JSON Schema: the validators of the schemas of a document, and the dialect of their patterns."""
