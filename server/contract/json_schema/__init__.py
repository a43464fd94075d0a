"""JSON Schema: validators of the schemas of a document, the dialect of their patterns, and the errors of a value."""
