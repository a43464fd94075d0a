"""BOLT 11 invoices: encoding, signing and decoding."""
