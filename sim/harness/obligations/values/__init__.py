"""Obligations of values: fields, patterns, texts and queries, from the keywords of the document."""
