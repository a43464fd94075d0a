"""Charges and Static Charges: their lifecycle, their LNURL-pay endpoints, their wire format and their lists."""
