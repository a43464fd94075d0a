"""The names of payers, as the condition `payer` has them."""

from __future__ import annotations

LEYDEN, LND, LND_BIMODAL, LDK, CLN = "leyden", "lnd", "lnd-bimodal", "ldk", "cln"
PAYER_NAMES = (LEYDEN, LND, LND_BIMODAL, LDK, CLN)
