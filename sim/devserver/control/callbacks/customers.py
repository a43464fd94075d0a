"""The customers of traffic who are still to come: the Charge that one is shown can send callbacks."""

from __future__ import annotations

from urllib.parse import urlsplit

from leyden.devserver.control.callbacks.dead_ends import has_ended
from leyden.devserver.control.callbacks.unpaid_charges import never_comes, until_text, ways_of
from leyden.distributions import Distribution
from leyden.lightning.payer.payment_requests import strip_scheme
from leyden.server.charges.lnurl import LnurlError, decode_lnurl
from leyden.server.charges.rows import StaticChargeRow
from leyden.world.traffic.rows import TrafficRow
from leyden.world.world import World

_NEVER_PAY = frozenset({"late", "never", "underpays", "fails"})  # behaviours, of which none completes a Charge


def next_customer(world: World, event: str | None, static_id: str | None = None) -> tuple[int, str] | None:
    """The next customer who is shown a Charge that sends callbacks with this event: the instant, and what lets the
    customer come; None if there is none. `static_id` leaves the customers of one Static Charge."""
    found = []
    for row in world.traffic.rows if len(world.traffic.rows) else ():  # most sandboxes have none
        due = [one["due_at"] for one in world.traffic.returns.find("traffic", row["id"])]
        due += [] if row["next_at"] is None else [row["next_at"]]
        if due and not never_comes(min(due)) and _sends(world, row, event, static_id):
            found.append((min(due), row["id"]))
    if not found:
        return None
    at_ms, number = min(found)
    return at_ms, f"{until_text(world, at_ms)}, when the next customer of traffic {number} comes, and wait again"


def _sends(world: World, row: TrafficRow, event: str | None, static_id: str | None) -> bool:
    settings = row["settings"]
    to, pays = settings.get("to"), "" if _never_pay(settings["behaviour"]) else "yes"
    if to is None:
        url, operation = settings["callbackUrl"], "createCharge"
        return static_id is None and url is not None and bool(ways_of(world, operation, event, pays, "yes", ""))
    static = _static_charge(world, to)
    if static is None or static["callback_url"] is None or has_ended(world, static):
        return False
    is_wanted = static_id in (None, static["id"])
    return is_wanted and bool(ways_of(world, "createStaticCharge", event, pays, "yes", ""))


def _never_pay(behaviour: Distribution) -> bool:
    """Whether all customers of this distribution leave their Charges unpaid."""
    if behaviour[0] == "const":
        return behaviour[1] in _NEVER_PAY
    return behaviour[0] == "choice" and all(value in _NEVER_PAY for value, weight in behaviour[1] if weight)


def _static_charge(world: World, to: str) -> StaticChargeRow | None:
    """The Static Charge that an LNURL or a Lightning address belongs to."""
    statics, text = world.service.static_charges, strip_scheme(to).lower()
    if "@" in text:
        return statics.by_user(text.partition("@")[0])
    try:
        path = urlsplit(decode_lnurl(text)).path
    except LnurlError:
        return None
    return statics.static_charges.row(path.rpartition("/")[2])
