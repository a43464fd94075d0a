"""The state of background traffic, a part of the engine's: `leyden.lightning.payer.background_traffic` has the rest."""

from __future__ import annotations

from typing import NamedTuple


class BackgroundState(NamedTuple):
    """When the next background payment and the end of the shop's hour are due (ms; None: never), what it still has
    to spend (msat), and what has happened: payments, the amounts that the shop spent and swapped out, the fees that it
    paid for that, and those that it earned with the payments of others (msat).
    """

    next_payment_ms: int | None = None
    next_hour_ms: int | None = None
    unspent_msat: int = 0
    succeeded: int = 0
    failed: int = 0
    spent_msat: int = 0
    swapped_msat: int = 0
    fees_msat: int = 0
    earned_msat: int = 0
