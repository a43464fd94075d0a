"""Obligations: what a harness must ask, derived from the OpenAPI document and from lists of its own.

An obligation is one place of the document with one boundary or one class of values. The reference model decides which
answer is right; it does not decide what is asked.
"""
