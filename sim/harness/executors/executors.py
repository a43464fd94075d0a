"""Acts: what each step of a case does, to the model first and then to the service.

A step is a JSON object. `do` names the act; `as` gives what is made a label (`c1`, `s1`, `p1`), by which later steps
call it. A step that points at something that is not there does nothing, so that any part of a case is a case.
"""

from __future__ import annotations

from collections.abc import Mapping

from leyden.harness.executors.lnurl import invoice, terms, verify
from leyden.harness.executors.service import create_charge, create_static, get, list_all, odd_request, patch, wallet
from leyden.harness.executors.world import (
    advance,
    cancel,
    fail,
    fault,
    pay,
    receiver,
    replay,
    restart,
    rotate,
    settle,
    spare_key,
)
from leyden.harness.runs.run import Act

ACTS: Mapping[str, Act] = {
    "advance": advance,
    "cancel": cancel,
    "create_charge": create_charge,
    "create_static": create_static,
    "fail": fail,
    "fault": fault,
    "get": get,
    "invoice": invoice,
    "list": list_all,
    "odd": odd_request,
    "patch": patch,
    "pay": pay,
    "receiver": receiver,
    "replay": replay,
    "restart": restart,
    "rotate": rotate,
    "settle": settle,
    "spare_key": spare_key,
    "terms": terms,
    "verify": verify,
    "wallet": wallet,
}
