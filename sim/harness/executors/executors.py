"""All executors by the name of the step.

An executor does a step, first to the model and then to the service, and compares the results. It returns False, without
any effect, if what the step refers to does not exist; so any subset of the steps of a case is a case.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from leyden.harness.executors.lnurl import invoice, terms, verify
from leyden.harness.executors.service import (
    create_charge,
    create_static,
    get,
    list_all,
    patch,
    send_odd_request,
    wallet,
)
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
from leyden.harness.session.session import Session
from leyden.harness.steps import Step

Executor = Callable[[Session, Step], bool]
EXECUTORS: Mapping[str, Executor] = {
    "advance": advance,
    "cancel": cancel,
    "create_charge": create_charge,
    "create_static": create_static,
    "fail": fail,
    "fault": fault,
    "get": get,
    "invoice": invoice,
    "list": list_all,
    "odd": send_odd_request,
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
