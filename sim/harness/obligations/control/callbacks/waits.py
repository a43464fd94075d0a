"""Obligations of waits for deliveries, with each combination of their conditions, and of links of each length."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

from leyden.harness.control.documents import control_document, resolved
from leyden.harness.model.faults import EVENTS
from leyden.harness.obligations.control.setups import PAUSED
from leyden.harness.obligations.obligation import Obligation

_LENGTHS = range(1, 11)  # of a name: each number of bits that the last character of an LNURL may have


def wait_obligations() -> Iterator[Obligation]:
    """Each status with each event, of all Charges and of one."""
    source = "sandbox.openapi.yaml#/components/schemas/Wait"
    schema = resolved(control_document(), {"$ref": "#/components/schemas/Wait"})
    for status, event, is_of_charge in product(schema["properties"]["status"]["enum"], (None, *EVENTS), (False, True)):
        step: Any = {"do": "control_wait", "status": status}
        step |= {"event": event} if event else {}
        step |= {"is_of_charge": True} if is_of_charge else {}
        case = f"{status}, {event or 'any event'}, {'one Charge' if is_of_charge else 'any Charge'}"
        yield Obligation("waitForDeliveries", "wait-conditions", case, source, (step,), setup="control-waits")


def link_obligations() -> Iterator[Obligation]:
    """Public URLs whose lengths follow each other."""
    source = "#/components/schemas/StaticCharge/properties/invoice"
    for length in _LENGTHS:
        url = f"http://{'s' * length}.localhost"
        step: Any = {"do": "control_links", "options": [*PAUSED, "--public-url", url]}
        yield Obligation("createStaticCharge", "link-length", url, source, (step,), setup="links-changed")
