"""A sandbox with a clock that starts at a round instant, and Charges whose callbacks are due now."""

from __future__ import annotations

from leyden import Sandbox

START = "2030-01-01T00:00:00Z"
SHOP = "http://shop.localhost/paid"


def pay(sandbox: Sandbox) -> str:
    """Pay a Charge; its callback is due now. Returns its id."""
    charge = sandbox.charges.create(amount="1000", description="tea", callbackUrl=SHOP)
    sandbox.wallet("ana").pay(charge)
    sandbox.advance("0s")
    return str(charge.id)
